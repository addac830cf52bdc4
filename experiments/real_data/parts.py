"""Real measurements through dynsys: arms, a person, a walking robot; what holds, what not.

    python -m experiments.real_data --data ../shared/data --pictures FOLDER [--json FILE]
    python -m experiments.real_data --data ../shared/data --only human icub

arms      torques of a UR10 and a Panda on the second half of their bags, by the URDF and
          identified on the first half
contact   force that a Panda in free motion "feels" at its hand, by its URDF and identified;
          bands that hold; false alarms on held-out motion, pushes added to the real log
human     force plate and chest accelerometer of a person bowing, each predicted without itself:
          from the model, and after identification and alignment on the first half
icub      sum of vertical foot forces beside the weight; gravity at rest; force from motion

The bags by the command, as a user runs it: python -m experiments.identification --data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

import dynsys
import sensors
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from experiments.figures import save
from experiments.identification import LOGS, problem_text
from problems import Estimation, Identification, align_sensor, predict
from problems.detection import ContactDetector, MomentumObserver
from problems.identification.fit import Fit
from problems.logs import Differentiation, Samples, Smoother, open_log
from problems.logs.columns import Column, Columns
from problems.problem_file import load_problem
from problems.terminal import show_line, show_table

__all__ = ["Finding", "arms", "contact", "human", "icub", "main"]

WRENCH = ("tx", "ty", "tz", "fx", "fy", "fz")
Told = dict[str, Any]


class Finding(NamedTuple):
    """Numbers of a part, and the arrays that its pictures show."""

    told: Told
    drawn: Mapping[str, Any]


def _rms(x: Array) -> list[float]:
    return [float(v) for v in np.sqrt(np.nanmean(np.asarray(x) ** 2, axis=0))]


def _halves(log: Samples) -> tuple[slice, slice]:
    half = round(0.5 * len(log.time))  # as dynsys identify --hold-out 0.5
    return slice(0, half), slice(half, None)


# ---- arms ------------------------------------------------------------------------------------


def _bag(data: Path, name: str) -> tuple[Any, Samples]:
    """Problem of a bag and its samples with accelerations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(problem_text(name))
        problem = load_problem(path)
        bag = next((data / LOGS[name][1]).glob("*.db3"))
        return problem, problem.samples(bag, accelerations=True)


def _motion(log: Samples, part: slice) -> tuple[Array, Array, Array]:
    assert log.qdd is not None
    return log.q[part], log.qd[part], log.qdd[part]


def arms(data: Path) -> Finding:
    """Torques held out, by the URDF and identified, with bands."""
    told: Told = {}
    drawn: Told = {}
    for name in LOGS:
        problem, log = _bag(data, name)
        first, second = _halves(log)
        ident = Identification(problem.tree, problem.sensors)
        fit = ident.fit(*_motion(log, first), log.y[first])
        found = fit.predict(*_motion(log, second))
        model = dynsys.rnea(problem.tree, *_motion(log, second))
        time, y = log.time - log.time[0], log.y[second]
        inside = ((y >= found.low) & (y <= found.high)).mean(axis=0)
        told[name] = {
            "model_rms": _rms(model - y),
            "identified_rms": _rms(found.value - y),
            "inside_95": [float(x) for x in inside],
        }
        drawn[name] = {
            "time": time[second],
            "measured": y,
            "model": model,
            "found": found.value,
            "low": found.low,
            "high": found.high,
            "joints": list(problem.tree.joint_names),
            "trained": float(time[first][-1]),
        }
        show_table(
            (f"{name}, second half", *(str(k + 1) for k in range(y.shape[1]))),
            [
                ("rms by the URDF [N m]", *(f"{v:.2f}" for v in told[name]["model_rms"])),
                ("rms identified [N m]", *(f"{v:.3f}" for v in told[name]["identified_rms"])),
                ("within the 95 % band", *(f"{v:.0%}" for v in told[name]["inside_95"])),
            ],
        )
    return Finding(told, drawn)


# ---- a person --------------------------------------------------------------------------------


