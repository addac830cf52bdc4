"""LLVM's textual form: types, constants, instructions with fresh names, recurring pieces."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np

__all__ = [
    "APART",
    "FEWEST",
    "Lines",
    "Tables",
    "VectorType",
    "counting_loop",
    "finite_call",
    "finite_functions",
    "internal_function",
    "literal",
    "next_step",
    "row_addresses",
    "row_arguments",
    "row_parameters",
]

FEWEST, MANY = 16, 64
"""Numbers that ``@finite`` and ``@finite_many`` look at together, and need at least."""


APART = "; needs nothing but its arguments\n"
"""Stands before a function that calls no other and may be compiled apart from the rest."""


@lru_cache(maxsize=4096)
def _hex(value: float) -> str:
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def literal(value: Any, dtype: str) -> str:
    """A number, rounded once to ``dtype``, as an exact LLVM literal."""
    rounded = np.float32(value) if dtype == "float32" else value
    return _hex(float(rounded))


@final
@dataclass(frozen=True)
class VectorType:
    """``width`` numbers of ``dtype`` side by side; width 1 is a plain scalar."""

    dtype: str
    width: int

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return 32 if self.dtype == "float32" else 64

    @property
    def size(self) -> int:
        """Bytes of one number."""
        return self.bits // 8

    @property
    def element(self) -> str:
        """LLVM type of one number."""
        return "float" if self.dtype == "float32" else "double"

    def _of(self, element: str) -> str:
        return element if self.width == 1 else f"<{self.width} x {element}>"

    def __str__(self) -> str:
        return self._of(self.element)

    @property
    def integer(self) -> str:
        """Integers of the same size."""
        return self._of(f"i{self.bits}")

    @property
    def mask(self) -> str:
        """Results of comparisons."""
        return self._of("i1")

    @property
    def suffix(self) -> str:
        """How intrinsics call the type."""
        return ("" if self.width == 1 else f"v{self.width}") + f"f{self.bits}"

    def constant(self, value: Any) -> str:
        """The same number in every lane."""
        text = literal(value, self.dtype)
        return text if self.width == 1 else f"splat ({self.element} {text})"

    def integer_constant(self, value: int) -> str:
        """The same integer in every lane."""
        return str(value) if self.width == 1 else f"splat (i{self.bits} {value})"


@final
class Lines:
    """Instructions, appended one by one, and fresh names for their results."""

    def __init__(self, prefix: str = "t") -> None:
        self.text: list[str] = []
        self._prefix = prefix
        self._count = 0

    def __str__(self) -> str:
        return "\n".join(self.text)

    def let(self, instruction: str) -> str:
        """Append ``%fresh = instruction``; returns the fresh name."""
        name = f"%{self._prefix}{self._count}"
        self._count += 1
        self.text.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.text.append("  " + instruction)

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.text.append(f"{name}:")

    def at(self, t: VectorType, pointer: str, index: int) -> str:
        """Address of number ``index`` of the element type of ``t``."""
        if index == 0:
            return pointer
        return self.let(f"getelementptr {t.element}, ptr {pointer}, i64 {index}")

    def load(self, t: VectorType, address: str, align: int | None = None) -> str:
        """The vector at an address; ``align`` in bytes, else of one number."""
        return self.let(f"load {t}, ptr {address}, align {align or t.size}")

    def store(self, t: VectorType, value: str, address: str, align: int | None = None) -> None:
        """Write a vector to an address; ``align`` in bytes, else of one number."""
        self.do(f"store {t} {value}, ptr {address}, align {align or t.size}")

    def shuffle(self, t: VectorType, a: str, b: str, lanes: Iterable[int | str]) -> str:
        """Lanes of two vectors side by side, by number; "poison" where any value will do."""
        picks = ", ".join(f"i32 {lane}" for lane in lanes)
        count = picks.count("i32")
        return self.let(f"shufflevector {t} {a}, {t} {b}, <{count} x i32> <{picks}>")

    def store_first(self, t: VectorType, value: str, count: int, address: str) -> None:
        """Write the first ``count`` lanes of a vector."""
        if count == 1:
            value = self.let(f"extractelement {t} {value}, i32 0")
        elif count < t.width:
            value = self.shuffle(t, value, "poison", range(count))
        self.store(VectorType(t.dtype, count), value, address)

    def multiply_add(self, t: VectorType, a: str, b: str, c: str) -> str:
        """The expression a b + c, fused if the processor can."""
        product = self.let(f"fmul contract {t} {a}, {b}")
        return self.let(f"fadd contract {t} {product}, {c}")

    def multiply_subtract(self, t: VectorType, a: str, b: str, c: str) -> str:
        """The expression c - a b, fused if the processor can."""
        product = self.let(f"fmul contract {t} {a}, {b}")
        return self.let(f"fsub contract {t} {c}, {product}")

    def fused(self, t: VectorType, a: str, b: str, c: str, fma: bool) -> str:
        """The expression a b + c, rounded once if the processor can, else twice."""
        if fma:
            return self.let(f"call {t} @llvm.fma.{t.suffix}({t} {a}, {t} {b}, {t} {c})")
        product = self.let(f"fmul {t} {a}, {b}")
        return self.let(f"fadd {t} {product}, {c}")

    def all_true(self, t: VectorType, mask: str) -> str:
        """Whether a comparison holds in every lane, as i1."""
        if t.width == 1:
            return mask
        packed = self.let(f"bitcast {t.mask} {mask} to i{t.width}")
        return self.let(f"icmp eq i{t.width} {packed}, -1")


@final
class Tables:
    """Constant tables of a module; equal tables are one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[tuple[str, tuple[int, ...]], str] = {}

    def integers(self, values: Iterable[int]) -> str:
        """Address of a table of i32."""
        return self._table("i32", tuple(values))

    def masks(self, t: VectorType, lanes: Iterable[bool]) -> str:
        """Address of all-ones or zero per lane, as integers of the size of a number."""
        return self._table(f"i{t.bits}", tuple(-int(lane) for lane in lanes))

    def _table(self, kind: str, values: tuple[int, ...]) -> str:
        key = (kind, values)
        return self._known.setdefault(key, f"@{self._prefix}{len(self._known)}")

    def text(self) -> str:
        """Definitions of all tables."""
        lines = []
        for (kind, values), name in self._known.items():
            numbers = ", ".join(f"{kind} {value}" for value in values)
            lines.append(
                f"{name} = internal constant [{len(values)} x {kind}] [{numbers}], align 64\n"
            )
        return "".join(lines)


