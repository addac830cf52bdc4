"""Stretches of work that the loops over states share: bias, wrenches, outputs of one state."""

from __future__ import annotations

import math

from dynsys.loops.arrays import Model, Work
from dynsys.loops.articulated import gather_inertias, respond
from dynsys.loops.columns import (
    ACCELERATION_OUT,
    ARMATURE,
    GIVEN,
    QD,
    QDD,
    QDD_OUT,
    TORQUE,
    TORQUE_OUT,
    WRENCH_OUT,
)
from dynsys.loops.composite import fill_inertia_matrix, solve_unknown
from dynsys.loops.jit import inlined, loop
from dynsys.loops.quantities import linear_velocities, write_accelerations, write_wrenches
from dynsys.loops.rotations import place_bodies
from dynsys.loops.wrenches import gather_wrenches, move_bodies, push_bodies
from dynsys.types import Array

__all__ = [
    "bias",
    "form_matrix",
    "gather",
    "place",
    "read",
    "read_state",
    "solve_matrix",
    "solve_tree",
    "wrenches_of_solution",
    "write",
    "write_state",
]


@inlined
def read(source: Array, target: Array) -> bool:
    """Copy a row of inputs to the head of a buffer; whether it is finite."""
    zero = 0.0
    for k in range(len(source)):
        target[k] = source[k]
        zero += 0.0 * source[k]
    return zero == 0.0


@inlined
def write(source: Array, target: Array) -> bool:
    """Copy the head of a buffer to a row of outputs; whether it is finite."""
    finite = True
    for k in range(len(target)):
        target[k] = source[k]
        finite = finite and math.isfinite(source[k])
    return finite


@loop
def read_state(model: Model, work: Work, q: Array, qd: Array, given: Array) -> None:
    """Read one state and place the bodies; QDD gets the known accelerations, zero elsewhere.

    Also what no answer depends on must be finite: else NaN goes where the answer shows it.
    """
    vectors = work.vectors
    finite = read(q, work.position)
    finite = read(qd, vectors[QD]) and finite
    read(given, vectors[GIVEN])
    if not finite:
        vectors[GIVEN, 0] = math.nan
    read(vectors[GIVEN], vectors[QDD])
    for v in model.unknown:
        vectors[QDD, v] = 0.0
    place(model, work)


@loop
def place(model: Model, work: Work) -> None:
    """Transforms of all joints at the position that was read."""
    place_bodies(
        model.numbers, model.frames, model.integers, work.position, work.angles, work.motion
    )


@loop
def bias(model: Model, work: Work, push: bool, f_ext: Array) -> None:
    """Motion and net wrenches of all bodies at qd and QDD, external wrenches taken off."""
    move_bodies(
        *(model.numbers, model.integers, work.angles, work.vectors, work.motion, work.small)
    )
    if push:
        push_bodies(model.frames, f_ext, work.motion)


@loop
def gather(model: Model, work: Work) -> None:
    """Wrenches through all joints from the net ones, and the torques they need."""
    gather_wrenches(model.numbers, model.integers, work.angles, work.vectors, work.motion)


@loop
def form_matrix(model: Model, work: Work) -> None:
    """H of the bodies as they are placed."""
    fill_inertia_matrix(
        *(model.numbers, model.integers, work.vectors[ARMATURE], work.angles, work.motion),
        *(work.inertia, work.small, work.H),
    )


@loop
def solve_tree(model: Model, work: Work) -> None:
    """QDD of a tree from its bias: articulated bodies, O(n)."""
    numbers, integers, angles, vectors = (
        model.numbers,
        model.integers,
        work.angles,
        work.vectors,
    )
    motion, inertia, freedoms = work.motion, work.inertia, work.freedoms
    gather_inertias(numbers, integers, angles, vectors, motion, inertia, freedoms)
    respond(numbers, integers, angles, motion, inertia, freedoms, vectors[QDD])


@loop
def solve_matrix(model: Model, work: Work) -> None:
    """QDD with coupled joints from its bias: the inertia matrix, solved densely."""
    gather(model, work)
    form_matrix(model, work)
    for v in model.unknown:
        work.vectors[QDD, v] = work.vectors[GIVEN, v] - work.vectors[TORQUE, v]
    solve_unknown(work.H, model.unknown, work.vectors[QDD])


@loop
def wrenches_of_solution(model: Model, work: Work, want: int, push: bool, f_ext: Array) -> None:
    """Newton-Euler once more with all of qdd, where an output asks for it."""
    some_known = len(model.unknown) < work.vectors.shape[1] - 1
    if (want & (ACCELERATION_OUT | WRENCH_OUT)) != 0 or (
        some_known and (want & TORQUE_OUT) != 0
    ):
        bias(model, work, push, f_ext)
        gather(model, work)


@loop
def write_state(
    model: Model,
    work: Work,
    want: int,
    torque: Array,
    qdd: Array,
    acceleration: Array,
    wrench: Array,
) -> bool:
    """Write the outputs of one state from its motion and wrenches; whether all are finite."""
    finite, vectors, motion, inertia = True, work.vectors, work.motion, work.inertia
    if want & TORQUE_OUT:
        for v in model.unknown:
            vectors[TORQUE, v] = vectors[GIVEN, v]
        finite = write(vectors[TORQUE], torque)
    if want & QDD_OUT:
        finite = write(vectors[QDD], qdd) and finite
    if want & ACCELERATION_OUT:
        linear_velocities(
            model.numbers, model.integers, work.angles, vectors[QD], motion, inertia
        )
        finite = write_accelerations(model.frames, motion, inertia, acceleration) and finite
    if want & WRENCH_OUT:
        finite = write_wrenches(model.frames, motion, wrench) and finite
    return finite
