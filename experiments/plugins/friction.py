"""Friction of every joint from noisy torques, by gradients through JAX and through PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynsys.interop import jax_function, torch_function
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from problems import InverseDynamics

__all__ = ["FrictionFit", "fit_friction"]


@dataclass(frozen=True)
class FrictionFit:
    """Parameters by name, found and true, and what finding them took."""

    tool: str
    names: tuple[str, ...]
    true: Array
    found: Array
    rounds: int
    seconds: float


def fit_friction(
    robot: KinematicTree, tool: str, *, samples: int = 2000, rounds: int = 60, seed: int = 0
) -> FrictionFit:
    """Friction of every joint from torques with noise, by L-BFGS on gradients of a tool.

    Torques are simulated on a robot with friction; the fit starts from none.
    """
    from scipy.optimize import minimize

    names = tuple(
        f"{joint}.{kind}" for joint in robot.joint_names for kind in ("viscous", "coulomb")
    )
    rng = np.random.default_rng(seed)
    true = rng.uniform(0.2, 1.0, size=len(names))
    problem = InverseDynamics(robot)
    phase = rng.uniform(0, 6, size=robot.nv)
    t = np.linspace(0, 20, samples)[:, None] * np.linspace(0.7, 1.3, robot.nv)
    q, qd, qdd = np.sin(t + phase), np.cos(t + phase), -np.sin(t + phase)
    kernel = problem.compile(parameters=names)
    (torque,), _ = kernel.batch(q, qd, qdd, np.tile(true, (samples, 1)))
    torque = torque + rng.normal(size=torque.shape) * 0.1
    loss = _loss_of(tool, problem, names, (q, qd, qdd), torque)
    loss(np.zeros(len(names)))
    start = time.perf_counter()
    answer = minimize(
        loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", options={"maxiter": rounds}
    )
    took = time.perf_counter() - start
    return FrictionFit(tool, names, true, answer.x, int(answer.nit), took)


def _loss_of(
    tool: str,
    problem: InverseDynamics,
    names: Sequence[str],
    motion: tuple[Array, ...],
    torque: Array,
) -> Callable[[Array], tuple[float, Array]]:
    """Mean squared torque that is left, and its gradient, from the parameters."""
    if tool == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        f, state = jax_function(problem, parameters=names), jax.device_put(motion)

        @jax.jit  # type: ignore[untyped-decorator]
        @jax.value_and_grad  # type: ignore[untyped-decorator]
        def left(p: Any) -> Any:
            return jax.numpy.mean((f(*state, p) - torque) ** 2)

        return lambda p: (float(left(p)[0]), np.asarray(left(p)[1]))
    import torch

    g = torch_function(problem, parameters=names)
    tensors, measured = [torch.tensor(x) for x in motion], torch.tensor(torque)

    def of_torch(p: Array) -> tuple[float, Array]:
        values = torch.tensor(p, requires_grad=True)
        total = (g(*tensors, values) - measured).square().mean()
        total.backward()
        return total.item(), values.grad.numpy()

    return of_torch
