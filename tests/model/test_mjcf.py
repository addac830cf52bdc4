"""MJCF reader against MuJoCo: inverse dynamics, frames, limits, couplings, unsafe files."""

from __future__ import annotations

import builtins
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dynsys import KinematicTree, ModelError, ModelWarning, forward_kinematics, load
from dynsys.interop import MujocoMap
from dynsys.recursive import rnea
from sensors import from_mjcf

mujoco = pytest.importorskip("mujoco")

MODEL = """
<mujoco model="mixed"><compiler angle="radian"/><option gravity="0.3 -0.2 -9.5"/>
<worldbody>
  <site name="mark" pos="1 2 3"/>
  <body name="stand" pos="0 1 0" euler="0.1 0.2 0.3"><geom size="0.1" mass="1"/>
    <body name="a" pos="0.1 0 1" quat="1 0.5 0.2 0.1">
      <inertial pos="0.1 0.02 0.03" mass="2" fullinertia="0.03 0.04 0.05 0.002 0.001 -0.003"/>
      <joint name="h" axis="0 1 0.3" pos="0.1 0.2 0.3" ref="0.4" range="-1 2" armature="0.1"
             damping="1" frictionloss="2" actuatorfrcrange="-5 4"/>
      <joint name="s" type="slide" axis="1 0.2 0" ref="0.1"/>
      <joint name="h2" axis="0 0 1" pos="-0.1 0.05 0.2"/>
      <site name="sensor" pos="0.1 0.2 0.3" euler="0.3 0 0"/>
      <body pos="0.3 0 0" euler="0 0.4 0.1"><joint type="ball" pos="0.1 0.1 0"/>
        <geom type="box" size="0.1 0.2 0.3" mass="1" pos="0.05 0 0"/>
        <body name="weld" pos="0 0 0.3">
          <geom type="capsule" size="0.05 0.1" euler="1 0 0" mass="0.5"/>
          <body name="tip" pos="0 0 0.1"><joint name="t" pos="0 0.1 0"/>
            <geom size="0.05" mass="0.3" pos="0.1 0 0"/></body>
        </body>
      </body>
    </body>
  </body>
  <body name="f" pos="1 1 1"><freejoint/>
    <geom type="box" size=".1 .2 .3" pos="0.1 0.2 0" mass="3"/>
    <body pos="0 0 .5"><joint axis="1 0 0" name="fh"/><geom size=".1" pos="0 0.3 0"/></body>
  </body>
</worldbody>
<equality>
  <joint joint1="t" joint2="h2" polycoef="0.1 2 0 0 0"/>
  <weld name="glue" body1="tip" body2="f" active="{glued}"/>
</equality>
</mujoco>
"""


