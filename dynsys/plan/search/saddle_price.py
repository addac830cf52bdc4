"""The price of an order of a saddle system: counted by residues, in milliseconds.

:class:`SaddleProblem` is to saddle orders what :class:`.price.SearchProblem` is to LU: plain
arrays, the operations that the program of an order executes, and how safe its pivots are at a
few states. Pivots are those of :class:`~dynsys.plan.saddle_elimination.Elimination`, step by
step the same:

    single (u)         l_k = A_uk / A_uu                                 A_kl -= l_k A_ul
    pair (u, v), A_vv = 0, p = A_uv      t_k = A_vk / p,  h_k = A_uk - (A_uu / 2) t_k
                                                              A_kl -= t_k h_l + h_k t_l
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.jit import Loop
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.methods import Pivot, SaddleOrder
from dynsys.plan.saddle_program import saddle_entries
from dynsys.plan.search.residues import (
    ADD,
    CONSTANT,
    LEFT,
    OP,
    RIGHT,
    Nodes,
    add,
    counted,
    div,
    less_product,
    mul,
    residue_nodes,
)
from dynsys.types import IntArray

__all__ = ["Pivots", "Price", "SaddleProblem"]

Pivots: TypeAlias = list[tuple[int, int]]
"""Lines (u, v) of a pair, (u, -1) of a single pivot."""
STATES = 64
"""States at which pivots are looked at."""
WATCH = 4
"""Operations of watching a pivot that depends on the state, beside its reciprocal."""


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
class SaddleProblem:
    """A saddle system to find an order for.

    Parameters
    ----------
    names : of the lines.
    bodies : of the lines.
    nodes, entries : the assembly by residues, and the references of its entries,
    rows, columns : at these places, constants in column n.
    wanted : lines of the unknowns that are wanted.
    turned : joints turned round, as in the orders.
    """

    names: tuple[str, ...]
    bodies: IntArray
    nodes: Nodes
    entries: IntArray
    rows: IntArray
    columns: IntArray
    wanted: IntArray
    turned: tuple[tuple[str, str], ...]

    @staticmethod
    def of(spec: EstimatorSpec, order: SaddleOrder) -> SaddleProblem:
        """Problem of the orders that turn the same joints as ``order``.

        Only estimates count: what deviations cost is left out.
        """
        system = saddle_entries(spec, order)
        n = len(system.names)
        states = spec.samples(STATES, 0).astype(np.float64)
        nodes, refs = residue_nodes(system.program, states, spec.robot.quaternion_slices)
        names = [name for name in spec.outputs if name in ESTIMATES] or ["torque"]
        wanted = np.concatenate([spec.columns(name) for name in names])
        columns = np.where(system.columns < 0, n, system.columns)
        return SaddleProblem(
            system.names, system.bodies, nodes, refs, system.rows, columns, wanted, order.turned
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

    def price(self, pivots: Sequence[tuple[int, int]]) -> Price | None:
        """What an order costs; None if a pivot of it is zero."""
        n = len(self.names)
        steps = np.array(pivots, dtype=np.int64).reshape(-1, 2)
        room = 4 * int(self.nodes.size[0]) + 64 * n
        while True:
            nodes = self.nodes.with_room(room)
            A = np.zeros((n, n + 1), np.int32)
            A[self.rows, self.columns] = self.entries
            x = np.zeros(n + 1, np.int64)
            reciprocals = np.zeros(len(steps), np.int64)
            worst = np.array([np.inf, 0.0, 1.0])
            if not _eliminated(nodes, A, steps, x, reciprocals, worst):
                if not nodes.size[1]:
                    return None
            if not nodes.size[1]:
                break
            room *= 2
        varying = np.abs(reciprocals[reciprocals != 0]) - 1
        varying = varying[nodes.info[varying, OP] != CONSTANT]
        needed = np.zeros(len(nodes.info), dtype=bool)
        wanted = x[self.wanted]
        needed[np.abs(wanted[wanted != 0]) - 1] = True
        needed[varying] = True
        total = int(counted(nodes, needed)) + WATCH * len(varying)
        return Price(total, *map(float, worst))


# ---- elimination on references ---------------------------------------------------------------


@Loop
def _eliminated(nodes: Any, A: Any, steps: Any, x: Any, reciprocals: Any, worst: Any) -> Any:
    """All unknowns x (n + 1,), the last one, of the constants, is 1; False if a pivot is zero.

    ``A`` (n, n + 1) references, symmetric, overwritten: of an eliminated line it holds what
    back substitution reads.
    """
    n = len(A)
    one = div(nodes, 1, 1)
    half = div(nodes, one, add(nodes, one, one))
    here, there = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    t, h = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    gone = np.zeros(n, np.bool_)
    own = np.zeros(len(steps), np.int64)
    lines = steps.copy()
    for s in range(len(steps)):
        u, v = steps[s, 0], steps[s, 1]
        if gone[u] or (v >= 0 and (gone[v] or v == u)):
            return False
        if v >= 0 and A[v, v] != 0:
            u, v = v, u
            if A[v, v] != 0:
                return False
        lines[s, 0], lines[s, 1] = u, v
        w = u if v < 0 else v  # the row that defines x_u
        p = np.int64(A[w, u])
        if p == 0 or nodes.size[1]:
            return False
        n_here = n_there = 0
        for k in range(n + 1):
            if A[w, k] != 0 and k != u and k != v:
                here[n_here] = k
                n_here += 1
        inverse = div(nodes, one, p)
        if nodes.info[abs(p) - 1, OP] != CONSTANT:
            reciprocals[s] = inverse
        _judge(nodes, A, w, p, here[:n_here], worst)
        gone[u] = True
        for k in here[:n_here]:
            t[k] = mul(nodes, np.int64(A[w, k]), inverse)
        if v < 0:
            for e in range(n_here):
                k = here[e]
                for f in range(e + 1):
                    if here[f] < n:
                        _subtract(
                            nodes, A, k, here[f], mul(nodes, t[here[f]], np.int64(A[u, k]))
                        )
        else:
            gone[v] = True
            own[s] = A[u, u]
            scaled = mul(nodes, own[s], half)
            for k in range(n + 1):
                h[k] = 0
                if k != u and k != v:
                    h[k] = A[u, k]
                    if scaled != 0 and A[v, k] != 0:
                        h[k] = less_product(nodes, h[k], scaled, t[k])
                    if h[k] != 0:
                        there[n_there] = k
                        n_there += 1
            for k in here[:n_here]:
                for l in there[:n_there]:
                    if k == n and l == n:
                        continue
                    product = mul(nodes, t[k], h[l])
                    if k == l:
                        product = add(nodes, product, product)
                    _subtract(nodes, A, k, l, product)
        for k in here[:n_here]:  # row u: the multipliers of x_u; row v stays row u of the pair
            if v >= 0:
                A[v, k] = t[k]
            else:
                A[u, k] = t[k]
        for k in range(n):
            if not gone[k]:
                A[k, u] = 0
                if v >= 0:
                    A[k, v] = 0
    _substituted(nodes, A, lines, own, reciprocals, x, one)
    return True


@Loop
def _substituted(
    nodes: Any, A: Any, lines: Any, own: Any, reciprocals: Any, x: Any, one: Any
) -> None:
    """Back substitution: x_u = - sum t_k x_k, x_v = - (A_uu x_u + sum A_uk x_k) / p."""
    n = len(A)
    x[n] = one
    for s in range(len(lines) - 1, -1, -1):
        u, v = lines[s, 0], lines[s, 1]
        w = u if v < 0 else v
        total = 0
        for k in range(n + 1):
            if A[w, k] != 0 and k != u and k != v:
                total = less_product(nodes, total, np.int64(A[w, k]), x[k])
        x[u] = total
        if v >= 0:
            total = less_product(nodes, 0, own[s], x[u])
            for k in range(n + 1):
                if A[u, k] != 0 and k != u and k != v:
                    total = less_product(nodes, total, np.int64(A[u, k]), x[k])
            inverse = div(nodes, one, np.int64(A[v, u]))
            x[v] = mul(nodes, total, inverse)


@Loop
def _subtract(nodes: Any, A: Any, k: Any, l: Any, value: Any) -> None:
    """A_kl -= value, in both halves; constants are in the last column."""
    n = len(A)
    if k == n:
        k, l = l, k
    total = add(nodes, np.int64(A[k, l]), -value)
    A[k, l] = total
    if l < n:
        A[l, k] = total


@Loop
def _judge(nodes: Any, A: Any, w: Any, p: Any, others: Any, worst: Any) -> None:
    """How steady a pivot is, how large its row beside it, and what cancellation left of it."""
    real, k, n = nodes.real, abs(p) - 1, len(A)
    states = real.shape[1]
    least, mean = np.inf, 0.0
    for e in range(states):
        size = abs(real[k, e])
        least, mean = min(least, size), mean + size / states
        if (real[k, e] > 0.0) != (real[k, 0] > 0.0):
            least = 0.0
        for j in others:
            if j < n and size > 0.0:
                worst[1] = max(worst[1], abs(real[abs(A[w, j]) - 1, e]) / size)
    worst[0] = min(worst[0], least / mean if mean > 0.0 else 0.0)
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
