"""Write the bundled humanoid: 29 joints, every link a capsule or a box of even density.

    python -m experiments.make_humanoid > dynsys/model/data/humanoid.urdf

The figures are those of an adult-size robot of our own invention: 1.75 m tall, 64 kg.
x forward, y left, z up; all joint frames are parallel in the neutral position.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

Vector = tuple[float, float, float]
ZERO: Vector = (0.0, 0.0, 0.0)
AXES: dict[str, Vector] = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}


@dataclass(frozen=True)
class Box:
    """Box with edges ``size`` (m), centred at ``centre`` in link coordinates."""

    size: Vector
    centre: Vector = ZERO

    def moments(self, mass: float) -> Vector:
        """m (b^2 + c^2) / 12, and so on."""
        a, b, c = (edge * edge for edge in self.size)
        return (mass * (b + c) / 12, mass * (a + c) / 12, mass * (a + b) / 12)

    def geometry(self) -> str:
        """URDF shape."""
        return '<box size="{:g} {:g} {:g}"/>'.format(*self.size)


@dataclass(frozen=True)
class Capsule:
    """Cylinder along z, ``length`` long, with half balls of its ``radius`` at both ends."""

    radius: float
    length: float
    centre: Vector = ZERO

    def moments(self, mass: float) -> Vector:
        """Cylinder plus two half balls, the latter moved by Steiner's theorem."""
        r, h = self.radius, self.length
        ball = mass * (4 * r / 3) / (h + 4 * r / 3)
        rod = mass - ball
        along = rod * r * r / 2 + ball * 2 * r * r / 5
        across = rod * (r * r / 4 + h * h / 12) + ball * (
            2 * r * r / 5 + h * h / 4 + 3 * h * r / 8
        )
        return (across, across, along)

    def geometry(self) -> str:
        """URDF shape: the cylinder of the same overall length."""
        return (
            f'<cylinder radius="{self.radius:g}" length="{self.length + 2 * self.radius:g}"/>'
        )


Shape = Box | Capsule


@dataclass(frozen=True)
class Link:
    """A link, the joint that carries it and what it weighs."""

    name: str
    parent: str
    joint: str
    axis: str  # "" is a fixed joint
    origin: Vector
    mass: float = 0.0
    shape: Shape | None = None
    limits: tuple[float, float] = (0.0, 0.0)  # degrees
    effort: float = 0.0
    speed: float = 0.0


def torso_and_head() -> list[Link]:
    """Waist of three joints, chest, neck of two joints, head."""
    motor = Box((0.10, 0.10, 0.06))
    chest = Box((0.18, 0.26, 0.30), (0.0, 0.0, 0.17))
    head = Capsule(0.085, 0.06, (0.01, 0.0, 0.11))
    return [
        Link(
            "waist_1", "pelvis", "waist_yaw", "z", (0, 0, 0.10), 1.6, motor, (-70, 70), 150, 5
        ),
        Link(
            "waist_2", "waist_1", "waist_roll", "x", (0, 0, 0.05), 1.2, motor, (-25, 25), 150, 5
        ),
        Link(
            "chest", "waist_2", "waist_pitch", "y", (0, 0, 0.04), 13.0, chest, (-20, 60), 150, 5
        ),
        Link("neck", "chest", "neck_yaw", "z", (0, 0, 0.36), 0.5, motor, (-80, 80), 20, 6),
        Link("head", "neck", "neck_pitch", "y", (0, 0, 0.05), 3.2, head, (-40, 35), 20, 6),
        Link("chest_imu", "chest", "chest_imu_fixed", "", (-0.06, 0, 0.20)),
        Link("pelvis_imu", "pelvis", "pelvis_imu_fixed", "", (-0.05, 0, 0.04)),
        Link("camera", "head", "camera_fixed", "", (0.09, 0, 0.13)),
    ]


def _sided(side: str, *links: Link) -> list[Link]:
    """Links of one side: all their names, but those of the trunk, begin with it."""
    found = []
    for link in links:
        parent = link.parent if link.parent in ("pelvis", "chest") else f"{side}_{link.parent}"
        name, joint = f"{side}_{link.name}", f"{side}_{link.joint}"
        found.append(replace(link, name=name, parent=parent, joint=joint))
    return found


