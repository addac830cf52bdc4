"""Sizes and states of figures 1 and 2, and the LU counts at each."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.nori2017_counts import (
    PublishedAndTrue,
    chain,
    forward_system,
    load_cell_system,
    lu_counts,
    permuted_lu,
    plain_lu,
)

__all__ = ["figure_1", "figure_2", "sizes", "states"]

SIZES_1 = (*range(2, 31), 40, 60, 80, 100)
SIZES_2 = (*range(4, 21), 30, 40, 60)
QUICK_1, QUICK_2 = (2, 5, 10), (8, 10)
STATES, QUICK_STATES, FEW_STATES = 100, 20, 3
"""Single states of LU scatter by 10 to 20 %: a mean of 20 would still be off by 5 %."""


def figure_1(n: int, states: int) -> tuple[PublishedAndTrue, PublishedAndTrue]:
    """LU and permuted LU of forward dynamics, chain of n bodies."""
    system = forward_system(chain(n))
    return (
        lu_counts(system, plain_lu(), states, discount_units=True),
        lu_counts(system, permuted_lu(), states, discount_units=True),
    )


def figure_2(n: int, states: int) -> tuple[PublishedAndTrue, PublishedAndTrue]:
    """LU and permuted LU with load cells at both ends of a chain of n bodies."""
    system = load_cell_system(chain(n, taper=1.0))
    return lu_counts(system, plain_lu(), states), lu_counts(system, permuted_lu(), states)


def sizes(quick: bool) -> tuple[Sequence[int], Sequence[int]]:
    """Numbers of bodies of figure 1 and of figure 2."""
    return (QUICK_1, QUICK_2) if quick else (SIZES_1, SIZES_2)


def states(n: int, quick: bool) -> int:
    """Number of random states; fewer beyond the sizes of the paper."""
    return QUICK_STATES if quick else STATES if n <= 30 else FEW_STATES
