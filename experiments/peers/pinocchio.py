"""Pinocchio as a contender: the wheel's batch loops and Python calls, and its own C++ build.

The C++ build (``cpp/``, compiled by :mod:`.build`) loops over the states in machine
code: ``pinocchio_loops.cpp`` has the algorithms of dynamics, ``operational_loops.cpp`` every
route that there is to Lambda^-1, M^-1 and the factors of M.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from dynsys.types import Array
from experiments.peers.robots import PeerRobot, States, robot_file
from experiments.peers.timing import Contender, python_loop

__all__ = [
    "LAMBDA",
    "LTDL",
    "MINVERSE",
    "NativeLoops",
    "SpaceLoops",
    "frame_places",
    "native_contenders",
    "opened",
    "pinocchio_contenders",
    "python_contenders",
    "reference",
    "wheel_contenders",
]

WHEEL, WHEEL_CALL, NATIVE = "pinocchio wheel", "pinocchio python", "pinocchio c++"


def _calls(peer: PeerRobot) -> dict[str, Callable[[Array, Array, Array, Array], Array]]:
    """Compute each task at one state (q, v, qdd, torque) by a call of the wheel."""
    model, data = peer.model, peer.model.createData()
    return {
        "ID": lambda q, v, a, t: pin.rnea(model, data, q, v, a),
        "FD": lambda q, v, a, t: pin.aba(model, data, q, v, t),
        "CRBA": lambda q, v, a, t: pin.crba(model, data, q),
        "Minverse": lambda q, v, a, t: pin.computeMinverse(model, data, q),
    }


def _symmetric(upper: Array) -> Array:
    """Fill the lower triangle, which Pinocchio leaves open."""
    return np.triu(upper) + np.triu(upper, 1).swapaxes(-1, -2)


def reference(peer: PeerRobot, states: States) -> dict[str, Array]:
    """Answers of the wheel for all states, per task, in dynsys order."""
    theirs = peer.to_pinocchio(states)
    rows = list(zip(theirs.q, theirs.v, theirs.qdd, theirs.torque, strict=True))
    out = {}
    for task, call in _calls(peer).items():
        answers = np.array([np.array(call(*row)) for row in rows])
        out[task] = peer.from_pinocchio(
            task, answers if task in ("ID", "FD") else _symmetric(answers)
        )
    return out


def python_contenders(peer: PeerRobot, states: States) -> list[Contender]:
    """One call from Python per state."""
    theirs = peer.to_pinocchio(states)
    model, data = peer.model, peer.model.createData()
    rows = list(zip(theirs.q, theirs.v, theirs.qdd, theirs.torque, strict=True))

    calls: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
        "ID": (pin.rnea, [(model, data, q, v, a) for q, v, a, _ in rows]),
        "FD": (pin.aba, [(model, data, q, v, t) for q, v, _, t in rows]),
        "CRBA": (pin.crba, [(model, data, q) for q, *_ in rows]),
        "Minverse": (pin.computeMinverse, [(model, data, q) for q, *_ in rows]),
    }

    def result(task: str) -> Array:
        return reference(peer, states)[task]

    return [
        Contender(
            WHEEL_CALL, task, "python", len(states), python_loop(*call), partial(result, task)
        )
        for task, call in calls.items()
    ]


def wheel_contenders(
    peer: PeerRobot, states: States, mode: str, threads: int = 1
) -> list[Contender]:
    """Loops in the wheel's compiled code: ``rneaInParallel``, ``abaInParallel``."""
    theirs = peer.to_pinocchio(states)
    pool = pin.ModelPool(peer.model, threads)
    q, v, a, t = (
        np.asfortranarray(x.T) for x in (theirs.q, theirs.v, theirs.qdd, theirs.torque)
    )
    contenders = []
    for task, call, x in (("ID", pin.rneaInParallel, a), ("FD", pin.abaInParallel, t)):
        out = np.zeros_like(v)

        def run(repeats: int, call: Any = call, x: Array = x, out: Array = out) -> None:
            for _ in range(repeats):
                call(threads, pool, q, v, x, out)

        def result(task: str = task, out: Array = out) -> Array:
            return peer.from_pinocchio(task, out.T)

        contenders.append(Contender(WHEEL, task, mode, len(states), run, result))
    return contenders


