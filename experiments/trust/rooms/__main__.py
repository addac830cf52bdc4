"""python -m experiments.trust.rooms: see ``campaign``."""

import sys

from experiments.trust.rooms.campaign import main

if __name__ == "__main__":
    sys.exit(main())
