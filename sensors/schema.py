"""JSON schema of layout files, for editors: generated from the sensor classes."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from dynsys.model.tree import KinematicTree
from sensors.files import CONTACT, ENCODERS, SECTIONS, SHORTHANDS, is_required
from sensors.parameters import parameters
from sensors.sensor import AbstractSensor, sensor_kinds

__all__ = ["layout_schema", "layout_schema_text"]

_OPTIONS: dict[str, Any] = {
    "std": {"anyOf": [{"type": "number"}, {"type": "array"}, {"type": "object"}]},
    "free": {"type": "boolean"},
}
"""Options of shorthands beside their lists of names."""


def layout_schema(robot: KinematicTree | None = None) -> dict[str, Any]:
    """Schema of a layout file.

    Parameters
    ----------
    robot : if given, frames and joints complete to those of this robot and no others.
    """
    sensors = [_sensor_schema(kind, sensor, robot) for kind, sensor in sensor_kinds().items()]
    correlation = {
        "type": "object",
        "properties": {
            "between": {"type": "array", "items": {"type": "string"}},
            "covariance": {"type": "array"},
        },
        "required": ["between", "covariance"],
        "additionalProperties": False,
    }
    sections: dict[str, Any] = {
        "about": {"type": "object"},
        "contacts": {"type": "array", "items": _contact_schema(robot)},
        "sensors": {
            "type": "array",
            "items": {"anyOf": [*sensors, *_shorthand_schemas(robot)]},
        },
        "correlations": {"type": "array", "items": correlation},
        **dict.fromkeys(ENCODERS, _encoder_schema(robot)),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dynsys sensor layout",
        "type": "object",
        "properties": {section: sections[section] for section in SECTIONS},
        "required": ["sensors"],
        "additionalProperties": False,
    }


def _contact_schema(robot: KinematicTree | None) -> dict[str, Any]:
    """The name of a frame, or a place on one."""
    place = {
        "type": "object",
        "properties": {key: kind.schema_for(robot) for key, kind in CONTACT.items()},
        "required": ["name"],
        "additionalProperties": False,
    }
    frame = {"type": "string"} if robot is None else {"enum": list(robot.frames)}
    return {"anyOf": [frame, place]}


def _encoder_schema(robot: KinematicTree | None) -> dict[str, Any]:
    """One number, or numbers by joint."""
    number = {"type": "number", "minimum": 0}
    by_joint: dict[str, Any] = {
        "type": "object",
        "additionalProperties": {"anyOf": [number, {"type": "array", "items": number}]},
    }
    if robot is not None:
        by_joint["propertyNames"] = {"enum": list(robot.joint_names)}
    return {"anyOf": [number, by_joint]}


def layout_schema_text() -> str:
    """Return the schema as ``sensors/schema.json`` holds it."""
    return json.dumps(layout_schema(), indent=1) + "\n"


def _sensor_schema(
    kind: str, sensor: type[AbstractSensor], robot: KinematicTree | None
) -> dict[str, Any]:
    allowed = parameters(sensor)
    properties: dict[str, Any] = {"kind": {"const": kind}}
    for field in fields(sensor):
        if field.name in allowed:
            properties[field.name] = allowed[field.name].schema_for(robot)
    required = [field.name for field in fields(sensor) if is_required(field)]
    return {
        "type": "object",
        "description": (sensor.__doc__ or "").strip().splitlines()[0],
        "properties": properties,
        "required": ["kind", *required],
        "additionalProperties": False,
    }


def _shorthand_schemas(robot: KinematicTree | None) -> list[dict[str, Any]]:
    schemas: list[dict[str, Any]] = [{"enum": list(SHORTHANDS)}]
    for word, (_, (key, *more)) in SHORTHANDS.items():
        known = None
        if robot is not None:
            known = list(robot.frames) if key == "touched" else list(robot.joint_names)
        names = {
            "type": "array",
            "items": {"type": "string"} if known is None else {"enum": known},
        }
        options = {
            "type": "object",
            "properties": {key: names} | {option: _OPTIONS[option] for option in more},
            "additionalProperties": False,
        }
        schemas.append(
            {
                "type": "object",
                "properties": {word: {"anyOf": [names, options, {"type": "null"}]}},
                "required": [word],
                "additionalProperties": False,
            }
        )
    return schemas
