"""LLVM text of ``batch``: the program on n states, W side by side.

States are taken in blocks of T tiles of W. Scratch holds, per tile, vectors over W states:
inputs | outputs | arguments | sines, cosines | slots. A block is loaded (transposed), its sines
and cosines are evaluated, every segment runs over its tiles, and the outputs are transposed
back. The rows that fill no tile are copied in and out one by one.

Long outputs are matrices as a rule, with zeros that the program knows: W of them in a row have
no place in scratch and are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from dynsys.kernel.llvm.one import write_segment
from dynsys.kernel.llvm.sincos import sincos
from dynsys.kernel.llvm.target import Target
from dynsys.kernel.llvm.text import (
    Lines,
    Tables,
    VectorType,
    counting_loop,
    internal_function,
    next_step,
    row_addresses,
    row_arguments,
    row_parameters,
)
from dynsys.kernel.schedule import Place, Schedule, Stage
from dynsys.program.program import Op
from dynsys.program.signature import Signature

__all__ = ["emit_batch", "store_columns", "transposed"]

_FEWEST_TILES, _MOST_TILES = 4, 8
_BLOCK_BYTES = 262144
"""Scratch of a block: tiles share the fetched instructions of a segment as long as their data
stays in fast memory."""
MOST_UNROLLED = 128
"""Longer outputs are written by loops over blocks of W columns."""


def emit_batch(
    schedule: Schedule, signature: Signature, dtype: str, target: Target, name: str
) -> tuple[str, int]:
    """Text of ``i64 @name(n, scratch, in0, stride0, ..., out0, stride, ...)``.

    Strides count numbers from row to row. The function answers 1 if every output is finite,
    else 0. Returned beside its text: the bytes of scratch memory that a call needs.
    """
    t = VectorType(dtype, target.width(dtype))
    memory = _TileMemory(t, signature, schedule)
    functions = [_load_function(memory), _save_function(memory)]
    if schedule.n_arguments:
        functions += [_sincos_function(t, target, together) for together in (1, 2)]
    steps = Lines()
    for number, stage in enumerate(schedule.stages):
        parts: list[tuple[str, Lines]] = []
        for segment in stage.segments:
            if segment.nodes or segment.copies:
                lines = Lines("v")
                write_segment(lines, t, schedule, segment, memory)
                parts.append((f"@segment_{len(functions) + len(parts)}", lines))
        segments = len(parts)
        if stage.arguments:
            parts.append((f"@trig_{number}", _trig_calls(schedule, stage, memory)))
        for k, (part, lines) in enumerate(parts):
            functions.append(_tile_loop(part, "", lines, memory, apart=k < segments))
            steps.do(f"call void {part}(ptr %scratch, i64 %tiles)")
    functions += [
        internal_function("@compute", "ptr %scratch, i64 %tiles", steps),
        _copy_function(t, into_tile=True),
        _copy_function(t, into_tile=False),
        _block_functions(t),
        _rest_function(memory),
        _block_loop(memory, name),
    ]
    return memory.tables.text() + "".join(functions), memory.block_bytes


def _sincos_function(t: VectorType, target: Target, together: int) -> str:
    """Text of ``@sincos1`` or ``@sincos2`` (args, out, count): out = sine, cosine, sine, ...

    ``together`` vectors per round hide each other's latency; count is at least that, and the
    last round repeats a vector where it does not divide count.
    """
    lines = Lines("v")
    align = t.size * t.width
    mask = "%mask"
    numbers = [lines.let(f"add i64 %k, {i}") for i in range(together)]
    sources = [lines.let(f"getelementptr {t}, ptr %args, i64 {k}") for k in numbers]
    xs = [lines.load(t, address, align) for address in sources]
    results = sincos(lines, t, xs, fma=target.fma)
    for k, (sine, cosine, inside) in zip(numbers, results, strict=True):
        twice = lines.let(f"shl i64 {k}, 1")
        out = lines.let(f"getelementptr {t}, ptr %out, i64 {twice}")
        lines.store(t, sine, out, align)
        lines.store(t, cosine, lines.at(t, out, t.width), align)
        wide = lines.let(f"sext {t.mask} {inside} to {t.integer}")
        mask = lines.let(f"and {t.integer} {mask}, {wide}")
    done = Lines("d")
    all_inside = done.let(f"icmp ne {t.integer} {mask}, zeroinitializer")
    fine = done.all_true(t, all_inside)
    return f"""
