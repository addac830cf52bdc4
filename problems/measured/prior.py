"""What is believed of the unknowns before any reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, final, get_args

import numpy as np

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.contacts import is_contact
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.laws import known
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout
from dynsys.types import Array, ArrayLike
from sensors.held import is_far_end

__all__ = ["PerName", "Prior", "PriorRows", "prior_rows"]

QUANTITIES: tuple[UnknownKind, ...] = get_args(UnknownKind)
PerName: TypeAlias = ArrayLike | Mapping[str, ArrayLike]


@final
@dataclass(frozen=True, eq=False)
class Prior:
    """Independent normal beliefs about named quantities: maximum a posteriori estimation.

    d_k = mean_k + noise of standard deviation std_k

    What is believed of all bodies or joints is believed once: contacts count for their external
    wrenches alone, constraints for that on the held frame, not for its opposite (NAME/other).

    Parameters
    ----------
    std : quantity (torque, qdd, external_wrench, joint_wrench, acceleration, net_wrench) to
        one number, one per component, or a mapping from joint or body names (contacts
        included) to those.
    mean : the same for the means; zero where not given.

    Examples
    --------
    >>> Prior(std={"external_wrench": 100.0, "qdd": {"l_knee": 50.0}})
    Prior(std={'external_wrench': 100.0, 'qdd': {'l_knee': 50.0}}, mean={})
    """

    std: Mapping[str, PerName]
    mean: Mapping[str, PerName] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, given in (("std", self.std), ("mean", self.mean)):
            if not isinstance(given, Mapping):
                raise LayoutError(
                    f"prior: {what} must map quantities to numbers, got {given!r:.80}"
                )

    def rows(self, unknowns: UnknownLayout) -> PriorRows:
        """Rows on the unknowns; LayoutError if names or sizes do not fit."""
        equations: list[EquationBlock] = []
        means, stds = [np.zeros(0)], [np.zeros(0)]
        for kind in self.std:
            for block in _blocks(unknowns, kind, self.std[kind]):
                equation = known(unknowns, block.kind, block.body)
                equations.append(replace(equation, name=f"prior({equation.name})"))
                std = _value(self.std[kind], block)
                if not (np.isfinite(std).all() and (std > 0).all()):
                    raise LayoutError(f"prior: std of the {block} must be positive, got {std}")
                stds.append(std)
                means.append(_value(self.mean.get(kind, 0.0), block))
        for kind in self.mean:
            self._check_mean(unknowns, kind)
        return PriorRows(tuple(equations), np.concatenate(means), np.concatenate(stds))

    def _check_mean(self, unknowns: UnknownLayout, kind: str) -> None:
        """Raise LayoutError for a mean that no standard deviation goes with."""
        mean, std = self.mean[kind], self.std.get(kind)
        if std is None:
            raise LayoutError(f"prior: {kind!r} has a mean but no std; give both")
        known = {block.name for block in _blocks(unknowns, kind, std)}
        for block in _blocks(unknowns, kind, mean) if isinstance(mean, Mapping) else ():
            if block.name not in known:
                raise LayoutError(f"prior: the {block} has a mean but no std; give both")


@final
@dataclass(frozen=True, eq=False)
class PriorRows:
    """The rows  d_k = mean + noise  of a prior on the unknowns of a robot."""

    equations: tuple[EquationBlock, ...]
    mean: Array
    std: Array

    @property
    def stated(self) -> tuple[EquationBlock, ...]:
        """The rows  d_k - mean = noise: the means are part of the equations, not of y."""
        cuts = np.cumsum([equation.size for equation in self.equations])[:-1]
        means = np.split(self.mean, cuts)
        return tuple(
            replace(equation, bias=partial(_minus, mean)) if mean.any() else equation
            for equation, mean in zip(self.equations, means, strict=False)
        )


def prior_rows(prior: Prior | None, unknowns: UnknownLayout) -> PriorRows:
    """Rows of a prior, none if there is none."""
    return PriorRows((), np.zeros(0), np.zeros(0)) if prior is None else prior.rows(unknowns)


def _minus(mean: Array, kinematics: Kinematics) -> Array:
    return -mean


def _blocks(unknowns: UnknownLayout, kind: str, given: PerName) -> list[UnknownBlock]:
    if kind not in QUANTITIES:
        hint = nearest_name(kind, QUANTITIES)
        raise LayoutError(
            f"prior: unknown quantity {kind!r}{hint}; use {', '.join(QUANTITIES)}"
        )
    blocks = [block for block in unknowns.blocks if block.kind == kind]
    if not isinstance(given, Mapping):
        return [block for block in blocks if not _follows(unknowns, block)]
    names = [block.name for block in blocks]
    for name in given:
        if name not in names:
            hint = nearest_name(name, names)
            raise LayoutError(f"prior: no {kind} of {name!r} is unknown{hint}")
    return [block for block in blocks if block.name in given]


def _follows(unknowns: UnknownLayout, block: UnknownBlock) -> bool:
    """Whether an unknown is that of a contact, and other unknowns say it already."""
    robot = unknowns.robot
    if not block.is_vector or not is_contact(robot, block.body):
        return False
    return block.kind != "external_wrench" or is_far_end(robot, block.body)


def _value(given: PerName, block: UnknownBlock) -> Array:
    value = given.get(block.name, 0.0) if isinstance(given, Mapping) else given
    try:
        return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (block.size,)))
    except (TypeError, ValueError):
        raise LayoutError(
            f"prior: the {block} takes one number or {block.size}, got {value!r}"
        ) from None
