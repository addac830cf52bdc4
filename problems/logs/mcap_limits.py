"""Bounds on what an MCAP file of unknown origin unpacks to: checked before it is unpacked."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO, Any

from problems.logs.source import LogError

__all__ = ["MAX_CHUNK", "check_chunks"]

MAX_CHUNK = 256 * 2**20
"""Most bytes of a chunk, unpacked; writers make chunks of one to eight megabytes."""
LZ4_RATIO = 255
"""Bytes that one byte of LZ4 unpacks to at most."""
LZ4_MAGIC = b"\x04\x22\x4d\x18"
_RECORD = struct.Struct("<BQQQQII")
"""Opcode, length, start, end, unpacked size, CRC, length of the compression's name."""


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
        stream.seek(8, os.SEEK_CUR)  # length of what follows
        if kind == b"lz4":
            size = max(size, _lz4_size(stream))
        elif kind == b"zstd":
            size = max(size, _zstd_size(stream.read(18)))
        if size > MAX_CHUNK:
            raise LogError(
                f"{path}: a chunk may unpack to {size >> 20} MB; refused: write it with chunks"
                " of some megabytes ('mcap recover --chunk-size 4194304')"
            )
    stream.seek(back)


def _lz4_size(stream: IO[bytes]) -> int:
    """Most bytes that an LZ4 frame says, or can unpack to, as far as MAX_CHUNK; 0 if none.

    A block unpacks to no more than the frame's largest, and to 255 times its own bytes.
    """
    head = stream.read(6)
    if len(head) < 6 or not head.startswith(LZ4_MAGIC):
        return 0
    flags, largest = head[4], 1 << (8 + 2 * (head[5] >> 4 & 7))
    stated = int.from_bytes(stream.read(8), "little") if flags & 0x08 else 0
    stream.seek(5 if flags & 0x01 else 1, os.SEEK_CUR)  # dictionary, checksum of the head
    size = 0
    while size <= MAX_CHUNK and (block := int.from_bytes(stream.read(4), "little")):
        length = block & 0x7FFFFFFF
        size += length if block >> 31 else min(largest, LZ4_RATIO * length)
        stream.seek(length + (4 if flags & 0x10 else 0), os.SEEK_CUR)
    return max(size, stated)


def _zstd_size(head: bytes) -> int:
    """Content size that the head of a Zstandard frame states (RFC 8878, 3.1.1.1); 0 if none."""
    if len(head) < 6:
        return 0
    flags = head[4]
    single = bool(flags & 0x20)
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    start = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    return int.from_bytes(head[start : start + width], "little")
