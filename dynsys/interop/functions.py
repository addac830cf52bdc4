"""A problem as a function of plain vectors, with Jacobian and Hessian: what other tools call.

    answer = f(q, qd, given, ...)      J_x = d answer / d x      H = d^2 (w . answer) / d x d x

Tools that differentiate know vectors of numbers, not quaternions. Here f takes q (nq,) of any
length: quaternions are normalised first. Its derivative by q (answer, nq) follows from the one
in the tangent space, J_v, for how q moves along v is T(q) (nq, nv) with T^T T = 1 / scale:

    J_q = J_v scale T(q)^T      (columns of a quaternion divided by its length)

Along a quaternion, f does not change. An estimation (:mod:`.questions`) is differentiated by
the chain rule over its program. All of it is recorded, simplified and compiled as one program
(:mod:`dynsys.plan.record`). Answers, derivatives among them, are NaN where a pivot that is safe
by sampling only vanishes.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.distribution import install
from dynsys.errors import DynsysError, KernelBuildError, StateError
from dynsys.interop.questions import (
    DynamicsProblem,
    EstimationProblem,
    EstimationQuestion,
    asked_of,
)
from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.model.natural import unusual
from dynsys.program.derivatives import Replay
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.types import IntArray, ScalarArray

__all__ = [
    "DType",
    "PlainFunction",
    "imported",
    "kept_for_ever",
    "lower_triangle",
]

DType: TypeAlias = Literal["float64", "float32"]
CHECKED = 3
SIMPLIFIED = 12
"""Random states that a kernel is checked at, and that a program is simplified with."""


@final
class PlainFunction:
    """A problem as a function of plain vectors; see the module.

    Parameters
    ----------
    problem : inverse, forward or hybrid dynamics, or an estimation.
    answer : quantity of an estimation, ``torque`` by default; what dynamics answers is known.
    wrenches : True makes external wrenches (6 n_bodies,) a further input of dynamics.
    parameters : names of parameters of the robot whose values are the last input.
    """

    def __init__(
        self,
        problem: DynamicsProblem | EstimationProblem,
        *,
        answer: str = "",
        wrenches: bool = False,
        parameters: Sequence[str] = (),
        dtype: DType = "float64",
    ) -> None:
        if dtype not in ("float64", "float32"):
            raise KernelBuildError(f"dtype must be float64 or float32, got {dtype!r}")
        self._question = asked = asked_of(problem, answer, wrenches, parameters)
        self.robot, self.dtype = asked.robot, dtype
        self.answer, self.size = asked.answer, asked.size
        """Name and length of what f answers; unknown: torque where qdd is given, else qdd."""
        self.inputs = asked.inputs
        """Names of the inputs and their lengths."""
        self._jacobians: dict[tuple[str, ...], Kernel] = {}

    def width(self, by: Sequence[str]) -> int:
        """Numbers in some of the inputs."""
        return sum(self.inputs[name] for name in by)

    def described(self) -> str:
        """Inputs and answer in words, for messages."""
        inputs = ", ".join(f"{name} ({size})" for name, size in self.inputs.items())
        return f"{inputs} -> {self.answer} ({self.size}) of robot {self.robot.name!r}"

    # ---- arguments -----------------------------------------------------------------------

    def check_count(self, inputs: Sequence[object]) -> None:
        """Refuse too few or too many inputs; StateError names those that are expected."""
        if len(inputs) != len(self.inputs):
            raise StateError(
                f"expected {len(self.inputs)} arguments, got {len(inputs)}: {self.described()}"
            )

    def common_shape(
        self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[object]
    ) -> tuple[int, ...]:
        """Leading axes of all inputs, broadcast; StateError names an input that is wrong."""
        for (name, size), shape, dtype in zip(self.inputs.items(), shapes, dtypes, strict=True):
            if not shape or shape[-1] != size:
                raise StateError(f"{name}: expected shape (..., {size}), got {tuple(shape)}")
            kind = str(dtype).rsplit(".", 1)[-1]
            if not kind.startswith(("float", "bfloat", "int", "uint")):
                raise StateError(f"{name}: expected real numbers, got {dtype}")
            if self.dtype == "float32" and kind == "float64":
                raise StateError(
                    f"{name} is float64, the function computes in float32: convert it"
                )
        try:
            return np.broadcast_shapes(*(tuple(shape)[:-1] for shape in shapes))
        except ValueError:
            listed = dict(zip(self.inputs, map(tuple, shapes), strict=True))
            raise StateError(
                f"leading axes of the inputs do not fit together: {listed}"
            ) from None

    def columns(self, by: Sequence[str]) -> IntArray:
        """Where the numbers of some inputs are among those of all."""
        ends = np.cumsum([0, *self.inputs.values()])
        starts = dict(zip(self.inputs, ends, strict=False))
        parts = [np.arange(starts[x], starts[x] + self.inputs[x]) for x in by]
        return np.concatenate([np.zeros(0, dtype=np.intp), *parts])

    # ---- kernels -------------------------------------------------------------------------

    @cached_property
    def value(self) -> Kernel:
        """Kernel: the answer (nv,) from the inputs."""
        return self._kernel("value", (), {self.answer: self.size}, lambda: self._program(()))

    def jacobian(self, by: Sequence[str]) -> Kernel:
        """Kernel: the answer, then J (nv, sizes of the inputs ``by`` which), row by row.

        Columns come in the order of the inputs.
        """
        key = tuple(name for name in self.inputs if name in by)
        if key not in self._jacobians:
            outputs = {self.answer: self.size, "jacobian": self.size * self.width(key)}
            made = self._kernel("jacobian", key, outputs, lambda: self._program(key))
            self._jacobians[key] = made
        return self._jacobians[key]

    @cached_property
    def gradient(self) -> Kernel:
        """Kernel: J^T w, a vector for each input, from the inputs and ``weight`` (nv,)."""
        outputs = {f"gradient_{name}": size for name, size in self.inputs.items()}
        return self._kernel("gradient", (), outputs, lambda: self._weighted(False), weight=True)

    @cached_property
    def hessian(self) -> Kernel:
        """Kernel: H of w . answer, lower triangle row by row, from inputs and ``weight``."""
        n = self.width(tuple(self.inputs))
        outputs = {"hessian": n * (n + 1) // 2}
        return self._kernel("hessian", (), outputs, lambda: self._weighted(True), weight=True)

    def _kernel(
        self,
        kind: str,
        by: tuple[str, ...],
        outputs: Mapping[str, int],
        program: Callable[[], Program],
        *,
        weight: bool = False,
    ) -> Kernel:
        inputs = dict(self.inputs) | ({"weight": self.size} if weight else {})
        signature = Signature(tuple(inputs.items()), tuple(outputs.items()))
        asked = ("plain", kind, by, *self._question.made_from)
        states = self._samples(CHECKED, 7, self.size if weight else 0)
        return kernel_from(program, signature, states, asked, dtype=self.dtype)

    def _samples(self, count: int, seed: int, extra: int = 0) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs + extra), quaternions of any length."""
        states = self._question.samples(count, seed)
        rng = np.random.default_rng(seed)
        for where in self.robot.quaternion_slices:
            states[:, where] *= rng.uniform(0.5, 2.0, size=(count, 1))
        weights = rng.normal(size=(count, extra)) / unusual(self._question.units[:extra])
        return np.hstack([states, weights.astype(np.longdouble)])

    # ---- programs ------------------------------------------------------------------------

    def _program(self, by: tuple[str, ...]) -> Program:
        return self._guarded(*self._recorded(by))

    def _guarded(self, program: Program, limits: list[float]) -> Program:
        n_finite, n_checks = program.n_inputs, self._question.n_checks
        return guarded(
            program, (), self.dtype, limits, n_finite=n_finite, n_checks=n_checks, every=True
        )

    def _recorded(self, by: tuple[str, ...]) -> tuple[Program, list[float]]:
        """Answer and derivatives by some inputs, in coordinates of q of any length.

        Behind them reciprocals of pivots, with their limits, and checks.
        """
        if isinstance(self._question, EstimationQuestion):
            return self._by_chain_rule(self._question, by)
        known, nv = self._question.spec.known, self.size
        program, limits = self._question.watched(by)
        graph = Graph()
        x = graph.inputs(program.n_inputs)
        unit, shrunk = self._normalised(x)
        found = list(Replay(program, graph, unit).outputs)
        results: list[Any] = found[:nv]
        start, blocks = nv, []
        if self.answer == "unknown":
            results = [found[k if one else nv + k] for k, one in enumerate(known)]
            start = 2 * nv
        for name in by:
            columns = nv if name == "q" else self.inputs[name]
            J = np.array(found[start : start + nv * columns]).reshape(nv, columns)
            start += nv * columns
            if name == "q" and not self._is_flat:
                J = _product(J, self._inverse_tangent(unit, shrunk))
            blocks.append(J)
        if blocks:
            results += list(np.hstack(blocks).ravel())
        made = graph.program([*results, *found[start:]])
        return (made if self._is_flat else self._simplified(made)), limits

    def _by_chain_rule(
        self, question: EstimationQuestion, by: tuple[str, ...]
    ) -> tuple[Program, list[float]]:
        """The same of a program without derivatives: a reverse sweep for each number of it."""
        program, limits = question.watched()
        graph = Graph()
        unit, _ = self._normalised(graph.inputs(program.n_inputs))
        whole = Replay(program, graph, unit)
        if not by:
            made = graph.program(list(whole.outputs))
            return (made if self._is_flat else self._simplified(made)), limits
        replay = Replay(graph.program(list(whole.outputs)))
        rows = np.eye(self.size, len(replay.outputs))
        J = [replay.reverse(row)[self.columns(by)] for row in rows]
        answers, watched = np.split(replay.outputs, [self.size])
        outputs = [*answers, *np.concatenate(J), *watched]
        return self._simplified(replay.graph.program(outputs)), limits

    def _simplified(self, program: Program) -> Program:
        extra = program.n_inputs - sum(self.inputs.values())
        return simplify(program, self._samples(SIMPLIFIED, 0, extra))

    @cached_property
    def _is_flat(self) -> bool:
        """Whether q moves as v does: no quaternions, no planar joints."""
        T = self.robot.tangent(self.robot.random_configuration(0, limited=False))
        return T.shape[0] == T.shape[1] and np.array_equal(T, np.eye(len(T)))

    def _normalised(self, x: ScalarArray) -> tuple[ScalarArray, dict[int, Any]]:
        """Inputs with unit quaternions, and by which factor entries of q shrank."""
        unit = x.copy()
        shrunk: dict[int, Any] = {}
        for where in self.robot.quaternion_slices:
            r = 1.0 / np.sqrt(sum(x[where] * x[where]))
            unit[where] = x[where] * r
            shrunk |= dict.fromkeys(range(where.start, where.stop), r)
        return unit, shrunk

    def _inverse_tangent(self, unit: ScalarArray, shrunk: Mapping[int, Any]) -> ScalarArray:
        """Return (nv, nq): v when q moves, scale T^T, quaternions at their own length."""
        robot = self.robot
        T = robot.tangent(robot.random_configuration(0, limited=False))
        scale = 1.0 / (T**2).sum(axis=0)
        P: ScalarArray = robot.tangent(unit[: robot.nq]).T * scale[:, None]
        for k, r in shrunk.items():
            P[:, k] = [x * r if not _is_zero(x) else 0.0 for x in P[:, k]]
        return P

    def _weighted(self, second: bool) -> Program:
        """Gradient of w . answer, or the lower triangle of its second derivatives."""
        program, limits = self._recorded(())
        replay = Replay(program)
        n = len(replay.inputs)
        still = [0.0] * (len(limits) + 2 * self._question.n_checks)
        weight = replay.graph.inputs(self.size)
        pivots = replay.outputs[self.size :]
        first = replay.graph.program([*replay.reverse([*weight, *still]), *pivots])
        made = self._simplified(first)
        if second:
            again = Replay(made)
            columns = [again.forward(unit) for unit in np.eye(n, n + self.size)]
            lower = [columns[j][i] for i in range(n) for j in range(i + 1)]
            made = self._simplified(again.graph.program([*lower, *again.outputs[n:]]))
        return self._guarded(made, limits)


def _product(A: ScalarArray, B: ScalarArray) -> ScalarArray:
    """A B without the products that are zero."""
    out = np.zeros((len(A), B.shape[1]), dtype=object)
    for i, row in enumerate(A):
        for k, a in enumerate(row):
            if _is_zero(a):
                continue
            for j, b in enumerate(B[k]):
                if not _is_zero(b):
                    out[i, j] = out[i, j] + a * b
    return out


def _is_zero(x: Any) -> bool:
    return isinstance(x, (int, float)) and x == 0


def imported(name: str) -> Any:
    """A tool by the name of its package; DynsysError says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise DynsysError(f"{name} is not installed: {install(name)}") from None


def kept_for_ever(thing: object) -> None:
    """Keep an object until the process ends.

    Tools hold addresses of machine code and do not say when they have done with it.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def lower_triangle(n: int) -> IntArray:
    """Places (n, n) in the lower triangle, row by row, of every entry of a symmetric matrix."""
    i, j = np.indices((n, n))
    i, j = np.maximum(i, j), np.minimum(i, j)
    return np.asarray(i * (i + 1) // 2 + j)
