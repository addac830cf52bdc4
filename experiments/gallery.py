"""The gallery of the documentation: pictures and the page that shows them.

    python -m experiments.gallery [NAME ...]

Draws the named pictures (default: all) into ``docs/pictures`` and writes ``docs/gallery.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dynsys.errors import ModelWarning
from dynsys.model import synthetic
from dynsys.plan.orders.orders import OrderingContext
from dynsys.plan.orders.recursive_orders import RootToLeaf
from experiments.drumwright2012.centipedes import walk
from experiments.figures import draw_pattern, draw_tree, symmetric_pattern
from experiments.performance_page import ROOT, load
from experiments.studio import pictures
from problems import ForwardDynamics
from problems.command import main as cli
from problems.command.plan import draw_order, draw_plan
from problems.placement.placement import place_sensors, save_curve
from problems.planning import read_request
from problems.problem_file import load_problem

__all__ = ["PICTURES", "main", "page"]

# ---- the pictures of the gallery, each drawn from a computation that anybody can repeat ----

BLUE, TEAL, GREY, ORANGE = "#2f6db5", "#1d6f72", "#9aa5b4", "#e0913c"
LINKS = 12


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def order_before_after(path: Path) -> None:
    """Draw D of forward dynamics of a chain, root to leaf: the order fills it."""
    system = ForwardDynamics(synthetic.chain(LINKS)).system
    order = RootToLeaf().order(system.pattern(), OrderingContext.sampled(system, 4))
    draw_order(system, order, "root to leaf", path)


def order_planned(path: Path) -> None:
    """Draw the same with symmetric pairs, leaf to root."""
    request = read_request(f"synthetic:chain:{LINKS}", "fd")
    assert request.dynamics is not None
    with tempfile.TemporaryDirectory() as folder:
        (drawn,) = draw_plan(request.system, request.dynamics.plan(), Path(folder))
        path.write_bytes(drawn.read_bytes())


def branches(path: Path) -> None:
    """Draw the tree of a humanoid beside the pattern of its H, and of a chain's."""
    figure, (left, middle, right) = _figure(12, 4.2, 3)
    humanoid = synthetic.humanoid30()
    draw_tree(left, humanoid.parent.tolist())
    left.set_title("humanoid30 (25 bodies), base at the bottom", fontsize=10)
    draw_pattern(middle, symmetric_pattern(humanoid.parent.tolist()), "H of humanoid30")
    draw_pattern(right, symmetric_pattern(list(range(-1, 24))), "H of a chain of 25")
    figure.savefig(path, dpi=100)


def placement(path: Path) -> None:
    """Draw cost against uncertainty for the biped on load cells."""
    problem = load_problem("catalogue:nao")
    found = place_sensors(problem.tree, problem.sensors, goal="torque", budget=5, states=1)
    save_curve(found, path, unit="N m")


def box_on_the_floor(path: Path) -> None:
    """Draw two arms that put one box on the floor, at five moments."""
    from experiments.chang_khatib2001.box import put_down
    from experiments.chang_khatib2001.figures import draw_sequence

    draw_sequence(put_down(False)).savefig(path, dpi=100)


def centipede(path: Path) -> None:
    """Draw a walking centipede at four moments, from above and from the side."""
    from matplotlib.figure import Figure

    steps = walk(6, 1.5)
    robot = steps.simulation.robot
    figure = Figure(figsize=(12, 2.8), layout="constrained")
    rows = figure.subplots(
        2, len(steps.states), sharex=True, sharey="row", height_ratios=[2.2, 1]
    )
    leaves = np.setdiff1d(np.arange(robot.n_bodies), robot.parent)
    for column, state in enumerate(steps.states):
        points = steps.points(state)
        bodies = points[: robot.n_bodies]
        for row, vertical in ((0, 1), (1, 2)):
            axes = rows[row][column]
            for i, parent in enumerate(robot.parent.tolist()):
                if parent >= 0:
                    pair = bodies[[parent, i]]
                    axes.plot(pair[:, 0], pair[:, vertical], color=TEAL, linewidth=2)
            feet = points[robot.n_bodies : -1]
            for foot in feet:
                leg = leaves[np.argmin(np.linalg.norm(bodies[leaves] - foot, axis=1))]
                pair = np.array([bodies[leg], foot])
                axes.plot(pair[:, 0], pair[:, vertical], color=TEAL, linewidth=2)
            axes.plot(feet[:, 0], feet[:, vertical], "o", color=ORANGE, markersize=3)
            axes.set_aspect("equal")
            axes.tick_params(labelsize=8)
        rows[0][column].set_title(f"{state.time:.1f} s", fontsize=10)
    rows[0][0].set_ylabel("y [m]")
    rows[1][0].set_ylabel("z [m]")
    figure.supxlabel("x [m]")
    figure.savefig(path, dpi=100)


def studio(path: Path) -> None:
    """Draw studio with a humanoid as research platforms are equipped, its meshes and all."""
    pictures.picture(path, "catalogue:talos", meshes=True)


def studio_before(path: Path) -> None:
    """Draw studio with a biped on load cells: what no sensor sees."""
    pictures.picture(path, "catalogue:nao")


def studio_after(path: Path) -> None:
    """Draw the same after a repair that the verdict offers: a torque sensor in a knee."""
    pictures.picture(path, "catalogue:nao", ["[data-repair='4']"])


