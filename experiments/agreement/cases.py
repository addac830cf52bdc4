"""A robot with all programs that can read it, and the differences from each of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np

import dynsys
import problems
import sensors
from dynsys.errors import ModelWarning
from dynsys.interop import MujocoMap
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.agreement.peers import Answers, Idyntree, Mujoco, Pinocchio, State, differences
from experiments.agreement.robots import (
    KINDS,
    Site,
    floating,
    layout_of,
    mjcf_text,
    sites_of,
    urdf_text,
)
from experiments.example_robots import ROBOTS, load_quietly, pinocchio_model_of, robot_path
from problems.measured.simulated_readings import TrueReadings
from problems.report.timing import pinocchio_model

__all__ = ["QUANTITIES", "Case", "random_case", "real_cases"]

QUANTITIES = ("inverse", "forward", *KINDS)
Peer = Pinocchio | Mujoco | Idyntree


@final
@dataclass(eq=False)
class Case:
    """One robot, its sites with sensors, its peers; ``refused`` says who cannot, and why."""

    name: str
    robot: KinematicTree
    sites: Sequence[Site]
    makers: Mapping[str, Callable[[], Peer]]
    mjcf: Path
    refused: dict[str, str] = field(default_factory=dict)

    @cached_property
    def peers(self) -> dict[str, Peer]:
        """Programs that take the robot."""
        found: dict[str, Peer] = {}
        for name, make in self.makers.items():
            try:
                found[name] = make()
            except (ValueError, OSError) as error:
                self.refused[name] = " ".join(str(error).split())[:120]
        return found

    @cached_property
    def _solvers(self) -> tuple[problems.InverseDynamics, problems.ForwardDynamics]:
        return problems.InverseDynamics(self.robot), problems.ForwardDynamics(self.robot)

    @cached_property
    def _readings(self) -> TrueReadings:
        return TrueReadings(layout_of(self.robot, self.sites))

    def compare(self, rng: np.random.Generator, count: int) -> Iterator[tuple[str, str, Array]]:
        """Peer, quantity and the differences at ``count`` random states."""
        states = [State.random(self.robot, rng) for _ in range(count)]
        q, qd, qdd, f = (
            np.array([getattr(state, name) for state in states])
            for name in ("q", "qd", "qdd", "wrenches")
        )
        inverse, forward = self._solvers
        torque = inverse.solve_batch(q, qd, qdd, f).torque
        by_kind = self._by_kind(self._readings.at(q, qd, qdd, f)[1])
        for name, peer in self.peers.items():
            theirs = [peer.answers(state) for state in states]
            wanted = np.array([answers["inverse"] for answers in theirs])
            found = forward.solve_batch(q, qd, wanted, f).qdd
            yield name, "inverse", _differences(torque, theirs, "inverse")
            yield name, "forward", self._as_torque(q, found, theirs, wanted)
            for kind in KINDS:
                yield name, kind, _differences(by_kind[kind], theirs, kind)
            if isinstance(peer, Mujoco):
                yield from self._read_back(peer, states, theirs)

    def _by_kind(self, y: Array) -> dict[str, Array]:
        """Readings (N, sites, 3) of each kind of sensor."""
        rows = y.reshape(len(y), len(self.sites), 4, 3)
        return {kind: rows[:, :, k] for k, kind in enumerate(KINDS)}

    def _as_torque(
        self, q: Array, qdd: Array, theirs: Sequence[Answers], torque: Array
    ) -> Array:
        found = []
        for k, answers in enumerate(theirs):
            H = dynsys.recursive.crba(self.robot, q[k])
            found.append(np.abs(H @ (qdd[k] - answers["forward"])).max())
        return np.asarray(found / np.abs(torque).max(axis=1))

    # ---- the MJCF, read by dynsys --------------------------------------------------------

    @cached_property
    def _again(self) -> tuple[KinematicTree, TrueReadings]:
        robot = load_quietly(self.mjcf, False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            layout = sensors.Layout(robot, sensors.from_mjcf(self.mjcf, robot))
        return robot, TrueReadings(layout)

    def _read_back(
        self, peer: Mujoco, states: Sequence[State], theirs: Sequence[Answers]
    ) -> Iterator[tuple[str, str, Array]]:
        """Torque and sensors of the robot and the layout that dynsys reads from the MJCF."""
        robot, readings = self._again
        to, back = peer.map, MujocoMap(robot, peer.model)
        order = [robot.body_index(name) for name in self.robot.body_names]
        ours: dict[str, list[Array]] = {name: [] for name in ("inverse", *KINDS)}
        for state in states:
            q = back.q_from_mujoco(to.q_to_mujoco(state.q))
            qd = back.v_from_mujoco(q, to.v_to_mujoco(state.q, state.qd))
            qdd = back.a_from_mujoco(q, qd, to.a_to_mujoco(state.q, state.qd, state.qdd))
            f = np.zeros((robot.n_bodies, 6))
            f[order] = state.wrenches
            torque, y = readings.at(q[None], qd[None], qdd[None], f[None])
            theirs_order = back.tau_to_mujoco(q, torque[0])
            ours["inverse"].append(to.tau_from_mujoco(state.q, theirs_order))
            for kind, rows in self._by_kind(y).items():
                ours[kind].append(rows[0])
        for quantity, values in ours.items():
            yield "mjcf read back", quantity, _differences(np.array(values), theirs, quantity)


def _differences(ours: Array, theirs: Sequence[Answers], quantity: str) -> Array:
    return differences(ours, np.array([answers[quantity] for answers in theirs]))


# ---- where robots come from ------------------------------------------------------------------


def real_cases() -> list[tuple[str, Callable[[Path, int], Case]]]:
    """The robots of example-robot-data by name, each read when its turn comes."""

    def maker(file: str, free: bool) -> Callable[[Path, int], Case]:
        return lambda folder, seed: _from_urdf(robot_path(file), free, folder, seed)

    return [(Path(file).stem, maker(file, free)) for file, free in ROBOTS]


def random_case(seed: int, folder: Path) -> Case:
    """A random tree: by turns as URDF for all programs, and with joints URDF has not."""
    rng = np.random.default_rng(seed)
    n, kind = int(rng.integers(2, 9)), seed % 4
    if kind < 2:  # fixed, floating base
        tree = dynsys.synthetic.random_tree(n, seed, ["revolute", "prismatic"])
        path = folder / f"{tree.name}.urdf"
        path.write_text(urdf_text(tree))
        return _from_urdf(path, kind == 1, folder, seed)
    if kind == 2:
        tree = dynsys.synthetic.random_tree(n, seed, ["revolute", "prismatic", "spherical"])
        tree = floating(tree)
        sites = sites_of(tree, rng)
        mjcf = _written(tree, sites, folder)
        makers: dict[str, Callable[[], Peer]] = {
            "pin": lambda: _pinocchio(tree, sites),
            "mujoco": lambda: Mujoco(tree, mjcf.read_text(), sites),
        }
        return Case(f"{tree.name} (MJCF)", tree, sites, makers, mjcf)
    names = ["revolute", "prismatic", "spherical", "helical"]
    tree = dynsys.synthetic.random_tree(n, seed, names)
    sites = sites_of(tree, rng)
    only = {"pin": lambda: _pinocchio(tree, sites)}
    return Case(f"{tree.name} (screws)", tree, sites, only, folder / "none.xml")


def _pinocchio(tree: KinematicTree, sites: Sequence[Site]) -> Pinocchio:
    found = pinocchio_model(tree)
    if found is None:
        raise ValueError("Pinocchio has no twin of a joint")
    return Pinocchio(tree, found[1], sites)


def _written(tree: KinematicTree, sites: Sequence[Site], folder: Path) -> Path:
    path = folder / f"{tree.name}.xml"
    path.write_text(mjcf_text(tree, sites))
    return path


def _from_urdf(path: Path, free: bool, folder: Path, seed: int) -> Case:
    robot = load_quietly(path, free)
    sites = sites_of(robot, np.random.default_rng(seed))
    mjcf = _written(robot, sites, folder)
    makers: dict[str, Callable[[], Peer]] = {
        "pin": lambda: Pinocchio(robot, pinocchio_model_of(path, free), sites),
        "mujoco": lambda: Mujoco(robot, mjcf.read_text(), sites),
        "idyntree": lambda: Idyntree(robot, path, sites),
    }
    return Case(path.stem, robot, sites, makers, mjcf)
