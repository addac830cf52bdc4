"""Quantities of an estimate, looked up by the names of the robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, final

import numpy as np

from dynsys.errors import LayoutError, ModelError
from dynsys.model.tree import KinematicTree, nearest_name
from dynsys.types import Array, IntArray

if TYPE_CHECKING:
    from problems.estimate import Estimate
    from problems.posterior import AbstractPosterior

__all__ = [
    "QUANTITIES",
    "ByQuantity",
    "NamedQuantity",
    "Of",
    "Quantity",
    "Uncertainty",
    "deviations",
    "is_determined",
    "quantities_of",
    "values",
]

Quantity: TypeAlias = Literal[
    "torque", "qdd", "acceleration", "joint_wrench", "external_wrench"
]
QUANTITIES: tuple[Quantity, ...] = (
    "torque",
    "qdd",
    "acceleration",
    "joint_wrench",
    "external_wrench",
)
Uncertainty: TypeAlias = Literal["all"] | Quantity | Sequence[Quantity] | None
Of: TypeAlias = Callable[["AbstractPosterior", Array, IntArray], Array]
"""Values (rows,) of ``matrix @ d[columns]``, or of something about it."""


def quantities_of(wanted: Uncertainty, what: str) -> tuple[Quantity, ...]:
    """Quantities that a caller asks for in argument ``what``; LayoutError names a wrong one."""
    if wanted is None:
        return ()
    names = QUANTITIES if wanted == "all" else (wanted,) if isinstance(wanted, str) else wanted
    for name in names:
        if name not in QUANTITIES:
            hint = nearest_name(str(name), QUANTITIES)
            listed = ", ".join(QUANTITIES)
            raise LayoutError(f"{what}: no quantity {name!r}{hint}; use {listed}")
    return cast("tuple[Quantity, ...]", tuple(names))


def values(posterior: AbstractPosterior, matrix: Array, columns: IntArray) -> Array:
    """Values of combination @ d[columns]; NaN where undetermined."""
    value = np.asarray(matrix @ posterior.d[columns])
    return np.where(posterior.determined(matrix, columns), value, np.nan)


def deviations(posterior: AbstractPosterior, matrix: Array, columns: IntArray) -> Array:
    """Standard deviations of combination @ d[columns]; NaN where undetermined."""
    variance = np.einsum("ij,jk,ik->i", matrix, posterior.covariance(columns), matrix)
    std = np.sqrt(np.maximum(variance, 0.0))
    return np.where(posterior.determined(matrix, columns), std, np.nan)


def is_determined(posterior: AbstractPosterior, matrix: Array, columns: IntArray) -> Array:
    """Tell which rows of combination @ d[columns] are determined."""
    return np.asarray(posterior.determined(matrix, columns))


@final
class NamedQuantity:
    """One quantity of an estimate: values, standard deviations, or whether determined.

    ``quantity["l_knee"]`` is a number for a joint of one freedom, else (size,); wrenches and
    accelerations may be asked at any frame of the robot and are then moved there. Undetermined
    values are NaN. A batch adds a leading axis N. ``array`` and NumPy's functions see all of
    them: (nv,) or (n_bodies, 6).
    """

    __slots__ = ("_array", "_estimate", "_kind", "_of")

    def __init__(
        self, estimate: Estimate, kind: Quantity, of: Of, array: Array | None = None
    ) -> None:
        self._estimate = estimate
        self._kind = kind
        self._of = of
        self._array = array

    @property
    def _robot(self) -> KinematicTree:
        return self._estimate.problem.robot

    @property
    def _is_spatial(self) -> bool:
        return self._kind not in ("torque", "qdd")

    @property
    def array(self) -> Array:
        """All values: (nv,), or (n_bodies, 6) in body coordinates; with N in front."""
        if self._array is None:
            self._array = self._estimate.computed(self._kind, self._of)
        if self._array is None:
            columns = self._estimate.problem.system.unknowns.columns(self._kind)
            flat = self._estimate.each(lambda post: self._all(post, columns), columns.size)
            self._array = flat.reshape(*flat.shape[:-1], *columns.shape)
        return self._array

    @property
    def known(self) -> Array | None:
        """All values if they have been computed, else None."""
        return self._array

    def _all(self, posterior: AbstractPosterior, columns: IntArray) -> Array:
        """All values of one state, joint by joint or body by body."""
        if self._of is values and posterior.is_complete:
            return np.ravel(posterior.d[columns])
        if columns.ndim == 1:
            return self._of(posterior, np.eye(len(columns)), columns)
        return np.concatenate([self._of(posterior, np.eye(6), block) for block in columns])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __getitem__(self, name: str | int) -> Any:
        if not self._is_spatial:
            value = self.array[..., self._robot.v_slice(self._joint(name))]
            return value[..., 0] if value.shape[-1] == 1 else value
        is_joint = self._kind == "joint_wrench" and name in self._robot.joint_names
        at = self._robot.joint_index(str(name)) if is_joint else name
        frame = self._robot.frame(at)
        if frame.body < 0:
            raise ModelError(
                f"robot {self._robot.name!r}: {name!r} is fixed to the base, whose"
                f" {self._kind} is no unknown"
            )
        X = frame.transform.matrix()
        if np.array_equal(X, np.eye(6)):
            return self.array[..., frame.body, :]
        matrix = X if self._kind == "acceleration" else np.linalg.inv(X).T
        if self._of is values and np.isfinite(self.array[..., frame.body, :]).all():
            return self.array[..., frame.body, :] @ matrix.T
        columns = self._estimate.problem.system.unknowns.block(self._kind, frame.body).columns
        return self._estimate.each(lambda post: self._of(post, matrix, columns), 6)

    def _joint(self, name: str | int) -> str:
        if isinstance(name, (int, np.integer)):
            return self._robot.joint_names[name]
        return name

    def __iter__(self) -> Iterator[str]:
        of_bodies = self._kind in ("acceleration", "external_wrench")
        return iter(self._robot.body_names if of_bodies else self._names())

    def keys(self) -> tuple[str, ...]:
        """Names of joints or bodies, in order: ``dict(e.torque)`` is a mapping."""
        return tuple(self)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names with what is known of each."""
        return ((name, self[name]) for name in self)

    def _names(self) -> tuple[str, ...]:
        if self._is_spatial:
            return self._robot.joint_names
        return tuple(
            name
            for name, body in zip(self._robot.joint_names, self._robot.bodies, strict=True)
            if body.joint.nv and body.coupling is None
        )

    def __len__(self) -> int:
        return self._robot.n_bodies if self._is_spatial else len(self._names())

    def __repr__(self) -> str:
        return f"NamedQuantity({self._kind}, array of shape {self.array.shape})"


