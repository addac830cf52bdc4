"""LLVM text that turns rows (one state each) into columns (one quantity of W states) and back.

W numbers of each of W rows are loaded as vectors and transposed in registers by log2 W rounds
of shuffles. Columns left over at the end of a row are covered by a block that overlaps its
neighbour, or by a narrow block where the whole row is shorter than W.
"""

from __future__ import annotations

from collections.abc import Iterator

from dynsys.codegen.llvm_text import Lines, VectorType

__all__ = ["column_blocks", "load_columns", "store_columns", "transposed"]


def column_blocks(size: int, width: int) -> Iterator[tuple[int, int]]:
    """(first column, columns) of blocks that cover a row of ``size`` numbers."""
    if size >= width:
        yield from ((first, width) for first in range(0, size - width + 1, width))
        if size % width:
            yield size - width, width
        return
    first = 0
    while size:
        count = 1 << (size.bit_length() - 1)
        yield first, count
        first, size = first + count, size - count


def load_columns(
    lines: Lines, t: VectorType, rows: list[str], first: int, count: int
) -> list[str]:
    """Columns first .. first + count of W rows (addresses), each a vector over the rows.

    The first round of shuffles is done by loading: half a vector of row i, then half of row
    i + W/2 into its other half.
    """
    half = t.width // 2
    narrow = VectorType(t.dtype, min(count, half))
    vectors = [""] * t.width
    for i in range(half):
        for side in range(2):
            at = first + side * half
            if side * half >= count:
                vectors[i + side * half] = "poison"
                continue
            parts = [lines.load(narrow, lines.at(t, rows[row], at)) for row in (i, i + half)]
            vectors[i + side * half] = _concatenate(lines, narrow, t, parts)
    return _transpose(lines, t, vectors, half // 2)[:count]


def store_columns(
    lines: Lines, t: VectorType, rows: list[str], first: int, columns: list[str]
) -> None:
    """Write columns (vectors over the rows) to W rows (addresses) from column ``first`` on."""
    narrow = VectorType(t.dtype, len(columns))
    padding = ["poison"] * (t.width - len(columns))
    vectors = _transpose(lines, t, columns + padding, t.width // 2)
    for row, value in zip(rows, vectors, strict=True):
        lines.store(narrow, _resize(lines, t, narrow, value), lines.at(t, row, first))


def transposed(lines: Lines, t: VectorType, rows: list[str]) -> list[str]:
    """Columns of a (W, W) matrix whose rows are given."""
    return _transpose(lines, t, rows, t.width // 2)


def _concatenate(lines: Lines, part: VectorType, t: VectorType, parts: list[str]) -> str:
    """Two parts of at most W/2 numbers as the beginnings of the two halves of a vector."""
    half = t.width // 2
    if part.width == 1:
        first = lines.let(f"insertelement {t} poison, {part} {parts[0]}, i32 0")
        return lines.let(f"insertelement {t} {first}, {part} {parts[1]}, i32 {half}")
    lanes = [
        str(i % half + (part.width if i >= half else 0)) if i % half < part.width else "poison"
        for i in range(t.width)
    ]
    return _shuffle(lines, part, parts[0], parts[1], lanes)


def _resize(lines: Lines, source: VectorType, result: VectorType, value: str) -> str:
    if source.width == result.width:
        return value
    if result.width == 1:
        return lines.let(f"extractelement {source} {value}, i32 0")
    if source.width == 1:
        return lines.let(f"insertelement {result} poison, {source} {value}, i32 0")
    lanes = [str(i) if i < source.width else "poison" for i in range(result.width)]
    return _shuffle(lines, source, value, "poison", lanes)


def _shuffle(lines: Lines, t: VectorType, a: str, b: str, lanes: list[str]) -> str:
    picks = ", ".join(f"i32 {lane}" for lane in lanes)
    return lines.let(f"shufflevector {t} {a}, {t} {b}, <{len(lanes)} x i32> <{picks}>")


def _transpose(lines: Lines, t: VectorType, vectors: list[str], h: int) -> list[str]:
    """W vectors of W numbers: blocks of h numbers swap places, then of h/2, ..., 1.

    From h = W/2 on this is the transpose.
    """
    out = list(vectors)
    while h:
        upper = [str(i if not i & h else t.width + i - h) for i in range(t.width)]
        lower = [str(i + h if not i & h else t.width + i) for i in range(t.width)]
        for i in range(t.width):
            if not i & h:
                a, b = out[i], out[i + h]
                out[i] = _shuffle(lines, t, a, b, upper)
                out[i + h] = _shuffle(lines, t, a, b, lower)
        h //= 2
    return out
