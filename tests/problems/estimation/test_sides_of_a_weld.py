"""A force/torque sensor within a body feels what touches the links beyond it, and no others.

The judge is the same robot with a hinge in the place of the fixed joint, and MuJoCo.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KinematicTree, LayoutError
from problems import Candidate, Estimation, Identification, place_sensors, predict
from problems.logs.simulate import Simulation, Trajectory
from problems.measured.simulated_readings import TrueReadings
from sensors import ForceTorque, Layout, zero_external_wrench_except
from tests.model.test_contacts import CURL, FELT, HAND, ON, hand
from tests.sensors.test_forces import CUT

SIDES = {"cell": "beyond", "plate": "beyond", "plate_joint": "beyond", "heel": "before"}
HEEL = """<link name="heel"/><joint name="heel_joint" type="fixed"><parent link="arm"/>
  <child link="heel"/><origin xyz="0.1 -0.2 0" rpy="0 0.4 0"/></joint></robot>"""


def arm(folder: Path, kind: str = "fixed") -> KinematicTree:
    path = folder / f"{kind}.urdf"
    path.write_text(CUT.replace("TYPE", kind).replace("</robot>", HEEL))
    return dynsys.load(path)


def layout_of(robot: KinematicTree, touched: str, **given: object) -> Layout:
    return Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *zero_external_wrench_except(robot, [touched]),
            ForceTorque("ft", "cell_joint", std=0.1, **given),
        ],
    )


def file_of(folder: Path, entries: str) -> Path:
    path = folder / "layout.yaml"
    path.write_text(entries)
    return path


@pytest.mark.parametrize("touched", SIDES)
def test_verdict_and_rows_by_the_frame_that_is_touched(tmp_path: Path, touched: str) -> None:
    folded, hinged = arm(tmp_path), arm(tmp_path, "continuous")
    layout = layout_of(folded, touched)
    estimation = Estimation(folded, layout)
    assert layout["ft"].external == SIDES[touched]
    seen = SIDES[touched] == "beyond"
    assert estimation.verdict(samples=2).is_well_posed is seen
    # what the sensor reads is what the same robot with a hinge there feels
    rng = np.random.default_rng(1)
    q, qd, qdd, wrench = *rng.normal(size=(3, folded.nv)), rng.normal(size=6)
    readings = []
    for robot in (folded, hinged):
        state = np.zeros((3, robot.nv))
        for joint in folded.joint_names:
            state[:, robot.v_slice(joint)] = np.array([q, qd, qdd])[:, folded.v_slice(joint)]
        frame, f = robot.frame(touched), np.zeros((robot.n_bodies, 6))
        f[frame.body] = frame.transform.force_back(wrench)
        own = layout if robot is folded else Layout(robot, [ForceTorque("ft", "cell_joint")])
        readings.append(TrueReadings(own).reference(*state, f)[1][own.slice("ft")])
    np.testing.assert_allclose(readings[0], readings[1], atol=1e-12)
    # and no estimate says that nothing touches a place that it does not see
    y = {"ft": readings[1]} | {
        f"{n}/acceleration": qdd[folded.v_slice(n)] for n in folded.joint_names
    }
    e = estimation.solve(q, qd, y)
    assert e.determined.external_wrench[touched].all() == seen
    if seen:
        np.testing.assert_allclose(e.external_wrench[touched], wrench, atol=1e-9)
    else:
        assert np.isnan(e.external_wrench[touched]).all()


@pytest.mark.parametrize("touched", ["plate", "heel"])
def test_one_contact_says_the_same(tmp_path: Path, touched: str) -> None:
    robot = arm(tmp_path)
    named = Estimation(robot, layout_of(robot, touched)).verdict(samples=2)
    place = dynsys.Contact("place", touched)
    held = robot.with_contacts([place])
    contact = Estimation(held, layout_of(held, "place")).verdict(samples=2)
    assert named.is_well_posed == contact.is_well_posed


def test_files_name_the_side_and_keep_it(tmp_path: Path) -> None:
    robot = arm(tmp_path)
    text = "sensors:\n  - {kind: force_torque, name: ft, at: cell, std: 1.0}\n"
    for touched, side in SIDES.items():
        line = f"  - zero_external_wrench_except: {{touched: {touched}}}\n"
        read = Layout.load(file_of(tmp_path, text + line), robot)
        assert read["ft"].external == side
        read.save(tmp_path / "again.yaml")
        assert Layout.load(tmp_path / "again.yaml", robot)["ft"] == read["ft"]
        assert read.with_sensors([*read, ForceTorque("two", "plate", std=1.0)])[
            "two"
        ].external == ("before" if touched in ("cell", "heel") else "beyond")


def test_a_robot_of_one_body_has_no_statement_to_remember_the_frame(tmp_path: Path) -> None:
    path = tmp_path / "handle.urdf"
    inertial = """<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
      iyz="0"/></inertial>"""
    path.write_text(f"""<robot name="handle"><link name="grip">{inertial}</link>
      <link name="tip">{inertial}</link><joint name="cell" type="fixed"><parent link="grip"/>
      <child link="tip"/></joint></robot>""")
    robot = dynsys.load(path, floating_base=True)
    text = """sensors:
  - {kind: force_torque, name: ft, at: cell, std: 1.0}
  - all_joint_accelerations: {std: 1.0, free: true}
  - zero_external_wrench_except: [tip]
