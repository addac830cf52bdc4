"""The simulator against physics and against MuJoCo, and its time per step.

    python -m experiments.peers.simulation [--json] [--plot FOLDER] [--quick]

Momentum and energy in free flight; weight that feet carry at rest; the angle at which a box
begins to slide; three robots beside MuJoCo from the same file; a step of a quadruped of 14
joints, timed in turn in one run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynsys
from dynsys.errors import ModelWarning
from dynsys.model import synthetic
from dynsys.model.joints import Free
from dynsys.model.tree import Body, KinematicTree
from dynsys.simulation import ContactPoints, Drives, Ground, Simulation
from dynsys.types import Array
from experiments import figures as paper_figures
from experiments.peers.timing import seconds

__all__ = ["Line", "figures", "lines", "main", "quadruped", "quadruped_text"]

G = 9.81
ROD = 'mass="0.5" contype="0" conaffinity="0"'


class Line(NamedTuple):
    """One measured number, and what it should be."""

    what: str
    ours: float
    wanted: str


# ---- robots, as MJCF text that MuJoCo and dynsys both read ---------------------------------


def quadruped_text() -> str:
    """MJCF of a quadruped: a free trunk, a neck and four legs of three joints; 14 joints."""
    joint = 'damping="0.1" armature="0.005" range="-150 150"'
    unseen = 'contype="0" conaffinity="0"'

    def leg(name: str, x: float, y: float) -> str:
        return f"""<body name="{name}_hip" pos="{x} {y} 0">
          <joint name="{name}_roll" axis="1 0 0" {joint}/>
          <geom type="sphere" size="0.04" mass="0.6" {unseen}/>
          <body name="{name}_upper" pos="0 {0.06 * np.sign(y)} 0">
            <joint name="{name}_pitch" axis="0 1 0" {joint}/>
            <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.7" {unseen}/>
            <body name="{name}_lower" pos="0 0 -0.2">
              <joint name="{name}_knee" axis="0 1 0" {joint}/>
              <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.015" mass="0.2" {unseen}/>
              <geom name="{name}_foot" type="sphere" pos="0 0 -0.2" size="0.02" mass="0.05"/>
            </body></body></body>"""

    legs = (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("hl", -0.2, 0.1), ("hr", -0.2, -0.1))
    return f"""<mujoco model="quadruped"><option timestep="0.001" cone="elliptic"/>
      <worldbody><geom name="floor" type="plane" size="5 5 1" friction="0.8 0 0"/>
      <body name="trunk" pos="0 0 0.4"><freejoint name="root"/>
        <geom type="box" size="0.25 0.12 0.06" mass="8" {unseen}/>
        {"".join(leg(*where) for where in legs)}
        <body name="head" pos="0.25 0 0.05"><joint name="neck" axis="0 1 0" {joint}/>
          <geom type="sphere" size="0.06" pos="0.08 0 0" mass="0.8" {unseen}/></body>
      </body></worldbody></mujoco>"""


def arm_text() -> str:
    """MJCF of an arm of six hinges with damping and rotors."""
    inner = ""
    for k in range(6, 0, -1):
        axis = ("0 0 1", "0 1 0", "1 0 0")[k % 3]
        inner = f"""<body name="link{k}" pos="0 0 0.2">
          <joint name="j{k}" axis="{axis}" damping="0.05" armature="0.01"/>
          <geom type="capsule" fromto="0 0 0 0.02 0 0.2" size="0.03" {ROD}/>{inner}</body>"""
    return f"""<mujoco model="arm"><worldbody>{inner}</worldbody></mujoco>"""


def crate_text() -> str:
    """MJCF of a box on the floor."""
    return """<mujoco model="crate"><option cone="elliptic" impratio="100"/><worldbody>
      <geom name="floor" type="plane" size="5 5 1" friction="0.4 0 0"/>
      <body name="crate" pos="0 0 0.05"><freejoint name="root"/>
        <geom name="crate" type="box" size="0.1 0.1 0.05" mass="1" friction="0.4 0 0"/>
      </body></worldbody></mujoco>"""


def read(text: str) -> KinematicTree:
    """Robot of an MJCF text, friction of its joints included."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        path = Path(folder, "robot.xml")
        path.write_text(text)
        return dynsys.load(path, friction="file")


