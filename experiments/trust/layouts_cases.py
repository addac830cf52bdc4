"""Random well-posed layouts, by kind: what a person could mount, and what nobody would.

Readings are drawn from all kinds of sensors and kept where they see something that those before
them do not (rows of the reduced system, orthogonalised); joint accelerations and external
wrenches fill up what is left, component by component. That gives square layouts; the other
kinds add to them, or take away what a prior replaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import dynsys
import problems
import sensors
from dynsys.model.body import Coupling
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from problems.measured.measured_system import MeasuredSystem, Quantity
from sensors.parameters import AXES
from sensors.sensor import AbstractSensor

__all__ = [
    "KINDS",
    "Case",
    "drawn_case",
    "published_case",
    "readings",
    "robot_named",
    "textbook_arm",
    "weights",
]

KINDS = (
    "square",
    "square, gyroscopes",
    "redundant",
    "exact rows",
    "exact rows that repeat",
    "correlated",
    "prior",
    "switchable",
    "frames",
    "linear rows",
    "coupled joints",
)
FILES = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", False),
    "panda": ("panda_description/urdf/panda.urdf", False),
    "solo12": ("solo_description/robots/solo12.urdf", True),
    "icub": ("icub_description/robots/icub.urdf", True),
    "talos": ("talos_data/robots/talos_full_v2.urdf", True),
}
INDEPENDENT = 0.03
"""A row is kept if so much of it, in unit size, is not seen by those before."""
STATES = 2
"""States at which rows must be independent."""


class Case(NamedTuple):
    """An estimation, what is to be compiled of it, and what kind it is."""

    kind: str
    name: str
    estimation: problems.Estimation
    uncertainty: tuple[Quantity, ...] = ()
    switchable: tuple[str, ...] = ()


def robot_named(name: str) -> KinematicTree:
    """A real robot by its short name, or ``tree K`` for a random tree."""
    if name in FILES:
        path, floating = FILES[name]
        return load_quietly(robot_path(path), floating)
    seed = int(name.removeprefix("tree "))
    return dynsys.synthetic.random_tree(3 + seed % 6, seed)


def coupled(robot: KinematicTree, rng: np.random.Generator) -> KinematicTree:
    """The robot with one or two joints following another; itself if it has no three."""
    single = [i for i, joint in enumerate(robot.joints) if joint.nv == 1]
    if len(single) < 2:
        return robot
    leader, *followers = rng.permutation(single)[:3].tolist()
    bodies = list(robot.bodies)
    for i in followers:
        law = Coupling(leader, float(rng.choice([1.0, -0.5, 2.0])), float(rng.normal()))
        bodies[i] = replace(bodies[i], coupling=law)
    return KinematicTree(f"{robot.name} coupled", bodies)


# ---- drawing sensors -----------------------------------------------------------------------


def drawn_case(kind: str, robot: KinematicTree, seed: int) -> Case:
    """A random layout of a kind; well posed but for bad luck."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    if kind == "coupled joints":
        robot = coupled(robot, rng)
    drawer = _Drawer(robot, rng, kind)
    chosen = drawer.square()
    prior: problems.Prior | None = None
    switchable: tuple[str, ...] = ()
    correlations: list[Any] = []
    if kind == "prior":
        chosen, prior = drawer.believed(chosen)
    elif kind == "exact rows that repeat":
        chosen = [*drawer.exactly(chosen, 0.7), *drawer.repeated()]
    elif kind not in ("square", "square, gyroscopes", "coupled joints") or rng.random() < 0.5:
        if not kind.startswith("square"):
            chosen += drawer.extra(2 + int(rng.integers(4)))
    if kind == "square, gyroscopes":
        chosen += [sensors.Gyroscope("gyro", drawer.body(), std=0.1)]
    if kind == "exact rows":
        chosen = drawer.exactly(chosen, 0.5)
    if kind == "correlated":
        correlations = drawer.correlations(chosen)
    layout = sensors.Layout(robot, chosen, correlations)
    estimation = problems.Estimation(robot, layout, prior)
    if kind == "switchable":
        switchable = drawer.dispensable(estimation)
    uncertainty: tuple[Quantity, ...] = ("torque",) if rng.random() < 0.4 else ()
    return Case(kind, f"{robot.name}, seed {seed}", estimation, uncertainty, switchable)


