"""Exact derivatives of programs: chain rule over the nodes, on one graph with the program.

    forward    d outputs = J d inputs            one direction at a time, from inputs to outputs
    reverse    d inputs  = J^T d outputs         one weight at a time, from outputs to inputs

A program is replayed on a graph; both ways append to it, so that what derivatives share with
the program and with each other is computed once (structural hashing), and zeros are followed
nowhere (sparse). Directions and weights are scalars of the graph: numbers, inputs, or functions
of the inputs, such as the directions in which a unit quaternion can move. Derivatives of
derivatives: freeze the graph, replay what came out.

Every operation of :class:`~dynsys.program.program.Op` has one. |x|, min and max are smooth in
pieces: between the pieces, at x = 0 or a tie, the answer is the mean of both sides (|x| within
2^-100 of zero counts as between). Cost of a direction or weight: some three operations for each
of the program that depends on it, before simplification (Griewank, Walther, 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import Op, Program
from dynsys.types import ScalarArray

__all__ = [
    "Replay",
    "added_variances",
    "hessian_product_program",
    "jvp_program",
    "transposed_product",
    "vjp_program",
]

STEEP = 2.0**100
"""Slope of the step that stands for the sign of a number; float32 holds it too."""
BACKWARD = 4
"""Forward sweeps that one reverse sweep may take the place of: it follows all that an output
depends on, while a forward one follows what depends on a single direction."""


@final
class Replay:
    """A program whose operations are nodes of a graph, with derivatives along and against it.

    Parameters
    ----------
    program : what to replay; without guards, whose roots have no derivatives at their ends.
    inputs : scalars (n_inputs,) of ``graph`` in place of the program's inputs; by default new
        inputs of the graph.

    Examples
    --------
    >>> graph = Graph()
    >>> x, y = graph.inputs(2)
    >>> replay = Replay(graph.program([x * np.sin(y)]))
    >>> (slope,) = replay.forward([0.0, 1.0])
    >>> replay.graph.program([slope]).evaluate(np.array([2.0, 0.0])).tolist()  # x cos(y)
    [2.0]
    """

    def __init__(
        self, program: Program, graph: Graph | None = None, inputs: ScalarArray | None = None
    ) -> None:
        self.graph = graph = Graph() if graph is None else graph
        self.inputs = graph.inputs(program.n_inputs) if inputs is None else inputs
        given = [graph.reference(x) for x in self.inputs]
        self._nodes = list(
            zip(program.op.tolist(), program.left.tolist(), program.right.tolist(), strict=True)
        )
        self._value: list[int] = []
        for op, left, right in self._nodes:
            if op == Op.CONSTANT:
                ref = graph.constant(program.constants[left])
            elif op == Op.INPUT:
                ref = given[left]
            else:
                ref = graph.operation(op, self._of(left), self._of(right))
            self._value.append(ref)
        self._outputs = program.outputs.tolist()

    @property
    def outputs(self) -> ScalarArray:
        """The program's outputs (n_outputs,) as scalars of the graph."""
        return self._scalars([self._of(ref) for ref in self._outputs])

    def _of(self, ref: int) -> int:
        """Value of a signed reference of the program, on the graph."""
        return self._value[ref - 1] if ref > 0 else -self._value[-ref - 1] if ref else 0

    def _scalars(self, refs: Sequence[int]) -> ScalarArray:
        out = np.zeros(len(refs), dtype=object)
        for k, ref in enumerate(refs):
            out[k] = Scalar(self.graph, ref) if ref else 0.0
        return out

    def forward(self, direction: Sequence[Any] | ScalarArray) -> ScalarArray:
        """J d (n_outputs,) for a direction d (n_inputs,) of scalars or numbers."""
        graph = self.graph
        seeds = [graph.reference(x) for x in direction]
        moves: list[int] = []

        def of(ref: int) -> int:
            return moves[ref - 1] if ref > 0 else -moves[-ref - 1] if ref else 0

        for k, (op, left, right) in enumerate(self._nodes):
            if op == Op.INPUT:
                moves.append(seeds[left])
                continue
            a = 0 if op == Op.CONSTANT else of(left)
            b = of(right) if op in SLOPES_OF_TWO else 0
            if not (a or b):
                moves.append(0)
            elif op == Op.ADD:
                moves.append(graph.add(a, b))
            else:
                by_left, by_right = self._slopes(k, bool(a), bool(b))
                moves.append(graph.add(graph.mul(by_left, a), graph.mul(by_right, b)))
        return self._scalars([of(ref) for ref in self._outputs])

    def reverse(self, weight: Sequence[Any] | ScalarArray) -> ScalarArray:
        """J^T w (n_inputs,) for a weight w (n_outputs,) of scalars or numbers."""
        graph = self.graph
        pulls = [0] * len(self._nodes)

        def pull(ref: int, more: int) -> None:
            if ref:
                at = abs(ref) - 1
                pulls[at] = graph.add(pulls[at], more if ref > 0 else -more)

        for ref, x in zip(self._outputs, weight, strict=True):
            pull(ref, graph.reference(x))
        found = [0] * len(self.inputs)
        for k in reversed(range(len(self._nodes))):
            op, left, right = self._nodes[k]
            mine = pulls[k]
            if not mine or op == Op.CONSTANT:
                continue
            if op == Op.INPUT:
                found[left] = graph.add(found[left], mine)
                continue
            two = op in SLOPES_OF_TWO
            by_left, by_right = self._slopes(k, True, two)
            pull(left, graph.mul(by_left, mine))
            if two:
                pull(right, graph.mul(by_right, mine))
        return self._scalars(found)

    def _slopes(self, k: int, left: bool, right: bool) -> tuple[int, int]:
        """Derivatives of node k with respect to its operands, those that are asked for."""
        op, l_ref, r_ref = self._nodes[k]
        graph, mine, a = self.graph, self._value[k], self._of(l_ref)
        if op in SLOPES_OF_TWO:
            return SLOPES_OF_TWO[op](graph, mine, a, self._of(r_ref), left, right)
        return SLOPES_OF_ONE[op](graph, mine, a), 0


