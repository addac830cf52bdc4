"""Which load-cell sets determine the torques: Property 3, Remark 5 and the published sets.

Property 3 of [NORI] asks for the rank of [H, X^* H], H the components of a foot's wrench that
its cells do not give; Remark 5 concludes that a humanoid on two plates of load cells is
ill-posed. Here both are checked as ranks, of that matrix and of the whole system D.

The condition of Property 3, that H_f (the forces among H) is singular, is not needed: with
R = 1, as in its proof, subtracting the left half of [H, X^* H] from the right leaves

    [[H_f, 0], [H_mu, [p]x H_f]],    determinant det(H_f)^2 det([p]x) = 0

for every H. Three components of each wrench are never enough at every pose.
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

__all__ = [
    "PLATE",
    "SLIPPERY",
    "feet_ranks",
    "humanoid_on_feet",
    "published_ranks",
    "random_unseen",
    "rank",
    "singular_poses",
]

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
        found.add(_scaled_rank(D))
    return found


def _scaled_rank(D: Array) -> int:
    """Rank of D with rows of one size."""
    return rank(D / np.abs(D).max(axis=1, keepdims=True))


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
        X_star = _force_transform(_rotation(rng), rng.normal(size=3))
        found.add(rank(np.hstack([H, X_star @ H])))
    return 2 * len(hidden), found


def random_unseen(rank_of_forces: int, rng: np.random.Generator) -> Array:
    """Random H (6, 3), moments first; its rows of forces, H_f, have the given rank."""
    forces = rng.normal(size=(3, rank_of_forces)) @ rng.normal(size=(rank_of_forces, 3))
    return np.vstack([rng.normal(size=(3, 3)), forces])


def singular_poses(H: Array, rng: np.random.Generator) -> tuple[bool, bool]:
    """Whether [H, X^* H] is singular where the other foot is turned by R = 1, and by any R."""
    p, half = rng.normal(size=3), H.shape[1]
    matrices = (np.hstack([H, _force_transform(R, p) @ H]) for R in (np.eye(3), _rotation(rng)))
    parallel, turned = (rank(matrix) < 2 * half for matrix in matrices)
    return parallel, turned


def _rotation(rng: np.random.Generator) -> Array:
    E, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return np.asarray(E * np.linalg.det(E))


def _force_transform(E: Array, p: Array) -> Array:
    """X^* (6, 6) of wrenches, moments first: turned by E, then moved by p."""
    cross = np.array([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]])
    return np.block([[E, cross @ E], [np.zeros((3, 3)), E]])


def humanoid_on_feet(
    components: tuple[int, ...], states: int = 3, *, soles_parallel: bool = False
) -> set[int]:
    """Columns minus rank of D: humanoid, free base, both feet on cells giving ``components``.

    Known: all accelerations, external wrenches elsewhere, no drive at the root; unknown the
    torques and the rest of the feet's wrenches ([NORI] eq. 17 to 19). At random states, or in
    its neutral posture, in which both soles are parallel to one plane.
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
        if not components:
            continue
        term = Term.constant(u.block("external_wrench", i), np.eye(6)[list(components)])
        name = f"cells of {robot.body_names[i]}"
        rows.append(
            EquationBlock(name, "load_cell", i, len(components), (term,), measured=True)
        )
    system = laws.with_equations(rows)
    if soles_parallel:
        return {system.shape[1] - _scaled_rank(_neutral(system))}
    return {system.shape[1] - r for r in ranks(system, states)}


def _neutral(system: LinearSystem) -> Array:
    robot = system.robot
    return np.asarray(system.assemble(robot.neutral(), np.zeros(robot.nv))[0].toarray())


def _humanoid() -> tuple[KinematicTree, tuple[int, ...]]:
    data = resources.files("dynsys.model") / "data" / "humanoid.urdf"
    with resources.as_file(data) as path:
        robot = load(path, floating_base=True)
    feet = [i for i, name in enumerate(robot.body_names) if "foot" in name]
    if len(feet) != 2:
        raise RuntimeError(f"the humanoid should have two feet, found {feet}")
    return robot, tuple(feet)
