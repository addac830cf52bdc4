"""LLVM text of a batch shared among threads that wait for it in machine code.

A board has a line of eight int64 for each helper; the first number of a line is its state:

    0         asleep: the thread waits in Python and must be woken there (workers.py)
    1         watching its line for work, for a tenth of a millisecond or a few
    2         being woken, or passed over: looks at its line next
    3         working
    address   work offered: the caller's block, below

Where two may change a state, they do so by compare-and-exchange. ``team`` offers its block to
the helpers that are awake, does rows itself until none is left, takes back what nobody has
begun, and waits for the others. ``serve`` is what a helper runs. Neither touches Python.

Each thread has a zone of rows, the same in every call, so that arrays used again are still in
its caches. It takes chunks of its own zone first, then of the others': a thread that wakes late
does less instead of being waited for.
"""

from __future__ import annotations

from dynsys.kernel.llvm.batch import CHUNK
from dynsys.kernel.llvm.target import Target
from dynsys.kernel.llvm.text import Lines, VectorType
from dynsys.kernel.python_entry import FREE, MALLOC, YIELD, runtime
from dynsys.program.signature import Signature

__all__ = [
    "ARRAYS",
    "ASLEEP",
    "BOARD",
    "COUNTERS",
    "FINE",
    "LINE",
    "PENDING",
    "ROWS",
    "WAKING",
    "ZONES",
    "emit_share",
    "emit_team",
    "join",
    "load",
    "parameters",
    "place",
    "store",
]

ASLEEP, WATCHING, WAKING, WORKING = range(4)
_PATIENCE = 20_000
"""Looks at a line before its thread goes to sleep, each a pause of 10 to 50 ns."""
_LOOKS_BEFORE_YIELD = 2_000
"""Looks of a caller that waits, before it leaves its core to others now and then."""


def emit_team(t: VectorType, signature: Signature, target: Target, scratch_bytes: int) -> str:
    """Text of ``i64 @team(board, helpers, n, in0, stride0, ...)`` and ``void @serve(line)``.

    ``team`` returns 1 if all outputs are finite, 0 if not, -1 if memory is short.
    """
    return "".join(
        (
            _pause(target),
            emit_share(t, signature, scratch_bytes),
            _offer(),
            _take_back(),
            _team(signature),
            _serve(),
        )
    )


def _pause(target: Target) -> str:
    """Text of ``@pause``: tells the core that it waits for another one."""
    if target.triple.startswith(("x86", "i686")):
        intrinsic, call = "@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"
    elif target.triple.startswith(("aarch64", "arm64")):
        intrinsic, call = "@llvm.aarch64.hint(i32)", "@llvm.aarch64.hint(i32 1)"
    else:
        return "\ndefine internal void @pause() {\n  ret void\n}\n"
    return f"""
declare void {intrinsic}
define internal void @pause() {{
  call void {call}
  ret void
}}
"""


def _offer() -> str:
    """Text of ``@offer(block, line)``: to a helper that is awake, or about to be."""
    lines = Lines("o")
    pending = place(lines, PENDING)
    return f"""
define internal void @offer(ptr %block, ptr %line) {{
start:
  %state = load atomic i64, ptr %line monotonic, align 8
  %watching = icmp eq i64 %state, {WATCHING}
  %waking = icmp eq i64 %state, {WAKING}
  %awake = or i1 %watching, %waking
  br i1 %awake, label %try, label %done
try:
{join(lines)}
  atomicrmw add ptr {pending}, i64 1 monotonic
  %offer = ptrtoint ptr %block to i64
  %pair = cmpxchg ptr %line, i64 %state, i64 %offer acq_rel monotonic
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %done, label %undo
undo:
  atomicrmw sub ptr {pending}, i64 1 monotonic
  br label %done
done:
  ret void
}}
"""


def _take_back() -> str:
    """Text of ``@take_back(block, line)``: an offer that nobody has begun."""
    lines = Lines("o")
    pending = place(lines, PENDING)
    return f"""
define internal void @take_back(ptr %block, ptr %line) {{
  %offer = ptrtoint ptr %block to i64
  %pair = cmpxchg ptr %line, i64 %offer, i64 {WAKING} acq_rel monotonic
  %back = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %back, label %undo, label %done
undo:
{join(lines)}
  atomicrmw sub ptr {pending}, i64 1 monotonic
  br label %done
done:
  ret void
}}
"""


