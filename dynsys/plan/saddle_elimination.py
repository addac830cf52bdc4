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

The file has three parts: arithmetic that records (:class:`Recorder`), the two pivots and what
follows from them (:class:`Elimination`), and the choice of pivots (:func:`eliminate_all`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.program.graph import Graph, Scalar

__all__ = [
    "RIGHT",
    "Candidate",
    "Elimination",
    "PivotRule",
    "Recorder",
    "Ref",
    "Row",
    "Safety",
    "eliminate_all",
]

# ---- arithmetic that records on the graph and knows every value at sampled states ------------
#
# A scalar is a signed reference of the graph, 0 for exact zero. Beside each node stand its
# values at a few random states in extended precision, so that an elimination can choose pivots
# while it is recorded, and sums that cancel at every state vanish at once instead of becoming
# fill.

Ref: TypeAlias = int
"""Signed reference of a graph node; 0 is exact zero."""
Extended: TypeAlias = NDArray[np.longdouble]

CANCELLED = np.longdouble(2.0) ** -55
"""A sum this small beside its terms, at every state, is zero."""


@final
@dataclass(slots=True)
class _Known:
    """Values (n_states,) of a node, the size of the terms they came from, and its weights.

    ``switched``: the value is zero where weights that may be zero are zero.
    """

    values: Extended
    terms: Extended
    switched: bool


@final
class Recorder:
    """Operations on references of ``graph``; see the module.

    Parameters
    ----------
    graph : where operations are recorded.
    samples : (n_states, n_inputs) values of the graph's inputs.
    switched : further ones, at which sensors are on or off. They tell pivots that vanish there;
        nothing else depends on them.
    """

    def __init__(
        self, graph: Graph, samples: Extended, switched: Extended | None = None
    ) -> None:
        self.graph = graph
        more = samples[:0] if switched is None else switched
        self._samples = np.vstack([samples, more])
        self._usual, self._switched = slice(len(samples)), slice(len(samples), None)
        self.has_switches = len(more) > 0
        self._known: dict[int, _Known] = {}
        self.one = self.constant(1.0)

    def include(self, scalars: Sequence[Any], switched: bool = False) -> list[Ref]:
        """References of scalars recorded on the graph by other means, or of numbers."""
        refs = [self.graph.reference(x) for x in scalars]
        new = [k for k in dict.fromkeys(map(abs, refs)) if k and k not in self._known]
        if new:
            values = self.graph.program([Scalar(self.graph, k) for k in new]).evaluate(
                self._samples
            )
            for k, column in zip(new, values.T, strict=True):
                self._known[k] = _Known(column.copy(), np.abs(column), switched)
        return [self._nonzero(ref) for ref in refs]

    def constant(self, value: float) -> Ref:
        """Reference of a number."""
        return self.include([value])[0]

    def values(self, ref: Ref) -> Extended:
        """Values (n_states,) at the sampled states."""
        return self._all_values(ref)[self._usual]

    def _all_values(self, ref: Ref) -> Extended:
        known = self._known[abs(ref)].values
        return known if ref > 0 else -known

    def kept(self, ref: Ref) -> Extended:
        """|value| beside the largest term of its sum (n_states,); 1: all digits are kept."""
        known = self._known[abs(ref)]
        return np.abs(known.values[self._usual]) / known.terms[self._usual]

    def keeps_its_sign(self, ref: Ref, kept: float) -> bool:
        """Whether a value stays on its side of zero whatever is switched off.

        So much of its terms must be left. States that a division by zero has lost do not count.
        """
        known, here = self._known[abs(ref)], self._switched
        values, terms = known.values[here], known.terms[here]
        side = np.sign(known.values[0])
        return bool((~np.isfinite(values) | (side * values > kept * terms)).all())

    def left_by_rounding(self, ref: Ref, kept: float) -> float:
        """What rounding may leave of a value that is zero with some sensors on or off.

        The part ``kept`` of its usual terms; zero unless it falls below that at such a state.
        """
        known = self._known[abs(ref)]
        rest = kept * float(np.median(known.terms[self._usual]))
        return rest if (np.abs(known.values[self._switched]) < rest).any() else 0.0

    def is_constant(self, ref: Ref) -> bool:
        """Whether the graph holds a number here."""
        return self.graph.value(ref) is not None

    def is_switched(self, ref: Ref) -> bool:
        """Whether the value vanishes with weights that may be zero."""
        return self._known[abs(ref)].switched

    def _nonzero(self, ref: Ref) -> Ref:
        return ref if ref and self._known[abs(ref)].values.any() else 0

    # ---- operations ----------------------------------------------------------------------

    def add(self, a: Ref, b: Ref) -> Ref:
        """A + b."""
        if not a or not b:
            return a or b
        ref = self.graph.add(a, b)
        if not ref:
            return 0
        if abs(ref) not in self._known:
            left, right = self._known[abs(a)], self._known[abs(b)]
            values = self._all_values(a) + self._all_values(b)
            terms = np.maximum(left.terms, right.terms)
            switched = left.switched and right.switched
            self._known[abs(ref)] = _Known(values if ref > 0 else -values, terms, switched)
        known = self._known[abs(ref)]
        if abs(known.values[0]) > CANCELLED * known.terms[0]:  # almost always
            return ref
        usual = self._usual
        gone = np.abs(known.values[usual]) <= CANCELLED * known.terms[usual]
        return 0 if gone.all() else ref

    def mul(self, a: Ref, b: Ref) -> Ref:
        """A * b."""
        if not a or not b:
            return 0
        ref = self.graph.mul(a, b)
        if abs(ref) not in self._known:
            switched = self.is_switched(a) or self.is_switched(b)
            self._know(ref, self._all_values(a) * self._all_values(b), switched)
        return ref

    def div(self, a: Ref, b: Ref) -> Ref:
        """A / b."""
        if not a:
            return 0
        ref = self.graph.div(a, b)
        if abs(ref) not in self._known:
            values = self._all_values(a) / self._all_values(b)
            if self.has_switches:  # states that are divided by nothing are lost
                by, here = self._known[abs(b)], self._switched
                gone = np.abs(by.values[here]) <= CANCELLED * by.terms[here]
                values[here][gone] = np.nan
            self._know(ref, values, self.is_switched(a))
        return ref

    def sub_product(self, a: Ref, b: Ref, c: Ref) -> Ref:
        """A - b * c."""
        return self.add(a, -self.mul(b, c))

    def _know(self, ref: Ref, values: Extended, switched: bool) -> None:
        values = values if ref > 0 else -values
        self._known[abs(ref)] = _Known(values, np.abs(values), switched)


# ---- pivots, back substitution, entries of the inverse ---------------------------------------

RIGHT = -1
"""Number of the column that holds the right-hand side."""
Row: TypeAlias = dict[int, Ref]


class _Step(NamedTuple):
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

    @property
    def pivots(self) -> list[tuple[int, ...]]:
        """Pivots taken so far, single (u,) or pair (u, v)."""
        return [step.unknowns for step in self._steps]

    # ---- pivots --------------------------------------------------------------------------

    def take(self, pivot: tuple[int, ...]) -> None:
        """Eliminate a single unknown (u,), or a pair of which one has no diagonal entry.

        Raises
        ------
        ZeroDivisionError
            if the pivot is gone or zero at a sampled state, or both diagonal entries of a pair
            are nonzero; says so.
        """
        u, v = pivot[0], pivot[-1]
        for line in pivot:
            if line not in self.rows:
                raise ZeroDivisionError("has been eliminated before")
        if v not in self.rows[u] or not self.record.values(self.rows[u][v]).all():
            raise ZeroDivisionError("is zero")
        if u == v:
            self.single(u)
        elif v not in self.rows[v]:
            self.pair(u, v)
        elif u not in self.rows[u]:
            self.pair(v, u)
        else:
            raise ZeroDivisionError("has two diagonal entries; take it as two single pivots")

    def single(self, u: int) -> None:
        """Eliminate u by its diagonal entry."""
        record, row = self.record, self._take(u)
        inverse = self._reciprocal(row.pop(u), u)
        # l = A_u: / A_uu;  A -= l A_u:
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
        # t = A_v: / p;  h = A_u: - (A_uu / 2) t
        t = {k: record.mul(x, inverse) for k, x in row_v.items()}
        half = record.mul(own, record.constant(0.5)) if own else 0
        h = dict(row_u)
        if half:
            for k, x in t.items():
                h[k] = record.sub_product(h.get(k, 0), half, x)
            h = {k: x for k, x in h.items() if x}
        # A -= t h^T + h t^T
        for k, x in t.items():
            for l, other in h.items():
                if k == l == RIGHT:
                    continue
                product = record.mul(x, other)
                self._subtract(k, l, record.add(product, product) if k == l else product)
        # w = (A_u: - A_uu t) / p: the row of x_v;  P^-1 = [0, 1/p; 1/p, -A_uu/p^2]
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
        # which entries each step must give, first pivots first: Z_uv needs Z_kv for all k in l
        place = self._step_of
        demands: list[dict[tuple[int, int], None]] = [{} for _ in self._steps]
        alone: dict[int, list[int]] = {}  # k of which only Z_uu needs Z_uk

        def demand(u: int, v: int) -> None:
            key = self._key(u, v)
            demands[place[key[0]]][key] = None

        for u, v in asked:
            demand(u, v)
        for k, step in enumerate(self._steps):
            same = [key for key in demands[k] if place[key[1]] == k]
            for u, v in same:
                for l in step.multipliers[u] if u != v else ():
                    if l != RIGHT:
                        demand(v, l)
            for u, v in same:
                if u == v:
                    others = [l for l in step.multipliers[u] if l != RIGHT]
                    alone[u] = [l for l in others if (u, l) not in demands[k]]
                    for l in alone[u]:
                        for m in alone[u]:
                            demand(l, m)
            for u, v in list(demands[k]):
                if place[v] != k:
                    for l in step.multipliers[u]:
                        if l != RIGHT:
                            demand(l, v)
        # last pivots first
        Z: dict[tuple[int, int], Ref] = {}
        for k in reversed(range(len(self._steps))):
            step = self._steps[k]
            later = [key for key in demands[k] if place[key[1]] != k]
            for u, v in (*later, *(key for key in demands[k] if place[key[1]] == k)):
                row, first = step.multipliers[u], alone.get(u, ())
                row = {l: row[l] for l in (*first, *row) if l != RIGHT}
                start = step.inverse.get((u, v), 0)
                if u == v:
                    Z[u, u] = self._variance(start, row, first, Z, u)
                else:
                    Z[u, v] = self._combine(start, row, self._column(Z, v, row))
        return {(u, v): Z[self._key(u, v)] for u, v in asked}

    def _key(self, u: int, v: int) -> tuple[int, int]:
        """(u, v) or (v, u): first eliminated first."""
        first, second = (self._step_of[u], u), (self._step_of[v], v)
        return (u, v) if first <= second else (v, u)

    def _column(
        self, Z: Mapping[tuple[int, int], Ref], v: int, lines: Iterable[int]
    ) -> dict[int, Ref]:
        return {l: Z[self._key(l, v)] for l in lines}

    def _variance(
        self,
        start: Ref,
        row: Mapping[int, Ref],
        alone: Sequence[int],
        Z: Mapping[tuple[int, int], Ref],
        u: int,
    ) -> Ref:
        """Z_uu = start + sum l_k l_m Z_km, where only Z_uu needs Z_uk every product once.

        Of other k there is Z_uk = - sum l_m Z_km; its terms of those ``alone``, the first,
        count twice.
        """
        record, total = self.record, start
        few = {k: row[k] for k in alone}
        for k, x in row.items():
            if k not in few:
                twice = self._combine(0, few, self._column(Z, k, few))
                total = record.sub_product(total, x, record.add(Z[u, k], twice))
        for place, k in enumerate(alone):
            before = {m: row[m] for m in alone[:place]}
            half = self._combine(0, before, self._column(Z, k, before))
            own = record.sub_product(record.add(half, half), row[k], Z[k, k])
            total = record.sub_product(total, row[k], own)
        return total


# ---- choice of pivots: leaves first, cheapest first, and only safe ones ----------------------
#
# Unknowns come in groups, one per body; groups are worked off from the leaves to the root, so
# that fill stays between a body and its parent. Before that, equations with a single unknown
# and unknowns in a single equation are peeled off wherever they are: they cost nothing. Within
# a group the next pivot is the one with the fewest updates among
#
# - constants: safe by argument (the laws of motion are, with coefficient +-1); if none is left,
# - varying values that at every sampled state have the same sign, keep their size and were not
#   left over by cancellation: safe by sampling, and watched at run time.
#
# Values that vanish when a sensor is switched off, by their terms or at sampled states with
# sensors on and off, are no pivots as long as there are others, in any group. What finds no
# safe pivot in its group waits for a later one. A PivotRule changes the sequence of groups and
# the rank of pivots within them; what is safe it cannot change.


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


class Candidate(NamedTuple):
    """A pivot that could be next; in this order the lowest is taken by default.

    ``last_resort``: it vanishes with a weight, or another row should define the unknown.
    ``varying``: no constant. ``updates``: products that its elimination costs, about.
    """

    last_resort: bool
    varying: bool
    updates: int
    pivot: tuple[int, ...]


@final
@dataclass(frozen=True)
class PivotRule:
    """How pivots are chosen among safe ones.

    Parameters
    ----------
    place : of a body in the sequence of groups, the largest first; by default the number of the
        body, leaves before the root. Other roots, nested dissection: other places. Equal places
        make one group of several bodies.
    rank : of a candidate within its group, the least first; anything that compares. Add noise
        to ``updates`` for randomised restarts. A rank that neglects ``last_resort`` and
        ``varying`` finds cheaper orders that are watched at more pivots.
    peel : whether equations with a single unknown go first, wherever they are.
    """

    place: Callable[[int], float] = float
    rank: Callable[[Candidate], Any] = tuple
    peel: bool = True


def eliminate_all(
    system: Elimination,
    group: Mapping[int, int],
    safeties: Sequence[Safety],
    avoided: Set[tuple[int, int]] = frozenset(),
    rule: PivotRule | None = None,
) -> list[int]:
    """Eliminate every unknown that has a safe pivot; return those that have none.

    Parameters
    ----------
    group : number of each unknown's group, its body; the rule says which comes first.
    safeties : what is safe; what the first leaves over is tried with the next.
    avoided : pairs to take only where there is nothing else.
    """
    choice = _Choice(system, avoided, rule or PivotRule())
    if choice.rule.peel:
        choice.peel(safeties[0])
    left: list[int] = []
    by_place: dict[float, list[int]] = {}
    for u in system.rows:
        by_place.setdefault(choice.rule.place(group[u]), []).append(u)
    for number in sorted(by_place, reverse=True):
        some = [*left, *by_place[number]]
        left = choice.eliminate(some, safeties[0], patient=True)
    for safety in safeties:
        left = choice.eliminate(left, safety)
    if system.record.has_switches:  # what is left may be open where sensors are off
        choice = replace(choice, whatever_is_off=False)
        for safety in safeties:
            left = choice.eliminate(left, safety)
    return left


@final
@dataclass(frozen=True, eq=False)
class _Choice:
    """The system, the pairs to avoid, and the rule.

    ``whatever_is_off``: pivots must not vanish with any of the sensors that may be off.
    """

    system: Elimination
    avoided: Set[tuple[int, int]]
    rule: PivotRule
    whatever_is_off: bool = True

    def peel(self, safety: Safety) -> None:
        """Take pairs whose row holds nothing but the pivot, until there are none."""
        system = self.system
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
            if (u, v) in self.avoided or system.record.is_switched(row[u]):
                continue
            if self._is_safe((u, v), safety):
                pending.extend(k for k in system.rows[u] if k != RIGHT and k not in (u, v))
                system.pair(u, v)

    def eliminate(
        self, unknowns: list[int], safety: Safety, *, patient: bool = False
    ) -> list[int]:
        """Take the best safe pivots among ``unknowns``; return what has none.

        ``patient`` leaves what only a value that sensors can switch off would eliminate.
        """
        system, is_switched = self.system, self.system.record.is_switched
        left = dict.fromkeys(u for u in unknowns if u in system.rows)
        while left:
            ranked = (c.pivot for c in sorted(self._candidates(left), key=self.rule.rank))
            if patient:
                ranked = (p for p in ranked if not is_switched(system.rows[p[-1]][p[0]]))
            pivot = next((p for p in ranked if self._is_safe(p, safety)), None)
            if pivot is None:
                break
            system.take(pivot)
            for u in pivot:
                del left[u]
        return list(left)

    def _candidates(self, left: Mapping[int, None]) -> Iterator[Candidate]:
        """All pivots among ``left``."""
        rows, record = self.system.rows, self.system.record
        for u in left:
            row = rows[u]
            n = len(row) - (RIGHT in row)
            if u in row:
                p = row[u]
                switched, varying = record.is_switched(p), not record.is_constant(p)
                yield Candidate(switched, varying, n * (n - 1) // 2, (u,))
                continue
            for v, p in row.items():
                if v in left and v != RIGHT:
                    other = rows[v]
                    m = len(other) - (RIGHT in other)
                    if v in other:
                        updates = (n - 1) * (n + m - 3) if n > 1 else 0
                    else:
                        updates = (n - 1) * (m - 1)
                    last = record.is_switched(p) or (v, u) in self.avoided
                    yield Candidate(last, not record.is_constant(p), updates, (v, u))

    def _is_safe(self, pivot: tuple[int, ...], safety: Safety) -> bool:
        record, p = self.system.record, self.system.rows[pivot[-1]][pivot[0]]
        if record.has_switches and self.whatever_is_off and not record.is_constant(p):
            if not record.keeps_its_sign(p, safety.kept):
                return False
        return _is_safe(self.system, pivot, safety)


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
