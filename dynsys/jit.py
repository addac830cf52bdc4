"""Loops written once in plain Python: machine code for numbers, the source for other scalars.

An algorithm that walks up a tree element by element is clear in Python and slow there. A
:class:`Loop` holds the source; called with float64 arrays it runs numba's machine code (built
at the first call, then taken from numba's cache on disk), called with anything else (counting
scalars, expression-graph nodes, extended precision) it runs the source itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cache, cached_property, wraps
from typing import Any, TypeVar, cast, final

import numpy as np

__all__ = [
    "Loop",
    "compiled",
]

NATIVE = (np.dtype(np.float64), np.dtype(np.intp), np.dtype(np.bool_))

OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
"""Division by zero gives inf or nan, as in NumPy; other threads may run meanwhile."""


@final
class Loop:
    """A loop over arrays, changing some of them in place; use as a decorator."""

    def __init__(self, source: Callable[..., None]) -> None:
        functools.update_wrapper(self, source)
        self.source = source

    @cached_property
    def machine(self) -> Callable[..., None]:
        """Machine code of the loop; the source itself where numba is missing."""
        try:
            import numba
        except ImportError:
            return self.source
        try:
            machine: Callable[..., None] = numba.njit(cache=True, **OPTIONS)(self.source)
        except RuntimeError:  # no folder where numba may keep its cache
            machine = numba.njit(**OPTIONS)(self.source)
        return machine

    def __call__(self, *arguments: Any) -> None:
        for x in arguments:
            if isinstance(x, np.ndarray) and x.dtype not in NATIVE:
                self.source(*arguments)
                return
        self.machine(*arguments)


# ----------------------------------------------------------------------
# Numba, typed and late: loops over index arrays that NumPy cannot express.

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called; its machine code is kept beside its module.

    Numba itself is imported then, too: half a second that most uses of dynsys never need.
    """

    @cache
    def machine_code() -> Callable[..., Any]:
        from numba import njit

        return cast(Callable[..., Any], njit(cache=True)(function))

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return machine_code()(*arguments)

    return cast(_Function, call)
