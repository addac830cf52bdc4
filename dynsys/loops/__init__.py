"""Dynamics of robots of hundreds to thousands of bodies as compiled loops over flat arrays.

The algorithms are those of :mod:`dynsys.recursive`; numba is imported and the loops compiled
when the first kernel is made, not on import.
"""

from dynsys.loops.loop_kernel import LoopInertiaMatrix, LoopKernel, crba, prefer_loops

__all__ = ["LoopInertiaMatrix", "LoopKernel", "crba", "prefer_loops"]