class Standing(NamedTuple):
    """The quadruped on its feet: simulation with drives, and the position they hold."""

    simulation: Simulation
    q: Array


@cache
def quadruped() -> Standing:
    """Return the quadruped with bent knees over the plane."""
    robot = read(quadruped_text())
    q = robot.neutral()
    for joint in robot.joint_names:
        angle = {"pitch": 0.6, "_knee": -1.2}.get(joint[-5:], 0.0)
        if joint != "root" and angle:
            q[robot.q_slice(joint)] = angle
    q[2] = 0.02 + 0.4 * np.cos(0.6)
    drives = Drives(robot, 200.0, 10.0)
    points = ContactPoints.of_shapes(robot)
    return Standing(Simulation(robot, points, 1e-3, drives=drives), q)


# ---- physics --------------------------------------------------------------------------------


def box() -> KinematicTree:
    """Return a free box, its origin beside its centre of mass."""
    inertia = synthetic.box_inertia(1.0, (0.2, 0.3, 0.1), (0.02, 0.0, 0.01))
    return KinematicTree("box", [Body("box", -1, Free(), inertia=inertia)], gravity=(0, 0, 0))


def flight_lines(quick: bool) -> list[Line]:
    """A body at 2 m/s spinning at 10 rad/s, and a limp quadruped thrown into the air."""
    robot, seconds = box(), 1.0 if quick else 10.0
    sim = Simulation(robot, dt=1e-3)
    start = sim.start(robot.neutral(), [0.3, 10.0, 1.0, 2.0, 0.0, 0.0])
    end, _ = sim.run(start, round(seconds / sim.dt))
    before, after = (dynsys.momentum(robot, s.q, s.v) for s in (start, end))
    out = [
        Line(
            f"box, {seconds:g} s of flight: relative error of momentum",
            float(np.abs(after - before).max() / np.abs(before).max()),
            "1e-12",
        )
    ]
    errors = energy_errors()
    for scheme, steps in errors.items():
        for dt, error in steps.items():
            out.append(Line(f"limp quadruped, {scheme}, dt = {dt:g}: energy", error, ""))
        first, *_, last = steps
        order = np.log(abs(steps[first] / steps[last])) / np.log(first / last)
        promised = {"midpoint": "2", "semi_implicit": "1"}[scheme]
        out.append(
            Line(f"limp quadruped, {scheme}: order of the energy error", order, promised)
        )
    return out


@cache
def energy_errors() -> dict[str, dict[float, float]]:
    """Relative change of energy in 0.5 s of flight without friction, by scheme and step."""
    robot = quadruped().simulation.robot.with_friction(False)
    q, v = robot.neutral(), 0.5 * np.random.default_rng(0).normal(size=robot.nv)
    q[2] = 5.0
    found: dict[str, dict[float, float]] = {}
    for scheme in ("midpoint", "semi_implicit"):
        for dt in (4e-3, 2e-3, 1e-3, 5e-4):
            sim = Simulation(robot, dt=dt, integrator=scheme, limits=False)
            start = sim.start(q, v)
            end, _ = sim.run(start, round(0.5 / dt))
            error = (sim.energy(end) - sim.energy(start)) / sim.energy(start)
            found.setdefault(scheme, {})[dt] = error
    return found


def contact_lines(quick: bool) -> list[Line]:
    """Weight at rest, and the slope at which a box begins to slide."""
    sim, q = quadruped()
    _, record = sim.run(sim.start(q), 3000 if quick else 10000, lambda time: q)
    force = np.sum([f[-1] for f in record.forces.values()], axis=0)
    weight = sim.robot.total_mass * G
    out = [
        Line(
            "quadruped at rest: forces on its feet / weight - 1", force[2] / weight - 1, "1e-6"
        ),
        Line("quadruped: steps that did not converge", float((~record.converged).sum()), "0"),
        Line("quadruped: Newton steps per step, mean", float(record.steps.mean()), ""),
    ]
    for mu in (0.3, 0.8):
        low, high = 0.5 * np.arctan(mu), min(1.5, 1.5 * np.arctan(mu))
        for _ in range(12 if quick else 20):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slide(mu, middle) < 1e-6 else (low, middle)
        error = 0.5 * (low + high) / np.arctan(mu) - 1
        out.append(Line(f"box slides at slope / atan({mu}) - 1", error, "0"))
    return out


