"""Time per solve of a report: one state and batches, beside RNEA, ABA and Pinocchio."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.interop import PinocchioMap
from dynsys.kernel.calls import AbstractKernel
from dynsys.model.joints import Free, Helical, Prismatic, Revolute, Spherical
from dynsys.model.readers.pinocchio import velocity_order
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array
from problems.dynamics import ForwardDynamics, InverseDynamics
from problems.estimation.estimation import Estimation
from problems.estimation.factors import general_backend
from problems.measured.measured_system import QUANTITIES
from problems.problem import AbstractDynamics
from problems.report.estimates import UNCERTAIN
from problems.report.markup import bars, figure, listed, number, table, text
from problems.report.subject import Subject

__all__ = [
    "TimingPart",
    "TimingRow",
    "from_peer",
    "pinocchio_model",
    "timing_part",
    "timings_section",
]

Found = TypeVar("Found")
STATES, ROUNDS, SECONDS = 512, 5, 0.02


@final
@dataclass(frozen=True)
class TimingRow:
    """Microseconds per state: one at a time from Python, and in a batch; None: not measured."""

    name: str
    one: float | None
    batch: float | None
    note: str = ""


@final
@dataclass(frozen=True)
class TimingPart:
    """Rows, ours first; how they were measured, in words."""

    rows: list[TimingRow]
    how: str


def timing_part(subject: Subject) -> TimingPart:
    """Measure the problem of the report and its classical twins on random states."""
    robot = subject.robot
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(STATES)])
    qd, qdd = rng.normal(size=(2, STATES, robot.nv))
    rows: list[TimingRow] = []
    if subject.estimation is not None:
        rows += _estimator(subject.estimation, q, qd)
    elif subject.dynamics is not None:
        rows.append(_dynamics(f"{subject.question}, compiled", subject.dynamics, q, qd, qdd))
    twins: list[tuple[str, AbstractDynamics]] = [
        ("inverse dynamics (what RNEA computes), compiled", InverseDynamics(robot)),
        ("forward dynamics (what ABA computes), compiled", ForwardDynamics(robot)),
    ]
    for name, twin in twins:
        if type(twin) is not type(subject.dynamics):
            rows.append(_dynamics(name, twin, q, qd, qdd))
    rows += _peer(robot, q, qd, qdd)
    how = (
        f"Microseconds per state, best of {ROUNDS} rounds; one: single calls from Python, call"
        f" overhead included; batch: {STATES} states per call on one core. Estimates are"
        " those of all quantities of all bodies and joints"
    )
    return TimingPart(rows, how)


def timings_section(t: TimingPart) -> str:
    """Time per solve beside the recursions and Pinocchio."""
    rows = [(text(r.name), number(r.one), number(r.batch)) for r in t.rows]
    columns = ("computation", "one [µs]", "batch [µs]")
    notes = listed(f"{text(r.name)}: {text(r.note)}" for r in t.rows if r.note)
    known = [
        (f"{r.name}, {what}", value, f"{number(value)} µs")
        for r in t.rows
        for what, value in (("one", r.one), ("batch", r.batch))
        if value is not None
    ]
    picture = bars(known, "time per solve", "microseconds per state (scale of powers of ten)")
    return (
        f"<p>{text(t.how)}.</p>{table(columns, rows)}{notes}"
        f"{figure(picture, 'Time per state; shorter is faster.')}"
    )


# ---- measurements ------------------------------------------------------------------------


def _best(call: Callable[[int], object], per_call: int = 1, seconds: float = SECONDS) -> float:
    """Microseconds per state, best of some rounds."""
    call(0)
    best = np.inf
    for _ in range(ROUNDS):
        calls, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            call(calls % STATES)
            calls += 1
        best = min(best, spent / (calls * per_call))
    return float(best * 1e6)


def _kernel(name: str, kernel: AbstractKernel, *inputs: Array) -> TimingRow:
    states = list(zip(*inputs, strict=True))
    out = [row.copy() for row in kernel.one(*states[0])[0]]
    one = _best(lambda k: kernel.one(*states[k], out=out))
    batch = _best(lambda k: kernel.batch(*inputs), STATES)
    return TimingRow(name, one, batch)


def _dynamics(
    name: str, problem: AbstractDynamics, q: Array, qd: Array, third: Array
) -> TimingRow:
    try:
        return _kernel(name, problem.compile(), q, qd, third)
    except DynsysError as error:
        return TimingRow(name, None, None, str(error))


def _estimator(estimation: Estimation, q: Array, qd: Array) -> list[TimingRow]:
    layout = estimation.layout
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    rows = []
    name = "estimate with standard deviations, compiled"
    try:
        kernel = estimation.compile(outputs=QUANTITIES, uncertainty=UNCERTAIN)
        rows.append(_kernel(name, kernel, q, qd, np.tile(y, (STATES, 1))))
    except DynsysError as error:
        rows.append(TimingRow(name, None, None, str(error).split(": ", 1)[-1]))
    general = replace(estimation, backend=general_backend(), executes=None)
    try:
        method = general.solve(q[0], qd[0], y).method
        one = _best(lambda k: general.solve(q[k], qd[k], y).torque.array, seconds=0.05)
    except DynsysError as error:
        return [*rows, TimingRow("estimate, reference path", None, None, str(error))]
    rows.append(TimingRow(f"estimate, reference path ({method})", one, None))
    return rows


def _peer(robot: KinematicTree, q: Array, qd: Array, qdd: Array) -> list[TimingRow]:
    """Pinocchio's rows, none without it."""
    return from_peer(
        lambda: _pinocchio(robot, q, qd, qdd),
        lambda reason: [TimingRow("Pinocchio", None, None, f"left out: {reason}")],
    )