def write(folder: Path, text: str, name: str = "m.xml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def body_model(inside: str, before: str = "") -> str:
    return f"<mujoco>{before}<worldbody>{inside}</worldbody></mujoco>"


BALL = '<body name="b"><joint name="j"/><geom size="0.1" pos="0.2 0 0"/></body>'


def quiet(path: Path, **options: Any) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return load(path, **options)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write(tmp_path, MODEL.format(glued="false"))


def rigid(path: Path) -> tuple[Any, Any]:
    """Return MuJoCo's model and data without constraints and passive forces."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.dof_damping[:] = 0.0
    return model, mujoco.MjData(model)


def moved(
    robot: KinematicTree, convert: MujocoMap, model: Any, data: Any, rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    """Position of a random motion of ``data``, and its joint forces: ours, MuJoCo's."""
    q = robot.random_configuration(rng)
    v, a = rng.normal(size=(2, robot.nv))
    data.qpos[:] = convert.q_to_mujoco(q)
    data.qvel[:] = convert.v_to_mujoco(q, v)
    data.qacc[:] = convert.a_to_mujoco(q, v, a)
    mujoco.mj_inverse(model, data)
    return q, rnea(robot, q, v, a), convert.tau_from_mujoco(q, data.qfrc_inverse)


def test_inverse_dynamics_frames_and_mass_agree(mixed: Path) -> None:
    robot = quiet(mixed)
    model, data = rigid(mixed)
    convert = MujocoMap(robot, model)
    rng = np.random.default_rng(0)
    for _ in range(10):
        q, torque, theirs = moved(robot, convert, model, data, rng)
        np.testing.assert_allclose(torque, theirs, rtol=1e-11, atol=1e-11)
        for site in ("mark", "sensor"):
            pose = forward_kinematics(robot, q, site)
            np.testing.assert_allclose(pose.r, data.site(site).xpos, atol=1e-13)
            np.testing.assert_allclose(pose.E.T, data.site(site).xmat.reshape(3, 3), atol=1e-13)
        origin = forward_kinematics(robot, q, "tip/origin")
        np.testing.assert_allclose(origin.r, data.body("tip").xpos, atol=1e-13)
    assert robot.total_mass == pytest.approx(model.body_subtreemass[0] - 1.0)  # less the stand


def test_names_limits_and_joint_data(mixed: Path) -> None:
    robot = quiet(mixed)
    assert robot.joint_names == ("h", "s", "h2", "body3/ball0", "t", "root", "fh")
    assert robot.body_names == ("a/h", "a/s", "a", "body3", "tip", "f", "body7")
    lower, upper = robot.position_limits
    assert (lower[0], upper[0]) == (-1.0, 2.0)
    at = robot.v_slice("h").start
    assert (robot.armature[at], robot.damping[at], robot.friction[at]) == (0.1, 1.0, 2.0)
    assert robot.effort_limit[at] == 5.0
    np.testing.assert_array_equal(robot.gravity, [0.3, -0.2, -9.5])
    assert robot.frame("weld").body == robot.body_index("body3")
    assert robot.frame("stand").body == robot.frame("mark").body == -1


def test_equalities_warn_or_couple(tmp_path: Path) -> None:
    path = write(tmp_path, MODEL.format(glued="true"))
    with pytest.warns(ModelWarning) as caught:
        load(path)
    said = " ".join(str(w.message) for w in caught)
    assert "constraints equality 0, glue hold where a problem is asked for them" in said
    assert "constraints: file in a problem file" in said
    robot = quiet(path, mimic="couple")
    rule = robot.bodies[robot.joint_index("t")].coupling
    assert rule is not None
    assert (rule.leader, rule.ratio, rule.offset) == (robot.joint_index("h2"), 2.0, 0.1)


def test_gravity_of_file_argument_and_flag(tmp_path: Path) -> None:
    flag = '<option><flag gravity="disable"/></option>'
    path = write(tmp_path, body_model(BALL, flag))
    np.testing.assert_array_equal(quiet(path).gravity, np.zeros(3))
    np.testing.assert_array_equal(quiet(path, gravity=(0, 0, -1)).gravity, [0, 0, -1])


def test_floating_base(tmp_path: Path) -> None:
    welded = '<body name="w"><geom size="0.1"/>' + BALL + "</body>"
    robot = quiet(write(tmp_path, body_model(welded)), floating_base=True)
    assert robot.joint_names == ("root", "j")
    free = welded.replace("<geom", '<freejoint name="base"/><geom', 1)
    robot = quiet(write(tmp_path, body_model(free)), floating_base=True)
    assert robot.joint_names == ("base", "j")
    for wrong in (BALL, welded + BALL.replace('"b"', '"c"').replace('"j"', '"k"')):
        with pytest.raises(ModelError, match="exactly one body"):
            quiet(write(tmp_path, body_model(wrong)), floating_base=True)


def test_what_is_not_part_of_the_model_is_named(tmp_path: Path) -> None:
    spring = BALL.replace('name="j"', 'name="j" stiffness="3"')
    path = write(tmp_path, body_model(spring, '<option density="1.2"/>'))
    with pytest.warns(ModelWarning) as caught:
        load(path)
    said = " ".join(str(w.message) for w in caught)
    assert "joint springs" in said
    assert "fluid forces" in said


def test_what_mujoco_refuses_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"m\.xml: MuJoCo cannot compile it"):
        load(write(tmp_path, body_model("<body><joint/></body>")))


def test_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_mujoco(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if name == "mujoco":
            raise ImportError("No module named 'mujoco'")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without_mujoco)
    with pytest.raises(ModelError, match=r"pip install 'dynsys-robotics\[mujoco\]'"):
        load(write(tmp_path, body_model(BALL)))


# ---- files of unknown origin -----------------------------------------------------------------


def test_includes_below_the_folder_are_read(tmp_path: Path) -> None:
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "part.xml")
    path = write(tmp_path, body_model('<include file="part.xml"/>'))
    assert quiet(path).joint_names == ("j",)


def test_includes_outside_the_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "part.xml")
    inner = tmp_path / "inner"
    inner.mkdir()
    for target in ("../part.xml", str(tmp_path / "part.xml")):
        path = write(inner, body_model(f'<include file="{target}"/>'))
        with pytest.raises(ModelError, match="outside the folder"):
            load(path)


