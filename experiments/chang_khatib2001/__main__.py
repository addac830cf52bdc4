"""python -m experiments.chang_khatib2001: see ``rows``."""

import sys

from experiments.chang_khatib2001.rows import main
from experiments.peers.timing import with_one_blas_thread

if __name__ == "__main__":
    sys.exit(with_one_blas_thread("experiments.chang_khatib2001", main))
