"""Logs and kernels made to hurt: bombs, absurd sizes, damage inside of checksums."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.trust.fuzz_files import KEY, db3_file, valid_log

__all__ = ["LOG_CASES", "Maker", "written"]

Maker = Callable[[Path], Path]


def written(ending: str, content: bytes | Callable[[], bytes]) -> Maker:
    """Return what writes a content, or the content it makes, into a folder."""

    def make(folder: Path) -> Path:
        path = folder / f"case{ending}"
        path.write_bytes(content if isinstance(content, bytes) else content())
        return path

    return make


def _archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def _npy(shape: str, dtype: str = "'<f8'", body: bytes = b"") -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def _bomb(megabytes: int) -> bytes:
    rows = megabytes * 2**20 // 24
    return _archive(q=_npy(f"({rows}, 3)", body=bytes(rows * 24)))


def _pickled() -> bytes:
    out = io.BytesIO()
    np.savez(out, q=np.array([{"a": 1}, print], dtype=object))
    return out.getvalue()


def _npz_cases() -> dict[str, Maker]:
    contents: dict[str, Callable[[], bytes]] = {
        "a bomb of 2 GB": lambda: _bomb(2048),
        "pickled objects": _pickled,
        "a petabyte claimed": lambda: _archive(q=_npy("(99999999999999, 3)")),
        "width of a petabyte": lambda: _archive(q=_npy("(1, 999999999999999)")),
        "shape beyond 64 bits": lambda: _archive(q=_npy(f"({10**30}, 3)")),
        "shape overflows": lambda: _archive(q=_npy(f"(1, {2**32}, {2**32})")),
        "negative shape": lambda: _archive(q=_npy("(-5, 3)")),
        "no width": lambda: _archive(q=_npy("(5, 0)")),
        "boolean shape": lambda: _archive(q=_npy("(True, 3)")),
        "shape is no tuple": lambda: _archive(q=_npy("'abc'")),
        "code in the header": lambda: _archive(q=_npy("__import__('os').system('id')")),
        "deep header": lambda: _archive(q=_npy("(" * 5000 + ")" * 5000)),
        "no bytes per number": lambda: _archive(q=_npy("(5, 3)", "'<V0'")),
        "half floats": lambda: _archive(q=_npy("(5, 3)", "'<f2'", bytes(30))),
        "structured": lambda: _archive(q=_npy("(5,)", "[('a', '<f8')]", bytes(40))),
        "time overflows": lambda: _archive(
            q=_npy("(2, 3)", body=bytes(48)),
            time=_npy("(2,)", body=struct.pack("<2d", 0, 1e308)),
        ),
        "not a number in time": lambda: _archive(
            q=_npy("(1, 3)", body=bytes(24)), time=_npy("(1,)", body=struct.pack("<d", np.nan))
        ),
        "header without its end": lambda: _archive(q=_npy("(5, 3")),
        "damaged compression": lambda: _damaged(
            _archive(q=_npy("(9, 3)", body=bytes(216))), 40, 60
        ),
        "encrypted member": lambda: _encrypted(valid_log(".npz")),
        "unknown compression": lambda: valid_log(".npz").replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x63"
        ),
        "30000 members": lambda: _archive(
            **{f"a{k}": _npy("(1,)", body=bytes(8)) for k in range(30_000)}
        ),
    }
    return {name: written(".npz", content) for name, content in contents.items()}


def _damaged(content: bytes, start: int, stop: int) -> bytes:
    return content[:start] + b"\xff" * (stop - start) + content[stop:]


def _encrypted(content: bytes) -> bytes:
    changed = bytearray(content)
    at = changed.find(b"PK\x01\x02")
    while at >= 0:
        changed[at + 8] |= 1
        at = changed.find(b"PK\x01\x02", at + 4)
    at = changed.find(b"PK\x03\x04")
    changed[at + 6] |= 1
    return bytes(changed)


def _csv_cases() -> dict[str, Maker]:
    good = valid_log(".csv")
    head, _, body = good.partition(b"\n")
    contents: dict[str, bytes | Callable[[], bytes]] = {
        "no samples": head + b"\n",
        "no newline": head,
        "100000 columns": lambda: b",".join(b"c%d" % k for k in range(100_000)) + b"\n",
        "cell of 20 MB": lambda: good + b"1" * (20 * 2**20) + b"\n",
        "gaps": lambda: good + b"," * (5 * 2**20) + b"\n",
        "spaces": lambda: good + (b" " * 1000 + b"," + b"\t" * 1000) * 2000 + b"\n",
        "quotes": good.replace(b"q.", b'"q.'),
        "blank lines": good + b"\n" * 3_000_000,
        "numbers as no number": good.replace(b"0.", b"0x"),
        "1e400": good + body.split(b"\n")[0].replace(b"0.", b"1e400") + b"\n",
        "hexadecimal": good + b",".join([b"0x1p3"] * (head.count(b",") + 1)) + b"\n",
        "underscores": good + b",".join([b"1_0"] * (head.count(b",") + 1)) + b"\n",
        "null bytes": good.replace(b",", b"\0,"),
        "carriage returns only": good.replace(b"\n", b"\r"),
        "not ASCII": good.replace(b"0.", "\u0663.".encode()),
        "short rows": head + b"\n" + b"1,2\n" * 20,
    }
    return {name: written(".csv", content) for name, content in contents.items()}


def _parquet(columns: dict[str, object], **options: object) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, **options)
    return out.getvalue()


def _parquet_bomb() -> bytes:
    """A hundred million equal rows in a few kilobytes."""
    import pyarrow as pa

    zeros = pa.array(np.zeros(100_000_000))
    names = ("time", "q.link_1", "q.link_2", "q.link_3")
    return _parquet(dict.fromkeys(names, zeros), row_group_size=10**9, compression="zstd")


def _parquet_cases() -> dict[str, Maker]:
    import pyarrow as pa

    names = ("time", "q.link_1", "q.link_2", "q.link_3")

    def typed(values: object) -> Callable[[], bytes]:
        return lambda: _parquet(dict.fromkeys(names, values))

    contents: dict[str, Callable[[], bytes]] = {
        "a bomb of 3 GB": _parquet_bomb,
        "text": typed(pa.array(["a", "b"])),
        "numbers as text": typed(pa.array(["1", "2"])),
        "null": typed(pa.array([None, None], type=pa.null())),
        "lists": typed(pa.array([[1.0], [2.0]])),
        "structures": typed(pa.array([{"a": 1}, {"a": 2}])),
        "dictionaries": typed(pa.array(["1", "x"]).dictionary_encode()),
        "times": typed(pa.array([0, 1], type=pa.timestamp("ns"))),
        "dates": typed(pa.array([0, 1], type=pa.date32())),
        "decimals": typed(pa.array([0, 1], type=pa.decimal128(38, 10))),
        "booleans": typed(pa.array([False, True])),
        "binary": typed(pa.array([b"0", b"\xff"])),
        "maps": typed(pa.array([[("a", 1)], []], type=pa.map_(pa.string(), pa.int64()))),
        "no rows": typed(pa.array([], type=pa.float64())),
        "no columns": lambda: _parquet({}),
        "huge integers": typed(pa.array([0, 2**62 + 1])),
        "nested name": lambda: _parquet({"q": pa.array([{"link_1": 1.0}])}),
        "repeated name": _repeated_column,
        "damaged page": lambda: _damaged(valid_log(".parquet"), 4, 40),
    }
    return {name: written(".parquet", content) for name, content in contents.items()}


def _mcap_cases() -> dict[str, Maker]:
    good = valid_log(".mcap")

    def unpacked(old: bytes, new: bytes) -> Callable[[], bytes]:
        return lambda: _plain_mcap(old, new)

    contents: dict[str, bytes | Callable[[], bytes]] = {
        "damaged chunk": _damaged(good, 200, 260),
        "cut": good[: len(good) // 2],
        "no field definition": unpacked(b"float64[] effort", b"float64[ ]effort"),
        "field of another name": unpacked(b"float64[] position", b"float64[] positiom"),
        "bad name": unpacked(b"MSG: std_msgs/Header", b"MSG: std_msgs/-eader"),
        "a bomb of 2 GB": _mcap_bomb,
    }
    return {name: written(".mcap", content) for name, content in contents.items()}


def _plain_mcap(old: bytes, new: bytes) -> bytes:
    """A log of joint states without compression, a word of its definitions replaced."""
    from mcap.writer import CompressionType
    from mcap_ros2.writer import Writer

    from problems.logs.ros import DEFINITIONS, build_message

    out = io.BytesIO()
    kind = "sensor_msgs/msg/JointState"
    values = {f"{q}.link_{k}": 0.1 for q in ("q", "qd", "effort") for k in (1, 2, 3)}
    with Writer(out, compression=CompressionType.NONE) as writer:
        schema = writer.register_msgdef(kind, DEFINITIONS[kind])
        for k in range(20):
            message = build_message(kind, k / 100, values)
            writer.write_message("/joint_states", schema, message, log_time=k * 10**7)
    return out.getvalue().replace(old, new)


def _mcap_bomb() -> bytes:
    """One chunk that says, and unpacks to, two gigabytes of zeros."""
    import zstandard

    zeros = bytes(2**20)
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=2**31)
    packed = b"".join([*(packer.compress(zeros) for _ in range(2**11)), packer.flush()])
    good = _plain_mcap(b"-", b"-")
    start = good.index(b"\x06", 8)
    body = struct.pack("<QQQI", 0, 10**9, 2**31, 0) + struct.pack("<I", 4) + b"zstd"
    body += struct.pack("<Q", len(packed)) + packed
    chunk = b"\x06" + struct.pack("<Q", len(body)) + body
    return _with_chunk(good, start, chunk)


def _with_chunk(good: bytes, start: int, chunk: bytes) -> bytes:
    """Put a chunk in the place of the first, and the index behind it."""
    length = struct.unpack_from("<Q", good, start + 1)[0] + 9
    moved = len(chunk) - length
    footer = len(good) - 8 - 29
    summary, offsets = struct.unpack_from("<QQ", good, footer + 9)
    tail = bytearray(good[start + length :])
    at = footer - start - length
    struct.pack_into(
        "<QQI", tail, at + 9, summary + moved, (offsets + moved) * (offsets > 0), 0
    )
    return good[:start] + chunk + bytes(tail)


def _db3_cases() -> dict[str, Maker]:
    good = db3_file()
    contents = {
        "damaged page": _damaged(good, 4096, 4400),
        "damaged header": _damaged(good, 16, 60),
        "cut": good[: len(good) // 2],
        "not SQLite": b"x" * 9000,
    }
    return {name: written(".db3", content) for name, content in contents.items()}


def _cache_cases() -> dict[str, Maker]:
    """Entries that are signed for their key, but described as pack() never would."""
    descriptions = {
        "not JSON": b"{",
        "not UTF-8": b'{"metadata": "\xff"}',
        "no arrays": b'{"metadata": {}}',
        "no metadata": b'{"arrays": []}',
        "objects": b'{"metadata": {}, "arrays": [["inputs", "O", [1]]]}',
        "no such type": b'{"metadata": {}, "arrays": [["inputs", "<x9", [1]]]}',
        "more than there is": b'{"metadata": {}, "arrays": [["inputs", "<f8", [1000000]]]}',
        "beyond 64 bits": b'{"metadata": {}, "arrays": [["x", "<f8", [99999999999999999999]]]}',
        "a fraction": b'{"metadata": {}, "arrays": [["inputs", "<f8", [1.5]]]}',
        "deep": b"[" * 100_000,
    }
    return {name: written(".kernel", _signed(text)) for name, text in descriptions.items()}


def _signed(description: bytes) -> bytes:
    sections = (description, bytes(8), b"\x7fELF code")
    sizes = [len(section) for section in sections]
    digest = hashlib.sha256(KEY.encode() + struct.pack("<QQQ", *sizes))
    for section in sections:
        digest.update(section)
    header = struct.pack("<8sIQQQ32s", b"dynsysK\n", 1, *sizes, digest.digest())
    return header + b"".join(sections)


def _repeated_column() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    out = io.BytesIO()
    values = [pa.array([0.0, 1.0])] * 5
    names = ["time", "q.link_1", "q.link_2", "q.link_3", "q.link_3"]
    parquet.write_table(pa.Table.from_arrays(values, names=names), out)
    return out.getvalue()


LOG_CASES: dict[str, Callable[[], dict[str, Maker]]] = {
    "npz": _npz_cases,
    "csv": _csv_cases,
    "parquet": _parquet_cases,
    "mcap": _mcap_cases,
    "db3": _db3_cases,
    "cache": _cache_cases,
}
