"""Spatial algebra against plain (6, 6) matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from dynsys.model.spatial import (
    Inertia,
    Transform,
    cross,
    cross_force,
    cross_motion,
    matrix_pattern,
    quaternion_to_rotation,
    rotation_about,
    rotation_from_rpy,
    skew,
)
from dynsys.model.synthetic import cloud_inertia, random_rotation
from tests import oracles
from tests.strategies import seeds

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def random_transform(rng: np.random.Generator) -> Transform:
    return Transform(random_rotation(rng), rng.normal(size=3))


@given(seeds)
def test_transform_acts_as_its_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, vector = random_transform(rng), rng.normal(size=6)
    assert_allclose(X.matrix(), oracles.motion_matrix(oracles.pose(X.E.T, X.r)), **CLOSE)
    assert_allclose(X.motion(vector), X.matrix() @ vector, **CLOSE)
    assert_allclose(X.force_back(vector), X.matrix().T @ vector, **CLOSE)


@given(seeds)
def test_composition_and_inverse_are_those_of_the_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, B, C = (random_transform(rng) for _ in range(3))
    assert_allclose(A.then(B).matrix(), B.matrix() @ A.matrix(), **CLOSE)
    assert_allclose(A.then(B).then(C).matrix(), A.then(B.then(C)).matrix(), **CLOSE)
    assert_allclose(A.inverse().matrix(), np.linalg.inv(A.matrix()), **CLOSE)
    assert_allclose(A.then(A.inverse()).matrix(), np.eye(6), **CLOSE)
    assert_allclose(A.then(Transform.identity()).matrix(), A.matrix(), **CLOSE)


@given(seeds)
def test_point_goes_from_b_to_a(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, p = random_transform(rng), rng.normal(size=3)
    assert_allclose(X.point(p), (oracles.pose(X.E.T, X.r) @ [*p, 1.0])[:3], **CLOSE)


@given(seeds)
def test_power_does_not_depend_on_the_frame(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, v, f = random_transform(rng), rng.normal(size=6), rng.normal(size=6)
    assert_allclose(f @ X.motion(v), X.force_back(f) @ v, **CLOSE)


@given(seeds)
def test_cross_operators_act_as_their_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, m = rng.normal(size=6), rng.normal(size=6)
    assert_allclose(cross(v[:3], m[:3]), np.cross(v[:3], m[:3]), **CLOSE)
    assert_allclose(skew(v[:3]), oracles.skew_matrix(v[:3]), **CLOSE)
    assert_allclose(cross_motion(v, m), oracles.motion_cross(v) @ m, **CLOSE)
    assert_allclose(cross_force(v, m), -oracles.motion_cross(v).T @ m, **CLOSE)
    assert_allclose(cross_motion(v, v), np.zeros(6), **CLOSE)


@given(seeds)
def test_cross_products_transform_like_vectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, v, m = random_transform(rng), rng.normal(size=6), rng.normal(size=6)
    assert_allclose(
        X.motion(cross_motion(v, m)), cross_motion(X.motion(v), X.motion(m)), **CLOSE
    )


@given(seeds)
def test_inertia_changes_frame_by_congruence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inertia, X = cloud_inertia(rng), random_transform(rng)
    expected = X.matrix().T @ inertia.matrix() @ X.matrix()
    assert_allclose(inertia.seen_from(X).matrix(), expected, **CLOSE)


@given(seeds)
def test_welded_inertias_add(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = cloud_inertia(rng), cloud_inertia(rng)
    assert_allclose(a.plus(b).matrix(), a.matrix() + b.matrix(), **CLOSE)
    assert_allclose(a.plus(Inertia.zero()).matrix(), a.matrix(), **CLOSE)


def test_two_massless_bodies_add_to_a_massless_one() -> None:
    assert_allclose(Inertia.zero().plus(Inertia.zero()).matrix(), np.zeros((6, 6)))


@given(seeds)
def test_kinetic_energy_is_that_of_the_centre_of_mass_and_the_rotation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inertia, v = cloud_inertia(rng), rng.normal(size=6)
    at_com = v[3:] + np.cross(v[:3], inertia.com)
    expected = inertia.mass * at_com @ at_com + v[:3] @ inertia.about_com @ v[:3]
    assert_allclose(v @ inertia.matrix() @ v, expected, **CLOSE)


@given(seeds)
def test_rotations_are_the_inverse_of_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axis, angle, rpy = rng.normal(size=3), rng.uniform(-7, 7), rng.uniform(-4, 4, 3)
    axis /= np.linalg.norm(axis)
    turned = Rotation.from_rotvec(axis * angle)
    E = rotation_about(axis, np.cos(angle), np.sin(angle))
    assert_allclose(E, turned.as_matrix().T, **CLOSE)
    assert_allclose(quaternion_to_rotation(turned.as_quat()), turned.as_matrix().T, **CLOSE)
    assert_allclose(
        rotation_from_rpy(rpy), Rotation.from_euler("xyz", rpy).as_matrix().T, **CLOSE
    )


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_rotation_about_a_frame_axis_has_exact_zeros_and_ones(k: int, sign: float) -> None:
    E = rotation_about(sign * np.eye(3)[k], np.cos(0.3), np.sin(0.3))
    assert_allclose(E, Rotation.from_rotvec(0.3 * sign * np.eye(3)[k]).as_matrix().T, **CLOSE)
    assert np.count_nonzero(E) == 5
    assert E[k, k] == 1.0


def test_quarter_turns_by_roll_pitch_yaw_have_exact_zeros() -> None:
    E = rotation_from_rpy(np.array([np.pi / 2, -np.pi, np.pi / 2]))
    assert set(np.abs(E).ravel()) == {0.0, 1.0}


def test_matrix_pattern_covers_the_matrix_and_no_more() -> None:
    E = rotation_about(np.array([0.0, 0.0, 1.0]), 0.6, 0.8)
    X = Transform(E, np.array([0.0, 0.7, 0.0]))
    np.testing.assert_array_equal(matrix_pattern(E != 0, X.r != 0), X.matrix() != 0)


def test_extended_precision_survives() -> None:
    q = np.array([0.1], dtype=np.longdouble)
    E = rotation_about(np.array([0.6, 0.0, 0.8]), np.cos(q[0]), np.sin(q[0]))
    X = Transform(E, np.zeros(3))
    assert X.motion(np.ones(6, dtype=np.longdouble)).dtype == np.longdouble
    assert float(np.abs(E @ E.T - np.eye(3)).max()) < 1e-15
