"""Loading a robot file of any format dynsys reads."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.readers.assembly import (
    FrictionPolicy,
    InertiaPolicy,
    MimicPolicy,
    ReadOptions,
    emit,
)
from dynsys.model.readers.mjcf import mjcf_from_node
from dynsys.model.readers.urdf import urdf_from_node
from dynsys.model.readers.xml_input import MAX_BYTES, PathLike, read_xml
from dynsys.model.tree import KinematicTree
from dynsys.types import ArrayLike

__all__ = ["load"]


def load(
    path: PathLike,
    *,
    floating_base: bool = False,
    mimic: MimicPolicy = "independent",
    gravity: ArrayLike | None = None,
    inertia: InertiaPolicy = "warn",
    friction: FrictionPolicy = "ignore",
    lock: Mapping[str, ArrayLike] | None = None,
    max_bytes: int = MAX_BYTES,
    include_folder: PathLike | None = None,
) -> KinematicTree:
    """Read a robot from a URDF or MJCF file; the root element tells which.

    Parameters
    ----------
    path : the file (``.urdf``, ``.xml``); a ``.xacro`` file is expanded by the ``xacro``
        package, which evaluates what the file says: load none that you do not trust.
    floating_base : put the root link of a URDF file, or the one body of an MJCF file that is
        welded to the world, on a free joint called "root"; else it is the base. A robot that
        floats already stays as it is.
    mimic : "independent" gives joints that mimic others a freedom of their own (with a
        warning), "couple" makes them follow their leader. In MJCF these are the linear joint
        equalities, hard where MuJoCo's are soft.
    gravity : (3,) in base coordinates, m/s^2; None for the file's, or (0, 0, -9.81).
    inertia : "warn" about or, with "strict", refuse inertias that no mass distribution has;
        "any" also takes those with a negative principal moment.
    friction : "file" makes damping and dry friction of the joints, as the file states them,
        part of the equations of motion: torques are then what the drives give
        (:mod:`dynsys.model.parameters` has the law; MuJoCo's own law of dry friction, for
        ``frictionloss``, is a constraint that can hold a joint still). "ignore" reads them
        only, with a warning.
    lock : joints that do not move, with the position (rad, m) at which they stand: they are
        welded, and so are those that mimic them (:meth:`KinematicTree.with_locked`).
    max_bytes : largest file that is read.
    include_folder : folder below which the files that an MJCF file includes must lie; None for
        that of the file itself. Name another one only if you trust the file.

    Raises
    ------
    ModelError
        naming file, line, element and what to do; or the ``mujoco`` package is missing.

    Warns
    -----
    ModelWarning
        mimic joints, damping and friction, unphysical inertias, bodies without inertia, limits
        that make no sense, and whatever else a file holds that a robot has no place for.

    Examples
    --------
    >>> import dynsys                                         # doctest: +SKIP
    >>> robot = dynsys.load("arm.urdf", floating_base=True)   # doctest: +SKIP
    """
    if not isinstance(path, str | os.PathLike):
        raise ModelError(f"the path of a robot file is wanted, got {path!r:.80}")
    if not isinstance(floating_base, bool | np.bool_):
        raise ModelError(f"floating_base is True or False, got {floating_base!r:.80}")
    if not isinstance(lock, Mapping | None):
        raise ModelError(f"lock maps names of joints to their positions, got {lock!r:.80}")
    options = ReadOptions(
        floating_base, mimic, gravity, inertia, max_bytes, include_folder, friction, lock or {}
    )
    root = read_xml(path, max_bytes)
    if root.tag == "robot":
        tree, notes = urdf_from_node(root, options)
    elif root.tag == "mujoco":
        tree, notes = mjcf_from_node(root, options)
    else:
        raise ModelError(
            f"{root.file}: root element <{root.tag}> is neither URDF (<robot>) nor MJCF"
            " (<mujoco>); convert the file to one of them"
        )
    emit(notes, stacklevel=2)
    return tree.with_locked(lock) if lock else tree
