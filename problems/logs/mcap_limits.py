"""Bounds on what an MCAP file of unknown origin unpacks to: checked before it is unpacked."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any

from problems.logs.source import LogError

__all__ = ["MAX_CHUNK", "check_chunks"]

MAX_CHUNK = 256 * 2**20
"""Most bytes of a chunk, unpacked; writers make chunks of one to eight megabytes."""
LZ4_RATIO = 255
"""Bytes that one byte of LZ4 unpacks to at most."""
_RECORD = struct.Struct(
    "<BQQQQII"
)  # opcode, length, start, end, unpacked size, CRC, name length


def check_chunks(path: Path, stream: IO[bytes], chunks: list[Any]) -> None:
    """Raise LogError unless every chunk record says, and can only unpack to, a bounded size."""
    back = stream.tell()
    for chunk in chunks:
        stream.seek(chunk.chunk_start_offset)
        head = stream.read(_RECORD.size)
        if len(head) < _RECORD.size:
            raise LogError(f"{path}: a chunk lies beyond the end of the file")
        *_, size, _, name_length = _RECORD.unpack(head)
        kind = stream.read(min(name_length, 8))
        packed = int.from_bytes(stream.read(8), "little")
        if kind == b"lz4":
            size = max(size, LZ4_RATIO * packed)
        elif kind == b"zstd":
            size = max(size, _zstd_size(stream.read(18)))
        if size > 4 * MAX_CHUNK or (kind != b"lz4" and size > MAX_CHUNK):
            raise LogError(
                f"{path}: a chunk may unpack to {size >> 20} MB; refused: write it with chunks"
                " of some megabytes ('mcap recover --chunk-size 4194304')"
            )
    stream.seek(back)


def _zstd_size(head: bytes) -> int:
    """Content size that the head of a Zstandard frame states (RFC 8878, 3.1.1.1); 0 if none."""
    if len(head) < 6:
        return 0
    flags = head[4]
    single = bool(flags & 0x20)
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    start = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    return int.from_bytes(head[start : start + width], "little")
