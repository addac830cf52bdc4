"""``python -m dynsys`` is the command ``dynsys``.

The only file of this package that imports from ``problems``, and only when it is run: the
command line belongs to ``problems``, the name that people type is this one.
"""

if __name__ == "__main__":
    import sys

    from problems.command.main import main

    sys.exit(main())
