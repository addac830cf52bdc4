"""URDF in few words: links, joints, a file of them, and a reader without warnings."""

from __future__ import annotations

import warnings
from pathlib import Path

from dynsys import KinematicTree, ModelWarning, load

UNIT = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
INERTIAL = f'<inertial><mass value="1"/><origin xyz="0 0.1 0"/>{UNIT}</inertial>'
LIMIT = '<limit lower="-1" upper="2" effort="3" velocity="4"/>'


def link(name: str, inertial: str = INERTIAL) -> str:
    return f'<link name="{name}">{inertial}</link>'


def joint(
    name: str, parent: str, child: str, kind: str = "revolute", extra: str = LIMIT
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{extra}</joint>"
    )


def write(folder: Path, *parts: str, name: str = "r.urdf") -> Path:
    path = folder / name
    path.write_text(f'<robot name="r">{"".join(parts)}</robot>')
    return path


def quiet(path: Path, **options: object) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return load(path, **options)  # type: ignore[arg-type]
