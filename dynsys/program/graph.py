"""Expression graph: a computation recorded once for one robot, as flat arrays.

A :class:`Graph` is written by running an ordinary algorithm on its :class:`Scalar` objects
(NumPy object arrays of them). Every operation is folded where constants allow, and equal
operations on equal operands are one node (structural hashing). A finished graph is frozen
into a :class:`Program`.

References are signed: node k is referred to as k + 1, its negative as -(k + 1), so that
negation costs nothing. Constants are kept in extended precision, never rounded when interned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from dynsys.program.program import UFUNC, UNARY, Op, Program, without_dead_code
from dynsys.types import ScalarArray

__all__ = ["Graph", "Scalar"]

ADD, MUL, DIV = Op.ADD, Op.MUL, Op.DIV
"""Looked up once: an enumeration takes its time."""


@final
class Graph:
    """Records operations; see the module. Methods take and return signed references."""

    def __init__(self) -> None:
        self.op: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.constants: list[np.longdouble] = []
        self.n_inputs = 0
        self._known: dict[tuple[int, int, int], int] = {}
        self._constant_ref: dict[np.longdouble, int] = {}
        self._value: dict[int, np.longdouble] = {}  # of constant nodes, by reference
        self.one = self.constant(1.0)

    # ---- leaves --------------------------------------------------------------------------

    def inputs(self, count: int) -> ScalarArray:
        """Array (count,) of new input scalars."""
        out = np.empty(count, dtype=object)
        for k in range(count):
            out[k] = Scalar(self, self._node(Op.INPUT, self.n_inputs, 0))
            self.n_inputs += 1
        return out

    def constant(self, value: Any) -> int:
        """Reference of a constant; 0 stands for exact zero."""
        exact = np.longdouble(value)
        if exact == 0:
            return 0
        magnitude = abs(exact)
        ref = self._constant_ref.get(magnitude)
        if ref is None:
            self.constants.append(magnitude)
            ref = self._node(Op.CONSTANT, len(self.constants) - 1, 0)
            self._constant_ref[magnitude] = ref
            self._value[ref] = magnitude
        return ref if exact > 0 else -ref

    def value(self, ref: int) -> np.longdouble | None:
        """Value of a constant reference, or None."""
        if ref == 0:
            return np.longdouble(0)
        found = self._value.get(abs(ref))
        return found if found is None or ref > 0 else -found

    # ---- operations ----------------------------------------------------------------------

    def add(self, a: int, b: int) -> int:
        """A + b; x - y and y - x share a node."""
        if a == 0:
            return b
        if b == 0:
            return a
        if a == -b:
            return 0
        if abs(a) > abs(b):
            a, b = b, a
        va = self._value.get(abs(a))
        vb = None if va is None else self._value.get(abs(b))
        if va is not None and vb is not None:
            return self.constant((va if a > 0 else -va) + (vb if b > 0 else -vb))
        if a < 0:
            return -self._node(ADD, -a, -b)
        return self._node(ADD, a, b)

    def subtract(self, a: int, b: int) -> int:
        """A - b."""
        return self.add(a, -b)

    def mul(self, a: int, b: int) -> int:
        """A * b; the sign is kept outside the node."""
        if a == 0 or b == 0:
            return 0
        sign = 1 if (a > 0) == (b > 0) else -1
        a, b = abs(a), abs(b)
        if a == self.one:
            return sign * b
        if b == self.one:
            return sign * a
        va = self._value.get(a)
        vb = None if va is None else self._value.get(b)
        if va is not None and vb is not None:
            return sign * self.constant(va * vb)
        return sign * self._node(MUL, min(a, b), max(a, b))

    def div(self, a: int, b: int) -> int:
        """A / b."""
        if b == 0:
            raise ZeroDivisionError("the expression graph divides by an exact zero")
        if a == 0:
            return 0
        sign = 1 if (a > 0) == (b > 0) else -1
        a, b = abs(a), abs(b)
        if b == self.one:
            return sign * a
        if a == b:
            return sign * self.one
        vb = self._value.get(b)
        if vb is not None:
            return sign * self.mul(a, self.constant(1 / vb))
        return sign * self._node(DIV, a, b)

    def unary(self, op: Op, a: int) -> int:
        """Sine, cosine, square root or absolute value of a."""
        value = self.value(a)
        if value is not None:
            return self.constant(UFUNC[op](value))
        if op == Op.SIN:
            return self._node(op, abs(a), 0) * (1 if a > 0 else -1)
        if op in (Op.COS, Op.ABS):
            a = abs(a)
        return self._node(op, a, 0)

    def extremum(self, op: Op, a: int, b: int) -> int:
        """Smaller or larger of a and b."""
        if a == b:
            return a
        a, b = (a or self._zero()), (b or self._zero())
        return self._node(op, min(a, b), max(a, b))

    def operation(self, op: int, left: int, right: int) -> int:
        """Any operation; ``right`` counts for those of two operands."""
        if op == ADD:
            return self.add(left, right)
        if op == MUL:
            return self.mul(left, right)
        if op == DIV:
            return self.div(left, right)
        if op in UNARY:
            return self.unary(Op(op), left)
        return self.extremum(Op(op), left, right)

    def _zero(self) -> int:
        """A node that holds exact zero, for operations that cannot fold it."""
        self.constants.append(np.longdouble(0))
        return self._node(Op.CONSTANT, len(self.constants) - 1, 0)

    def _node(self, op: int, left: int, right: int) -> int:
        key = (op, left, right)
        ref = self._known.get(key)
        if ref is None:
            self.op.append(op)
            self.left.append(left)
            self.right.append(right)
            ref = len(self.op)
            self._known[key] = ref
        return ref

    # ---- results -------------------------------------------------------------------------

    def reference(self, x: Any) -> int:
        """Signed reference of a scalar of this graph or of a number."""
        return x.ref if isinstance(x, Scalar) else self.constant(x)

    def program(self, outputs: Sequence[Any]) -> Program:
        """Freeze what the outputs need; everything else is dropped (dead code)."""
        return self.frozen([self.reference(x) for x in outputs])

    def frozen(self, outputs: Sequence[int]) -> Program:
        """What these signed references need, as a program."""
        return without_dead_code(
            Program.from_lists(
                self.op, self.left, self.right, self.constants, outputs, self.n_inputs
            )
        )


@final
class Scalar:
    """One value of a graph, usable wherever an algorithm expects a number."""

    __slots__ = ("graph", "ref")

    def __init__(self, graph: Graph, ref: int) -> None:
        self.graph = graph
        self.ref = ref

    def _make(self, ref: int) -> Any:
        return Scalar(self.graph, ref) if ref else 0.0

    def _combined(self, operation: Callable[[int, int], int], x: Any, *, swap: bool) -> Any:
        """Result of an operation of the graph with another scalar or number, which may lead."""
        if isinstance(x, Scalar):
            other = x.ref
        elif isinstance(x, (int, float, np.floating, np.integer)):
            other = self.graph.constant(x)
        else:
            return NotImplemented
        operands = (other, self.ref) if swap else (self.ref, other)
        return self._make(operation(*operands))

    def __add__(self, x: Any) -> Any:
        return self._combined(self.graph.add, x, swap=False)

    __radd__ = __add__

    def __sub__(self, x: Any) -> Any:
        return self._combined(self.graph.subtract, x, swap=False)

    def __rsub__(self, x: Any) -> Any:
        return self._combined(self.graph.subtract, x, swap=True)

    def __mul__(self, x: Any) -> Any:
        return self._combined(self.graph.mul, x, swap=False)

    __rmul__ = __mul__

    def __truediv__(self, x: Any) -> Any:
        return self._combined(self.graph.div, x, swap=False)

    def __rtruediv__(self, x: Any) -> Any:
        return self._combined(self.graph.div, x, swap=True)

    def __neg__(self) -> Scalar:
        return Scalar(self.graph, -self.ref)

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return Scalar(self.graph, self.graph.unary(Op.ABS, self.ref))

    def sin(self) -> Scalar:
        """Sine; called by np.sin."""
        return Scalar(self.graph, self.graph.unary(Op.SIN, self.ref))

    def cos(self) -> Scalar:
        """Cosine; called by np.cos."""
        return Scalar(self.graph, self.graph.unary(Op.COS, self.ref))

    def sqrt(self) -> Scalar:
        """Square root; called by np.sqrt."""
        return Scalar(self.graph, self.graph.unary(Op.SQRT, self.ref))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        arrays = []
        for x in inputs:
            cell = np.empty(np.shape(x), dtype=object)
            if isinstance(x, np.ndarray) and x.ndim:
                cell[...] = x
            else:  # a NumPy scalar would come back here for ever: make it a node
                cell[()] = x if isinstance(x, Scalar) else self._make(self.graph.constant(x))
            arrays.append(cell)
        return ufunc(*arrays)

    def __repr__(self) -> str:
        return f"Scalar({self.ref})"
