"""Real measurements through dynsys: a person, an arm, a walking robot; what holds, what not.

    python -m experiments.real_data --data ../shared/data [--only human icub contact] [--json F]

human     force plate and chest accelerometer of a person bowing, each predicted without itself:
          from the model, and after identification and alignment on the first half
icub      sum of vertical foot forces beside the weight; gravity at rest; force from motion
contact   force that a Panda in free motion "feels" at its hand, by its URDF and identified;
          bands that hold; false alarms on held-out motion, pushes added to the real log

The bags of UR10 and Panda are identified by python -m experiments.identification --data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

import dynsys
import sensors
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from experiments.identification import LOGS, problem_text
from problems import Estimation, Identification, align_sensor, predict
from problems.detection import ContactDetector, MomentumObserver
from problems.logs import SampleReader, Samples, Smoother, open_log
from problems.logs.columns import Column, Columns
from problems.problem_file import load_problem
from problems.terminal import show_line, show_table

__all__ = ["main"]

WRENCH = ("tx", "ty", "tz", "fx", "fy", "fz")
Told = dict[str, Any]


def _rms(x: Array) -> list[float]:
    return [float(v) for v in np.sqrt(np.nanmean(np.asarray(x) ** 2, axis=0))]


# ---- a person --------------------------------------------------------------------------------


def _person(data: Path) -> tuple[KinematicTree, Samples, sensors.Layout]:
    """Foot on the floor; plate and accelerometer as sensors."""
    folder = data / "human_bowing"
    robot = dynsys.load(folder / "threeLinkHuman_subject1_sensorExt.urdf", floating_base=True)
    layout = sensors.Layout(
        robot,
        [
            sensors.JointAcceleration("standing", "root", value=0.0),
            sensors.JointTorque("no motor at the foot", "root", value=0.0),
            sensors.JointAcceleration("ankle", "ankle", std=0.1),
            sensors.JointAcceleration("hip", "hip", std=0.1),
            *sensors.zero_external_wrench_except(robot, ["foot"]),
            sensors.ExternalWrench("plate", "foot", std=[2.0, 2.0]),
            sensors.Accelerometer(
                "chest",
                "torso",
                xyz=(0.1461, 0.0455, 0.2335),
                rpy=(-0.0283, -1.3298, -3.1176),
                std=0.2,
            ),
        ],
    )
    force_first = (3, 4, 5, 0, 1, 2)
    columns = Columns(
        {
            "ankle": (Column("joints.ddq[0]"),),
            "hip": (Column("joints.ddq[1]"),),
            "plate": (Column("sensors.fts_footFrame", order=force_first),),
            "chest": (Column("sensors.acc"),),
            "q.ankle": (Column("joints.q[0]"),),
            "q.hip": (Column("joints.q[1]"),),
            "qd.ankle": (Column("joints.dq[0]"),),
            "qd.hip": (Column("joints.dq[1]"),),
        },
        rate=100.0,
    )
    with open_log(folder / "ExperimentDataset.mat", columns=columns) as log:
        content = log.read(list(columns.columns), 0, log.n_samples)
        n = log.n_samples
    still = np.tile(robot.neutral()[:7], (n, 1))
    q = np.hstack([still, content["q.ankle"], content["q.hip"]])
    qd = np.hstack([np.zeros((n, 6)), content["qd.ankle"], content["qd.hip"]])
    qdd = np.hstack([np.zeros((n, 6)), content["ankle"], content["hip"]])
    y = np.broadcast_to(layout.constants, (n, layout.size)).copy()
    for name in ("ankle", "hip", "plate", "chest"):
        y[:, layout.slice(name)] = content[name]
    return robot, Samples(np.arange(n) / 100.0, q, qd, y, qdd), layout


def human(data: Path) -> Told:
    """Plate and accelerometer, each held out."""
    robot, log, layout = _person(data)
    assert log.qdd is not None
    problem, half = Estimation(robot, layout), len(log.time) // 2
    first, second = slice(0, half), slice(half, None)
    read = log.y[:, layout.slice("plate")]
    without_chest = Estimation(
        robot, sensors.Layout(robot, [s for s in layout if s.name != "chest"], quiet=True)
    )
    others = np.delete(log.y, np.r_[layout.slice("chest")], axis=1)
    plate = predict(without_chest, "plate", log.q, log.qd, others).value
    sought = Identification(
        robot,
        without_chest.layout,
        inertia=["leg", "torso"],
        friction=False,
        rotor=False,
        offset=False,
        sensor_offset=["plate"],
    )
    fit = sought.fit(log.q[first], log.qd[first], log.qdd[first], others[first])
    after = fit.predict(log.q[second], log.qd[second], log.qdd[second]).value
    place = without_chest.layout.slice("plate")
    found = align_sensor(
        problem,
        "chest",
        log.time[first],
        log.q[first],
        log.qd[first],
        log.y[first],
        offset=False,
    )
    aligned = Estimation(robot, found.layout(layout))
    chest = log.y[:, layout.slice("chest")]
    before_chest = predict(problem, "chest", log.q, log.qd, log.y).value
    after_chest = predict(aligned, "chest", log.q, log.qd, log.y).value
    told: Told = {
        "weight_of_model": robot.total_mass * 9.81,
        "mean_vertical_force": float(read[:, 5].mean()),
        "plate_rms_from_motion": _rms((plate - read)[second]),
        "plate_rms_identified": _rms(after[:, place] - read[second]),
        "plate_spread": [float(v) for v in read[second].std(axis=0)],
        "chest_rms": _rms((before_chest - chest)[second]),
        "chest_rms_aligned": _rms((after_chest - chest)[second]),
        "chest_alignment": str(found),
    }
    show_line(
        f"human: mean vertical force {told['mean_vertical_force']:.2f} N, weight of the model"
        f" {told['weight_of_model']:.2f} N"
    )
    show_table(
        ("plate, second half", *WRENCH),
        [
            (name, *(f"{v:.2f}" for v in told[key]))
            for name, key in (
                ("spread of the reading", "plate_spread"),
                ("rms, from motion alone", "plate_rms_from_motion"),
                ("rms, after identification", "plate_rms_identified"),
            )
        ],
    )
    show_line(str(found))
    show_line(
        f"chest accelerometer, second half, rms m/s^2: {_words(told['chest_rms'])} as mounted,"
        f" {_words(told['chest_rms_aligned'])} aligned on the first half"
    )
    return told


def _words(values: list[float]) -> str:
    return " ".join(f"{v:.2f}" for v in values)


# ---- a walking robot -------------------------------------------------------------------------

ICUB = (
    *(f"neck_{a}" for a in ("pitch", "roll", "yaw")),
    *(f"torso_{a}" for a in ("pitch", "roll", "yaw")),
    *(f"l_{a}" for a in ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow")),
    *(f"r_{a}" for a in ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow")),
    *(
        f"{side}_{a}"
        for side in "lr"
        for a in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
    ),
)
"""Joints of the log in its order, as its own list of names has them."""


def icub(data: Path) -> Told:
    """Feet against weight, gravity at rest, vertical force while it walks."""
    folder = data / "icub_walking"
    robot = dynsys.load(folder / "model.urdf", floating_base=True)
    told: Told = {"weight_of_model": robot.total_mass * 9.81}
    for name in ("com-sinusoid", "walking"):
        with open_log(folder / f"{name}.mat") as log:
            c = log.read(list(log.widths), 0, log.n_samples)
        feet = c["lfForceZ"][:, 0] + c["rfForceZ"][:, 0]
        a = np.linalg.norm(c["imuAcc"], axis=1)
        at_rest = np.linalg.norm(c["imuOmega"], axis=1) < 0.02
        rest = c["imuAcc"][at_rest]
        away = np.nan
        if len(rest):
            mean = rest.mean(axis=0)
            away = float(np.rad2deg(np.std(_angles(rest, mean))))
        # vertical force from motion: m (a + g) of the centre of mass, feet the only contacts
        q = np.tile(robot.neutral(), (len(feet), 1))
        for k, joint in enumerate(ICUB):
            q[:, robot.q_slice(joint)] = c["estimatorJointsPos"][:, [k]]
        turned = Rotation.from_euler("xyz", c["linkBaseRot"]).as_quat()
        q[:, :3], q[:, 3:7] = c["linkBasePos"], turned
        time = np.arange(len(feet)) / 100.0
        height = np.array([_centre(robot, state)[2] for state in q])
        method = Smoother().tuned(time, height[:, None])
        up = method.smoothed(time, height[:, None], 0.01)[0][2, :, 0]
        expected = robot.total_mass * (up + 9.81)
        inside = slice(50, -50)
        told[name] = {
            "mean_feet": float(feet.mean()),
            "std_feet": float(feet.std()),
            "gravity_at_rest": float(a[at_rest].mean()) if at_rest.any() else None,
            "direction_scatter_deg": None if np.isnan(away) else away,
            "samples_at_rest": int(at_rest.sum()),
            "rms_constant_weight": float(np.std(feet[inside])),
            "rms_from_motion": float(
                np.sqrt(
                    np.mean((feet - feet.mean() - (expected - expected.mean()))[inside] ** 2)
                )
            ),
            "correlation": float(np.corrcoef(feet[inside], expected[inside])[0, 1]),
        }
        one = told[name]
        show_line(
            f"icub {name}: feet carry {one['mean_feet']:.1f} +- {one['std_feet']:.1f} N (model"
            f" {told['weight_of_model']:.1f} N); |acc| at rest {one['gravity_at_rest']} m/s^2;"
            f" change of force from the centre of mass: correlation {one['correlation']:.2f},"
            f" rms {one['rms_from_motion']:.1f} N left of {one['rms_constant_weight']:.1f} N"
        )
    return told


def _angles(vectors: Array, mean: Array) -> Array:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.arccos(np.clip(unit @ (mean / np.linalg.norm(mean)), -1, 1)))


def _centre(robot: KinematicTree, q: Array) -> Array:
    centre: Array = Kinematics.at(robot, q, np.zeros(robot.nv)).centre_of_mass
    return centre


# ---- contact of an arm -----------------------------------------------------------------------


def _panda(data: Path) -> tuple[Any, Samples]:
    """Problem of the bag and its samples with accelerations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "panda.yaml"
        path.write_text(problem_text("panda"))
        problem = load_problem(path)
        bag = next((data / LOGS["panda"][1]).glob("*.db3"))
        with problem.open_log(bag) as log:
            reader = SampleReader(
                problem.sensors, log, problem.differentiation, accelerations=True
            )
            return problem, reader.read(0, log.n_samples)


