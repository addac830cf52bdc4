"""Constraints that robot files hold: MJCF equalities, loops of URDF."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
from dynsys import FrameConstraint, JointConstraint, KinematicTree, ModelError, ModelWarning
from dynsys.model.constraints import row_slices
from dynsys.recursive.constraint_rows import closest_configuration, dense_rows

INERTIAL = '<inertial pos="0.1 0.02 0" mass="1" diaginertia="0.01 0.02 0.03"/>'
MJCF = f"""<mujoco><compiler angle="radian"/>
<option gravity="0.1 0.2 -9" jacobian="dense"/>
<worldbody>
 <body name="a" pos="0 0 1" euler="0.3 0.1 0">
  <joint name="a" axis="0 1 0" pos="0.1 0 0"/>{INERTIAL}
  <body name="b" pos="0.4 0 0">
   <joint name="b1" axis="0 1 0"/><joint name="b2" axis="1 0 0"/>{INERTIAL}
   <site name="tip" pos="0.3 0.1 0" euler="0.2 0 0.1"/>
  </body></body>
 <body name="c" pos="0.5 0.3 1"><joint name="c" axis="0 0 1" ref="0.2"/>{INERTIAL}
  <body name="d" pos="0 0.3 0"><joint name="d" type="slide" axis="1 0 0"/>{INERTIAL}
  </body></body>
 <body name="e" pos="0 1 1"><freejoint/>{INERTIAL}<site name="eye" pos="0.1 0.2 0"/></body>
</worldbody>
<equality>
 <connect name="pin" body1="b" body2="e" anchor="0.2 0.1 0.3"/>
 <connect name="sites" site1="tip" site2="eye"/>
 <weld name="weld" body1="e" body2="b" anchor="0.1 0.2 0.3"/>
 <weld name="wall" body1="d"/>
 <joint name="curve" joint1="a" joint2="c" polycoef="0.1 0.5 -0.3 0.2 0"/>
 <joint name="stop" joint1="d" polycoef="0.05 0 0 0 0"/>
