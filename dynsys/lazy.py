"""Names of a package that are loaded when they are first asked for.

``import dynsys`` then takes no time, and who asks for one name waits for what that name needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562).

    ``homes`` are modules, each with the names that the package takes from it, be they modules
    themselves. Modules of the package are loaded likewise.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    space = vars(sys.modules[package])

    def get(name: str) -> object:
        if name in home:
            found = getattr(import_module(home[name]), name, None)
            found = found or import_module(f"{home[name]}.{name}")
        elif not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            found = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        space[name] = found
        return found

    return get, lambda: sorted({*space, *home})
