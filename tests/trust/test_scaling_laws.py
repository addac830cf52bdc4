"""The same robot, smaller or larger, lighter or heavier: answers follow exact scaling laws.

Lengths times L, masses times M and gravity times L, at the same angles and seconds, leave the
equations as they are: what turns stays, what slides is L times, moments are M L^2 and forces
M L times as large. So a robot of one metre and one kilogram is the oracle of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import FrameConstraint, KinematicTree
from dynsys.model.body import Body
from dynsys.model.joints import Prismatic, Revolute
from dynsys.model.spatial import Inertia, Transform, rotation_about
from dynsys.plan.operations import program_operations
from dynsys.plan.record import DynamicsSpec, dynamics_program
from dynsys.program.signature import Signature
from dynsys.types import Array
from experiments.trust.edges_oracle import exact_torque
from problems.detection.momentum import MomentumObserver
from tests.kernel.exported_c import call, needs_compiler

X, Y, Z = np.eye(3)
SCALES = [(1e-6, 1e-9), (1e-6, 1e9), (1e4, 1e9), (1e6, 1e-9), (1e6, 1e9)]
"""Metres and kilograms."""


def arm(length: float, mass: float) -> KinematicTree:
    """Three joints that turn and one that slides, in generic frames."""
    rng = np.random.default_rng(4)
    bodies = []
    for k, joint in enumerate((Revolute(Z), Revolute(Y), Prismatic(X), Revolute(X))):
        about_com = mass * length**2 * np.diag([0.1, 0.15, 0.2])
        inertia = Inertia(mass * (1.1 + 0.2 * k), 0.3 * length * rng.normal(size=3), about_com)
        E = rotation_about(Z, np.cos(k), np.sin(k))
        way = Transform(E, length * rng.normal(size=3))
        bodies.append(Body(f"link_{k}", k - 1, joint, way, inertia))
    return KinematicTree("arm", bodies, gravity=(0.0, 0.0, -9.81 * length))


HELD = [FrameConstraint("tip", "link_3", None, ("x", "y"))]
STATE = np.random.default_rng(5).normal(size=(5, 4))
PUSHED = np.random.default_rng(6).normal(size=(4, 6))


class Scaled:
    """The arm of some scale, its state, and the units that its answers are to follow."""

    def __init__(self, length: float, mass: float) -> None:
        self.robot = arm(length, mass)
        self.L, self.M = length, mass
        self.motion = np.array([1.0, 1.0, length, 1.0])
        self.drive = mass * length**2 / self.motion
        self.twist = np.repeat([1.0, length], 3)
        self.wrench = mass * length**2 / self.twist
        self.q, self.qd, self.qdd = STATE[:3] * self.motion
        self.torque, self.posture = STATE[3:] * self.drive

    @property
    def inverse(self) -> tuple[KinematicTree, Array, Array, Array]:
        return self.robot, self.q, self.qd, self.qdd

    @property
    def forward(self) -> tuple[KinematicTree, Array, Array, Array]:
        return self.robot, self.q, self.qd, self.torque

    def states(self, third: Array) -> tuple[Array, ...]:
        return tuple(np.tile(x, (5, 1)) for x in (self.q, self.qd, third))

    def estimated(self, backend: str, what: str) -> Array:
        """Torques, or their deviations, of a layout that has more readings than it needs."""
        robot, L, M = self.robot, self.L, self.M
        names = robot.joint_names
        some = [
            *(sensors.ExternalWrench(f"{b} free", b, value=0.0) for b in robot.body_names[:3]),
            *(
                sensors.JointAcceleration(f"{j} qdd", j, std=0.1 * s)
                for j, s in zip(names, self.motion, strict=True)
            ),
            sensors.ExternalWrench("tip", "link_3", std=0.1 * self.wrench),
            sensors.JointTorque("drive", names[0], std=0.1 * M * L**2),
            sensors.Accelerometer("imu", "link_3", std=0.1 * L),
        ]
        layout = sensors.Layout(robot, some)
        scale = np.concatenate([np.ones(18), self.motion, self.wrench, [M * L**2], 3 * [L]])
        y = scale * np.random.default_rng(7).normal(size=layout.size)
        y[~np.isnan(layout.constants)] = 0.0
        est = problems.Estimation(robot, layout, backend=backend)
        if what == "batch":
            rows = [np.tile(x, (3, 1)) for x in (self.q, self.qd, y)]
            return np.asarray(est.solve_batch(*rows).torque.array[-1])
        e = est.solve(self.q, self.qd, y, uncertainty=("torque",))
        return np.asarray((e.std if what == "std" else e).torque.array)


def _derivative(s: Scaled, kind: str, by: str) -> Array:
    problem = getattr(problems, kind)(s.robot)
    third = s.qdd if kind == "InverseDynamics" else s.torque
    return np.asarray(getattr(problem.derivatives(s.q, s.qd, third), by))


def _space(s: Scaled) -> dynsys.OperationalSpace:
    return dynsys.operational_space(s.robot, s.q, ["link_3"], qd=s.qd)


def _dynamics(
    kind: str, backend: str, held: bool, answer: str, many: bool = False
) -> Callable[[Scaled], Array]:
    def solve(s: Scaled) -> Array:
        constraints = {"constraints": HELD} if held else {}
        problem = getattr(problems, kind)(s.robot, backend=backend, **constraints)
        third = s.qdd if kind == "InverseDynamics" else s.torque
        if many:
            return np.asarray(getattr(problem.solve_batch(*s.states(third)), answer))[-1]
        return np.asarray(getattr(problem.solve(s.q, s.qd, third), answer))

    return solve


def _unit(name: str) -> Callable[[Scaled], Array]:
    return lambda s: np.asarray(getattr(s, name))


PATHS: dict[str, tuple[Callable[[Scaled], Array], Callable[[Scaled], Array]]] = {
    "rnea": (lambda s: dynsys.rnea(*s.inverse), _unit("drive")),
    "aba": (lambda s: dynsys.aba(*s.forward), _unit("motion")),
    "pushed": (
        lambda s: dynsys.aba(*s.forward, f_ext=PUSHED * s.wrench),
        _unit("motion"),
    ),
    "crba": (
        lambda s: dynsys.crba(s.robot, s.q),
        lambda s: s.drive[:, None] / s.motion,
    ),
    **{
        f"{kind} {backend}{' many' * many}": (
            _dynamics(kind, backend, False, answer, many),
            _unit(unit),
        )
        for kind, answer, unit in (
            ("InverseDynamics", "torque", "drive"),
            ("ForwardDynamics", "qdd", "motion"),
        )
        for backend in ("auto", "llvm", "loops", "reference")
        for many in (False, True)
    },
    **{
        f"held {kind} {backend}{' many' * many}": (
            _dynamics(kind, backend, True, answer, many),
            _unit(unit),
        )
        for kind, answer, unit in (
            ("InverseDynamics", "torque", "drive"),
            ("ForwardDynamics", "qdd", "motion"),
        )
        for backend in ("auto", "llvm")
        for many in (False, True)
    },
    "inverse by q": (
        lambda s: _derivative(s, "InverseDynamics", "q"),
        lambda s: s.drive[:, None] / s.motion,
    ),
    "forward by q": (
        lambda s: _derivative(s, "ForwardDynamics", "q"),
        lambda s: s.motion[:, None] / s.motion,
    ),
    "forward by torque": (
        lambda s: _derivative(s, "ForwardDynamics", "torque"),
        lambda s: s.motion[:, None] / s.drive,
    ),
    "Lambda_inv": (
        lambda s: np.asarray(_space(s).Lambda_inv),
        lambda s: s.twist[:, None] / s.wrench,
    ),
    **{
        f"estimation {backend} {what}": (
            lambda s, backend=backend, what=what: s.estimated(backend, what),
            _unit("drive"),
        )
        for backend in ("auto", "dense")
        for what in ("", "std", "batch")
    },
}


@cache
def of_one(path: str) -> Array:
    return PATHS[path][0](Scaled(1.0, 1.0))


@pytest.mark.parametrize(("length", "mass"), SCALES)
@pytest.mark.finding("Z-S1", "Z-S3")
def test_answers_follow_the_scaling_laws(length: float, mass: float) -> None:
    """Straight-line code took torques of 1 N m, or the robot's own, for rounding."""
    s, missed = Scaled(length, mass), {}
    for path, (answer, unit) in PATHS.items():
        usual = of_one(path)
        error = np.abs(answer(s) / unit(s) - usual).max() / np.abs(usual).max()
        if not error < 1e-9:
            missed[path] = float(error)
    assert not missed