class _Drawer:
    """Sensors of a robot, drawn at random."""

    def __init__(self, robot: KinematicTree, rng: np.random.Generator, kind: str) -> None:
        self.robot, self.rng, self.kind = robot, rng, kind
        self.states = [
            Kinematics.at(robot, robot.random_configuration(rng), rng.normal(size=robot.nv))
            for _ in range(STATES)
        ]
        self.own = [
            (name, body.joint.nv)
            for name, body in zip(robot.joint_names, robot.bodies, strict=True)
            if body.joint.nv and body.coupling is None
        ]
        self.count = 0

    def body(self) -> str:
        return str(self.rng.choice(list(self.robot.body_names)))

    def frame(self) -> str:
        where = list(self.robot.frames) if self.kind == "frames" else self.robot.body_names
        frames = [f for f in where if self.robot.frame(f).body >= 0]
        return str(self.rng.choice(frames))

    def std(self) -> float:
        return float(10 ** self.rng.uniform(-2, 0))

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what} {self.count}"

    def pose(self) -> dict[str, Any]:
        if self.rng.random() < 0.3:
            return {}
        xyz, rpy = self.rng.uniform(-0.2, 0.2, 3), self.rng.uniform(-1.5, 1.5, 3)
        return {"xyz": tuple(xyz.tolist()), "rpy": tuple(rpy.tolist())}

    def components(self) -> tuple[str, ...]:
        if self.rng.random() < 0.5:
            return AXES
        some = sorted(self.rng.permutation(6)[: 1 + int(self.rng.integers(5))].tolist())
        return tuple(AXES[k] for k in some)

    def any_sensor(self) -> AbstractSensor:
        """One of the many kinds."""
        rng, std = self.rng, self.std()
        moving = [n for n, b in zip(self.robot.joint_names, self.robot.bodies, strict=True)]
        joint, _ = self.own[int(rng.integers(len(self.own)))]
        makers = {
            "torque": lambda: sensors.JointTorque(self.name("torque"), joint, std=std),
            "force_torque": lambda: sensors.ForceTorque(
                self.name("wrench"),
                str(rng.choice(moving)),
                components=self.components(),
                measures=str(rng.choice(["on_child", "on_parent"])),
                **self.pose(),
                std=std,
            ),
            "accelerometer": lambda: sensors.Accelerometer(
                self.name("accelerometer"), self.frame(), **self.pose(), std=std
            ),
            "angular": lambda: sensors.AngularAccelerometer(
                self.name("angular"), self.frame(), **self.pose(), std=std
            ),
            "plate": lambda: sensors.LoadCellPlate(
                self.name("plate"), self.frame(), **self.pose(), std=std
            ),
            "com": lambda: sensors.CentreOfMassAcceleration(self.name("com"), std=std),
            "pure_force": lambda: sensors.PureForce(self.name("pure"), self.frame(), std=std),
            "linear": self.linear,
        }
        weights = {"torque": 3.0, "force_torque": 3.0, "accelerometer": 2.0, "angular": 1.0}
        weights |= {"plate": 0.5, "com": 0.3, "pure_force": 0.7}
        weights["linear"] = 6.0 if self.kind == "linear rows" else 0.5
        share = np.array(list(weights.values()))
        return makers[str(rng.choice(list(weights), p=share / share.sum()))]()

    def linear(self) -> AbstractSensor:
        """One or two rows on quantities of two parts."""
        rng, rows = self.rng, 1 + int(self.rng.integers(2))
        coefficients: dict[str, dict[str, Any]] = {}
        for _ in range(1 + int(rng.integers(3))):
            quantity = str(rng.choice(["torque", "qdd", "acceleration", "external_wrench"]))
            if quantity in ("torque", "qdd"):
                name, size = self.own[int(rng.integers(len(self.own)))]
            else:
                name, size = self.body(), 6
            values = rng.normal(size=(rows, size)) * (rng.random((rows, size)) < 0.5)
            values[:, 0] = 1.0
            coefficients.setdefault(quantity, {})[name] = values.tolist()
        bias = float(rng.normal())
        return sensors.LinearMeasurement(
            self.name("rows"), coefficients, bias=bias, std=self.std()
        )

    # ---- layouts ---------------------------------------------------------------------------

    def square(self) -> list[AbstractSensor]:
        """As many independent rows as needed."""
        n_bodies = self.robot.n_bodies
        pool = [self.any_sensor() for _ in range(2 + int(self.rng.integers(2 + n_bodies)))]
        touched = max(1, int(self.rng.integers(1 + n_bodies // 2)))
        order = self.rng.permutation(n_bodies).tolist()
        wrenches = [
            sensors.ExternalWrench(
                f"{self.robot.body_names[i]}/{axis}",
                self.robot.body_names[i],
                components=(axis,),
                std=self.std(),
            )
            for i in order
            for axis in AXES
        ]
        joints = [
            sensors.JointAcceleration(
                f"{name}/qdd{k}", name, component=k if size > 1 else None, std=self.std()
            )
            for name, size in self.own
            for k in range(size)
        ]
        self.rng.shuffle(joints)
        free = 6 * (n_bodies - touched)
        filled = [*wrenches[:free], *joints, *wrenches[free:]]
        head = wrenches[: 6 * (n_bodies // 2)]  # untouched in any case
        return self._independent([*head, *pool, *filled[len(head) :]])

    def _independent(self, candidates: Sequence[AbstractSensor]) -> list[AbstractSensor]:
        """Those that see, with each row, what those before do not, at every state."""
        unique = list({sensor.name: sensor for sensor in candidates}.values())
        layout = sensors.Layout(self.robot, unique)
        measured = MeasuredSystem(self.robot, layout, None)
        seen = [measured.reduced(kinematics).B for kinematics in self.states]
        rows = []
        for B in seen:
            scale = np.abs(B).max(axis=0)
            B = B / np.where(scale > 0, scale, 1.0)
            size = np.linalg.norm(B, axis=1)
            rows.append(B / np.where(size > 0, size, 1.0)[:, None])
        bases = [np.zeros((0, B.shape[1])) for B in rows]
        chosen: list[AbstractSensor] = []
        for sensor in unique:
            at = layout.slice(sensor.name)
            new = []
            for B, basis in zip(rows, bases, strict=True):
                grown = _extended(basis, B[at])
                if grown is None:
                    break
                new.append(grown)
            else:
                bases, chosen = new, [*chosen, sensor]
        return chosen

    def extra(self, count: int) -> list[AbstractSensor]:
        return [self.any_sensor() for _ in range(count)]

    def exactly(self, chosen: Sequence[AbstractSensor], share: float) -> list[AbstractSensor]:
        """Some of the independent sensors without noise; the others keep theirs."""
        independent = {s.name for s in self._independent(chosen)}
        return [
            replace(s, std=0.0) if s.name in independent and self.rng.random() < share else s
            for s in chosen
        ]

    def repeated(self) -> list[AbstractSensor]:
        """Statements of bodies that other statements repeat: no wrench, written again."""
        body = self.body()
        return [
            sensors.ExternalWrench(f"{body}/again {k}", body, std=0.0, **pose)
            for k, pose in enumerate((self.pose(), self.pose()))
        ]

    def believed(
        self, chosen: Sequence[AbstractSensor]
    ) -> tuple[list[AbstractSensor], problems.Prior]:
        """Without a third of the sensors; a prior on everything that z consists of."""
        kept = [s for s in chosen if self.rng.random() < 0.7]
        stds: Mapping[str, Any] = {"external_wrench": 10.0, "qdd": 5.0}
        means = {"qdd": 0.3} if self.rng.random() < 0.5 else {}
        return kept, problems.Prior(stds, means)

    def correlations(self, chosen: Sequence[AbstractSensor]) -> list[Any]:
        layout = sensors.Layout(self.robot, chosen)
        noisy = [s for s, C in zip(chosen, layout.covariances, strict=True) if C.any()]
        first, second = self.rng.permutation(len(noisy))[:2].tolist()
        blocks = dict(zip(layout.names, layout.covariances, strict=True))
        a, b = (np.sqrt(np.diag(blocks[noisy[k].name])) for k in (first, second))
        shared = np.zeros((len(a), len(b)))
        shared[0, 0] = 0.6 * a[0] * b[0]
        return [(noisy[first].name, noisy[second].name, shared)]

    def dispensable(self, estimation: problems.Estimation) -> tuple[str, ...]:
        """Sensors without which the others still determine everything."""
        measured = estimation.measured
        off: list[str] = []
        rows = np.ones(measured.layout.size, dtype=bool)
        names = list(measured.layout.names)
        self.rng.shuffle(names)
        seen = measured.reduced(self.states[0])
        for name in names:
            if len(off) == 3:
                break
            without = rows.copy()
            without[measured.layout.slice(name)] = False
            if _full_rank(seen.B[without]):
                rows = without
                off.append(name)
        return tuple(off)


def _extended(basis: Array, rows: Array) -> Array | None:
    """Orthonormal rows with further ones, or None if one of them adds too little."""
    for row in rows:
        rest = row - basis.T @ (basis @ row)
        rest -= basis.T @ (basis @ rest)
        size = np.linalg.norm(rest)
        if size < INDEPENDENT:
            return None
        basis = np.vstack([basis, rest / size])
    return basis


def _full_rank(B: Array) -> bool:
    sizes = np.linalg.norm(B, axis=1)
    A = B[sizes > 0] / sizes[sizes > 0, None]
    norms = np.linalg.norm(A, axis=0)
    if not norms.all() or len(A) < A.shape[1]:
        return False
    singular = np.linalg.svd(A / norms, compute_uv=False)
    return bool(singular[-1] > 1e-4 * singular[0])


# ---- readings ------------------------------------------------------------------------------


def readings(case: Case, kinematics: Kinematics, rng: np.random.Generator) -> Array:
    """Readings (size,) of a random motion, with noise where there is any."""
    estimation = case.estimation
    measured, size = estimation.measured, estimation.layout.size
    reduced = measured.reduced(kinematics)
    z = rng.normal(size=reduced.B.shape[1])
    y = (reduced.B @ z - reduced.c)[:size]
    return y + np.sqrt(measured.variance[:size]) * rng.normal(size=size)


# ---- what papers and textbooks have --------------------------------------------------------


def published_case(name: str, n: int) -> Case:
    """Load cells at both ends of a chain of n bodies [NORI]."""
    robot = dynsys.synthetic.chain(n)
    layout = getattr(sensors.published, name)(robot)
    return Case("published", f"{name}, N = {n}", problems.Estimation(robot, layout))


def textbook_arm(robot: KinematicTree, *, uncertainty: bool = False) -> Case:
    """Wrist force/torque sensor, joint accelerations, unknown wrench at the tool."""
    tool, wrist = robot.body_names[-1], robot.joint_names[-1]
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot, [tool]),
            sensors.ForceTorque("wrist", wrist, std=0.2),
        ],
    )
    asked: tuple[Quantity, ...] = ("torque",) if uncertainty else ()
    return Case("textbook arm", robot.name, problems.Estimation(robot, layout), asked)


def weights(case: Case, rng: np.random.Generator) -> Array:
    """Weights (size,) of all readings, 0 or 1 for those of switchable sensors."""
    layout = case.estimation.layout
    weight = np.ones(layout.size)
    for name in case.switchable:
        weight[layout.slice(name)] = float(rng.random() < 0.5)
    return weight
