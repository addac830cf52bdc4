"""LLVM text of ``batch``: the program on n states, W side by side.

States are taken in blocks of T tiles of W. Scratch holds, per tile, vectors over W states:
inputs | outputs | arguments | sines, cosines | slots. A block is loaded (transposed), its sines
and cosines are evaluated, every segment runs over its tiles, and the outputs are transposed
back. The rows that fill no tile are copied in and out one by one.

Long outputs are matrices as a rule, with zeros that the program knows and numbers that stand in
two places. Each number has one place in scratch, which is to stay in fast memory, and all zeros
share one; where W of them stand in a row they are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_FEWEST_LONG = 2
_BLOCK_BYTES = 262144
"""Scratch of a block: tiles share the fetched instructions of a segment as long as their data
stays in fast memory. At least so many, fewer where outputs are long."""
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
    functions = [_load_function(memory)]
    if schedule.n_arguments:
        functions += [_sincos_function(t, target, together) for together in (1, 2)]
    steps: list[str] = []
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
            steps.append(part)
    last = steps[-1:] if memory.is_long else []  # its results are saved while they are at hand
    compute = Lines()
    for part in steps[: len(steps) - len(last)]:
        compute.do(f"call void {part}(ptr %scratch, i64 %tiles)")
    functions += [
        internal_function("@compute", "ptr %scratch, i64 %tiles", compute),
        _save_function(memory, last),
        _fill_function(t),
        _copy_function(t),
        _block_functions(t),
        _rest_function(memory),
        _block_loop(memory, name),
    ]
    return memory.tables.text() + "".join(functions), memory.block_bytes + memory.rest_bytes


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
    """Columns of an output: first ones of W together and of zeros, and those left over.

    All are left over where the output is not long; they lie side by side from ``slot`` on.
    """

    blocks: list[int]
    zeros: list[int]
    rest: range
    slot: int


@final
class _TileMemory:
    """Places in a tile, counted in vectors of W states."""

    def __init__(self, t: VectorType, signature: Signature, schedule: Schedule) -> None:
        self.t, self.signature = t, signature
        self.tables = Tables("batch_table")
        self.saved: list[_Saved] = []
        self.output_slot: dict[int, int] = {}  # of those that are stored
        self.zero = self.arguments = signature.n_inputs
        self._refs, self._slot_of = schedule.outputs, dict[int, int]()
        self.is_long = any(size > MOST_UNROLLED for _, size in signature.outputs)
        if self.is_long:
            self.arguments += 1
            self._slot_of[0] = self.zero
        start = 0
        for _, size in signature.outputs:
            self.saved.append(self._placed(start, size))
            start += size
        self.trig = self.arguments + schedule.n_arguments
        self.temporaries = self.trig + 2 * schedule.n_arguments
        size = self.temporaries + schedule.n_slots
        self.size = size | 1  # an odd number of vectors: tiles fall into different cache sets
        bytes_per_tile = self.size * t.width * t.size
        fewest = _FEWEST_LONG if self.is_long else _FEWEST_TILES
        self.tiles = max(fewest, min(_MOST_TILES, _BLOCK_BYTES // bytes_per_tile))
        self.block_bytes = self.tiles * bytes_per_tile
        self.rest_bytes = signature.n_outputs * t.width * t.size

    def _placed(self, start: int, size: int) -> _Saved:
        """Give slots to an output, whose references begin at ``start``."""
        width, whole = self.t.width, size - size % self.t.width if size > MOST_UNROLLED else 0
        blocks, zeros = [], []
        for first in range(0, whole, width):
            numbers = range(start + first, start + first + width)
            if not any(self._refs[number] for number in numbers):
                zeros.append(first)
                continue
            blocks.append(first)
            for number in numbers:
                ref = self._refs[number]
                if ref not in self._slot_of:
                    self._slot_of[ref] = self.output_slot[number] = self.arguments
                    self.arguments += 1
        saved = _Saved(blocks, zeros, range(whole, size), self.arguments)
        for number in saved.rest:
            self.output_slot[start + number] = self.arguments
            self.arguments += 1
        return saved

    def block_table(self, group: int) -> str:
        """Address of a table: of each block its first column, then the slots of all columns."""
        start = sum(size for _, size in self.signature.outputs[:group])
        entries: list[int] = []
        for first in self.saved[group].blocks:
            refs = self._refs[start + first : start + first + self.t.width]
            entries += [first, *(self._slot_of[ref] for ref in refs)]
        return self.tables.integers(entries)

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
            slot = self.output_slot.get(number)
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

    They go into one tile, filled up with copies of the last row; its W rows are written behind
    the tiles and copied from there. Answers whether all is finite.
    """
    t, signature, lines = memory.t, memory.signature, Lines("r")
    slot = 0
    for g, (_, size) in enumerate(signature.inputs):
        vectors = lines.at(t, "%scratch", slot * t.width)
        lines.do(f"call void @fill(ptr {vectors}, i64 {size}, i64 %rows, ptr %a{g}, i64 %s{g})")
        slot += size
    if memory.is_long:
        lines.store(t, "zeroinitializer", lines.at(t, "%scratch", memory.zero * t.width))
    lines.do("call void @compute(ptr %scratch, i64 1)")
    at, places, rows = memory.block_bytes // t.size, [], ""
    for _, size in signature.outputs:
        places.append(lines.at(t, "%scratch", at))
        rows += f", ptr {places[-1]}, i64 {size}"
        at += size * t.width
    total = lines.let(f"call {t} @save(ptr %scratch, i64 1{rows})")
    for g, place in enumerate(places, len(signature.inputs)):
        given = f"ptr {place}, i64 {signature.groups[g][1]}, i64 %rows, ptr %a{g}, i64 %s{g}"
        lines.do(f"call void @copy_rows({given})")
    fine = lines.all_true(t, lines.let(f"fcmp ord {t} {total}, zeroinitializer"))
    n = len(signature.groups)
    return f"""
define internal i1 @rest(i64 %first, i64 %rows, ptr %scratch{row_parameters(n)}) noinline {{
{row_addresses(n, t, "%first")}{lines}
  ret i1 {fine}
}}
"""


