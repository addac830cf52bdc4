"""Vectors taken in: copied side by side by machine code that checks them on the way.

What is to be answered later must not depend on what became of the caller's arrays. The copy is
a kernel like any other: its ``fast`` says True if all is as kernels want it (type, length,
finite numbers that are not huge, quaternions of norm one), in a third of the time that NumPy
takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynsys.kernel.build import kernel_from
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature

__all__ = ["LARGEST", "taking_kernel"]

LARGEST = 1e150
"""Sum of the squares of all numbers that is taken in: their products must not overflow."""


def taking_kernel(
    inputs: Sequence[tuple[str, int]],
    quaternions: Sequence[slice] = (),
    *,
    cache: KernelCache | None = None,
) -> Kernel:
    """Kernel from vectors, named with their lengths, to one vector ``packed`` of all of them.

    ``quaternions`` are their places in it. Its answer is not finite where it must not be used.
    """
    size = sum(length for _, length in inputs)
    signature = Signature(tuple(inputs), (("packed", size),))
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (3, size)).astype(np.longdouble)
    for where in quaternions:
        states[:, where] /= np.linalg.norm(states[:, where].astype(float), axis=1)[:, None]
    places = tuple((where.start, where.stop) for where in quaternions)
    made_from = ("taking", places)
    return kernel_from(
        lambda: _program(size, quaternions), signature, states, made_from, cache=cache
    )


def _program(size: int, quaternions: Sequence[slice]) -> Program:
    """All inputs as outputs, guarded by the sum of their squares."""
    graph = Graph()
    x = graph.inputs(size)
    terms = [v * v for v in x]
    while len(terms) > 1:  # halves: no long chain of sums
        half = len(terms) // 2
        pairs = zip(terms[:half], terms[half : 2 * half], strict=True)
        terms = [*(a + b for a, b in pairs), *terms[2 * half :]]
    program = graph.program([*x, *terms])
    return guarded(program, quaternions, reciprocal_limits=[LARGEST] * len(terms))
