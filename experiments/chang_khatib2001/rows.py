"""[CK] reproduced: K.-S. Chang and O. Khatib, operational-space inertia in O(n m), 2001.

    python -m experiments.chang_khatib2001 [--json] [--plot FOLDER] [--quick]

The paper has one algorithm (table 1), one claim, O(n m + m^3), and one experiment: a humanoid
of 24 links with two operational points, in less than 1 ms on a 266 MHz Pentium II. Claims are
held against operations counted, not against times of this machine, which are ours alone (one
BLAS thread).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.operational import OperationalSpace, operational_space
from dynsys.operational.methods.chang_khatib import plan_recursion
from experiments.chang_khatib2001 import box
from experiments.chang_khatib2001.counts import (
    DENSE,
    TRUNK,
    dense_growth,
    growth,
    recursion,
    terms_of,
)
from experiments.chang_khatib2001.runs import (
    HANDS,
    METHODS,
    humanoid24,
    linear_fit,
    passes,
    points_times,
    scaling,
)
from experiments.featherstone2005.axial_screws import ScrewRobot
from experiments.papers import paper_rows
from experiments.papers.paper_rows import Row, row
from experiments.peers.timing import seconds

__all__ = ["figures", "main", "rows"]

TITLE = "Chang and Khatib 2001: recursive operational-space inertia"
NOTES = (
    "The paper gives neither joint axes nor masses of its humanoid (figure 2): ours has its 24"
    " one-freedom joints and two hands, with general inertias. Nor does it give the box's size,"
    " mass and way: of figures 5 and 6 only what they show can be compared, no number.",
    "Figures 5 and 6: the controller knows robot and box; the simulator holds two rigid grasps"
    " and the floor. The torque is held for 1/300 s, and that is what the internal force is off"
    " by: the error halves with the period, and at the instant itself it is rounding.",
    "The dense route is the strongest we have: H by compiled loops, LAPACK's Cholesky.",
    "A millisecond and 300 Hz cannot fail on a processor of today. What can: the operations of"
    " Lambda against the cycles of a millisecond at 266 MHz. Torques are held for 1/300 s.",
    "Counts of stars: step 4 goes with n m, step 6 with m^3, step 5 with m^2, the rest with n;"
    " m <= n, and l, the links of a limb, are fewer than n. Lambda exists where 6 m <= n.",
)


def rows(quick: bool = False) -> list[Row]:
    """All numbers of the paper, beside ours."""
    return [
        *humanoid_rows(quick),
        *complexity_rows(),
        *growth_rows(),
        *scaling_rows(quick),
        *points_rows(quick),
        *box_rows(quick),
    ]


# ---- section 4: the humanoid -------------------------------------------------------------


def humanoid_rows(quick: bool) -> list[Row]:
    """n = 24, two operational points: agreement of all methods, and times."""
    robot = humanoid24()
    q = robot.random_configuration(0)
    exact = operational_space(robot, q, HANDS, method="dense").Lambda_inv
    where, scale = "humanoid, two hands", float(np.abs(exact).max())
    out = [
        row("section 4", where, "links n", 24, robot.n_bodies, "given", lines=274),
        row("section 4", where, "operational points m", 2, len(HANDS), "given", lines=274),
        *counted_rows(robot),
    ]
    for method in METHODS:
        found = OperationalSpace(robot, HANDS, method)
        error = float(np.abs(found.at(q).Lambda_inv - exact).max()) / scale
        out.append(row("section 4", f"{where}, {method}", "error against dense", None, error))
    spaces = {method: OperationalSpace(robot, HANDS, method) for method in METHODS}
    recursion = spaces["chang_khatib"]
    times = seconds(
        {
            **{f"{m}, Lambda^-1": partial(space.at, q) for m, space in spaces.items()},
            "chang_khatib, Lambda": lambda: recursion.at(q).Lambda,
        },
        passes(quick),
    )
    for name, value in times.items():
        method, quantity = name.split(", ")
        at, what = f"{where}, {method}", f"{quantity}, ms"
        out.append(row("section 4", at, what, None, 1e3 * value))
    return out


def counted_rows(robot: KinematicTree) -> list[Row]:
    """What table 1 executes on the humanoid, against the cycles of the paper's millisecond."""
    parent = [-1, *(int(p) + 1 for p in robot.parent)]
    tips = [robot.body_index(hand) + 1 for hand in HANDS]
    found = recursion(ScrewRobot(parent, base_frames=False), tips)[1]
    total, cycles = sum(one.total for one in found.values()), 266_000
    where = "humanoid, two hands, table 1 counted"
    return [
        row(
            "section 4",
            where,
            "operations of Lambda",
            "less than 1 ms, 266 MHz Pentium II",
            total,
            holds=total < cycles,
            lines=274,
            within=f"an operation per cycle, {cycles} in 1 ms at 266 MHz",
        ),
        *(
            row("section 4", where, f"operations, {step}", None, one.total)
            for step, one in found.items()
        ),
    ]


