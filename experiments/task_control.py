"""J, Jdot qd, Lambda, Jbar and torque of hands and feet beside Pinocchio, one run, one core.

    python -m experiments.task_control [--robots talos icub] [--quick] [--json FILE] [--core N]

The numbers that an operational-space controller needs ([OSI] eq. 11), of four frames in their
own axes, at the same states with the same commands:

    machine code    our kernel of all five and of the torque alone, beside Pinocchio's C++ route
                    (crba, its sparse Cholesky, U^-1 J^T, Eigen's LLT, rnea), compiled from the
                    wheel's headers (minutes, once; kept for later runs); loops in machine code
    Python          the calls a user writes: kernel.one and space.torque, beside the wheel's
                    calls with NumPy and SciPy between them

Answers are judged against dense algebra in the same run. Exit status: 0 all bounds hold; 1 a
bound is broken; 2 bad arguments. Without a compiler only Python is compared.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pinocchio as pin
from scipy.linalg import cho_factor, cho_solve

from dynsys.kernel.kernel import as_machine_code
from dynsys.operational import OperationalSpace
from dynsys.operational.task_kernel import CONTROLLER
from dynsys.types import Array
from experiments.operational_peers import FRAMES
from experiments.peers.build import Builder, find_compilers
from experiments.peers.pinocchio import frame_places, opened
from experiments.peers.robots import PeerRobot, peer_robot
from experiments.peers.timing import (
    Contender,
    Effort,
    StateLoop,
    command_line,
    largest_difference,
    machine,
    measure,
    pinned,
    python_loop,
    with_one_blas_thread,
    write_json,
)
from problems.terminal import show_table

__all__ = ["Commands", "Route", "compare", "contenders", "main"]

BAR = 2.5
"""How many times faster than Pinocchio's route to the same five ours must be, in each mode."""
LARGEST_ERROR = 1e-8
"""Of the torque, relative to the largest of its state."""
SINGULAR = 1e-4
"""States at which Lambda^-1 keeps less of its mobility are not taken."""
ALL, TORQUE = "J, Jdot qd, Lambda, Jbar, torque", "torque"
OURS, NATIVE, PYTHON = "ours", "Pinocchio C++", "Pinocchio Python"
USUAL = Effort(states=16, batch=1, passes=41)
QUICK = Effort(states=4, batch=1, passes=5, seconds_per_run=3e-4)
SWAP = np.array([3, 4, 5, 0, 1, 2])
"""Angular part first from linear part first, and back."""


@final
@dataclass(frozen=True, eq=False)
class Commands:
    """States and commands, a row each: q, qd, acceleration (m,), posture (nv,); dynsys order.

    ``torque`` (n, nv) is what dense algebra answers.
    """

    q: Array
    qd: Array
    acceleration: Array
    posture: Array
    torque: Array

    @property
    def inputs(self) -> tuple[Array, Array, Array, Array]:
        """In the order of the kernels' arguments."""
        return self.q, self.qd, self.acceleration, self.posture


@final
@dataclass(frozen=True)
class Route:
    """Median and tenth percentile, ns per state, of one way, and the error of its torque."""

    robot: str
    who: str
    answers: str
    mode: str
    median_ns: float
    p10_ns: float
    error: float


def commands(peer: PeerRobot, count: int, seed: int = 1) -> Commands:
    """Random states away from singularities, random commands, and what they should give."""
    space = OperationalSpace(peer.robot, list(FRAMES[peer.name]), "dense")
    rng = np.random.default_rng(seed)
    rows: list[tuple[Array, ...]] = []
    while len(rows) < count:
        state = peer.states(1, int(rng.integers(2**31)))
        x = space.at(state.q[0], state.v[0])
        scale = np.sqrt(np.diagonal(x.Lambda_inv))
        if np.linalg.eigvalsh(x.Lambda_inv / np.outer(scale, scale))[0] < SINGULAR:
            continue
        wanted, posture = rng.normal(size=len(scale)), rng.normal(size=peer.robot.nv)
        torque = x.torque(wanted, posture)
        rows.append((state.q[0], state.v[0], wanted, posture, torque))
    return Commands(*(np.array(column) for column in zip(*rows, strict=True)))


# ---- ours ---------------------------------------------------------------------------------