def slide(mu: float, slope: float) -> float:
    """Speed of a box 0.1 s after it was put on a slope."""
    normal = (float(np.sin(slope)), 0.0, float(np.cos(slope)))
    robot = read(crate_text())
    sim = Simulation(
        robot, ContactPoints.of_shapes(robot), 1e-3, Ground(friction=mu, normal=normal)
    )
    turn = [0.0, np.sin(slope / 2), 0.0, np.cos(slope / 2)]
    end, _ = sim.run(sim.start([*(0.05 * np.array(normal)), *turn]), 100)
    return float(np.linalg.norm(end.v[3:]))


# ---- MuJoCo ---------------------------------------------------------------------------------


class Peer(NamedTuple):
    """A MuJoCo model and its state at our q and v."""

    model: Any
    data: Any

    @staticmethod
    def of(text: str, robot: KinematicTree, q: Array, v: Array, dt: float, rk4: bool) -> Peer:
        """Same file, same state."""
        import mujoco

        model: Any = mujoco.MjModel.from_xml_string(text)
        model.opt.timestep = dt
        if rk4:
            model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        data: Any = mujoco.MjData(model)
        to = dynsys.interop.MujocoMap(robot, model)
        data.qpos[:], data.qvel[:] = to.q_to_mujoco(q), to.v_to_mujoco(q, v)
        return Peer(model, data)

    def position(self, robot: KinematicTree) -> Array:
        """The position of ours that is MuJoCo's."""
        return dynsys.interop.MujocoMap(robot, self.model).q_from_mujoco(self.data.qpos)

    def run(self, steps: int) -> None:
        """Step, all forces as they are."""
        import mujoco

        mujoco.mj_step(self.model, self.data, steps)


def peer_lines(quick: bool) -> list[Line]:
    """Three robots beside MuJoCo: an arm swings, a quadruped flies and stands, a box slides."""
    rng, out = np.random.default_rng(1), []
    arm, (standing, posture) = read(arm_text()), quadruped()
    thrown = posture.copy()
    thrown[2] = 5.0
    bent: Array = np.full(arm.nq, 0.3)
    cases = [("arm swings", arm_text(), arm, bent)]
    cases.append(("quadruped flies", quadruped_text(), standing.robot, thrown))
    for name, text, robot, q in cases:
        v, differences = 0.5 * rng.normal(size=robot.nv), []
        peer = Peer.of(text, robot, q, v, 1e-3, rk4=True)
        peer.run(300)
        for dt in (1e-3, 5e-4):
            sim = Simulation(robot, dt=dt)
            end, _ = sim.run(sim.start(q, v), round(0.3 / dt))
            differences.append(float(np.abs(end.q - peer.position(robot)).max()))
        out.append(Line(f"{name} 0.3 s, dt = 1 ms: |q - MuJoCo's, RK4|", differences[0], ""))
        ratio = differences[0] / differences[1]
        out.append(Line(f"{name}: the same / at half the step", ratio, "4"))
    # a box slides to a stop: v^2 / 2 mu g
    crate = read(crate_text())
    q, v = np.array([0, 0, 0.05, 0, 0, 0, 1.0]), np.array([0, 0, 0, 1.0, 0, 0])
    sim = Simulation(crate, ContactPoints.of_shapes(crate), 1e-3, Ground(friction=0.4))
    end, _ = sim.run(sim.start(q, v), 500)
    peer = Peer.of(crate_text(), crate, q, v, 1e-3, rk4=False)
    peer.run(500)
    exact = 1 / (2 * 0.4 * G)
    out += [
        Line("box slides to a stop: way / (v^2 / 2 mu g) - 1", end.q[0] / exact - 1, "0"),
        Line("box: MuJoCo's way / the same - 1", peer.position(crate)[0] / exact - 1, "0"),
    ]
    # the quadruped stands, drives alike
    gains = standing.drives
    assert gains is not None
    peer = Peer.of(quadruped_text(), standing.robot, posture, np.zeros(19), 1e-3, rk4=False)
    wanted = peer.data.qpos[7:].copy()
    for _ in range(2000):
        offset, rate = wanted - peer.data.qpos[7:], peer.data.qvel[6:]
        peer.data.qfrc_applied[6:] = 200.0 * offset - 10.0 * rate
        peer.run(1)
    end, _ = standing.run(standing.start(posture), 2000, lambda time: posture)
    height = peer.position(standing.robot)[2]
    out.append(Line("quadruped stands: height - MuJoCo's, m", end.q[2] - height, "0"))
    return [*out, *time_lines(quick)]