# ---- section 3.3: complexity -------------------------------------------------------------


def complexity_rows() -> list[Row]:
    """Blocks that step 4 computes: O(n m) on any tree, here at the worst seen of many."""
    worst = 0.0
    for seed in range(20):
        robot = synthetic.random_tree(60, seed, ["revolute"])
        rng = np.random.default_rng(seed)
        for m in (2, 5, 20):
            bodies = sorted(rng.choice(60, m, replace=False).tolist())
            worst = max(worst, len(plan_recursion(robot.parent, bodies).body) / (60 * m))
    where = "random trees, n = 60, m = 2, 5, 20"
    what, within = "blocks of steps 3 and 4 / (n m), worst", "n m blocks"
    holds = worst <= 1
    return [
        row("section 3.3", where, what, "O(mn)", worst, holds=holds, lines=270, within=within)
    ]


GROWTH: dict[str, tuple[str, set[str], tuple[str, ...]]] = {
    "steps 1, 2": ("computed in O(n)", {"n", "m", ""}, ("n",)),
    "step 3": ("computed in O(n)", {"n", "m", ""}, ("n",)),
    "step 4": ("O(mn)", {"nm", "m^2", "n", "l", "m", ""}, ("nm",)),
    "step 5": ("O(m^2)", {"m^2", "m", ""}, ("m^2",)),
    "step 6": ("O(m^3)", {"m^3", "m^2", "m", ""}, ("m^3",)),
    "all steps": (
        "O(nm + m^3)",
        {"nm", "m^3", "m^2", "n", "l", "m", ""},
        ("nm", "m^3"),
    ),
    DENSE: (
        "O(n^3 + m^3)",
        {"n^3", "n^2m", "nm^2", "m^3", "n^2", "nm", "m^2", "n", "m", ""},
        ("n^3", "m^3"),
    ),
}
"""By step: what the paper says, the terms that are no more than it, and those that must be."""


def growth_rows() -> list[Row]:
    """Operations of each step of table 1 as sums of powers of n and m, exactly."""
    where = "star: a trunk, m limbs of l links, n links"
    found = growth() | {DENSE: dense_growth()}
    out = [
        row(
            "section 3.3",
            where,
            f"operations, {step}",
            paper,
            str(found[step]),
            holds=found[step].powers <= allowed and found[step].leads(*leading),
            lines=270,
        )
        for step, (paper, allowed, leading) in GROWTH.items()
    ]

    def times(n: int) -> float:
        """Operations of the dense route over those of the recursion, two limbs."""
        recursive = found["all steps"].at(terms_of(n, 2, (n - TRUNK) / 2))
        return found[DENSE].at(terms_of(n, 2, 0)) / recursive

    n, least = 1000, 10
    where = "star of two limbs, dense / table 1"
    first = next(n for n in range(12, n) if times(n) > 1)
    return [
        *out,
        row(
            "section 3.3",
            where,
            f"operations, n = {n}",
            "significantly better",
            times(n),
            holds=times(n) > least,
            lines=270,
            within=f"{least} times fewer operations",
        ),
        row("section 3.3", where, "fewer operations from n =", None, first),
    ]


def scaling_rows(quick: bool) -> list[Row]:
    """Times over n at m = 2, with linear fits, against the dense route."""
    found = scaling(quick)
    out = []
    for name, times in found.times.items():
        for n, value in zip(found.sizes, times, strict=True):
            out.append(
                row("section 3.3", f"{name}, n = {n}, m = 2", "CPU ms", None, 1e3 * value)
            )
        slope, exponent, fit = linear_fit(found.sizes, times)
        where = f"{name}, n up to {found.sizes[-1]}, m = 2"
        out += [
            row("section 3.3", where, "microseconds per link", None, 1e6 * slope),
            row("section 3.3", where, EXPONENT, None, exponent),
            row("section 3.3", where, "R^2 of the linear fit", None, fit),
        ]
    for n, value in zip(found.sizes, found.dense, strict=True):
        out.append(row("section 3.3", f"dense, n = {n}, m = 2", "CPU ms", None, 1e3 * value))
    _, exponent, _ = linear_fit(found.sizes, found.dense)
    ratio = found.dense[-1] / found.times["chang_khatib"][-1]
    last = found.sizes[-1]
    return [
        *out,
        row("section 3.3", "dense", EXPONENT, None, exponent),
        row("section 3.3", f"dense / chang_khatib, n = {last}", "times slower", None, ratio),
    ]


EXPONENT = "exponent of n of the times, upper half"


