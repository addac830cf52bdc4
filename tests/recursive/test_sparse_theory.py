"""What [BIS] section 3 and 4 and [OSI] section 7 say about LTL and LTDL, shown by numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.linalg import solve_triangular

from dynsys import (
    BodyMotion,
    KinematicTree,
    ltdl,
    ltl,
    mul_L,
    operational_space,
    solve_L,
    synthetic,
)
from dynsys.model.expanded import expanded_parent
from dynsys.operational.sparse_jacobian import yd_factors
from dynsys.operational.tasks import TaskSpace
from dynsys.recursive.crba import crba
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.sparse_factors import support_mask, tree_sums
from dynsys.types import Array, IntArray
from tests.recursive.trees import parents, random_factor, random_inertia
from tests.strategies import seeds

# ---- [BIS] section 3 -----------------------------------------------------------------------


@given(parent=parents(), seed=seeds)
def test_ltl_is_a_reordered_cholesky_factorisation(parent: IntArray, seed: int) -> None:
    """L^T = R G R, where G G^T = R H R and R reverses rows."""
    H = random_inertia(parent, np.random.default_rng(seed))
    G = np.linalg.cholesky(H[::-1, ::-1])
    assert_allclose(ltl(H, parent).T, G[::-1, ::-1], atol=1e-12 * np.abs(H).max())


def depth_first(parent: IntArray) -> list[int]:
    """A regular numbering that goes down each branch before the next."""
    order: list[int] = []

    def visit(i: int) -> None:
        order.append(i)
        for child in np.flatnonzero(parent == i):
            visit(int(child))

    for root in np.flatnonzero(parent == -1):
        visit(int(root))
    return order


def is_nested_bordered(pattern: Array) -> bool:
    """Whether a pattern is nested, doubly bordered and block-diagonal, as defined recursively.

    Independent blocks along the diagonal; each is full, or such blocks with a full border.
    """
    n = len(pattern)
    cuts = [k for k in range(n + 1) if not pattern[k:, :k].any() and not pattern[:k, k:].any()]
    for a, b in pairwise(cuts):
        block = pattern[a:b, a:b]
        if not (block[-1].all() and block[:, -1].all()):  # its border, one line at least
            return False
        if not is_nested_bordered(block[:-1, :-1]):
            return False
    return True


@given(parent=parents(), seed=seeds)
def test_any_inertia_matrix_is_nested_bordered_block_diagonal(
    parent: IntArray, seed: int
) -> None:
    """Depth first, then reversed: eq. (7); no zeros inside the envelope, hence no fill-in."""
    own = support_mask(parent)
    pattern = own | own.T
    order = depth_first(parent)[::-1]
    moved = pattern[np.ix_(order, order)]
    assert is_nested_bordered(moved)
    for i, row in enumerate(moved):
        first = int(np.argmax(row[: i + 1]))
        assert row[first : i + 1].all()  # the envelope
    H = random_inertia(parent, np.random.default_rng(seed))
    G = np.linalg.cholesky(H[np.ix_(order, order)])
    assert not G[~moved].any()


def test_the_matrix_of_equation_7() -> None:
    parent = np.array([-1, 0, 0, 1, 1, 2, 2])
    own = support_mask(parent)
    order = depth_first(parent)[::-1]
    moved = (own | own.T)[np.ix_(order, order)]
    limb = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    expected = np.zeros((7, 7), dtype=bool)  # two limbs of three, bordered by the root
    expected[:3, :3] = expected[3:6, 3:6] = limb
    expected[6] = expected[:, 6] = True
    assert (moved == expected).all()
    branched = np.linalg.cholesky(random_inertia(parent, np.random.default_rng(0)))
    assert np.count_nonzero(np.tril(branched)) > np.count_nonzero(own)  # unordered: fill-in


# ---- [BIS] section 4 -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "robot", [synthetic.humanoid30(), synthetic.asimo(), synthetic.centipede(10)]
)
def test_the_rule_of_thumb_of_density(robot: KinematicTree) -> None:
    """Sparse costs are about alpha^2 (factors) and alpha (solves) of the dense ones' cost."""
    parent = expanded_parent(robot)
    n, sums = len(parent), tree_sums(parent)
    chain = tree_sums(np.arange(n) - 1)
    alpha = (2 * sums.D1 + n) / n**2
    assert sums.D1 / chain.D1 == pytest.approx(alpha, rel=0.2)
    factors = (sums.D1 + 2 * sums.D2) / (chain.D1 + 2 * chain.D2)
    assert 0.7 < factors / alpha**2 < 1.4


