"""Problem files: robot, base, layout, outputs and prior of an estimation, in YAML.

robot: nao.urdf              # a file beside this one, example:NAME or synthetic:NAME[:ARG...]
base: floating               # or fixed, the default
friction: file               # of the robot's file, in the equations; or ignore, the default
mimic: couple                # joints that mimic others follow them; or independent, the default
lock: {finger_joint: 0.02}   # joints that do not move (rad, m), optional
constraints: file            # loops and contacts that hold: the file's, or a list; sensors.held
layout: nao_layout.yaml      # a file, catalogue:NAME, or the sections of a layout file in place
outputs: [torque, std.torque, external_wrench.l_sole]         # see problems.estimation.outputs
prior: {std: {external_wrench: 100}, mean: {}}                # optional
plan: nao.plan.json          # optional, as 'dynsys plan' writes it: what solves the problem
log:                                                          # optional
  differentiate: {method: polynomial, window: 0.1}            # s; see problems.logs
  topics: {trunk_imu: /imu/data}
  columns: {imu: {from: acc, unit: g}}                        # see problems.logs.columns

``catalogue:NAME`` in place of a file is the catalogue's layout on the robot it was made for.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from importlib.metadata import files as distribution_files
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np

from dynsys.errors import DynsysError, LayoutError, LogWarning, ModelError, nearest_name
from dynsys.model.readers.assembly import FrictionPolicy, MimicPolicy
from dynsys.model.readers.xml_input import PathLike
from dynsys.model.tree import KinematicTree
from dynsys.plan.plan import Plan
from dynsys.resumable import written
from problems.estimation.estimation import Estimation
from problems.estimation.outputs import parse_outputs
from problems.logs import (
    AbstractDifferentiation,
    AbstractLog,
    Butterworth,
    Differentiation,
    SampleReader,
    Samples,
    Smoother,
    open_log,
)
from problems.logs.columns import ROTATIONS, UNITS, Column, Columns
from problems.logs.judge import doubts
from problems.measured.prior import Prior
from problems.robots import ROBOT_FILES, NamedRobot, read_robot
from sensors import Layout, catalogue, layout_schema
from sensors.held import constraints_schema, read_constraints
from sensors.yaml_input import Item, parse_yaml, read_yaml, write_yaml

__all__ = [
    "ProblemFile",
    "load_problem",
    "problem_schema",
    "save_problem",
]

SECTIONS = (
    "robot", "base", "friction", "mimic", "lock", "constraints", "layout", "outputs", "prior",
    "plan", "log",
)  # fmt: skip
DEFAULT_OUTPUTS = ("torque", "std.torque", "chi_square")
CATALOGUE = "catalogue:"


@final
@dataclass(frozen=True, eq=False)
class ProblemFile:
    """An estimation problem as its file says it.

    Parameters
    ----------
    robot : file (absolute, or relative to ``folder``), ``example:...`` or ``synthetic:...``.
    layout : file, ``catalogue:NAME``, or the content of a layout file.
    floating : True if the root link moves freely.
    outputs : names, see :mod:`problems.estimation.outputs`.
    prior : beliefs, or None.
    plan : file of the plan that is executed (absolute, or relative to ``folder``); empty: none.
    differentiation, topics, columns : how logs are read.
    path : where it was read, for messages.
    lines : line of each section in that file.
    friction, lock, mimic : how the robot is read, see :func:`dynsys.load`.
    constraints : what holds the robot: ``file``, or entries (:mod:`sensors.held`); None where
        nothing is said.
    """

    robot: str
    layout: str | Mapping[str, Any] | Item
    floating: bool = False
    outputs: tuple[str, ...] = DEFAULT_OUTPUTS
    prior: Prior | None = None
    plan: str = ""
    differentiation: AbstractDifferentiation = field(default_factory=Differentiation)
    topics: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    columns: Columns = field(default_factory=Columns)
    path: str = ""
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    friction: FrictionPolicy = "ignore"
    lock: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    mimic: MimicPolicy = "independent"
    constraints: str | Sequence[Mapping[str, Any]] | Item | None = None

    def _error(self, section: str, error: Exception | str) -> LayoutError:
        place = f"{self.path}, line {self.lines[section]}: " if section in self.lines else ""
        return LayoutError(f"{place}{section}: {error}")

    def _beside(self, name: str) -> Path:
        return Path(self.path).parent / name if self.path else Path(name)

    @cached_property
    def _named(self) -> NamedRobot:
        path = self.robot_path
        spec = self.robot if path is None else str(path)
        try:
            return read_robot(
                spec,
                self.floating or None,
                friction=self.friction,
                lock=self.lock,
                mimic=self.mimic,
            )
        except ModelError as error:
            raise self._error("robot", error) from None

    @property
    def robot_path(self) -> Path | None:
        """File of the robot; None for one that has a name only."""
        named = self.robot.startswith(("synthetic:", "example:"))
        return None if named else self._beside(self.robot)

    @property
    def tree(self) -> KinematicTree:
        """The robot itself, with the contacts of the layout, if it has one."""
        return self.sensors.robot if self.layout else self._named.robot

    @property
    def notes(self) -> tuple[str, ...]:
        """What the robot's file has that is no part of the model."""
        said = self.constraints is not None  # whether they hold
        notes = self._named.notes
        return tuple(n for n in notes if not (said and n.startswith("constraints ")))

    @cached_property
    def sensors(self) -> Layout:
        """The layout on the robot, with the statements of what holds it."""
        layout, robot = self._layout(self._named.robot), self._named.robot
        if not self.constraints:
            return layout
        held = read_constraints(self._item(self.constraints), robot)
        if self.constraints == "file" and not held:
            raise self._error("constraints", f"the file of robot {robot.name!r} has none")
        try:
            return layout.with_constraints(held)
        except LayoutError as error:
            raise self._error("constraints", error) from None

    def _layout(self, robot: KinematicTree) -> Layout:
        if not isinstance(self.layout, str):
            return Layout.read(self._item(self.layout), robot)
        try:
            if self.layout.startswith(CATALOGUE):
                return catalogue.load(self.layout.removeprefix(CATALOGUE), robot)
            return Layout.load(self._beside(self.layout), robot)
        except LayoutError as error:
            raise self._error("layout", error) from None

    def _item(self, content: object) -> Item:
        if isinstance(content, Item):
            return content
        return parse_yaml(write_yaml(_plain(content)), self.path or "layout")

    @cached_property
    def estimation(self) -> Estimation:
        """The problem, its outputs and prior checked against the robot."""
        robot, layout = self.tree, self.sensors
        try:
            said = None if self.constraints is None else ()
            found = Estimation(robot, layout, self.prior, constraints=said)
        except LayoutError as error:
            words = str(error).removeprefix("prior: ")
            raise self._error("prior" if self.prior else "layout", words) from None
        try:
            parse_outputs(found, self.outputs)
        except DynsysError as error:
            raise self._error("outputs", error) from None
        return found

    @cached_property
    def planned(self) -> Estimation:
        """The problem, executing its plan if it names one.

        Raises
        ------
        PlanMismatchError, PlanFileError
            if that is for another robot or other sensors, or no plan.
        """
        if not self.plan:
            return self.estimation
        return replace(self.estimation, executes=Plan.load(self.plan_path))

    @property
    def plan_path(self) -> Path:
        """File of the plan."""
        return self._beside(self.plan)

    def open_log(self, path: PathLike, spool: PathLike | None = None) -> AbstractLog:
        """Open a log by the names that the problem says it has."""
        return open_log(path, topics=self.topics, columns=self.columns, spool=spool)

    def samples(
        self, path: PathLike, *, allow_missing: bool = False, accelerations: bool = False
    ) -> Samples:
        """A whole log, as :class:`SampleReader` reads it.

        Units and samples that cannot be, and sensors that are let go, are warned of.
        """
        with self.open_log(path) as log:
            reader = SampleReader(
                self.sensors, log, self.differentiation, allow_missing, accelerations
            )
            samples = reader.read(0, log.n_samples)
            said = list(doubts(reader)) if log.n_samples else []
        if reader.not_measured:
            said.append(f"no readings of {', '.join(reader.not_measured)}: they are let go")
        for words in said:
            warnings.warn(f"{path}: {words}", LogWarning, stacklevel=2)
        return samples

    def with_plan(self, path: PathLike) -> ProblemFile:
        """The same problem with another plan, beside the working directory; "": its own."""
        return replace(self, plan=str(Path(path).absolute())) if str(path) else self