def _team(signature: Signature) -> str:
    groups = range(len(signature.groups))
    fill, finish, wait = Lines("f"), Lines("g"), Lines("h")
    store(fill, "i64 0", PENDING)
    store(fill, "i64 1", FINE)
    store(fill, "ptr %board", BOARD)
    store(fill, "i64 %zones", ZONES)
    store(fill, "ptr %counters", COUNTERS)
    store(fill, "i64 %n", ROWS)
    for g in groups:
        store(fill, f"ptr %p{g}", ARRAYS + 2 * g)
        store(fill, f"i64 %s{g}", ARRAYS + 2 * g + 1)
    pending = wait.let(f"load atomic i64, ptr {place(wait, PENDING)} acquire, align 8")
    others = finish.let(f"load atomic i64, ptr {place(finish, FINE)} monotonic, align 8")
    leave = Lines("y")
    leave.do(f"call i32 {runtime(leave, YIELD)}()")
    return f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i64 @team(ptr %board, i64 %helpers, i64 %n{parameters(signature)}) {{
start:
  %block = alloca [{ARRAYS + 2 * len(groups)} x i64], align 64
  %zones = add i64 %helpers, 1
  %bytes = mul i64 %zones, {8 * LINE}
  %counters = alloca i8, i64 %bytes, align 64
  call void @llvm.memset.p0.i64(ptr %counters, i8 0, i64 %bytes, i1 false)
{join(fill)}
  br label %offers
{_for_each_line("offer", "offers", "own")}
own:
  %own_line = getelementptr i64, ptr %board, i64 -{LINE}
  %fine = call i64 @work(ptr %block, ptr %own_line)
  br label %take_backs
{_for_each_line("take_back", "take_backs", "wait")}
wait:
  %looks = phi i64 [ 0, %take_backs ], [ %more_looks, %again ], [ 0, %leave ]
{join(wait)}
  %all_done = icmp eq i64 {pending}, 0
  br i1 %all_done, label %finish, label %look
look:
  %impatient = icmp ugt i64 %looks, {_LOOKS_BEFORE_YIELD}
  br i1 %impatient, label %leave, label %again
again:
  call void @pause()
  %more_looks = add i64 %looks, 1
  br label %wait
leave:
{join(leave)}
  br label %wait
finish:
{join(finish)}
  %short = icmp slt i64 %fine, 0
  %all_fine = and i64 %fine, {others}
  %result = select i1 %short, i64 -1, i64 %all_fine
  ret i64 %result
}}
"""


def _for_each_line(function: str, label: str, then: str) -> str:
    """Text that calls ``function(block, line)`` for each helper's line."""
    before = {"offers": "start", "take_backs": "own"}[label]
    return f"""{label}:
  %{label}_k = phi i64 [ 0, %{before} ], [ %{label}_next, %{label}_one ]
  %{label}_more = icmp ult i64 %{label}_k, %helpers
  br i1 %{label}_more, label %{label}_one, label %{then}
{label}_one:
  %{label}_first = mul i64 %{label}_k, {LINE}
  %{label}_line = getelementptr i64, ptr %board, i64 %{label}_first
  call void @{function}(ptr %block, ptr %{label}_line)
  %{label}_next = add i64 %{label}_k, 1
  br label %{label}"""


def _serve() -> str:
    """Text of ``@serve(line)``: do what is offered, until nothing is for a while."""
    lines = Lines("s")
    result = lines.let("call i64 @work(ptr %block, ptr %line)")
    lines.do(f"atomicrmw and ptr {place(lines, FINE)}, i64 {result} monotonic")
    lines.do(f"atomicrmw sub ptr {place(lines, PENDING)}, i64 1 release")
    return f"""
define void @serve(ptr %line) {{
start:
  br label %head
head:
  %looks = phi i64 [ 0, %start ], [ %more_looks, %rest ], [ 0, %woken ], [ 0, %work ],
                   [ %looks, %offered ], [ %looks, %tired ]
  %state = load atomic i64, ptr %line acquire, align 8
  switch i64 %state, label %offered [ i64 {ASLEEP}, label %done
                                      i64 {WATCHING}, label %watching
                                      i64 {WAKING}, label %woken ]
woken:
  cmpxchg ptr %line, i64 {WAKING}, i64 {WATCHING} acq_rel monotonic
  br label %head
watching:
  %more_looks = add i64 %looks, 1
  %enough = icmp ugt i64 %more_looks, {_PATIENCE}
  br i1 %enough, label %tired, label %rest
rest:
  call void @pause()
  br label %head
tired:
  %asleep = cmpxchg ptr %line, i64 {WATCHING}, i64 {ASLEEP} acq_rel monotonic
  %slept = extractvalue {{ i64, i1 }} %asleep, 1
  br i1 %slept, label %done, label %head
offered:
  %taking = cmpxchg ptr %line, i64 %state, i64 {WORKING} acq_rel monotonic
  %taken = extractvalue {{ i64, i1 }} %taking, 1
  br i1 %taken, label %work, label %head
work:
  %block = inttoptr i64 %state to ptr
{join(lines)}
  store atomic i64 {WATCHING}, ptr %line release, align 8
  br label %head
done:
  ret void
}}
"""