define internal void @sincos{together}(ptr %args, ptr %out, i64 %count) noinline {{
start:
  %last = sub i64 %count, {together}
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  %mask = phi {t.integer} [ {t.integer_constant(-1)}, %start ], [ {mask}, %loop ]
{lines}
{next_step(together, "check")}
check:
{done}
  br i1 {fine}, label %done, label %large
large:
  call void @repair(ptr %args, ptr %out, i64 %count, i64 {t.width})
  br label %done
done:
  ret void
}}
"""


def _trig_calls(schedule: Schedule, stage: Stage, memory: _TileMemory) -> Lines:
    """Sines and cosines of a stage; arguments that are neighbours in memory go in one call."""
    runs: list[list[int]] = []  # [slot of first argument, number of first argument, count]
    for node in stage.arguments:
        number = schedule.argument_number[node]
        is_input = schedule.op[node] == Op.INPUT
        slot = schedule.left[node] if is_input else memory.arguments + number
        if runs and runs[-1][0] + runs[-1][2] == slot:
            runs[-1][2] += 1
        else:
            runs.append([slot, number, 1])
    lines = Lines("v")
    for slot, number, count in runs:
        args = memory.address(lines, slot)
        out = memory.address(lines, memory.trig + 2 * number)
        lines.do(f"call void @sincos{min(count, 2)}(ptr {args}, ptr {out}, i64 {count})")
    return lines


# ---- tiles: what lies where in scratch memory, and functions that run over them --------------


class _Saved(NamedTuple):
    """Columns of an output: blocks (first column, columns, slot), and first ones of zeros."""

    blocks: list[tuple[int, int, int]]
    zeros: list[int]


def _saved(refs: Sequence[int], slot: int, width: int) -> _Saved:
    """Where columns with such references (0 is zero) lie, from a slot on."""
    if len(refs) <= MOST_UNROLLED:
        return _Saved([(0, len(refs), slot)] if refs else [], [])
    saved = _Saved([], [])
    for first in range(0, len(refs), width):
        count = min(width, len(refs) - first)
        if count == width and not any(refs[first : first + width]):
            saved.zeros.append(first)
        else:
            saved.blocks.append((first, count, slot))
            slot += count
    return saved


@final
class _TileMemory:
    """Places in a tile, counted in vectors of W states."""

    def __init__(self, t: VectorType, signature: Signature, schedule: Schedule) -> None:
        self.t, self.signature = t, signature
        self.tables = Tables("batch_table")
        self.saved: list[_Saved] = []
        self.output_slot: list[int | None] = []
        self.arguments = signature.n_inputs
        for _, size in signature.outputs:
            before = len(self.output_slot)
            refs = schedule.outputs[before : before + size]
            saved = _saved(refs, self.arguments, t.width)
            self.saved.append(saved)
            for first, count, slot in saved.blocks:
                gap = [None] * (before + first - len(self.output_slot))
                self.output_slot += [*gap, *range(slot, slot + count)]
                self.arguments = slot + count
            self.output_slot += [None] * (before + size - len(self.output_slot))
        self.trig = self.arguments + schedule.n_arguments
        self.temporaries = self.trig + 2 * schedule.n_arguments
        size = self.temporaries + schedule.n_slots
        self.size = size | 1  # an odd number of vectors: tiles fall into different cache sets
        bytes_per_tile = self.size * t.width * t.size
        self.tiles = max(_FEWEST_TILES, min(_MOST_TILES, _BLOCK_BYTES // bytes_per_tile))
        self.block_bytes = self.tiles * bytes_per_tile

    def address(self, lines: Lines, slot: int) -> str:
        """Address of a vector of the tile."""
        return lines.at(self.t, "%tile", slot * self.t.width)

    def load_slot(self, lines: Lines, slot: int) -> str:
        """Value of a vector of the tile."""
        return lines.load(self.t, self.address(lines, slot), self.t.size * self.t.width)

    def store_slot(self, lines: Lines, value: str, slot: int) -> None:
        """Write a vector of the tile."""
        lines.store(self.t, value, self.address(lines, slot), self.t.size * self.t.width)

    def load(self, lines: Lines, kind: str, number: int) -> str:
        """Value of an input, sine, cosine or temporary."""
        first = {
            "input": 0,
            "sine": self.trig + number,
            "cosine": self.trig + number + 1,
            "temporary": self.temporaries,
        }[kind]
        return self.load_slot(lines, first + number)

    def store(self, lines: Lines, value: str, place: Place) -> None:
        """Write an output, argument or temporary."""
        kind, number = place
        if kind == "output":
            slot = self.output_slot[number]
            if slot is not None:
                self.store_slot(lines, value, slot)
            return
        first = self.arguments if kind == "argument" else self.temporaries
        self.store_slot(lines, value, first + number)


def _tile_loop(
    name: str,
    parameters: str,
    lines: Lines,
    memory: _TileMemory,
    *,
    result: str = "",
    apart: bool = False,
) -> str:
    """A function that runs ``lines`` for every tile %k, with %tile its address.

    ``result`` is the value, %sum in the next round, that the function returns.
    """
    t = memory.t
    carried = f"  %sum = phi {t} [ zeroinitializer, %start ], [ {result}, %loop ]\n"
    address = f"""\
  %offset = mul i64 %k, {memory.size * t.width}
  %tile = getelementptr {t.element}, ptr %scratch, i64 %offset
