"""Tiles of a matrix over freedoms, and which freedoms support the columns of a tile.

Columns (freedoms, or rows of a Jacobian) are taken in blocks of the vector width; the last
block overlaps its neighbour instead of reaching beyond the matrix: nothing needs padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.types import IntArray

__all__ = ["Supports", "block_starts", "own_supports", "union"]

Supports = Sequence[frozenset[int]]
"""Per column: the freedoms that support it."""


def block_starts(size: int, width: int) -> list[int]:
    """First columns of blocks that cover ``size`` >= ``width`` columns.

    >>> block_starts(10, 4)
    [0, 4, 6]
    """
    starts = list(range(0, size - width + 1, width))
    return starts if size % width == 0 else [*starts, size - width]


def own_supports(parent: IntArray) -> list[frozenset[int]]:
    """Freedoms that support each freedom, itself included."""
    supports: list[frozenset[int]] = []
    for i, above in enumerate(parent):
        supports.append(frozenset([i]) | (supports[above] if above >= 0 else frozenset()))
    return supports


def union(supports: Supports, first: int, count: int) -> frozenset[int]:
    """Freedoms that support any of ``count`` columns from ``first`` on."""
    return frozenset().union(*supports[first : first + count])