</equality></mujoco>"""


def quiet(path: Path, **options: object) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return dynsys.load(path, **options)  # type: ignore[arg-type]


def test_equalities_of_mujoco_span_the_same_rows(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    with pytest.warns(ModelWarning, match=r"constraints pin, sites, weld, wall, .*'file'"):
        robot = dynsys.load(path)
    assert [c.size for c in robot.constraints] == [3, 3, 6, 6, 1, 1]
    assert isinstance(robot.constraints[4], JointConstraint)
    model = mujoco.MjModel.from_xml_path(str(path))
    to, data = dynsys.interop.MujocoMap(robot, model), mujoco.MjData(model)
    moved = 0.2 * np.random.default_rng(0).normal(size=robot.nv)
    start = robot.integrate(to.q_from_mujoco(model.qpos0), moved, 1.0)
    for held, where in zip(robot.constraints, row_slices(robot.constraints), strict=True):
        # the same gap where it is open, the same rows where it is closed
        q, error = closest_configuration(robot, [held], start)
        assert error < 1e-10
        for at in (start, q):
            data.qpos[:] = to.q_to_mujoco(at)
            mujoco.mj_forward(model, data)
            rows = dense_rows(robot, [held], at, np.zeros(robot.nv))
            if held.size != 6:
                gap = np.linalg.norm(data.efc_pos[where])
                assert np.linalg.norm(rows.error) == pytest.approx(gap, abs=1e-12)
        pull = np.array([to.v_to_mujoco(q, v) for v in np.eye(robot.nv)])
        theirs = data.efc_J.reshape(-1, model.nv)[where] @ pull.T
        ranks = [np.linalg.matrix_rank(J, tol=1e-7) for J in (rows.J, theirs)]
        together = np.linalg.matrix_rank(np.vstack([rows.J, theirs]), tol=1e-7)
        assert ranks == [together, together], held.name
    problem = problems.ForwardDynamics(robot, constraints="file")
    assert problem.constraints == robot.constraints and problem.verdict().rows == 20


JOINT = (
    '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{0}"/>'
    '<origin xyz="{2}"/><axis xyz="0 1 0"/></joint>'
)
LINK = (
    '<link name="{}"><inertial><origin xyz="0.1 0 0.2"/><mass value="1"/>'
    '<inertia ixx="0.1" iyy="0.2" izz="0.15" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
ENDS = '<link1 link="coupler" xyz="0.6 0 0.3"/><link2 link="rocker" xyz="-0.1 0 0.7"/>'
BALL = (
    '<drake:ball_constraint><drake:ball_constraint_body_A name="coupler"/>'
    '<drake:ball_constraint_body_B name="rocker"/>'
    '<drake:ball_constraint_p_AP value="0.6 0 0.3"/>'
    '<drake:ball_constraint_p_BQ value="-0.1 0 0.7"/></drake:ball_constraint>'
)


def urdf(folder: Path, loop: str) -> Path:
    path = folder / "robot.urdf"
    links = "".join(LINK.format(name) for name in ("crank", "coupler", "rocker"))
    joints = [("crank", "base", "0 0 0"), ("coupler", "crank", "0.3 0 0.4")]
    joints.append(("rocker", "base", "1 0 0"))
    tree = f'<link name="base"/>{links}' + "".join(JOINT.format(*each) for each in joints)
    path.write_text(f'<robot name="four_bar">{tree}{loop}</robot>')
    return path


@pytest.mark.parametrize(
    ("kind", "rows", "rank"),
    [
        ("revolute", 5, 2),
        ("spherical", 3, 2),
        ("fixed", 6, 3),
        ("prismatic", 5, 3),
        ("planar", 3, 0),
    ],
)
def test_loop_joints_of_urdf(tmp_path: Path, kind: str, rows: int, rank: int) -> None:
    loop = f'<loop_joint name="loop" type="{kind}">{ENDS}<axis xyz="0 1 0"/></loop_joint>'
    robot = quiet(urdf(tmp_path, loop))
    (held,) = robot.constraints
    assert isinstance(held, FrameConstraint) and held.size == rows
    at = dense_rows(robot, [held], np.zeros(3), np.zeros(3))
    assert np.abs(at.error).max() < 1e-15  # the file is closed as it stands
    assert np.linalg.matrix_rank(at.J, tol=1e-9) == rank
    if kind == "revolute":
        problem = problems.ForwardDynamics(robot, constraints="file")
        ball = quiet(urdf(tmp_path, BALL))
        other = problems.ForwardDynamics(ball, constraints="file")
        q = problem.close(np.array([0.2, 0.0, 0.1]))
        found = problem.solve(q, np.zeros(3), np.ones(3)).qdd
        np.testing.assert_allclose(
            other.solve(q, np.zeros(3), np.ones(3)).qdd, found, rtol=1e-11
        )


def test_loops_of_urdf_that_make_no_sense(tmp_path: Path) -> None:
    lost = ENDS.replace("rocker", "rokcer")
    still = f'{ENDS}<axis xyz="0 0 0"/>'
    for loop, says in (
        (f'<loop_joint name="l" type="screw">{ENDS}</loop_joint>', "one of fixed, revolute"),
        ('<loop_joint name="l" type="fixed"><link1 link="crank"/></loop_joint>', "1 links"),
        (
            f'<loop_joint name="l" type="fixed">{lost}</loop_joint>',
            "'rocker'",
        ),
        (
            f'<loop_joint name="l" type="revolute">{still}</loop_joint>',
            "direction",
        ),
    ):
        with pytest.raises(ModelError, match=says):
            quiet(urdf(tmp_path, loop))
    ends = ENDS.replace("rocker", "coupler")
    same = f'<loop_joint name="l" type="fixed">{ends}</loop_joint>'
    with pytest.warns(ModelWarning, match="'l' holds what cannot move"):
        assert dynsys.load(urdf(tmp_path, same)).constraints == ()
