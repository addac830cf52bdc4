"""Fits: truth recovered, deviations that hold, outliers, physical bodies, contacts, loads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import dynsys
import sensors
from dynsys import KinematicTree, LayoutError, StateError
from dynsys.model.joints import Free, Prismatic, Revolute
from dynsys.model.parameters import inertial_values
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body
from experiments.identification import changed, correlated, motion, torque_layout
from problems import Identification
from problems.correlation import Autoregression
from problems.identification import physical as physical_module
from problems.identification.physical import nearest_physical, pseudo_inertia
from sensors import Layout
from tests.problems.identification.identification_cases import readings


@pytest.fixture(scope="module")
def arm() -> Identification:
    robot = dynsys.synthetic.random_tree(3, seed=1, joint_types=("revolute",))
    return Identification(robot, torque_layout(robot))


@pytest.fixture(scope="module")
def truth(arm: Identification) -> KinematicTree:
    return changed(arm.robot, 5)


def log(arm, truth, seed=0, seconds=6.0, noise=0.0, memory=0.0):
    """Motion and readings of the true robot; noise in parts of 0.5 N m."""
    states = motion(arm.robot, seconds, 100.0, seed)
    R = arm.sought.rows(*states)
    y = R.theta @ [truth.parameters[name] for name in arm.parameters] + R.known
    rng = np.random.default_rng(seed)
    return (*states, y + 0.5 * noise * correlated(rng, y.shape, memory))


def test_rows_of_the_truth_are_its_readings(arm, truth) -> None:
    *states, y = log(arm, truth)
    expected = readings(arm.layout, truth, tuple(states))
    assert np.abs(y - expected).max() <= 1e-10 * np.abs(expected).max()


def test_a_clean_log_gives_a_robot_that_moves_alike(arm, truth) -> None:
    fit = arm.fit(*log(arm, truth), huber=None)
    *states, y = log(arm, truth, seed=9)
    spread = y.std(axis=0)
    rms = fit.residual_rms(*states, y)
    assert list(rms) == list(arm.layout.labels)
    assert (np.array(list(rms.values())) <= 1e-3 * spread).all()
    again = readings(arm.layout, fit.robot, tuple(states))
    assert (np.abs(again - fit.predict(*states).value).max(axis=0) <= 1e-9 * spread).all()


@pytest.mark.parametrize("sought", [{"friction": ["link_1"]}, {"friction": False}])
@pytest.mark.finding("Y-28", "Y-29")
def test_the_robot_found_has_no_friction_that_the_fit_did_not_count(sought) -> None:
    robot = dynsys.synthetic.chain(3)
    stated = {f"{j}.{k}": 0.5 for j in robot.joint_names for k in ("viscous", "coulomb")}
    robot = robot.with_parameters(stated).with_friction(False)  # in the file, not counted
    part = Identification(robot, torque_layout(robot), **sought)
    states = motion(robot, 3.0, 50.0, 0)
    y = dynsys.rnea(robot, *states)
    noise = np.random.default_rng(0).normal(size=y.shape)
    fit = part.fit(*states, y + 0.01 * noise, noise="layout")
    again = dynsys.rnea(fit.robot, *states)
    assert np.abs(again - fit.predict(*states).value).max() <= 1e-9 * np.abs(y).max()
    # nor has the model that it is compared with
    assert (fit.validate(*states, y).before <= 1e-9 * np.abs(y).max()).all()


def test_what_data_cannot_tell_stays_at_the_models_value(arm, truth) -> None:
    fit = arm.fit(*log(arm, truth, noise=0.02), physical=False)
    root = arm.robot.body_names[0]  # its mass on the axis of a fixed joint moves nothing
    R = arm.sought.rows(*log(arm, truth)[:3]).theta
    unseen = [n for n, c in zip(arm.parameters, R.T, strict=True) if not c.any()]
    assert f"{root}.mass" in unseen
    for name in unseen:
        place = arm.parameters.index(name)
        given = arm.robot.parameters[name]
        assert fit.values[name] == pytest.approx(given, abs=1e-6 * fit.scale[place])
        assert fit.std[name] == pytest.approx(fit.scale[place], rel=1e-6)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_deviations_hold(arm, memory: float) -> None:
    off = []
    for case in range(12):
        truth = changed(arm.robot, 100 + case)
        fit = arm.fit(*log(arm, truth, case, 10.0, 0.05, memory))
        true = np.array([truth.parameters[name] for name in arm.parameters])
        off.append((fit.theta - true) / np.array(list(fit.std.values())))
    inside = np.abs(np.concatenate(off)) <= 2
    assert 0.92 <= inside.mean() <= 1.0
    assert np.std(np.concatenate(off)) > 0.5  # nor are they just large


def test_smooth_residuals_count_less(arm, truth) -> None:
    white = arm.fit(*log(arm, truth, 1, 10.0, 0.05))
    smooth = arm.fit(*log(arm, truth, 1, 10.0, 0.05, memory=0.95))
    assert (white.correlation_time < 2).all() and (smooth.correlation_time > 10).all()
    seen = [n for n in arm.parameters if n.endswith("coulomb")]
    assert all(smooth.std[n] > 1.5 * white.std[n] for n in seen)
    for name in seen:  # and they hold less against the model
        k = arm.parameters.index(name)
        assert smooth.information.G[k, k] < 0.3 * white.information.G[k, k]


def test_wild_readings_do_not_move_the_fit(arm, truth) -> None:
    *states, y = log(arm, truth, 2, 6.0, 0.02)
    wild = y.copy()
    wild[::37] += 20 * y.std(axis=0)
    clean, robust = arm.fit(*states, y), arm.fit(*states, wild)
    plain = arm.fit(*states, wild, huber=None)
    *new, expected = log(arm, truth, 3)
    off = [np.abs(f.predict(*new).value - expected).mean() for f in (clean, robust, plain)]
    assert off[1] < 0.5 * off[2]
    assert off[1] < 3 * off[0]


def test_bands_hold_on_other_data(arm, truth) -> None:
    fit = arm.fit(*log(arm, truth, 4, 10.0, 0.05))
    found = fit.validate(*log(arm, truth, 5, 10.0, 0.05))
    assert (found.after < 0.2 * found.before).all()
    assert (np.abs(found.inside - 0.95) < 0.04).all()


# ---- physical consistency --------------------------------------------------------------------


def test_noise_that_asks_for_impossible_bodies_is_given_possible_ones(arm, truth) -> None:
    data = log(arm, truth, 6, 2.0, 0.5)
    sizes = dict(zip(arm.parameters, 20 * arm.sought.scale, strict=True))
    free = arm.fit(*data, physical=False, sizes=sizes)
    physical = arm.fit(*data, sizes=sizes)

    def least(fit) -> float:
        tens = [fit.theta[ten] for ten in arm.sought.bodies.values()]
        return min(np.linalg.eigvalsh(pseudo_inertia(ten))[0] for ten in tens)

    assert least(free) < 0 < least(physical)
    assert (physical.theta[arm.sought.not_negative] >= 0).all()
    assert physical.robot.physical
    assert not free.robot.physical


def test_the_nearest_physical_body_beside_a_search() -> None:
    rng = np.random.default_rng(3)
    inertia = Inertia(2.0, np.array([0.1, 0.0, 0.2]), np.diag([0.02, 0.03, 0.04]))
    start = inertial_values(inertia)
    B = rng.normal(size=(30, 10))
    H = B.T @ B
    g = H @ (start + rng.normal(size=10) * [0.5, 0.2, 0.2, 0.2, *[0.1] * 6])
    scale = np.array([2.0, *[0.2] * 3, *[0.02] * 6])
    none = np.zeros(0, dtype=np.intp)
    free = np.linalg.solve(H, g)
    assert np.linalg.eigvalsh(pseudo_inertia(free))[0] < 0
    root = np.linalg.cholesky(np.linalg.inv(H))
    found = nearest_physical(free, root, scale, [np.arange(10)], none)
    assert np.linalg.eigvalsh(pseudo_inertia(found))[0] > 0
    places = np.tril_indices(4)

    def body(lower):
        L = np.zeros((4, 4))
        L[places] = lower
        P = L @ L.T
        S = P[:3, :3]
        about = np.trace(S) * np.eye(3) - S
        return np.concatenate([[P[3, 3]], P[:3, 3], about[np.triu_indices(3)]])

    def cost(lower):
        x = body(lower)
        return 0.5 * x @ H @ x - g @ x

    best = min(
        (minimize(cost, rng.normal(size=10), method="BFGS", tol=1e-10) for _ in range(6)),
        key=lambda r: r.fun,
    )
    value = 0.5 * found @ H @ found - g @ found
    assert value == pytest.approx(best.fun, rel=1e-4)


def test_both_forms_of_the_conic_problem_have_one_answer() -> None:
    rng = np.random.default_rng(4)
    scale = np.tile([2.0, *[0.2] * 3, *[0.02] * 6], 3)
    root = scale[:, None] * rng.normal(size=(30, 30)) * np.logspace(0, -2, 30)
    free = 0.3 * scale * rng.normal(size=30)
    inverse = np.linalg.inv(root / scale[:, None])
    tens, least = list(np.arange(30).reshape(3, 10)), np.zeros(0, dtype=np.intp)
    by_size, status = physical_module._solved(
        free, scale, inverse.T @ inverse, scale, tens, least
    )
    by_root, other = physical_module._solved(free, root, np.eye(30), scale, tens, least)
    assert status in ("Solved", "AlmostSolved") and other == "Solved"
    assert np.abs(inverse @ ((by_size - by_root) / scale)).max() <= 1e-3  # deviations


# ---- sensors ---------------------------------------------------------------------------------


def test_offsets_and_gains_of_sensors(arm, truth) -> None:
    robot = truth  # its masses are known: they tell the gain
    names = arm.layout.names
    ident = Identification(
        robot, Layout(robot, arm.layout.sensors), inertia=False, offset=False,
        friction=False, rotor=False, sensor_offset=[names[0]], sensor_gain=[names[1]],
    )  # fmt: skip
    assert ident.parameters == (f"{names[0]}.offset", f"{names[1]}.gain")
    *states, y = log(arm, truth, 3, 6.0, 0.02)
    y = y * [1.0, 1.4, 1.0] + [0.7, 0.0, 0.0]
    fit = ident.fit(*states, y)
    assert abs(fit.values[f"{names[0]}.offset"] - 0.7) <= 4 * fit.std[f"{names[0]}.offset"]
    assert abs(fit.values[f"{names[1]}.gain"] - 1.4) <= 4 * fit.std[f"{names[1]}.gain"] < 0.02
    assert fit.validate(*states, y).after.max() < 0.02


def test_gains_beside_parameters(arm, truth) -> None:
    last, names = arm.robot.body_names[-1], arm.layout.names
    ident = Identification(
        truth, Layout(truth, arm.layout.sensors), inertia=[last], offset=False,
        friction=False, rotor=False, sensor_gain=[names[0]],
    )  # fmt: skip
    ten = [n for n in truth.parameters if n.startswith(f"{last}.")][:10]
    heavier = truth.with_parameters({n: 1.2 * truth.parameters[n] for n in ten})
    *states, y = log(arm, heavier, 3, 10.0, 0.02)
    fit = ident.fit(*states, y * [1.3, 1.0, 1.0])
    gain = f"{names[0]}.gain"
    assert abs(fit.values[gain] - 1.3) <= 4 * fit.std[gain] < 0.2
    assert fit.validate(*states, y * [1.3, 1.0, 1.0]).after.max() < 0.02


# ---- contacts --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walker() -> KinematicTree:
    """A free body with two legs."""

    def inertia(mass: float, z: float) -> Inertia:
        return Inertia(mass, np.array([0.01, 0.02, z]), mass * np.diag([0.02, 0.03, 0.01]))

    side = (Transform(np.eye(3), np.array([0.0, y, -0.1])) for y in (0.1, -0.1))
    legs = [
        Body(f"leg{k}", 0, Revolute(np.eye(3)[k]), at, inertia(2.0, -0.2))
        for k, at in enumerate(side)
    ]
    trunk = Body("trunk", -1, Free(), Transform.identity(), inertia(6.0, 0.1))
    return KinematicTree("walker", [trunk, *legs])


def test_ground_forces_alone_tell_the_mass_of_a_floating_robot(walker: KinematicTree) -> None:
    layout = Layout(
        walker,
        [
            sensors.JointTorque("no drive", "trunk", value=0.0),
            sensors.ExternalWrench("foot0", "leg0", std=0.1),
            sensors.ExternalWrench("foot1", "leg1", std=0.1),
        ],
    )
    ident = Identification(walker, layout, sensor_offset=False)
    assert not [n for n in ident.parameters if "viscous" in n]  # no joint torque is seen
    truth = walker.with_parameters({"trunk.mass": 7.5, "leg0.mass": 2.6})
    states = motion(walker, 8.0, 50.0, 0)
    # the feet carry what the motion asks for, shared in some way
    wanted = readings(Layout(walker, [layout.sensors[0]]), truth, states)
    rng = np.random.default_rng(0)
    f_ext = np.zeros((len(wanted), 3, 6))
    f_ext[:, 1] = rng.normal(size=(len(wanted), 6))
    kin = [dynsys.jacobian(walker, q, body) for q in states[0] for body in ("leg0", "leg1")]
    for t, need in enumerate(wanted):
        J0, J1 = kin[2 * t][:, :6], kin[2 * t + 1][:, :6]
        f_ext[t, 2] = np.linalg.solve(J1.T, need - J0.T @ f_ext[t, 1])
    y = readings(layout, truth, states, f_ext)
    assert np.abs(y[:, :6]).max() < 1e-8
    noisy = y + 0.02 * rng.normal(size=y.shape) * (np.arange(18) >= 6)
    noisy[:, :6] = 0.0
    fit = ident.fit(*states, noisy)
    bodies = ("trunk", "leg0", "leg1")
    assert sum(fit.values[f"{b}.mass"] for b in bodies) == pytest.approx(12.1, abs=0.02)
    # one foot is held out: the other one and the laws tell it
    held = noisy.copy()
    held[:, 12:] = np.nan
    told = fit.predict(*states, held)
    assert np.abs(told.value[:, 12:] - y[:, 12:]).mean() < 0.2
    held[:, 6:] = np.nan
    assert np.isnan(fit.predict(*states, held).value[:, 6:]).all()


@pytest.mark.parametrize("std", [0.1, 1e-4])
@pytest.mark.finding("A-2")
def test_what_is_stated_exactly_adds_no_noise_to_predictions(
    walker: KinematicTree, std: float
) -> None:
    """No drive moves the trunk: exact, so that torques are predicted to their own noise.

    It had a deviation of 1 N m, so that bands were ten times too wide.
    """
    legs = [sensors.JointTorque(f"torque {k}", f"leg{k}", std=std) for k in range(2)]
    layout = Layout(walker, [*legs, sensors.JointTorque("no drive", "trunk", value=0.0)])
    options = {"friction": False, "rotor": False, "offset": False, "contacts": ["leg0"]}
    ident = Identification(walker, layout, inertia=["leg1"], **options)
    states = motion(walker, 8.0, 50.0, 0)
    free = dynsys.rnea(walker, *states)
    push = np.zeros((len(free), 3, 6))
    J = np.array([dynsys.jacobian(walker, q, "leg0")[:, :6] for q in states[0]])
    push[:, 1] = np.linalg.solve(np.swapaxes(J, 1, 2), free[:, :6, None])[..., 0]
    true = readings(layout, walker, states, push)
    assert np.abs(true[:, 2:]).max() < 1e-10
    y = true + std * np.random.default_rng(0).normal(size=true.shape)
    y[:, 2:] = 0.0
    fit = ident.fit(*states, y, noise="layout", physical=False)
    told = fit.predict(*states)  # the trunk tells the push
    np.testing.assert_allclose(told.std[:, :2].mean(axis=0), std, rtol=0.1)
    assert np.sqrt(np.mean((told.value - y)[:, :2] ** 2)) == pytest.approx(std, rel=0.1)
    wrong = np.full_like(y, np.nan)
    wrong[:, 0] = y[:, 0] + 1e3 * std  # leaves nothing to say where the trunk has told all
    again = fit.predict(*states, wrong)
    assert np.abs(again.value - told.value)[:, :2].max() < 1e-3 * std


def test_a_known_push_is_taken_off(arm, truth) -> None:
    robot, last = arm.robot, arm.robot.body_names[-1]
    push = (0.1, 0.0, -0.2, 3.0, -2.0, 1.0)
    known = sensors.ExternalWrench("push", last, value=push)
    layout = Layout(robot, [*arm.layout.sensors, known])
    ident = Identification(robot, layout)
    assert ident.sought.regressor.contacts == (robot.body_index(last),)
    states = motion(robot, 6.0, 100.0, 0)
    f_ext = np.zeros((len(states[0]), robot.n_bodies, 6))
    f_ext[:, -1] = push
    y = readings(layout, truth, states, f_ext)
    fit = ident.fit(*states, y)
    found = fit.validate(*states, y)
    assert (found.after < 1e-2 * found.before.max()).all()
    free = arm.fit(*states, readings(arm.layout, truth, states))  # and nothing else changes
    joint = robot.joint_names[0]
    assert fit.values[f"{joint}.viscous"] == pytest.approx(
        free.values[f"{joint}.viscous"], abs=4 * free.std[f"{joint}.viscous"] + 1e-3
    )


def test_a_plate_under_a_leg_tells_the_weight(walker: KinematicTree) -> None:
    """What is stated holds: no motor moves the trunk, so the plate carries all of the robot.

    A slow error of its moments must not make the fit believe its force any less.
    """
    layout = Layout(
        walker,
        [
            sensors.JointTorque("no drive", "trunk", value=0.0),
            *sensors.zero_external_wrench_except(walker, ["leg0"]),
            sensors.ExternalWrench("plate", "leg0", std=[1.0, 2.0]),
        ],
    )
    heavier = walker.with_parameters({"trunk.mass": 8.0, "trunk.mz": 0.8})
    q, qd, qdd = motion(walker, 6.0, 50.0, 0)
    push = np.zeros((len(q), 3, 6))
    X = np.array([dynsys.jacobian(walker, state, "leg0")[:, :6] for state in q])
    trunk = dynsys.rnea(heavier, q, qd, qdd)[:, :6]  # J^T f carries what the trunk would need
    push[:, 1] = np.linalg.solve(np.swapaxes(X, 1, 2), trunk[..., None])[..., 0]
    y = np.zeros((len(q), layout.size))
    rng = np.random.default_rng(0)
    slow = np.sin(np.arange(len(q))[:, None] / 40 + np.arange(3))
    y[:, layout.slice("plate")] = push[:, 1] + rng.normal(scale=0.3, size=(len(q), 6))
    y[:, layout.slice("plate")][:, :3] += 8.0 * slow
    fit = Identification(walker, layout, friction=False, rotor=False, offset=False).fit(
        q, qd, qdd, y
    )
    total = sum(fit.values[f"{body}.mass"] for body in walker.body_names)
    assert total == pytest.approx(12.0, abs=0.05)


def test_an_exact_reading_needs_a_deviation(walker: KinematicTree) -> None:
    layout = Layout(walker, [sensors.JointTorque("no drive", "trunk", value=0.0)])
    ident = Identification(walker, layout)
    states = motion(walker, 1.0, 50.0, 0)
    with pytest.raises(LayoutError, match=r"no drive.*std of zero"):
        ident.fit(*states, np.zeros((50, 6)), noise="layout")
    with pytest.raises(StateError, match=r"sample 3: qd\[0\]"):
        states[1][3] = np.nan
        ident.fit(*states, np.zeros((50, 6)))


@pytest.mark.finding("A-6")
def test_an_exact_reading_needs_a_deviation_wherever_the_log_begins() -> None:
    """A cart that starts at rest: no parameter had a part in its first reading."""
    inertia = Inertia(2.0, np.zeros(3), 0.1 * np.eye(3))
    cart = Body("cart", -1, Prismatic(np.eye(3)[0]), Transform.identity(), inertia)
    robot = KinematicTree("slide", [cart])
    layout = Layout(robot, [sensors.JointTorque("force", "cart", std=0.0)])
    ident = Identification(robot, layout, friction=False, rotor=False, offset=False)
    t = np.arange(200)[:, None] / 100
    states = t / 3 - np.sin(3 * t) / 9, (1 - np.cos(3 * t)) / 3, np.sin(3 * t)
    with pytest.raises(LayoutError, match=r"force.*std of zero"):
        ident.fit(*states, 2.5 * states[2], noise="layout")


# ---- payload, noise --------------------------------------------------------------------------


def test_a_payload_is_the_difference_of_two_logs(arm, truth) -> None:
    last = arm.robot.body_names[-1]
    load = inertial_values(Inertia(1.5, np.array([0.05, 0.1, 0.02]), 0.01 * np.eye(3)))
    names = [n for n in arm.parameters if n.startswith(f"{last}.")][:10]
    more = {n: truth.parameters[n] + x for n, x in zip(names, load, strict=True)}
    loaded = truth.with_parameters(more)
    empty = arm.fit(*log(arm, truth, 7, 10.0, 0.02, 0.9))
    full = arm.fit(*log(arm, loaded, 8, 10.0, 0.02, 0.9))
    found = full.payload(empty, last)
    assert abs(found.mass - 1.5) <= 3 * found.mass_std
    assert (np.abs(found.centre - [0.05, 0.1, 0.02]) <= 3 * found.centre_std).all()
    assert (np.abs(found.values - load) <= 3.5 * found.std).all()
    assert np.linalg.eigvalsh(pseudo_inertia(found.values))[0] > 0


@pytest.mark.finding("A-4")
def test_precise_readings_are_found_to_be_precise() -> None:
    """Rounding of what nothing tells was taken for noise: 57 times the true one, unsaid."""
    robot = dynsys.synthetic.random_tree(5, seed=1, joint_types=("revolute",))
    ident = Identification(robot, torque_layout(robot))
    states = motion(robot, 20.0, 100.0, 3)
    rows, rng = ident.sought.rows(*states), np.random.default_rng(0)
    true = ident.sought.model + 0.1 * ident.sought.scale * rng.normal(size=ident.sought.size)
    y = rows.theta @ true + rows.known
    for noise in (1e-2, 1e-3, 1e-4):
        fit = ident.fit(*states, y + noise * rng.normal(size=y.shape), physical=False)
        np.testing.assert_allclose(fit.noise, noise, rtol=0.1)
        assert np.sqrt(np.mean((fit.predict(*states).value - y) ** 2)) < 0.2 * noise


@pytest.mark.parametrize("physical", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-8])
@pytest.mark.finding("A-8")
def test_the_readings_of_the_model_itself_give_the_model(noise: float, physical: bool) -> None:
    """A first trial in simulation: refused as not physical, or torques 6e7 times too large."""
    for seed in (3, 8):
        kinds = None if seed == 3 else ("revolute",)
        robot = dynsys.synthetic.random_tree(5 if seed == 3 else 3, seed, kinds)
        ident = Identification(robot, torque_layout(robot))
        states = motion(robot, 10.0, 100.0, 0)
        rows = ident.sought.rows(*states)
        y = rows.theta @ ident.sought.model + rows.known
        noisy = y + noise * np.random.default_rng(0).normal(size=y.shape)
        fit = ident.fit(*states, noisy, physical=physical)
        assert np.abs(fit.predict(*states).value - y).max() < 1e-6 * np.abs(y).max()
        off = np.abs(fit.theta - ident.sought.model)
        assert (off < 4 * np.sqrt(np.diag(fit.covariance))).all()


@pytest.mark.finding("A-7")
def test_readings_that_the_log_lacks_keep_the_noise_that_is_stated(arm, truth) -> None:
    """A hundredth of it was taken, so that no band held what such a sensor reads later."""
    part = Identification(
        arm.robot, arm.layout, inertia=arm.robot.body_names[-1:], friction=False
    )
    states = motion(arm.robot, 10.0, 100.0, 0)
    rows = part.sought.rows(*states)
    y = rows.theta @ part.sought.model + rows.known
    y = y + 0.1 * np.random.default_rng(0).normal(size=y.shape)
    lacking = y.copy()
    lacking[:, -1] = np.nan
    fit = part.fit(*states, lacking)
    assert fit.noise[-1] == arm.layout.std[-1] == 0.1
    assert (fit.validate(*states, y).inside > 0.93).all()


@pytest.mark.parametrize("gaps", ["some", "most", "tenth"])
@pytest.mark.finding("A-3")
def test_deviations_hold_where_readings_are_missing(arm, gaps: str) -> None:
    """Noise that lasts, and gaps: with 80 % missing, 65 % lay within two deviations."""
    off = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        true = arm.sought.model + 0.3 * arm.sought.scale * rng.normal(size=arm.sought.size)
        states = motion(arm.robot, 20.0, 100.0, seed)
        rows = arm.sought.rows(*states)
        y = rows.theta @ true + rows.known
        y += 0.5 * correlated(rng, y.shape, 0.95)
        missing = rng.random(y.shape) < {"some": 0.5, "most": 0.8}.get(gaps, 0.0)
        if gaps == "tenth":  # one of ten is there
            missing[np.arange(len(y)) % 10 > 0] = True
        fit = arm.fit(*states, np.where(missing, np.nan, y), physical=False)
        std = np.sqrt(np.diag(fit.covariance))
        off.append(((fit.theta - true) / std)[std < 0.2 * arm.sought.scale])
    assert np.sqrt(np.mean(np.concatenate(off) ** 2)) < 1.3


def test_a_chunk_without_readings_tells_nothing(arm) -> None:
    states = [np.concatenate([x] * 4) for x in motion(arm.robot, 50.0, 100.0, 0)]
    rows = arm.sought.rows(*states)
    noise = correlated(np.random.default_rng(0), rows.known.shape, 0.9)
    y = rows.theta @ arm.sought.model + rows.known + 0.1 * noise
    y[8192:16384] = np.nan
    assert np.isfinite(arm.fit(*states, y).theta).all()


def test_scores_beside_the_double_sum() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 3)).cumsum(axis=0)
    model = Autoregression(1 / (1 - 0.81), np.array([0.9]), 1.0)
    t = np.arange(60)
    covariance = 0.9 ** np.abs(np.subtract.outer(t, t)) / (1 - 0.81)
    expected = A.T @ covariance @ A
    # a period of the transform is 120 samples: the tail of the correlation is 0.9^60
    assert np.abs(model.scores(A) - expected).max() <= 1e-2 * np.abs(expected).max()