def _person(data: Path) -> tuple[KinematicTree, Samples, sensors.Layout]:
    """Foot on the floor; plate and accelerometer as sensors.

    Accelerations are the slopes of the logged ``dq``: the file's own ``ddq`` are 0.37 (ankle)
    and 0.43 (hip) times those, and the plate agrees with the slopes.
    """
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
    time, still = np.arange(n) / 100.0, np.tile(robot.neutral()[:7], (n, 1))
    rates = np.hstack([content["qd.ankle"], content["qd.hip"]])
    slopes = Differentiation().fit(time, rates, slice(0, n), True, True, 0.01)[1]
    q = np.hstack([still, content["q.ankle"], content["q.hip"]])
    qd = np.hstack([np.zeros((n, 6)), rates])
    qdd = np.hstack([np.zeros((n, 6)), slopes])
    y = np.broadcast_to(layout.constants, (n, layout.size)).copy()
    y[:, layout.slice("ankle")], y[:, layout.slice("hip")] = np.hsplit(slopes, 2)
    for name in ("plate", "chest"):
        y[:, layout.slice(name)] = content[name]
    return robot, Samples(time, q, qd, y, qdd), layout


def _identified(
    robot: KinematicTree, layout: sensors.Layout, free: tuple[str, ...], offsets: bool
) -> tuple[Identification, dict[str, float]]:
    """Inertias of leg and torso, if some are named only those that are; offsets of the plate.

    What is not free is held where the model has it, by a natural size of next to nothing.
    """
    ident = Identification(
        robot,
        layout,
        inertia=["leg", "torso"],
        friction=False,
        rotor=False,
        offset=False,
        sensor_offset=["plate"] if offsets else False,
    )
    sizes = dict(zip(ident.parameters, ident.sought.scale.tolist(), strict=True))
    held = [n for n in sizes if free and n not in free and not n.startswith("plate.")]
    return ident, {name: 1e-6 * sizes[name] for name in held}


TRIED: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "mass of the torso by itself": (("torso.mass",), False),
    "mass and offsets of the plate": (("torso.mass",), True),
    "all inertias and offsets": ((), True),
}
"""What is identified of the person: parameters, all if none is named; offsets or not."""


def human(data: Path) -> Finding:
    """Plate and accelerometer, each held out."""
    robot, log, layout = _person(data)
    problem, (first, second) = Estimation(robot, layout), _halves(log)
    read = log.y[:, layout.slice("plate")]
    without_chest = Estimation(
        robot, sensors.Layout(robot, [s for s in layout if s.name != "chest"], quiet=True)
    )
    others = np.delete(log.y, np.r_[layout.slice("chest")], axis=1)
    plate = predict(without_chest, "plate", log.q, log.qd, others).value
    place, every = without_chest.layout.slice("plate"), slice(None)
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
        "plate_spread": [float(v) for v in read[second].std(axis=0)],
        "identified": {},
        "chest_rms": _rms((before_chest - chest)[second]),
        "chest_rms_aligned": _rms((after_chest - chest)[second]),
        "chest_alignment": str(found),
    }
    after = plate
    for name, (free, offsets) in TRIED.items():
        ident, sizes = _identified(robot, without_chest.layout, free, offsets)
        fit = ident.fit(*_motion(log, first), others[first], sizes=sizes)
        after = fit.predict(*_motion(log, every)).value[:, place]
        told["identified"][name] = {
            "plate_rms": _rms((after - read)[second]),
            "mass": fit.robot.total_mass,
            "mass_std": _mass_std(fit),
        }
    told["plate_rms_identified"] = told["identified"]["all inertias and offsets"]["plate_rms"]
    show_line(
        f"human: mean vertical force {told['mean_vertical_force']:.2f} N, weight of the model"
        f" {told['weight_of_model']:.2f} N, mass {robot.total_mass:.3f} kg"
    )
    rows = [
        ("spread of the reading", told["plate_spread"], ""),
        ("rms, from motion alone", told["plate_rms_from_motion"], f"{robot.total_mass:.2f}"),
    ]
    for name, one in told["identified"].items():
        rows.append((f"rms, {name}", one["plate_rms"], f"{one['mass']:.2f}"))
        rows[-1] = (*rows[-1][:2], f"{one['mass']:.2f} +- {one['mass_std']:.2f}")
    show_table(
        ("plate, second half", *WRENCH, "person [kg]"),
        [(name, *(f"{v:.2f}" for v in values), mass) for name, values, mass in rows],
    )
    show_line(str(found))
    show_line(
        f"chest accelerometer, second half, rms m/s^2: {_words(told['chest_rms'])} as mounted,"
        f" {_words(told['chest_rms_aligned'])} aligned on the first half"
    )
    drawn = {
        "time": log.time - log.time[0],
        "plate": {"measured": read, "before": plate, "after": after},
        "chest": {"measured": chest, "before": before_chest, "after": after_chest},
    }
    return Finding(told, drawn)


