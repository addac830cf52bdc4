"""SuperLU is asked only what it can answer: nothing is printed from below Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array
from scipy.sparse.csgraph import structural_rank

import sensors
from dynsys import InverseInertia, KinematicTree, SingularSystemError, synthetic
from dynsys.cholmod import has_cholmod
from dynsys.model.joints import Fixed
from dynsys.model.spatial import Inertia
from dynsys.model.tree import Body
from dynsys.superlu import factorised
from problems import ContradictionError, Estimation, ForwardDynamics
from problems.estimation.estimation import Backend
from problems.estimation.factors import SuperLUFactors


def with_bodies_without_mass(seed: int) -> KinematicTree:
    rng = np.random.default_rng(seed)
    bodies = [
        replace(body, inertia=Inertia.zero(), armature=np.zeros(body.joint.nv))
        if rng.random() < 0.6
        else body
        for body in synthetic.random_tree(int(rng.integers(1, 9)), seed=seed).bodies
    ]
    return KinematicTree("light", bodies)


@pytest.mark.parametrize("seed", [3, 12, 29, 43, 99])
@pytest.mark.finding("Z-E1")
def test_robots_without_mass_print_nothing(
    seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each printed 'On entry to DTRSV parameter number 6 had an illegal value'."""
    robot = with_bodies_without_mass(seed)
    q = robot.random_configuration(seed=seed)
    with pytest.raises(SingularSystemError, match=r"not determined.*give"):
        ForwardDynamics(robot, backend="reference").solve(
            q, np.ones(robot.nv), np.zeros(robot.nv)
        )
    assert capfd.readouterr() == ("", "")


def test_patterns_that_are_singular_are_not_factorised(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of 300 such matrices, some printed, and some ended the process."""
    rng = np.random.default_rng(0)
    for k in range(300):
        n = int(rng.integers(2, 40))
        A = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.2)
        if k % 2:
            A[rng.integers(0, n, size=2)] = 0.0
        else:
            A[:, rng.integers(0, n, size=2)] = 0.0
        assert factorised(csc_array(A)) is None
    assert factorised(csc_array(np.ones((2, 2)))) is None  # a pivot is zero, all is there
    regular = factorised(csc_array([[0.0, 2.0], [4.0, 0.0]]))
    assert regular is not None
    np.testing.assert_array_equal(regular.solve(np.array([2.0, 4.0])), [1.0, 1.0])
    assert capfd.readouterr() == ("", "")


@pytest.mark.finding("L-1")
def test_graphs_are_asked_with_indices_that_all_releases_of_scipy_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of 64 bits end in ValueError in SciPy 1.13, our lower bound."""
    asked = []
    monkeypatch.setattr(
        "dynsys.superlu.structural_rank", lambda A: asked.append(A) or structural_rank(A)
    )
    A = csc_array(np.diag([2.0, 4.0]))
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    assert (factorised(A).solve(np.ones(2)) == [0.5, 0.25]).all()
    assert {asked[0].indices.dtype, asked[0].indptr.dtype} == {np.dtype(np.int32)}


@pytest.mark.finding("E-2")
def test_zeros_that_a_pattern_holds_are_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of missing readings are zeros in their places; such matrices printed too."""
    rng = np.random.default_rng(0)
    A = csc_array(rng.normal(size=(20, 20)) * (rng.random((20, 20)) < 0.2) + np.eye(20))
    emptied = csc_array((np.where(A.indices == 7, 0.0, A.data), A.indices, A.indptr), A.shape)
    assert structural_rank(emptied) == 20  # stored zeros count as entries there
    factors = SuperLUFactors()
    assert factors.factor(A)
    monkeypatch.setattr("dynsys.superlu.splu", None)  # is not asked any more
    assert factorised(emptied) is None
    assert not SuperLUFactors().factor(emptied) and not factors.factor(emptied)
    monkeypatch.undo()
    assert factors.factor(A)
    np.testing.assert_allclose(A @ factors.solve(np.ones(20)), 1.0)


@pytest.mark.parametrize("backend", ["superlu", "cholmod"])
@pytest.mark.filterwarnings("error", "ignore:all_joint_accelerations")
def test_layouts_that_are_singular_print_nothing(
    backend: Backend, capfd: pytest.CaptureFixture[str]
) -> None:
    """Sensors left out, repeated, without noise and without readings, at random."""
    if backend == "cholmod" and not has_cholmod():
        pytest.skip("CHOLMOD is not installed")
    for seed in range(24):
        rng = np.random.default_rng(seed)
        robot = synthetic.random_tree(int(rng.integers(1, 5)), seed=seed)
        every = [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot),
        ]
        exact, kept = rng.random(), rng.uniform(0.7, 1.2)
        mounted = [s for s in every if rng.random() < kept]
        mounted = [replace(s, std=0.0) if rng.random() < exact else s for s in mounted]  # type: ignore[call-arg]
        again = [replace(s, name=f"{s.name}_again") for s in mounted if rng.random() < 0.5]
        layout = sensors.Layout(robot, mounted + again)
        y = np.where(rng.random(layout.size) < 0.2, np.nan, 0.0)
        q = robot.random_configuration(seed=seed)
        try:
            found = Estimation(robot, layout, backend=backend).solve(q, np.zeros(robot.nv), y)
            assert np.isfinite(found.torque.array).all() or found.undetermined()
        except ContradictionError:
            pass  # zeros without noise, against gravity
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["auto", "dense", "ltdl", "drumwright"])
@pytest.mark.finding("Z-E2")
def test_the_inverse_inertia_of_no_freedom_is_empty(
    method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """LAPACK printed 'On entry to DPOTRI', or SciPy raised 'unexpected array size'."""
    robot = KinematicTree("block", [Body("block", -1, Fixed())])
    inverse = InverseInertia(robot, method)  # type: ignore[arg-type]
    assert inverse.matrix(np.zeros(0)).shape == (0, 0)
    assert inverse.times(np.zeros(0), np.zeros((0, 2))).shape == (0, 2)
    assert capfd.readouterr() == ("", "")
