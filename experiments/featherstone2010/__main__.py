"""python -m experiments.featherstone2010: see ``rows``."""

import sys

from experiments.featherstone2010.rows import main

if __name__ == "__main__":
    sys.exit(main())