def made(length: float, mass: float) -> dict[str, int]:
    """Operations of programs of all kinds, for the arm of a scale."""
    robot, every = arm(length, mass), np.ones(4, dtype=bool)
    tip = dynsys.BodyMotion("link_3", coordinates="position")
    held = problems.ForwardDynamics(robot, constraints=HELD)
    kernels = {
        "observer": MomentumObserver(robot)._kernel,
        "tasks": dynsys.OperationalSpace(robot, [tip]).compile(),
        "held": held.compile(outputs=("qdd", "constraint_wrench"), steered=True),
        "impulse": held._impulse_kernel,
    }
    parameters = ("link_3.mass", "link_3.mx", "link_2.Ixy", "link_2.armature")
    specs = [
        DynamicsSpec(robot, known, given, outputs, True, parameters=parameters)
        for known, given, answer in ((every, "qdd", "torque"), (~every, "torque", "qdd"))
        for outputs in (("vjp",), ("hvp",), (f"d{answer}_dq", f"d{answer}_d{given}"))
    ]
    programs = {str(one.outputs): dynamics_program(one) for one in specs}
    return {name: one.operations.total for name, one in kernels.items()} | {
        name: program_operations(one).total for name, one in programs.items()
    }


@pytest.mark.parametrize(("length", "mass"), [(2.0**-20, 2.0**-30), (2.0**20, 2.0**30)])
@pytest.mark.finding("Z-S2")
def test_programs_of_all_scales_have_as_many_operations(length: float, mass: float) -> None:
    """But for constants that happen to be one, up to two in a hundred."""
    usual = made(1.0, 1.0)
    assert made(length, mass) == {name: pytest.approx(n, rel=0.02) for name, n in usual.items()}


