"""python -m experiments.drumwright2012: see ``rows``."""

import sys

from experiments.drumwright2012.rows import main
from experiments.peers.timing import with_one_blas_thread

if __name__ == "__main__":
    sys.exit(with_one_blas_thread("experiments.drumwright2012", main))
