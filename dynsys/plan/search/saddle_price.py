"""The price of an order of a saddle system: counted by values, in milliseconds.

:class:`SaddleProblem` is to saddle orders what :class:`.price.SearchProblem` is to LU: plain
arrays, the operations that the program of an order executes, and how safe its pivots are at a
few states. Pivots are those of :class:`~dynsys.plan.saddle_elimination.Elimination`, step by
step the same:

    single (u)         l_k = A_uk / A_uu                                 A_kl -= l_k A_ul
    pair (u, v), A_vv = 0, p = A_uv      t_k = A_vk / p,  h_k = A_uk - (A_uu / 2) t_k
                                                              A_kl -= t_k h_l + h_k t_l

and so is the choice of pivots, :func:`~dynsys.plan.saddle_elimination.eliminate_all`: an order
is constructed and priced in one elimination, a hundred times faster than it is recorded. What
guides the choice is data, a :class:`DrawnRule`.

What is left of the system after some lines are gone does not depend on their order: pivots of a
stretch of an order can be chosen anew and all others stay as they are
(:meth:`SaddleProblem.rebuilt`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.jit import Loop
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.methods import Pivot, SaddleOrder
from dynsys.plan.saddle_program import ATTEMPTS, saddle_entries
from dynsys.plan.search.values import (
    ADD,
    CONSTANT,
    LEFT,
    OP,
    RIGHT,
    SWITCHED,
    Nodes,
    add,
    counted,
    div,
    less_product,
    mul,
    program_nodes,
)
from dynsys.system.parts import kind_of
from dynsys.types import Array, BoolArray, IntArray

__all__ = ["DrawnRule", "Pivots", "Price", "SaddleProblem"]

Pivots: TypeAlias = list[tuple[int, int]]
"""Lines (u, v) of a pair, (u, -1) of a single pivot."""
STATES = 64
"""States at which pivots are looked at."""
WATCH = 4
"""Operations of watching a pivot that depends on the state, beside its reciprocal."""
SAFE = np.array([(s.steady, s.multiplier, s.kept) for s in ATTEMPTS[0]])
"""What pivots of constructed orders keep to, first these, then the last resort."""


class Price(NamedTuple):
    """Operations, and the worst of all pivots over a few states.

    ``steady`` is the least ratio of its smallest to its mean size, 0 if its sign changes;
    ``multiplier`` the largest ratio of an entry of its row to it; ``kept`` the least part of
    its largest term that cancellation left.
    """

    operations: int
    steady: float
    multiplier: float
    kept: float

    def at_least(self, steady: float, multiplier: float, kept: float) -> Price:
        """Bounds that these pivots keep to, no stricter than the given ones."""
        return Price(
            self.operations,
            min(steady, self.steady),
            max(multiplier, self.multiplier),
            min(kept, self.kept),
        )

    def is_as_safe(self, bound: Price) -> bool:
        """Whether no pivot is worse than the worst of ``bound``."""
        return (
            self.steady >= bound.steady
            and self.multiplier <= bound.multiplier
            and self.kept >= bound.kept
        )


@final
@dataclass(frozen=True, eq=False)
class DrawnRule:
    """How pivots are chosen among safe ones, as data that a search can change.

    Parameters
    ----------
    place : (bodies,) the largest first, as in :class:`~..saddle_elimination.PivotRule`.
    keys : (lines,) the updates of a pivot count exp(sum of the keys of its lines) times: a
        decoder of random keys (Bean 1994).
    constants_first : whether any constant goes before what varies.
    """

    place: Array
    keys: Array
    constants_first: bool = True


@final
@dataclass(frozen=True, eq=False)
class SaddleProblem:
    """A saddle system to find an order for.

    Parameters
    ----------
    names : of the lines.
    bodies : of the lines.
    nodes, entries : the assembly by values, and the references of its entries,
    rows, columns : at these places, constants in column n.
    wanted : lines of the unknowns that are wanted.
    avoided : (any number, 2) lines that should be no pivots together.
    turned : joints turned round, as in the orders.
    """

    names: tuple[str, ...]
    bodies: IntArray
    nodes: Nodes
    entries: IntArray
    rows: IntArray
    columns: IntArray
    wanted: IntArray
    avoided: IntArray
    turned: tuple[tuple[str, str], ...]

    @staticmethod
    def of(spec: EstimatorSpec, order: SaddleOrder) -> SaddleProblem:
        """Problem of the orders that turn the same joints as ``order``.

        Only estimates count: what deviations cost is left out.
        """
        system = saddle_entries(spec, order)
        n = len(system.names)
        samples = spec.samples(STATES, 0)
        nodes, refs = program_nodes(system.program, samples, samples.astype(np.float64))
        nodes.info[np.abs(refs[system.switched]) - 1, SWITCHED] = 1
        names = [name for name in spec.outputs if kind_of(name) in ESTIMATES] or ["torque"]
        return SaddleProblem(
            system.names,
            system.bodies,
            nodes,
            refs,
            system.rows,
            np.where(system.columns < 0, n, system.columns),
            np.concatenate([spec.columns(name) for name in names]),
            system.avoided,
            order.turned,
        )

    def pivots(self, order: SaddleOrder) -> Pivots:
        """Lines of an order."""
        line = {name: k for k, name in enumerate(self.names)}
        return [(line[p[0]], line[p[1]] if len(p) > 1 else -1) for p in order.pivots]

    def order(self, pivots: Sequence[tuple[int, int]]) -> SaddleOrder:
        """Order of lines."""
        found: list[Pivot] = []
        for u, v in pivots:
            found.append((self.names[u],) if v < 0 else (self.names[u], self.names[v]))
        return SaddleOrder(tuple(found), self.turned)

    @property
    def rule(self) -> DrawnRule:
        """The rule of orders that nobody searches: leaves first, cheapest first."""
        return DrawnRule(np.arange(self.bodies.max() + 1.0), np.zeros(len(self.names)))

    # ---- prices --------------------------------------------------------------------------

    def price(self, pivots: Pivots) -> Price | None:
        """What an order costs; None if a pivot of it is zero."""
        found = self.rebuilt(pivots, 0, 0, self.rule)
        return None if found is None else found[1]

    def constructed(self, rule: DrawnRule) -> tuple[Pivots, Price] | None:
        """The order that a rule chooses, and its price; None if some line has no safe pivot."""
        lines = np.unique(self.rows)
        place = rule.place[self.bodies[lines]]
        order = np.argsort(-place, kind="stable")
        return self._eliminated([], 0, 0, lines[order], place[order], rule)

    def rebuilt(
        self, pivots: Pivots, start: int, stop: int, rule: DrawnRule
    ) -> tuple[Pivots, Price] | None:
        """An order, pivots from ``start`` to ``stop`` chosen anew among their lines, priced.

        None if one of them has no safe pivot, or another is zero now. Bodies make no
        difference here, ``rule.place`` does not count.
        """
        lines = [line for pivot in pivots[start:stop] for line in pivot if line >= 0]
        place = np.zeros(len(lines))
        return self._eliminated(
            pivots, start, stop, np.array(lines, dtype=np.int64), place, rule
        )

    def _eliminated(
        self,
        pivots: Pivots,
        start: int,
        stop: int,
        lines: IntArray,
        place: Array,
        rule: DrawnRule,
    ) -> tuple[Pivots, Price] | None:
        """Given pivots, but from ``start`` to ``stop`` those that the rule chooses of lines."""
        n = len(self.names)
        given = np.array(pivots, dtype=np.int64).reshape(-1, 2)
        avoided = np.zeros((n, n), dtype=bool)
        avoided[self.avoided[:, 0], self.avoided[:, 1]] = True
        choice = _Choice(np.exp(rule.keys), rule.constants_first, avoided, SAFE)
        room = 12 * int(self.nodes.size[0]) + 64 * n
        while True:
            nodes = self.nodes.with_room(room)
            active = _Active.of(n, self.rows, self.columns, self.entries)
            x = np.zeros(n + 1, np.int64)
            done = _solved(nodes, active, given, start, stop, lines, place, choice, x)
            if not nodes.size[1]:
                break
            room *= 2
        if not done:
            return None
        count = active.size[0]
        reciprocals = active.reciprocals[:count]
        varying = np.abs(reciprocals[reciprocals != 0]) - 1
        varying = varying[nodes.info[varying, OP] != CONSTANT]
        needed = np.zeros(len(nodes.info), dtype=bool)
        wanted = x[self.wanted]
        needed[np.abs(wanted[wanted != 0]) - 1] = True
        needed[varying] = True
        total = int(counted(nodes, needed)) + WATCH * len(varying)
        taken = [(u, v) for u, v in active.steps[:count].tolist()]
        return taken, Price(total, *map(float, active.worst))


# ---- elimination on references ---------------------------------------------------------------


class _Active(NamedTuple):
    """What is left of the system, and the steps so far.

    ``A`` (n, n + 1) references, symmetric, constants last; ``lists[k, : length[k]]`` are the
    columns of row k that are not zero, constants not among them. Of an eliminated line these
    hold what back substitution reads. ``steps`` (n, 2), ``size[0]`` of them, the diagonal
    entries ``own`` of the first lines of pairs, ``reciprocals`` of pivots that are no
    constants; ``worst`` as in :class:`Price`.
    """

    A: NDArray[np.int32]
    lists: NDArray[np.int32]
    length: NDArray[np.int64]
    gone: BoolArray
    steps: NDArray[np.int64]
    own: NDArray[np.int64]
    reciprocals: NDArray[np.int64]
    size: NDArray[np.int64]
    worst: Array

    @staticmethod
    def of(n: int, rows: IntArray, columns: IntArray, entries: IntArray) -> _Active:
        """The system before elimination; lines without entries are gone."""
        A = np.zeros((n, n + 1), np.int32)
        A[rows, columns] = entries
        active = _Active(
            A,
            np.empty((n, n), np.int32),
            np.zeros(n, np.int64),
            np.ones(n, dtype=bool),
            np.full((n, 2), -1),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(1, np.int64),
            np.array([np.inf, 0.0, 1.0]),
        )
        _list(active, rows, columns)
        return active


class _Choice(NamedTuple):
    """A rule: ``factors`` (n,) of costs, ``avoided`` (n, n), ``safe`` in stages (any, 3)."""

    factors: Array
    constants_first: bool
    avoided: BoolArray
    safe: Array


@Loop
def _list(active: Any, rows: Any, columns: Any) -> None:
    """Lists of the columns of rows."""
    n = len(active.A)
    for e in range(len(rows)):
        i, j = rows[e], columns[e]
        active.gone[i] = False
        if j < n and active.A[i, j] != 0:
            active.lists[i, active.length[i]] = j
            active.length[i] += 1


@Loop
def _solved(
    nodes: Any,
    active: Any,
    given: Any,
    start: Any,
    stop: Any,
    lines: Any,
    place: Any,
    choice: Any,
    x: Any,
) -> Any:
    """All unknowns x (n + 1,), the last one, of the constants, is 1; False if that fails.

    Pivots are the given ones up to ``start``, chosen ones of ``lines`` in groups of equal
    ``place``, and the given ones from ``stop`` on.
    """
    if not _execute(nodes, active, given[:start]):
        return False
    if len(lines) and not _choose(nodes, active, lines, place, choice, len(given) == 0):
        return False
    if not _execute(nodes, active, given[stop:]):
        return False
    _substitute(nodes, active, x)
    return True


@Loop
def _execute(nodes: Any, active: Any, given: Any) -> Any:
    """Eliminate along given steps; False if a pivot is zero."""
    A, gone = active.A, active.gone
    for s in range(len(given)):
        u, v = given[s, 0], given[s, 1]
        if gone[u] or (v >= 0 and (gone[v] or v == u)):
            return False
        if v >= 0 and A[v, v] != 0:
            u, v = v, u
            if A[v, v] != 0:
                return False
        if A[u if v < 0 else v, u] == 0 or nodes.size[1]:
            return False
        _take(nodes, active, u, v)
    return True


@Loop
def _take(nodes: Any, active: Any, u: Any, v: Any) -> None:
    """Eliminate u alone (v = -1), or u and v, A_vv = 0."""
    A, lists, length, s = active.A, active.lists, active.length, active.size[0]
    n = len(A)
    w = u if v < 0 else v  # the row that defines x_u
    _judge(nodes, active, u, v, active.worst)
    active.steps[s, 0], active.steps[s, 1] = u, v
    active.size[0] = s + 1
    p = np.int64(A[w, u])
    inverse = div(nodes, div(nodes, p, p), p)
    if nodes.info[abs(p) - 1, OP] != CONSTANT:
        active.reciprocals[s] = inverse
    _leave(active, u, v)
    if v >= 0:
        _leave(active, v, u)
    # t = A_w: / p
    n_here = length[w]
    here, t = np.empty(n_here + 1, np.int64), np.empty(n_here + 1, np.int64)
    for e in range(n_here):
        here[e] = lists[w, e]
    if A[w, n] != 0:
        here[n_here] = n
        n_here += 1
    for e in range(n_here):
        t[e] = mul(nodes, np.int64(A[w, here[e]]), inverse)
    if v < 0:  # A -= t A_u:
        for e in range(n_here):
            k = here[e]
            for f in range(e + 1):
                if here[f] < n:
                    product = mul(nodes, t[f], np.int64(A[u, k]))
                    _subtract(nodes, active, k, here[f], product)
    else:  # A -= t h^T + h t^T
        active.own[s] = A[u, u]
        there, h, n_there = _halved(nodes, active, u, here[:n_here], t)
        for e in range(n_here):
            for f in range(n_there):
                k, l = here[e], there[f]
                if k == n and l == n:
                    continue
                product = mul(nodes, t[e], h[f])
                if k == l:
                    product = add(nodes, product, product)
                _subtract(nodes, active, k, l, product)
    for e in range(n_here):  # row w: the multipliers of x_u; row u of a pair stays
        A[w, here[e]] = t[e]


@Loop
def _halved(nodes: Any, active: Any, u: Any, here: Any, t: Any) -> Any:
    """h = A_u: - (A_uu / 2) t: its columns, its values, how many."""
    A, lists, length = active.A, active.lists, active.length
    n, own = len(A), np.int64(A[u, u])
    there = np.empty(length[u] + len(here) + 1, np.int64)
    h = np.empty(len(there), np.int64)
    count = 0
    for e in range(length[u]):
        there[count], h[count] = lists[u, e], A[u, lists[u, e]]
        count += 1
    if A[u, n] != 0:
        there[count], h[count] = n, A[u, n]
        count += 1
    if own == 0:
        return there, h, count
    one = div(nodes, own, own)
    half = mul(nodes, own, div(nodes, one, add(nodes, one, one)))
    known = count
    for e in range(len(here)):
        at = count
        for f in range(known):
            if there[f] == here[e]:
                at = f
        if at == count:
            there[at], h[at] = here[e], 0
            count += 1
        h[at] = less_product(nodes, h[at], half, t[e])
    kept = 0
    for f in range(count):
        if h[f] != 0:
            there[kept], h[kept] = there[f], h[f]
            kept += 1
    return there, h, kept


@Loop
def _leave(active: Any, u: Any, partner: Any) -> None:
    """Line u leaves all others; it and its partner leave its list of columns."""
    A, lists, length = active.A, active.lists, active.length
    active.gone[u] = True
    kept = 0
    for e in range(length[u]):
        k = lists[u, e]
        if k == u or k == partner:
            continue
        _drop(active, k, u)
        A[k, u] = 0
        lists[u, kept] = k
        kept += 1
    length[u] = kept


@Loop
def _drop(active: Any, k: Any, item: Any) -> None:
    """Take a column from the list of row k."""
    lists, length = active.lists, active.length
    for e in range(length[k]):
        if lists[k, e] == item:
            length[k] -= 1
            lists[k, e] = lists[k, length[k]]
            return


@Loop
def _subtract(nodes: Any, active: Any, k: Any, l: Any, value: Any) -> None:
    """A_kl -= value, in both halves; constants are in the last column."""
    A, lists, length = active.A, active.lists, active.length
    n = len(A)
    if k == n:
        k, l = l, k
    before = np.int64(A[k, l])
    total = add(nodes, before, -value)
    A[k, l] = total
    if l == n:
        return
    A[l, k] = total
    if before == 0 and total != 0:
        lists[k, length[k]] = l
        length[k] += 1
        if k != l:
            lists[l, length[l]] = k
            length[l] += 1
    elif before != 0 and total == 0:
        _drop(active, k, l)
        if k != l:
            _drop(active, l, k)


@Loop
def _substitute(nodes: Any, active: Any, x: Any) -> None:
    """Back substitution: x_u = - sum t_k x_k, x_v = - (A_uu x_u + sum A_uk x_k) / p."""
    A, steps = active.A, active.steps
    n = len(A)
    x[n] = div(nodes, 1, 1)
    for s in range(active.size[0] - 1, -1, -1):
        u, v = steps[s, 0], steps[s, 1]
        x[u] = _combined(nodes, active, u if v < 0 else v, 0, x)
        if v >= 0:
            own = less_product(nodes, 0, active.own[s], x[u])
            total = _combined(nodes, active, u, own, x)
            x[v] = mul(nodes, total, div(nodes, x[n], np.int64(A[v, u])))


@Loop
def _combined(nodes: Any, active: Any, row: Any, total: Any, x: Any) -> Any:
    """Total - sum A_row,k x_k."""
    A, lists = active.A, active.lists
    n = len(A)
    total = less_product(nodes, total, np.int64(A[row, n]), x[n])
    for e in range(active.length[row]):
        k = lists[row, e]
        total = less_product(nodes, total, np.int64(A[row, k]), x[k])
    return total


# ---- how safe a pivot is ---------------------------------------------------------------------


@Loop
def _judge(nodes: Any, active: Any, u: Any, v: Any, worst: Any) -> None:
    """Worst so far: how steady a pivot is, its row beside it, what cancellation left of it."""
    A, lists, real = active.A, active.lists, nodes.real
    w = u if v < 0 else v
    k = abs(A[w, u]) - 1
    states = real.shape[1]
    least, mean = np.inf, 0.0
    for e in range(states):
        size = abs(real[k, e])
        least, mean = min(least, size), mean + size / states
        if (real[k, e] > 0.0) != (real[k, 0] > 0.0):
            least = 0.0
    worst[0] = min(worst[0], least / mean if mean > 0.0 else 0.0)
    for f in range(active.length[w]):
        j = lists[w, f]
        if j == u or j == v:
            continue
        other = abs(A[w, j]) - 1
        for e in range(states):
            size = abs(real[k, e])
            if size > 0.0:
                worst[1] = max(worst[1], abs(real[other, e]) / size)
    if nodes.info[k, OP] == ADD:
        worst[2] = min(worst[2], _kept(nodes, k))


@Loop
def _kept(nodes: Any, k: Any) -> Any:
    """Least part of the largest term of a sum that is left at any state."""
    info, real = nodes.info, nodes.real
    stack, size = np.zeros(64, np.int64), 1
    stack[0] = k
    largest = np.abs(real[k])
    while size > 0:
        size -= 1
        at = stack[size]
        for side in (LEFT, RIGHT):
            term = abs(info[at, side]) - 1
            if info[term, OP] == ADD and size < 63:
                stack[size] = term
                size += 1
            for e in range(real.shape[1]):
                largest[e] = max(largest[e], abs(real[term, e]))
    kept = 1.0
    for e in range(real.shape[1]):
        kept = min(kept, abs(real[k, e]) / largest[e] if largest[e] > 0.0 else 0.0)
    return kept


@Loop
def _is_safe(nodes: Any, active: Any, u: Any, v: Any, safe: Any) -> Any:
    """Whether a pivot can be divided by."""
    own = np.array([np.inf, 0.0, 1.0])
    _judge(nodes, active, u, v, own)
    return own[0] >= safe[0] and own[1] <= safe[1] and own[2] >= safe[2]


# ---- choice of pivots, as in saddle_elimination ----------------------------------------------

LAST, VARYING = 1e12, 1e9
"""What the two classes of worse candidates cost more."""


@Loop
def _choose(nodes: Any, active: Any, lines: Any, place: Any, choice: Any, peel: Any) -> Any:
    """Eliminate lines, group by group; False if some have no safe pivot."""
    safe = choice.safe
    if peel:
        _peel(nodes, active, choice)
    left, n_left, start = np.empty(len(lines), np.int64), 0, 0
    for stage in range(-1, len(safe)):  # first the groups, what they leave in stages
        more = stage < 0
        while more:
            stop = start
            while stop < len(lines) and place[stop] == place[start]:
                if not active.gone[lines[stop]]:
                    left[n_left] = lines[stop]
                    n_left += 1
                stop += 1
            start = stop
            n_left = _choose_among(nodes, active, left, n_left, choice, safe[0], True)
            more = start < len(lines)
        if stage >= 0:
            n_left = _choose_among(nodes, active, left, n_left, choice, safe[stage], False)
    return n_left == 0 and not nodes.size[1]


@Loop
def _peel(nodes: Any, active: Any, choice: Any) -> None:
    """Take pairs whose row holds nothing but the pivot, until there are none."""
    A, lists, length, gone = active.A, active.lists, active.length, active.gone
    n, size = len(A), 0
    pending, waiting = np.empty(n, np.int64), np.zeros(n, np.bool_)
    for k in range(n):
        if not gone[k]:
            pending[size] = k
            waiting[k] = True
            size += 1
    while size > 0:
        size -= 1
        v = pending[size]
        waiting[v] = False
        if gone[v] or A[v, v] != 0 or length[v] != 1:
            continue
        u = np.int64(lists[v, 0])
        if choice.avoided[u, v] or nodes.info[abs(A[v, u]) - 1, SWITCHED]:
            continue
        if _is_safe(nodes, active, u, v, choice.safe[0]):
            for e in range(length[u]):
                k = lists[u, e]
                if k != u and k != v and not waiting[k]:
                    pending[size] = k
                    waiting[k] = True
                    size += 1
            _take(nodes, active, u, v)


@Loop
def _choose_among(
    nodes: Any, active: Any, left: Any, n_left: Any, choice: Any, safe: Any, patient: Any
) -> Any:
    """Take the best safe pivots among the lines that are left; how many lines have none.

    ``patient`` leaves what only a value that sensors can switch off would eliminate.
    """
    inside = np.zeros(len(active.A), np.bool_)
    for e in range(n_left):
        inside[left[e]] = True
    while n_left > 0 and not nodes.size[1]:
        room = n_left
        for e in range(n_left):
            room += active.length[left[e]]
        costs, pivots = np.empty(room), np.empty((room, 2), np.int64)
        size = _candidates(nodes, active, left[:n_left], inside, choice, patient, costs, pivots)
        chosen = -1
        while size > 0 and chosen < 0:
            e = int(np.argmin(costs[:size]))
            if costs[e] == np.inf:
                break
            if _is_safe(nodes, active, pivots[e, 0], pivots[e, 1], safe):
                chosen = e
            costs[e] = np.inf
        if chosen < 0:
            break
        u, v = pivots[chosen, 0], pivots[chosen, 1]
        _take(nodes, active, u, v)
        kept = 0
        for e in range(n_left):
            if left[e] != u and left[e] != v:
                left[kept] = left[e]
                kept += 1
        n_left = kept
    return n_left


@Loop
def _candidates(
    nodes: Any,
    active: Any,
    left: Any,
    inside: Any,
    choice: Any,
    patient: Any,
    costs: Any,
    pivots: Any,
) -> Any:
    """Pivots among the lines that are left, and what they cost; how many."""
    A, lists, length, info = active.A, active.lists, active.length, nodes.info
    factors, size = choice.factors, 0
    for u in left:
        single, n = A[u, u] != 0, length[u]
        for f in range(1 if single else n):
            v = u if single else lists[u, f]
            p = abs(A[u, v]) - 1
            switched = info[p, SWITCHED] != 0
            if not inside[v] or active.gone[v] or (patient and switched):
                continue
            if single:
                updates = n * (n - 1) // 2
            elif A[v, v] != 0:
                updates = (n - 1) * (n + length[v] - 3) if n > 1 else 0
            else:
                updates = (n - 1) * (length[v] - 1)
            cost = (updates + 0.5) * factors[u] * factors[v]
            if switched or choice.avoided[v, u]:
                cost += LAST
            if choice.constants_first and info[p, OP] != CONSTANT:
                cost += VARYING
            costs[size] = cost
            pivots[size, 0], pivots[size, 1] = (u, -1) if single else (v, u)
            size += 1
    return size