@given(parent=parents())
def test_bounds_of_the_sums(parent: IntArray) -> None:
    """Eq. (10) to (13); a chain and bodies all on the base reach the ends."""
    n, sums = len(parent), tree_sums(parent)
    deepest = int(support_mask(parent).sum(axis=1).max())
    assert 0 <= sums.D1 <= min((n**2 - n) // 2, n * (deepest - 1))
    assert 0 <= sums.D2 <= min((n**3 - n) // 6, n * deepest * (deepest - 1) // 2)
    chain, star = tree_sums(np.arange(n) - 1), tree_sums(np.full(n, -1))
    assert (chain.D1, chain.D2) == ((n**2 - n) // 2, (n**3 - n) // 6)
    assert (star.D1, star.D2) == (0, 0)


@pytest.mark.parametrize("extra", [1, 2, 3])
@pytest.mark.parametrize("long", [True, False])
def test_side_branches_cost_beta_and_beta_squared(extra: int, long: bool) -> None:
    """D1 and D2 tend to beta and beta^2 of the chain's, beta = main chain over all bodies."""
    errors = []
    for m in (200, 2000):
        parent, main = [], -1
        for _ in range(m):
            parent.append(main)
            main = len(parent) - 1
            for k in range(extra):
                parent.append(len(parent) - 1 if long and k else main)
        n, beta = len(parent), m / len(parent)
        sums, chain = tree_sums(parent), tree_sums(np.arange(n) - 1)
        assert beta == pytest.approx(1 / (1 + extra))
        errors.append(
            max(
                abs(sums.D1 / chain.D1 / beta - 1),
                abs(sums.D2 / chain.D2 / beta**2 - 1),
            )
        )
    assert errors[1] < 0.01
    assert errors[1] < 0.15 * errors[0]  # it converges


# ---- [OSI] appendix A: factors with the pattern of a tree are a group -----------------------


@pytest.mark.finding("P11")
@given(parent=parents(max_size=20), seed=seeds)
def test_factors_of_a_tree_are_a_group(parent: IntArray, seed: int) -> None:
    """1, K L and L^-1, found by dense arithmetic, are exactly zero outside the tree's pattern.

    What the sparse algorithms make of K and L are these very matrices.
    """
    rng, mask = np.random.default_rng(seed), support_mask(parent)
    K, L = random_factor(parent, rng), random_factor(parent, rng)
    one = np.eye(len(parent))
    inverse = solve_triangular(L, one, lower=True)
    for member in (one, K @ L, inverse, K @ inverse, solve_triangular(K @ L, one, lower=True)):
        assert not member[~mask].any()
        assert np.diagonal(member).all()
    assert_allclose(L @ inverse, one, atol=1e-9)
    assert_allclose(mul_L(K, parent, L), K @ L, atol=1e-12)
    assert_allclose(solve_L(L, parent, one), inverse, rtol=1e-9, atol=1e-12)


# ---- [OSI] section 7: the innovations factorisation is LTDL --------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_innovations_factorisation_is_ltdl(seed: int) -> None:
    """M = (1 + H phi K) D (1 + H phi K)^T with 1 + H phi K = L^T, and its inverse by psi.

    Joints of one freedom. phi carries forces rigidly towards the base, psi past joints that
    give way: psi_i = X_i^T (1 - G_i S_i^T), G = IA S / D, K_i = X_i^T G_i.
    """
    kinds = ["revolute", "prismatic", "helical"]
    robot = synthetic.random_tree(8, seed, joint_types=kinds)
    q, n = robot.random_configuration(seed), robot.n_bodies
    X = [x.matrix() for x in transforms(robot, q)]
    S = [s[:, 0] for s in robot.motion_subspace]
    IA = [moments.matrix() for moments in robot.moments]
    D, G = np.zeros(n), np.zeros((n, 6))
    for i in reversed(range(n)):
        U = IA[i] @ S[i]
        D[i] = S[i] @ U + robot.armature[i]
        G[i] = U / D[i]
        if (p := int(robot.parent[i])) >= 0:
            left = IA[i] - np.outer(U, U) / D[i]
            IA[p] = IA[p] + X[i].T @ left @ X[i]
    rigid, yielding = np.zeros((2, n, n))
    for i in range(n):
        over = X[i].T  # force of body i as its parent sees it
        past = over
        j = int(robot.parent[i])
        while j >= 0:
            rigid[j, i] = S[j] @ over @ G[i]  # H phi K
            yielding[j, i] = S[j] @ past @ G[i]  # H psi K
            past = X[j].T @ (np.eye(6) - np.outer(G[j], S[j])) @ past
            over = X[j].T @ over
            j = int(robot.parent[j])
    factor = np.eye(n) + rigid
    M = crba(robot, q)
    scale = np.abs(M).max()
    assert_allclose(factor @ np.diag(D) @ factor.T, M, atol=1e-11 * scale)  # eq. 24
    inverse = np.eye(n) - yielding
    assert_allclose(factor @ inverse, np.eye(n), atol=1e-9)  # eq. 25
    assert_allclose(inverse.T @ np.diag(1 / D) @ inverse @ M, np.eye(n), atol=1e-7)  # eq. 26
    L, diag = ltdl(M, robot.parent)
    assert_allclose(L, factor.T, atol=1e-8)  # numerically the same
    assert_allclose(diag, D, rtol=1e-8)
    # eq. 28: Y_d = B^T psi^T H^T of the last body
    tip = n - 1
    Y = np.zeros((6, n))
    past = np.eye(6)
    j = tip
    while j >= 0:
        Y[:, j] = S[j] @ past
        past = X[j].T @ (np.eye(6) - np.outer(G[j], S[j])) @ past
        j = int(robot.parent[j])
    space = TaskSpace(robot, [BodyMotion(tip)])
    J = operational_space(robot, q, tip).J
    Yd, _ = yd_factors(J, L, diag, space.supports, robot.parent)
    assert_allclose(Y, Yd, atol=1e-8)
