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

from dynsys.errors import ModelError, ModelWarning
from dynsys.interop import MujocoMap
from dynsys.model.readers import load
from dynsys.model.tree import KinematicTree
from dynsys.recursive import forward_kinematics, rnea

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


def test_inverse_dynamics_frames_and_mass_agree(mixed: Path) -> None:
    robot = quiet(mixed)
    model, data = rigid(mixed)
    convert = MujocoMap(robot, model)
    rng = np.random.default_rng(0)
    for _ in range(10):
        q = robot.random_configuration(rng)
        v, a = rng.normal(size=(2, robot.nv))
        data.qpos[:] = convert.q_to_mujoco(q)
        data.qvel[:] = convert.v_to_mujoco(q, v)
        data.qacc[:] = convert.a_to_mujoco(q, v, a)
        mujoco.mj_inverse(model, data)
        torque = convert.tau_from_mujoco(q, data.qfrc_inverse)
        np.testing.assert_allclose(rnea(robot, q, v, a), torque, rtol=1e-11, atol=1e-11)
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
    assert "joint equalities equality 0 (joint t) are not enforced" in said
    assert "equality constraints glue are not enforced" in said
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