def estimate_over_time(path: Path) -> None:
    """Draw estimated torques of two joints of the panda with bands against the truth."""
    with tempfile.TemporaryDirectory() as folder:
        log, out = str(Path(folder, "log.npz")), str(Path(folder, "out.npz"))
        simulate = ["simulate", "catalogue:panda", "-o", log, "--duration", "2", "--truth"]
        cli.main([*simulate, "--rate", "100", "--json"])
        cli.main(["solve", "catalogue:panda", log, "-o", out, "--json"])
        truth, found = np.load(log), np.load(out)
        time, true = truth["time"], truth["truth.torque"]
        torque, std = found["torque"], found["std.torque"]
    figure, panels = _figure(11, 3.8, 2)
    for axes, joint in zip(panels, (3, 5), strict=True):
        centre, width = torque[:, joint], 2 * std[:, joint]
        band = (centre - width, centre + width)
        label = "± two standard deviations"
        axes.fill_between(time, *band, color=BLUE, alpha=0.25, linewidth=0, label=label)
        axes.plot(time, centre, color=BLUE, linewidth=0.8, label="estimate")
        axes.plot(time, true[:, joint], color="black", linewidth=1.2, label="truth")
        axes.set_xlabel("time [s]")
        axes.set_ylabel(f"torque of joint {joint + 1} [N m]")
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=100)


def speed(path: Path) -> None:
    """Draw times of inverse and forward dynamics beside the peers', from docs/results."""
    result = load("peers")
    assert result is not None
    data = result["data"]
    columns = {
        "Pinocchio C++": GREY,
        "CasADi C": ORANGE,
        "ours": "#4c9f9b",
        "ours, batch": TEAL,
    }
    figure, panels = _figure(12, 4, 2)
    for axes, (task, title) in zip(
        panels, (("ID", "inverse dynamics"), ("FD", "forward dynamics")), strict=True
    ):
        for k, (column, colour) in enumerate(columns.items()):
            ns = [about["tasks"][task].get(column, {}).get("ns", 0) for about in data.values()]
            axes.bar(np.arange(len(ns)) + 0.2 * (k - 1.5), ns, 0.2, color=colour, label=column)
        axes.set_yscale("log")
        axes.set_xticks(range(len(data)), list(data), rotation=30, ha="right", fontsize=8)
        axes.set_ylabel("time [ns per state]")
        axes.set_title(title, fontsize=10)
        axes.grid(axis="y", alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=100)


PICTURES: Mapping[str, tuple[Callable[[Path], None], str, str]] = MappingProxyType(
    {
        "studio": (
            studio,
            "The studio: a humanoid and what its sensors know",
            "Talos with the sensors it has: links coloured by the standard deviation of their"
            " joint's torque, contact forces with theirs at the soles and wrists, the verdict,"
            " and what a solve and compiling it cost. `dynsys studio catalogue:talos`, with"
            " the extra `meshes`.",
        ),
        "first_studio_before": (
            studio_before,
            "What no sensor sees",
            "A biped on load cells: a pair of opposite forces on the feet is seen by no sensor"
            " (dashed), and every torque that hangs on it is hatched.",
        ),
        "first_studio_after": (
            studio_after,
            "One sensor later",
            "The same after a click on a repair that the verdict offers: a torque sensor in a"
            " knee.",
        ),
        "estimate": (
            estimate_over_time,
            "Estimates with honest bands",
            "Torques of two joints of a simulated panda from noisy sensors: estimate, two"
            " standard deviations, truth.",
        ),
        "order_bad": (
            order_before_after,
            "Eliminated from the root",
            "D of forward dynamics of a chain, as assembled and in an order from root to leaf:"
            " fill (grey) gathers in dense columns, one per joint, and grows with the"
            " square of their number. This is how CRBA works. Colour is the kind of unknown,"
            " lightness the body.",
        ),
        "order_good": (
            order_planned,
            "Eliminated from the leaves",
            "The same matrix from the leaf to the root, in symmetric pairs, as dynsys plans it:"
            " one block of fill per body, the articulated inertia. This is how ABA works.",
        ),
        "placement": (
            placement,
            "Which sensors to add",
            "A biped on load cells: the best uncertainty of all torques that a budget of"
            " further sensors can buy.",
        ),
        "branches": (
            branches,
            "Branches make zeros",
            "The joint-space inertia of a branched robot is sparse, that of a chain is dense.",
        ),
        "box_on_the_floor": (
            box_on_the_floor,
            "Two arms, one box",
            "A humanoid of 24 joints puts a box on the floor, pressed by the hands with 25 N: a"
            " closed chain that moves as one augmented object, in the simulator. Red where the"
            " floor has its weight ([what of the papers comes out](papers.md)).",
        ),
        "centipede": (
            centipede,
            "A centipede walks",
            "Contact simulation with the inverse inertia at Theta(n^2), four moments of a walk,"
            " from above and from the side.",
        ),
        "speed": (
            speed,
            "How fast",
            "Nanoseconds per state from the results on the performance page.",
        ),
    }
)
"""Pictures by file name: how they are drawn, title, and what is to be seen."""
DOCS = ROOT / "docs"
INTRODUCTION = """\
# Gallery

Every picture is drawn by code: `python -m experiments.gallery NAME`.
"""


def page() -> str:
    """Return the Markdown of the page."""
    parts = [str(INTRODUCTION)]
    for name, (_, title, caption) in PICTURES.items():
        parts.append(f"## {title}\n\n![{title}](pictures/{name}.png)\n\n{caption} (`{name}`)\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw and write; see the module."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gallery")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PICTURES)
    if unknown:
        parser.error(f"no picture {', '.join(sorted(unknown))}; there is {', '.join(PICTURES)}")
    warnings.simplefilter("ignore", ModelWarning)
    folder = DOCS / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        path = folder / f"{name}.png"
        PICTURES[name][0](path)
        print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size // 1000} kB)")
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
