"""python -m experiments.trust: see ``campaigns``."""

import sys

from experiments.trust.campaigns import main

if __name__ == "__main__":
    sys.exit(main())
