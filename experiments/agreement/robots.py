"""The same robot for other programs: a tree as URDF, as MJCF with sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

import sensors
from dynsys.model.joints import Free, Prismatic, Revolute, Spherical
from dynsys.model.spatial import Inertia, Transform, rotation_from_rpy
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array
from sensors.mounting import rpy_of

__all__ = ["KINDS", "Site", "floating", "layout_of", "mjcf_text", "sites_of", "urdf_text"]

KINDS = ("accelerometer", "gyroscope", "force", "torque")


@final
@dataclass(frozen=True, eq=False)
class Site:
    """A place on a body that carries one sensor of each kind; pose within the body."""

    body: int
    xyz: tuple[float, ...]
    rpy: tuple[float, ...]

    @property
    def transform(self) -> Transform:
        """From the body to the site."""
        return Transform(rotation_from_rpy(np.array(self.rpy)), np.array(self.xyz))


def sites_of(robot: KinematicTree, rng: np.random.Generator) -> list[Site]:
    """One site on every body, anywhere and turned anyhow."""
    return [
        Site(i, tuple(rng.uniform(-0.2, 0.2, 3)), tuple(rng.uniform(-3, 3, 3)))
        for i in range(robot.n_bodies)
    ]


def floating(robot: KinematicTree) -> KinematicTree:
    """The same tree on a torso that floats; joint "root"."""
    inertia = Inertia(3.0, np.array([0.1, -0.05, 0.2]), np.diag([0.03, 0.04, 0.05]))
    torso = Body("torso", -1, Free(), Transform.identity(), inertia, "root")
    bodies = [replace(body, parent=body.parent + 1) for body in robot.bodies]
    return KinematicTree(f"floating_{robot.name}", [torso, *bodies], gravity=robot.gravity)


def layout_of(robot: KinematicTree, sites: Sequence[Site]) -> sensors.Layout:
    """Accelerometer, gyroscope and force/torque sensor at every site."""
    found: list[sensors.AbstractSensor] = []
    for site in sites:
        body, joint = robot.body_names[site.body], robot.joint_names[site.body]
        wrench = ("fx", "fy", "fz", "tx", "ty", "tz")
        found += [
            sensors.Accelerometer(
                f"accelerometer_{site.body}", body, xyz=site.xyz, rpy=site.rpy
            ),
            sensors.Gyroscope(f"gyroscope_{site.body}", body, xyz=site.xyz, rpy=site.rpy),
            sensors.ForceTorque(
                f"wrench_{site.body}", joint, wrench, xyz=site.xyz, rpy=site.rpy
            ),
        ]
    return sensors.Layout(robot, found)


def _with_axis(body: Body) -> Revolute | Prismatic:
    if not isinstance(body.joint, Revolute | Prismatic):
        raise TypeError(f"{body.name}: a {body.joint.kind} joint is not written here")
    return body.joint


def _numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(values))


# ---- URDF ------------------------------------------------------------------------------------


def urdf_text(robot: KinematicTree) -> str:
    """URDF of a tree of revolute and prismatic joints on a link ``base`` of 3 kg."""
    parts = [
        '<link name="base"><inertial><origin xyz="0.1 -0.05 0.2"/><mass value="3"/>'
        f"{_urdf_inertia(np.diag([0.03, 0.04, 0.05]))}</inertial></link>"
    ]
    for body in robot.bodies:
        parent = "base" if body.parent < 0 else robot.body_names[body.parent]
        joint = _with_axis(body)
        kind = "prismatic" if isinstance(joint, Prismatic) else "continuous"
        limit = '<limit lower="-9" upper="9" effort="1" velocity="1"/>'
        parts.append(
            f'<link name="{body.name}"><inertial>'
            f'<origin xyz="{_numbers(body.inertia.com)}"/><mass value="{body.inertia.mass!r}"/>'
            f"{_urdf_inertia(body.inertia.about_com)}</inertial></link>"
            f'<joint name="{body.joint_name or body.name}" type="{kind}">'
            f'<parent link="{parent}"/><child link="{body.name}"/>'
            f'<origin xyz="{_numbers(body.placement.r)}"'
            f' rpy="{_numbers(rpy_of(np.asarray(body.placement.E)))}"/>'
            f'<axis xyz="{_numbers(joint.axis)}"/>{limit}</joint>'
        )
    return f'<robot name="{robot.name}">{"".join(parts)}</robot>'


def _urdf_inertia(about: Array) -> str:
    entries = " ".join(
        f'i{"xyz"[i]}{"xyz"[j]}="{float(about[i, j])!r}"' for i in range(3) for j in range(i, 3)
    )
    return f"<inertia {entries}/>"


# ---- MJCF ------------------------------------------------------------------------------------


def mjcf_text(robot: KinematicTree, sites: Sequence[Site]) -> str:
    """MJCF of a tree of revolute, prismatic, spherical and free joints, with its sensors."""
    of_body = {site.body: site for site in sites}

    def element(i: int) -> str:
        body = robot.bodies[i]
        inner = "".join(element(j) for j in robot.children[i])
        return (
            f'<body name="{body.name}" {_pose(body.placement)}>{_mjcf_joint(body)}'
            f"{_mjcf_inertia(body)}{_mjcf_site(of_body.get(i))}{inner}</body>"
        )

    tree = "".join(element(i) for i in range(robot.n_bodies) if robot.bodies[i].parent < 0)
    listed = "".join(
        f'<{"gyro" if kind == "gyroscope" else kind} name="{kind}_{site.body}"'
        f' site="site_{site.body}"/>'
        for site in sites
        for kind in KINDS
    )
    return (
        f'<mujoco model="{robot.name}"><compiler angle="radian" boundmass="0"/>'
        f'<option gravity="{_numbers(robot.gravity)}"><flag constraint="disable"/></option>'
        f"<worldbody>{tree}</worldbody><sensor>{listed}</sensor></mujoco>"
    )


def _pose(place: Transform) -> str:
    """Position, and orientation by two axes: the first two columns of R = E^T."""
    E = np.asarray(place.E)
    return f'pos="{_numbers(place.r)}" xyaxes="{_numbers(E[:2])}"'


def _mjcf_joint(body: Body) -> str:
    name, joint = body.joint_name or body.name, body.joint
    if isinstance(joint, Free):
        return f'<freejoint name="{name}"/>'
    armature = 0.0 if body.armature is None else float(np.ravel(body.armature)[0])
    more = f'armature="{armature!r}"'
    if isinstance(joint, Spherical):
        return f'<joint name="{name}" type="ball" {more}/>'
    axis = _with_axis(body)
    kind = "slide" if isinstance(axis, Prismatic) else "hinge"
    return f'<joint name="{name}" type="{kind}" axis="{_numbers(axis.axis)}" {more}/>'


def _mjcf_inertia(body: Body) -> str:
    I = body.inertia.about_com
    full = _numbers([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])
    return (
        f'<inertial pos="{_numbers(body.inertia.com)}" mass="{body.inertia.mass!r}"'
        f' fullinertia="{full}"/>'
    )


def _mjcf_site(site: Site | None) -> str:
    return "" if site is None else f'<site name="site_{site.body}" {_pose(site.transform)}/>'