# ---- reading ---------------------------------------------------------------------------------


def load_problem(spec: PathLike) -> ProblemFile:
    """Read a problem file, or make the problem that ``catalogue:NAME`` names.

    Raises
    ------
    LayoutError
        naming file, line, what is wrong, and the nearest valid name. What the robot decides
        (frames, joints, outputs) is checked when the problem is built.
    """
    if str(spec).startswith(CATALOGUE):
        return _from_catalogue(str(spec))
    if str(spec).endswith(ROBOT_FILES) or str(spec).startswith(("example:", "synthetic:")):
        raise LayoutError(
            f"{spec}: this is a robot; a problem file is needed here, which names it and its"
            f" sensors: 'dynsys init' writes one for a robot file"
        )
    root = read_yaml(spec)
    sections = root.mapping("a problem file")
    if "sensors" in sections:
        raise root.error(
            "this is a layout file; write a problem file with two lines, robot: ROBOT and"
            f" layout: {Path(spec).name}"
        )
    _check_keys(sections, SECTIONS, "section")
    for needed in ("robot", "layout"):
        if needed not in sections:
            raise root.error(f"the section {needed!r} is missing; add it")
    log = sections["log"].mapping("log") if "log" in sections else {}
    _check_keys(log, ("differentiate", "topics", *COLUMN_KEYS), "key of log")
    return ProblemFile(
        robot=_text(sections["robot"], "robot"),
        layout=_layout(sections["layout"]),
        floating=_base(sections.get("base")),
        outputs=_outputs(sections.get("outputs")),
        prior=_prior(sections.get("prior")),
        plan=_text(sections["plan"], "plan") if "plan" in sections else "",
        differentiation=_differentiation(log.get("differentiate")),
        topics=_names(log.get("topics"), "topics"),
        columns=_columns(log),
        path=str(spec),
        lines={key: item.line for key, item in sections.items()},
        friction=_friction(sections.get("friction")),
        lock=_lock(sections.get("lock")),
        mimic=_mimic(sections.get("mimic")),
        constraints=_constraints(sections.get("constraints")),
    )


