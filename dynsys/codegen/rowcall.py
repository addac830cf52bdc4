"""The batch function as a built-in Python function: checks in machine code, GIL released.

``rows(board, inputs..., outputs...)`` works like ``call`` (fastcall.py) on arrays (N, size)
with contiguous rows at any positive distance. ``board`` (helpers, 8) is an int64 array with a
line for each thread that helps (team.py); without lines the caller does all rows.
"""

from __future__ import annotations

from dynsys.codegen.fastcall import (
    ALIGNED,
    DATA,
    FALSE,
    NDARRAY,
    NONE,
    RESTORE_THREAD,
    SAVE_THREAD,
    STRIDES,
    TRUE,
    WRITEABLE,
    both,
    check_dtype,
    check_flags,
    check_types,
    dimensions_of,
    field,
    leave,
    runtime,
)
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.program.signature import Signature

__all__ = ["emit_rows"]


def emit_rows(signature: Signature, dtype: str) -> str:
    """Text of ``ptr @rows(self, arguments, count)``; see the module."""
    t = VectorType(dtype, 1)
    first, second, run = Lines("a"), Lines("b"), Lines("c")
    objects, ok = check_types(first, 1 + len(signature.groups), NDARRAY)
    arguments, fine = _check_rows(second, t, signature, objects[1:])
    board = field(run, "ptr", objects[0], DATA)
    helpers = field(run, "i64", dimensions_of(run, objects[0], 2)[0], 0)
    state = run.let(f"call ptr {runtime(run, SAVE_THREAD)}()")
    flag = run.let(f"call i64 @team(ptr {board}, i64 {helpers}, i64 %n{arguments})")
    run.do(f"call void {runtime(run, RESTORE_THREAD)}(ptr {state})")
    finite = run.let(f"icmp ne i64 {flag}, 0")
    short = run.let(f"icmp slt i64 {flag}, 0")
    done = run.let(f"select i1 {finite}, i64 {TRUE}, i64 {FALSE}")
    answer = run.let(f"select i1 {short}, i64 {NONE}, i64 {done}")
    parts = ["\n".join(lines.text) for lines in (first, second, run)]
    refused = ("start", "types", "arrays")
    return f"""
define ptr @rows(ptr %self, ptr %args, i64 %count) {{
start:
  %right_count = icmp eq i64 %count, {1 + len(signature.groups)}
  br i1 %right_count, label %types, label %leave
types:
{parts[0]}
  br i1 {ok}, label %arrays, label %leave
arrays:
{parts[1]}
  br i1 {fine}, label %run, label %leave
run:
{parts[2]}
  br label %leave
{leave(refused, answer, "run")}
}}
"""


def _check_rows(
    lines: Lines, t: VectorType, signature: Signature, objects: list[str]
) -> tuple[str, str]:
    """Arguments of ``team`` (address and stride each), and whether all arrays are usable."""
    fine, arguments = "true", ""
    spans: list[tuple[str, str]] = []
    for k, ((_, size), array) in enumerate(zip(signature.groups, objects, strict=True)):
        output = k >= len(signature.inputs)
        shape, ok = dimensions_of(lines, array, 2)
        fine = both(lines, fine, ok)
        length = field(lines, "i64", shape, 0)
        if k == 0:
            lines.do(f"%n = add i64 {length}, 0")
            fine = both(lines, fine, lines.let("icmp sgt i64 %n, 0"))
        fine = both(lines, fine, lines.let(f"icmp eq i64 {length}, %n"))
        width = field(lines, "i64", shape, 8)
        fine = both(lines, fine, lines.let(f"icmp eq i64 {width}, {size}"))
        fine = check_dtype(lines, t, array, fine)
        fine = check_flags(lines, array, ALIGNED | (WRITEABLE if output else 0), fine)
        step, fine = _stride(lines, t, array, ok, size, fine)
        data = field(lines, "ptr", array, DATA)
        arguments += f", ptr {data}, i64 {step}"
        spans.append(_span(lines, t, data, step, size))
    for out in range(len(signature.inputs), len(objects)):
        for other in range(out):
            fine = both(lines, fine, _apart(lines, spans[out], spans[other]))
    return arguments, fine


def _stride(
    lines: Lines, t: VectorType, array: str, is_matrix: str, size: int, fine: str
) -> tuple[str, str]:
    """Numbers from row to row; rows must be contiguous and apart from each other."""
    given = field(lines, "ptr", array, STRIDES)
    strides = lines.let(f"select i1 {is_matrix}, ptr {given}, ptr @no_dimension")
    row = field(lines, "i64", strides, 0)
    if size > 1:
        inner = field(lines, "i64", strides, 8)
        fine = both(lines, fine, lines.let(f"icmp eq i64 {inner}, {t.size}"))
    rest = lines.let(f"and i64 {row}, {t.size - 1}")
    fine = both(lines, fine, lines.let(f"icmp eq i64 {rest}, 0"))
    fine = both(lines, fine, lines.let(f"icmp sge i64 {row}, {t.size * size}"))
    return lines.let(f"sdiv exact i64 {row}, {t.size}"), fine


def _span(lines: Lines, t: VectorType, data: str, step: str, size: int) -> tuple[str, str]:
    """First address and the one behind the last."""
    last = lines.let("sub i64 %n, 1")
    before = lines.let(f"mul i64 {last}, {step}")
    count = lines.let(f"add i64 {before}, {size}")
    end = lines.let(f"getelementptr {t.element}, ptr {data}, i64 {count}")
    return data, end


def _apart(lines: Lines, a: tuple[str, str], b: tuple[str, str]) -> str:
    below = lines.let(f"icmp ule ptr {a[1]}, {b[0]}")
    above = lines.let(f"icmp ule ptr {b[1]}, {a[0]}")
    return lines.let(f"or i1 {below}, {above}")