def internal_function(
    name: str,
    parameters: str,
    instructions: Lines | str,
    result: str = "void",
    *,
    apart: bool = False,
) -> str:
    """A function that is not inlined; ``result`` is its type and, unless void, the value."""
    return f"""
{APART if apart else ""}define internal {result.split(" %")[0]} {name}({parameters}) noinline {{
{instructions}
  ret {result}
}}
"""


def counting_loop(
    before: Lines | str, carried: str, inside: Lines | str, count: object, after: object = ""
) -> str:
    """Instructions ``inside`` for %k = 0 .. count - 1, at least once, and what is around them.

    ``before`` may end with a jump of its own. ``carried`` are the values of one round that the
    next one needs (phi instructions).
    """
    enter = "" if f"{before}".rstrip().endswith("%done") else "\n  br label %loop"
    return f"""\
start:
{before}{enter}
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
{carried}{inside}
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
{after}"""


def row_parameters(count: int) -> str:
    """Parameters of a function on rows: address %p and stride %s of every group."""
    return "".join(f", ptr %p{g}, i64 %s{g}" for g in range(count))


def row_arguments(groups: Iterable[int]) -> str:
    """Arguments for such parameters: addresses %a (see :func:`row_addresses`) and strides."""
    return "".join(f", ptr %a{g}, i64 %s{g}" for g in groups)


def row_addresses(count: int, t: VectorType, row: str) -> str:
    """Lines that set %a0, %a1 ... to the addresses of a row of every group."""
    return "".join(
        f"  %o{g} = mul i64 {row}, %s{g}\n"
        f"  %a{g} = getelementptr {t.element}, ptr %p{g}, i64 %o{g}\n"
        for g in range(count)
    )


def next_step(step: int, then: str) -> str:
    """End of a loop over %k that advances by ``step``; its last round begins at %last.

    Where ``step`` does not divide the range, the last round overlaps the one before.
    """
    return f"""\
  %far = add i64 %k, {step}
  %beyond = icmp sgt i64 %far, %last
  %next = select i1 %beyond, i64 %last, i64 %far
  %more = icmp slt i64 %k, %last
  br i1 %more, label %loop, label %{then}"""


def finite_call(pointer: str, size: int) -> str:
    """Call of the function that says whether ``size`` numbers (at least FEWEST) are finite."""
    name = "finite" if size < MANY else "finite_many"
    return f"call i1 @{name}(ptr {pointer}, i64 {size})"


def finite_functions(dtype: str) -> str:
    """Text of ``i1 @finite(numbers, count)`` and of ``@finite_many``, for at least MANY.

    0 * x is NaN exactly if x is not finite, and so is a sum of such zeros.
    """
    return _finite("finite", VectorType(dtype, FEWEST // 4), 4) + _finite(
        "finite_many", VectorType(dtype, MANY // 8), 8
    )


def _finite(name: str, t: VectorType, count: int) -> str:
    """Text of such a function with ``count`` sums that do not wait for each other."""

    def each(text: str) -> str:
        return "\n".join("  " + text.format(i=i, step=i * t.width) for i in range(count))

    end, sums = Lines("e"), [f"%n{i}" for i in range(count)]
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2], strict=True)
        sums = [end.let(f"fadd {t} {a}, {b}") for a, b in pairs]
    return f"""
define internal i1 @{name}(ptr %numbers, i64 %count) noinline {{
start:
  %last = sub i64 %count, {count * t.width}
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
{each(f"%s{{i}} = phi {t} [ zeroinitializer, %start ], [ %n{{i}}, %loop ]")}
  %at = getelementptr {t.element}, ptr %numbers, i64 %k
{each(f"%a{{i}} = getelementptr {t.element}, ptr %at, i64 {{step}}")}
{each(f"%x{{i}} = load {t}, ptr %a{{i}}, align {t.size}")}
{each(f"%z{{i}} = fmul contract {t} %x{{i}}, zeroinitializer")}
{each(f"%n{{i}} = fadd contract {t} %s{{i}}, %z{{i}}")}
{next_step(count * t.width, "done")}
done:
{end}
  %ordered = fcmp ord {t} {sums[0]}, zeroinitializer
  %bits = bitcast {t.mask} %ordered to i{t.width}
  %all = icmp eq i{t.width} %bits, -1
  ret i1 %all
}}
"""