def _from_catalogue(spec: str) -> ProblemFile:
    about = catalogue.about(spec.removeprefix(CATALOGUE))
    return ProblemFile(_model(str(about["model"])), spec, bool(about["floating_base"]))


def _model(model: str) -> str:
    """Robot of a catalogue entry: a bundled one, or a file of example-robot-data."""
    if not model.endswith((".urdf", ".xml")):
        return f"example:{model}"
    if Path(model).is_file():
        return model
    with suppress(PackageNotFoundError):
        for file in distribution_files("example-robot-data") or ():
            if file.as_posix().endswith(f"/robots/{model}"):
                return str(Path(str(file.locate())).resolve())
    raise ModelError(
        f"the layout is for {model} of the package example-robot-data, which is not installed;"
        " run: pip install example-robot-data"
    )


def _check_keys(given: Mapping[str, Item], known: Sequence[str], what: str) -> None:
    for key, item in given.items():
        if key not in known:
            hint = nearest_name(key, known)
            raise item.error(f"unknown {what} {key!r}; use {', '.join(known)}{hint}")


def _text(item: Item, what: str) -> str:
    if not isinstance(item.value, str) or not item.value:
        raise item.error(f"{what} must be a name, got {item.plain()!r}")
    return item.value


def _base(item: Item | None) -> bool:
    if item is not None and item.value not in ("fixed", "floating"):
        raise item.error(f"base must be fixed or floating, got {item.plain()!r}")
    return item is not None and item.value == "floating"


