"""Layout: names, sizes, noise, data; and every way to get it wrong."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from dynsys import KinematicTree, LayoutError, LinearSystem, StateError, synthetic
from dynsys.errors import LayoutWarning
from dynsys.model.joints import Revolute
from dynsys.model.tree import Body
from dynsys.system.unknowns import UnknownLayout
from experiments.example_robots import robot_path, robots_folder
from problems import Estimation
from problems.robots import read_robot
from sensors import (
    AbstractSensor,
    Accelerometer,
    ExternalWrench,
    Imu,
    JointAcceleration,
    JointTorque,
    Layout,
    LoopClosure,
    all_joint_accelerations,
    all_joint_torques,
    catalogue,
    published,
    zero_external_wrench_except,
)

ROBOT = synthetic.chain(3)
JOINTS, BODIES = ROBOT.joint_names, ROBOT.body_names


def small() -> Layout:
    sensors: list[AbstractSensor] = [
        JointTorque("knee", JOINTS[1], std=2.0),
        Imu("imu", BODIES[2], std=(0.1, 0.2)),
        ExternalWrench("free", BODIES[0], value=0.0),
    ]
    return Layout(ROBOT, sensors)


def test_places_names_and_units() -> None:
    layout = small()
    assert len(layout) == 3 and layout.size == 13
    assert layout.names == ("knee", "imu", "free")
    assert dict(layout.sizes) == {"knee": 1, "imu": 6, "free": 6}
    assert layout.slice("imu") == slice(1, 7)
    assert layout.labels[:3] == ("knee.torque", "imu.ax", "imu.ay")
    assert layout.units[:5] == ("N m", "m/s^2", "m/s^2", "m/s^2", "rad/s")
    assert layout["knee"] is layout.sensors[0]
    with pytest.raises(LayoutError, match="did you mean 'knee'"):
        layout.slice("kneee")


def test_standard_deviations_per_unit_group() -> None:
    layout = small()
    np.testing.assert_allclose(layout.std, [2.0] + [0.1] * 3 + [0.2] * 3 + [0.0] * 6)
    np.testing.assert_array_equal(layout.exact, [False] * 7 + [True] * 6)


def test_covariance_with_correlations() -> None:
    a, b = Accelerometer("a", BODIES[1], std=0.5), Accelerometer("b", BODIES[2], std=0.5)
    between = 0.1 * np.eye(3)
    dense = Layout(ROBOT, [a, b], [("a", "b", between)]).covariance().toarray()
    np.testing.assert_allclose(dense[:3, 3:], between)
    np.testing.assert_allclose(dense, dense.T)
    np.testing.assert_allclose(np.diag(dense), 0.25)


@pytest.mark.parametrize(
    ("correlation", "message"),
    [
        (("a", "c", np.eye(3)), "no sensor is called 'c'"),
        (("a", "a", np.eye(3)), "one sensor"),
        (("a", "b", np.eye(2)), "3 x 3"),
        (("a", "b", 9.0 * np.eye(3)), "negative eigenvalue"),
    ],
)
def test_bad_correlations(correlation: tuple[str, str, np.ndarray], message: str) -> None:
    sensors = [Accelerometer("a", BODIES[1]), Accelerometer("b", BODIES[2])]
    with pytest.raises(LayoutError, match=message):
        Layout(ROBOT, sensors, [correlation])


def test_what_is_no_layout_is_refused_in_words() -> None:
    imu = Imu("imu", BODIES[1])
    for given in ((ROBOT, imu), ([imu], ROBOT)):
        with pytest.raises(LayoutError, match="made of a robot and a list of its sensors"):
            Layout(*given)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"put \* before a list of them"):
        Layout(ROBOT, [imu, all_joint_torques(ROBOT)])  # type: ignore[list-item]
    with pytest.raises(LayoutError, match="a correlation is"):
        Layout(ROBOT, [imu], [("imu", "imu")])  # type: ignore[list-item]
    with pytest.raises(LayoutError, match="written_on must be a robot"):
        Layout(ROBOT, [imu], written_on="robot.urdf")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [JointTorque, JointAcceleration])
def test_known_values_have_one_number_per_freedom(
    kind: type[JointTorque] | type[JointAcceleration],
) -> None:
    with pytest.raises(LayoutError, match=r"'known'.*value has 2 numbers, not 1"):
        Layout(ROBOT, [kind("known", JOINTS[1], value=[1.0, 2.0])])


def test_a_deviation_may_be_an_array_of_no_dimension() -> None:
    assert Imu("imu", BODIES[1], std=np.array(0.1)).std == 0.1  # type: ignore[arg-type]


def test_a_pair_is_correlated_once() -> None:
    sensors = [Accelerometer("a", BODIES[1]), Accelerometer("b", BODIES[2])]
    twice = [("a", "b", 0.1 * np.eye(3)), ("b", "a", 0.1 * np.eye(3))]
    with pytest.raises(LayoutError, match="twice"):
        Layout(ROBOT, sensors, twice)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"std": -1.0}, "negative"),
        ({"std": (1.0, 2.0)}, "std has 2 numbers; give one, 1"),
        ({"std": 1.0, "covariance": np.eye(3)}, "not both"),
        ({"covariance": np.eye(2)}, "3 x 3"),
        ({"covariance": np.diag([1.0, 1.0, -1.0])}, "negative eigenvalue"),
        ({"covariance": np.triu(np.ones((3, 3)))}, "not symmetric"),
        ({"xyz": (1.0, 2.0)}, "must hold 3 numbers"),
        ({"xyz": (1.0, 2.0, np.nan)}, "finite"),
        ({"rpy": "up"}, "must be a list"),
        ({"frame": "chain_body_9"}, "has no 'chain_body_9'"),
        ({"frame": 7}, "no body 7"),
        ({"name": "f(x)"}, "parentheses"),
        ({"name": ""}, "must be a name"),
    ],
)
def test_bad_parameters(arguments: dict[str, object], message: str) -> None:
    given = {"name": "a", "frame": BODIES[0]} | arguments
    with pytest.raises(LayoutError, match=message):
        Layout(ROBOT, [Accelerometer(**given)])  # type: ignore[arg-type]


def test_nearest_name_and_duplicates() -> None:
    with pytest.raises(LayoutError, match=rf"did you mean '{JOINTS[1]}'"):
        Layout(ROBOT, [JointTorque("t", JOINTS[1] + "x")])
    with pytest.raises(LayoutError, match="two sensors are called 't'"):
        Layout(ROBOT, [JointTorque("t", JOINTS[1]), JointTorque("t", JOINTS[2])])
    with pytest.raises(LayoutError, match="holds sensors"):
        Layout(ROBOT, ["knee"])  # type: ignore[list-item]
    with pytest.raises(LayoutError, match="no component 1"):
        Layout(ROBOT, [JointTorque("t", JOINTS[1], 1)])


@pytest.mark.finding("F9")
def test_a_layout_of_another_robot_is_refused_by_what_differs() -> None:
    heavier = ROBOT.with_parameters({f"{BODIES[1]}.mass": 7.0})
    for other, said in (
        (heavier, f"body '{BODIES[1]}': inertia has changed; make"),
        (ROBOT.with_gravity([0, 0, -1.6]), "gravity has changed; make"),
        (synthetic.chain(4), r"; .*; .* and \d+ more; make"),
    ):
        with pytest.raises(LayoutError, match=rf"made for another robot than .*: .*{said}"):
            small().equations(UnknownLayout(other))


# ---- data ------------------------------------------------------------------------------------


def test_pack_and_unpack() -> None:
    layout = small()
    y = layout.pack({"knee": 1.0, "imu": np.arange(6.0)})
    np.testing.assert_array_equal(y, [1.0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(layout.unpack(y)["imu"], np.arange(6.0))
    many = layout.pack({"knee": np.arange(4.0), "imu": np.ones(6), "free": np.full(6, np.nan)})
    assert many.shape == (4, 13)
    np.testing.assert_array_equal(many[:, 0], np.arange(4.0))
    assert np.isnan(many[:, 7:]).all()
    gone = layout.pack({"knee": 1.0}, missing=np.nan)
    assert np.isnan(gone[1:7]).all() and not np.isnan(gone[7:]).any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"knee": 1.0}, "no reading of sensor 'imu'.* NaN for each of its 6 numbers"),
        ({"knee": 1.0, "imu": np.ones(5)}, "must have 6 numbers"),
        ({"knee": 1.0, "imu": "x"}, "not numeric"),
        ({"knee": np.ones(3), "imu": np.ones((2, 6))}, "different numbers of samples"),
        ({"nee": 1.0, "imu": np.ones(6)}, "did you mean 'knee'"),
    ],
)
def test_bad_data(values: dict[str, object], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        small().pack(values)  # type: ignore[arg-type]


def test_y_of_a_wrong_length_is_refused() -> None:
    with pytest.raises(LayoutError, match="13 numbers"):
        small().unpack(np.zeros(12))


def test_fingerprint_sees_noise_frames_and_sensors() -> None:
    base = Layout(ROBOT, [JointTorque("t", JOINTS[0])])
    assert base.fingerprint() == Layout(ROBOT, [JointTorque("t", JOINTS[0])]).fingerprint()
    others = [
        Layout(ROBOT, [JointTorque("t", JOINTS[0], std=2.0)]),
        Layout(ROBOT, [JointTorque("t", JOINTS[1])]),
        Layout(ROBOT.with_gravity((0, 0, 1)), [JointTorque("t", JOINTS[0])]),
    ]
    assert len({layout.fingerprint() for layout in [base, *others]}) == 4


# ---- shorthands, published sets, catalogue ---------------------------------------------------


def test_shorthands(humanoid: KinematicTree) -> None:
    accelerations = all_joint_accelerations(humanoid, std=0.1, exclude=["root"])
    assert len(accelerations) == humanoid.n_bodies - 1
    torques = all_joint_torques(humanoid, std=0.5)
    assert torques[0].name == "root/torque" and torques[0].value == 0.0
    free = zero_external_wrench_except(humanoid, ["l_sole", "r_foot"])
    assert len(free) == humanoid.n_bodies - 2
    assert {"l_foot/no_contact", "r_foot/no_contact"}.isdisjoint(s.name for s in free)
    with pytest.raises(LayoutError, match="did you mean 'l_sole'"):
        zero_external_wrench_except(humanoid, ["l_soles"])
    with pytest.raises(LayoutError, match="did you mean 'l_knee'"):
        all_joint_torques(humanoid, exclude=["l_kneee"])


def rank(robot: KinematicTree, layout: Layout, seed: int, *, net_wrench: bool) -> int:
    rng = np.random.default_rng(seed)
    system = LinearSystem(robot, net_wrench=net_wrench)
    system = system.with_equations(layout.equations(system.unknowns))
    q = robot.random_configuration(rng)
    D, _ = system.assemble(q, rng.normal(size=robot.nv))
    return int(np.linalg.matrix_rank(D.toarray(), tol=1e-9))


@pytest.mark.parametrize(
    ("make", "missing"),
    [(published.sie, 1), (published.sie_friction, 0), (published.sie_friction_fy, 1)],
)
@pytest.mark.parametrize("n", [6, 8])
def test_ranks_of_the_published_sets(make: object, missing: int, n: int) -> None:
    robot = synthetic.auto_tree(n, 1, 1.5, 1)
    layout = make(robot)  # type: ignore[operator]
    assert layout.size == 7 * n
    for seed in range(3):
        assert rank(robot, layout, seed, net_wrench=True) == 26 * n - missing


def test_a_last_link_without_symmetry_makes_the_third_set_regular() -> None:
    robot = synthetic.chain(6)
    layout = published.sie_friction_fy(robot)
    assert [rank(robot, layout, k, net_wrench=True) for k in range(3)] == [26 * 6] * 3
    *others, tube = synthetic.auto_tree(6, 1, 1.5, 1).bodies
    off_plane = replace(tube.inertia, com=tube.inertia.com + np.array([0, 0, 0.1]))
    skewed = KinematicTree("skewed", [*others, replace(tube, inertia=off_plane)])
    layout = published.sie_friction_fy(skewed)
    assert [rank(skewed, layout, k, net_wrench=True) for k in range(3)] == [26 * 6] * 3


def test_published_sets_are_for_chains(humanoid: KinematicTree) -> None:
    with pytest.raises(LayoutError, match="unbranched chains"):
        published.sie(humanoid)


@pytest.mark.parametrize("name", catalogue.names())
def test_catalogue(name: str) -> None:
    """Every layout fits its robot and, but for the NAO's, determines everything."""
    about = catalogue.about(name)
    assert set(about) == {"description", "model", "floating_base", "source"}
    if "/" in about["model"] and robots_folder() is None:
        pytest.skip("example-robot-data is not installed")
    path = str(robot_path(about["model"])) if "/" in about["model"] else "example:humanoid"
    robot = read_robot(path, floating_base=about["floating_base"]).robot
    layout = catalogue.load(name, robot)
    missing = 1 if name == "nao" else 0  # the internal force between the feet
    unknowns = UnknownLayout(robot).size
    assert rank(robot, layout, 0, net_wrench=False) == unknowns - missing