"""
    loop = counting_loop("", carried if result else "", f"{address}{lines}", "%tiles")
    return internal_function(
        name,
        "ptr %scratch, i64 %tiles" + parameters,
        loop,
        f"{t} {result}" if result else "void",
        apart=apart,
    )


# ---- the loop over blocks of tiles, and the rows left over -----------------------------------


def _block_loop(memory: _TileMemory, name: str) -> str:
    """Text of ``name``: load, compute and save a block of tiles at a time, then the rest."""
    t, tiles = memory.t, memory.tiles
    n_in, n = len(memory.signature.inputs), len(memory.signature.groups)
    end = Lines("d")
    fine = end.all_true(t, end.let(f"fcmp ord {t} %sum, zeroinitializer"))
    return f"""
define i64 @{name}(i64 %n, ptr %scratch{row_parameters(n)}) {{
start:
  %full = udiv i64 %n, {t.width}
  br label %head
head:
  %first = phi i64 [ 0, %start ], [ %next, %block ]
  %sum = phi {t} [ zeroinitializer, %start ], [ %total, %block ]
  %next = add i64 %first, {tiles}
  %more = icmp ult i64 %first, %full
  br i1 %more, label %block, label %end
block:
  %left = sub i64 %full, %first
  %few = icmp ult i64 %left, {tiles}
  %tiles = select i1 %few, i64 %left, i64 {tiles}
  %first_row = mul i64 %first, {t.width}
{row_addresses(n, t, "%first_row")}\
  call void @load(ptr %scratch, i64 %tiles{row_arguments(range(n_in))})
  call void @compute(ptr %scratch, i64 %tiles)
  %zero = call {t} @save(ptr %scratch, i64 %tiles{row_arguments(range(n_in, n))})
  %total = fadd {t} %sum, %zero
  br label %head
end:
{end}
  %done_rows = mul i64 %full, {t.width}
  %rows = sub i64 %n, %done_rows
  %some = icmp ne i64 %rows, 0
  br i1 %some, label %rest, label %done
rest:
  %rest_fine = call i1 @rest(i64 %done_rows, i64 %rows, ptr %scratch{row_parameters(n)})
  %both = and i1 {fine}, %rest_fine
  br label %done
done:
  %all_fine = phi i1 [ {fine}, %end ], [ %both, %rest ]
  %flag = zext i1 %all_fine to i64
  ret i64 %flag
}}
"""


def _rest_function(memory: _TileMemory) -> str:
    """Text of ``i1 @rest(first, rows, scratch, ...)``: the last rows, fewer than W.

    They go into one tile, filled up with copies of the last row. Answers whether all is finite.
    """
    t, signature, lines = memory.t, memory.signature, Lines("r")
    slot, total = 0, "0.0"
    for g, (_, size) in enumerate(signature.inputs):
        vectors = lines.at(t, "%scratch", slot * t.width)
        given = f"ptr {vectors}, i64 {size}, i64 %rows, ptr %a{g}, i64 %s{g}"
        lines.let(f"call {t.element} @fill({given})")
        slot += size
    lines.do("call void @compute(ptr %scratch, i64 1)")
    for g, saved in enumerate(memory.saved, len(signature.inputs)):
        whole = [(first, slot) for first, count, slot in saved.blocks if count == t.width]
        loops = len(saved.blocks) > 1
        if loops:
            table = memory.tables.integers(first for first, _ in whole)
            vectors = lines.at(t, "%scratch", saved.blocks[0][2] * t.width)
            zero = lines.let(
                f"call {t.element} @spill_blocks(ptr {vectors}, i64 %rows, ptr %a{g},"
                f" i64 %s{g}, ptr {table}, i64 {len(whole)})"
            )
            total = lines.let(f"fadd {t.element} {total}, {zero}")
        if saved.zeros:
            table = memory.tables.integers(saved.zeros)
            lines.do(
                f"call void @zero_blocks(i64 %rows, ptr %a{g}, i64 %s{g}, ptr {table},"
                f" i64 {len(saved.zeros)})"
            )
        for first, count, slot in saved.blocks:
            if loops and count == t.width:
                continue
            vectors = lines.at(t, "%scratch", slot * t.width)
            to = lines.at(t, f"%a{g}", first)
            zero = lines.let(
                f"call {t.element} @spill(ptr {vectors}, i64 {count}, i64 %rows, ptr {to},"
                f" i64 %s{g})"
            )
            total = lines.let(f"fadd {t.element} {total}, {zero}")
    fine = lines.let(f"fcmp ord {t.element} {total}, 0.0")
    n = len(signature.groups)
    return f"""