def _felt(robot: KinematicTree, std: Array, touched: list[str]) -> Estimation:
    """Torques with their deviations, accelerations from encoders, contact only where said."""
    torques = [
        replace(s, std=float(v))
        for s, v in zip(sensors.all_joint_torques(robot, std=1.0), std, strict=True)
    ]
    layout = sensors.Layout(
        robot,
        [
            *torques,
            *sensors.all_joint_accelerations(robot, std=0.05),
            *sensors.zero_external_wrench_except(robot, touched),
        ],
    )
    return Estimation(robot, layout)


def contact(data: Path) -> Told:
    """False force at the hand, bands, false alarms and pushes."""
    problem, log = _panda(data)
    assert log.qdd is not None
    robot, half = problem.tree, len(log.time) // 2
    first, second = slice(0, half), slice(half, None)
    ident = Identification(robot, problem.sensors)
    fit = ident.fit(log.q[first], log.qd[first], log.qdd[first], log.y[first])
    hand = robot.body_names[-1]
    told: Told = {}
    for name, model in (("urdf", robot), ("identified", fit.robot)):
        predicted = dynsys.rnea(model, log.q, log.qd, log.qdd)
        std = np.array(_rms((log.y - predicted)[first]))
        estimation = _felt(model, std, [hand])
        y = np.hstack([log.y, log.qdd])
        packed = np.broadcast_to(
            estimation.layout.constants, (len(y), estimation.layout.size)
        ).copy()
        packed[:, : y.shape[1]] = y
        e = estimation.solve_batch(
            log.q[second], log.qd[second], packed[second], uncertainty=["external_wrench"]
        )
        wrench = e.external_wrench.array[:, -1]
        deviation = e.std.external_wrench.array[:, -1]
        force = np.linalg.norm(wrench[:, 3:], axis=1)
        told[name] = {
            "force_rms": float(np.sqrt((force**2).mean())),
            "force_mean": float(force.mean()),
            "inside_95": float((np.abs(wrench) < 1.96 * deviation).mean()),
        }
        show_line(
            f"panda {name}: force felt at the hand in free motion, second half: mean"
            f" {told[name]['force_mean']:.2f} N, rms {told[name]['force_rms']:.2f} N;"
            f" {100 * told[name]['inside_95']:.0f} % of components within their 95 % band"
        )
    told["detection"] = _detection(fit.robot, log, first, second, hand)
    return told


