"""Readings without noise: y = Y(q) d + b_Y(q, qd) for given motion and external wrenches.

One compiled program from (q, qd, qdd, f^x) to y: inverse dynamics gives the unknowns d, the
equations of the layout the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import SAMPLES, body_quantities, sample_states, symmetric_dynamics
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.rnea import rnea
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors import Layout

__all__ = ["TrueReadings"]


@final
@dataclass(frozen=True, eq=False)
class TrueReadings:
    """What the sensors of a layout would read without noise, and the torques."""

    layout: Layout

    @property
    def robot(self) -> KinematicTree:
        """The robot of the layout."""
        return self.layout.robot

    @cached_property
    def unknowns(self) -> UnknownLayout:
        return UnknownLayout(self.robot, net_wrench=True)

    @cached_property
    def _signature(self) -> Signature:
        n, nv = self.robot.n_bodies, self.robot.nv
        inputs = (("q", self.robot.nq), ("qd", nv), ("qdd", nv), ("f_ext", 6 * n))
        outputs = (("torque", nv), ("y", self.layout.size))
        return Signature(inputs, outputs)

    def _program(self) -> Program:
        robot, graph = self.robot, Graph()
        q, qd, qdd = (graph.inputs(size) for size in (robot.nq, robot.nv, robot.nv))
        f_ext = graph.inputs(6 * robot.n_bodies).reshape(-1, 6)
        known = np.ones(robot.nv, dtype=bool)
        torque = symmetric_dynamics(reframe(robot), q, qd, qdd, known, f_ext)[1]
        y = self._rows(q, qd, qdd, f_ext, torque)
        extra = self._signature.n_inputs - robot.nq - robot.nv
        samples = sample_states(robot, SAMPLES, 0, extra)
        return simplify(graph.program([*torque, *y]), samples)

    def _rows(
        self,
        q: ScalarArray,
        qd: ScalarArray,
        qdd: ScalarArray,
        f_ext: ScalarArray,
        torque: ScalarArray,
    ) -> ScalarArray:
        """Y d + b (rows,) on scalars of any kind."""
        robot = self.robot
        kinematics = Kinematics.at(robot, q, qd)
        parts = body_quantities(robot, q, qd, qdd, f_ext)
        joint_wrench, acceleration = parts["joint_wrench"], parts["acceleration"]
        values = {
            "acceleration": acceleration,
            "joint_wrench": joint_wrench,
            "external_wrench": f_ext,
        }
        freedoms = self.unknowns.freedoms
        rows: list[ScalarArray] = []
        for block in self.layout.equations(self.unknowns):
            total = block.bias_at(kinematics)
            for term in block.terms:
                kind, body = term.unknown.kind, term.unknown.body
                if kind in ("torque", "qdd"):
                    d = (torque if kind == "torque" else qdd)[freedoms[body]]
                elif kind == "net_wrench":
                    d = joint_wrench[body] + f_ext[body]
                    for child in robot.children[body]:
                        d = d - kinematics.transforms[child].force_back(joint_wrench[child])
                else:
                    d = values[kind][body]
                coefficient = term.value(kinematics) if callable(term.value) else term.value
                total = total + np.where(term.pattern, coefficient, 0.0) @ d
            rows.append(total)
        return np.concatenate([np.zeros(0), *rows])

    @cached_property
    def kernel(self) -> Kernel:
        """Machine code, from the cache where it is there."""
        extra = self._signature.n_inputs - self.robot.nq - self.robot.nv
        states = sample_states(self.robot, 3, 7, extra)
        question = ("readings", self.layout.fingerprint())
        return kernel_from(self._program, self._signature, states, question)

    def at(self, q: Array, qd: Array, qdd: Array, f_ext: Array) -> tuple[Array, Array]:
        """Torque (N, nv) and y (N, rows) of N states; f_ext (N, n_bodies, 6), body frames."""
        wrenches = np.ascontiguousarray(f_ext.reshape(len(q), -1))
        (torque, y), _ = self.kernel.batch(q, qd, qdd, wrenches)
        return torque, y

    def reference(self, q: Array, qd: Array, qdd: Array, f_ext: Array) -> tuple[Array, Array]:
        """Torque (nv,) and y (rows,) of one state by plain evaluation, for comparison."""
        torque = rnea(self.robot, q, qd, qdd, f_ext)
        return torque, np.asarray(self._rows(q, qd, qdd, f_ext, torque), dtype=np.float64)