def ours(peer: PeerRobot, given: Commands) -> list[Contender]:
    """Kernels in a loop of machine code, and called from Python."""
    space = OperationalSpace(peer.robot, list(FRAMES[peer.name]))
    found = []
    for answers, outputs in ((ALL, CONTROLLER), (TORQUE, ("torque",))):
        kernel = space.compile(outputs)
        out = kernel.empty_rows(len(given.q))
        loop = StateLoop(as_machine_code(kernel, "timing").address, [*given.inputs, *out])

        def run(repeats: int, loop: StateLoop = loop, kept: Any = kernel) -> None:
            loop(repeats)

        def result(out: tuple[Any, ...] = out) -> Array:
            return np.asarray(out[-1])

        found.append(Contender(OURS, answers, "one state", len(given.q), run, result))
    kernel = space.compile(CONTROLLER)
    rows = list(zip(*given.inputs, strict=True))

    def by_kernel() -> Array:
        return np.array([kernel.one(*row)[0][-1] for row in rows])

    def by_call() -> Array:
        return np.array([space.torque(*row) for row in rows])

    by_call()  # compiles
    for answers, call, result_of in (
        (ALL, kernel.one, by_kernel),
        (TORQUE, space.torque, by_call),
    ):
        loop_of: Callable[[int], None] = python_loop(call, rows)
        found.append(Contender(OURS, answers, "python", len(rows), loop_of, result_of))
    return found


# ---- Pinocchio's ---------------------------------------------------------------------------


@final
class PythonRoute:
    """The wheel's calls, SciPy's Cholesky factors between them."""

    def __init__(self, peer: PeerRobot) -> None:
        self._model, self._data = peer.model, peer.model.createData()
        self._frames = [peer.model.getFrameId(name) for name in FRAMES[peer.name]]
        self._still = np.zeros(peer.model.nv)

    def __call__(
        self, q: Array, v: Array, acceleration: Array, posture: Array
    ) -> tuple[Array, ...]:
        """J, Jdot v, Lambda, Jbar and torque, in Pinocchio's order."""
        model, data = self._model, self._data
        pin.crba(model, data, q)
        M = np.triu(data.M) + np.triu(data.M, 1).T
        pin.computeJointJacobians(model, data, q)
        pin.forwardKinematics(model, data, q, v, self._still)
        J = np.vstack([pin.getFrameJacobian(model, data, k, pin.LOCAL) for k in self._frames])
        bias = np.concatenate(
            [pin.getFrameAcceleration(model, data, k, pin.LOCAL).vector for k in self._frames]
        )
        nle = pin.nonLinearEffects(model, data, q, v)
        K = cho_solve(cho_factor(M, check_finite=False), J.T, check_finite=False)
        factor = cho_factor(J @ K, check_finite=False)
        Lambda = cho_solve(factor, np.eye(len(J)), check_finite=False)
        Jbar = K @ Lambda
        torque = posture + J.T @ (Lambda @ (acceleration - bias - K.T @ (posture - nle)))
        return J, bias, Lambda, Jbar, torque


@final
class NativeRoute:
    """The library of ``cpp/task_loops.cpp`` for one robot."""

    def __init__(self, library: Path, peer: PeerRobot) -> None:
        number, pointer = ctypes.c_long, ctypes.c_void_p
        self._library = ctypes.CDLL(str(library))
        self._library.tasks_open.restype = pointer
        self._library.tasks_open.argtypes = [ctypes.c_char_p, number, pointer, pointer]
        self._library.tasks_run.argtypes = [pointer, number, number, *[pointer] * 5]
        joints, placements = frame_places(peer, FRAMES[peer.name])
        places = (len(joints), joints.ctypes.data, placements.ctypes.data)
        self._handle = opened(peer, self._library.tasks_open, *places)
        m, nv = 6 * len(joints), peer.model.nv
        self._size, self._nv = 2 * m * nv + m * m + m + nv, nv

    def run(self, rows: Sequence[Array], repeats: int, out: Array | None = None) -> None:
        """Go ``repeats`` times over the states, in Pinocchio's order."""
        places = [x.ctypes.data for x in rows]
        where = None if out is None else out.ctypes.data
        self._library.tasks_run(self._handle, len(rows[0]), repeats, *places, where)

    def torques(self, rows: Sequence[Array]) -> Array:
        """Torque (n, nv) of all states, in Pinocchio's order."""
        out = np.zeros((len(rows[0]), self._size))
        self.run(rows, 1, out)
        return out[:, -self._nv :]


