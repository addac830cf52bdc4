"""Every table and figure of the papers with its state: ``docs/papers.md``."""
