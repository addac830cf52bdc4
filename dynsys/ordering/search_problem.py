"""What a search needs to know of a system: plain arrays that travel between processes.

The cost of a pivot order, in two ways:

    estimate   operations of the elimination by structure alone: milliseconds
    exact      operations of the whole computation, entries of D and b included, recorded as a
               program, simplified by value numbering and without what no output needs

and its safety: the worst ratio, over sampled states, of any pivot to its column or row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from dynsys.codegen.programs import SAMPLES, sample_states
from dynsys.ordering.elimination import factor_and_solve
from dynsys.ordering.operations import Operations, program_operations
from dynsys.ordering.orders import OrderingContext, Pattern, PivotOrder, sample_values
from dynsys.ordering.search_compiled import GENERAL, UNIT, elimination_price, worst_ratio
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import BINARY, UNARY, Op, Program
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, BoolArray, IntArray

__all__ = ["SearchProblem"]


@final
@dataclass(frozen=True, eq=False)
class SearchProblem:
    """A square system to find a pivot order for.

    Parameters
    ----------
    indptr, indices : worst-case pattern in compressed columns.
    values : (states, entries) at sampled states, for the safety of pivots.
    unit : (entries,) entries that are +-1 at every state.
    known_rhs : (rows,) rows whose right-hand side is not identically zero.
    assembly : program of the entries, then of the right-hand side, from (q, qd, y).
    samples : (n, inputs) states for value numbering.
    outputs : columns whose unknowns are wanted.
    """

    indptr: IntArray
    indices: IntArray
    values: Array
    unit: BoolArray
    known_rhs: BoolArray
    assembly: Program
    samples: NDArray[np.longdouble]
    outputs: IntArray

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
        n_known = len(system.measured_rows)
        samples = sample_states(robot, SAMPLES, seed, n_known)
        assembly = simplify(_assembly(system), samples)
        columns = [np.ravel(system.unknowns.columns(kind)) for kind in outputs]
        refs = assembly.outputs
        one = [_is_unit(assembly, ref) for ref in refs[: system.nnz].tolist()]
        return SearchProblem(
            system.indptr.astype(np.intp),
            system.indices.astype(np.intp),
            sample_values(system, states, seed),
            np.array(one, dtype=bool),
            np.asarray(refs[system.nnz :] != 0),
            assembly,
            samples,
            np.concatenate(columns).astype(np.intp),
        )

    @property
    def size(self) -> int:
        """Number of equations and of unknowns."""
        return len(self.indptr) - 1

    @cached_property
    def pattern(self) -> Pattern:
        """Worst-case pattern of D."""
        shape = (len(self.known_rhs), self.size)
        return csc_array((np.ones(len(self.indices), bool), self.indices, self.indptr), shape)

    @cached_property
    def _columns(self) -> IntArray:
        """Column of every entry."""
        return np.repeat(np.arange(self.size), np.diff(self.indptr))

    @cached_property
    def context(self) -> OrderingContext:
        """Sampled values for orderings that look at pivots."""
        return OrderingContext(None, self.values)

    # ---- costs ---------------------------------------------------------------------------

    def estimate(self, order: PivotOrder) -> int | None:
        """Operations of the elimination by structure; None if a pivot is structurally zero.

        Products with +-1 and right-hand sides that are zero cost nothing.
        """
        row_place, col_place = _places(order)
        kinds = np.zeros((self.size, self.size), dtype=np.int8)
        kinds[row_place[self.indices], col_place[self._columns]] = np.where(
            self.unit, UNIT, GENERAL
        )
        found = int(elimination_price(kinds, self.known_rhs[order.row_order]))
        return None if found < 0 else found

    def exact(self, order: PivotOrder) -> Operations:
        """Operations executed by the simplified program of the whole computation."""
        return program_operations(self.program(order))

    def program(self, order: PivotOrder) -> Program:
        """Simplified program of the wanted unknowns from (q, qd, y)."""
        graph = Graph()
        scalars = _replayed(self.assembly, graph)
        n_entries = len(self.indices)
        rows: list[dict[int, Any]] = [{} for _ in self.known_rhs]
        places = zip(self.indices.tolist(), self._columns.tolist(), strict=True)
        for (r, c), value in zip(places, scalars[:n_entries], strict=True):
            rows[r][c] = value
        x = factor_and_solve(rows, scalars[n_entries:], order).x
        return simplify(graph.program([x[c] for c in self.outputs.tolist()]), self.samples)

    # ---- safety --------------------------------------------------------------------------

    def safety(
        self, order: PivotOrder, enough: float = 0.0, states: int | None = None
    ) -> float:
        """Worst ratio of a pivot to its column or row, at the first ``states`` (default all).

        Zero as soon as it is below ``enough``.
        """
        values = self.values[:states]
        places = _places(order)
        return float(worst_ratio(self.indices, self._columns, values, *places, enough))


def _places(order: PivotOrder) -> tuple[IntArray, IntArray]:
    """Place of every row and of every column in an order."""
    return np.argsort(order.row_order), np.argsort(order.col_order)


def _assembly(system: LinearSystem) -> Program:
    """Program of the entries of D in the order of its pattern, then of y - b."""
    robot, graph = system.robot, Graph()
    q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
    y = graph.inputs(len(system.measured_rows))
    data, bias = system.values(Kinematics.at(robot, q, qd))
    rhs = [-value for value in bias]
    for row, value in zip(system.measured_rows.tolist(), y, strict=True):
        rhs[row] = rhs[row] + value
    return graph.program([*data, *rhs])


def _is_unit(program: Program, ref: int) -> bool:
    if ref == 0 or program.op[abs(ref) - 1] != Op.CONSTANT:
        return False
    return bool(program.constants[program.left[abs(ref) - 1]] == 1)


def _replayed(program: Program, graph: Graph) -> list[Any]:
    """Outputs of a program, computed once more on an empty graph."""
    inputs = graph.inputs(program.n_inputs)
    made: list[int] = []

    def get(ref: int) -> int:
        return made[ref - 1] if ref > 0 else -made[-ref - 1]

    nodes = zip(program.op.tolist(), program.left.tolist(), program.right.tolist(), strict=True)
    for op, left, right in nodes:
        if op == Op.CONSTANT:
            made.append(graph.constant(program.constants[left]))
        elif op == Op.INPUT:
            made.append(graph.reference(inputs[left]))
        elif op in UNARY:
            made.append(graph.unary(Op(op), get(left)))
        elif op == Op.ADD:
            made.append(graph.add(get(left), get(right)))
        elif op == Op.MUL:
            made.append(graph.mul(get(left), get(right)))
        elif op == Op.DIV:
            made.append(graph.div(get(left), get(right)))
        else:
            assert op in BINARY
            made.append(graph.extremum(Op(op), get(left), get(right)))
    return [_scalar(graph, get(ref) if ref else 0) for ref in program.outputs.tolist()]


def _scalar(graph: Graph, ref: int) -> Any:
    """Plain number where the reference is a constant, so that zeros and ones fold."""
    value = graph.value(ref)
    return Scalar(graph, ref) if value is None else value