define internal i1 @rest(i64 %first, i64 %rows, ptr %scratch{row_parameters(n)}) noinline {{
{row_addresses(n, t, "%first")}{lines}
  ret i1 {fine}
}}
"""


def _copy_function(t: VectorType, *, into_tile: bool) -> str:
    """Text of ``@fill`` or ``@spill``: rows to the columns of a tile, or back, one by one.

    Lanes beyond the last row repeat it. Returns the sum of 0 times every number.
    """
    name, source, result = (
        ("@fill", "%row", "%tile") if into_tile else ("@spill", "%tile", "%row")
    )
    e = t.element
    return f"""
define internal {e} {name}(ptr %vectors, i64 %size, i64 %rows, ptr %p, i64 %s) noinline {{
start:
  %total = mul i64 %size, {t.width}
  %last = sub i64 %rows, 1
  br label %head
head:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi {e} [ 0.0, %start ], [ %more_sum, %loop ]
  %more = icmp ult i64 %k, %total
  br i1 %more, label %loop, label %done
loop:
  %column = udiv i64 %k, {t.width}
  %lane = urem i64 %k, {t.width}
  %beyond = icmp ugt i64 %lane, %last
  %which = select i1 %beyond, i64 %last, i64 %lane
  %offset = mul i64 %which, %s
  %index = add i64 %offset, %column
  %row = getelementptr {e}, ptr %p, i64 %index
  %tile = getelementptr {e}, ptr %vectors, i64 %k
  %x = load {e}, ptr {source}
  store {e} %x, ptr {result}
  %zero = fmul {e} %x, 0.0
  %more_sum = fadd {e} %sum, %zero
  %next = add i64 %k, 1
  br label %head
done:
  ret {e} %sum
}}
"""


# ---- rows of states to vectors of the tiles, and back ----------------------------------------


def _load_function(memory: _TileMemory) -> str:
    """Text of ``@load``: input rows to vectors of the tiles."""
    t, signature, lines = memory.t, memory.signature, Lines("v")
    start = 0
    for group, (_, size) in enumerate(signature.inputs):
        rows = _row_addresses(lines, t, group) if size else []
        _prefetch_next_block(lines, t, rows, group, size, memory.tiles)
        for first, count in _column_blocks(size, t.width):
            for i, value in enumerate(_load_columns(lines, t, rows, first, count)):
                memory.store_slot(lines, value, start + first + i)
        start += size
    return _tile_loop("@load", row_parameters(len(signature.inputs)), lines, memory)


def _prefetch_next_block(
    lines: Lines, t: VectorType, rows: list[str], group: int, size: int, tiles: int
) -> None:
    """Ask for the rows that the same tile of the next block will read, line by line."""
    if not size:
        return
    far = lines.let(f"mul i64 %s{group}, {tiles * t.width}")
    for row in rows:
        start = lines.let(f"getelementptr {t.element}, ptr {row}, i64 {far}")
        for first in range(0, size, 64 // t.size):
            address = lines.at(t, start, first)
            lines.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 2, i32 1)")


def _save_function(memory: _TileMemory) -> str:
    """Text of ``@save``: vectors of the tiles to output rows; returns 0 or NaN per lane."""
    t, signature, lines = memory.t, memory.signature, Lines("v")
    total = "%sum"
    for group, (saved, (_, size)) in enumerate(
        zip(memory.saved, signature.outputs, strict=True)
    ):
        rows = _row_addresses(lines, t, group) if size else []
        blocks = saved.blocks
        if len(blocks) > 1:
            whole = [first for first, count, _ in blocks if count == t.width]
            slots = memory.address(lines, blocks[0][2])
            table = memory.tables.integers(whole)
            zero = lines.let(
                f"call {t} @save_blocks(ptr {slots}, ptr {rows[0]}, i64 %s{group},"
                f" ptr {table}, i64 {len(whole)})"
            )
            total = lines.let(f"fadd contract {t} {zero}, {total}")
            blocks = [block for block in blocks if block[1] < t.width]
        if saved.zeros:
            table = memory.tables.integers(saved.zeros)
            lines.do(
                f"call void @zero_blocks(i64 {t.width}, ptr {rows[0]}, i64 %s{group},"
                f" ptr {table}, i64 {len(saved.zeros)})"
            )
        for place, columns_here, slot in blocks:
            for first, count in _column_blocks(columns_here, t.width):
                columns = [memory.load_slot(lines, slot + first + i) for i in range(count)]
                store_columns(lines, t, rows, place + first, columns)
                total = _with_nan(lines, t, columns, total)
    if total == "%sum":
        total = lines.let(f"fadd {t} %sum, zeroinitializer")
    parameters = row_parameters(len(signature.outputs))
    return _tile_loop("@save", parameters, lines, memory, result=total)


def _block_functions(t: VectorType) -> str:
    """Text of loops over blocks of W columns, whose first ones a table names.

    ``@save_blocks(slots, row, stride, table, count)``: W rows of blocks, side by side in slots;
    ``@spill_blocks(slots, rows, row, stride, table, count)``: so many rows of them, one by one;
    ``@zero_blocks(rows, row, stride, table, count)``: so many rows of zeros.
    """
    lines, e = Lines("v"), t.element
    rows = ["%to"]
    for _ in range(1, t.width):
        rows.append(lines.let(f"getelementptr {e}, ptr {rows[-1]}, i64 %stride"))
    align = t.size * t.width
    columns = [lines.load(t, lines.at(t, "%from", i * t.width), align) for i in range(t.width)]
    store_columns(lines, t, rows, 0, columns)
    total = _with_nan(lines, t, columns, "%sum")
    block = """\
  %first_at = getelementptr i32, ptr %table, i64 %k
  %first_32 = load i32, ptr %first_at, align 4
  %first = zext i32 %first_32 to i64