def points_rows(quick: bool) -> list[Row]:
    """Times over m at fixed n."""
    return [
        row("section 3.3", f"{name}, balanced tree, m = {m}", "CPU ms", None, 1e3 * value)
        for name, times in points_times(quick).items()
        for m, value in times.items()
    ]


# ---- figures 5 and 6: a box on the floor -------------------------------------------------


def box_rows(quick: bool) -> list[Row]:
    """The augmented object, what its controller promises, and what the simulator finds."""
    return [*object_rows(quick), *motion_rows(quick), *servo_rows(quick)]


def object_rows(quick: bool) -> list[Row]:
    """Inertia of the augmented object by three routes; box and grasps at an instant."""
    motion = box.put_down(quick)
    held, half = motion.scene, len(motion.time) // 2
    q = held.dynamics.close(motion.record.q[half])
    exact = held.augmented_inertia(q, "dense")
    size, out = float(np.abs(exact).max()), []
    for name, found in (
        ("recursion of table 1", held.augmented_inertia(q)),
        ("closed chain by relative motion", held.inertia_by_relative_motion(q)),
        ("tree of 30 freedoms, closures", held.inertia_by_closures(q)),
    ):
        error = float(np.abs(found - exact).max()) / size
        out.append(
            row("section 4", f"augmented object, {name}", "error against dense", None, error)
        )
    rng = np.random.default_rng(0)
    near = [(motion.record.q[k], rng.normal(size=30)) for k in range(0, len(motion.time), 300)]
    errors = box.instant_errors(box.Controller(held, motion.task), near)
    where = "torque, by constrained forward dynamics"
    return [
        *out,
        row("section 4", where, "box - commanded, m/s^2, rad/s^2", None, float(errors[0])),
        row("section 4", where, "hands' wrenches - commanded, N, N m", None, float(errors[1])),
    ]


def motion_rows(quick: bool) -> list[Row]:
    """Figures 5 and 6 in the simulator: spline, internal force, posture, floor, balances."""
    motion = box.put_down(quick)
    air, place = motion.in_the_air, motion.place
    beside = np.abs(place[:, :2] - place[0, :2])[air].max()
    weight = 9.81 * motion.scene.box.total_mass
    robot, record, still = motion.scene.robot, motion.record, motion.coupling
    moved = np.abs(record.q[:, : robot.nq] - record.q[0, : robot.nq]).max()
    figure_6: list[tuple[str, float]] = [
        ("way down, m", motion.task.drop),
        ("height - cubic spline in the air, m", np.abs(place[:, 2] - motion.wanted)[air].max()),
        ("beside its way, m", beside),
        ("squeeze, N", box.SQUEEZE),
    ]
    for servo in (box.SERVO, 2 * box.SERVO):
        found = box.put_down(quick, servo)
        wrong = np.abs(found.internal - found.commanded)[found.in_the_air].max()
        figure_6.append((f"internal wrench - commanded in the air, {servo} Hz, N, N m", wrong))
    figure_6 += [
        ("floor carries / weight - 1, at the end", motion.floor[-1, 5] / weight - 1),
        ("momentum of the box - hands - floor - weight, N, N m", motion.imbalance),
        ("work of the drives, J", record.drive_work.sum()),
        ("energy from nowhere in the air, J", record.drift[air[1:]][-1]),
        ("steps above the solver's tolerance", float(np.sum(~record.converged))),
        ("their impulses are wrong by, m/s", record.residual.max()),
    ]
    where, none = "two hands put a box on the floor", "hands by posture torque, m/s^2"
    words, least = "without producing any coupling acceleration", 1e-9
    return [
        row("figure 5", where, "posture moves, rad", None, float(moved)),
        row(
            "figure 5",
            where,
            none,
            words,
            still,
            holds=still < least,
            lines=286,
            within=f"{least} m/s^2, rounding",
        ),
        *(row("figure 6", where, what, None, float(value)) for what, value in figure_6),
    ]


def servo_rows(quick: bool) -> list[Row]:
    """How often the whole control law could be computed, from Python."""
    motion = box.put_down(quick)
    q, v = motion.record.q[0], motion.record.qd[0]
    controller = box.Controller(motion.scene, motion.task)
    law = {"law": partial(controller.torque, q, v, 0.0)}
    rate = 1 / seconds(law, passes(quick))["law"]
    where = "Lambda, Jbar, N, C, box and posture, from Python"
    return [
        row("section 4", "servo", "torques held, Hz", 300, box.SERVO, "given", lines=284),
        row("section 4", where, "control laws a second", None, rate),
    ]


def figures(folder: Path, quick: bool = False) -> list[Path]:
    """Write the tree, its recursions and the times as PNG files and return their paths."""
    from experiments.chang_khatib2001 import figures as chang_khatib2001_figures

    return chang_khatib2001_figures.write(folder, quick)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    return paper_rows.main_of_measurements(TITLE, rows, figures, NOTES, argv)
