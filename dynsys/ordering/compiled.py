"""Numba, typed and late: loops over index arrays that NumPy cannot express."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

__all__ = ["compiled"]

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