def _friction(item: Item | None) -> FrictionPolicy:
    if item is not None and item.value not in ("ignore", "file"):
        raise item.error(f"friction must be file or ignore, got {item.plain()!r}")
    return "file" if item is not None and item.value == "file" else "ignore"


def _mimic(item: Item | None) -> MimicPolicy:
    if item is not None and item.value not in ("independent", "couple"):
        raise item.error(f"mimic must be couple or independent, got {item.plain()!r}")
    return "couple" if item is not None and item.value == "couple" else "independent"


def _lock(item: Item | None) -> dict[str, Any]:
    return {} if item is None else {k: v.plain() for k, v in item.mapping("lock").items()}


def _constraints(item: Item | None) -> str | Item | None:
    if item is None or item.value == "file":
        return None if item is None else "file"
    item.listed("constraints (file, or each of them)")
    return item


def _layout(item: Item) -> str | Item:
    if isinstance(item.value, dict):
        return item
    return _text(item, "layout")


def _outputs(item: Item | None) -> tuple[str, ...]:
    if item is None:
        return DEFAULT_OUTPUTS
    return tuple(_text(entry, "an output") for entry in item.listed("outputs"))


def _prior(item: Item | None) -> Prior | None:
    if item is None:
        return None
    entry = item.mapping("prior")
    _check_keys(entry, ("std", "mean"), "key of prior")
    if "std" not in entry:
        raise item.error("a prior needs 'std'; add it")
    mean = entry["mean"].plain() if "mean" in entry else {}
    return Prior(entry["std"].plain(), mean)


METHODS: Mapping[str, type[Differentiation] | type[Butterworth] | type[Smoother]] = {
    kind.method: kind for kind in (Differentiation, Butterworth, Smoother)
}
"""Ways to differentiate, by the word of problem files."""
OPTIONS: Mapping[str, Mapping[str, str]] = {
    name: {f.name: str(f.type) for f in fields(kind) if f.init and f.name != "constants"}
    for name, kind in METHODS.items()
}
"""Options of each way, and the type of each."""


def _differentiation(item: Item | None) -> AbstractDifferentiation:
    entry = dict({} if item is None else item.mapping("differentiate"))
    word = entry.pop("method", None)
    method = Differentiation.method if word is None else word.value
    if word is not None and method not in METHODS:
        hint = nearest_name(str(method), tuple(METHODS))
        raise word.error(f"method must be one of {', '.join(METHODS)}, got {method!r}{hint}")
    options = OPTIONS[method]
    _check_keys(entry, tuple(options), f"key of differentiate by {method}")
    for key, value in entry.items():
        _check_option(key, value, options[key])
    try:
        return METHODS[method](**{key: value.value for key, value in entry.items()})
    except DynsysError as error:
        assert item is not None
        raise item.error(str(error)) from None


def _check_option(key: str, item: Item, kind: str) -> None:
    value, is_flag = item.value, isinstance(item.value, bool)
    if kind == "bool":
        right, words = is_flag, "true or false"
    elif kind == "int":
        right, words = isinstance(value, int) and not is_flag, "a whole number"
    else:
        right, words = isinstance(value, (int, float)) and not is_flag, "a number"
    if not right:
        raise item.error(f"{key} must be {words}, got {item.plain()!r}")


def _names(item: Item | None, what: str) -> Mapping[str, str]:
    entry = {} if item is None else item.mapping(what)
    return {key: _text(value, f"{what}: {key}") for key, value in entry.items()}


COLUMN_KEYS = ("rate", "joints", "columns")
_COLUMN = {"from": "source", "as": "rotation"} | {
    k: k for k in ("unit", "scale", "sign", "order")
}
"""Keys of a column in a problem file, and what :class:`Column` calls them."""