def _mass_std(fit: Fit) -> float:
    """Deviation of the sum of the masses that were identified."""
    masses = np.array([name.endswith(".mass") for name in fit.names], dtype=float)
    return float(np.sqrt(masses @ fit.covariance @ masses))


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


def icub(data: Path) -> Finding:
    """Feet against weight, gravity at rest, vertical force while it walks."""
    folder = data / "icub_walking"
    robot = dynsys.load(folder / "model.urdf", floating_base=True)
    told: Told = {"weight_of_model": robot.total_mass * 9.81}
    logs: Told = {}
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
        logs[name] = {
            "time": time[inside],
            "left": c["lfForceZ"][inside, 0],
            "right": c["rfForceZ"][inside, 0],
            "expected": expected[inside],
            "correlation": one["correlation"],
        }
        show_line(
            f"icub {name}: feet carry {one['mean_feet']:.1f} +- {one['std_feet']:.1f} N (model"
            f" {told['weight_of_model']:.1f} N); |acc| at rest {one['gravity_at_rest']:.3f}"
            " m/s^2; change of force from the centre of mass: correlation"
            f" {one['correlation']:.2f}, rms {one['rms_from_motion']:.1f} N left of"
            f" {one['rms_constant_weight']:.1f} N"
        )
    return Finding(told, {"weight": told["weight_of_model"], "logs": logs})


def _angles(vectors: Array, mean: Array) -> Array:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.arccos(np.clip(unit @ (mean / np.linalg.norm(mean)), -1, 1)))


def _centre(robot: KinematicTree, q: Array) -> Array:
    centre: Array = Kinematics.at(robot, q, np.zeros(robot.nv)).centre_of_mass
    return centre


# ---- contact of an arm -----------------------------------------------------------------------


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


def contact(data: Path) -> Finding:
    """False force at the hand, bands, false alarms and pushes."""
    problem, log = _bag(data, "panda")
    assert log.qdd is not None
    robot, (first, second) = problem.tree, _halves(log)
    ident = Identification(robot, problem.sensors)
    fit = ident.fit(*_motion(log, first), log.y[first])
    hand = robot.body_names[-1]
    told: Told = {}
    drawn: Told = {"time": (log.time - log.time[0])[second]}
    for name, model in (("urdf", robot), ("identified", fit.robot)):
        estimation, packed = _packed(model, log, first, [hand])
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
        drawn[name] = {"force": wrench[:, 3:], "std": deviation[:, 3:]}
        show_line(
            f"panda {name}: force felt at the hand in free motion, second half: mean"
            f" {told[name]['force_mean']:.2f} N, rms {told[name]['force_rms']:.2f} N;"
            f" {100 * told[name]['inside_95']:.0f} % of components within their 95 % band"
        )
    other = ident.fit(*_motion(log, second), log.y[second])  # the other way round
    alarms = [
        *_false_alarms(fit.robot, log, first, first, second, ("first half", "second half")),
        *_false_alarms(other.robot, log, second, second, first, ("second half", "first half")),
    ]
    quarter = (len(log.time) + second.start) // 2  # motion that the fit has not seen either
    third, fourth = slice(second.start, quarter), slice(quarter, None)
    apart = [
        *_false_alarms(fit.robot, log, first, third, fourth, ("third quarter", "fourth")),
        *_false_alarms(fit.robot, log, first, fourth, third, ("fourth quarter", "third")),
    ]
    show_table(
        ("false alarms per hour", "learnt on", "counted on", "promised", "counted"),
        [
            (
                f"{r['per_hour']:g}",
                r["learnt"],
                r["on"],
                f"{r['promised']:.1f}",
                str(r["counted"]),
            )
            for r in (*alarms, *apart)
        ],
    )
    rows, drawn["detection"] = _pushes(fit.robot, log, first, second, hand)
    told["detection"] = {"false_alarms": alarms, "learnt_apart": apart, "pushes": rows}
    drawn["detection"] |= {"alarms": alarms, "rows": rows}
    return Finding(told, drawn)