"""
    layout = Layout.load(file_of(tmp_path, text), robot)
    assert layout["ft"].external == "beyond"
    assert Estimation(robot, layout).verdict(samples=2).is_well_posed
    assert (
        Layout(robot, [ForceTorque("ft", "cell")], touched=["tip"])["ft"].external == "beyond"
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([], r"nothing says which is touched.*external: beyond"),
        (["arm"], r"'arm' is the whole body; name a link .*\[cell\].*contacts: \["),
        (
            ["plate", "heel"],
            r"'plate' is beyond it, 'heel' is before it.*contacts: \[plate, heel\]",
        ),
    ],
)
def test_a_side_that_is_not_known_is_refused(
    tmp_path: Path, more: list[str], reason: str
) -> None:
    robot = arm(tmp_path)
    where = (
        r"'ft' \(force_torque\) sits in the fixed joint 'cell_joint' within body 'arm', between"
    )
    links = r" links arm, heel and, beyond it, cell, plate\. "
    statements = zero_external_wrench_except(robot, more) if more else []
    layout = Layout(robot, [*statements, ForceTorque("ft", "cell_joint", std=1.0)])
    for refuse in (
        lambda: Estimation(robot, layout).verdict(samples=1),
        lambda: Simulation(layout, Trajectory.random(robot, 1.0)),
        lambda: Identification(robot, layout),
    ):
        with pytest.raises(LayoutError, match=f"{where}{links}.*{reason}"):
            refuse()
    said = Layout(
        robot,
        [
            *statements,
            ForceTorque("ft", "cell_joint", "fx fy".split(), external="beyond", std=1.0),
        ],
    )
    if len(more) < 2:
        Estimation(robot, said).verdict(samples=1)
    else:  # one word cannot be true of both places
        with pytest.raises(LayoutError, match=reason):
            Estimation(robot, said).verdict(samples=1)


def test_a_line_of_the_file_is_named(tmp_path: Path) -> None:
    text = """sensors:
  - zero_external_wrench_except: [arm]
  - {kind: force_torque, name: ft, at: cell, std: 1.0}