def _columns(log: Mapping[str, Item]) -> Columns:
    """What the log section says of names, units and orders."""
    found: dict[str, tuple[Column, ...]] = {}
    if "columns" in log:
        for name, item in log["columns"].mapping("columns").items():
            parts = item.value if isinstance(item.value, list) else [item]
            found[name] = tuple(one for part in parts for one in _side_by_side(name, part))
    rate = log["rate"] if "rate" in log else None
    if rate is not None:
        _check_option("rate", rate, "float")
    try:
        return Columns(found, _names(log.get("joints"), "joints"), rate and float(rate.value))
    except DynsysError as error:
        assert rate is not None
        raise rate.error(str(error)) from None


def _side_by_side(name: str, item: Item) -> list[Column]:
    """One entry; several if ``from`` is a list of columns, which share unit and scale."""
    entry = item.value if isinstance(item.value, dict) else {}
    source = entry.get("from")
    if source is None or not isinstance(source.value, list):
        return [_column(name, item)]
    whole = _column(name, replace(item, value=entry | {"from": replace(source, value=name)}))
    names = [_column(name, one).source for one in source.listed("from")]
    if whole.rotation == "wxyz" and len(names) == 4 and not whole.order and not whole.sign:
        names, whole = [*names[1:], names[0]], replace(whole, rotation="")
    if whole.rotation:
        raise item.error(
            f"column {name!r}: a rotation ('as') is read of one array; a list of columns may"
            " only be the four of a quaternion, as wxyz or, without 'as', in the order x y z w"
        )
    for key, given in (("sign", whole.sign), ("order", whole.order)):
        if given and len(given) != len(names):
            raise item.error(
                f"column {name!r}: {key} has {len(given)} numbers, from has {len(names)}"
            )
    if whole.order and sorted(whole.order) != list(range(len(names))):
        raise item.error(f"column {name!r}: order must name 0..{len(names) - 1} once each")
    signs = whole.sign or (1.0,) * len(names)
    return [
        replace(whole, source=names[k], sign=(signs[k],) if whole.sign else (), order=())
        for k in whole.order or range(len(names))
    ]


def _column(name: str, item: Item) -> Column:
    """One entry: the name that the log has for it, or a mapping."""
    if isinstance(item.value, str | int) and not isinstance(item.value, bool):
        return Column(str(item.value))
    entry = item.mapping(f"columns: {name}")
    _check_keys(entry, tuple(_COLUMN), f"key of column {name!r};")
    given: dict[str, Any] = {"source": name}
    for key, value in entry.items():
        if key in ("sign", "order"):
            listed = value.listed(key) if isinstance(value.value, list) else [value]
            for one in listed:
                _check_option(key, one, "int" if key == "order" else "float")
            given[key] = tuple(one.value for one in listed)
        elif key == "scale":
            _check_option(key, value, "float")
            given[key] = float(value.value)
        else:
            given[_COLUMN[key]] = str(value.value) if key == "from" else _text(value, key)
    try:
        return Column(**given)
    except DynsysError as error:
        raise item.error(str(error)) from None


# ---- writing ---------------------------------------------------------------------------------


def save_problem(problem: ProblemFile, path: PathLike) -> None:
    """Write a problem file that :func:`load_problem` reads back: complete or not at all."""
    content: dict[str, Any] = {"robot": problem.robot}
    if problem.floating:
        content["base"] = "floating"
    if problem.friction == "file":
        content["friction"] = "file"
    if problem.mimic == "couple":
        content["mimic"] = "couple"
    if problem.lock:
        content["lock"] = dict(problem.lock)
    if problem.constraints is not None:
        content["constraints"] = problem.constraints
    content["layout"] = problem.layout
    content["outputs"] = list(problem.outputs)
    if problem.prior is not None:
        content["prior"] = {"std": dict(problem.prior.std), "mean": dict(problem.prior.mean)}
    if problem.plan:
        content["plan"] = problem.plan
    log: dict[str, Any] = {}
    if problem.differentiation != Differentiation():
        log["differentiate"] = _stated(problem.differentiation)
    if problem.topics:
        log["topics"] = dict(problem.topics)
    log |= _stated_columns(problem.columns)
    if log:
        content["log"] = log
    text = write_yaml(_plain(content))
    target = Path(path)
    with written(target, LayoutError) as part:
        part.write_text(text, encoding="utf-8")


