"""What a call through each tool takes beyond ``kernel.one`` and ``kernel.batch``."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from dynsys.interop import casadi_function, jax_function, torch_function
from dynsys.interop.functions import PlainFunction
from dynsys.model.tree import KinematicTree
from problems import InverseDynamics

__all__ = ["call_costs"]


def seconds(call: Callable[[], Any], least: float = 0.2) -> float:
    """Median time of a call, over at least seven rounds."""
    call()
    start = time.perf_counter()
    call()
    rounds = max(1, int(least / 7 / max(time.perf_counter() - start, 1e-7)))
    found = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        found.append((time.perf_counter() - start) / rounds)
    return median(found)


def call_costs(robot: KinematicTree, rows: int = 1000) -> dict[str, dict[str, float]]:
    """Microseconds a state, of value and of value with gradient, by who calls and how many."""
    import casadi
    import jax

    jax.config.update("jax_enable_x64", True)
    problem = InverseDynamics(robot)
    plain = PlainFunction(problem)
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(rows)])
    qd, qdd = rng.normal(size=(2, rows, robot.nv))
    many, one = (q, qd, qdd), (q[0], qd[0], qdd[0])
    jacobian = plain.jacobian(tuple(plain.inputs))
    found: dict[str, dict[str, float]] = {}

    def note(who: str, what: str, states: int, call: Callable[[], Any]) -> None:
        found.setdefault(who, {})[what] = 1e6 * seconds(call) / states

    note("kernel", "one", 1, lambda: plain.value.one(*one))
    note("kernel", "batch", rows, lambda: plain.value.batch(*many))
    note("kernel", "one, J", 1, lambda: jacobian.one(*one))
    note("kernel", "batch, J", rows, lambda: jacobian.batch(*many))
    for through in ("library", "callback"):
        f = casadi_function(problem, through=through)
        columns = [casadi.DM(x.T) for x in many]
        mapped, J = f.map(rows), f.jacobian().map(rows)
        nothing = casadi.DM(robot.nv, rows)
        # a loop of CasADi over its function of one state
        note(f"casadi {through}", "one", rows, lambda: mapped(*columns))  # noqa: B023
        note(f"casadi {through}", "one, J", rows, lambda: J(*columns, nothing))  # noqa: B023
    f = jax_function(problem)

    def total(*x: Any) -> Any:
        return (f(*x) ** 2).sum()

    value, gradient = jax.jit(f), jax.jit(jax.grad(total, (0, 1, 2)))
    for what, state, n in (("one", one, 1), ("batch", many, rows)):
        x = [jax.numpy.asarray(part) for part in state]
        note("jax", what, n, lambda: value(*x).block_until_ready())  # noqa: B023
        note("jax", f"{what}, J", n, lambda: jax.block_until_ready(gradient(*x)))  # noqa: B023
    if importlib.util.find_spec("torch"):
        import torch

        g = torch_function(problem)
        for what, state, n in (("one", one, 1), ("batch", many, rows)):
            y = [torch.tensor(part, requires_grad=True) for part in state]
            note("torch", what, n, lambda: g(*y))  # noqa: B023
            note("torch", f"{what}, J", n, lambda: g(*y).square().sum().backward())  # noqa: B023
    return found
