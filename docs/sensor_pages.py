"""A page per sensor, made of its class: a new sensor has its page without another line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

import dynsys
from docs.docstrings import markdown, read
from docs.plain_math import latex
from dynsys.errors import DynsysError
from dynsys.model.tree import KinematicTree
from sensors import AbstractSensor, sensor_kinds
from sensors.files import is_required, sensor_record
from sensors.parameters import parameters

__all__ = ["example", "sensor_pages"]

INTRODUCTION = """\
# Sensors

A sensor is a set of rows

$$ y = Y(q) \\, d + b_Y(q, \\dot q) + \\text{noise} $$

on the unknowns $d$ of the robot. These pages are generated from the classes themselves.

| kind in a layout file | what it is |
|---|---|
"""

KNOWN_NAMES = {"_frames": ("l_hand", "r_hand"), "_joints": ("l_knee", "r_knee")}
COEFFICIENTS = {
    "torque": {"l_knee": [1.0]},
    "external_wrench": {"l_hand": [0, 0, 0, 0, 0, 2.0]},
}


def classes() -> dict[str, type[AbstractSensor]]:
    """Every sensor class once, by its own kind."""
    return {cls.kind: cls for cls in sensor_kinds().values()}


def humanoid() -> KinematicTree:
    """The bundled humanoid, standing free."""
    with resources.as_file(resources.files("dynsys.model") / "data" / "humanoid.urdf") as path:
        return dynsys.load(path, floating_base=True)


def sensor_pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of the index and of every sensor."""
    robot, found = humanoid(), dict(sorted(classes().items()))
    lines = [f"| [`{kind}`]({kind}.md) | {markdown(read(cls).summary)} |"
             for kind, cls in found.items()]  # fmt: skip
    toc = "\n".join(found)
    yield (
        "sensors/index.md",
        (INTRODUCTION + "\n".join(lines) + f"\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"),
    )
    for kind, cls in found.items():
        yield f"sensors/{kind}.md", page(cls, robot)


def page(cls: type[AbstractSensor], robot: KinematicTree) -> str:
    """Markdown of one sensor: equation, notes, rows, parameters, how to write it."""
    doc = read(cls)
    parts = [f"# {cls.__name__}", markdown(doc.summary)]
    parts += [f"$$ {latex(equation)} $$" for equation in doc.equations]
    parts += [markdown(citation) for citation in doc.citations]
    parts += [markdown(note) for note in doc.notes]
    sensor = example(cls, robot)
    if sensor is not None:
        parts += ["## Rows", _rows(sensor, robot)]
    parts += ["## Parameters", _parameters(cls, doc.parameters)]
    if sensor is not None:
        parts += ["## Write it", _written(sensor)]
    if cls.aliases:
        parts.append(f"Also called: {', '.join(f'`{word}`' for word in cls.aliases)}.")
    return "\n\n".join(parts) + "\n"


def example(cls: type[AbstractSensor], robot: KinematicTree) -> AbstractSensor | None:
    """One such sensor on the robot, required parameters chosen by their type."""
    given: dict[str, Any] = {}
    used = dict.fromkeys(KNOWN_NAMES, 0)
    for field in dataclasses.fields(cls):
        if not is_required(field):
            continue
        parameter = parameters(cls)[field.name]
        known = getattr(parameter.known, "__name__", "").removesuffix("_and_welds")
        if field.name == "name":
            given["name"] = f"my_{cls.kind}"
        elif known in KNOWN_NAMES:
            given[field.name] = KNOWN_NAMES[known][used[known]]
            used[known] += 1
        else:
            kind = parameter.schema.get("type")
            given[field.name] = {"number": 50.0, "array": (0.0, 0.0, 1.0)}.get(
                str(kind), COEFFICIENTS
            )
    try:
        sensor = cls(**given)
        sensor.labels(robot)
    except (DynsysError, TypeError):
        return None
    return sensor


def _rows(sensor: AbstractSensor, robot: KinematicTree) -> str:
    table = "\n".join(
        f"| {k} | `{label}` | {unit} |"
        for k, (label, unit) in enumerate(
            zip(sensor.labels(robot), sensor.units(robot), strict=True)
        )
    )
    exact = sensor.constant(sensor.size(robot)) is not None and sensor.std is None
    note = (
        "\n\nNo data: the rows are a statement, exact unless `std` is given." if exact else ""
    )
    return f"| row | label | unit |\n|---|---|---|\n{table}{note}"


def _parameters(cls: type[AbstractSensor], meanings: dict[str, str]) -> str:
    base = read(AbstractSensor).parameters
    lines = ["| name | default | meaning |", "|---|---|---|"]
    for field in dataclasses.fields(cls):
        default = "required" if is_required(field) else f"`{_shown(field.default)}`"
        meaning = markdown(meanings.get(field.name, base.get(field.name, "")))
        lines.append(f"| `{field.name}` | {default} | {meaning} |")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return "none" if value is None else str(value).replace("'", "")


def _written(sensor: AbstractSensor) -> str:
    record = sensor_record(sensor)
    text = yaml.safe_dump([record], sort_keys=False, default_flow_style=None, width=90)
    arguments = ", ".join(
        repr(value) if key == "name" else f"{key}={value!r}"
        for key, value in record.items()
        if key != "kind"
    )
    call = f"sensors.{type(sensor).__name__}({arguments})"
    return f"In a layout file:\n\n```yaml\n{text}```\n\nIn Python:\n\n```python\n{call}\n```"
