"""Pinocchio's routes to Lambda^-1, M^-1 and the factors of M, as contenders (its C++ build)."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import final

import numpy as np

from dynsys.types import Array
from experiments.peer_robots import PeerRobot, robot_file
from experiments.peer_timing import Contender

__all__ = ["LAMBDA", "LTDL", "MINVERSE", "SpaceLoops", "pinocchio_contenders"]

LAMBDA, MINVERSE, LTDL = "Lambda^-1", "M^-1", "LTDL"
ROUTES = (
    (LAMBDA, "crba, cholesky, U^-1 J^T"),
    (LAMBDA, "computeMinverse, J M^-1 J^T"),
    (LAMBDA, "ConstraintCholesky"),
    (LAMBDA, "computeDelassusMatrix"),
    (LAMBDA, "computePvDelassusMatrix"),
    (MINVERSE, "computeMinverse"),
)
"""In the order of ``ROUTES`` in ``peer_cpp/operational_loops.cpp``."""


@final
class SpaceLoops:
    """One robot and its frames in the library of ``peer_cpp/operational_loops.cpp``."""

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
        found = [peer.model.frames[peer.model.getFrameId(name)] for name in frames]
        joints = np.array([frame.parentJoint for frame in found], dtype=np.int64)
        placements = np.array(
            [
                [*frame.placement.rotation.ravel(), *frame.placement.translation]
                for frame in found
            ]
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.txt"
            path.write_text(robot_file(peer.model))
            self._handle = self._library.space_open(
                str(path).encode(), len(found), joints.ctypes.data, placements.ctypes.data
            )
        if not self._handle:
            raise RuntimeError(f"the C++ library could not read robot {peer.name!r}")

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
