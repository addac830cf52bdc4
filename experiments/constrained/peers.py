"""Constrained forward dynamics by Pinocchio and MuJoCo, in dynsys' order and axes.

Pinocchio solves the same rows (``constraintDynamics``); redundant rows need a proximal term.
MuJoCo's equality constraints are soft: it gives them an acceleration of its own choice. Given
that acceleration as target, ours must be the same motion, by the same forces on the joints.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.interop import MujocoMap, PinocchioMap
from dynsys.model.constraints import FrameConstraint
from dynsys.model.spatial import Transform
from dynsys.model.tree import Frame, KinematicTree
from dynsys.recursive.kinematics import forward_kinematics
from dynsys.types import Array
from experiments.agreement.robots import mjcf_text, urdf_text
from experiments.constrained.robots import Case

__all__ = ["Mujoco", "Pinocchio", "UnphysicalInertia"]


class UnphysicalInertia(ValueError):
    """A body of the file has an inertia that MuJoCo does not read."""


def _frames(case: Case) -> list[tuple[FrameConstraint, Frame, Frame]]:
    return [
        (c, *c.ends(case.robot)) for c in case.constraints if isinstance(c, FrameConstraint)
    ]


@final
class Pinocchio:
    """``pin.constraintDynamics`` with one RigidConstraintModel for each constraint."""

    def __init__(self, case: Case, model: Any | None, redundant: bool) -> None:
        import pinocchio as pin

        if model is None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "robot.urdf"
                path.write_text(urdf_text(case.robot))
                model = pin.buildModelFromUrdf(str(path))
        self._pin, self._model, self._data = pin, model, model.createData()
        self.map = PinocchioMap(case.robot, model)
        self._models = pin.StdVec_RigidConstraintModel()
        self._datas = pin.StdVec_RigidConstraintData()
        kinds = {3: pin.ContactType.CONTACT_3D, 6: pin.ContactType.CONTACT_6D}
        for held, own, other in _frames(case):
            ends = [self._place(case.robot, own)]
            ends += [] if other.body < 0 else [self._place(case.robot, other)]
            places = [part for end in ends for part in end]
            made = pin.RigidConstraintModel(kinds[held.size], model, *places, pin.LOCAL)
            self._models.append(made)
            self._datas.append(made.createData())
        pin.initConstraintDynamics(model, self._data, self._models, self._datas)
        self._settings = (pin.ProximalSettings(1e-14, 1e-6, 20),) if redundant else ()

    def _place(self, robot: KinematicTree, frame: Frame) -> tuple[int, Any]:
        name = robot.joint_names[frame.body]
        if name not in self._model.names:
            name = "root_joint"
        E, r = np.asarray(frame.transform.E), np.asarray(frame.transform.r)
        return self._model.getJointId(name), self._pin.SE3(E.T, r)

    def inputs(self, q: Array, qd: Array, torque: Array) -> tuple[Array, Array, Array]:
        """A state in its order."""
        return self.map.q_to_pin(q), self.map.v_to_pin(qd), self.map.tau_to_pin(torque)

    def call(self, q: Array, qd: Array, torque: Array) -> Any:
        """The call that is timed: a state in its order, qdd in its order."""
        state = (self._model, self._data, q, qd, torque, self._models, self._datas)
        return self._pin.constraintDynamics(*state, *self._settings)

    def solve(self, q: Array, qd: Array, torque: Array) -> tuple[Array, list[Array]]:
        """qdd (nv,) and the wrenches (6,) of all constraints, moment first."""
        qdd = self.map.v_from_pin(self.call(*self.inputs(q, qd, torque)))
        forces = [data.contact_force for data in self._datas]
        return qdd, [np.concatenate([f.angular, f.linear]) for f in forces]


@final
class Mujoco:
    """MuJoCo with welds and connects between sites; made anew for each q that is held."""

    def __init__(self, case: Case, q: Array) -> None:
        import mujoco

        self._mj = mujoco
        for body in case.robot.bodies:  # MuJoCo refuses what no mass distribution has
            a, b, c = np.linalg.eigvalsh(body.inertia.about_com)
            if a <= 0 or a + b < c:
                raise UnphysicalInertia(f"{case.robot.name}: body {body.name!r}")
        self.model = mujoco.MjModel.from_xml_string(self._text(case, q))
        self.map = MujocoMap(case.robot, self.model)

    def _text(self, case: Case, q: Array) -> str:
        text = mjcf_text(case.robot, [])
        text = text.replace('<flag constraint="disable"/>', '<flag contact="disable"/>')
        text = text.replace("<option ", '<option tolerance="0" iterations="500" ')
        sites: dict[int, str] = {}
        rows = []
        for k, (held, own, other) in enumerate(_frames(case)):
            if other.body < 0:  # held wherever it is
                at = forward_kinematics(case.robot, q, own.body).then(own.transform)
                other = Frame(-1, at)
            for name, end in ((f"own_{k}", own), (f"other_{k}", other)):
                sites[end.body] = sites.get(end.body, "") + _site(name, end.transform)
            kind = "weld" if held.size == 6 else "connect"
            rows.append(
                f'<{kind} site1="own_{k}" site2="other_{k}" solref="0.02 1"'
                ' solimp="0.9999 0.9999 0.001"/>'
            )
        for body, added in sites.items():
            if body < 0:
                text = text.replace("<worldbody>", f"<worldbody>{added}", 1)
            else:
                opening = f'<body name="{case.robot.body_names[body]}" '
                start = text.index(">", text.index(opening)) + 1
                text = text[:start] + added + text[start:]
        return text.replace("</mujoco>", f"<equality>{''.join(rows)}</equality></mujoco>")

    def solve(self, q: Array, qd: Array, torque: Array) -> tuple[Array, Array]:
        """qdd and the torques of all constraint forces on the joints (nv,)."""
        data = self._mj.MjData(self.model)
        data.qpos[:] = self.map.q_to_mujoco(q)
        data.qvel[:] = self.map.v_to_mujoco(q, qd)
        data.qfrc_applied[:] = self.map.tau_to_mujoco(q, torque)
        self._mj.mj_forward(self.model, data)
        qdd = self.map.a_from_mujoco(q, qd, np.array(data.qacc))
        return qdd, self.map.tau_from_mujoco(q, np.array(data.qfrc_constraint))


def _site(name: str, at: Transform) -> str:
    E = np.asarray(at.E)
    pos, axes = (" ".join(repr(float(x)) for x in np.ravel(v)) for v in (at.r, E[:2]))
    return f'<site name="{name}" pos="{pos}" xyaxes="{axes}"/>'
