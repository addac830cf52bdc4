"""Schedule of a program: stages, segments and memory slots, the same for machine code and C.

Segments become functions: compilers are superlinear in the length of a function. A value used
in a later segment than its own is kept in a slot of scratch memory. A slot read last in a
segment is free again in the next, so that within one no slot is both read and written anew.

Machine code evaluates sines and cosines together. A stage is straight-line code, followed by
the sines and cosines of some arguments. Stage 0 computes the arguments that depend on no sine
or cosine (for robots: nothing, the joint angles are inputs), the last stage has everything else
and no arguments. Where they are operations like any other, there is one stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.program.program import BINARY, UNARY, Op, Program

__all__ = ["Place", "Schedule", "Segment", "Stage", "make_schedule"]

Place: TypeAlias = tuple[Literal["output", "argument", "temporary"], int]
"""Where a value is written: output number, sincos argument number or scratch slot."""

_TRIG = (int(Op.SIN), int(Op.COS))
_LEAVES = (int(Op.CONSTANT), int(Op.INPUT))


@final
@dataclass(eq=False)
class Segment:
    """Operations in order, where their values go, and values that are only copied."""

    nodes: list[int]
    stores: dict[int, list[tuple[int, Place]]] = field(default_factory=dict)
    copies: list[tuple[int, Place]] = field(default_factory=list)


@final
@dataclass(eq=False)
class Stage:
    """Segments, then sines and cosines of ``arguments`` (nodes)."""

    segments: list[Segment]
    arguments: list[int]


@final
@dataclass(eq=False)
class Schedule:
    """The program as lists, cut into stages; ``slot`` of values that outlive their segment."""

    op: list[int]
    left: list[int]
    right: list[int]
    constants: NDArray[np.longdouble]
    outputs: list[int]
    stages: list[Stage]
    argument_number: dict[int, int]
    slot: dict[int, int]
    n_slots: int

    @property
    def n_arguments(self) -> int:
        """Number of different arguments of sine and cosine."""
        return len(self.argument_number)


def make_schedule(
    program: Program, segment_size: int, *, sines_together: bool = True
) -> Schedule:
    """Cut a program into stages and segments of at most ``segment_size`` operations."""
    op, left, right = program.op.tolist(), program.left.tolist(), program.right.tolist()
    outputs = program.outputs.tolist()
    groups = _trig_arguments(op, left, right) if sines_together else []
    elsewhere = (*_LEAVES, *_TRIG) if sines_together else _LEAVES
    numbers: dict[int, int] = {}
    stages: list[Stage] = []
    done = [False] * len(op)
    for arguments in [*groups, []]:
        wanted = _closure(op, left, right, arguments, done) if arguments else range(len(op))
        nodes = [k for k in wanted if not done[k] and op[k] not in elsewhere]
        for k in nodes:
            done[k] = True
        for k in arguments:
            numbers[k] = len(numbers)
        stages.append(Stage(_cut(nodes, segment_size), arguments))
    schedule = Schedule(op, left, right, program.constants, outputs, stages, numbers, {}, 0)
    _place_results(schedule)
    _allocate_slots(schedule)
    return schedule


def _trig_arguments(op: list[int], left: list[int], right: list[int]) -> list[list[int]]:
    """Arguments (nodes) of sine and cosine, grouped by how many trig nodes lie before them."""
    depth = [0] * len(op)
    groups: dict[int, dict[int, None]] = {}
    for k, kind in enumerate(op):
        if kind in _LEAVES:
            continue
        depth[k] = depth[abs(left[k]) - 1]
        if kind in BINARY:
            depth[k] = max(depth[k], depth[abs(right[k]) - 1])
        if kind in _TRIG:
            groups.setdefault(depth[k], {})[abs(left[k]) - 1] = None
            depth[k] += 1
    return [sorted(groups[d]) for d in sorted(groups)]


def _closure(
    op: list[int], left: list[int], right: list[int], roots: list[int], done: list[bool]
) -> list[int]:
    """Nodes that the roots need and that are not done, in program order."""
    found: set[int] = set()
    stack = list(roots)
    while stack:
        k = stack.pop()
        if k in found or done[k]:
            continue
        found.add(k)
        if op[k] in UNARY or op[k] in BINARY:
            stack.append(abs(left[k]) - 1)
        if op[k] in BINARY:
            stack.append(abs(right[k]) - 1)
    return sorted(found)


def _cut(nodes: list[int], size: int) -> list[Segment]:
    """Segments of nearly equal length, none longer than ``size``."""
    count = max(1, -(-len(nodes) // size))
    cuts = [len(nodes) * i // count for i in range(count + 1)]
    return [Segment(nodes[a:b]) for a, b in pairwise(cuts)]


def _place_results(s: Schedule) -> None:
    """Send outputs and arguments where they belong: stored when computed, else copied."""
    home = {
        k: segment for stage in s.stages for segment in stage.segments for k in segment.nodes
    }
    for number, ref in enumerate(s.outputs):
        segment = home.get(abs(ref) - 1) if ref else None
        if segment is None:  # a bare input, a constant, a sine, zero
            s.stages[-1].segments[-1].copies.append((ref, ("output", number)))
        else:
            segment.stores.setdefault(abs(ref) - 1, []).append((ref, ("output", number)))
    for stage in s.stages:
        for k in stage.arguments:
            place: Place = ("argument", s.argument_number[k])
            segment = home.get(k)
            if segment is not None:
                segment.stores.setdefault(k, []).append((k + 1, place))
            elif s.op[k] != Op.INPUT:
                stage.segments[-1].copies.append((k + 1, place))


def _allocate_slots(s: Schedule) -> None:
    """Give a slot to every value read by a later segment; linear scan over segments."""
    segments = [segment for stage in s.stages for segment in stage.segments]
    born: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, segment in enumerate(segments):
        for k in segment.nodes:
            born[k] = number
            last[abs(s.left[k]) - 1] = number
            if s.op[k] in BINARY:
                last[abs(s.right[k]) - 1] = number
    free: list[int] = []
    expiring: dict[int, list[int]] = {}
    for number, segment in enumerate(segments):
        for k in segment.nodes:
            if last.get(k, number) > number:
                slot = free.pop() if free else s.n_slots
                s.n_slots = max(s.n_slots, slot + 1)
                s.slot[k] = slot
                expiring.setdefault(last[k], []).append(slot)
                segment.stores.setdefault(k, []).append((k + 1, ("temporary", slot)))
        free.extend(expiring.pop(number, []))
