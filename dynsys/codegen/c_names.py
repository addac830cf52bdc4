"""Names of exported C: which are allowed, and the arguments of the exported function.

Headers are included from C and C++ alike, so words of both languages are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from dynsys.errors import KernelBuildError

__all__ = ["Argument", "ArraySignature", "arguments", "check_name"]

LONGEST = 200
"""Letters of a function name: files are called after it, and 255 is what file systems take."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    complex const const_cast constexpr continue decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if imaginary inline int linux
    long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast restrict return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename
    typeof union unix unsigned using virtual void volatile wchar_t while xor xor_eq
    INFINITY NAN
    """.split()
)
_LIBRARY = frozenset(
    """
    abort abs acos acosh asin asinh atan atan2 atanh atexit atof atoi calloc cbrt ceil copysign
    cos cosh div erf erfc exit exp exp2 expm1 fabs fdim floor fma fmax fmin fmod fopen free
    frexp getenv hypot ilogb isfinite isinf isnan ldexp lgamma llrint llround log log10 log1p
    log2 logb lrint lround malloc memcpy memset modf nan nearbyint nextafter nexttoward pow
    printf puts rand realloc remainder remquo rint round scalbln scalbn signbit sin sincos sinh
    sqrt srand strlen system tan tanh tgamma time trunc
    """.split()
)
_FILES_AND_TARGETS = frozenset(
    """
    all assert clean complex ctype errno fenv float help install inttypes iso646 limits locale
    main math package setjmp signal stdarg stdbool stddef stdint stdio stdlib string test tgmath
    wchar wctype
    """.split()
)


class ArraySignature(Protocol):
    """Named arrays in and out, in the order of a program's inputs and outputs."""

    @property
    def inputs(self) -> Sequence[tuple[str, int]]:
        """(name, size) of each input array."""
        ...

    @property
    def outputs(self) -> Sequence[tuple[str, int]]:
        """(name, size) of each output array."""
        ...


@final
@dataclass(frozen=True)
class Argument:
    """One array argument of the exported function; ``labels`` name its entries, if known."""

    name: str
    size: int
    is_output: bool
    labels: tuple[str, ...] = ()


def check_name(name: str) -> None:
    """Refuse a function name that would not compile, or whose files would hide others."""
    _check_identifier(name, "function name")
    if len(name) > LONGEST:
        raise KernelBuildError(
            f"function name {name[:20]}... has {len(name)} letters, its files need a shorter"
            f" one; at most {LONGEST}"
        )
    if name in _FILES_AND_TARGETS:
        raise KernelBuildError(
            f"function name {name!r} is taken by a C header or a CMake target; choose another"
        )


def arguments(
    signature: ArraySignature, name: str, labels: Mapping[str, Sequence[str]] | None = None
) -> tuple[Argument, ...]:
    """Arguments of the C function ``name``: all inputs, then all outputs.

    An output called like an input gets ``_out`` behind its name.

    Raises
    ------
    KernelBuildError
        If a name is no C identifier, is reserved or repeated, or labels do not fit.
    """
    labels = labels or {}
    inputs = [array for array, _ in signature.inputs]
    known = {*inputs, *(array for array, _ in signature.outputs)}
    if set(labels) - known:
        raise KernelBuildError(f"labels for unknown arrays: {sorted(set(labels) - known)}")
    found = []
    for is_output, arrays in ((False, signature.inputs), (True, signature.outputs)):
        for array, size in arrays:
            text = tuple(labels.get(array, ()))
            if len(text) not in (0, size):
                raise KernelBuildError(
                    f"{len(text)} labels for {array!r}, which has size {size}"
                )
            c_name = f"{array}_out" if is_output and array in inputs else array
            _check_identifier(c_name, "array name")
            found.append(Argument(c_name, int(size), is_output, text))
    _check_distinct([name, *(argument.name for argument in found)])
    return tuple(found)


def _check_identifier(name: str, what: str) -> None:
    if not _IDENTIFIER.fullmatch(name):
        raise KernelBuildError(
            f"{what} {name!r} is not usable in C: take a letter, then letters, digits and _"
        )
    if name in _KEYWORDS or {name, name[: -1 if name[-1] in "fl" else None]} & _LIBRARY:
        raise KernelBuildError(f"{what} {name!r} is reserved in C or C++; choose another")


def _check_distinct(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise KernelBuildError(f"the name {name!r} is used twice in one C function")
        seen.add(name)