def test_catalogue_files_state_their_source() -> None:
    for name in catalogue.names():
        text = (resources.files("sensors.catalogue") / f"{name}.yaml").read_text()
        assert text.startswith("#") and text.index("#   ") < text.index("about:")
    with pytest.raises(LayoutError, match="did you mean 'icub'"):
        catalogue.about("icup")


@pytest.mark.finding("item 10")
def test_one_name_is_one_name_and_not_its_letters(humanoid: KinematicTree) -> None:
    one, listed = (zero_external_wrench_except(humanoid, x) for x in ("l_sole", ["l_sole"]))
    assert one == listed
    assert len(all_joint_torques(humanoid, exclude="l_knee")) == humanoid.n_bodies - 1
    with pytest.raises(LayoutError, match="has no body or frame 'FL_foot'"):
        zero_external_wrench_except(humanoid, "FL_foot")


@pytest.mark.finding("item 10")
def test_parts_whose_names_hold_parentheses_have_groups_and_repairs() -> None:
    inertia = ROBOT.bodies[0].inertia
    foot = Body("foot (left)", -1, Revolute(), inertia=inertia, joint_name="knee (left)")
    robot = KinematicTree("r", [foot])
    layout = Layout(
        robot,
        [
            *all_joint_torques(robot, std=1.0),
            *all_joint_accelerations(robot, std=1.0),
            *zero_external_wrench_except(robot),
        ],
    )
    assert layout.names[0] == "knee [left]/torque"
    assert layout.names[2] == "foot [left]/no_contact"
    bare = Layout(robot, zero_external_wrench_except(robot))
    assert "knee [left]/added" in str(Estimation(robot, bare).verdict().to_json())


