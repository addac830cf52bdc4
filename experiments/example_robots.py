"""Real robots for tests and experiments: the files of the example-robot-data package."""

from __future__ import annotations

import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import dynsys
from dynsys.errors import ModelWarning
from dynsys.model.tree import KinematicTree

__all__ = [
    "ROBOTS",
    "all_urdf_files",
    "load_quietly",
    "pinocchio_model_of",
    "robot_path",
    "robots_folder",
]

ROBOTS: tuple[tuple[str, bool], ...] = (
    ("ur_description/urdf/ur5_robot.urdf", False),
    ("ur_description/urdf/ur10_robot.urdf", False),
    ("panda_description/urdf/panda.urdf", False),
    ("kinova_description/robots/kinova.urdf", False),
    ("xarm_description/urdf/xarm7.urdf", False),
    ("z1_description/urdf/z1.urdf", False),
    ("baxter_description/urdf/baxter.urdf", False),
    ("allegro_hand_description/urdf/allegro_right_hand.urdf", False),
    ("double_pendulum_description/urdf/double_pendulum_continuous.urdf", False),
    ("finger_edu_description/robots/finger_edu.urdf", False),
    ("tiago_description/robots/tiago.urdf", False),
    ("pr2_description/urdf/pr2.urdf", True),
    ("solo_description/robots/solo12.urdf", True),
    ("a1_description/urdf/a1.urdf", True),
    ("anymal_b_simple_description/robots/anymal.urdf", True),
    ("hyq_description/robots/hyq_no_sensors.urdf", True),
    ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
    ("icub_description/robots/icub.urdf", True),
    ("romeo_description/urdf/romeo_small.urdf", True),
    ("simple_humanoid_description/urdf/simple_humanoid.urdf", True),
    ("talos_data/robots/talos_full_v2.urdf", True),
)
"""Robots compared with Pinocchio: path below the robots folder, floating base."""


def robots_folder() -> Path | None:
    """Folder ``robots`` of the installed example-robot-data package, or None."""
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.suffix == ".urdf" and "robots" in file.parts:
            path = Path(str(file.locate()))
            depth = len(file.parts) - file.parts.index("robots") - 1
            return path.parents[depth - 1]
    return None


def robot_path(relative: str) -> Path:
    """Path of one robot file; FileNotFoundError says what to install."""
    folder = robots_folder()
    if folder is None:
        raise FileNotFoundError("example-robot-data is not installed; pip install it")
    return folder / relative


def all_urdf_files() -> list[str]:
    """Every URDF file of the package, relative to the robots folder, sorted."""
    folder = robots_folder()
    if folder is None:
        return []
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.urdf"))


def load_quietly(path: str | Path, floating: bool) -> KinematicTree:
    """The robot of a file, without the warnings of what the file says of inertias."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return dynsys.load(path, floating_base=floating)


def pinocchio_model_of(path: Path, floating: bool) -> Any:
    """The same file read by Pinocchio."""
    import pinocchio as pin

    base = (pin.JointModelFreeFlyer(),) if floating else ()
    return pin.buildModelFromUrdf(str(path), *base)