RATES = (600.0, 1800.0, 3600.0)
PUSHES = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
PUSH_SECONDS = 0.4
SHOWN = 8.0
"""Newton of the pushes that the picture shows."""
PLACES = {"beside the axis": (0.1, 0.0, 0.1), "on the axis": (0.0, 0.0, 0.1)}
"""Where the hand is pushed, m from the origin of the last link, whose joint turns about z: a
force through that axis puts no torque on the joint; the link before might be the one."""


def _packed(
    robot: KinematicTree, log: Samples, trained: slice, touched: list[str]
) -> tuple[Estimation, Array]:
    """Estimation with deviations of what a robot leaves of the torques; all its readings."""
    assert log.qdd is not None
    left = log.y - dynsys.rnea(robot, log.q, log.qd, log.qdd)
    problem = _felt(robot, np.array(_rms(left[trained])), touched)
    packed = np.tile(problem.layout.constants, (len(log.y), 1))
    packed[:, : 2 * robot.nv] = np.hstack([log.y, log.qdd])
    return problem, packed


def _false_alarms(
    robot: KinematicTree,
    log: Samples,
    trained: slice,
    learnt: slice,
    held_out: slice,
    names: tuple[str, str],
) -> list[Told]:
    """Alarms on free motion, learnt on one part of the log and counted on another."""
    problem, packed = _packed(robot, log, trained, [])
    data = (log.time, log.q, log.qd, packed)
    time, statistic = log.time[held_out], _statistic(problem, data, held_out)
    hours = float(time[-1] - time[0]) / 3600
    rows = []
    for rate in RATES:
        alarm = _calibrated(problem, data, learnt, rate).alarm
        counted = len(alarm.events(time, statistic))
        rows.append(
            {
                "per_hour": rate,
                "learnt": names[0],
                "on": names[1],
                "promised": rate * hours,
                "counted": counted,
            }
        )
    return rows


