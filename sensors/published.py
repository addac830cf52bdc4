"""Sensor sets of published experiments: load cells at both ends of a serial chain [NORI].

Every set has 7N rows on the 26N unknowns of a chain of N one-freedom bodies (net wrenches
included): with the 19N laws a square system.

| set             | external wrench | acceleration | at joint 1 and on body N | rank         |
|-----------------|-----------------|--------------|--------------------------|--------------|
| sie             | 1..N-1          | all N        | tx ty fz                 | 26N-1        |
| sie_friction    | 1..N-1          | 3..N-2       | tx ty fx fy fz           | 26N          |
| sie_friction_fy | 1..N-1          | 2..N-1       | tx ty fx fz              | 26N-1 or 26N |

For N = 4 the second set measures no acceleration at all; figure 2 of [NORI] begins there.

The first is always singular: a pair of opposite forces along the line in which the planes of
the two plates meet is seen by neither. The third is singular on the chains of [NORI]
(``synthetic.auto_tree``): turning the last tube about its joint takes a wrench of tz and fy
alone, the two components that are not measured there. A last link without that symmetry
(``synthetic.chain``) needs others too: full rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.errors import LayoutError
from dynsys.model.tree import KinematicTree
from sensors.external import ExternalWrench
from sensors.force_torque import ForceTorque
from sensors.joint import JointAcceleration
from sensors.layout import Layout
from sensors.parameters import sensor_name
from sensors.sensor import AbstractSensor

__all__ = ["sie", "sie_friction", "sie_friction_fy"]


def sie(robot: KinematicTree) -> Layout:
    """Plates of load cells at both ends, all accelerations (autoSensSIE)."""
    return _ends(robot, ("tx", "ty", "fz"), 0)


def sie_friction(robot: KinematicTree) -> Layout:
    """All but the torsion at both ends (autoSensSIEfriction)."""
    return _ends(robot, ("tx", "ty", "fx", "fy", "fz"), 2)


def sie_friction_fy(robot: KinematicTree) -> Layout:
    """All but torsion and fy at both ends (autoSensSIEfriction_fy)."""
    return _ends(robot, ("tx", "ty", "fx", "fz"), 1)


def _ends(robot: KinematicTree, components: Sequence[str], left_out: int) -> Layout:
    """Chain with the same ``components`` at both ends, ``left_out`` accelerations at each."""
    n, fewest = robot.n_bodies, max(2, 2 * left_out)
    chain = all(p == i - 1 for i, p in enumerate(robot.parent.tolist()))
    if not chain or any(joint.nv != 1 for joint in robot.joints) or n < fewest:
        raise LayoutError(
            f"robot {robot.name!r}: the published sets are for unbranched chains of at least"
            f" {fewest} bodies, one freedom each"
        )
    bodies, joints = robot.body_names, robot.joint_names
    sensors: list[AbstractSensor] = [
        *(ExternalWrench(sensor_name(name, "external_wrench"), name) for name in bodies[:-1]),
        *(
            JointAcceleration(sensor_name(j, "acceleration"), j)
            for j in joints[left_out : n - left_out]
        ),
        ForceTorque(sensor_name(joints[0], "wrench"), joints[0], components=components),
        ExternalWrench(
            sensor_name(bodies[-1], "external_wrench"), bodies[-1], components=components
        ),
    ]
    return Layout(robot, sensors, quiet=True)  # the paper's noise is 1
