"""URDF reader: every file of example-robot-data, joints, fixed links, mimics, inertias."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from dynsys import ModelError, ModelWarning, load
from tests.model.urdf_text import LIMIT, UNIT, joint, link, quiet, write
from tests.robots import all_urdf_files, robot_path

DEFECTS = {
    "romeo_description/urdf/romeo_laas_small.urdf": "not positive definite",
    "ur_description/urdf/ur3.urdf": "no link",
}
"""Files with a real defect, and what the error must say."""

WITHOUT_JOINTS = {
    "hector_description/robots/quadrotor_base.urdf",
    "iris_description/robots/iris_simple.urdf",
}
"""Files of one rigid body: a robot only on a floating base."""


# ---- real robots -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("floating_base", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("file", all_urdf_files())
def test_every_file_is_read_like_pinocchio_or_its_defect_named(
    file: str, floating_base: bool
) -> None:
    pin = pytest.importorskip("pinocchio")
    path = robot_path(file)
    expected = DEFECTS.get(file)
    if file in WITHOUT_JOINTS and not floating_base:
        expected = "no moving body"
    if expected is not None:
        with pytest.raises(ModelError, match=expected) as caught:
            quiet(path, floating_base=floating_base)
        assert str(path) in str(caught.value)
        return
    robot = quiet(path, floating_base=floating_base)
    base = [pin.JointModelFreeFlyer()] if floating_base else []
    model = pin.buildModelFromUrdf(str(path), *base)
    names = ["root_joint" if name == "root" else name for name in robot.joint_names]
    assert names == list(model.names)[1:]
    assert robot.total_mass == pytest.approx(pin.computeTotalMass(model), rel=1e-12)
    assert robot.nv == model.nv
    np.testing.assert_array_equal(robot.parent, np.array(list(model.parents)[1:]) - 1)
    for i, body in enumerate(robot.bodies):
        theirs = model.inertias[i + 1]
        np.testing.assert_allclose(body.inertia.about_com, theirs.inertia, rtol=0, atol=1e-12)
    for frame in model.frames:
        if frame.type.name in ("BODY", "FIXED_JOINT") and frame.name != "universe":
            ours = robot.frame(frame.name)
            assert ours.body == frame.parentJoint - 1
            np.testing.assert_allclose(
                ours.transform.r, frame.placement.translation, atol=1e-12
            )
            np.testing.assert_allclose(ours.transform.E.T, frame.placement.rotation, atol=1e-12)


def test_there_are_69_files() -> None:
    if not all_urdf_files():
        pytest.skip("example-robot-data is not installed")
    assert len(all_urdf_files()) == 69


# ---- what is read ----------------------------------------------------------------------------


def test_joint_types_limits_and_dynamics(tmp_path: Path) -> None:
    dynamics = '<dynamics damping="0.5" friction="0.25" armature="0.125"/>'
    path = write(
        tmp_path,
        *(link(name) for name in ("base", "a", "b", "c", "d", "e")),
        joint("1", "base", "a", "revolute", f'{LIMIT}{dynamics}<axis xyz="0 0 2"/>'),
        joint("2", "a", "b", "continuous", LIMIT),
        joint("3", "b", "c", "prismatic", '<axis xyz="1 1 0"/>'),
        joint("4", "c", "d", "planar", '<axis xyz="0 0 1"/>'),
        joint("5", "d", "e", "floating", ""),
    )
    with pytest.warns(ModelWarning, match="not part of the equations of motion"):
        robot = load(path)
    kinds = [j.kind for j in robot.joints]
    assert kinds == ["revolute", "revolute", "prismatic", "planar", "free"]
    assert (robot.nq, robot.nv) == (13, 12)
    lower, upper = robot.position_limits
    np.testing.assert_array_equal(lower[:3], [-1, -np.inf, -np.inf])
    np.testing.assert_array_equal(upper[:3], [2, np.inf, np.inf])
    np.testing.assert_array_equal(robot.effort_limit[:3], [3, 3, np.inf])
    np.testing.assert_array_equal(robot.velocity_limit[:3], [4, 4, np.inf])
    assert (robot.damping[0], robot.friction[0], robot.armature[0]) == (0.5, 0.25, 0.125)
    np.testing.assert_array_equal(robot.joints[0].S[:, 0], [0, 0, 1, 0, 0, 0])


def test_fixed_joints_are_folded_and_their_frames_kept(tmp_path: Path) -> None:
    up = '<origin xyz="0 0 1" rpy="0 0 1.5707963267948966"/>'
    path = write(
        tmp_path,
        *(link(name) for name in ("world", "stand", "a", "tool", "tip")),
        joint("bolt", "world", "stand", "fixed", up),
        joint("j", "stand", "a", "revolute", LIMIT),
        joint("flange", "a", "tool", "fixed", up),
        joint("tip", "tool", "tip", "fixed", up),
    )
    robot = quiet(path)
    assert robot.body_names == ("a",)
    assert robot.total_mass == 3.0
    assert (
        robot.frame("world").body == robot.frame("stand").body == robot.frame("bolt").body == -1
    )
    assert robot.frame("flange") == robot.frame("tool")
    tip = robot.frame("tip")
    assert tip.body == 0
    np.testing.assert_allclose(tip.transform.r, [0, 0, 2])
    np.testing.assert_array_equal(tip.transform.E, np.diag([-1.0, -1.0, 1.0]))
    np.testing.assert_allclose(robot.bodies[0].inertia.com, [-0.1 / 3, 0.0, 1.0], atol=1e-15)
    np.testing.assert_allclose(robot.bodies[0].placement.r, [0, 0, 1])


def test_floating_base_puts_the_root_link_on_the_joint_root(tmp_path: Path) -> None:
    path = write(tmp_path, link("world"), link("a"), joint("j", "world", "a"))
    robot = quiet(path, floating_base=True)
    assert robot.joint_names == ("root", "j")
    assert robot.body_names == ("world", "a")
    assert robot.total_mass == 2.0
    assert robot.q_slice("root") == slice(0, 7)


def test_link_without_inertial_is_massless_and_a_massless_leaf_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, link("base"), link("a", ""), joint("j", "base", "a"))
    with pytest.warns(ModelWarning, match="moving bodies a have no inertia"):
        robot = load(path)
    assert robot.total_mass == 0.0


def test_rotational_inertia_without_mass_is_used_and_named(tmp_path: Path) -> None:
    rotor = f'<inertial><mass value="0"/>{UNIT}</inertial>'
    path = write(tmp_path, link("base"), link("a", rotor), joint("j", "base", "a"))
    with pytest.warns(ModelWarning, match="a have no mass but a rotational inertia"):
        robot = load(path)
    np.testing.assert_array_equal(robot.bodies[0].inertia.about_com, np.eye(3))


def test_rotor_inertia_in_a_transmission_is_named(tmp_path: Path) -> None:
    drive = '<transmission><joint name="j"/><x:rotor_inertia value="1"/></transmission>'
    path = write(tmp_path, link("base"), link("a"), joint("j", "base", "a"), drive)
    with pytest.warns(ModelWarning, match=r"joints j are not read; .*with_armature"):
        load(path)


def test_gravity_and_the_warning_points_at_the_caller(tmp_path: Path) -> None:
    path = write(tmp_path, link("base"), link("a", ""), joint("j", "base", "a"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = load(path, gravity=(0, 0, -1.62))
    assert [w.filename for w in caught] == [__file__]
    np.testing.assert_array_equal(robot.gravity, [0, 0, -1.62])


# ---- mimic -----------------------------------------------------------------------------------


def follower(leader: str, multiplier: float, offset: float) -> str:
    return f'{LIMIT}<mimic joint="{leader}" multiplier="{multiplier}" offset="{offset}"/>'


def chain_of_mimics(folder: Path, leader_of_j1: str = "") -> Path:
    return write(
        folder,
        *(link(name) for name in ("base", "a", "b", "c")),
        joint("j1", "base", "a", extra=leader_of_j1 or LIMIT),
        joint("j2", "a", "b", extra=follower("j1", 2, 0.5)),
        joint("j3", "b", "c", extra=follower("j2", -3, 0.25)),
    )


def test_mimic_joints_are_independent_with_one_warning(tmp_path: Path) -> None:
    with pytest.warns(
        ModelWarning, match="mimic joints j2, j3 are read as independent"
    ) as seen:
        robot = load(chain_of_mimics(tmp_path))
    assert len(seen) == 1
    assert robot.nv == 3


def test_mimic_joints_are_coupled_to_the_final_leader(tmp_path: Path) -> None:
    robot = quiet(chain_of_mimics(tmp_path), mimic="couple")
    assert robot.nv == 1
    rules = [body.coupling for body in robot.bodies]
    assert rules[0] is None
    assert rules[1] is not None and rules[2] is not None
    assert (rules[1].leader, rules[1].ratio, rules[1].offset) == (0, 2.0, 0.5)
    assert (rules[2].leader, rules[2].ratio, rules[2].offset) == (0, -6.0, -1.25)


def test_ring_of_mimics(tmp_path: Path) -> None:
    path = chain_of_mimics(tmp_path, follower("j3", 1, 0))
    with pytest.raises(ModelError, match="follows itself"):
        quiet(path, mimic="couple")


@pytest.mark.parametrize(("leader", "reason"), [("no", "does not exist"), ("f", "is fixed")])
def test_mimic_of_no_moving_joint(tmp_path: Path, leader: str, reason: str) -> None:
    path = write(
        tmp_path,
        *(link(name) for name in ("base", "a", "b")),
        joint("f", "base", "b", "fixed", ""),
        joint("j", "base", "a", extra=follower(leader, 1, 0)),
    )
    assert quiet(path).nv == 1
    with pytest.raises(ModelError, match=f"name='j'.*{reason}"):
        quiet(path, mimic="couple")


# ---- unphysical inertias ---------------------------------------------------------------------

LONG = '<inertia ixx="1" iyy="1" izz="3" ixy="0" ixz="0" iyz="0"/>'
SADDLE = '<inertia ixx="1" iyy="1" izz="-0.5" ixy="0" ixz="0" iyz="0"/>'


def one_joint(folder: Path, moments: str, extra: str = "") -> Path:
    inertial = f'<inertial><mass value="1"/>{moments}</inertial>'
    return write(folder, link("base"), link("a", inertial), joint("j", "base", "a"), extra)


def test_triangle_inequality_warns_or_raises(tmp_path: Path) -> None:
    path = one_joint(tmp_path, LONG)
    with pytest.warns(ModelWarning, match=r"a \(principal moments 1, 1, 3 break"):
        robot = load(path)
    assert not robot.physical
    with pytest.raises(ModelError, match=r"triangle inequality.*inertia='warn'"):
        load(path, inertia="strict")


def test_indefinite_inertia_is_an_error_on_a_body_and_a_warning_on_a_welded_link(
    tmp_path: Path,
) -> None:
    with pytest.raises(ModelError, match=r"link 'a'.*not positive definite.*inertia='any'"):
        load(one_joint(tmp_path, SADDLE))
    welded = link("w", f'<inertial><mass value="1"/>{SADDLE}</inertial>')
    path = one_joint(tmp_path, UNIT, welded + joint("f", "a", "w", "fixed", ""))
    with pytest.warns(ModelWarning, match="w .*not positive definite"):
        load(path)


@pytest.mark.finding("item 12")
def test_indefinite_inertia_is_read_on_request_and_judged_with_what_is_welded_to_it(
    tmp_path: Path,
) -> None:
    path = one_joint(tmp_path, SADDLE)
    with pytest.warns(ModelWarning, match=r"a .*not positive definite"):
        assert load(path, inertia="any").bodies[0].inertia.about_com[2, 2] == -0.5
    welded = link("w", f'<inertial><mass value="1"/>{SADDLE}</inertial>')
    path = one_joint(tmp_path, SADDLE, welded + joint("f", "a", "w", "fixed", ""))
    with pytest.raises(ModelError, match=r"link 'a'.*principal moment -1\)"):
        quiet(path)


@pytest.mark.finding("item 7")
def test_moments_that_are_negative_by_their_last_digit_only_warn(tmp_path: Path) -> None:
    rounded = '<inertia ixx="1e-3" iyy="1e-3" izz="-1e-8" ixy="0" ixz="0" iyz="0"/>'
    with pytest.warns(ModelWarning, match="a .*principal moment -1e-08"):
        load(one_joint(tmp_path, rounded))


@pytest.mark.finding("item 11")
def test_products_of_inertia_that_are_not_given_are_named(tmp_path: Path) -> None:
    path = one_joint(tmp_path, '<inertia ixx="1" iyy="1" izz="1" ixy="0.1"/>')
    with pytest.warns(ModelWarning, match="not given are read as 0, of links: a$"):
        robot = load(path)
    np.testing.assert_array_equal(robot.bodies[0].inertia.about_com[0], [1, 0.1, 0])


# ---- what other programs write ---------------------------------------------------------------


@pytest.mark.finding("item 12")
def test_limits_that_make_no_sense_are_none_and_share_a_warning(tmp_path: Path) -> None:
    crossed = '<limit lower="1" upper="-1" effort="-1" velocity="-2"/>'
    path = write(
        tmp_path,
        *(link(name) for name in ("base", "a", "b")),
        joint("j", "base", "a", extra=crossed),
        joint("k", "a", "b", extra=crossed),
    )
    with pytest.warns(ModelWarning) as caught:
        robot = load(path)
    said = [str(w.message).partition(": ")[2] for w in caught]
    assert said == [
        "a negative effort limit is read as none, of joints: j, k",
        "a negative velocity limit is read as none, of joints: j, k",
        "a lower limit above the upper one is read as none, of joints: j, k",
    ]
    for limit in (*robot.position_limits, robot.effort_limit, robot.velocity_limit):
        assert np.isinf(limit).all()


def test_a_velocity_limit_of_zero_is_none_and_named(tmp_path: Path) -> None:
    """Exporters write it; motions for identification stood still. No effort is passive."""
    limit = '<limit lower="-1" upper="1" effort="0" velocity="0"/>'
    path = write(tmp_path, link("base"), link("a"), joint("j", "base", "a", extra=limit))
    with pytest.warns(ModelWarning, match="a zero velocity limit is read as none.*joints: j$"):
        robot = load(path)
    assert np.isinf(robot.velocity_limit).all() and (robot.effort_limit == 0).all()


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((None,), {}, "the path of a robot file is wanted, got None"),
        ((b"r.urdf",), {}, "the path of a robot file is wanted"),
        (("r.urdf",), {"floating_base": "no"}, "floating_base is True or False, got 'no'"),
        (("r.urdf",), {"lock": ["j"]}, r"lock maps names of joints .*, got \['j'\]"),
    ],
)
@pytest.mark.finding("Y-39")
def test_arguments_of_load_that_are_none(arguments, options, said) -> None:
    with pytest.raises(ModelError, match=said):
        load(*arguments, **options)


@pytest.mark.finding("Y-32")
def test_limits_without_room_are_none_and_named(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        *(link(name) for name in ("base", "a", "b")),
        joint("j", "base", "a", extra='<limit effort="9" velocity="8"/>'),
        joint("k", "a", "b", extra='<limit lower="0.5" upper="0.5" effort="9" velocity="8"/>'),
    )
    with pytest.warns(ModelWarning, match=r"lower = upper; 0 where not given.*joints: j, k$"):
        robot = load(path)
    assert np.isinf(robot.position_limits).all()
    assert np.abs(robot.random_configuration(0)).min() > 0.01


@pytest.mark.finding("Y-37")
def test_springs_and_gravity_that_are_no_part_of_the_model_are_named(tmp_path: Path) -> None:
    spring = '<dynamics damping="0" K="7000" mu_viscous="16" mu_coulomb="0"/>'
    path = write(
        tmp_path,
        *(link(name) for name in ("base", "a", "b")),
        joint("j", "base", "a", extra=spring),
        joint("k", "a", "b", extra=spring),
        '<gazebo reference="a"><turnGravityOff>true</turnGravityOff></gazebo>',
        '<gazebo reference="b"><gravity>0</gravity><turnGravityOff>0</turnGravityOff></gazebo>',
        '<gazebo reference="k"><springStiffness>10</springStiffness></gazebo>',
        '<gazebo reference="j"><springStiffness>0.0</springStiffness></gazebo>',
    )
    with pytest.warns(ModelWarning) as caught:
        load(path)
    assert {str(w.message).partition(": ")[2] for w in caught} == {
        "K, mu_viscous of <dynamics> is no part of the model, of joints: j, k",
        "gravity acts on all links, though <gazebo> has it off, of: a, b",
        "<springStiffness> of <gazebo> is no part of the model, of: k",
    }


@pytest.mark.parametrize(("tag", "kind"), [("joint", "spherical"), ("drake:joint", "ball")])
@pytest.mark.finding("item 12")
def test_ball_joints_of_bullet_and_drake(tmp_path: Path, tag: str, kind: str) -> None:
    ball = joint("b", "base", "a", kind, '<dynamics damping="0.1"/>').replace("joint", tag, 1)
    path = write(tmp_path, link("base"), link("a"), ball.replace("</joint>", f"</{tag}>"))
    robot = quiet(path)
    assert (robot.nq, robot.nv) == (4, 3)
    np.testing.assert_array_equal(robot.damping, 0.1)


@pytest.mark.finding("item 12")
def test_a_robot_that_floats_already_gets_no_second_free_joint(tmp_path: Path) -> None:
    parts = [
        *(link(name) for name in ("base", "stand", "a", "b")),
        joint("weld", "base", "stand", "fixed", ""),
        joint("free", "stand", "a", "floating", ""),
        joint("j", "a", "b"),
    ]
    assert quiet(write(tmp_path, *parts), floating_base=True).joint_names == ("free", "j")
    arm = joint("k", "base", "c") + link("c")
    robot = quiet(write(tmp_path, *parts, arm), floating_base=True)
    assert robot.joint_names == ("root", "k", "free", "j")


def test_a_floating_base_needs_the_name_of_its_joint(tmp_path: Path) -> None:
    path = write(tmp_path, link("base"), link("a"), joint("root", "base", "a"))
    assert quiet(path).joint_names == ("root",)
    with pytest.raises(ModelError, match="<joint name='root'>: floating_base=True adds"):
        quiet(path, floating_base=True)


@pytest.mark.finding("item 12")
def test_white_space_before_the_declaration_keeps_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    content = '\n \n<?xml version="1.0"?>\n<robot name="r">\n<link/></robot>'
    path.write_text(content)
    with pytest.raises(ModelError, match="line 5, <link>: attribute 'name' is missing"):
        load(path)


@pytest.mark.finding("item 12")
def test_what_xacro_left_where_no_robot_is_read_does_no_harm(tmp_path: Path) -> None:
    shape = '<visual><geometry><mesh filename="$(find robot)/a.stl"/></geometry></visual>'
    path = write(
        tmp_path,
        '<xacro:property name="m" value="1"/>',
        link("base"),
        f'<link name="a">{shape}</link>',
        joint("j", "base", "a"),
        '<sensor name="${prefix}imu" type="imu"/>',
    )
    with pytest.warns(ModelWarning, match="definitions xacro:property of xacro are not read"):
        assert load(path).joint_names == ("j",)


def test_quaternions_of_urdf_1_1_turn_like_roll_pitch_yaw(tmp_path: Path) -> None:
    half = np.sqrt(0.5)
    turned = []
    for rotation in ('rpy="0 0 1.5707963267948966"', f'quat_xyzw="0 0 {half} {half}"'):
        origin = f'<origin xyz="1 2 3" {rotation}/>'
        path = write(tmp_path, link("base"), link("a"), joint("j", "base", "a", extra=origin))
        turned.append(quiet(path).bodies[0].placement)
    np.testing.assert_allclose(turned[0].E, turned[1].E, atol=1e-15)
