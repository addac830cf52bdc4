"""An estimation problem at a state, in extended precision and as few unknowns as there are.

The laws leave z = (qdd, external wrenches) open, d = T z + d_0; what exact readings say of
single entries of z is put in, exact readings that repeat others are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import qr

from dynsys.system.equations import Kinematics
from dynsys.types import Array, BoolArray, IntArray, ScalarArray
from problems.least_squares import RANK_TOLERANCE
from problems.measured_system import MeasuredSystem
from problems.trust import EXTENDED

__all__ = ["OpenProblem"]

DEPENDENT = 1e-14
"""Exact rows that are this close to combinations of others repeat them."""


@final
@dataclass(frozen=True, eq=False)
class OpenProblem:
    """Readings B z = c of noise C in those open unknowns z that no exact row gives by itself.

    Attributes
    ----------
    response, reach : [T, d_0] (n, all of z + 1), and the same summed over magnitudes.
    B, c, C : the rows that are present; B_size, c_size their terms' magnitudes, summed.
    z : (all of z,) with what is given; ``columns`` of it are unknown.
    is_definite : False where it depends on rounding which exact rows repeat others.
    """

    response: ScalarArray
    reach: Array
    B: ScalarArray
    c: ScalarArray
    C: Array
    B_size: Array
    c_size: Array
    z: ScalarArray
    columns: IntArray
    is_definite: bool

    @staticmethod
    def at(
        measured: MeasuredSystem, state: tuple[Array, Array, Array], null: Array, z: Array
    ) -> OpenProblem:
        """Problem at a state q, qd, rows; along ``null`` (all of z, k) z keeps its values."""
        q, qd, rows = state
        robot = measured.robot
        exact_q = q.astype(EXTENDED)
        for where in robot.quaternion_slices:
            exact_q[where] /= np.sqrt(np.sum(exact_q[where] ** 2))
        kinematics = Kinematics.at(robot, exact_q, qd.astype(EXTENDED))
        response = measured.response.at(kinematics)
        reach = measured.response.at(kinematics, absolute=True)
        present = ~np.isnan(rows)
        seen = measured.read(kinematics, response)[present]
        sizes = measured.read(kinematics, reach, absolute=True)[present].astype(np.float64)
        C = measured.covariance.toarray()[np.ix_(present, present)]
        c = rows[present] - seen[:, -1]
        c_size = np.abs(rows[present]) + sizes[:, -1]
        gauge = null.T.astype(EXTENDED)
        k = len(gauge)
        C = np.block([[C, np.zeros((len(C), k))], [np.zeros((k, len(C) + k))]])
        return _reduced(
            response,
            reach.astype(np.float64),
            (
                np.concatenate([seen[:, :-1], gauge]),
                np.concatenate([c, gauge @ z.astype(EXTENDED)]),
                C,
                np.concatenate([sizes[:, :-1], np.abs(null.T)]),
                np.concatenate([c_size, np.abs(null.T) @ np.abs(z)]),
            ),
            k,
        )


_Rows = tuple[ScalarArray, ScalarArray, Array, Array, Array]
"""B, c, C, B_size, c_size."""


def _reduced(response: ScalarArray, reach: Array, rows: _Rows, n_gauge: int) -> OpenProblem:
    """Take out what exact rows with one entry give, and exact rows that repeat others.

    The last ``n_gauge`` rows, which pin the open directions, stay.
    """
    B, c, C, B_size, c_size = rows
    exact = ~C.any(axis=1)
    is_gauge = np.arange(len(B)) >= len(B) - n_gauge
    exact &= ~is_gauge
    z, unknown = np.zeros(B.shape[1], dtype=B.dtype), np.ones(B.shape[1], dtype=bool)
    while True:
        filled = (B != 0) & unknown
        single = np.flatnonzero(exact & (filled.sum(axis=1) == 1))
        if not len(single):
            break
        columns, first = np.unique(filled[single].argmax(axis=1), return_index=True)
        z[columns] = c[single[first]] / B[single[first], columns]
        unknown[columns] = False
        c = c - B[:, columns] @ z[columns]
        c_size = c_size + B_size[:, columns] @ np.abs(z[columns]).astype(np.float64)
    left = ((B != 0) & unknown).any(axis=1)
    kept, is_definite = _independent(B[:, unknown], exact & left)
    kept |= ~exact & left
    pick = np.ix_(kept, unknown)
    return OpenProblem(
        response,
        reach,
        B[pick],
        c[kept],
        C[np.ix_(kept, kept)],
        B_size[pick],
        c_size[kept],
        z,
        np.flatnonzero(unknown),
        is_definite,
    )


def _independent(B: ScalarArray, exact: BoolArray) -> tuple[BoolArray, bool]:
    """Exact rows that no other exact rows repeat, and whether that is beyond doubt."""
    kept = exact.copy()
    rows = np.flatnonzero(exact)
    if not len(rows):
        return kept, True
    E = B[rows] / np.sqrt((B[rows] ** 2).sum(axis=1))[:, None]
    _, R, order = qr(E.astype(np.float64).T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > RANK_TOLERANCE * diagonal[0]).sum())
    if rank == len(rows):
        return kept, True
    kept[rows[order[rank:]]] = False
    basis, left = E[order[:rank]], E[order[rank:]]
    for _ in range(3):
        used = np.linalg.lstsq(basis.T.astype(np.float64), left.T.astype(np.float64))[0].T
        left = left - used.astype(EXTENDED) @ basis
    return kept, bool(np.abs(left).max() <= DEPENDENT)
