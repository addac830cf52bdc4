"""Whatever answers an estimate says what the readable estimator says, by public calls alone.

Functions of other tools are compared with it in ``tests/interop``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys.cholmod import has_cholmod
from dynsys.kernel.build import best_backend
from dynsys.types import Array
from problems.estimation.outputs import parse_outputs
from problems.live.estimator import LiveEstimator
from tests.kernel.exported_c import call, needs_compiler

STATES = 300
HEAVY = "body_2.mass"
KERNELS = ["numpy", *(["llvm"] if best_backend() == "llvm" else [])]
BACKENDS = ["auto", "superlu", *KERNELS, *(["cholmod"] if has_cholmod() else [])]


class Asked:
    """A tree with joints of several kinds, redundant readings, and what is true of states."""

    def __init__(self) -> None:
        self.robot = dynsys.synthetic.random_tree(3, 56)
        torques = sensors.all_joint_torques(self.robot, std=0.2)
        accelerations = sensors.all_joint_accelerations(self.robot, std=0.1)
        self.switched = torques[0].name
        shared = 0.01 * np.eye(self.robot.joints[1].nv)
        layout = sensors.Layout(
            self.robot,
            [
                *accelerations,
                *torques,
                *sensors.zero_external_wrench_except(self.robot),
            ],
            [(torques[1].name, accelerations[1].name, shared)],
        )
        self.est = problems.Estimation(self.robot, layout)
        rng = np.random.default_rng(1)
        self.q = np.array([self.robot.random_configuration(rng) for _ in range(STATES)])
        self.qd = rng.normal(size=(STATES, self.robot.nv))
        y = np.tile(layout.constants, (STATES, 1))
        self.y = np.where(np.isnan(y), rng.normal(size=y.shape), y)

    def defined(self, k: int, y: Array | None = None, est: Any = None) -> problems.Estimate:
        """The answer by definition."""
        readable = replace(est or self.est, backend="dense")
        e = readable.solve(self.q[k], self.qd[k], self.y[k] if y is None else y)
        return cast(problems.Estimate, e)


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked()


def same(found: Array, e: problems.Estimate) -> None:
    """Torques, then their deviations."""
    expected = np.concatenate([e.torque.array, e.std.torque.array])[: len(found)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def same_estimate(e: problems.Estimate, k: int | tuple[()], true: problems.Estimate) -> None:
    for kind in ("torque", "qdd", "acceleration", "joint_wrench", "external_wrench"):
        for group in ("values", "std", "determined"):
            ours, theirs = (getattr(x, group)[kind].array for x in (e, true))
            np.testing.assert_allclose(ours[k], theirs, rtol=1e-8, atol=1e-8, err_msg=kind)
    assert np.ravel(e.chi_square)[k or 0] == pytest.approx(true.chi_square)
    assert np.ravel(e.degrees_of_freedom)[k or 0] == true.degrees_of_freedom


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_state(asked: Asked, backend: str) -> None:
    own: Any = replace(asked.est, backend=backend)  # type: ignore[arg-type]
    same_estimate(own.solve(asked.q[0], asked.qd[0], asked.y[0]), (), asked.defined(0))
    missing = asked.y[1].copy()
    missing[[0, -1]] = np.nan  # noisy, and a statement: something may touch the last link
    e = own.solve(asked.q[1], asked.qd[1], missing)
    same_estimate(e, (), asked.defined(1, missing))


@pytest.mark.parametrize("n", [3, STATES])
@pytest.mark.parametrize("share", [0.0, 0.02])
def test_many_states(asked: Asked, n: int, share: float) -> None:
    y = asked.y[:n].copy()
    y[np.random.default_rng(3).random(y.shape) < share] = np.nan
    kinds = ("torque", "qdd", "acceleration", "joint_wrench", "external_wrench")
    e = asked.est.solve_batch(
        asked.q[:n], asked.qd[:n], y, outputs=(*kinds, "chi_square"), uncertainty=kinds
    )
    for k in (0, n // 2, n - 1, int(np.isnan(y).sum(axis=1).argmax())):
        same_estimate(e, k, asked.defined(k, y[k]))


@pytest.mark.parametrize("backend", KERNELS)
def test_kernels(asked: Asked, backend: Any) -> None:
    kernel = asked.est.compile(backend=backend, outputs=["torque"], uncertainty=["torque"])
    batch, finite = kernel.batch(asked.q, asked.qd, asked.y)
    assert finite
    for k in (0, STATES - 1):
        same(
            np.concatenate(kernel.one(asked.q[k], asked.qd[k], asked.y[k])[0]), asked.defined(k)
        )
        same(np.concatenate([rows[k] for rows in batch]), asked.defined(k))


@pytest.mark.parametrize("backend", KERNELS)
def test_what_is_switched_off_and_what_is_heavier(asked: Asked, backend: Any) -> None:
    layout = asked.est.layout
    kernel = asked.est.compile(backend=backend, switchable=[asked.switched], parameters=[HEAVY])
    weight, y = np.ones(layout.size), asked.y[0].copy()
    off = layout.slice(asked.switched)
    weight[off], y[off] = 0.0, np.nan
    heavy = asked.robot.with_parameters({HEAVY: 7.0})
    other = problems.Estimation(
        heavy, sensors.Layout(heavy, layout.sensors, layout.correlations)
    )
    inputs = {"weight": weight, "parameters": np.array([7.0])}
    more = [inputs[name] for name, _ in kernel.signature.inputs[3:]]
    (torque,), _ = kernel.one(asked.q[0], asked.qd[0], asked.y[0], *more)
    same(torque, asked.defined(0, y, other))


def test_live(asked: Asked) -> None:
    wanted = parse_outputs(asked.est, ["torque", "std.torque", "chi_square"])
    live = LiveEstimator(asked.est, wanted)
    live.prepare()
    y = asked.y[0].copy()
    for missing in (False, True):
        y[0] = np.nan if missing else y[0]
        live.solve(asked.q[0], asked.qd[0], y)
        true = asked.defined(0, y)
        same(live.row[:-1], true)
        assert live.chi_square == pytest.approx(true.chi_square)
        assert live.degrees_of_freedom == true.degrees_of_freedom


@needs_compiler
def test_exported_c(asked: Asked, tmp_path: Path) -> None:
    how = {"outputs": ["torque"], "uncertainty": ["torque"]}
    asked.est.export_c(tmp_path, name="f", **how)
    signature = asked.est.compile(**how).signature
    state = np.concatenate([asked.q[0], asked.qd[0], asked.y[0]])
    same(call(tmp_path, "f", signature, state[None])[0], asked.defined(0))
