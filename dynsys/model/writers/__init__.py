"""Writing robots to files that :func:`dynsys.load` reads back."""