"""
    robot = arm(tmp_path)
    layout = Layout.load(file_of(tmp_path, text), robot)
    with pytest.raises(LayoutError, match=r"layout\.yaml, line 3: sensor 'ft'"):
        Estimation(robot, layout).verdict(samples=1)


def test_what_is_said_must_agree_with_what_is_named(tmp_path: Path) -> None:
    robot = arm(tmp_path)
    Estimation(robot, layout_of(robot, "plate", external="beyond")).verdict(samples=1)
    with pytest.raises(LayoutError, match=r"says external: before, but .* touched at 'plate'"):
        Estimation(robot, layout_of(robot, "plate", external="before")).verdict(samples=1)


def test_plates_and_points_name_the_side_too(tmp_path: Path) -> None:
    robot = arm(tmp_path)
    for kind in (sensors.PureForce, sensors.LoadCellPlate, sensors.RigidContact):
        for touched, side in SIDES.items():
            found = Layout(
                robot, [kind("c", touched, std=1.0), ForceTorque("ft", "cell", std=1.0)]
            )
            assert found["ft"].external == side, kind


def test_a_body_that_is_not_touched_needs_no_side_until_it_is(tmp_path: Path) -> None:
    robot = arm(tmp_path)
    layout = layout_of(robot, "finger")
    estimation = Estimation(robot, layout)
    assert layout["ft"].external == "touched" and set(layout.resting) == {"arm/no_contact"}
    q = np.zeros(robot.nq)
    y = {"ft": np.zeros(6)} | {f"{n}/acceleration": 0.0 for n in robot.joint_names}
    estimation.solve(q, q, y)
    for off in ({"active": {"arm/no_contact": False}}, {}):
        given = y if off else y | {"arm/no_contact": [np.nan] * 6}
        with pytest.raises(LayoutError, match="'arm' is touched, where its statement"):
            estimation.solve(q, q, given, **off)
    with pytest.raises(LayoutError, match="'arm' is touched"):
        estimation.compile(outputs=["torque"], switchable=["arm/no_contact"])
    with pytest.raises(LayoutError, match="'arm' is touched"):
        Identification(robot, layout, contacts=["arm"])
    plate = sensors.ExternalWrench("plate", "arm", std=1.0)  # the side still does not count
    both = Estimation(robot, layout.with_sensors([*layout, plate]))
    assert both.verdict(samples=1, search=False).is_well_posed
    both.solve(q, q, y | {"plate": [np.nan] * 6})
    soft = [*zero_external_wrench_except(robot, std=50.0), ForceTorque("ft", "cell", std=1.0)]
    with pytest.raises(LayoutError, match="whole body"):
        Estimation(robot, Layout(robot, soft)).verdict(samples=1)


@pytest.mark.parametrize("touched", ["plate", "heel", "arm"])
def test_repairs_and_placement_offer_only_what_feels_the_contact(
    tmp_path: Path, touched: str
) -> None:
    robot = arm(tmp_path)
    bare = [s for s in layout_of(robot, touched) if s.name != "ft"]
    layout = Layout(robot, bare)
    verdict = Estimation(robot, layout).verdict(samples=2)
    offered = {s.at for r in verdict.repairs for s in r.sensors if isinstance(s, ForceTorque)}
    welds = {"cell_joint", "plate_joint"} if touched == "plate" else set()
    welds |= {"heel_joint"} if touched == "heel" else set()
    assert offered & {*robot.welds} == welds and "shoulder" in offered
    for repair in verdict.repairs:
        more = Layout(robot, [*bare, *repair.sensors], quiet=True)
        assert Estimation(robot, more).verdict(samples=2, search=False).is_well_posed
    at = [Candidate(ForceTorque(f"{j}/ft", j, std=1.0), cost)
          for j, cost in (("cell_joint", 1.0), ("shoulder", 3.0))]  # fmt: skip
    if touched == "arm":
        with pytest.raises(LayoutError, match="'arm' is the whole body"):
            place_sensors(robot, layout, at)
    else:
        best = place_sensors(robot, layout, at, goal="external_wrench")
        assert best.determines_goals and best.cost == (1.0 if touched == "plate" else 3.0)


def test_the_reading_within_an_untouched_body_is_predicted(tmp_path: Path) -> None:
    robot = arm(tmp_path)
    layout = Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *zero_external_wrench_except(robot),
            ForceTorque("ft", "cell_joint", std=0.1),
        ],
    )
    q, qd, qdd = np.random.default_rng(2).normal(size=(3, robot.nv))
    truth = TrueReadings(layout).reference(q, qd, qdd, np.zeros((robot.n_bodies, 6)))[1]
    seen = predict(Estimation(robot, layout), "ft", q[None], qd[None], truth[None])
    np.testing.assert_allclose(seen.value[0], truth[layout.slice("ft")], atol=1e-9)


# ---- against MuJoCo -------------------------------------------------------------------------


@pytest.mark.parametrize("touched", ON)
@pytest.mark.finding("W-1")
def test_sensors_in_welds_read_what_mujoco_says(tmp_path: Path, touched: str) -> None:
    """A push at a site, MuJoCo's own readings, and what the estimate makes of them."""
    mujoco = pytest.importorskip("mujoco")
    robot = hand(tmp_path, HAND.replace(CURL, ""), {})
    given = sensors.from_mjcf(tmp_path / "hand.xml", robot)
    exact = [
        *sensors.all_joint_accelerations(robot, std=0.1),
        *zero_external_wrench_except(robot, [touched]),
    ]
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "hand.xml"))
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = 0.4, 0.7
    mujoco.mj_forward(model, data)
    site, force = model.site(touched).id, np.array([3.0, -22.0, 5.0])
    body = int(model.site_bodyid[site])
    data.xfrc_applied[body, :3] = force
    data.xfrc_applied[body, 3:] = np.cross(data.site_xpos[site] - data.xipos[body], force)
    mujoco.mj_forward(model, data)
    truth = data.site_xmat[site].reshape(3, 3).T @ force
    for part in ("palm", "finger"):
        pair = [s for s in given if s.name.startswith(part)]
        layout = Layout(robot, [*exact, *pair], quiet=True, touched=[touched])
        felt = part in FELT[touched]
        assert {layout[s.name].external for s in pair} == {"beyond" if felt else "before"}
        y = {s.name: data.sensor(s.name).data for s in pair}
        y["turn/acceleration"] = data.qacc[0]
        e = Estimation(robot, layout).solve(data.qpos[:1], data.qvel[:1], y)
        found = e.external_wrench[touched][3:]
        if felt:
            np.testing.assert_allclose(found, truth, atol=1e-8)
        else:
            assert np.isnan(found).all() and not e.determined.external_wrench[touched].any()


