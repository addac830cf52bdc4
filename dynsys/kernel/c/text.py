"""Statements of a program in C, and the names of exported functions and arrays.

The program is cut into segments of at most :data:`SEGMENT` operations, as for machine code
(:mod:`dynsys.kernel.schedule`). A value used in its own segment is a local variable; one used
later also has a slot of a scratch array.

Headers are included from C and C++ alike, so words of both languages are refused as names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.schedule import make_schedule
from dynsys.program.program import Op, Program, without_dead_code
from dynsys.program.signature import Signature

__all__ = [
    "REAL",
    "Argument",
    "CType",
    "Code",
]

CType: TypeAlias = Literal["float64", "float32"]
SEGMENT = 1000
REAL = {"float64": "double", "float32": "float"}
"""C type of each dtype."""
_FUNCTION = {int(Op.SIN): "sin", int(Op.COS): "cos", int(Op.SQRT): "sqrt"}

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


@final
@dataclass
class Part:
    """Statements of one segment, and the names of the arguments they use."""

    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


@final
class Code:
    """The C function ``name`` of a program: its arguments, and its statements in parts.

    Raises
    ------
    KernelBuildError
        If a name cannot be used in C, labels or sizes do not fit, or a constant has no value in
        this dtype.
    """

    def __init__(
        self,
        program: Program,
        signature: Signature,
        name: str,
        dtype: CType = "float64",
        labels: Mapping[str, Sequence[str]] | None = None,
        segment_length: int = SEGMENT,
    ) -> None:
        _check_name(name)
        listed = self.arguments = _arguments(signature, name, labels)
        if dtype not in REAL:
            raise KernelBuildError(f"C is exported as float64 or float32, not {dtype!r}")
        self.name, self.dtype = name, dtype
        self._inputs = _elements(a for a in listed if not a.is_output)
        self._outputs = _elements(a for a in listed if a.is_output)
        sizes = (len(self._inputs), len(self._outputs))
        if sizes != (program.n_inputs, len(program.outputs)):
            raise KernelBuildError(
                f"the signature has {sizes[0]} inputs and {sizes[1]} outputs, the program "
                f"{program.n_inputs} and {len(program.outputs)}"
            )
        if not self._outputs:
            raise KernelBuildError("a program without outputs computes nothing to export")
        self.program = without_dead_code(program)
        self.real = REAL[dtype]
        self.scratch = _unused("w", listed)
        self._local = _unused("t", listed)
        self._suffix = "f" if dtype == "float32" else ""
        self._literals = self._exact_literals(dtype)
        schedule = make_schedule(self.program, segment_length, sines_together=False)
        self._op, self._left, self._right = schedule.op, schedule.left, schedule.right
        self._slot, self.n_slots = schedule.slot, schedule.n_slots
        segments = schedule.stages[0].segments
        self.n_segments = len(segments)
        self._segment = {k: i for i, segment in enumerate(segments) for k in segment.nodes}

    @property
    def needs_math(self) -> bool:
        """Whether the statements call sin, cos or sqrt."""
        return not _FUNCTION.keys().isdisjoint(self._op)

    def _exact_literals(self, dtype: CType) -> list[str]:
        """Constants as hexadecimal floats: the extended-precision values, rounded once."""
        constants = self.program.constants
        with np.errstate(over="ignore", under="ignore"):
            rounded = constants.astype(np.dtype(dtype))
        if not np.isfinite(rounded).all():
            bad = constants[~np.isfinite(rounded)][0]
            raise KernelBuildError(f"the constant {bad} has no value in {dtype}")
        return [float(x).hex() + self._suffix for x in rounded]

    def parts(self) -> list[Part]:
        """Statements of all segments; an output is written in the segment that computes it."""
        parts = [Part() for _ in range(self.n_segments)]
        for k, segment in self._segment.items():
            part = parts[segment]
            text = self._operation(k, part, segment)
            part.lines.append(f"    const {self.real} {self._local}{k} = {text};")
            if k in self._slot:
                part.used.add(self.scratch)
                slot = f"{self.scratch}[{self._slot[k]}]"
                part.lines.append(f"    {slot} = {self._local}{k};")
        for (array, index), ref in zip(
            self._outputs, self.program.outputs.tolist(), strict=True
        ):
            segment = self._segment.get(abs(ref) - 1, -1)
            part = parts[segment]  # of a leaf: the last one
            part.used.add(array)
            part.lines.append(f"    {array}[{index}] = {self._signed(ref, part, segment)};")
        return parts

    def _operation(self, k: int, part: Part, segment: int) -> str:
        """Right-hand side of node k."""
        op, left, right = self._op[k], self._left[k], self._right[k]
        a = self._signed(left, part, segment)
        if op in _FUNCTION:
            return f"{_FUNCTION[op]}{self._suffix}({a})"
        if op == Op.ABS:
            return f"{a} > 0 ? {a} : 0 - {a}"
        if op == Op.ADD:
            if left < 0 < right:
                left, right, a = right, left, self._signed(right, part, segment)
            return f"{a} {'+' if right > 0 else '-'} {self._signed(abs(right), part, segment)}"
        b = self._signed(right, part, segment)
        if op in (Op.MIN, Op.MAX):  # like NumPy, NaN if either operand is
            return f"({a} {'<' if op == Op.MIN else '>'} {b} || {a} != {a}) ? {a} : {b}"
        return f"{a} {'*' if op == Op.MUL else '/'} {b}"

    def _signed(self, ref: int, part: Part, segment: int) -> str:
        """Value of a signed reference as seen from a segment."""
        if ref == 0:
            return f"0.0{self._suffix}"
        k = abs(ref) - 1
        if self._op[k] == Op.CONSTANT:
            text = self._literals[self._left[k]]
        elif self._op[k] == Op.INPUT:
            array, index = self._inputs[self._left[k]]
            part.used.add(array)
            text = f"{array}[{index}]"
        elif self._segment.get(k) == segment:
            text = f"{self._local}{k}"
        else:
            part.used.add(self.scratch)
            text = f"{self.scratch}[{self._slot[k]}]"
        return text if ref > 0 else f"-{text}"


def _elements(listed: Iterable[Argument]) -> list[tuple[str, int]]:
    """(array, index) of each scalar of some arguments, in order."""
    return [(a.name, k) for a in listed for k in range(a.size)]


def _unused(stem: str, listed: Sequence[Argument]) -> str:
    """A stem that no argument's name begins with."""
    while any(a.name.startswith(stem) for a in listed):
        stem += "_"
    return stem


# ---- names and arguments of the exported function --------------------------------------------


@final
@dataclass(frozen=True)
class Argument:
    """One array argument of the exported function; ``labels`` name its entries, if known."""

    name: str
    size: int
    is_output: bool
    labels: tuple[str, ...] = ()


def _check_name(name: str) -> None:
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


def _arguments(
    signature: Signature, name: str, labels: Mapping[str, Sequence[str]] | None = None
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