def _fill_function(t: VectorType) -> str:
    """Text of ``@fill``: rows to the columns of a tile; lanes beyond the last row repeat it."""
    return _each_number(
        t,
        "@fill(ptr %vectors, i64 %size, i64 %rows, ptr %p, i64 %s)",
        f"mul i64 %size, {t.width}",
        f"""\
  %column = udiv i64 %k, {t.width}
  %lane = urem i64 %k, {t.width}
  %last = sub i64 %rows, 1
  %row = call i64 @llvm.umin.i64(i64 %lane, i64 %last)
  %offset = mul i64 %row, %s
  %index = add i64 %offset, %column
  %from = getelementptr {t.element}, ptr %p, i64 %index
  %to = getelementptr {t.element}, ptr %vectors, i64 %k
""",
    )


def _copy_function(t: VectorType) -> str:
    """Text of ``@copy_rows``: rows of ``size`` numbers, one behind the other, to rows."""
    return _each_number(
        t,
        "@copy_rows(ptr %numbers, i64 %size, i64 %rows, ptr %p, i64 %s)",
        "mul i64 %size, %rows",
        f"""\
  %column = urem i64 %k, %size
  %row = udiv i64 %k, %size
  %offset = mul i64 %row, %s
  %index = add i64 %offset, %column
  %from = getelementptr {t.element}, ptr %numbers, i64 %k
  %to = getelementptr {t.element}, ptr %p, i64 %index
""",
    )


