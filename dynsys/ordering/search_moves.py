"""Neighbours of a pivot sequence: small changes that a local search tries.

A sequence is a list of pivots (row, column). Its irreducible blocks come one after the other
in block triangular order, and moves stay within a block: what substitution solves is settled. A
neighbour need not be an elimination (a pivot may have become structurally zero); the search
finds that out when it prices it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from dynsys.ordering.dulmage_mendelsohn import block_triangular
from dynsys.ordering.orders import Pattern, PivotOrder

__all__ = ["Pivots", "Segments", "as_order", "as_pivots", "by_blocks", "neighbour"]

Pivots: TypeAlias = list[tuple[int, int]]
Segments: TypeAlias = list[tuple[int, int]]
"""First place of each block of more than one pivot, and the place behind its last."""
Move: TypeAlias = Callable[[Pivots, np.random.Generator], Pivots]

LONGEST_BLOCK = 12
NEAR = 0.15
"""Part of the sequence within which most moves stay."""


def as_pivots(order: PivotOrder) -> Pivots:
    """Pivots (row, column) of an order."""
    return list(zip(order.row_order.tolist(), order.col_order.tolist(), strict=True))


def as_order(pivots: Sequence[tuple[int, int]]) -> PivotOrder:
    """Order of a sequence of pivots."""
    return PivotOrder([r for r, _ in pivots], [c for _, c in pivots])


def by_blocks(pattern: Pattern, order: PivotOrder) -> tuple[Pivots, Segments]:
    """The order with irreducible blocks one after the other, and the places of the blocks.

    An order that pairs rows of one block with columns of another stays as it is, one segment.
    """
    pivots = as_pivots(order)
    place = {r: k for k, (r, _) in enumerate(pivots)}
    sequence: Pivots = []
    segments: Segments = []
    for rows, cols in block_triangular(pattern):
        within = sorted(rows.tolist(), key=place.__getitem__)
        block = [pivots[place[r]] for r in within]
        if {c for _, c in block} != set(cols.tolist()):
            return pivots, [(0, len(pivots))]
        if len(block) > 1:
            segments.append((len(sequence), len(sequence) + len(block)))
        sequence += block
    return sequence, segments


def neighbour(pivots: Pivots, segments: Segments, rng: np.random.Generator) -> Pivots:
    """Return a copy changed within one segment; larger segments change more often."""
    if not segments:
        return list(pivots)
    sizes = np.array([stop - start for start, stop in segments], dtype=np.float64)
    start, stop = segments[int(rng.choice(len(segments), p=sizes / sizes.sum()))]
    move = _MOVES[int(rng.integers(len(_MOVES)))]
    return pivots[:start] + move(pivots[start:stop], rng) + pivots[stop:]


def _place_near(at: int, n: int, rng: np.random.Generator) -> int:
    """Another place, mostly close by."""
    if rng.random() < 0.25:
        return int(rng.integers(n))
    reach = max(2, round(NEAR * n))
    return int(np.clip(at + rng.integers(-reach, reach + 1), 0, n - 1))


def _block(pivots: Pivots, rng: np.random.Generator, longest: int) -> Pivots:
    """Take up to ``longest`` consecutive pivots and put them elsewhere."""
    n = len(pivots)
    length = int(rng.integers(1, min(longest, n - 1) + 1))
    start = int(rng.integers(n - length + 1))
    rest = pivots[:start] + pivots[start + length :]
    to = _place_near(start, len(rest) + 1, rng)
    return rest[:to] + pivots[start : start + length] + rest[to:]


def _move_one(pivots: Pivots, rng: np.random.Generator) -> Pivots:
    return _block(pivots, rng, 1)


def _move_block(pivots: Pivots, rng: np.random.Generator) -> Pivots:
    return _block(pivots, rng, LONGEST_BLOCK)


def _swap(pivots: Pivots, rng: np.random.Generator) -> Pivots:
    out = list(pivots)
    i = int(rng.integers(len(out)))
    j = _place_near(i, len(out), rng)
    out[i], out[j] = out[j], out[i]
    return out


def _exchange_columns(pivots: Pivots, rng: np.random.Generator) -> Pivots:
    """Two rows exchange the unknowns they give."""
    out = list(pivots)
    i = int(rng.integers(len(out)))
    j = _place_near(i, len(out), rng)
    (ri, ci), (rj, cj) = out[i], out[j]
    out[i], out[j] = (ri, cj), (rj, ci)
    return out


_MOVES: tuple[Move, ...] = (_move_one, _move_block, _move_block, _swap, _exchange_columns)
