"""Robots by the short names of the command line: a file, ``synthetic:...``, ``example:...``."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from typing import Any, NamedTuple

from dynsys.errors import ModelError, ModelWarning, nearest_name
from dynsys.model import synthetic
from dynsys.model.readers import load
from dynsys.model.readers.assembly import FrictionPolicy, MimicPolicy
from dynsys.model.tree import KinematicTree
from dynsys.types import ArrayLike

__all__ = ["MAX_BODIES", "ROBOT_FILES", "NamedRobot", "read_robot"]

ROBOT_FILES = (".urdf", ".xml", ".xacro")

MAX_BODIES = 5000
"""Most bodies of a robot that a name asks for: building one takes up to a millisecond."""
_BODIES: Mapping[str, Callable[[int], int]] = {
    "auto_tree": lambda n: n,
    "balanced_tree": lambda m: 2 ** min(m, 64) - 1,
    "centipede": lambda segments: 5 * segments,
    "chain": lambda n: n,
    "random_tree": lambda n: n,
    "side_branches": lambda m: 2 * m,
    "spanning_grid": lambda m: m * m,
}


class NamedRobot(NamedTuple):
    """A robot and what its reader had to say about the file."""

    robot: KinematicTree
    notes: tuple[str, ...]


def read_robot(
    spec: str,
    floating_base: bool | None = None,
    *,
    friction: FrictionPolicy = "ignore",
    lock: Mapping[str, ArrayLike] | None = None,
    mimic: MimicPolicy = "independent",
) -> NamedRobot:
    """Return the robot that ``spec`` names.

    Parameters
    ----------
    spec : path of a robot file, ``example:NAME`` (bundled) or ``synthetic:NAME[:ARG...]`` with
        positional or ``key=value`` arguments of the function in ``dynsys.synthetic``.
    floating_base : True gives the root link six freedoms. None takes the robot as it comes.
    friction, lock, mimic : as :func:`dynsys.load` takes them.

    Raises
    ------
    ModelError
        no such robot, bad arguments, or whatever is wrong with the file.

    Examples
    --------
    >>> read_robot("synthetic:chain:10").robot.n_bodies
    10
    """
    if spec.endswith((".yaml", ".yml")) or spec.startswith("catalogue:"):
        raise ModelError(
            f"{spec}: this is a problem; a robot is needed here: a file"
            f" ({', '.join(ROBOT_FILES)}), example:NAME or synthetic:NAME"
        )
    kind, _, rest = spec.partition(":")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        if kind == "synthetic":
            if floating_base:
                raise ModelError(
                    f"{spec}: synthetic robots have the base they were defined with;"
                    " leave out --floating-base, or base: floating in a problem file"
                )
            robot = _synthetic(spec, rest).with_friction(friction == "file")
            robot = robot.with_locked(lock) if lock else robot
        else:
            read = partial(_example, spec) if kind == "example" else load
            robot = read(
                rest if kind == "example" else spec,
                floating_base=bool(floating_base),
                friction=friction,
                lock=lock,
                mimic=mimic,
            )
    notes = (str(item.message).removeprefix(f"{spec}: ") for item in caught)
    return NamedRobot(robot, tuple(notes))


def _example(spec: str, name: str, **options: Any) -> KinematicTree:
    folder = resources.files("dynsys.model") / "data"
    known = sorted(
        item.name.removesuffix(".urdf")
        for item in folder.iterdir()
        if item.name.endswith(".urdf")
    )
    if name not in known:
        listed = ", ".join(f"example:{item}" for item in known)
        raise ModelError(f"{spec}: no such bundled robot; there is {listed}")
    with resources.as_file(folder / f"{name}.urdf") as path:
        return load(path, **options)


def _synthetic(spec: str, rest: str) -> KinematicTree:
    name, *texts = rest.split(":")
    if name not in synthetic.__all__:
        hint = nearest_name(name, synthetic.__all__)
        raise ModelError(
            f"{spec}: no synthetic robot {name!r} among {', '.join(synthetic.__all__)}{hint}"
        )
    build: Callable[..., KinematicTree] = getattr(synthetic, name)
    signature = inspect.signature(build, eval_str=True)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if equals:
            named[key] = _value(value)
        else:
            positional.append(_value(text))
    try:
        given = signature.bind(*positional, **named).arguments
    except TypeError as error:
        parameters = ", ".join(map(str, signature.parameters.values()))
        raise ModelError(f"{spec}: {error}; {name} takes ({parameters})") from None
    size = next(iter(given.values()), None)
    if isinstance(size, int) and name in _BODIES and _BODIES[name](size) > MAX_BODIES:
        raise ModelError(
            f"{spec}: more than {MAX_BODIES} bodies; build larger robots in Python with"
            f" dynsys.synthetic.{name}"
        )
    try:
        return build(*positional, **named)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{spec}: {error}") from None


def _value(text: str) -> object:
    """Number, truth value, comma-separated tuple or plain word."""
    if "," in text:
        return tuple(_value(part) for part in text.split(","))
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
