"""Words of the matrix tails in LLVM text: constant tables, broadcasts, functions."""

from __future__ import annotations

from collections.abc import Iterable

from dynsys.codegen.llvm_text import Lines, VectorType

__all__ = [
    "Tables",
    "broadcast",
    "internal_function",
    "join",
    "masked",
    "multiply_add",
    "multiply_subtract",
    "tail_function",
]


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


def broadcast(lines: Lines, t: VectorType, address: str) -> str:
    """The number at an address in every lane."""
    value = lines.load(VectorType(t.dtype, 1), address)
    first = lines.let(f"insertelement {t} poison, {t.element} {value}, i32 0")
    zeros = f"<{t.width} x i32> zeroinitializer"
    return lines.let(f"shufflevector {t} {first}, {t} poison, {zeros}")


def multiply_add(lines: Lines, t: VectorType, a: str, b: str, c: str) -> str:
    """A b + c, fused where the processor can."""
    product = lines.let(f"fmul contract {t} {a}, {b}")
    return lines.let(f"fadd contract {t} {product}, {c}")


def multiply_subtract(lines: Lines, t: VectorType, a: str, b: str, c: str) -> str:
    """C - a b, fused where the processor can."""
    product = lines.let(f"fmul contract {t} {a}, {b}")
    return lines.let(f"fsub contract {t} {c}, {product}")


def masked(lines: Lines, t: VectorType, value: str, mask: str) -> str:
    """Lanes of a value where the mask (integers) is all ones, zero elsewhere."""
    bits = lines.let(f"bitcast {t} {value} to {t.integer}")
    kept = lines.let(f"and {t.integer} {bits}, {mask}")
    return lines.let(f"bitcast {t.integer} {kept} to {t}")


def join(lines: Lines) -> str:
    """The lines as text."""
    return "\n".join(lines.text)


def internal_function(name: str, parameters: str, lines: Lines) -> str:
    """A function without result, not inlined: it is called many times."""
    head = f"define internal void @{name}({parameters}) noinline {{"
    return f"\n{head}\n{join(lines)}\n  ret void\n}}\n"


def tail_function(main: Lines) -> str:
    """Text of ``@tail``; see ``dynsys.codegen.tailed``."""
    return internal_function("tail", "ptr %head, ptr %work, ptr %out", main)
