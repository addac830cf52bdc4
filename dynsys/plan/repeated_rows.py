"""Exact rows that the laws and other exact rows imply: left out, and checked instead.

    rows E d + b - y = 0 without noise, more of them than their rank

A statement can be made twice: a foot that is held and whose acceleration is also stated, the
wrench of a body set to zero in two frames. One of the two has then nothing to add, and its
multiplier no value. Noisy rows that exact ones imply have nothing to add either. Which ones
these are is a matter of rank at random states; they are left out of an elimination. But
readings may contradict exact rows. So a program that leaves some out ends with, for each,

    r = E d + b - y     and     s^2 = the sum of the squares of its terms + a natural unit^2

and answers NaN where |r| exceeds a small part of s (:mod:`dynsys.program.guards`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.response import LawResponse, read_blocks
from dynsys.system.size import reading_sizes, without_rounding
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = ["implied_readings", "implied_rows", "row_checks", "row_residuals"]

REPEATED = 1e-9
"""A row of unit size repeats those before it if no more of it is left."""


def implied_rows(
    system: LinearSystem, exact: IntArray, noisy: IntArray
) -> tuple[IntArray, IntArray]:
    """Rows that the laws and exact rows imply: of the ``exact`` ones by those before them.

    Both are rows of the system, and so is what is returned.
    """
    rows, robot = np.concatenate([exact, noisy]), system.robot
    laws, measured = LawResponse(system), [b for b in system.equations if b.measured]
    places = np.searchsorted(system.measured_rows, rows)
    found = np.ones(len(rows), dtype=bool)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        q = robot.random_configuration(rng, limited=False)
        kin = Kinematics.at(robot, q, rng.normal(size=robot.nv))
        seen = read_blocks(measured, kin, laws.at(kin))[places, :-1]
        size = reading_sizes(measured, kin, laws.sizes.at(kin))[places, :-1]
        found &= _dependent(without_rounding(seen, size), size, len(exact))
    return exact[found[: len(exact)]], noisy[found[len(exact) :]]


def _dependent(B: Array, size: Array, n_exact: int) -> BoolArray:
    """Tell which rows depend on exact rows before them, by Gram and Schmidt."""
    columns = size.max(axis=0)
    B, size = (x / np.where(columns > 0, columns, 1.0) for x in (B, size))
    norms = np.linalg.norm(size, axis=1)
    B = B / np.where(norms > 0, norms, 1.0)[:, None]
    basis, count = np.zeros((min(B.shape), B.shape[1])), 0
    left = np.zeros(len(B))
    for k, row in enumerate(B[:n_exact]):
        rest = _without(basis[:count], row)
        left[k] = np.linalg.norm(rest)
        if left[k] > REPEATED:
            basis[count], count = rest / left[k], count + 1
    left[n_exact:] = np.linalg.norm(_without(basis[:count], B[n_exact:].T), axis=0)
    return np.asarray(left <= REPEATED)


def _without(basis: Array, x: Array) -> Array:
    """Columns x less what orthonormal rows span of them, twice for their digits."""
    for _ in range(2):
        x = x - basis.T @ (basis @ x)
    return x


def implied_readings(system: LinearSystem, rows: IntArray) -> Program:
    """Program from q, qd and any z to readings of exact ``rows`` that agree with each other."""
    robot, graph = system.robot, Graph()
    q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
    z, kin = graph.inputs(len(system.open_columns)), Kinematics.at(robot, q, qd)
    measured = [block for block in system.equations if block.measured]
    seen = read_blocks(measured, kin, LawResponse(system).at(kin, z[:, None])).sum(axis=1)
    return graph.program(seen[np.searchsorted(system.measured_rows, rows)].tolist())


def row_residuals(
    unknowns: UnknownLayout,
    equations: Sequence[EquationBlock],
    rows: Sequence[int],
    kin: Kinematics,
    d: Sequence[Any],
    y: ScalarArray,
) -> list[tuple[Any, Any]]:
    """Residual r and squared size s^2 of some rows of measurements, ascending.

    ``d`` are the unknowns by their columns, ``rows`` count the rows of all ``equations``.
    """
    found: list[tuple[Any, Any]] = []
    start, wanted = 0, set(rows)
    for block in equations:
        own = [k for k in range(block.size) if start + k in wanted]
        terms = [
            (unknowns.block(t.unknown.kind, t.unknown.body).start, t.pattern, t.at(kin))
            for t in (block.terms if own else ())
        ]
        bias = block.bias_at(kin) if own else ()
        for k in own:
            parts, unit = [bias[k], -y[start + k]], 1e-300
            for first, pattern, value in terms:
                for j in np.flatnonzero(pattern[k]).tolist():
                    parts.append(value[k, j] * d[first + j])
                    unit = unit + value[k, j] * value[k, j]
            found.append((sum(parts), sum((x * x for x in parts), start=unit)))
        start += block.size
    return found


def row_checks(found: Sequence[tuple[Any, Any]]) -> list[Any]:
    """All residuals, then all squared sizes: what ends the outputs of a program."""
    return [*(r for r, _ in found), *(size for _, size in found)]