"""
    slots = f"""\
  %place = mul i64 %k, {t.width * t.width}
  %from = getelementptr {e}, ptr %slots, i64 %place
  %to = getelementptr {e}, ptr %row, i64 %first
"""
    saving = counting_loop(
        "",
        f"  %sum = phi {t} [ zeroinitializer, %start ], [ {total}, %loop ]\n",
        f"{block}{slots}{lines}",
        "%count",
    )
    spilling = counting_loop(
        "",
        f"  %sum = phi {e} [ 0.0, %start ], [ %total, %loop ]\n",
        f"""{block}{slots}\
  %zero = call {e} @spill(ptr %from, i64 {t.width}, i64 %rows, ptr %to, i64 %stride)
  %total = fadd {e} %sum, %zero
""",
        "%count",
    )
    return (
        internal_function(
            "@save_blocks",
            "ptr %slots, ptr %row, i64 %stride, ptr %table, i64 %count",
            saving,
            f"{t} {total}",
        )
        + internal_function(
            "@spill_blocks",
            "ptr %slots, i64 %rows, ptr %row, i64 %stride, ptr %table, i64 %count",
            spilling,
            f"{e} %total",
        )
        + f"""
define internal void @zero_blocks(
  i64 %rows, ptr %first_row, i64 %stride, ptr %table, i64 %count) noinline {{
start:
  br label %each
each:
  %r = phi i64 [ 0, %start ], [ %r_next, %after ]
  %row_place = mul i64 %r, %stride
  %row = getelementptr {e}, ptr %first_row, i64 %row_place
  br label %loop
loop:
  %k = phi i64 [ 0, %each ], [ %next, %loop ]
{block}\
  %to = getelementptr {e}, ptr %row, i64 %first
  store {t} zeroinitializer, ptr %to, align {t.size}
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %after
after:
  %r_next = add i64 %r, 1
  %again = icmp ult i64 %r_next, %rows
  br i1 %again, label %each, label %done
done:
  ret void
}}
"""
    )


def _with_nan(lines: Lines, t: VectorType, values: list[str], total: str) -> str:
    """``total``, 0 or NaN per lane, with that of more values."""
    for value in values:  # 0 * x is NaN exactly if x is not finite
        zero = lines.let(f"fmul contract {t} {value}, zeroinitializer")
        total = lines.let(f"fadd contract {t} {zero}, {total}")
    return total


def _row_addresses(lines: Lines, t: VectorType, group: int) -> list[str]:
    """Addresses of the W rows of tile %k in a group."""
    stride = f"i64 %s{group}"
    number = lines.let(f"mul i64 %k, {t.width}")
    offset = lines.let(f"mul i64 {number}, %s{group}")
    rows = [lines.let(f"getelementptr {t.element}, ptr %p{group}, i64 {offset}")]
    for _ in range(1, t.width):
        rows.append(lines.let(f"getelementptr {t.element}, ptr {rows[-1]}, {stride}"))
    return rows


# ---- rows (one state each) to columns (one quantity of W states), and back -------------------


def _column_blocks(size: int, width: int) -> Iterator[tuple[int, int]]:
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


def _load_columns(
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
    padding = ["poison"] * (t.width - len(columns))
    vectors = _transpose(lines, t, columns + padding, t.width // 2)
    for row, value in zip(rows, vectors, strict=True):
        lines.store_first(t, value, len(columns), lines.at(t, row, first))


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
        i % half + (part.width if i >= half else 0) if i % half < part.width else "poison"
        for i in range(t.width)
    ]
    return lines.shuffle(part, parts[0], parts[1], lanes)


def _transpose(lines: Lines, t: VectorType, vectors: list[str], h: int) -> list[str]:
    """W vectors of W numbers: blocks of h numbers swap places, then of h/2, ..., 1.

    From h = W/2 on this is the transpose.
    """
    out = list(vectors)
    while h:
        upper = [i if not i & h else t.width + i - h for i in range(t.width)]
        lower = [i + h if not i & h else t.width + i for i in range(t.width)]
        for i in range(t.width):
            if not i & h:
                a, b = out[i], out[i + h]
                out[i] = lines.shuffle(t, a, b, upper)
                out[i + h] = lines.shuffle(t, a, b, lower)
        h //= 2
    return out
