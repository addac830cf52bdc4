"""What a caller hands to its helpers: layout of the block, and LLVM text that reads it."""

from __future__ import annotations

from dynsys.codegen.llvm_text import Lines
from dynsys.program.signature import Signature

__all__ = [
    "ARRAYS",
    "BOARD",
    "COUNTERS",
    "FINE",
    "LINE",
    "PENDING",
    "ROWS",
    "ZONES",
    "join",
    "load",
    "parameters",
    "place",
    "store",
]

LINE = 8
"""Numbers of a line: 64 bytes, so that no two threads write to one cache line."""

PENDING, FINE, BOARD, ZONES, COUNTERS, ROWS, ARRAYS = range(7)
"""Places in a block: helpers at work, whether all numbers are finite, the board, the number of
zones, a line for each with the chunks taken of it, the number of rows, then address and stride
of each array."""


def join(lines: Lines) -> str:
    """Text of all instructions."""
    return "\n".join(lines.text)


def parameters(signature: Signature) -> str:
    """Address %pG and stride %sG of every array, as further parameters of a function."""
    return "".join(f", ptr %p{g}, i64 %s{g}" for g in range(len(signature.groups)))


def place(lines: Lines, number: int) -> str:
    """Address of number ``number`` of %block."""
    return lines.let(f"getelementptr i64, ptr %block, i64 {number}")


def load(lines: Lines, kind: str, number: int) -> str:
    """Number ``number`` of %block, as ``kind`` (i64 or ptr)."""
    return lines.let(f"load {kind}, ptr {place(lines, number)}")


def store(lines: Lines, value: str, number: int) -> None:
    """Write ``value`` (with its type) to number ``number`` of %block."""
    lines.do(f"store {value}, ptr {place(lines, number)}")