@pytest.mark.finding("K-2")
def test_files_that_include_each_other_twice_are_refused_at_once(tmp_path: Path) -> None:
    for k in range(80):
        twice = f'<include file="part{k + 1}.xml"/>' * 2
        write(tmp_path, f"<mujocoinclude>{twice}</mujocoinclude>", f"part{k}.xml")
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "part80.xml")
    path = write(tmp_path, body_model('<include file="part0.xml"/>'))
    with pytest.raises(ModelError, match="expands to more than"):
        load(path)


def test_included_files_are_checked_too(tmp_path: Path) -> None:
    write(tmp_path, '<!DOCTYPE m [<!ENTITY x "y">]><mujocoinclude/>', "part.xml")
    path = write(tmp_path, body_model(BALL + '<include file="part.xml"/>'))
    with pytest.raises(ModelError, match=r"part\.xml.*document type"):
        load(path)


def test_assets_must_be_regular_files_of_bounded_size(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    head = '<compiler meshdir="assets"/><asset><mesh name="m" file="pipe.stl"/></asset>'
    path = write(tmp_path, body_model(BALL, head))
    os.mkfifo(assets / "pipe.stl")
    with pytest.raises(ModelError, match="not a regular file"):
        load(path)
    (assets / "pipe.stl").unlink()
    (assets / "pipe.stl").write_bytes(b"0" * 2000)
    with pytest.raises(ModelError, match="larger than 1000 bytes"):
        load(path, max_bytes=1000)


# ---- what a file may leave out, and what it may not do in silence ----------------------------


def inverse(path: Path, robot: KinematicTree, seed: int) -> tuple[Any, Any]:
    """Joint forces of one random motion: ours and MuJoCo's."""
    model, data = rigid(path)
    convert, rng = MujocoMap(robot, model), np.random.default_rng(seed)
    _, ours, theirs = moved(robot, convert, model, data, rng)
    return ours, theirs


@pytest.mark.finding("item 11")
def test_armature_of_a_free_joint_is_named(tmp_path: Path) -> None:
    head = '<default><joint armature="0.5"/></default>'
    free = '<body><joint name="root" type="free"/><geom size="0.1"/></body>'
    path = write(tmp_path, body_model(free, head))
    with pytest.warns(ModelWarning, match=r"free joints root \(0\.5 kg\).*omega x v"):
        robot = load(path)
    ours, theirs = inverse(path, robot, 0)
    assert not np.allclose(ours, theirs, rtol=0.01)  # else the warning has no reason
    path = write(tmp_path, body_model('<body><freejoint/><geom size="0.1"/></body>', head))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot = load(path)
    np.testing.assert_allclose(*inverse(path, robot, 0), rtol=1e-11)


@pytest.mark.finding("Z-E4")
def test_dry_friction_of_a_free_joint_is_named(tmp_path: Path) -> None:
    head = '<default><joint frictionloss="3"/></default>'
    free = '<body name="b"><joint name="root" type="free"/><geom size="0.1"/></body>'
    path = write(tmp_path, body_model(free, head))
    named = r"frictionloss of free joints root \(3 N\).*frictionloss \* \(R\^T sign\(R v\)"
    with pytest.warns(ModelWarning, match=named):
        robot = load(path, friction="file")
    model, rng = mujoco.MjModel.from_xml_path(str(path)), np.random.default_rng(0)
    convert, data = MujocoMap(robot, model), mujoco.MjData(model)
    q, ours, theirs = moved(robot, convert, model, data, rng)
    E, v = forward_kinematics(robot, q, "b").E, convert.v_from_mujoco(q, data.qvel)
    here, there = robot.friction_torque(v)[3:], 3.0 * E @ np.sign(E.T @ v[3:])
    assert np.abs(there - here).max() > 1.0  # else the warning has no reason
    np.testing.assert_allclose(theirs - ours, [0, 0, 0, *(there - here)], atol=0.001)
    off = '<option><flag frictionloss="disable"/></option>'
    freejoint = '<body><freejoint/><geom size="0.1"/></body>'
    for text in (body_model(free, head + off), body_model(freejoint, head)):
        path.write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not load(path, friction="file").friction.any()


def test_damping_of_a_free_joint_is_the_same_in_any_axes(tmp_path: Path) -> None:
    free = '<body><joint type="free" damping="2"/><geom size="0.1"/></body>'
    path = write(tmp_path, body_model(free))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot = load(path, friction="file")
    model, rng = mujoco.MjModel.from_xml_path(str(path)), np.random.default_rng(0)
    convert, data = MujocoMap(robot, model), mujoco.MjData(model)
    _, ours, theirs = moved(robot, convert, model, data, rng)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_armature_and_damping_of_actuators_count_by_the_square_of_the_gear(
    tmp_path: Path,
) -> None:
    if not hasattr(mujoco.MjModel.from_xml_string("<mujoco/>"), "actuator_armature"):
        pytest.skip("this MuJoCo has no armature of actuators")
    motors = '<actuator><motor joint="j" gear="-3" armature="0.1" damping="0.2"/></actuator>'
    path = write(tmp_path, body_model(BALL).replace("</mujoco>", f"{motors}</mujoco>"))
    robot = quiet(path)
    np.testing.assert_allclose(robot.armature, [0.9])
    np.testing.assert_allclose(robot.damping, [1.8])
    model, _ = rigid(path)
    model.actuator_damping[:] = 0.0
    data = mujoco.MjData(model)
    data.qacc[:] = 2.0
    mujoco.mj_inverse(model, data)
    np.testing.assert_allclose(rnea(robot, [0.0], [0.0], [2.0]), data.qfrc_inverse, rtol=1e-11)
    tendon = '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
    path.write_text(path.read_text().replace("<actuator>", f"{tendon}<actuator>"))
    path.write_text(path.read_text().replace('motor joint="j"', 'motor tendon="t"'))
    with pytest.warns(ModelWarning, match="armature of actuators that drive no hinge"):
        load(path)


@pytest.mark.parametrize("flag", ["damper", "frictionloss", "constraint", "equality"])
@pytest.mark.finding("Y-33")
def test_what_a_file_switches_off_is_no_part_of_the_equations(
    tmp_path: Path, flag: str
) -> None:
    if f"mjDSBL_{flag.upper()}" not in mujoco.mjtDisableBit.__members__:
        pytest.skip("this MuJoCo has no such flag")
    pair = '<body name="a"><joint name="i" damping="3" frictionloss="2"/><geom size="0.1"/>'
    tied = '<equality><joint joint1="j" joint2="i"/></equality></mujoco>'
    off = f'<option><flag {flag}="disable"/></option>'
    text = body_model(f"{pair}{BALL}</body>", off).replace("</mujoco>", tied)
    robot = quiet(write(tmp_path, text), mimic="couple", friction="file")
    alone = flag in ("constraint", "equality")
    assert robot.nv == (2 if alone else 1)
    assert (robot.damping[0] == 0) == (flag == "damper")
    assert (robot.friction[0] == 0) == (flag in ("frictionloss", "constraint"))


@pytest.mark.finding("Y-38")
def test_negative_damping_is_none_and_named(tmp_path: Path) -> None:
    text = body_model(BALL.replace('name="j"', 'name="j" damping="-0.0132"'))
    sensor = '<sensor><jointactuatorfrc name="s" joint="j"/></sensor></mujoco>'
    path = write(tmp_path, text.replace("</mujoco>", sensor))
    with pytest.warns(ModelWarning, match="a negative damping is read as none, of joints: j"):
        robot = load(path, friction="file")
    np.testing.assert_array_equal(robot.damping, [0.0])
    with pytest.warns(ModelWarning, match="feels negative damping too"):
        assert not from_mjcf(path, robot)


@pytest.mark.finding("Y-36")
def test_bodies_and_sites_of_one_name_are_told_apart(tmp_path: Path) -> None:
    weld = '<body pos="1 0 0"><geom size="0.1"/></body><body name="body2" pos="2 0 0"/>'
    inside = (
        f'<body name="a"><joint/><geom size="0.1"/>{weld}<site name="a" pos="3 0 0"/></body>'
    )
    path = write(tmp_path, body_model(inside))
    with pytest.warns(ModelWarning, match="is the body's and not the site's, of: a"):
        robot = load(path)
    place = {name: frame.transform.r.tolist() for name, frame in robot.frames.items()}
    assert place == {
        "world": [0, 0, 0],
        "a": [0, 0, 0],
        "body2_": [1, 0, 0],
        "body2": [2, 0, 0],
    }
    assert {weld.link for weld in robot.welds.values()} == {"body2_", "body2"}


def test_damping_of_actuators_of_ball_joints_is_named(tmp_path: Path) -> None:
    if not hasattr(mujoco.MjModel.from_xml_string("<mujoco/>"), "actuator_damping"):
        pytest.skip("this MuJoCo has no damping of actuators")
    motors = '<actuator><motor joint="j" gear="1 2 3" damping="0.2"/></actuator></mujoco>'
    ball = BALL.replace('name="j"', 'name="j" type="ball"')
    path = write(tmp_path, body_model(ball).replace("</mujoco>", motors))
    with pytest.warns(ModelWarning, match="damping of actuators that drive no hinge"):
        load(path)


@pytest.mark.finding("item 12")
def test_includes_are_found_beside_the_including_file_as_by_mujoco(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = write(tmp_path, body_model('<include file="sub/a.xml"/>'))
    write(tmp_path, '<mujocoinclude><include file="b.xml"/></mujocoinclude>', "sub/a.xml")
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "sub/b.xml")
    assert quiet(path).joint_names == ("j",)
    other = BALL.replace('"j"', '"first"')
    write(tmp_path, f"<mujocoinclude>{other}</mujocoinclude>", "b.xml")
    assert quiet(path).joint_names == ("first",)


def test_the_file_that_mujoco_would_open_is_the_one_that_is_judged(tmp_path: Path) -> None:
    (tmp_path / "main" / "sub").mkdir(parents=True)
    path = write(tmp_path, body_model('<include file="sub/a.xml"/>'), "main/m.xml")
    up = '<mujocoinclude><include file="../b.xml"/></mujocoinclude>'
    write(tmp_path, up, "main/sub/a.xml")
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "main/b.xml")
    assert quiet(path).joint_names == ("j",)  # beside the including file: within the folder
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "b.xml")
    with pytest.raises(ModelError, match=r"outside the folder.*include_folder"):
        load(path)  # MuJoCo opens the one beside the main file


