"""What an MCAP chunk can unpack to is known before it is unpacked."""

from __future__ import annotations

import io
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dynsys.errors import LogError
from problems.logs import open_log
from problems.logs.ros import MAX_CHUNK, check_chunks

lz4 = pytest.importorskip("lz4.frame", reason="lz4 is not installed")


def check(packed: bytes, stated: int = 10) -> None:
    """Check a file of one chunk record that states a size."""
    record = struct.pack("<BQQQQII", 6, 0, 0, 0, stated, 0, 3) + b"lz4"
    stream = io.BytesIO(record + struct.pack("<Q", len(packed)) + packed)
    check_chunks(Path("x.mcap"), stream, [SimpleNamespace(chunk_start_offset=0)])
    assert stream.tell() == 0


@pytest.mark.parametrize("block", [lz4.BLOCKSIZE_MAX64KB, lz4.BLOCKSIZE_MAX4MB])
@pytest.mark.parametrize("stores_size", [False, True])
def test_chunks_of_noise_and_of_zeros_are_read(block: int, stores_size: bool) -> None:
    noise = np.random.default_rng(0).bytes(20 * 2**20)
    for content in (noise, bytes(MAX_CHUNK // 2)):
        check(
            lz4.compress(
                content, block_size=block, block_checksum=stores_size, store_size=stores_size
            )
        )


@pytest.mark.parametrize("stores_size", [False, True])
@pytest.mark.finding("K-5")
def test_bombs_are_refused_whatever_they_state(stores_size: bool) -> None:
    with pytest.raises(LogError, match="may unpack to"):
        check(lz4.compress(bytes(MAX_CHUNK + 2**22), store_size=stores_size))


def test_false_sizes_are_refused() -> None:
    with pytest.raises(LogError, match="may unpack to"):
        check(b"", stated=MAX_CHUNK + 1)
    packed = bytearray(lz4.compress(b"little"))
    packed[6:14] = struct.pack("<Q", 2**40)
    with pytest.raises(LogError, match="may unpack to"):
        check(bytes(packed))


def test_what_is_no_lz4_is_left_to_the_decoder() -> None:
    check(b"not a frame")
    check(lz4.compress(bytes(2**20))[:20])


@pytest.mark.finding("Z-C5")
def test_damaged_lengths_of_records_take_no_memory(tmp_path: Path) -> None:
    """A record that states two gigabytes: the reader asked for so many."""
    writers = pytest.importorskip("mcap.writer", reason="mcap is not installed")
    path = tmp_path / "log.mcap"
    with path.open("wb") as stream:
        writer = writers.Writer(stream)
        writer.start()
        writer.register_schema("sensor_msgs/msg/JointState", "ros2msg", b"float64[] position")
        writer.finish()
    data = bytearray(path.read_bytes())
    (summary,) = struct.unpack_from("<Q", data, data.rindex(struct.pack("<BQ", 2, 20)) + 9)
    struct.pack_into("<Q", data, summary + 1, 2**31)
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(LogError, match=r"log\.mcap"):
        open_log(path)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()
