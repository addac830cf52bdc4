"""JSON schema of problem files, for editors."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dynsys.model.tree import KinematicTree
from problems.logs.differentiate import Differentiation
from sensors import layout_schema

__all__ = ["problem_schema"]


def problem_schema(robot: KinematicTree | None = None) -> dict[str, Any]:
    """Schema of a problem file; with a robot, frames and joints complete to its own."""
    layout = layout_schema(robot)
    layout.pop("$schema")
    strings = {"type": "object", "additionalProperties": {"type": "string"}}
    differentiate = {
        f.name: {"type": "boolean" if isinstance(f.default, bool) else "integer"}
        for f in fields(Differentiation)
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dynsys estimation problem",
        "type": "object",
        "properties": {
            "robot": {"type": "string"},
            "base": {"enum": ["fixed", "floating"]},
            "layout": {"anyOf": [{"type": "string"}, layout]},
            "outputs": {"type": "array", "items": {"type": "string"}},
            "prior": {
                "type": "object",
                "properties": {"std": {"type": "object"}, "mean": {"type": "object"}},
                "required": ["std"],
                "additionalProperties": False,
            },
            "log": {
                "type": "object",
                "properties": {
                    "differentiate": {
                        "type": "object",
                        "properties": differentiate,
                        "additionalProperties": False,
                    },
                    "topics": strings,
                },
                "additionalProperties": False,
            },
        },
        "required": ["robot", "layout"],
        "additionalProperties": False,
    }