def _stated_columns(columns: Columns) -> dict[str, Any]:
    """The log section of where columns are, without what goes without saying."""
    stated: dict[str, Any] = {} if columns.rate is None else {"rate": columns.rate}
    if columns.joints:
        stated["joints"] = dict(columns.joints)
    if columns.columns:
        default = Column("")
        stated["columns"] = {
            name: [
                {
                    key: getattr(part, ours)
                    for key, ours in _COLUMN.items()
                    if getattr(part, ours) != getattr(default, ours)
                }
                for part in parts
            ]
            for name, parts in columns.columns.items()
        }
    return stated


def _stated(method: AbstractDifferentiation) -> dict[str, Any]:
    """What a problem file says of a method: its name and what is not as it always is."""
    stated: dict[str, Any] = {"method": method.method}
    for option in OPTIONS[method.method]:
        if (value := getattr(method, option)) != getattr(METHODS[method.method](), option):
            stated[option] = value
    return stated


def _plain(content: object) -> Any:
    """Tuples, items and mappings of any kind as plain lists and dictionaries."""
    if isinstance(content, Item):
        return content.plain()
    if isinstance(content, Mapping):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple, np.ndarray)):
        return [_plain(value) for value in content]
    return content.item() if isinstance(content, np.generic) else content


# ---- JSON schema, for editors ------------------------------------------------------------


def _column_schema() -> dict[str, Any]:
    """A name, an entry, or several entries side by side."""
    one = {
        "type": "object",
        "properties": {
            "from": {
                "anyOf": [
                    {"type": ["string", "integer"]},
                    {"type": "array", "items": {"type": ["string", "integer"]}},
                ]
            },
            "unit": {"enum": list(UNITS)},
            "scale": {"type": "number"},
            "sign": {
                "anyOf": [{"enum": [1, -1]}, {"type": "array", "items": {"enum": [1, -1]}}]
            },
            "order": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "as": {"enum": list(ROTATIONS)},
        },
        "additionalProperties": False,
    }
    entry = {"anyOf": [{"type": ["string", "integer"]}, one]}
    return {"anyOf": [*entry["anyOf"], {"type": "array", "items": entry}]}


def problem_schema(robot: KinematicTree | None = None) -> dict[str, Any]:
    """Schema of a problem file; with a robot, frames and joints complete to its own."""
    layout = layout_schema(robot)
    layout.pop("$schema")
    strings = {"type": "object", "additionalProperties": {"type": "string"}}
    differentiate: dict[str, Any] = {"method": {"enum": list(METHODS)}}
    for options in OPTIONS.values():
        for option, kind in options.items():
            words = {"bool": "boolean", "int": "integer"}
            differentiate[option] = {"type": words.get(kind, "number")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dynsys estimation problem",
        "type": "object",
        "properties": {
            "robot": {"type": "string"},
            "base": {"enum": ["fixed", "floating"]},
            "friction": {"enum": ["file", "ignore"]},
            "mimic": {"enum": ["couple", "independent"]},
            "lock": {"type": "object"},
            "constraints": constraints_schema(robot),
            "layout": {"anyOf": [{"type": "string"}, layout]},
            "outputs": {"type": "array", "items": {"type": "string"}},
            "prior": {
                "type": "object",
                "properties": {"std": {"type": "object"}, "mean": {"type": "object"}},
                "required": ["std"],
                "additionalProperties": False,
            },
            "plan": {"type": "string"},
            "log": {
                "type": "object",
                "properties": {
                    "differentiate": {
                        "type": "object",
                        "properties": differentiate,
                        "additionalProperties": False,
                    },
                    "topics": strings,
                    "rate": {"type": "number", "exclusiveMinimum": 0},
                    "joints": strings,
                    "columns": {"type": "object", "additionalProperties": _column_schema()},
                },
                "additionalProperties": False,
            },
        },
        "required": ["robot", "layout"],
        "additionalProperties": False,
    }
