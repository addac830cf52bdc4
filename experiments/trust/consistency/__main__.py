"""python -m experiments.trust.consistency: see ``study``."""

import sys

from experiments.trust.consistency.study import main

if __name__ == "__main__":
    sys.exit(main())
