"""Sensor layouts of real robots, each with a source for where its sensors sit.

>>> from sensors import catalogue
>>> catalogue.names()
('anymal', 'human', 'icub', 'nao', 'nao_slippery', 'panda', 'solo12', 'talos')
>>> catalogue.about("panda")["floating_base"]
False
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.tree import KinematicTree
from sensors.layout import Layout
from sensors.yaml_input import read_yaml

__all__ = ["about", "load", "names"]


def names() -> tuple[str, ...]:
    """Names of the layouts."""
    files = resources.files(__name__).iterdir()
    return tuple(
        sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))
    )


def _check(name: str) -> None:
    if name not in names():
        hint = nearest_name(name, names())
        raise LayoutError(
            f"the catalogue has no layout {name!r}{hint}; it has {', '.join(names())}"
        )


def load(name: str, robot: KinematicTree) -> Layout:
    """Layout ``name`` on a robot read from the model that :func:`about` names."""
    _check(name)
    with resources.as_file(resources.files(__name__) / f"{name}.yaml") as path:
        return Layout.load(path, robot)


def about(name: str) -> dict[str, Any]:
    """What a layout says of itself: description, model, floating_base, source."""
    _check(name)
    with resources.as_file(resources.files(__name__) / f"{name}.yaml") as path:
        return dict(read_yaml(path).mapping("a layout file")["about"].plain())