@pytest.mark.finding("item 5")
def test_the_free_joint_has_no_encoder(humanoid: KinematicTree) -> None:
    names = [s.name for s in all_joint_accelerations(humanoid, std=0.1, free=False)]
    assert "root/acceleration" not in names and len(names) == humanoid.n_bodies - 1
    names = [s.name for s in all_joint_accelerations(humanoid, std=0.1, free=True)]
    assert names[0] == "root/acceleration"
    with pytest.warns(LayoutWarning, match="free joint 'root'.* no encoder measures"):
        assert [s.name for s in all_joint_accelerations(humanoid, std=0.1)] == names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        all_joint_accelerations(ROBOT)
        all_joint_accelerations(humanoid, exclude=["root"])
        all_joint_accelerations(humanoid, free=True)


@pytest.mark.finding("item 5")
def test_deviations_that_are_assumed_are_said(tmp_path: Path) -> None:
    silent = Accelerometer("acc", BODIES[0])
    stated = JointTorque("torque", JOINTS[0], std=0.1)
    known = ExternalWrench("free", BODIES[1], value=[0.0] * 6)
    with pytest.warns(LayoutWarning, match="^sensors acc give no std: 1 is assumed"):
        layout = Layout(ROBOT, [silent, stated, known])
    assert layout.assumed == ("acc",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Layout(ROBOT, [stated, known])
        Layout(ROBOT, [silent], quiet=True)
        pickle.loads(pickle.dumps(layout))
    layout.save(tmp_path / "layout.yaml")
    with pytest.warns(LayoutWarning, match=r"layout\.yaml, line 2: sensors acc give no std"):
        Layout.load(tmp_path / "layout.yaml", ROBOT)


def test_a_known_value_of_several_numbers_needs_no_data() -> None:
    value = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    layout = Layout(ROBOT, [ExternalWrench("push", BODIES[0], value=value)])
    np.testing.assert_array_equal(layout.pack({}), value)


@pytest.mark.finding("item 5")
def test_masked_readings_are_missing() -> None:
    layout = Layout(ROBOT, [Accelerometer("acc", BODIES[0], std=1.0)])
    reading = np.ma.masked_array([[1.0, 2.0, 3.0]] * 2, mask=[[0, 1, 0], [0, 0, 0]])
    y = layout.pack({"acc": reading})
    np.testing.assert_array_equal(np.isnan(y), reading.mask)
    whole = np.ma.masked_array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(layout.pack({"acc": whole}), [1, 2, 3])


def test_estimates_go_without_masked_readings_and_refuse_masked_states() -> None:
    sensors: list[AbstractSensor] = [
        *all_joint_torques(ROBOT, std=1.0),
        *all_joint_accelerations(ROBOT, std=1.0),
        *zero_external_wrench_except(ROBOT),
    ]
    layout = Layout(ROBOT, sensors)
    problem = Estimation(ROBOT, layout)
    y = layout.pack({s.name: 1.0 for s in sensors[:6]})
    masked = np.ma.masked_array(
        np.where(np.arange(len(y)) == 1, 1e3, y), np.arange(len(y)) == 1
    )
    y[1] = np.nan
    q = np.zeros(3)
    one = problem.solve(q, q, masked).torque.array
    np.testing.assert_array_equal(one, problem.solve(q, q, y).torque.array)
    many = problem.solve_batch(q[None], q[None], masked[None]).torque.array
    np.testing.assert_allclose(many[0], one, rtol=1e-12)
    wrong = np.ma.masked_array(q, [False, True, False])
    with pytest.raises(StateError, match=r"q\[1\].* is nan"):
        problem.solve(wrong, q, y)
    with pytest.raises(StateError):
        problem.solve_batch(wrong[None], q[None], y[None])


def test_groups_take_a_deviation_per_joint() -> None:
    robot = synthetic.chain(2)
    first, second = robot.joint_names
    group = all_joint_torques(robot, std={first: 0.1, second: 0.3})
    assert [sensor.std for sensor in group] == [0.1, 0.3]
    with pytest.raises(LayoutError, match=f"but not for '{second}'; add it, or exclude it"):
        all_joint_accelerations(robot, std={first: 0.1})
    with pytest.raises(LayoutError, match="'link_9', which has no sensor in this group"):
        zero_external_wrench_except(robot, std={"link_9": 0.1})


@pytest.mark.parametrize(
    "noise", [{}, {"std": 0.0}, {"std": (0.0, 0.0)}, {"covariance": np.zeros((2, 2))}]
)
@pytest.mark.finding("E-9")
def test_loops_without_noise_are_closed_however_that_is_said(noise) -> None:
    robot = synthetic.chain(4)
    loop = LoopClosure("loop", "link_1", "link_4", ("x", "y"), **noise)
    assert [held.name for held in Layout(robot, [loop]).loops] == ["loop"]
    assert not Layout(robot, [replace(loop, std=0.1, covariance=None)]).loops