def time_lines(quick: bool) -> list[Line]:
    """A step of the standing quadruped under constant torques, ours and MuJoCo's in turn.

    Processor time, not the clock on the wall: of 200 steps MuJoCo's fit between two turns of
    the system's scheduler and ours do not, so that one busy neighbour can make 3.1 times a 5.8.
    """
    standing, posture = quadruped()
    state, record = standing.run(standing.start(posture), 3000, lambda time: posture)
    torque, robot = record.torque[-1], standing.robot
    sim = Simulation(robot, standing.points, 1e-3)
    peer = Peer.of(quadruped_text(), robot, state.q, np.zeros(19), 1e-3, rk4=False)
    applied = dynsys.interop.MujocoMap(robot, peer.model).v_to_mujoco(state.q, torque)
    start, begin, steps = peer.data.qpos.copy(), sim.start(state.q), 200

    def theirs() -> None:
        peer.data.qpos[:], peer.data.qvel[:] = start, 0.0
        peer.data.qfrc_applied[:] = applied
        peer.run(steps)

    def by_controller() -> None:
        sim.run(begin, steps, controller=lambda state: torque)

    ours = lambda: sim.run(begin, steps, torque=torque)  # noqa: E731
    runs = {"MuJoCo": theirs, "dynsys": ours, "controller": by_controller}
    taken = seconds(runs, 5 if quick else 31)
    each = {name: 1e6 * time / steps for name, time in taken.items()}
    _, record = sim.run(begin, steps, torque=torque)
    return [
        Line("quadruped on its feet, MuJoCo: us per step", each["MuJoCo"], ""),
        Line("quadruped on its feet, dynsys: us per step", each["dynsys"], ""),
        Line("the same, with controller(state): us per step", each["controller"], ""),
        Line("dynsys / MuJoCo", each["dynsys"] / each["MuJoCo"], "at most 5"),
        Line("feet on the ground, ours", float(record.contacts.mean()), "4"),
        Line("feet on the ground, MuJoCo's", float(peer.data.ncon), "4"),
    ]


# ---- all of it ------------------------------------------------------------------------------


def lines(quick: bool = False) -> list[Line]:
    """All numbers."""
    return [*flight_lines(quick), *contact_lines(quick), *peer_lines(quick)]


def figures(folder: Path) -> list[Path]:
    """Energy errors over the step, and a tilted box that falls: height and forces."""
    errors, axes = paper_figures.labelled_axes("dt [s]", "relative error of energy after 0.5 s")
    for scheme, steps in energy_errors().items():
        axes.loglog(list(steps), np.abs(list(steps.values())), ".-", label=scheme)
    axes.legend()
    robot = read(crate_text())
    sim = Simulation(robot, ContactPoints.of_shapes(robot), 1e-3, Ground(friction=0.4))
    start = robot.integrate([0, 0, 0.4, 0, 0, 0, 1.0], [0.5, 0.3, 0, 0, 0, 0], 1.0)
    _, record = sim.run(sim.start(start), 800)
    fall, axes = paper_figures.labelled_axes("time [s]", "height of the centre [m]")
    axes.plot(record.sample_time, record.q[:, 2])
    other = axes.twinx()
    push = np.sum([f[:, 2] for f in record.forces.values()], axis=0)
    other.plot(record.sample_time, np.minimum(push, 50.0), "C1", linewidth=0.8)
    other.set_ylabel("vertical force of the ground [N], cut at 50")
    return paper_figures.save(folder, {"energy_error.png": errors, "fall.png": fall})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="experiments.peers.simulation")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plot", metavar="FOLDER")
    given = parser.parse_args(argv)
    found = lines(given.quick)
    if given.json:
        print(json.dumps([line._asdict() for line in found], indent=1))
    else:
        for line in found:
            print(f"{line.what:62s} {line.ours:12.4g}  {line.wanted}")
    if given.plot:
        Path(given.plot).mkdir(parents=True, exist_ok=True)
        figures(Path(given.plot))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
