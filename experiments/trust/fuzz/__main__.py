"""python -m experiments.trust.fuzz: see ``campaign``."""

import sys

from experiments.trust.fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main())