def opened(peer: PeerRobot, function: Callable[..., int | None], *more: int) -> int:
    """Handle that ``function`` of a C++ library gives for the file of a robot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.txt"
        path.write_text(robot_file(peer.model))
        handle = function(str(path).encode(), *more)
    if not handle:
        raise RuntimeError(f"the C++ library could not read robot {peer.name!r}")
    return int(handle)


def frame_places(peer: PeerRobot, frames: Sequence[str]) -> tuple[NDArray[np.int64], Array]:
    """Joint (k,) of every frame, and its rotation by rows and translation (k, 12) there."""
    found = [peer.model.frames[peer.model.getFrameId(name)] for name in frames]
    joints = np.array([frame.parentJoint for frame in found], dtype=np.int64)
    placements = [
        [*frame.placement.rotation.ravel(), *frame.placement.translation] for frame in found
    ]
    return joints, np.array(placements)


@final
class NativeLoops:
    """The shared library built from ``cpp/pinocchio_loops.cpp``."""

    ROUTES = (
        ("ID", "rnea", 0),
        ("FD", "aba local", 1),
        ("FD", "aba world", 2),
        ("CRBA", "crba local", 3),
        ("CRBA", "crba world", 4),
        ("Minverse", "minverse", 5),
    )

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.peer_open.restype = ctypes.c_void_p
        self._library.peer_open.argtypes = [ctypes.c_char_p]
        pointers = [ctypes.c_void_p] * 4
        self._library.peer_run.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_long,
            ctypes.c_long,
            *pointers,
        ]

    def open(self, peer: PeerRobot) -> int:
        """Handle of a robot."""
        return opened(peer, self._library.peer_open)

    def run(
        self,
        handle: int,
        route: int,
        states: tuple[Array, Array, Array],
        repeats: int,
        out: Array | None = None,
    ) -> None:
        """Go ``repeats`` times over the states; copy answers where ``out`` is given."""
        q, v, x = states
        self._library.peer_run(
            handle,
            route,
            len(q),
            repeats,
            q.ctypes.data,
            v.ctypes.data,
            x.ctypes.data,
            None if out is None else out.ctypes.data,
        )


def native_contenders(peer: PeerRobot, states: States, loops: NativeLoops) -> list[Contender]:
    """Every route of the C++ build, one state at a time."""
    theirs = peer.to_pinocchio(states)
    handle = loops.open(peer)
    n, nv = len(states), peer.model.nv
    contenders = []
    for task, route_name, route in NativeLoops.ROUTES:
        inputs = (theirs.q, theirs.v, theirs.qdd if task == "ID" else theirs.torque)

        def run(
            repeats: int, route: int = route, inputs: tuple[Array, Array, Array] = inputs
        ) -> None:
            loops.run(handle, route, inputs, repeats)

        def result(
            task: str = task,
            route: int = route,
            inputs: tuple[Array, Array, Array] = inputs,
        ) -> Array:
            shape = (n, nv) if task in ("ID", "FD") else (n, nv, nv)
            out = np.zeros(shape)
            loops.run(handle, route, inputs, 1, out)
            return peer.from_pinocchio(task, out)

        who = f"{NATIVE} {route_name.split()[-1]}" if " " in route_name else NATIVE
        contenders.append(Contender(who, task, "one state", n, run, result))
    return contenders


# ---- routes to Lambda^-1, M^-1 and the factors of M ----------------------------------------

LAMBDA, MINVERSE, LTDL = "Lambda^-1", "M^-1", "LTDL"
ROUTES = (
    (LAMBDA, "crba, cholesky, U^-1 J^T"),
    (LAMBDA, "computeMinverse, J M^-1 J^T"),
    (LAMBDA, "ConstraintCholesky"),
    (LAMBDA, "computeDelassusMatrix"),
    (LAMBDA, "computePvDelassusMatrix"),
    (MINVERSE, "computeMinverse"),
)
"""In the order of ``ROUTES`` in ``cpp/operational_loops.cpp``."""


@final
class SpaceLoops:
    """One robot and its frames in the library of ``cpp/operational_loops.cpp``."""

    def __init__(self, library: Path, peer: PeerRobot, frames: Sequence[str]) -> None:
        number, pointer = ctypes.c_long, ctypes.c_void_p
        self._library = ctypes.CDLL(str(library))
        self._library.space_open.restype = pointer
        self._library.space_open.argtypes = [ctypes.c_char_p, number, pointer, pointer]
        self._library.space_run.argtypes = [
            *(pointer, ctypes.c_int, number, number, pointer, pointer)
        ]
        self._library.space_give.argtypes = [pointer, number, pointer]
        self._library.space_factor.argtypes = [pointer, number, pointer]
        self._nv, self._rows = peer.model.nv, 6 * len(frames)
        joints, placements = frame_places(peer, frames)
        places = (len(joints), joints.ctypes.data, placements.ctypes.data)
        self._handle = opened(peer, self._library.space_open, *places)

    def run(self, route: int, q: Array, repeats: int) -> None:
        """Go ``repeats`` times over the states q (n, nq), in Pinocchio's order."""
        self._library.space_run(self._handle, route, len(q), repeats, q.ctypes.data, None)

    def answers(self, route: int, q: Array) -> Array:
        """Matrices (n, size, size) of a route, in Pinocchio's order."""
        size = self._nv if ROUTES[route][0] == MINVERSE else self._rows
        out = np.zeros((len(q), size, size))
        self._library.space_run(self._handle, route, len(q), 1, q.ctypes.data, out.ctypes.data)
        return out

    def give(self, M: Array) -> None:
        """Inertia matrices (n, nv, nv) to factorise from now on."""
        self._n_given = len(M)
        self._library.space_give(self._handle, len(M), np.ascontiguousarray(M).ctypes.data)

    def factorise(self, repeats: int) -> None:
        """``cholesky.decompose`` of all matrices given, ``repeats`` times."""
        self._library.space_factor(self._handle, repeats, None)

    def products(self) -> Array:
        """U D U^T (n, nv, nv) of the factors: the matrices given, up to rounding."""
        nv = self._nv
        out = np.zeros((self._n_given, nv * nv + nv))
        self._library.space_factor(self._handle, 1, out.ctypes.data)
        U, D = out[:, : nv * nv].reshape(-1, nv, nv), out[:, nv * nv :]
        return np.asarray((U * D[:, None, :]) @ U.transpose(0, 2, 1))