RATES = (600.0, 1800.0, 3600.0)
PUSHES = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
PUSH_SECONDS = 0.4


def _detection(
    robot: KinematicTree, log: Samples, first: slice, second: slice, hand: str
) -> Told:
    """Alarms on the second half as they are, and with pushes of growing size added to it."""
    assert log.qdd is not None
    std = np.array(_rms((log.y - dynsys.rnea(robot, log.q, log.qd, log.qdd))[first]))
    problem = _felt(robot, std, [])
    packed = np.tile(problem.layout.constants, (len(log.y), 1))
    packed[:, : 2 * robot.nv] = np.hstack([log.y, log.qdd])
    data = (log.time, log.q, log.qd, packed)
    seconds = float(log.time[second][-1] - log.time[second][0])
    told: Told = {"seconds_held_out": seconds, "false_alarms": [], "pushes": []}
    for rate in RATES:
        detector = _calibrated(problem, data, first, rate)
        counted = len(
            detector.alarm.events(log.time[second], _statistic(problem, data, second))
        )
        told["false_alarms"].append(
            {"per_hour": rate, "promised": rate * seconds / 3600, "counted": counted}
        )
    show_table(
        ("false alarms per hour", f"promised in {seconds:.1f} s", "counted"),
        [
            (f"{row['per_hour']:g}", f"{row['promised']:.1f}", str(row["counted"]))
            for row in told["false_alarms"]
        ],
    )
    detector = _calibrated(problem, data, first, 600.0)
    observer = MomentumObserver(robot, gain=15.0)
    free = observer.run(log.time, log.q, log.qd, log.y)
    limit = np.abs(free[first][30:]).max(axis=0)
    rng = np.random.default_rng(0)
    starts = np.linspace(log.time[second][0] + 0.5, log.time[-1] - 1.0, 12)
    for size in PUSHES:
        seen, delays, right, by_observer = 0, [], 0, 0
        for start in starts:
            force = rng.normal(size=3)
            force *= size / np.linalg.norm(force)
            inside = (log.time >= start) & (log.time < start + PUSH_SECONDS)
            f_ext = np.zeros((int(inside.sum()), robot.n_bodies, 6))
            f_ext[:, -1, 3:] = force
            motion = log.q[inside], log.qd[inside], log.qdd[inside]
            pushed = packed.copy()
            difference = dynsys.rnea(robot, *motion, f_ext) - dynsys.rnea(robot, *motion)
            pushed[inside, : robot.nv] += difference
            part = (log.time >= start - 0.3) & (log.time < start + PUSH_SECONDS + 0.3)
            statistic = _statistic(problem, (log.time, log.q, log.qd, pushed), part)
            during = log.time[part][(statistic > detector.alarm.threshold) & inside[part]]
            if len(during):
                seen += 1
                delays.append(float(during[0] - start))
                contacts = detector.events(
                    *(x[part] for x in (log.time, log.q, log.qd, pushed))
                )
                right += any(c.link == hand or hand in c.tied for c in contacts)
            followed = observer.run(log.time, log.q, log.qd, pushed[:, : robot.nv])
            by_observer += bool((np.abs(followed[inside]) > limit).any())
        told["pushes"].append(
            {
                "newton": size,
                "seen": seen / len(starts),
                "link_right": right / seen if seen else None,
                "delay_ms": 1e3 * float(np.median(delays)) if delays else None,
                "momentum_observer": by_observer / len(starts),
            }
        )
    show_table(
        ("push at the hand [N]", "seen", "link right", "delay [ms]", "momentum observer"),
        [
            (
                f"{p['newton']:g}",
                f"{p['seen']:.0%}",
                "" if p["link_right"] is None else f"{p['link_right']:.0%}",
                "" if p["delay_ms"] is None else f"{p['delay_ms']:.0f}",
                f"{p['momentum_observer']:.0%}",
            )
            for p in told["pushes"]
        ],
    )
    return told


def _calibrated(
    problem: Estimation, data: tuple[Array, ...], part: slice, rate: float
) -> ContactDetector:
    time, q, qd, y = (x[part] for x in data)
    return ContactDetector.calibrated(problem, time, q, qd, y, rate)


def _statistic(problem: Estimation, data: tuple[Array, ...], part: Any) -> Array:
    _, q, qd, y = (x[part] for x in data)
    return np.asarray(problem.solve_batch(q, qd, y).chi_square)


PARTS: Mapping[str, Callable[[Path], Told]] = {"human": human, "icub": icub, "contact": contact}


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the measurements")
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    options = parser.parse_args()
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.only:
            found[name] = PARTS[name](options.data)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