def leg(side: str, left: int) -> list[Link]:
    """Hip of three joints, knee, ankle of two joints, foot with force sensor and sole."""
    out, into = (-20, 45) if left > 0 else (-45, 20), (-60, 60)
    hip, ankle = Box((0.09, 0.09, 0.09)), Box((0.06, 0.06, 0.06))
    thigh = Capsule(0.065, 0.24, (0.0, 0.0, -0.19))
    shank = Capsule(0.05, 0.26, (0.0, 0.0, -0.19))
    foot = Box((0.24, 0.10, 0.05), (0.04, 0.0, -0.055))
    y = 0.09 * left
    return _sided(
        side,
        Link("hip_1", "pelvis", "hip_yaw", "z", (0, y, -0.06), 1.5, hip, into, 120, 8),
        Link("hip_2", "hip_1", "hip_roll", "x", (0, 0, -0.03), 1.5, hip, out, 180, 8),
        Link("thigh", "hip_2", "hip_pitch", "y", ZERO, 5.2, thigh, (-110, 35), 220, 9),
        Link("shank", "thigh", "knee", "y", (0, 0, -0.38), 3.1, shank, (0, 140), 250, 10),
        Link(
            "ankle", "shank", "ankle_pitch", "y", (0, 0, -0.38), 0.5, ankle, (-60, 35), 130, 9
        ),
        Link("foot", "ankle", "ankle_roll", "x", ZERO, 1.2, foot, (-30, 30), 90, 9),
        Link("foot_ft", "foot", "foot_ft_fixed", "", (0, 0, -0.03)),
        Link("sole", "foot", "sole_fixed", "", (0.04, 0, -0.08)),
    )


def arm(side: str, left: int) -> list[Link]:
    """Shoulder of three joints, elbow, wrist of two joints, a solid hand."""
    lift = (-15, 160) if left > 0 else (-160, 15)
    motor, wrist = Box((0.08, 0.08, 0.08)), Box((0.05, 0.05, 0.05))
    upper = Capsule(0.042, 0.18, (0.0, 0.0, -0.14))
    fore = Capsule(0.036, 0.16, (0.0, 0.0, -0.12))
    hand = Box((0.04, 0.08, 0.15), (0.0, 0.0, -0.09))
    y = 0.17 * left
    return _sided(
        side,
        Link(
            "shoulder_1",
            "chest",
            "shoulder_pitch",
            "y",
            (0, y, 0.28),
            0.9,
            motor,
            (-170, 60),
            80,
            8,
        ),
        Link(
            "shoulder_2",
            "shoulder_1",
            "shoulder_roll",
            "x",
            (0, 0.03 * left, 0),
            0.9,
            motor,
            lift,
            80,
            8,
        ),
        Link(
            "upper_arm", "shoulder_2", "shoulder_yaw", "z", ZERO, 1.7, upper, (-90, 90), 60, 9
        ),
        Link("forearm", "upper_arm", "elbow", "y", (0, 0, -0.28), 1.2, fore, (-140, 0), 60, 9),
        Link(
            "wrist", "forearm", "wrist_yaw", "z", (0, 0, -0.24), 0.3, wrist, (-90, 90), 20, 12
        ),
        Link("hand", "wrist", "wrist_pitch", "y", ZERO, 0.6, hand, (-60, 60), 20, 12),
        Link("hand_ft", "hand", "hand_ft_fixed", "", (0, 0, -0.03)),
    )


def link_xml(name: str, mass: float, shape: Shape | None) -> str:
    """URDF text of one link."""
    if shape is None:
        return f'  <link name="{name}"/>\n'
    at = '<origin xyz="{:g} {:g} {:g}" rpy="0 0 0"/>'.format(*shape.centre)
    inertia = '<inertia ixx="{:.6e}" ixy="0" ixz="0" iyy="{:.6e}" iyz="0" izz="{:.6e}"/>'
    return (
        f'  <link name="{name}">\n'
        f"    <inertial>\n      {at}\n"
        f'      <mass value="{mass:g}"/>\n'
        f"      {inertia.format(*shape.moments(mass))}\n"
        f"    </inertial>\n"
        f"    <visual>\n      {at}\n"
        f"      <geometry>{shape.geometry()}</geometry>\n    </visual>\n"
        f"  </link>\n"
    )


def joint_xml(link: Link) -> str:
    """URDF text of the joint that carries a link."""
    kind = "revolute" if link.axis else "fixed"
    ends = f'    <parent link="{link.parent}"/>\n    <child link="{link.name}"/>\n'
    at = '    <origin xyz="{:g} {:g} {:g}" rpy="0 0 0"/>\n'.format(*link.origin)
    text = f'  <joint name="{link.joint}" type="{kind}">\n{ends}{at}'
    if link.axis:
        low, high = (math.radians(angle) for angle in link.limits)
        text += '    <axis xyz="{:g} {:g} {:g}"/>\n'.format(*AXES[link.axis])
        text += (
            f'    <limit lower="{low:.4f}" upper="{high:.4f}"'
            f' effort="{link.effort:g}" velocity="{link.speed:g}"/>\n'
        )
    return text + "  </joint>\n"


def humanoid() -> str:
    """URDF text of the whole robot."""
    links = torso_and_head() + leg("l", 1) + leg("r", -1) + arm("l", 1) + arm("r", -1)
    pelvis = link_xml("pelvis", 7.5, Box((0.16, 0.22, 0.14), (0.0, 0.0, 0.02)))
    body = "".join(link_xml(x.name, x.mass, x.shape) + joint_xml(x) for x in links)
    note = "<!-- Written by experiments/make_humanoid.py: capsules and boxes, no meshes. -->"
    return f'<?xml version="1.0"?>\n{note}\n<robot name="humanoid">\n{pelvis}{body}</robot>\n'


if __name__ == "__main__":
    sys.stdout.write(humanoid())
