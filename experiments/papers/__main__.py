"""python -m experiments.papers: see ``page``."""

import sys

from experiments.papers.page import main

if __name__ == "__main__":
    sys.exit(main())