def identified(length: float, mass: float, physical: bool) -> tuple[Array, Array]:
    """Parameters and deviations, in parts of their units, of the arm with a load at its tip."""
    s = Scaled(length, mass)
    names, noise = s.robot.joint_names, 1e-3 * s.drive
    torques = [
        sensors.JointTorque(f"{j} torque", j, std=x) for j, x in zip(names, noise, strict=True)
    ]
    layout = sensors.Layout(s.robot, torques)
    ident = problems.Identification(s.robot, layout, friction=False)
    phase = np.arange(900)[:, None] / 100 * np.array([2.0, 3.1, 4.3, 5.2]) + np.arange(4)
    turns, speed = np.sin(phase), np.array([2.0, 3.1, 4.3, 5.2])
    states = [x * s.motion for x in (turns, speed * np.cos(phase), -(speed**2) * turns)]
    ten = [mass * length ** min(k, 2) for k in (0, 1, 1, 1, 2, 2, 2, 2, 2, 2)]
    units = np.concatenate([*[ten] * 4, s.drive / s.motion, s.drive])
    load = np.zeros(len(units))
    load[30], load[[34, 37, 39]] = 0.5 * mass, 0.1 * mass * length**2
    rows = ident.sought.rows(*states)
    y = rows.theta @ (ident.sought.model + load) + rows.known
    y = y + noise * np.random.default_rng(0).normal(size=y.shape)
    fit = ident.fit(*states, y, physical=physical)
    return fit.theta / units, np.array(list(fit.std.values())) / units


@pytest.mark.parametrize("physical", [False, True])
@pytest.mark.parametrize(("length", "mass"), [*SCALES, (1e-2, 1e-3), (1e2, 1e4)])
@pytest.mark.finding("A-5")
def test_fits_follow_the_scaling_laws(length: float, mass: float, physical: bool) -> None:
    """A tenth of a metre was the natural length of all robots, a microjoule their least energy.

    A crane and an arm of centimetres had no physical parameters, or torques 27 deviations off.
    """
    usual, std = identified(1.0, 1.0, physical)
    found, its_std = identified(length, mass, physical)
    np.testing.assert_allclose(its_std, std, rtol=1e-3)
    assert np.abs((found - usual) / std).max() < (0.05 if physical else 5e-3)


@needs_compiler
def test_exported_c_follows_the_scaling_laws(tmp_path: Path) -> None:
    s, usual = Scaled(1e4, 1e9), Scaled(1.0, 1.0)
    problem = problems.ForwardDynamics(s.robot, constraints=HELD)
    problem.export_c(tmp_path, name="held", outputs=["qdd"])
    signature = Signature((("q", 4), ("qd", 4), ("torque", 4)), (("qdd", 4),))
    found = call(tmp_path, "held", signature, np.concatenate(s.forward[1:])[None])[0]
    at_one = problems.ForwardDynamics(usual.robot, constraints=HELD)
    expected = at_one.solve(*usual.forward[1:]).qdd
    np.testing.assert_allclose(found / s.motion, expected, rtol=1e-9)


@pytest.mark.parametrize("light", [1e-20, 1e-30])
@pytest.mark.finding("Z-S4")
def test_a_very_light_last_link_is_not_taken_for_rounding(light: float) -> None:
    """Its torque has a unit of its own; qdd of straight-line code was 180 times too large."""
    bodies = list(arm(1.0, 1.0).bodies)
    inertia = bodies[-1].inertia
    smaller = Inertia(light * inertia.mass, inertia.com, light * inertia.about_com)
    robot = KinematicTree("arm", [*bodies[:-1], replace(bodies[-1], inertia=smaller)])
    q, qd, qdd = STATE[:3]
    torque = exact_torque(robot, q, qd, qdd).astype(float)
    found = problems.ForwardDynamics(robot, backend="llvm").solve(q, qd, torque).qdd
    np.testing.assert_allclose(found, qdd, rtol=1e-9)


@pytest.mark.finding("G-31")
def test_links_that_differ_by_all_digits_take_loops() -> None:
    """Straight-line code misses the third qdd by 0.2: no unit suits all of such a robot."""
    masses, lengths = (0.06, 8e-7, 5e-12, 4e-17), (2e-5, 6e3, 6e-5, 0.03)
    bodies = []
    for k, (m, L) in enumerate(zip(masses, lengths, strict=True)):
        way = Transform(np.eye(3), (lengths[k - 1] if k else 0.0) * X)
        inertia = Inertia(m, L * np.array([0.5, 0.1, 0.0]), 0.1 * m * L**2 * np.eye(3))
        bodies.append(Body(f"link_{k}", k - 1, Revolute((Z, Y, X, Z)[k]), way, inertia))
    robot = KinematicTree("arm", bodies)
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 4))
    torque = exact_torque(robot, q, qd, qdd).astype(float)
    found = problems.ForwardDynamics(robot).solve(q, qd, torque).qdd
    np.testing.assert_allclose(found, qdd, atol=1e-6)