LINKAGE = """<mujoco model="linkage"><option gravity="0 0 -9.81"/><worldbody>
  <body name="crank"><joint name="crank" axis="0 1 0"/>
    <inertial pos="0.15 0 0.2" mass="1" diaginertia="0.02 0.02 0.02"/>
    <body name="coupler" pos="0.3 0 0.4"><joint name="coupler" axis="0 1 0"/>
      <inertial pos="0.3 0 0.15" mass="2" diaginertia="0.05 0.05 0.05"/></body></body>
  <body name="rocker" pos="1 0 0"><joint name="rocker" axis="0 1 0"/>
    <inertial pos="-0.05 0 0.35" mass="1.5" diaginertia="0.05 0.05 0.05"/>
    <body name="tip" pos="0 0.02 0.5" euler="0 20 30"><site name="cell" euler="10 0 0"/>
      <inertial pos="0.1 0 0.05" mass="0.7" diaginertia="0.01 0.01 0.01"/></body></body>
</worldbody><equality>
  <connect name="pin" body1="coupler" body2="END" anchor="0.6 0 0.3" solref="-1 -1"
    solimp="0.999999 0.999999 0.001"/>
</equality><sensor><force name="force" site="cell" noise="0.01"/>
<torque name="torque" site="cell" noise="0.01"/></sensor></mujoco>"""


@pytest.mark.parametrize("end", ["rocker", "tip"])
@pytest.mark.finding("Y-10")
def test_loops_of_a_file_hold_the_link_that_the_file_names(tmp_path: Path, end: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "linkage.xml"
    path.write_text(LINKAGE.replace("END", end))
    with pytest.warns(dynsys.ModelWarning):
        robot = dynsys.load(path)
    assert robot.constraints[0].other == end
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qfrc_applied[:] = [3.0, -1.0, 2.0]
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    mujoco.mj_sensorAcc(model, data)
    cells = sensors.from_mjcf(path, robot)
    statements = [
        *(sensors.JointTorque(name, name, std=1e-3) for name in robot.joint_names),
        *zero_external_wrench_except(robot),
    ]
    layout = Layout(robot, [*statements, *cells])
    estimation = Estimation(robot, layout, constraints="file")
    y = dict(zip(robot.joint_names, data.qfrc_applied, strict=True))
    y |= {"force": data.sensordata[:3], "torque": data.sensordata[3:]}
    e = estimation.solve(data.qpos, data.qvel, y)
    assert np.abs(data.sensordata).max() > 5.0 and e.degrees_of_freedom >= 3
    assert e.chi_square < 0.1
    np.testing.assert_allclose(e.qdd.array, data.qacc, rtol=1e-3, atol=1e-3)
