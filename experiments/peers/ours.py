"""dynsys as a contender: the kernels of one robot, one state at a time and in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import final

import numpy as np

from dynsys.kernel.calls import AbstractKernel
from dynsys.kernel.kernel import MachineKernel
from dynsys.kernel.quantities import specialise
from dynsys.types import Array
from experiments.peers.robots import PeerRobot, States
from experiments.peers.timing import (
    ONE_LOOP,
    TWO_LOOPS,
    TWO_THREADS,
    Contender,
    StateLoop,
    python_loop,
)
from problems import ForwardDynamics, InverseDynamics

__all__ = ["Ours"]

OURS = "ours"


@final
class Ours:
    """The kernels of one robot, compiled once or from the cache.

    ID and FD are the problems a user solves, with all their run-time checks. Symmetric matrices
    are written in full, where Pinocchio and CasADi write the upper triangle.
    """

    def __init__(self, peer: PeerRobot) -> None:
        robot = peer.robot
        inverse, forward = InverseDynamics(robot), ForwardDynamics(robot)
        self._nv = robot.nv
        self._kernels: Mapping[str, AbstractKernel] = {
            "ID": inverse.compile(backend="llvm"),
            "FD": forward.compile(backend="llvm"),
            "CRBA": specialise(robot, "inertia"),
            "Minverse": specialise(robot, "inverse_inertia"),
        }
        self._calls: Mapping[str, Callable[..., Array]] = {
            "ID": lambda q, v, qdd: inverse.solve(q, v, qdd).torque,
            "FD": lambda q, v, torque: forward.solve(q, v, torque).qdd,
        }

    def contenders(self, states: States, modes: Sequence[str]) -> list[Contender]:
        """Every task in every mode asked for; see :class:`Contender`."""
        return [
            self._contender(task, kernel, states, mode)
            for task, kernel in self._kernels.items()
            for mode in modes
        ]

    def _contender(
        self, task: str, kernel: AbstractKernel, states: States, mode: str
    ) -> Contender:
        inputs = _inputs(task, states)
        out = np.zeros((len(states), kernel.signature.n_outputs))
        fill: Callable[[int], None] | None = None
        if mode in ("one state", ONE_LOOP, TWO_LOOPS):
            loop = _two_machine_loops if mode == TWO_LOOPS else _machine_loop
            run, fill = loop(kernel, inputs, out[:1].copy()), _machine_loop(kernel, inputs, out)
        elif mode == "python":
            run = _python_loop(self._calls.get(task, _first_output(kernel)), inputs, out)
        else:
            run = _batch(kernel, inputs, out, threads=2 if mode == TWO_THREADS else 1)

        def result() -> Array:
            if fill is not None:
                fill(1)
            return out if task in ("ID", "FD") else out.reshape(-1, self._nv, self._nv)

        return Contender(OURS, task, mode, len(states), run, result)


def _first_output(kernel: AbstractKernel) -> Callable[..., Array]:
    return lambda q: kernel.one(q)[0][0]


def _inputs(task: str, states: States) -> tuple[Array, ...]:
    if task == "ID":
        return states.q, states.v, states.qdd
    if task == "FD":
        return states.q, states.v, states.torque
    return (states.q,)


def _machine_loop(
    kernel: AbstractKernel, inputs: tuple[Array, ...], out: Array
) -> Callable[[int], None]:
    if not isinstance(kernel, MachineKernel):
        raise TypeError(f"no machine code to time in {type(kernel).__name__}")
    return StateLoop(kernel.address, [*map(np.ascontiguousarray, inputs), out])


def _two_machine_loops(
    kernel: AbstractKernel, inputs: tuple[Array, ...], out: Array
) -> Callable[[int], None]:
    """Half of the rows each, at their own pace; they meet at the end only."""
    half = len(inputs[0]) // 2
    first, second = (
        _machine_loop(kernel, tuple(array[rows] for array in inputs), out.copy())
        for rows in (slice(half), slice(half, None))
    )
    helper = ThreadPoolExecutor(1)

    def run(repeats: int) -> None:
        other = helper.submit(second, repeats)
        first(repeats)
        other.result()

    return run


def _python_loop(
    call: Callable[..., Array], inputs: tuple[Array, ...], out: Array
) -> Callable[[int], None]:
    rows = list(zip(*inputs, strict=True))
    for k, row in enumerate(rows):
        out[k] = call(*row)
    return python_loop(call, rows)


def _batch(
    kernel: AbstractKernel, inputs: tuple[Array, ...], out: Array, threads: int
) -> Callable[[int], None]:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            kernel.batch(*inputs, out=(out,), threads=threads)

    return run