def _pinocchio(robot: KinematicTree, q: Array, qd: Array, qdd: Array) -> list[TimingRow]:
    found = pinocchio_model(robot)
    if found is None:
        return []
    pin, model, conversion = found
    data: Any = model.createData()
    p, v, a = conversion.q_to_pin(q), conversion.v_to_pin(qd), conversion.v_to_pin(qdd)
    name = f"Pinocchio {pin.__version__}"
    rnea = _best(lambda k: pin.rnea(model, data, p[k], v[k], a[k]))
    aba = _best(lambda k: pin.aba(model, data, p[k], v[k], a[k]))
    return [
        TimingRow(f"{name}, rnea from Python", rnea, None),
        TimingRow(f"{name}, aba from Python", aba, None),
    ]


# ---- the same robot as a Pinocchio model, for numbers beside ours -------------------------


def from_peer(ask: Callable[[], Found], otherwise: Callable[[str], Found]) -> Found:
    """What an optional peer answers, else ``otherwise(why)``: it never breaks a command."""
    try:
        return ask()
    except Exception as error:  # whatever it raises, it is not ours
        return otherwise(" ".join(str(error).split()) or type(error).__name__)


def pinocchio_model(robot: KinematicTree) -> tuple[Any, Any, PinocchioMap] | None:
    """Module, model and map of vectors; None where not installed or a joint has no twin.

    Pinocchio may refuse the robot, e.g. an inertia that no mass distribution has: ValueError.
    """
    try:
        pin = import_module("pinocchio")
    except ImportError:
        return None
    model = pin.Model()
    model.gravity.linear = np.asarray(robot.gravity)
    for name, body in zip(robot.joint_names, robot.bodies, strict=True):
        joint = _joint(pin, body)
        if joint is None:
            return None
        place = [np.array(x, dtype=np.float64) for x in (body.placement.E.T, body.placement.r)]
        number = model.addJoint(body.parent + 1, joint, pin.SE3(*place), name)
        own = body.inertia
        inertia = pin.Inertia(float(own.mass), np.array(own.com), np.array(own.about_com))
        model.appendBodyToJoint(number, inertia, pin.SE3.Identity())
        if body.armature is not None:
            first = model.joints[number].idx_v
            ours = np.broadcast_to(body.armature, (body.joint.nv,))
            model.armature[first : first + body.joint.nv] = ours[velocity_order(body.joint)]
    return pin, model, PinocchioMap(robot, model)


def _joint(pin: Any, body: Body) -> Any:
    """Joint of the same kind and axis; None if there is none."""
    joint = body.joint
    if body.coupling is not None:
        return None
    if isinstance(joint, Free):
        return pin.JointModelFreeFlyer()
    if isinstance(joint, Spherical):
        return pin.JointModelSpherical()
    if isinstance(joint, Helical):
        return pin.JointModelHelicalUnaligned(np.array(joint.axis), joint.pitch)
    if not isinstance(joint, (Revolute, Prismatic)):
        return None
    kind, axis = joint.kind, np.array(joint.axis)
    letters = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}
    letter = letters.get((float(axis[0]), float(axis[1]), float(axis[2])))
    short = "R" if kind == "revolute" else "P"
    if letter is not None:
        return getattr(pin, f"JointModel{short}{letter}")()
    return getattr(pin, f"JointModel{kind.capitalize()}Unaligned")(axis)
