"""CasADi's C, generated from Pinocchio, as a contender."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np

from dynsys.types import Array
from experiments.peers.build import GeneratedFunction
from experiments.peers.robots import PeerRobot, States
from experiments.peers.timing import Contender, symmetric_from_upper

__all__ = ["casadi_contenders"]

CASADI = "casadi c"
_TASKS = {"rnea": "ID", "aba": "FD", "crba": "CRBA", "minverse": "Minverse"}


@final
class _Generated:
    """One generated function with the work arrays it asks for, looped over states in C."""

    def __init__(self, loop: ctypes.CDLL, library: Path, name: str) -> None:
        generated = ctypes.CDLL(str(library))
        self._keep = generated
        self._address = ctypes.cast(getattr(generated, name), ctypes.c_void_p)
        sizes = (ctypes.c_longlong * 4)()
        step = ctypes.sizeof(ctypes.c_longlong)
        places = [ctypes.byref(sizes, k * step) for k in range(4)]
        getattr(generated, f"{name}_work")(*places)
        self._work = [np.zeros(max(8, size)) for size in sizes]  # all items have 8 bytes
        self._call = loop.peer_casadi_run
        self._call.argtypes = [
            ctypes.c_void_p,
            *[ctypes.c_long] * 5,
            *[ctypes.c_void_p] * 8,
        ]
        self._call.restype = None

    def run(self, repeats: int, inputs: tuple[Array, Array, Array], out: Array) -> None:
        """Go ``repeats`` times over the states; answers to ``out`` (n, size) or (1, size)."""
        q, v, x = inputs
        stride = out.shape[1] if len(out) == len(q) else 0
        self._call(
            self._address,
            len(q),
            repeats,
            q.shape[1],
            v.shape[1],
            stride,
            *(array.ctypes.data for array in (q, v, x, out, *self._work)),
        )


def casadi_contenders(
    peer: PeerRobot, states: States, loop_library: Path, functions: Sequence[GeneratedFunction]
) -> list[Contender]:
    """Every generated function of the robot, one state at a time."""
    theirs = peer.to_pinocchio(states)
    loop = ctypes.CDLL(str(loop_library))
    return [_contender(peer, theirs, loop, function) for function in functions]


def _contender(
    peer: PeerRobot, theirs: States, loop: ctypes.CDLL, function: GeneratedFunction
) -> Contender:
    """One generated function; while timed it writes to one place, as in a control loop."""
    task, nv = _TASKS[function.task], peer.model.nv
    vector = task in ("ID", "FD")
    generated = _Generated(loop, function.library, function.task)
    inputs = (theirs.q, theirs.v, theirs.qdd if task == "ID" else theirs.torque)
    out = np.zeros((len(theirs), nv if vector else nv * (nv + 1) // 2))
    place = np.zeros((1, out.shape[1]))

    def run(repeats: int) -> None:
        generated.run(repeats, inputs, place)

    def result() -> Array:
        generated.run(1, inputs, out)
        return peer.from_pinocchio(task, out if vector else symmetric_from_upper(out, nv))

    who = f"{CASADI} {function.compiler.c}"
    return Contender(who, task, "one state", len(theirs), run, result)
