"""Files made to hurt: bombs, special files, absurd sizes, ways out of the folder."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.trust.fuzz.files import (
    KEY,
    LAYOUT,
    MJCF,
    URDF,
    db3_file,
    problem_text,
    valid_log,
)
from experiments.trust.fuzz.targets import TARGETS

__all__ = ["LOG_CASES", "Maker", "hostile", "written"]

# ---- logs and kernels made to hurt: bombs, absurd sizes, damage inside of checksums --------

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


# ---- not a file ----------------------------------------------------------------------------


def _special(ending: str) -> dict[str, Maker]:
    """Everything that may stand where a file is expected."""

    def missing(folder: Path) -> Path:
        return folder / f"none{ending}"

    def directory(folder: Path) -> Path:
        path = folder / f"case{ending}"
        path.mkdir()
        return path

    def fifo(folder: Path) -> Path:
        path = folder / f"case{ending}"
        os.mkfifo(path)
        return path

    def link(to: str) -> Maker:
        def make(folder: Path) -> Path:
            path = folder / f"case{ending}"
            path.symlink_to(to)
            return path

        return make

    def sparse(folder: Path) -> Path:
        path = folder / f"case{ending}"
        with path.open("wb") as stream:
            stream.truncate(3 * 2**30)
        return path

    def long_name(folder: Path) -> Path:
        return folder / ("x" * 5000 + ending)

    return {
        "missing": missing,
        "directory": directory,
        "fifo": fifo,
        "link to itself": link(f"case{ending}"),
        "link to /dev/zero": link("/dev/zero"),
        "three gigabytes of zeros": sparse,
        "name of 5000 letters": long_name,
        "name with a null": lambda folder: Path(f"{folder}/a\0b{ending}"),
        "empty": written(ending, b""),
        "zeros": written(ending, bytes(5000)),
        "not UTF-8": written(ending, b"\xff\xfe\xc3\x28" * 100),
        "one line of 50 MB": written(ending, lambda: b"x" * (50 * 2**20)),
    }


# ---- texts ---------------------------------------------------------------------------------

ENTITIES = b"<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaa'>" + b"".join(
    f"<!ENTITY {chr(98 + k)} '{f'&{chr(97 + k)};' * 10}'>".encode() for k in range(9)
)
FETCH = b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>'
ALIASES = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{', '.join([f'*{chr(97 + k)}'] * 9)}]\n".encode()
    for k in range(9)
)


def _chain_urdf(n: int) -> bytes:
    links = "".join(f'<link name="l{k}"/>' for k in range(n + 1))
    joints = "".join(
        f'<joint name="j{k}" type="fixed"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
        for k in range(n)
    )
    return f'<robot name="r">{links}{joints}</robot>'.encode()


def _ring_urdf() -> bytes:
    return _chain_urdf(2).replace(
        b"</robot>",
        b'<joint name="x" type="fixed"><parent link="l2"/><child link="l0"/></joint></robot>',
    )


def _mimic_ring() -> bytes:
    return URDF.replace(b'<axis xyz="0 1 0"/>', b'<axis xyz="0 1 0"/><mimic joint="elbow"/>')


def _urdf_cases() -> dict[str, Maker]:
    texts: dict[str, bytes | Callable[[], bytes]] = {
        "entities that expand": ENTITIES + b"]><robot name='&j;'/>",
        "entity that fetches a file": FETCH,
        "nested 100000 deep": lambda: b"<robot name='r'>" + b"<a>" * 100_000,
        "two million elements": lambda: b"<robot name='r'>" + b"<a/>" * 2_000_000 + b"</robot>",
        "name of 40 MB": lambda: b"<robot name='" + b"x" * (40 * 2**20) + b"'><link/></robot>",
        "chain of 20000 fixed joints": lambda: _chain_urdf(20_000),
        "chain of 3000 joints": lambda: _chain_urdf(3000).replace(b"fixed", b"revolute"),
        "ring of links": _ring_urdf(),
        "ring of mimics": _mimic_ring(),
        "mimics itself": URDF.replace(b'<mimic joint="shoulder"', b'<mimic joint="elbow"'),
        "mass 1e308": URDF.replace(b'value="2.0"', b'value="1e308"'),
        "mass nan": URDF.replace(b'value="2.0"', b'value="nan"'),
        "inertia 1e-320": URDF.replace(b"0.02", b"1e-320"),
        "axis 1e-320": URDF.replace(b'<axis xyz="0 1 0"/>', b'<axis xyz="0 1e-320 0"/>'),
        "axis 1e300": URDF.replace(b'<axis xyz="0 1 0"/>', b'<axis xyz="0 1e300 1e300"/>'),
        "angle 1e300": URDF.replace(b"rpy='0 0.1 0'", b"rpy='1e300 0 0'"),
        "same name": URDF.replace(b'"lower"', b'"upper"'),
        "UTF-16": URDF.decode().replace("utf-8", "utf-16").encode("utf-16"),
        "UTF-7": URDF.replace(b"utf-8", b"utf-7"),
        "mesh outside": URDF.replace(
            b'<link name="base"/>',
            b'<link name="base"><visual><geometry><mesh filename="package://../../etc/passwd"/>'
            b"</geometry></visual></link>",
        ),
    }
    return {name: written(".urdf", content) for name, content in texts.items()}


def _mjcf_with(element: str) -> bytes:
    return MJCF.replace(b"<worldbody>", element.encode() + b"<worldbody>")


def _mjcf_cases() -> dict[str, Maker]:
    mesh = '<asset><mesh name="m" file="{}"/></asset>'
    texts: dict[str, bytes | Callable[[], bytes]] = {
        "include of /etc/passwd": _mjcf_with('<include file="/etc/passwd"/>'),
        "include of itself": _mjcf_with('<include file="case.xml"/>'),
        "include outside": _mjcf_with('<include file="../../x.xml"/>'),
        "mesh /dev/zero": _mjcf_with(mesh.format("/dev/zero")),
        "mesh outside": _mjcf_with(mesh.format("../../../../etc/passwd.stl")),
        "entities that expand": ENTITIES + b"]><mujoco model='&j;'/>",
        "nested bodies": lambda: (
            b"<mujoco><worldbody>"
            + b"<body><joint/>" * 150
            + b"</body>" * 150
            + b"</worldbody></mujoco>"
        ),
        "memory of a terabyte": _mjcf_with('<size memory="1T"/>'),
        "stack of a terabyte": _mjcf_with('<size njmax="2000000000" nconmax="2000000000"/>'),
        "replicate a billion": MJCF.replace(
            b'<site name="tip" pos="0 0 0.4"/>',
            b'<replicate count="1000000000"><site pos="0 0 0.4"/></replicate>',
        ),
        "composite of a billion": MJCF.replace(
            b'<site name="tip" pos="0 0 0.4"/>',
            b'<composite type="cable" count="1000000000 1 1" size="1"><joint kind="main"/>'
            b'<geom type="capsule" size="0.1"/></composite>',
        ),
        "flexcomp of a billion": MJCF.replace(
            b'<site name="tip" pos="0 0 0.4"/>',
            b'<flexcomp name="f" type="grid" count="1000 1000 1000" spacing="1 1 1"/>',
        ),
        "texture of a terabyte": _mjcf_with(
            '<asset><texture name="t" type="2d" builtin="flat" width="1000000"'
            ' height="1000000"/></asset>'
        ),
        "height field of a terabyte": _mjcf_with(
            '<asset><hfield name="h" nrow="1000000" ncol="1000000" size="1 1 1 1"/></asset>'
        ),
        "keyframes": _mjcf_with('<size nkey="2000000000"/>'),
        "user data": _mjcf_with('<size nuserdata="2000000000" nuser_body="2000000000"/>'),
        "plugin": _mjcf_with(
            '<extension><plugin plugin="mujoco.elasticity.cable"/></extension>'
        ),
        "mass nan": MJCF.replace(b'mass="2"', b'mass="nan"'),
        "mass 1e308": MJCF.replace(b'mass="2"', b'mass="1e308"'),
    }
    return {name: written(".xml", content) for name, content in texts.items()}


def _layout_cases() -> dict[str, Maker]:
    texts: dict[str, bytes | Callable[[], bytes]] = {
        "aliases that expand": ALIASES,
        "code": b"!!python/object/apply:os.system ['touch hacked']",
        "code in a sensor": LAYOUT.replace(b"three links", b"!!python/name:os.system"),
        "nested 100000 deep": b"[" * 100_000,
        "nested mappings": b"{a: " * 100_000,
        "nested by indent": "".join(f"{' ' * k}a:\n" for k in range(3000)).encode(),
        "a number of 100000 digits": LAYOUT.replace(b"0.05", b"9" * 100_000),
        "a number of 10^400": LAYOUT.replace(b"0.05", b"1" + b"0" * 400),
        "base 60": LAYOUT.replace(b"0.05", b"1" + b":59" * 20_000),
        "date": LAYOUT.replace(b"three links", b"2001-99-99"),
        "timestamp": LAYOUT.replace(b"three links", b"2001-01-01 99:99:99"),
        "bad integer": LAYOUT.replace(b"0.05", b"0x"),
        "underscores": LAYOUT.replace(b"0.05", b"_1_"),
        "octal": LAYOUT.replace(b"0.05", b"0b__"),
        "inf": LAYOUT.replace(b"0.05", b".inf"),
        "nan": LAYOUT.replace(b"0.05", b".nan"),
        "std 1e300": LAYOUT.replace(b"0.05", b"1.0e+300"),
        "std 1e-320": LAYOUT.replace(b"0.05", b"1.0e-320"),
        "merge key": b"<<: {a: 1}\n" + LAYOUT,
        "unhashable key": b"? [a]\n: 1\n" + LAYOUT,
        "unhashable name": LAYOUT.replace(b"[hand_imu, tau1]", b"[[hand_imu], tau1]"),
        "unhashable kind": LAYOUT.replace(b"kind: imu", b"kind: [imu]"),
        "name with escape": LAYOUT.replace(b"hand_imu", b'"\\e[31m"'),
        "lone surrogate": LAYOUT.replace(b"three links", b'"\\ud800"'),
        "huge component": LAYOUT.replace(
            b"joint: link_1", b"joint: link_1, component: 99999999999"
        ),
        "10^5 sensors of one name": b"sensors: [" + b"all_joint_torques, " * 30_000 + b"]",
        "half a million keys": lambda: (
            b"about: {" + b"".join(f"k{k}: 1, ".encode() for k in range(300_000)) + b"}"
        ),
        "two documents": LAYOUT + b"---\n" + LAYOUT,
    }
    return {name: written(".yaml", content) for name, content in texts.items()}


def _problem_cases() -> dict[str, Maker]:
    good = problem_text()

    def on(robot: str) -> bytes:
        return good.replace(b"synthetic:chain:3", robot.encode())

    texts: dict[str, bytes] = {
        "chain of a billion": on("synthetic:chain:1000000000"),
        "tree of depth 60": on("synthetic:balanced_tree:60"),
        "grid of a billion": on("synthetic:spanning_grid:1000000000"),
        "auto_tree": on("synthetic:auto_tree:1000000000:1e300"),
        "random tree": on("synthetic:random_tree:99999999"),
        "negative": on("synthetic:chain:-5"),
        "not a number": on("synthetic:chain:nan"),
        "infinite": on("synthetic:chain:inf"),
        "text": on("synthetic:chain:a"),
        "unknown": on("synthetic:__class__"),
        "private": on("synthetic:np"),
        "robot is a FIFO": on("/dev/stdin"),
        "robot /dev/zero": on("/dev/zero"),
        "example outside": on("example:../../../etc/passwd"),
        "catalogue outside": good.replace(b"outputs:", b"x:").split(b"layout:")[0]
        + b"layout: 'catalogue:../../../etc/passwd'\n",
        "layout /dev/zero": good.split(b"layout:")[0] + b"layout: /dev/zero\n",
        "layout itself": good.split(b"layout:")[0] + b"layout: case.yaml\n",
        "window of a billion": good.replace(b"window: 0.1", b"window: 1000000001"),
        "order of a billion": good.replace(b"order: 3", b"order: 1000000000"),
        "prior nan": good.replace(b"external_wrench: 100", b"external_wrench: .nan"),
        "prior text": good.replace(b"external_wrench: 100", b"external_wrench: abc"),
        "prior list": good.replace(b"external_wrench: 100", b"external_wrench: [1, 2]"),
        "prior mapping": good.replace(b"external_wrench: 100", b"external_wrench: {1: {2: 3}}"),
        "prior std is text": good.split(b"prior:")[0] + b"prior: {std: abc}\n",
        "prior mean is a list": good.split(b"prior:")[0]
        + b"prior: {std: {qdd: 1}, mean: [1]}\n",
        "prior std of a huge number": good.replace(
            b"external_wrench: 100", b"qdd: 1" + b"0" * 400
        ),
        "base is a list": good.replace(b"base: fixed", b"base: [fixed]"),
    }
    return {name: written(".yaml", content) for name, content in texts.items()}


_MORE: dict[str, Callable[[], dict[str, Maker]]] = {
    "urdf": _urdf_cases,
    "mjcf": _mjcf_cases,
    "layout": _layout_cases,
    "problem": _problem_cases,
    **LOG_CASES,
}


def hostile(area: str) -> dict[str, Maker]:
    """Hostile files of an area by name: each writes itself into a folder."""
    special = {} if area in ("cache", "db3") else _special(TARGETS[area].ending)
    return special | (_MORE[area]() if area in _MORE else {})