def _pushes(
    robot: KinematicTree, log: Samples, first: slice, second: slice, hand: str
) -> tuple[dict[str, list[Told]], Told]:
    """Pushes of growing size added to the second half; what the picture shows of them."""
    assert log.qdd is not None
    problem, packed = _packed(robot, log, first, [])
    data = (log.time, log.q, log.qd, packed)
    detector = _calibrated(problem, data, first, RATES[0])
    observer = MomentumObserver(robot, gain=15.0)
    free = observer.run(log.time, log.q, log.qd, log.y)
    limit = np.abs(free[first][30:]).max(axis=0)
    starts = np.linspace(log.time[second][0] + 0.5, log.time[-1] - 1.0, 12)
    found: dict[str, list[Told]] = {}
    for place, point in PLACES.items():
        rng, found[place] = np.random.default_rng(0), []
        for size in PUSHES:
            seen, delays, right, among, by_observer, together = 0, [], 0, 0, 0, packed.copy()
            for start in starts:
                force = rng.normal(size=3)
                force *= size / np.linalg.norm(force)
                inside = (log.time >= start) & (log.time < start + PUSH_SECONDS)
                push = _torque_of(robot, log, inside, np.r_[np.cross(point, force), force])
                together[inside, : robot.nv] += push
                pushed = packed.copy()
                pushed[inside, : robot.nv] += push
                part = (log.time >= start - 0.3) & (log.time < start + PUSH_SECONDS + 0.3)
                statistic = _statistic(problem, (log.time, log.q, log.qd, pushed), part)
                during = log.time[part][(statistic > detector.alarm.threshold) & inside[part]]
                if len(during):
                    seen += 1
                    delays.append(float(during[0] - start))
                    contacts = detector.events(
                        *(x[part] for x in (log.time, log.q, log.qd, pushed))
                    )
                    while_pushed = [c for c in contacts if c.end >= during[0] >= c.start]
                    right += any(c.link == hand for c in while_pushed)
                    among += any(hand in c.among for c in while_pushed)
                followed = observer.run(log.time, log.q, log.qd, pushed[:, : robot.nv])
                by_observer += bool((np.abs(followed[inside]) > limit).any())
            found[place].append(
                {
                    "newton": size,
                    "seen": seen / len(starts),
                    "link_right": right / seen if seen else None,
                    "link_among": among / seen if seen else None,
                    "delay_ms": 1e3 * float(np.median(delays)) if delays else None,
                    "momentum_observer": by_observer / len(starts),
                }
            )
            if size == SHOWN and any(point[:2]):
                shown = together
        _show_pushes(place, found[place])
    statistic = _statistic(problem, (log.time, log.q, log.qd, shown), second)
    time = log.time[second] - log.time[0]
    events = [(time[a], time[b]) for a, b in detector.alarm.events(time, statistic)]
    return found, {
        "time": time,
        "free": _statistic(problem, data, second),
        "pushed": statistic,
        "threshold": detector.alarm.threshold,
        "pushes": [(t - log.time[0], t - log.time[0] + PUSH_SECONDS) for t in starts],
        "events": events,
        "top": 1.5 * float(statistic.max()),
        "newton": SHOWN,
        "seconds": PUSH_SECONDS,
        "per_hour": RATES[0],
    }


def _torque_of(robot: KinematicTree, log: Samples, inside: Array, wrench: Array) -> Array:
    """What a wrench on the last link does to the torques of some samples."""
    assert log.qdd is not None
    f_ext = np.zeros((int(inside.sum()), robot.n_bodies, 6))
    f_ext[:, -1] = wrench
    motion = log.q[inside], log.qd[inside], log.qdd[inside]
    return np.asarray(dynsys.rnea(robot, *motion, f_ext) - dynsys.rnea(robot, *motion))


def _show_pushes(place: str, rows: list[Told]) -> None:
    def share(x: float | None) -> str:
        return "" if x is None else f"{x:.0%}"

    show_table(
        (f"push {place} [N]", "seen", "link", "among", "delay [ms]", "momentum observer"),
        [
            (
                f"{p['newton']:g}",
                share(p["seen"]),
                share(p["link_right"]),
                share(p["link_among"]),
                "" if p["delay_ms"] is None else f"{p['delay_ms']:.0f}",
                share(p["momentum_observer"]),
            )
            for p in rows
        ],
    )


def _calibrated(
    problem: Estimation, data: tuple[Array, ...], part: slice, rate: float
) -> ContactDetector:
    time, q, qd, y = (x[part] for x in data)
    return ContactDetector.calibrated(problem, time, q, qd, y, rate)


def _statistic(problem: Estimation, data: tuple[Array, ...], part: Any) -> Array:
    _, q, qd, y = (x[part] for x in data)
    return np.asarray(problem.solve_batch(q, qd, y).chi_square)


PARTS: Mapping[str, Callable[[Path], Finding]] = {
    "arms": arms,
    "contact": contact,
    "human": human,
    "icub": icub,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the measurements")
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw into this folder")
    options = parser.parse_args(arguments)
    if options.pictures:
        from experiments.real_data.pictures import pictures_of  # needs matplotlib

        options.pictures.mkdir(parents=True, exist_ok=True)
    told = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.only:
            found = PARTS[name](options.data)
            told[name] = found.told
            if options.pictures:
                for path in save(options.pictures, pictures_of(name, found.drawn), dpi=110):
                    show_line(f"{path}: written")
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")
