"""Why a square system has no unique solution, in names of the robot."""

from __future__ import annotations

import numpy as np
from scipy.sparse import block_array, csc_array, diags_array, eye_array
from scipy.sparse.linalg import splu

from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array

__all__ = ["describe_singularity", "null_vector"]

SHIFT = 1e-10
"""Directions with singular values well below this, D scaled to unit entries, are found."""

ROUNDING = 10 * float(np.finfo(np.float64).eps)
"""Singular values below this are zero to rounding: measured 2e-16 at most where they are zero,
for 3 to 100 bodies, while a link of a tenth of a milligram leaves 1e-14."""


def null_vector(D: csc_array[np.float64]) -> Array | None:
    """Return x (n,) of unit largest entry with D x = 0 to rounding, or None if D is regular.

    Inverse iteration on [[s 1, A^T], [A, -s 1]], A = D with rows and columns scaled to entries
    of at most one: its eigenvalues are +-sqrt(s^2 + sigma^2), so directions with sigma << s
    grow by 1/s in each step. Sparse at any size; a null space of several dimensions answers
    with a generic combination, in which every undetermined unknown shows.
    """
    if not np.isfinite(D.data).all():
        return None  # it overflows float64: nothing is told of it
    n = D.shape[1]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        row_scale, col_scale = _equilibrating(D)
    if not np.isfinite([row_scale, col_scale]).all():
        return None  # so small that its scales overflow: the same
    A = csc_array(diags_array(row_scale) @ D @ diags_array(col_scale))
    shift = SHIFT * eye_array(n)
    factors = splu(csc_array(block_array([[shift, A.T], [A, -shift]])))
    z = np.random.default_rng(0).uniform(0.5, 1.0, 2 * n)
    for _ in range(4):
        z = factors.solve(z)
        z /= np.abs(z).max()
    x = z[:n] / max(float(np.linalg.norm(z[:n])), np.finfo(float).tiny)
    if not np.isfinite(x).all() or np.linalg.norm(np.asarray(A @ x)) > ROUNDING:
        return None
    scaled = col_scale * x
    return np.asarray(scaled / np.abs(scaled).max())


def _equilibrating(D: csc_array[np.float64]) -> tuple[Array, Array]:
    """Factors that scale the largest entry of every row, then of every column, to one."""
    entries = D.tocoo()
    scales: list[Array] = []
    values = np.abs(entries.data)
    for index, size in zip(entries.coords, D.shape, strict=True):
        largest = np.zeros(size)
        np.maximum.at(largest, index, values)
        scales.append(1.0 / np.where(largest > 0, largest, 1.0))
        values = values * scales[-1][index]
    return scales[0], scales[1]


def describe_singularity(system: LinearSystem, x: Array) -> str:
    """Say which quantities of the robot a null vector x leaves open, and what would help."""
    moved = np.abs(x) > 1e-6 * np.abs(x).max()
    blocks = [block for block in system.unknowns.blocks if moved[block.slice].any()]
    joints = [block.name for block in blocks if block.kind == "qdd"]
    if not joints:
        listed = ", ".join(f"the {block}" for block in blocks[:6])
        more = f" and {len(blocks) - 6} more" if len(blocks) > 6 else ""
        return f"robot {system.robot.name!r}: not determined at this state: {listed}{more}"
    names = ", ".join(map(repr, joints))
    if len(joints) == 1:
        return (
            f"robot {system.robot.name!r}: the acceleration of joint {names} is not determined"
            " at this state: the bodies it carries have no inertia about its axis; give them"
            " mass, give the joint armature, or make its acceleration known"
        )
    return (
        f"robot {system.robot.name!r}: the accelerations of joints {names} are not determined"
        " at this state: the bodies they carry have no inertia in a motion these joints can"
        " make; give them mass, give the joints armature, or make their accelerations known"
    )