def _of_product(
    graph: Graph, mine: int, a: int, b: int, left: bool, right: bool
) -> tuple[int, int]:
    return b, a


def _of_sum(
    graph: Graph, mine: int, a: int, b: int, left: bool, right: bool
) -> tuple[int, int]:
    return graph.one, graph.one


def _of_quotient(
    graph: Graph, mine: int, a: int, b: int, left: bool, right: bool
) -> tuple[int, int]:
    """1 / b and -(a / b) / b: a division that both share."""
    reciprocal = graph.div(graph.one, b)
    return reciprocal, -graph.mul(mine, reciprocal) if right else 0


def _of_extremum(sign: int) -> Callable[..., tuple[int, int]]:
    def slopes(
        graph: Graph, mine: int, a: int, b: int, left: bool, right: bool
    ) -> tuple[int, int]:
        """(1 + s) / 2 and (1 - s) / 2 with s the sign of a - b (max) or of b - a (min)."""
        half = graph.constant(0.5)
        lead = graph.mul(half, sign * _sign(graph, graph.subtract(a, b)))
        return graph.add(half, lead), graph.subtract(half, lead)

    return slopes


def _sign(graph: Graph, x: int) -> int:
    """-1, 0 or 1: a steep line between -1 and 1."""
    steep = graph.mul(graph.constant(STEEP), x)
    return graph.extremum(Op.MIN, graph.extremum(Op.MAX, steep, -graph.one), graph.one)


