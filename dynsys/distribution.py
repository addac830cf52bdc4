"""The name under which dynsys is installed, which is not the name that is imported.

``dynsys`` is another project on the public package index, so the distribution that holds the
packages ``dynsys``, ``sensors`` and ``problems`` has a name of its own. Every hint on what to
install and every question about the installed version takes it from here, and so does what says
that an optional package is missing: an error where nothing takes its place
(:func:`required`), a warning where something slower does (:func:`say_slow`).
"""

from __future__ import annotations

import platform
import sys
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dynsys.errors import MissingPackage, SlowWarning

__all__ = [
    "DISTRIBUTION",
    "EXTRA",
    "install",
    "is_installed",
    "required",
    "say_slow",
    "version",
    "versions",
]

DISTRIBUTION = "dynsys-robotics"

EXTRA = {
    "casadi": "casadi",
    "clarabel": "identify",
    "cvxopt": "umfpack",
    "distributed": "dask",
    "foxglove": "foxglove",
    "h5py": "mat",
    "jax": "jax",
    "llvmlite": "fast",
    "matplotlib": "plot",
    "mcap": "ros",
    "mcap_ros2": "ros",
    "mujoco": "mujoco",
    "numba": "fast",
    "pandas": "tables",
    "pyarrow": "logs",
    "rerun": "rerun",
    "rosbags": "ros",
    "sksparse": "cholmod",
    "torch": "torch",
    "trimesh": "meshes",
    "viser": "view",
    "websockets": "live",
    "xacro": "xacro",
    "xarray": "tables",
}
"""Which extra brings an optional module, by the name it is imported by."""


def install(extra: str) -> str:
    """Return the line that installs an optional part.

    >>> install("dask")
    "pip install 'dynsys-robotics[dask]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def is_installed(module: str) -> bool:
    """Tell whether a module can be imported, without importing it."""
    if module in sys.modules:
        return sys.modules[module] is not None
    return find_spec(module) is not None


def required(module: str, purpose: str) -> Any:
    """Return an optional module; MissingPackage says what to run where it is not there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise  # something that it needs itself
        line = install(EXTRA[package])
        raise MissingPackage(
            f"{purpose} needs the Python package {package}; run: {line}"
        ) from None


@cache
def say_slow(what: str, extra: str = "fast") -> None:
    """Warn that something takes longer than it need; once a process.

    Python's filter alone says a text again whenever somebody has used ``catch_warnings``.
    """
    text = f"{what}; {install(extra)} makes it fast"
    warnings.warn(text, SlowWarning, stacklevel=1)


def version(otherwise: str = "unknown") -> str:
    """Return the installed version, ``otherwise`` where the packages are not installed."""
    from importlib import metadata  # takes its time

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return otherwise


def versions() -> dict[str, str]:
    """Return the versions of what makes plans: dynsys, NumPy, Python."""
    from importlib import metadata

    numpy, python = metadata.version("numpy"), platform.python_version()
    return {"dynsys": version(), "numpy": numpy, "python": python}