def pinocchio_contenders(
    peer: PeerRobot, loops: SpaceLoops, q: Array, H: Array
) -> list[Contender]:
    """Every route at the states q (n, nq), and the factors of H (k, nv, nv); dynsys order."""
    theirs = np.ascontiguousarray(peer.order.q_to_pin(q))
    loops.give(_both_axes(peer.order.tau_to_pin, H))

    def result(route: int) -> Array:
        answers = loops.answers(route, theirs)
        if ROUTES[route][0] == MINVERSE:
            return _both_axes(peer.order.v_from_pin, answers)
        angular_first = np.arange(answers.shape[1]).reshape(-1, 2, 3)[:, ::-1].ravel()
        return answers[:, angular_first][:, :, angular_first]

    routes = [
        Contender(
            who,
            task,
            "one state",
            len(q),
            partial(loops.run, route, theirs),
            partial(result, route),
        )
        for route, (task, who) in enumerate(ROUTES)
    ]
    factors = Contender(
        "cholesky.decompose",
        LTDL,
        "one state",
        len(H),
        loops.factorise,
        lambda: _both_axes(peer.order.tau_from_pin, loops.products()),
    )
    return [*routes, factors]


def _both_axes(convert: Callable[[Array], Array], matrices: Array) -> Array:
    """Matrices (n, nv, nv) with rows and columns converted."""
    half = convert(matrices)
    return np.ascontiguousarray(convert(half.transpose(0, 2, 1)).transpose(0, 2, 1))
