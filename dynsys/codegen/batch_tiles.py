"""Tiles of a batch: what lies where in scratch memory, and functions that run over them."""

from __future__ import annotations

from typing import final

from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.schedule import Place, Schedule
from dynsys.program.signature import Signature

__all__ = ["TileMemory", "tile_loop"]

_FEWEST_TILES, _MOST_TILES = 4, 8
_BLOCK_BYTES = 262144
"""Scratch of a block: tiles share the fetched instructions of a segment as long as their data
stays in fast memory."""


@final
class TileMemory:
    """Places in a tile, counted in vectors of W states."""

    def __init__(self, t: VectorType, signature: Signature, schedule: Schedule) -> None:
        self.t = t
        self.outputs = signature.n_inputs
        self.arguments = self.outputs + signature.n_outputs
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
        first = {
            "output": self.outputs,
            "argument": self.arguments,
            "temporary": self.temporaries,
        }[kind]
        self.store_slot(lines, value, first + number)


def tile_loop(
    name: str, parameters: str, lines: Lines, memory: TileMemory, *, result: str = ""
) -> str:
    """A function that runs ``lines`` for %t = 0 .. %tiles, with %tile the address of tile t."""
    t = memory.t
    body = "\n".join(lines.text)
    carried = f"  %sum = phi {t} [ zeroinitializer, %start ], [ {result}, %loop ]\n"
    kind = t if result else "void"
    return f"""
define internal {kind} {name}(ptr %scratch, i64 %tiles{parameters}) noinline {{
start:
  br label %loop
loop:
  %t = phi i64 [ 0, %start ], [ %t_next, %loop ]
{carried if result else ""}  %offset = mul i64 %t, {memory.size * t.width}
  %tile = getelementptr {t.element}, ptr %scratch, i64 %offset
{body}
  %t_next = add i64 %t, 1
  %more = icmp ult i64 %t_next, %tiles
  br i1 %more, label %loop, label %done
done:
  ret {f"{t} {result}" if result else "void"}
}}
"""
