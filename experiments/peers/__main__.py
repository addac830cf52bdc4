"""python -m experiments.peers: see ``dynamics``."""

import sys

from experiments.peers.dynamics import main

if __name__ == "__main__":
    sys.exit(main())