SLOPES_OF_TWO: dict[int, Callable[..., tuple[int, int]]] = {
    Op.ADD: _of_sum,
    Op.MUL: _of_product,
    Op.DIV: _of_quotient,
    Op.MIN: _of_extremum(-1),
    Op.MAX: _of_extremum(1),
}
SLOPES_OF_ONE: dict[int, Callable[[Graph, int, int], int]] = {
    Op.SIN: lambda graph, mine, a: graph.unary(Op.COS, a),
    Op.COS: lambda graph, mine, a: -graph.unary(Op.SIN, a),
    Op.SQRT: lambda graph, mine, a: graph.div(graph.constant(0.5), mine),
    Op.ABS: lambda graph, mine, a: _sign(graph, a),
}


# ---- whole programs of products with J, J^T and the second derivative ------------------------

Directions = Callable[[ScalarArray, ScalarArray], ScalarArray]
"""Inputs x (n_inputs,) and a vector v (width,) to T(x) v (n_inputs,): how x moves along v."""


def jvp_program(program: Program, directions: Directions, width: int) -> Program:
    """J T v (n_outputs,) from the inputs x and v (width,), which follows them."""
    replay, v = _with_vector(program, width)
    return replay.graph.program(list(replay.forward(directions(replay.inputs, v))))


def vjp_program(program: Program, directions: Directions, width: int) -> Program:
    """T^T J^T w (width,) from the inputs x and w (n_outputs,), which follows them."""
    replay, w = _with_vector(program, len(program.outputs))
    gradient = replay.reverse(w)
    T = [directions(replay.inputs, column) for column in np.eye(width)]
    return replay.graph.program(list(transposed_product(np.array(T).T, gradient)))


def hessian_product_program(program: Program, directions: Directions, width: int) -> Program:
    """Derivative of T^T J^T w along v (width,) from x, w (n_outputs,) and v, in this order.

    Forward over reverse: the gradient of w . outputs, and how it changes along T v; no matrix.
    """
    gradient = vjp_program(program, directions, width)
    replay, v = _with_vector(gradient, width)
    moved = directions(replay.inputs[: program.n_inputs], v)
    still = [0.0] * len(program.outputs)
    return replay.graph.program(list(replay.forward([*moved, *still])))


def _with_vector(program: Program, size: int) -> tuple[Replay, ScalarArray]:
    """A program replayed, and ``size`` further inputs behind its own."""
    replay = Replay(program)
    return replay, replay.graph.inputs(size)


def transposed_product(T: ScalarArray, x: ScalarArray) -> ScalarArray:
    """T^T x (columns,) without the products that are zero."""
    out = np.zeros(T.shape[1], dtype=object)
    for k, column in enumerate(T.T):
        for a, b in zip(column, x, strict=True):
            if (isinstance(a, Scalar) or a) and (isinstance(b, Scalar) or b):
                out[k] = out[k] + a * b
    return out


# ---- noise of inputs -------------------------------------------------------------------------


def added_variances(
    replay: Replay, moves: ScalarArray, numbers: Sequence[int], longest: int
) -> list[Any]:
    """What noise of the inputs adds to the variance of outputs, to first order.

        sum over k of (d output / d input . move_k)^2

    ``moves`` (n_inputs, count) are independent deviations of the inputs, scalars or numbers;
    ``numbers`` are the outputs. One forward sweep for each move or one reverse sweep for each
    output, whichever is cheaper.

    Raises
    ------
    OverflowError
        if the graph grows beyond ``longest`` nodes.
    """
    backward = BACKWARD * len(numbers) < moves.shape[1]
    sweeps = np.eye(len(replay.outputs))[list(numbers)] if backward else moves.T
    found = []
    for x in sweeps:
        if backward:
            found.append(transposed_product(moves, replay.reverse(x)))
        else:
            found.append(replay.forward(x)[list(numbers)])
        if len(replay.graph.op) > longest:
            raise OverflowError(f"more than {longest} nodes")
    J = np.array(found) if backward else np.array(found).T
    return [sum(x * x for x in row) for row in J]
