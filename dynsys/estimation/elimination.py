"""Elimination of a sparse symmetric indefinite system, pivot by pivot, recorded as it goes.

    sum over k  A_uk x_k + A_u1 = 0   for every unknown u;   A symmetric

Column ``RIGHT`` holds A_u1, the right-hand side with its sign turned; its "unknown" is 1. Two
kinds of pivots suffice for saddle points:

    single (u):     x_u = - sum l_k x_k,  l_k = A_uk / A_uu           A_kl -= l_k A_ul
    pair (u, v), A_vv = 0, p = A_uv:  row v says  x_u = - sum t_k x_k,  t_k = A_vk / p
                    A_kl -= t_k h_l + h_k t_l,   h_k = A_uk - (A_uu / 2) t_k

A law of motion is a pair of its multiplier and the unknown it defines, p = +-1: substitution,
no division. The inverse of A holds the posterior covariances; entries of it come by Takahashi's
recursion, those asked for and what they depend on:

    Z_uv = (P^-1)_uv - sum l_k Z_kv       P the pivot of u; first term only if v is in it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

from dynsys.estimation.recorder import Recorder, Ref

__all__ = ["RIGHT", "Elimination", "Row"]

RIGHT = -1
"""Number of the column that holds the right-hand side."""
Row: TypeAlias = dict[int, Ref]


@final
@dataclass(frozen=True, eq=False)
class _Step:
    """Rows that back substitution reads: x_u = - sum ``multipliers[u][k]`` x_k.

    ``inverse`` is that of the pivot. The second unknown of a pair, cheaper given the first:
    x_v = - (A_uu x_u + sum ``other[k]`` x_k) / p.
    """

    unknowns: tuple[int, ...]
    multipliers: Mapping[int, Row]
    inverse: Mapping[tuple[int, int], Ref]
    own: Ref = 0
    other: Mapping[int, Ref] | None = None
    reciprocal: Ref = 0


@final
class Elimination:
    """The active system; pivots are taken by :meth:`single` and :meth:`pair`.

    ``rows[u][k]`` is A_uk; both halves are kept. Eliminated unknowns are gone from ``rows``.
    """

    def __init__(self, record: Recorder, rows: dict[int, Row]) -> None:
        self.record = record
        self.rows = rows
        self.reciprocals: list[Ref] = []
        """1/p of every pivot that is no constant, to be watched at run time."""
        self.watched: list[tuple[int, int]] = []
        """Number of the step, and unknown, of each of these pivots."""
        self._steps: list[_Step] = []
        self._step_of: dict[int, int] = {}

    # ---- pivots --------------------------------------------------------------------------

    def single(self, u: int) -> None:
        """Eliminate u by its diagonal entry."""
        record, row = self.record, self._take(u)
        inverse = self._reciprocal(row.pop(u), u)
        multipliers = {k: record.mul(x, inverse) for k, x in row.items()}
        columns = list(row.items())
        for place, (k, x) in enumerate(columns):
            for l, _ in columns[: place + 1]:
                if k != RIGHT or l != RIGHT:
                    self._subtract(k, l, record.mul(multipliers[l], x))
        self._done(_Step((u,), {u: multipliers}, {(u, u): inverse}))

    def pair(self, u: int, v: int) -> None:
        """Eliminate u and v, whose diagonal entry A_vv is zero, by A_uv."""
        record = self.record
        row_u, row_v = self._take(u), self._take(v)
        p = row_u.pop(v)
        own = row_u.pop(u, 0)
        inverse = self._reciprocal(p, u)
        t = {k: record.mul(x, inverse) for k, x in row_v.items()}
        half = record.mul(own, record.constant(0.5)) if own else 0
        h = dict(row_u)
        if half:
            for k, x in t.items():
                h[k] = record.sub_product(h.get(k, 0), half, x)
            h = {k: x for k, x in h.items() if x}
        for k, x in t.items():
            for l, other in h.items():
                if k == l == RIGHT:
                    continue
                product = record.mul(x, other)
                self._subtract(k, l, record.add(product, product) if k == l else product)
        scaled = record.mul(own, inverse)
        w: Row = {}
        for k in {**row_u, **t}:
            x = record.sub_product(row_u.get(k, 0), own, t.get(k, 0))
            if x:
                w[k] = record.mul(x, inverse)
        inverses = {(u, v): inverse, (v, u): inverse, (v, v): -record.mul(scaled, inverse)}
        self._done(_Step((u, v), {u: t, v: w}, inverses, own, row_u, inverse))

    def _take(self, u: int) -> Row:
        row = self.rows.pop(u)
        for k in row:
            if k != RIGHT and k in self.rows:
                self.rows[k].pop(u, None)
        return row

    def _reciprocal(self, p: Ref, u: int) -> Ref:
        inverse = self.record.div(self.record.one, p)
        if not self.record.is_constant(p):
            self.reciprocals.append(inverse)
            self.watched.append((len(self._steps), u))
        return inverse

    def _subtract(self, k: int, l: int, x: Ref) -> None:
        """A_kl -= x, in both halves."""
        for a, b in ((k, l), (l, k)):
            if a == RIGHT:
                continue
            row = self.rows[a]
            total = self.record.add(row.get(b, 0), -x)
            if total:
                row[b] = total
            else:
                row.pop(b, None)
            if k == l:
                return

    def _done(self, step: _Step) -> None:
        for u in step.unknowns:
            self._step_of[u] = len(self._steps)
        self._steps.append(step)

    # ---- solution ------------------------------------------------------------------------

    def solution(self) -> dict[int, Ref]:
        """Every unknown, by back substitution through all pivots."""
        record = self.record
        x: dict[int, Ref] = {RIGHT: record.one}
        for step in reversed(self._steps):
            u = step.unknowns[0]
            x[u] = self._combine(0, step.multipliers[u], x)
            if step.other is not None:
                total = self._combine(-record.mul(step.own, x[u]), step.other, x)
                x[step.unknowns[1]] = record.mul(total, step.reciprocal)
        return x

    def _combine(self, start: Ref, row: Mapping[int, Ref], x: Mapping[int, Ref]) -> Ref:
        total = start
        for k, coefficient in row.items():
            total = self.record.sub_product(total, coefficient, x[k])
        return total

    # ---- inverse -------------------------------------------------------------------------

    def inverse_entries(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Ref]:
        """Entries (u, v) of A^-1, in the order asked for."""
        asked = list(wanted)
        place = self._step_of
        demands: list[dict[tuple[int, int], None]] = [{} for _ in self._steps]

        def demand(u: int, v: int) -> None:
            key = self._key(u, v)
            demands[place[key[0]]][key] = None

        for u, v in asked:
            demand(u, v)
        for k, step in enumerate(self._steps):
            same = [key for key in demands[k] if place[key[1]] == k]
            for u, v in same:
                for l in step.multipliers[u]:
                    if l != RIGHT:
                        demand(v, l)
            for u, v in list(demands[k]):
                if place[v] != k:
                    for l in step.multipliers[u]:
                        if l != RIGHT:
                            demand(l, v)
        Z: dict[tuple[int, int], Ref] = {}
        for k in reversed(range(len(self._steps))):
            later = [key for key in demands[k] if place[key[1]] != k]
            for key in (*later, *(key for key in demands[k] if place[key[1]] == k)):
                Z[key] = self._inverse_entry(self._steps[k], key, Z)
        return {(u, v): Z[self._key(u, v)] for u, v in asked}

    def _key(self, u: int, v: int) -> tuple[int, int]:
        """(u, v) or (v, u): first eliminated first."""
        first, second = (self._step_of[u], u), (self._step_of[v], v)
        return (u, v) if first <= second else (v, u)

    def _inverse_entry(
        self, step: _Step, key: tuple[int, int], Z: Mapping[tuple[int, int], Ref]
    ) -> Ref:
        u, v = key
        total = step.inverse.get(key, 0)
        for l, multiplier in step.multipliers[u].items():
            if l != RIGHT:
                total = self.record.sub_product(total, multiplier, Z[self._key(l, v)])
        return total
