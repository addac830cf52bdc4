"""MJCF reader: a MuJoCo model to a KinematicTree, through the optional ``mujoco`` package.

MuJoCo's own compiler resolves defaults, includes, meshes and inertias; the compiled model is
then read. A joint's q, range and velocity mean what they mean in MuJoCo (``ref`` included),
except that quaternions are x y z w and free joints move in body coordinates
(:class:`dynsys.interop.MujocoMap` converts). A body with several joints becomes a chain whose
inner bodies are massless and called ``body/joint``. A body's frame sits at the anchor of its
last joint; where that is not MuJoCo's body origin, the frame ``body/origin`` is.

What files of unknown origin may refer to is in :mod:`dynsys.model.mjcf_files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dynsys.model.assembly import Assembly, InertiaPolicy, MimicPolicy, ReadOptions, emit
from dynsys.model.mujoco_model import ModelReader, compiled_model, joint_names
from dynsys.model.tree import KinematicTree
from dynsys.model.xml_input import MAX_BYTES, Node, PathLike, read_xml
from dynsys.types import ArrayLike

__all__ = ["joint_names", "mjcf_from_node", "read_mjcf", "tree_from_mujoco"]


def read_mjcf(
    path: PathLike,
    *,
    floating_base: bool = False,
    mimic: MimicPolicy = "independent",
    gravity: ArrayLike | None = None,
    inertia: InertiaPolicy = "warn",
    max_bytes: int = MAX_BYTES,
) -> KinematicTree:
    """Read an MJCF file.

    Parameters
    ----------
    path : the file.
    floating_base : put the one body that is welded to the world on a free joint "root".
    mimic : "couple" makes joints follow the linear joint equalities of the file (hard, where
        MuJoCo's are soft); "independent" leaves them free, with a warning.
    gravity : (3,) m/s^2; None for the file's.
    inertia : "warn" about or, with "strict", refuse inertias that no mass distribution has.
    max_bytes : largest file that is read.

    Raises
    ------
    ModelError
        file broken or unsafe, or the ``mujoco`` package missing.
    """
    options = ReadOptions(floating_base, mimic, gravity, inertia, max_bytes)
    tree, notes = mjcf_from_node(read_xml(path, max_bytes), options)
    emit(notes, stacklevel=2)
    return tree


def mjcf_from_node(root: Node, options: ReadOptions) -> tuple[KinematicTree, list[str]]:
    """Return the tree of the file behind ``root`` and the warnings it deserves."""
    if root.tag != "mujoco":
        raise root.error("an MJCF file starts with <mujoco>; this is another format")
    model = compiled_model(root, options.max_bytes)
    return tree_from_mujoco(model, root.file, options)


def tree_from_mujoco(
    model: Any, source: str, options: ReadOptions
) -> tuple[KinematicTree, list[str]]:
    """Return the tree of a compiled ``mujoco.MjModel`` and the warnings it deserves."""
    from mujoco import mjtDisableBit

    name = bytes(model.names).split(b"\0", 1)[0].decode(errors="replace")
    reader = ModelReader(model, Assembly(name or Path(source).stem, source))
    reader.read_bodies(options.floating_base)
    reader.read_equalities(options.mimic)
    reader.note_unread()
    gravity = options.gravity
    if gravity is None:
        gravity = np.array(model.opt.gravity)
        if model.opt.disableflags & int(mjtDisableBit.mjDSBL_GRAVITY):
            gravity = np.zeros(3)
    return reader.assembly.finish(gravity, options.inertia), reader.assembly.notes
