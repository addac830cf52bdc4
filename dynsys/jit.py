"""Loops written once in plain Python: machine code for numbers, the source for other scalars.

An algorithm that walks a tree or a sparse matrix element by element is clear in Python and slow
there. A :class:`Loop` holds the source; called with arrays of plain numbers it runs numba's
machine code, called with anything else (counting scalars, expression-graph nodes, extended
precision) it runs the source itself. So it does where numba is missing, and says so. Loops may
call each other.

Numba is imported, and a loop compiled, when one is first called: half a second and more that
most uses of dynsys never need. Machine code is kept in the folder of the kernel cache
(``DYNSYS_CACHE``), below a name made from what the sources say of all loops that went into it:
numba itself would not notice an edited callee in another file, and takes an edited comment for
other code. Of several processes that need it at once, one compiles it. A damaged folder is
removed. Without a folder that is this user's alone, loops are compiled in every process.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import math
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, Generic, ParamSpec, TypeVar, cast, final

import numpy as np

from dynsys.distribution import is_installed, say_slow
from dynsys.private_folder import default_folder, is_private
from dynsys.resumable import in_turn
from dynsys.sources import meaning

__all__ = [
    "Loop",
    "collector_paused",
    "fused",
    "has_compiled_loops",
    "inlined",
]

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for cycles meanwhile: compilers make a million small objects that all stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


NATIVE = frozenset(map(np.dtype, (np.float64, np.int64, np.int32, np.int8, np.bool_)))
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
"""Division by zero gives inf or nan, as in NumPy; other threads may run meanwhile."""


def has_compiled_loops() -> bool:
    """Tell whether loops become machine code: numba is installed."""
    return is_installed("numba")


@final
class Loop(Generic[P, R]):
    """A loop over arrays, often changing some of them in place; use as a decorator.

    Parameters
    ----------
    source : the loop in plain Python; of the loops it calls, all are global names.
    options : of ``numba.njit``, beyond :data:`OPTIONS`.
    """

    def __init__(self, source: Callable[P, R], **options: Any) -> None:
        functools.update_wrapper(self, source)
        self.source = source
        self.options = OPTIONS | options

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        for x in arguments:
            if isinstance(x, np.ndarray) and x.dtype not in NATIVE:
                return self.source(*arguments, **named)
        return self.machine(*arguments, **named)

    @cached_property
    def machine(self) -> Callable[P, R]:
        """Machine code for arguments of any types; the source itself where numba is missing."""
        if not has_compiled_loops():
            return self._as_python

        from numba import typeof

        def first(*arguments: P.args, **named: P.kwargs) -> R:
            types = tuple(map(typeof, arguments))
            with collector_paused():
                self.machine = self._kept(lambda stored: stored.compile(types))
                return self.machine(*arguments, **named)  # compiled now if not stored

        return first

    def compiled(self, signature: str) -> Callable[P, R]:
        """Machine code for one numba signature, which arguments must fit; or the source."""
        if not has_compiled_loops():
            return self._as_python
        with collector_paused():
            return self._kept(lambda stored: None, signature)

    def _kept(self, load: Callable[[Any], object], *signature: str) -> Callable[P, R]:
        """Machine code from the disk, if ``load`` can take it there, or from the compiler."""
        folder = _folder(self)
        if folder is not None and is_private(folder.parent) and is_private(folder):
            try:
                with in_turn(folder.with_suffix(".lock")), _numba_folder(folder):
                    stored = self._jitted(*signature, kept_as=_stamp(self, folder))
                    load(stored)
                    return stored
            except Exception:  # full, read-only or damaged: pickles fail in every way
                shutil.rmtree(folder, ignore_errors=True)
        return self._jitted(*signature)

    @cached_property
    def _as_python(self) -> Callable[P, R]:
        """The source with those of the loops it calls; what has no number is NaN."""
        say_slow("loops run as plain Python, some 100 times slower than compiled")
        linked = self._source

        @functools.wraps(self.source)
        def run(*arguments: P.args, **named: P.kwargs) -> R:
            with np.errstate(all="ignore"):
                return linked(*arguments, **named)

        return run

    @cached_property
    def _source(self) -> Callable[P, R]:
        """The source for other loops to call."""
        callees = {name: other._source for name, other in self._calls().items()}
        return self._linked({"math": _MATH, **callees})

    @cached_property
    def _callee(self) -> Callable[P, R]:
        """Machine code for other loops to call."""
        return self._jitted(no_cpython_wrapper=True, no_cfunc_wrapper=True)

    def _jitted(
        self, *signature: str, kept_as: Path | None = None, **more: Any
    ) -> Callable[P, R]:
        """The source as numba compiles it, with machine code of the loops it calls.

        ``kept_as`` : the file that numba takes it to be from, and keeps it for.
        """
        import numba

        linked: Any = self._linked({name: x._callee for name, x in self._calls().items()})
        if kept_as is not None:
            linked.__code__ = linked.__code__.replace(
                co_filename=str(kept_as), co_firstlineno=1
            )
        options = self.options | {"cache": kept_as is not None} | more
        njit: Any = numba.njit
        return cast(Callable[P, R], njit(*signature, **options)(linked))

    def _linked(self, callees: Mapping[str, Any]) -> Callable[P, R]:
        """The source with other functions in place of the loops it calls."""
        source = cast(FunctionType, self.source)
        linked = FunctionType(
            source.__code__, {**source.__globals__, **callees}, argdefs=source.__defaults__
        )
        functools.update_wrapper(linked, source)
        return cast(Callable[P, R], linked)

    def _calls(self) -> dict[str, Loop[Any, Any]]:
        """Loops that the source calls, by the names it has for them."""
        source = cast(FunctionType, self.source)
        named = {name: source.__globals__.get(name) for name in source.__code__.co_names}
        return {name: value for name, value in named.items() if isinstance(value, Loop)}

    @cached_property
    def _files(self) -> frozenset[Path]:
        """Files of the source and of all that it calls."""
        own = Path(cast(FunctionType, self.source).__code__.co_filename)
        return frozenset({own}).union(*(other._files for other in self._calls().values()))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """Constants, perhaps of other rooms, that the source and all that it calls use."""
        source = cast(FunctionType, self.source)
        named = ((name, source.__globals__.get(name)) for name in source.__code__.co_names)
        own = frozenset(f"{name}={x}" for name, x in named if isinstance(x, (int, float)))
        return own.union(*(other._numbers for other in self._calls().values()))


def _or_nan(function: Callable[[float], float]) -> Callable[[float], np.float64]:
    """A function of the module math as compiled loops have it: NaN where it has no number."""

    def found(x: float) -> np.float64:
        try:
            return np.float64(function(x))
        except ValueError:
            return np.float64(math.nan)

    return found


_MATH = SimpleNamespace(
    **{**vars(math), **{name: _or_nan(getattr(math, name)) for name in ("sin", "cos", "sqrt")}}
)
"""What ``math`` means in loops that run as Python."""


def fused(source: Callable[P, R]) -> Loop[P, R]:
    """Make a loop in which a product and a sum may become one instruction, rounded once."""
    return Loop(source, fastmath={"contract"})


def inlined(source: Callable[P, R]) -> Loop[P, R]:
    """Make a helper of :func:`fused` loops that disappears into those that call it."""
    return Loop(source, fastmath={"contract"}, forceinline=True)


# ---- where machine code is kept --------------------------------------------------------------

_FOLDER_LOCK = threading.Lock()


def _folder(loop: Loop[Any, Any]) -> Path | None:
    """Folder named by all that the machine code depends on; None if that is in no file."""
    base = default_folder()
    if base is None or not all(path.is_file() for path in loop._files):
        return None
    code = cast(FunctionType, loop.source).__code__
    constants = [x for x in code.co_consts if not isinstance(x, (str, CodeType))]
    own = (loop.__module__, code.co_qualname, code.co_names, constants)
    paths = sorted(
        path for room in {x.parent for x in loop._files} for path in room.glob("*.py")
    )
    names = [path.name for path in paths]
    said = own, sorted(loop._numbers), names, meaning([Path(__file__), *paths])
    return base / f"loops-{hashlib.sha256(repr(said).encode()).hexdigest()[:16]}"


def _stamp(loop: Loop[Any, Any], folder: Path) -> Path:
    """File that never changes, for numba to look at in place of the source: an empty one."""
    stamp = folder / f"{loop.__module__}.py"
    if not stamp.exists():
        stamp.touch()
    return stamp


@contextmanager
def _numba_folder(folder: Path) -> Iterator[None]:
    """Let numba choose this folder while a function is decorated."""
    import numba

    config: Any = numba.config
    with _FOLDER_LOCK:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            config.CACHE_DIR = before
