"""Files that the page may read and write: problem files and logs of one folder.

A layout is saved as a problem file that ``dynsys check`` reads with the same verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, final

import yaml

from dynsys.errors import LayoutError, RefusedError
from dynsys.model.tree import KinematicTree
from dynsys.plan.plan import Plan
from problems.estimation.compiled import check_plan
from problems.logs.files import FORMATS
from problems.problem_file import ProblemFile, load_problem, save_problem
from sensors.layout import Layout
from sensors.sensor import AbstractSensor
from sensors.yaml_input import parse_yaml, read_yaml

__all__ = [
    "LAYOUTS",
    "LOGS",
    "Folder",
    "listing",
    "open_problem",
    "robot_spec",
    "save",
    "sensors_from",
]

Facts: TypeAlias = dict[str, Any]
NAMED = ("synthetic:", "example:")
LAYOUTS = (".yaml", ".yml")
LOGS = FORMATS
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+ -]{0,98}")
MOST_LISTED = 200


@final
class Folder:
    """Files of one folder; nothing outside of it, no hidden files, no links leading out.

    Parameters
    ----------
    path : the folder; it must be there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_dir():
            raise RefusedError(f"{path}: no such folder; make it, or give another --folder")

    def file(self, name: str, endings: Sequence[str]) -> Path:
        """Path of a plain file name; RefusedError for anything else."""
        if not PLAIN.fullmatch(name) or name != Path(name).name:
            raise RefusedError(
                f"{name[:80]!r} is no plain file name; use letters, digits, '_', '-' and '.'"
            )
        if not name.lower().endswith(tuple(endings)):
            raise RefusedError(f"{name!r}: the name must end with {' or '.join(endings)}")
        path = self.path / name
        if path.is_symlink() or path.resolve().parent != self.path:
            raise RefusedError(f"{name!r} is a link; studio follows none")
        if path.exists() and not path.is_file():
            raise RefusedError(f"{name!r} is no file")
        return path

    def names(self, endings: Sequence[str]) -> list[str]:
        """Names of the files that :meth:`file` accepts, sorted."""
        found = []
        for path in sorted(self.path.iterdir()):
            if path.name.lower().endswith(tuple(endings)) and path.is_file():
                try:
                    found.append(self.file(path.name, endings).name)
                except RefusedError:
                    continue
        return found[:MOST_LISTED]

    def holds(self, path: str | Path) -> bool:
        """Tell whether a path leads to something within the folder."""
        return Path(path).resolve().is_relative_to(self.path)


def robot_spec(problem: ProblemFile) -> str:
    """Robot of a problem: a name, or the absolute path of its file."""
    if problem.robot.startswith(NAMED):
        return problem.robot
    return str((Path(problem.path).parent / problem.robot).resolve())


def sensors_from(records: Sequence[Facts], robot: KinematicTree) -> list[AbstractSensor]:
    """Sensors from records as a layout file has them."""
    text = yaml.safe_dump({"sensors": list(records)}, sort_keys=False)
    return list(Layout.read(parse_yaml(text, "suggestion"), robot))


def listing(folder: Folder) -> dict[str, list[str]]:
    """Names of the layouts and logs of a folder."""
    return {"layouts": folder.names(LAYOUTS), "logs": folder.names(LOGS)}


def save(
    problem: ProblemFile, folder: Folder, name: str, overwrite: bool, plan: Plan | None = None
) -> list[Path]:
    """Write a problem file, its layout in place, and beside it the plan that was searched for.

    Without one the file names none: what it named before was for the layout before.
    """
    if not name.lower().endswith(LAYOUTS):
        name = f"{name}.yaml"
    path = folder.file(name, LAYOUTS)
    beside = folder.file(f"{path.stem}.plan.json", (".json",))
    for target in (path, beside) if plan is not None else (path,):
        if target.exists() and not overwrite:
            raise RefusedError(
                f"{target.name!r} is there already; choose another name, or overwrite it"
            )
    spec = robot_spec(problem)
    if not spec.startswith(NAMED) and folder.holds(spec):
        spec = str(Path(spec).relative_to(folder.path))
    named = "" if plan is None else beside.name
    written = replace(problem, robot=spec, plan=named, path=str(path))
    written.estimation  # noqa: B018 - what cannot be read back is not written
    if plan is not None:
        check_plan(written.estimation, plan)
        plan.save(beside)
    save_problem(written, path)
    return [path] if plan is None else [path, beside]


def open_problem(folder: Folder, name: str, current: ProblemFile) -> ProblemFile:
    """Read a problem file, or a layout file for the robot that is shown.

    A problem file may name the robot that is shown, a bundled or synthetic one, or a file in
    the folder: no message can make studio read anything else.
    """
    path = folder.file(name, LAYOUTS)
    root = read_yaml(path)
    sections = root.mapping("a layout or problem file")
    if "robot" not in sections:
        opened = replace(
            current, layout=name, plan="", path=str(path), robot=robot_spec(current)
        )
    else:
        opened = load_problem(path)
        spec = robot_spec(opened)
        known = spec.startswith(NAMED) or spec == robot_spec(current) or folder.holds(spec)
        layout = opened.layout
        if not known or (isinstance(layout, str) and not _may_read(folder, layout)):
            raise RefusedError(
                f"{name!r} names files outside of the folder; start studio with it instead"
            )
    try:
        opened.estimation  # noqa: B018 - all of it is checked before anything changes
    except LayoutError as error:
        raise LayoutError(str(error).replace(f"{folder.path}/", "")) from None
    return opened


def _may_read(folder: Folder, layout: str) -> bool:
    return layout.startswith("catalogue:") or folder.holds(folder.path / layout)
