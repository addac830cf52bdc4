"""A trajectory by IPOPT through CasADi: our kernel, and CasADi's own expressions.

A panda with closed fingers (seven axes) swings from rest to rest with the least torque within
its limits: direct transcription, the same problem with either function of torque.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import dynsys
from dynsys.errors import ModelWarning
from dynsys.interop import casadi_function
from dynsys.model.tree import KinematicTree
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array
from experiments.example_robots import robot_path
from problems import InverseDynamics

__all__ = ["Swing", "arm", "compare_swings", "swing", "symbolic_torque"]

LIMITS = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
"""Torque limits of a panda (N m)."""
REST, REACH = (
    np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8]),
    np.array([1.9, 0.6, -0.7, -1.2, 0.9, 2.6, -0.6]),
)


def arm() -> KinematicTree:
    """The panda with closed fingers: seven axes."""
    closed = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # damping of the file is left out
        return dynsys.load(robot_path("panda_description/urdf/panda.urdf"), lock=closed)


@dataclass(frozen=True)
class Swing:
    """What IPOPT found, and how long it took."""

    who: str
    effort: float
    iterations: int
    setup_s: float
    solve_s: float
    in_functions_s: float
    at_limit: int
    motion: Array

    def told(self) -> dict[str, Any]:
        """Without the motion."""
        return {key: value for key, value in asdict(self).items() if key != "motion"}


def symbolic_torque(robot: KinematicTree) -> Any:
    """The recursion of ``dynsys.rnea`` on CasADi's own scalars, as a function."""
    import casadi

    groups = [casadi.SX.sym(name, robot.nv) for name in ("q", "qd", "qdd")]
    scalars = []
    for group in groups:
        scalars.append(np.empty(robot.nv, dtype=object))
        for k in range(robot.nv):
            scalars[-1][k] = group[k]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of NumPy's sin and cos of CasADi's
        torque = casadi.vertcat(*rnea_scalars(robot, *scalars))
    return casadi.Function("torque", groups, [torque], ["q", "qd", "qdd"], ["torque"])


def swing(
    who: str,
    function: Callable[[], Any],
    start: Array,
    end: Array,
    limits: Array,
    *,
    steps: int = 40,
    duration: float = 0.3,
    options: dict[str, Any] | None = None,
) -> Swing:
    """From rest to rest with the least sum of squared torques within limits.

    Accelerations are constant between knots; torques are those in the middle.
    """
    import casadi

    begin = time.perf_counter()
    n, h, f = len(start), duration / steps, function()
    Q, V = casadi.MX.sym("Q", n, steps + 1), casadi.MX.sym("V", n, steps + 1)
    A = casadi.MX.sym("A", n, steps)
    q, v = Q[:, :-1], V[:, :-1]
    torque = f.map(steps)(q + h / 2 * v + h**2 / 8 * A, v + h / 2 * A, A)
    relative = torque / casadi.repmat(casadi.DM(limits), 1, steps)
    moved = casadi.vertcat(
        casadi.vec(Q[:, 1:] - q - h * v - h**2 / 2 * A), casadi.vec(V[:, 1:] - v - h * A)
    )
    nlp = {
        "x": casadi.veccat(Q, V, A),
        "f": h * casadi.sumsqr(relative),
        "g": casadi.vertcat(moved, casadi.vec(relative)),
    }
    quiet = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes"}
    told = quiet | {"ipopt.tol": 1e-9} | (options or {})
    solver = casadi.nlpsol("swing", "ipopt", nlp, told)
    setup = time.perf_counter() - begin
    line = start[:, None] + np.linspace(0, 1, steps + 1) * (end - start)[:, None]
    speed = np.repeat((end - start)[:, None] / duration, steps + 1, axis=1)
    speed[:, [0, -1]] = 0
    guess = np.concatenate([line.T.ravel(), speed.T.ravel(), np.zeros(n * steps)])
    low, high = np.full(len(guess), -np.inf), np.full(len(guess), np.inf)
    for knot, position in ((0, start), (steps, end)):
        at = slice(knot * n, knot * n + n)
        low[at] = high[at] = position
        rest = slice((steps + 1 + knot) * n, (steps + 1 + knot) * n + n)
        low[rest] = high[rest] = 0
    bound = np.concatenate([np.zeros(moved.numel()), np.ones(n * steps)])
    begin = time.perf_counter()
    found = solver(x0=guess, lbx=low, ubx=high, lbg=-bound, ubg=bound)
    took, stats = time.perf_counter() - begin, solver.stats()
    if not stats["success"]:
        raise RuntimeError(f"{who}: IPOPT ended with {stats['return_status']}")
    inside = sum(value for key, value in stats.items() if key.startswith("t_wall_nlp_"))
    motion = found["x"].full().ravel()[: n * (steps + 1)].reshape(steps + 1, n)
    held = int((np.abs(found["g"].full().ravel()[moved.numel() :]) > 1 - 1e-6).sum())
    counted = int(stats["iter_count"])
    return Swing(who, float(found["f"]), counted, setup, took, inside, held, motion)


def compare_swings(robot: KinematicTree, steps: int) -> list[Swing]:
    """The same problem with our kernel and with CasADi's expressions."""
    problem, found = InverseDynamics(robot), []
    compiled = {
        "jit": True,
        "compiler": "shell",
        "jit_options": {"flags": ["-O2"], "verbose": False},
    }
    ways: list[tuple[str, Callable[[], Any], dict[str, Any]]] = [
        ("our kernel, library", lambda: casadi_function(problem, through="library"), {}),
        ("our kernel, callback", lambda: casadi_function(problem, through="callback"), {}),
        ("CasADi's expressions", lambda: symbolic_torque(robot), {}),
        ("CasADi's expressions, compiled C", lambda: symbolic_torque(robot), compiled),
    ]
    for who, function, options in ways:
        one = swing(who, function, REST, REACH, LIMITS, steps=steps, options=options)
        found.append(one)
    return found