@final
class ByQuantity:
    """The same about every quantity: ``.torque["l_knee"]`` or ``["torque"]["l_knee"]``."""

    __slots__ = ("_estimate", "_known", "_of")

    def __init__(self, estimate: Estimate, of: Of) -> None:
        self._estimate = estimate
        self._of = of
        self._known: dict[Quantity, NamedQuantity] = {}

    def __getitem__(self, quantity: Quantity) -> NamedQuantity:
        if quantity not in QUANTITIES:
            hint = nearest_name(str(quantity), QUANTITIES)
            raise ModelError(f"an estimate has no quantity {quantity!r}{hint}")
        if quantity not in self._known:
            self._known[quantity] = NamedQuantity(self._estimate, quantity, self._of)
        return self._known[quantity]

    def keep(self, quantity: Quantity, array: Array) -> None:
        """Take an array that has been computed already."""
        self._known[quantity] = NamedQuantity(self._estimate, quantity, self._of, array)

    def kept(self) -> dict[Quantity, Array]:
        """Arrays that have been computed, by quantity."""
        known = ((kind, quantity.known) for kind, quantity in self._known.items())
        return {kind: array for kind, array in known if array is not None}

    @property
    def torque(self) -> NamedQuantity:
        """About joint torques, by joint."""
        return self["torque"]

    @property
    def qdd(self) -> NamedQuantity:
        """About joint accelerations, by joint."""
        return self["qdd"]

    @property
    def acceleration(self) -> NamedQuantity:
        """About proper spatial accelerations, by body or frame."""
        return self["acceleration"]

    @property
    def joint_wrench(self) -> NamedQuantity:
        """About wrenches through joints, by joint, body or frame."""
        return self["joint_wrench"]

    @property
    def external_wrench(self) -> NamedQuantity:
        """About wrenches of the environment, by body or frame."""
        return self["external_wrench"]
