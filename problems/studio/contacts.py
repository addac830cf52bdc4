"""Where contacts are: the frames at which a problem declares external wrenches.

Forces are drawn, and moments taken, at the frame of a plate or wrench sensor; else at the one
that ``zero_external_wrench_except`` or an output ``external_wrench.FRAME`` names; else at the
origin of the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from dynsys.model.tree import KinematicTree
from problems.problem_file import CATALOGUE, ProblemFile
from sensors import catalogue
from sensors.files import GROUP, sensor_record, touched_frames
from sensors.groups import zero_external_wrench_except
from sensors.layout import Layout
from sensors.yaml_input import Item, read_yaml

__all__ = ["contact_frames", "declared_frames", "with_group"]

OUTPUTS = ("external_wrench.", "std.external_wrench.")


def declared_frames(problem: ProblemFile) -> tuple[str, ...]:
    """Frames that the layout says may be touched, then those whose wrenches are outputs."""
    found: list[str] = []
    for entry in _content(problem).get("sensors", ()):
        found += touched_frames(entry)
    for output in problem.outputs:
        found += [output.removeprefix(start) for start in OUTPUTS if output.startswith(start)]
    return tuple(name for name in dict.fromkeys(found) if name in problem.tree.frames)


def _content(problem: ProblemFile) -> Mapping[str, Any]:
    """What the layout of a problem says, as written."""
    layout = problem.layout
    if isinstance(layout, str) and layout.startswith(CATALOGUE):
        name = f"{layout.removeprefix(CATALOGUE)}.yaml"
        with resources.as_file(resources.files(catalogue) / name) as path:
            layout = read_yaml(path)
    elif isinstance(layout, str):
        layout = read_yaml(Path(problem.path).parent / layout)
    plain: Mapping[str, Any] = layout.plain() if isinstance(layout, Item) else layout
    return plain


def contact_frames(layout: Layout, declared: Sequence[str] = ()) -> tuple[str, ...]:
    """Name of the frame of each body (n_bodies,) where its external wrench is told."""
    robot = layout.robot
    frames = list(robot.body_names)
    for name in reversed(declared):  # the first of a body counts
        _put(frames, robot, name)
    for sensor in layout.sensors:
        frame = getattr(sensor, "frame", None)
        is_contact = sensor.kind.endswith(("plate", "wrench", "contact"))
        if isinstance(frame, str) and is_contact and sensor.constant(1) is None:
            _put(frames, robot, frame)
    return tuple(frames)


def _put(frames: list[str], robot: KinematicTree, name: str) -> None:
    body = robot.frame(name).body
    if body >= 0:
        frames[body] = name


def with_group(content: Mapping[str, Any], layout: Layout, frames: Sequence[str]) -> Any:
    """Content of a layout file, statements that nothing touches a body written as one line.

    Only where they stand in a row as ``zero_external_wrench_except`` makes them: the file is
    short then, and keeps the names of the frames that may be touched.
    """
    robot, names = layout.robot, set(layout.names)
    stated = [sensor.name for sensor in zero_external_wrench_except(robot)]
    touched = [f for f, name in zip(frames, stated, strict=True) if name not in names]
    group = list(map(sensor_record, zero_external_wrench_except(robot, touched)))
    records = list(content["sensors"])
    for k in range(len(records) - len(group) + 1):
        if group and records[k : k + len(group)] == group:
            records[k : k + len(group)] = [{GROUP: touched} if touched else GROUP]
            break
    return {**content, "sensors": records}