def theirs(peer: PeerRobot, given: Commands, library: Path | None) -> list[Contender]:
    """Pinocchio's routes, torques in dynsys order."""
    order, n = peer.order, len(given.q)
    linear_first = given.acceleration.reshape(n, -1, 6)[:, :, SWAP].reshape(n, -1)
    inputs = [
        np.ascontiguousarray(x)
        for x in (
            order.q_to_pin(given.q),
            order.v_to_pin(given.qd),
            linear_first,
            order.tau_to_pin(given.posture),
        )
    ]
    rows, python = list(zip(*inputs, strict=True)), PythonRoute(peer)

    def by_python() -> Array:
        return order.tau_from_pin(np.array([python(*row)[-1] for row in rows]))

    found = [Contender(PYTHON, ALL, "python", n, python_loop(python, rows), by_python)]
    if library is not None:
        native = NativeRoute(library, peer)

        def run(repeats: int) -> None:
            native.run(inputs, repeats)

        def result() -> Array:
            return order.tau_from_pin(native.torques(inputs))

        found.append(Contender(NATIVE, ALL, "one state", n, run, result))
    return found


# ---- comparison ----------------------------------------------------------------------------


def contenders(peer: PeerRobot, given: Commands, library: Path | None) -> list[Contender]:
    """Every route of both libraries at the same states."""
    return [*ours(peer, given), *theirs(peer, given, library)]


def compare(peer: PeerRobot, library: Path | None, effort: Effort, core: int) -> list[Route]:
    """Time every route in turn, and judge its torques."""
    given = commands(peer, effort.states)
    routes = contenders(peer, given, library)
    with pinned([core]):
        times = measure(routes, effort.passes, effort.seconds_per_run)
    return [
        Route(
            *(peer.name, c.who, c.task, c.mode, median, low),
            largest_difference(c.result(), given.torque),
        )
        for c, (median, low) in zip(routes, times, strict=True)
    ]


def ratios(found: Sequence[Route]) -> dict[tuple[str, str, str], float]:
    """How many times faster ours is, by robot, mode and answers."""
    peers = {(r.robot, r.mode): r.median_ns for r in found if r.who != OURS}
    return {
        (r.robot, r.mode, r.answers): peers[r.robot, r.mode] / r.median_ns
        for r in found
        if r.who == OURS and (r.robot, r.mode) in peers
    }


def holds(found: Sequence[Route]) -> bool:
    """Whether all answer the same and ours is fast enough at the same five answers."""
    same = all(route.error <= LARGEST_ERROR for route in found)
    return same and all(
        times >= BAR for (_, _, answers), times in ratios(found).items() if answers == ALL
    )


def _show(found: Sequence[Route]) -> None:
    columns = ("robot", "mode", "by", "answers", "median us", "p10 us", "error", "faster")
    times = ratios(found)
    rows = []
    for r in sorted(found, key=lambda r: (r.robot, r.mode)):
        ratio = times.get((r.robot, r.mode, r.answers)) if r.who == OURS else None
        cells = (f"{1e-3 * r.median_ns:.2f}", f"{1e-3 * r.p10_ns:.2f}", f"{r.error:.0e}")
        faster = "" if ratio is None else f"{ratio:.1f} times"
        rows.append((r.robot, r.mode, r.who, r.answers, *cells, faster))
    show_table(columns, rows, right=columns[4:])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; see the module."""
    options = command_line("task_control", list(FRAMES)).parse_args(arguments)
    compilers = find_compilers()
    library = Builder(compilers, True, _say).task_loops() if compilers else None
    effort = QUICK if options.quick else USUAL
    found: list[Route] = []
    for name in options.robots:
        _say(f"measuring {name}")
        found += compare(peer_robot(name), library, effort, options.core)
    _show(found)
    if options.json:
        about = machine(compilers, options.core)
        routes = [asdict(route) for route in found]
        write_json(options.json, {"machine": about, "routes": routes, "bar": BAR})
    return 0 if holds(found) else 1


if __name__ == "__main__":
    sys.exit(with_one_blas_thread("experiments.task_control", main))
