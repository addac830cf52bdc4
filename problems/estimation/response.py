"""Kernels of what the laws make of z: readings and quantities along any direction of it.

    linear   (q, qd, z) -> Y T Z z,  T Z z       bias   (q, qd) -> Y d_0 + b_Y,  d_0

d = T z + d_0 of :mod:`problems.measured.reduced`, recorded on the expression graph, with Z the
columns of z that are not known to be zero. T itself is never formed: it is inverse dynamics, a
few thousand operations along one direction, so that the rows B = Y T Z come column by column
out of one small kernel, and the standard deviations of any quantity, and what moves along
unseen directions, out of another. None depends on which readings are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.plan.estimator_spec import EstimatorSpec
from dynsys.plan.record import SAMPLES, sample_states
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.response import read_blocks
from dynsys.types import IntArray, ScalarArray
from problems.measured.measured_system import MeasuredSystem, Quantity

__all__ = ["ROWS", "ResponseKernels"]

ROWS = "rows"
"""Name of the readings among the outputs; all others are quantities."""
CHECK_STATES = 3
Outputs: TypeAlias = tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class ResponseKernels:
    """Kernels of a measured system for directions within ``columns`` of z, for some ``rows``.

    Attributes
    ----------
    columns : (p,) entries of z that may differ from zero.
    rows : (m,) readings that are asked for.
    """

    measured: MeasuredSystem
    columns: IntArray
    rows: IntArray

    @cached_property
    def _kernels(self) -> dict[tuple[Outputs, bool], Kernel]:
        return {}

    def linear(self, outputs: Outputs) -> Kernel:
        """Kernel from (q, qd, z) to what z adds to the outputs; z has the size of columns."""
        return self._kernel(outputs, True)

    def bias(self, outputs: Outputs) -> Kernel:
        """Kernel from (q, qd) to the outputs for z = 0; NaN at a q that is none."""
        return self._kernel(outputs, False)

    def _kernel(self, outputs: Outputs, linear: bool) -> Kernel:
        key = outputs, linear
        if key not in self._kernels:
            robot = self.measured.robot
            inputs = [("q", robot.nq), ("qd", robot.nv)]
            if linear:
                inputs.append(("z", len(self.columns)))
            sizes = tuple((name, self.size(name)) for name in outputs)
            signature = Signature(tuple(inputs), sizes)
            self._kernels[key] = kernel_from(
                lambda: self._program(outputs, linear),
                signature,
                self._samples(CHECK_STATES, 7, linear),
                (*self._made_from, outputs, linear),
            )
        return self._kernels[key]

    def size(self, name: str) -> int:
        """Length of an output."""
        return len(self.rows) if name == ROWS else self._columns(name).size

    def _columns(self, name: str) -> IntArray:
        kind: Quantity = name  # type: ignore[assignment]
        return self.measured.laws.unknowns.columns(kind).ravel()

    def _samples(self, count: int, seed: int, linear: bool) -> NDArray[np.longdouble]:
        units = self.measured.units[list(self.columns)] if linear else ()
        return sample_states(self.measured.robot, count, seed, units)

    def _program(self, outputs: Outputs, linear: bool) -> Program:
        """Record the laws along one direction, or their bias; NaN at bad quaternions."""
        measured, graph = self.measured, Graph()
        robot, response = measured.robot, measured.response
        q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
        kinematics = Kinematics.at(robot, q, qd)
        n = len(response.open_columns)
        direction: ScalarArray = np.zeros((n, 1 if linear else 0), dtype=object)
        if linear:
            direction[self.columns, 0] = graph.inputs(len(self.columns))
        d = response.at(kinematics, direction, bias=not linear)
        found: list[object] = []
        for name in outputs:
            if name == ROWS:
                found += read_blocks(measured.readings, kinematics, d)[self.rows, 0].tolist()
            else:
                found += d[self._columns(name), 0].tolist()
        program = simplify(graph.program(found), self._samples(SAMPLES, 0, linear))
        if linear:
            return program
        n_finite = robot.nq + robot.nv
        return guarded(program, robot.quaternion_slices, "float64", n_finite=n_finite)

    @cached_property
    def _made_from(self) -> tuple[object, ...]:
        """Robot and equations."""
        measured = self.measured
        equations, noise = measured.readings, measured.covariance
        spec = EstimatorSpec(measured.robot, equations, noise, ("torque",))
        return "response", spec.fingerprint, self.columns, self.rows