@pytest.mark.finding("item 12")
def test_includes_of_a_folder_that_the_caller_trusts(tmp_path: Path) -> None:
    write(tmp_path, f"<mujocoinclude>{BALL}</mujocoinclude>", "part.xml")
    (tmp_path / "inner").mkdir()
    path = write(tmp_path, body_model('<include file="../part.xml"/>'), "inner/m.xml")
    assert quiet(path, include_folder=tmp_path).joint_names == ("j",)
    with pytest.raises(ModelError, match="outside the folder"):
        quiet(path, include_folder=tmp_path / "elsewhere")


ABSENT = """<mujoco><compiler meshdir="meshes" {compiler}/>
<asset><mesh name="hull" file="hull.stl"/><texture name="wood" type="2d" file="wood.png"/>
  <material name="wood" texture="wood"/><hfield name="hill" file="hill.png" size="1 1 1 1"/>
</asset>
<worldbody><geom type="hfield" hfield="hill"/><geom type="mesh" mesh="hull"/>
  <body name="b"><joint name="j"/>{inertial}
  <geom type="mesh" mesh="hull" material="wood" {geom}/><geom size="0.1" group="1"/></body>
</worldbody>
<contact><exclude body1="world" body2="b"/></contact></mujoco>"""
STATED = '<inertial pos="0.1 0 0" mass="2" diaginertia="0.1 0.2 0.3"/>'


