"""MATLAB files as logs: version 5 (scipy) and version 7.3, which is HDF5 (h5py, an extra).

Fields of structures are named with dots: ``joints.q``. Matrices may hold samples as rows or as
columns: the number of samples is the length that most matrices share, and what has that many
columns is turned. Everything is read at once, as MATLAB itself does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array
from problems.logs.source import AbstractLog, missing_library

__all__ = ["MatLog"]

HDF5 = b"\x89HDF\r\n\x1a\n"
DEEPEST = 8


@final
class MatLog(AbstractLog):
    """Matrices of a .mat file, samples along the first axis."""

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = dict(_version_7(path) if _is_hdf5(path) else _version_5(path))
        lengths = Counter(max(a.shape) for a in arrays.values() if max(a.shape) > 1)
        if not lengths:
            raise LogError(f"{path}: no matrix of numbers with more than one sample")
        most = max(lengths.values())
        self.n_samples = max(n for n, count in lengths.items() if count == most)
        self._arrays = {
            name: a if len(a) == self.n_samples else a.T
            for name, a in arrays.items()
            if self.n_samples in a.shape
        }
        self.widths = {name: a.shape[1] for name, a in self._arrays.items()}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        return {name: self._arrays[name][start:stop] for name in names}


def _is_hdf5(path: Path) -> bool:
    """Whether there is HDF5 inside; MATLAB puts 512 bytes of its own before it."""
    try:
        with path.open("rb") as stream:
            head = stream.read(520)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error}") from None
    return HDF5 in (head[:8], head[512:])


def _version_5(path: Path) -> Iterator[tuple[str, Array]]:
    from scipy.io import loadmat

    try:
        content = loadmat(path, struct_as_record=False)
    except MemoryError:
        raise
    except Exception as error:  # whatever the reader says of damaged bytes
        raise LogError(f"{path}: not a readable .mat file: {error}") from None
    for name, value in content.items():
        if not name.startswith("__"):
            yield from _fields(name, value, 0)


def _fields(name: str, value: Any, depth: int) -> Iterator[tuple[str, Array]]:
    """Matrices of a value: its own, or those of the fields of a structure."""
    if isinstance(value, np.ndarray) and value.dtype == object and value.size == 1:
        value = value.item()
    if hasattr(value, "_fieldnames") and depth < DEEPEST:
        for key in value._fieldnames:
            yield from _fields(f"{name}.{key}", getattr(value, key), depth + 1)
    elif isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiub":
        yield name, value.astype(np.float64)


def _version_7(path: Path) -> Iterator[tuple[str, Array]]:
    try:
        import h5py
    except ModuleNotFoundError:
        raise missing_library(path, "h5py", "mat") from None
    try:
        with h5py.File(path, "r") as file:
            yield from _members("", file, 0)
    except (LogError, MemoryError):
        raise
    except Exception as error:  # whatever HDF5 says of damaged bytes
        raise LogError(f"{path}: not a readable .mat file: {error}") from None


def _members(prefix: str, group: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Array]]:
    """Matrices of a group and of the groups within it; HDF5 holds them transposed."""
    for key, value in group.items():
        if key.startswith("#") or depth > DEEPEST:
            continue
        if isinstance(value, Mapping):
            yield from _members(f"{prefix}{key}.", value, depth + 1)
        elif value.ndim == 2 and value.dtype.kind in "fiub":
            if value.attrs.get("MATLAB_class", b"double") not in (b"char", b"string", b"cell"):
                yield prefix + key, np.asarray(value, dtype=np.float64).T
