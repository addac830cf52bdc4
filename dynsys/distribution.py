"""The name under which dynsys is installed, which is not the name that is imported.

``dynsys`` is another project on the public package index, so the distribution that holds the
packages ``dynsys``, ``sensors`` and ``problems`` has a name of its own. Every hint on what to
install and every question about the installed version takes it from here.
"""

from __future__ import annotations

import platform
from importlib import metadata

__all__ = ["DISTRIBUTION", "install", "version", "versions"]

DISTRIBUTION = "dynsys-robotics"


def install(extra: str) -> str:
    """Return the line that installs an optional part.

    >>> install("dask")
    "pip install 'dynsys-robotics[dask]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def version(otherwise: str = "unknown") -> str:
    """Return the installed version, ``otherwise`` where the packages are not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return otherwise


def versions() -> dict[str, str]:
    """Return the versions of what makes plans: dynsys, NumPy, Python."""
    numpy, python = metadata.version("numpy"), platform.python_version()
    return {"dynsys": version(), "numpy": numpy, "python": python}