@pytest.mark.parametrize(
    ("compiler", "inertial", "geom"),
    [("", STATED, ""), ('inertiagrouprange="1 2"', "", ""), ("", "", 'mass="0"')],
)
@pytest.mark.finding("item 12")
def test_absent_meshes_do_no_harm_where_inertias_are_explicit(
    tmp_path: Path, compiler: str, inertial: str, geom: str
) -> None:
    text = ABSENT.format(compiler=compiler, inertial=inertial, geom=geom)
    with pytest.warns(ModelWarning, match=r"hull\.stl, hill\.png, wood\.png are absent"):
        robot = load(write(tmp_path, text))
    ball = float(4 / 3 * np.pi * 0.1**3 * 1000)
    assert robot.total_mass == pytest.approx(2.0 if inertial else ball)


@pytest.mark.parametrize(
    ("compiler", "inertial"), [("", ""), ('inertiafromgeom="true"', STATED)]
)
def test_an_absent_mesh_that_gives_an_inertia_is_named(
    tmp_path: Path, compiler: str, inertial: str
) -> None:
    text = ABSENT.format(compiler=compiler, inertial=inertial, geom="")
    with pytest.raises(ModelError, match=r"'hull\.stl' is absent.*body 'b' comes from it"):
        load(write(tmp_path, text))


def test_a_scene_whose_robot_floats_takes_floating_base(tmp_path: Path) -> None:
    table = '<body name="table"><geom size="1"/></body>'
    free = '<body name="w"><freejoint name="base"/><geom size="0.1"/>' + BALL + "</body>"
    path = write(tmp_path, body_model(table + free))
    assert quiet(path, floating_base=True).joint_names == ("base", "j")
    fixed = free.replace('<freejoint name="base"/>', "")
    toy = '<body name="toy"><freejoint/><geom size="0.1"/></body>'
    with pytest.raises(ModelError, match="exactly one body"):  # which of them shall float?
        quiet(write(tmp_path, body_model(fixed + toy)), floating_base=True)
