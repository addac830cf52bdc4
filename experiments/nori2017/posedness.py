"""Which load-cell sets determine the torques: Property 3, Remark 5 and the published sets.

Property 3 of [NORI] asks for the rank of [H, X^* H], H the components of a foot's wrench that
its cells do not give; Remark 5 concludes that a humanoid on two plates of load cells is
ill-posed. Here both are checked as ranks, of that matrix and of the whole system D.
"""

from __future__ import annotations

from importlib import resources

import numpy as np

from dynsys.model.readers import load
from dynsys.model.tree import KinematicTree
from dynsys.plan.orders.orders import sample_values
from dynsys.system.equations import EquationBlock, Term
from dynsys.system.laws import known
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array
from experiments.nori2017.counts import chain
from sensors import published

__all__ = ["PLATE", "SLIPPERY", "feet_ranks", "humanoid_on_feet", "published_ranks", "rank"]

PLATE = (0, 1, 5)
"""Moments in the plane and the force across it: what four load cells in a foot give."""
SLIPPERY = (0, 1, 3, 4, 5)
"""The same with the tangential forces known, zero on a slippery floor."""


def rank(A: Array) -> int:
    """Numerical rank: singular values above 1e-9 of the largest."""
    singular = np.linalg.svd(A, compute_uv=False)
    return int((singular > 1e-9 * singular[0]).sum())


def ranks(system: LinearSystem, states: int = 3) -> set[int]:
    """Ranks of D at random states."""
    found = set()
    for data in sample_values(system, states, seed=1):
        D = np.zeros(system.shape)
        columns = np.repeat(np.arange(system.shape[1]), np.diff(system.indptr))
        D[system.indices, columns] = data
        scale = np.abs(D).max(axis=1, keepdims=True)
        found.add(rank(D / scale))
    return found


def published_ranks(n: int, states: int = 3) -> dict[str, set[int]]:
    """Columns minus rank of the three published sets on a chain of n bodies."""
    robot = chain(n, taper=1.0)
    missing = {}
    for name, layout in (
        ("autoSensSIE", published.sie(robot)),
        ("autoSensSIEfriction", published.sie_friction(robot)),
        ("autoSensSIEfriction_fy", published.sie_friction_fy(robot)),
    ):
        laws = LinearSystem(robot, net_wrench=True)
        system = laws.with_equations(layout.equations(laws.unknowns))
        missing[name] = {system.shape[1] - r for r in ranks(system, states)}
    return missing


def feet_ranks(components: tuple[int, ...], poses: int = 200) -> tuple[int, set[int]]:
    """Columns of [H, X^* H] and its ranks over random poses of the other foot."""
    hidden = [c for c in range(6) if c not in components]
    H = np.eye(6)[:, hidden]
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(poses):
        E, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        E = E * np.linalg.det(E)
        p = rng.normal(size=3)
        cross = np.array([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]])
        X_star = np.block([[E, cross @ E], [np.zeros((3, 3)), E]])
        found.add(rank(np.hstack([H, X_star @ H])))
    return 2 * len(hidden), found


def humanoid_on_feet(components: tuple[int, ...], states: int = 3) -> set[int]:
    """Columns minus rank of D: humanoid, free base, both feet on cells giving ``components``.

    Known: all accelerations, external wrenches elsewhere, no drive at the root; unknown the
    torques and the rest of the feet's wrenches ([NORI] eq. 17 to 19).
    """
    robot, feet = _humanoid()
    laws = LinearSystem(robot)
    u = laws.unknowns
    rows: list[EquationBlock] = [known(u, "torque", 0)]
    for i in range(robot.n_bodies):
        if i in u.driven:
            rows.append(known(u, "qdd", i))
        if i not in feet:
            rows.append(known(u, "external_wrench", i))
            continue
        term = Term.constant(u.block("external_wrench", i), np.eye(6)[list(components)])
        name = f"cells of {robot.body_names[i]}"
        rows.append(
            EquationBlock(name, "load_cell", i, len(components), (term,), measured=True)
        )
    system = laws.with_equations(rows)
    return {system.shape[1] - r for r in ranks(system, states)}


def _humanoid() -> tuple[KinematicTree, tuple[int, ...]]:
    data = resources.files("dynsys.model") / "data" / "humanoid.urdf"
    with resources.as_file(data) as path:
        robot = load(path, floating_base=True)
    feet = [i for i, name in enumerate(robot.body_names) if "foot" in name]
    if len(feet) != 2:
        raise RuntimeError(f"the humanoid should have two feet, found {feet}")
    return robot, tuple(feet)