# ----------------------------------------------------------------------
# What a caller hands to its helpers: layout of the block, and LLVM text that reads it.

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


# ----------------------------------------------------------------------
# LLVM text of one thread's part of a batch: chunks of its own zone, then of the others'.


def emit_share(t: VectorType, signature: Signature, scratch_bytes: int) -> str:
    """Text of ``i64 @work(block, line)``, which a caller and its helpers run alike."""
    return _share(t, signature) + _work(signature, scratch_bytes)


def _share(t: VectorType, signature: Signature) -> str:
    """Text of ``@share``: chunks of rows, of one's own zone first, until none is left."""
    lines = Lines("c")
    arguments = ""
    for g in range(len(signature.groups)):
        offset = lines.let(f"mul i64 %first, %s{g}")
        address = lines.let(f"getelementptr {t.element}, ptr %p{g}, i64 {offset}")
        arguments += f", ptr {address}, i64 %s{g}"
    fine = lines.let(f"call i64 @batch(i64 %rows, ptr %scratch{arguments})")
    return f"""
define internal i64 @share(
    ptr %counters, i64 %zones, i64 %own, i64 %n, ptr %scratch{parameters(signature)}) {{
start:
  %up = add i64 %n, {CHUNK - 1}
  %chunks = udiv i64 %up, {CHUNK}
  br label %next_zone
next_zone:
  %fine = phi i64 [ 1, %start ], [ %fine_here, %head ]
  %step = phi i64 [ 0, %start ], [ %step_on, %head ]
  %step_on = add i64 %step, 1
  %left_over = icmp ult i64 %step, %zones
  br i1 %left_over, label %zone, label %done
zone:
  %place = add i64 %own, %step
  %which = urem i64 %place, %zones
  %after = add i64 %which, 1
  %begin_scaled = mul i64 %which, %chunks
  %end_scaled = mul i64 %after, %chunks
  %begin = udiv i64 %begin_scaled, %zones
  %end = udiv i64 %end_scaled, %zones
  %line = mul i64 %which, {LINE}
  %counter = getelementptr i64, ptr %counters, i64 %line
  br label %head
head:
  %fine_here = phi i64 [ %fine, %zone ], [ %both, %loop ]
  %taken = atomicrmw add ptr %counter, i64 1 monotonic
  %chunk = add i64 %begin, %taken
  %more = icmp ult i64 %chunk, %end
  br i1 %more, label %loop, label %next_zone
loop:
  %first = mul i64 %chunk, {CHUNK}
  %left = sub i64 %n, %first
  %few = icmp ult i64 %left, {CHUNK}
  %rows = select i1 %few, i64 %left, i64 {CHUNK}
{join(lines)}
  %both = and i64 %fine_here, {fine}
  br label %head
done:
  ret i64 %fine
}}
"""


def _work(signature: Signature, scratch_bytes: int) -> str:
    """Text of ``i64 @work(block, line)``: a share of the rows; -1 if memory is short.

    The caller's line is the one before the first of the board.
    """
    lines = Lines("w")
    memory = lines.let(f"call ptr {runtime(lines, MALLOC)}(i64 {scratch_bytes + 64})")
    enough = lines.let(f"icmp ne ptr {memory}, null")
    some = Lines("v")
    start = some.let(f"ptrtoint ptr {memory} to i64")
    aligned = some.let(f"and i64 {some.let(f'add i64 {start}, 63')}, -64")
    scratch = some.let(f"inttoptr i64 {aligned} to ptr")
    arguments = ""
    for g in range(len(signature.groups)):
        data = load(some, "ptr", ARRAYS + 2 * g)
        stride = load(some, "i64", ARRAYS + 2 * g + 1)
        arguments += f", ptr {data}, i64 {stride}"
    rows = load(some, "i64", ROWS)
    zones = load(some, "i64", ZONES)
    counters = load(some, "ptr", COUNTERS)
    board = some.let(f"ptrtoint ptr {load(some, 'ptr', BOARD)} to i64")
    distance = some.let(f"sub i64 {some.let('ptrtoint ptr %line to i64')}, {board}")
    lines_on = some.let(f"sdiv i64 {distance}, {8 * LINE}")
    own = some.let(f"add i64 {lines_on}, 1")
    shared = f"ptr {counters}, i64 {zones}, i64 {own}, i64 {rows}, ptr {scratch}"
    fine = some.let(f"call i64 @share({shared}{arguments})")
    some.do(f"call void {runtime(some, FREE)}(ptr {memory})")
    return f"""
define internal i64 @work(ptr %block, ptr %line) {{
{join(lines)}
  br i1 {enough}, label %some, label %short
some:
{join(some)}
  ret i64 {fine}
short:
  ret i64 -1
}}
"""
