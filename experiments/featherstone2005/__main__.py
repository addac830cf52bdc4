"""python -m experiments.featherstone2005: see ``rows``."""

import sys

from experiments.featherstone2005.rows import main

if __name__ == "__main__":
    sys.exit(main())