def _each_number(t: VectorType, head: str, total: str, places: str) -> str:
    """A function that copies numbers %k = 0 .. total one by one."""
    return f"""
define internal void {head} noinline {{
start:
  %total = {total}
  br label %head
head:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  %more = icmp ult i64 %k, %total
  br i1 %more, label %loop, label %done
loop:
{places}\
  %x = load {t.element}, ptr %from
  store {t.element} %x, ptr %to
  %next = add i64 %k, 1
  br label %head
done:
  ret void
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
    if memory.is_long:
        memory.store_slot(lines, "zeroinitializer", memory.zero)
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


def _save_function(memory: _TileMemory, last: list[str]) -> str:
    """Text of ``@save``: the last segment, if any, then vectors of a tile to output rows.

    Returns 0 or NaN per lane.
    """
    t, signature, lines = memory.t, memory.signature, Lines("v")
    for part in last:
        lines.do(f"call void {part}(ptr %tile, i64 1)")
    total = "%sum"
    for group, (saved, (_, size)) in enumerate(
        zip(memory.saved, signature.outputs, strict=True)
    ):
        rows = _row_addresses(lines, t, group) if size else []
        for name, some, table in (
            ("@save_blocks(ptr %tile, ", saved.blocks, memory.block_table(group)),
            ("@zero_blocks(", saved.zeros, memory.tables.integers(saved.zeros)),
        ):
            if some:
                given = f"ptr {rows[0]}, i64 %s{group}, ptr {table}, i64 {len(some)}"
                zero = lines.let(f"call {t} {name}{given})")
                total = lines.let(f"fadd {t} {zero}, {total}")
        for first, count in _column_blocks(len(saved.rest), t.width):
            columns = [memory.load_slot(lines, saved.slot + first + i) for i in range(count)]
            store_columns(lines, t, rows, saved.rest.start + first, columns)
            total = _with_nan(lines, t, columns, total)
    if total == "%sum":
        total = lines.let(f"fadd {t} %sum, zeroinitializer")
    parameters = row_parameters(len(signature.outputs))
    return _tile_loop("@save", parameters, lines, memory, result=total)


def _block_functions(t: VectorType) -> str:
    """Text of loops over blocks of W columns of W rows, whose first ones a table names.

    ``@save_blocks(tile, row, stride, table, count)``: what lies in slots that the table has
    too; ``@zero_blocks(row, stride, table, count)``: zeros. Both return 0 or NaN per lane.
    """
    functions = ""
    for name, first, step in (
        ("@save_blocks", "ptr %tile, ", 1 + t.width),
        ("@zero_blocks", "", 1),
    ):
        lines = Lines("v")
        entry = lines.let(f"mul i64 %k, {step}")
        at = lines.let(f"getelementptr i32, ptr %table, i64 {entry}")

        def number(k: int, lines: Lines = lines, at: str = at) -> str:
            place = lines.let(f"getelementptr i32, ptr {at}, i64 {k}")
            return lines.let(f"load i32, ptr {place}, align 4")

        rows = [lines.let(f"getelementptr {t.element}, ptr %row, i32 {number(0)}")]
        for _ in range(1, t.width):
            rows.append(lines.let(f"getelementptr {t.element}, ptr {rows[-1]}, i64 %stride"))
        if step == 1:
            for row in rows:
                lines.store(t, "zeroinitializer", row)
            total = lines.let(f"fadd {t} %sum, zeroinitializer")
        else:
            slots = [number(1 + i) for i in range(t.width)]
            places = [lines.let(f"getelementptr {t}, ptr %tile, i32 {slot}") for slot in slots]
            columns = [lines.load(t, place, t.size * t.width) for place in places]
            store_columns(lines, t, rows, 0, columns)
            total = _with_nan(lines, t, columns, "%sum")
        carried = f"  %sum = phi {t} [ zeroinitializer, %start ], [ {total}, %loop ]\n"
        functions += internal_function(
            name,
            f"{first}ptr %row, i64 %stride, ptr %table, i64 %count",
            counting_loop("", carried, lines, "%count"),
            f"{t} {total}",
        )
    return functions


def _with_nan(lines: Lines, t: VectorType, values: list[str], total: str) -> str:
    """``total``, 0 or NaN per lane, with that of more values: one addition waits for it."""
    sums: list[str] = []
    for k in range(0, len(values), 2):  # 0 * x is NaN exactly if x is not finite
        zero = "zeroinitializer"
        for value in values[k : k + 2]:
            product = lines.let(f"fmul contract {t} {value}, zeroinitializer")
            zero = lines.let(f"fadd contract {t} {product}, {zero}")
        sums.append(zero)
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2], strict=False)
        sums = [lines.let(f"fadd {t} {a}, {b}") for a, b in pairs] + sums[len(sums) & ~1 :]
    return lines.let(f"fadd {t} {total}, {sums[0]}")


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
