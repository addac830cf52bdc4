"""Which pivots an elimination takes: leaves first, cheapest first, and only safe ones.

Unknowns come in groups, one per body; groups are worked off from the leaves to the root, so
that fill stays between a body and its parent. Before that, equations with a single unknown and
unknowns in a single equation are peeled off wherever they are: they cost nothing. Within a
group the next pivot is the one with the fewest updates among

- constants: safe by argument (the laws of motion are, with coefficient +-1); if none is left,
- varying values that at every sampled state have the same sign, keep their size and were not
  left over by cancellation: safe by sampling, and watched at run time.

Values that vanish when a sensor is switched off are no pivots as long as there are others, in
any group. What finds no safe pivot in its group waits for a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.estimation.elimination import RIGHT, Elimination
from dynsys.estimation.recorder import Ref

__all__ = ["Safety", "eliminate_all"]


@final
@dataclass(frozen=True)
class Safety:
    """Bounds for varying pivots over the sampled states.

    Parameters
    ----------
    steady : least ratio of the smallest to the median value.
    kept : least part of the largest term that cancellation may leave.
    multiplier : largest ratio of an entry of the pivot's row to the pivot.
    """

    steady: float
    kept: float
    multiplier: float


def eliminate_all(
    system: Elimination,
    group: Mapping[int, int],
    safeties: Sequence[Safety],
    avoided: Set[tuple[int, int]] = frozenset(),
) -> list[int]:
    """Eliminate every unknown that has a safe pivot; return those that have none.

    Parameters
    ----------
    group : number of each unknown's group; the largest is worked off first.
    safeties : what is safe; what the first leaves over is tried with the next.
    avoided : pairs to take only where there is nothing else.
    """
    _peel(system, safeties[0], avoided)
    left: list[int] = []
    by_group: dict[int, list[int]] = {}
    for u in system.rows:
        by_group.setdefault(group[u], []).append(u)
    for number in sorted(by_group, reverse=True):
        some = [*left, *by_group[number]]
        left = _eliminate_group(system, some, safeties[0], avoided, patient=True)
    for safety in safeties:
        left = _eliminate_group(system, left, safety, avoided)
    return left


def _peel(system: Elimination, safety: Safety, avoided: Set[tuple[int, int]]) -> None:
    """Take pairs whose row holds nothing but the pivot, until there are none."""
    pending = list(system.rows)
    while pending:
        v = pending.pop()
        row = system.rows.get(v)
        if row is None or v in row:
            continue
        others = [k for k in row if k != RIGHT]
        if len(others) != 1:
            continue
        u = others[0]
        if (u, v) in avoided or system.record.is_switched(row[u]):
            continue
        if _is_safe(system, (u, v), safety):
            pending.extend(k for k in system.rows[u] if k != RIGHT and k not in (u, v))
            system.pair(u, v)


def _eliminate_group(
    system: Elimination,
    unknowns: list[int],
    safety: Safety,
    avoided: Set[tuple[int, int]],
    *,
    patient: bool = False,
) -> list[int]:
    """Take the cheapest safe pivots among ``unknowns``; return what has none.

    ``patient`` leaves what only a value that sensors can switch off would eliminate.
    """
    left = dict.fromkeys(u for u in unknowns if u in system.rows)
    while left:
        pivot = _cheapest(system, left, safety, avoided, patient)
        if pivot is None:
            break
        if len(pivot) == 1:
            system.single(pivot[0])
        else:
            system.pair(*pivot)
        for u in pivot:
            del left[u]
    return list(left)


def _cheapest(
    system: Elimination,
    left: Mapping[int, None],
    safety: Safety,
    avoided: Set[tuple[int, int]],
    patient: bool,
) -> tuple[int, ...] | None:
    for *_, pivot in sorted(_candidates(system, left, avoided)):
        if patient and system.record.is_switched(system.rows[pivot[-1]][pivot[0]]):
            continue
        if _is_safe(system, pivot, safety):
            return pivot
    return None


def _candidates(
    system: Elimination, left: Mapping[int, None], avoided: Set[tuple[int, int]]
) -> Iterator[tuple[bool, bool, int, tuple[int, ...]]]:
    """(last resort, varying, number of updates, pivot) of all pivots among ``left``."""
    rows, record = system.rows, system.record

    def rank(p: Ref) -> tuple[bool, bool]:
        return record.is_switched(p), not record.is_constant(p)

    for u in left:
        row = rows[u]
        n = len(row) - (RIGHT in row)
        if u in row:
            yield *rank(row[u]), n * (n - 1) // 2, (u,)
            continue
        for v, p in row.items():
            if v in left and v != RIGHT:
                other = rows[v]
                m = len(other) - (RIGHT in other)
                if v in other:
                    updates = (n - 1) * (n + m - 3) if n > 1 else 0
                else:
                    updates = (n - 1) * (m - 1)
                last, varying = rank(p)
                yield last or (v, u) in avoided, varying, updates, (v, u)


def _is_safe(system: Elimination, pivot: tuple[int, ...], safety: Safety) -> bool:
    """Whether the single pivot (u,), or the pair (u, v) with A_vv = 0, can be divided by."""
    rows, record = system.rows, system.record
    u, row = pivot[0], rows[pivot[-1]]
    p: Ref = row[u]
    values = np.abs(record.values(p))
    if not record.is_constant(p):
        signs = record.values(p) > 0
        if not (signs.all() or not signs.any()):
            return False
        if values.min() < safety.steady * np.median(values):
            return False
        if record.kept(p).min() < safety.kept:
            return False
    return all(
        (np.abs(record.values(x)) <= safety.multiplier * values).all()
        for k, x in row.items()
        if k not in (*pivot, RIGHT)
    )
