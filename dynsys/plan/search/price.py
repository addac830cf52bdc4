"""The price of a pivot order, and its safety: what a search asks thousands of times.

:class:`SearchProblem` is all that a search needs to know of a system: plain arrays that travel
between processes. The cost of an order, in two ways:

    counted    operations of the whole computation, entries of D and b included, equal values
               computed once, without what no output needs: by values, in a millisecond
    exact      the same of the recorded and simplified program, which is what is executed

and its safety: the worst ratio, over sampled states, of any pivot to its column or row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import SingularSystemError
from dynsys.jit import Loop
from dynsys.plan.lu import entries_by_row, factor_and_solve
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.orders.markowitz import CANCELLED, Markowitz
from dynsys.plan.orders.orders import (
    OrderingContext,
    Pattern,
    PivotOrder,
    entry_columns,
    sample_values,
)
from dynsys.plan.orders.restarts import Restarts, tree_potentials
from dynsys.plan.record import SAMPLES, sample_states
from dynsys.plan.search.values import (
    CONSTANT,
    OP,
    Nodes,
    counted,
    div,
    less_product,
    mul,
    program_nodes,
)
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import Op, Program
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.size import reading_units
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["SearchProblem", "diagonal_blocks", "entries_and_rhs"]


@final
@dataclass(frozen=True, eq=False)
class SearchProblem:
    """A square system to find a pivot order for.

    Parameters
    ----------
    pattern : worst-case nonzeros of D.
    values : (states, entries) at sampled states, for the safety of pivots.
    assembly : program of the entries, then of the right-hand side, from (q, qd, y).
    samples : (n, inputs) states for value numbering.
    outputs : columns whose unknowns are wanted.
    quaternions : inputs that are unit quaternions.
    potentials : (any number, columns) that restarts may follow: roots of the tree.
    watch : operations of watching one pivot that depends on the state.
    """

    pattern: Pattern
    values: Array
    assembly: Program
    samples: NDArray[np.longdouble]
    outputs: IntArray
    quaternions: tuple[slice, ...] = ()
    potentials: Array = field(default_factory=lambda: np.zeros((0, 0)))
    watch: int = 0

    @staticmethod
    def of(
        system: LinearSystem,
        outputs: Sequence[UnknownKind] = ("torque", "qdd"),
        *,
        states: int = 32,
        seed: int = 0,
    ) -> SearchProblem:
        """Return the search problem of a system whose unknowns of some kinds are wanted."""
        robot = system.robot
        state = Kinematics.at(robot, *np.split(sample_states(robot, 1, 0)[0], [robot.nq]))
        measured = [block for block in system.equations if block.measured]
        units = reading_units(system.unknowns, measured, state)
        samples = sample_states(robot, SAMPLES, seed, units)
        assembly = simplify(_assembly(system), samples)
        columns = [np.ravel(system.unknowns.columns(kind)) for kind in outputs]
        return SearchProblem(
            system.pattern(),
            sample_values(system, states, seed),
            assembly,
            samples,
            np.concatenate(columns).astype(np.intp),
            robot.quaternion_slices,
            tree_potentials(system),
        )

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """Row and column of every entry."""
        return self.pattern.indices.astype(np.intp), entry_columns(self.pattern)

    @cached_property
    def context(self) -> OrderingContext:
        """Sampled values for orderings that look at pivots."""
        return OrderingContext(None, self.values)

    # ---- costs ---------------------------------------------------------------------------

    def counted(self, order: PivotOrder, enough: float = 0.0) -> tuple[int | None, float]:
        """Operations that the program of an order executes, and the worst ratio of a pivot.

        Watching pivots included. None if a pivot is zero or its ratio below ``enough``, at a
        few states.
        """
        operations, watching, worst = self._counted(order, enough)
        return (None if operations is None else operations + watching), worst

    def watching(self, order: PivotOrder) -> int:
        """Operations of watching the pivots that depend on the state."""
        return self._counted(order)[1] if self.watch else 0

    def _counted(self, order: PivotOrder, enough: float = 0.0) -> tuple[int | None, int, float]:
        known, refs = self._nodes
        (rows, cols), n = self.places, self.pattern.shape[0]
        row_place, col_place = _inverse(order)
        room = 8 * int(known.size[0])
        while True:
            nodes = known.with_room(room)
            A, b, x = np.zeros((n, n), np.int64), *np.zeros((2, n), np.int64)
            A[row_place[rows], col_place[cols]] = refs[: len(rows)]
            b[row_place] = refs[len(rows) :]
            pivots = np.zeros((2, n), np.int64)
            worst = float(_solved(nodes, A, b, x, pivots, enough))
            if not nodes.size[1]:
                break
            room *= 2
        if not worst:
            return None, 0, 0.0
        needed = np.zeros(len(nodes.info), dtype=bool)
        wanted = x[col_place[self.outputs]]
        needed[np.abs(wanted[wanted != 0]) - 1] = True
        total = int(counted(nodes, needed))
        watching = 0
        if self.watch:
            pivot, reciprocal = np.abs(pivots) - 1
            varies = (nodes.info[pivot, OP] != CONSTANT) & needed[pivot]
            ready = (reciprocal >= 0) & needed[reciprocal]
            watching = int((varies * (self.watch + 1 - ready)).sum())
        return total, watching, worst

    @cached_property
    def restarts(self) -> Restarts:
        """Randomised greedy orders, whose pivots are judged at the hardest sampled states."""
        rows, cols = self.places
        order = Markowitz("count").order(self.pattern, self.context)
        ratios = [
            worst_ratio(rows, cols, value[None], *_inverse(order), 0.0) for value in self.values
        ]
        hard = np.argsort(ratios, kind="stable")
        return Restarts(self.pattern, self.values[hard], self.potentials)

    @cached_property
    def _nodes(self) -> tuple[Nodes, IntArray]:
        """The assembly by values."""
        states = self.samples[:RATIO_STATES].astype(np.float64)
        return program_nodes(self.assembly, self.samples, states)

    def exact(self, order: PivotOrder) -> Operations:
        """Operations executed by the simplified program of the whole computation."""
        return program_operations(self.program(order))

    def program(self, order: PivotOrder) -> Program:
        """Simplified program of the wanted unknowns from (q, qd, y).

        Raises
        ------
        SingularSystemError
            if a pivot of the order is zero at every state.
        """
        graph = Graph()
        scalars = _replayed(self.assembly, graph)
        n_entries = self.pattern.nnz
        rows = entries_by_row(self.pattern, scalars[:n_entries])
        x = factor_and_solve(rows, scalars[n_entries:], order).x
        try:
            return simplify(graph.program([x[c] for c in self.outputs.tolist()]), self.samples)
        except ZeroDivisionError:
            raise SingularSystemError("a pivot of the order is zero at every state") from None

    # ---- safety --------------------------------------------------------------------------

    def safety(self, order: PivotOrder, enough: float = 0.0) -> float:
        """Worst ratio of a pivot to its column or row; 0 as soon as it is below ``enough``."""
        return float(worst_ratio(*self.places, self.values, *_inverse(order), enough))


def _inverse(order: PivotOrder) -> tuple[IntArray, IntArray]:
    """Place of every row and of every column in an order."""
    return np.argsort(order.row_order), np.argsort(order.col_order)


def entries_and_rhs(
    system: LinearSystem, kinematics: Kinematics, y: ScalarArray
) -> tuple[ScalarArray, list[Any]]:
    """Entries of D in the order of its pattern, and y - b, at a state of any kind of scalars.

    ``y`` is in the order of ``system.measured_rows``.
    """
    data, bias = system.values(kinematics)
    rhs = [-value for value in bias]
    for row, value in zip(system.measured_rows.tolist(), y, strict=True):
        rhs[row] = rhs[row] + value
    return data, rhs


def _assembly(system: LinearSystem) -> Program:
    """Program of the entries of D in the order of its pattern, then of y - b."""
    robot, graph = system.robot, Graph()
    q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
    y = graph.inputs(len(system.measured_rows))
    data, rhs = entries_and_rhs(system, Kinematics.at(robot, q, qd), y)
    return graph.program([*data, *rhs])


def _replayed(program: Program, graph: Graph) -> list[Any]:
    """Outputs of a program, computed once more on an empty graph."""
    inputs = graph.inputs(program.n_inputs)
    made: list[int] = []

    def get(ref: int) -> int:
        return made[ref - 1] if ref > 0 else -made[-ref - 1] if ref < 0 else 0

    nodes = zip(program.op.tolist(), program.left.tolist(), program.right.tolist(), strict=True)
    for op, left, right in nodes:
        if op == Op.CONSTANT:
            made.append(graph.constant(program.constants[left]))
        elif op == Op.INPUT:
            made.append(graph.reference(inputs[left]))
        else:
            made.append(graph.operation(op, get(left), get(right)))
    return [_scalar(graph, get(ref)) for ref in program.outputs.tolist()]


def _scalar(graph: Graph, ref: int) -> Any:
    """Plain number where the reference is a constant, so that zeros and ones fold."""
    value = graph.value(ref)
    return Scalar(graph, ref) if value is None else value


# ---- safety of A[row_order][:, col_order], eliminated along its diagonal --------------------


@Loop
def diagonal_blocks(place: Any) -> Any:
    """Pivots at which all unknowns so far are determined; end of each row's block.

    ``place`` (n, n), permuted: 0 where there is no entry.
    """
    n = len(place)
    closed, block = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    farthest = -1
    for k in range(n):
        for j in range(n - 1, farthest, -1):
            if place[k, j] != 0:
                farthest = j
                break
        closed[k] = farthest <= k
    end = n - 1
    for k in range(n - 1, -1, -1):
        if closed[k]:
            end = k
        block[k] = end
    return closed, block


@Loop
def worst_ratio(
    rows: Any, cols: Any, values: Any, row_place: Any, col_place: Any, enough: Any
) -> Any:
    """Worst ratio of a pivot to the largest entry of its column or row, whichever is smaller.

    ``rows, cols`` (entries,) of ``values`` (states, entries); ``row_place, col_place`` (n,) are
    the places of rows and columns in the order. Returns 0 as soon as it is below ``enough``.
    """
    n = len(row_place)
    worst = np.inf
    right = np.zeros(n, np.int64)
    for s in range(len(values)):
        A = np.zeros((n, n))
        for e in range(len(rows)):
            A[row_place[rows[e]], col_place[cols[e]]] = values[s, e]
        for k in range(n):
            largest, n_right = abs(A[k, k]), 0
            for j in range(k + 1, n):
                if A[k, j] != 0.0:
                    right[n_right] = j
                    n_right += 1
                    largest = max(largest, abs(A[k, j]))
            column = abs(A[k, k])
            for i in range(k + 1, n):
                column = max(column, abs(A[i, k]))
            bound = min(largest, column)  # of max |u| and max |l|
            ratio = abs(A[k, k]) / bound if bound > 0.0 else 0.0
            if ratio < enough or ratio == 0.0:
                return 0.0
            worst = min(worst, ratio)
            for i in range(k + 1, n):  # A_ij -= l_i u_j / p
                if A[i, k] != 0.0:
                    factor = A[i, k] / A[k, k]
                    for e in range(n_right):
                        old, product = A[i, right[e]], factor * A[k, right[e]]
                        new = old - product
                        small = abs(new) <= CANCELLED * (abs(old) + abs(product))
                        A[i, right[e]] = 0.0 if small else new
    return worst


# ---- the exact price, counted by values ------------------------------------------------------

RATIO_STATES = 8
"""States at which pivots are looked at while operations are counted."""


@Loop
def _solved(nodes: Any, A: Any, b: Any, x: Any, pivots: Any, enough: Any) -> Any:
    """A x = b along the diagonal, step by step as :func:`~dynsys.plan.lu.factor_and_solve`.

    ``A`` (n, n), ``b`` (n,) hold references, permuted, and are overwritten; ``x`` (n,) and
    ``pivots`` (2, n), with their reciprocals where there are such, are filled in. Returns the
    worst ratio of a pivot to its column or row, 0 if it is below ``enough``.
    """
    n = len(A)
    closed, block = diagonal_blocks(A)
    one = div(nodes, 1, 1)
    state = np.zeros(n, np.int8)  # of a row: 1 to be divided, 2 times 1/p, 3 done, 4 x is known
    right, below = np.zeros(n, np.int64), np.zeros(n, np.int64)
    worst, waiting_from = np.inf, 0
    for k in range(n):
        p = A[k, k]
        if p == 0:
            return 0.0
        pivots[0, k] = p
        n_right = n_below = 0
        for j in range(k + 1, n):  # u
            if A[k, j] != 0:
                right[n_right] = j
                n_right += 1
        for i in range(k + 1, n):  # l
            if A[i, k] != 0:
                below[n_below] = i
                n_below += 1
        worst = min(worst, _ratio(nodes, A, k, right[:n_right], below[:n_below]))
        if worst < enough or worst == 0.0 or nodes.size[1]:
            return 0.0
        if n_right == 0:
            state[k] = 4
            x[k] = div(nodes, b[k], p)
            _substitute(nodes, A, b, k, k + 1, x[k])
        else:
            inside = 0
            for e in range(n_below):
                if block[below[e]] == block[k]:
                    below[inside] = below[e]
                    inside += 1
            state[k] = 1
            if inside:
                inverse = div(nodes, one, p)
                pivots[1, k] = inverse
                state[k] = 2
                if inside > n_right:
                    state[k] = 3
                    for j in right[:n_right]:
                        A[k, j] = mul(nodes, A[k, j], inverse)
                    b[k] = mul(nodes, b[k], inverse)
                for i in below[:inside]:
                    m = A[i, k]
                    A[i, k] = 0
                    if state[k] == 2:
                        m = mul(nodes, m, inverse)
                    for j in right[:n_right]:
                        A[i, j] = less_product(nodes, A[i, j], m, A[k, j])
                    b[i] = less_product(nodes, b[i], m, b[k])
        if closed[k]:
            for m in range(k, waiting_from - 1, -1):
                if state[m] == 4:
                    continue
                value = b[m]
                for j in range(m + 1, n):
                    if A[m, j] != 0:
                        value = less_product(nodes, value, A[m, j], x[j])
                if state[m] == 1:
                    value = div(nodes, value, A[m, m])
                elif state[m] == 2:
                    value = mul(nodes, value, pivots[1, m])
                x[m], state[m] = value, 4
                _substitute(nodes, A, b, m, k + 1, value)
            waiting_from = k + 1
    return worst


@Loop
def _substitute(nodes: Any, A: Any, b: Any, c: Any, start: Any, value: Any) -> Any:
    """b_i -= A_ic x_c in the rows from ``start`` on."""
    for i in range(start, len(A)):
        if A[i, c] != 0:
            b[i] = less_product(nodes, b[i], A[i, c], value)
            A[i, c] = 0


@Loop
def _ratio(nodes: Any, A: Any, k: Any, right: Any, below: Any) -> Any:
    """Least of |pivot| / min(largest of its row, largest of its column) over the states."""
    real, p = nodes.real, abs(A[k, k]) - 1
    worst = np.inf
    for e in range(real.shape[1]):
        size = abs(real[p, e])
        row = column = size
        for j in right:
            row = max(row, abs(real[abs(A[k, j]) - 1, e]))
        for i in below:
            column = max(column, abs(real[abs(A[i, k]) - 1, e]))
        bound = min(row, column)
        if not bound > 0.0:
            return 0.0
        worst = min(worst, size / bound)
    return worst
