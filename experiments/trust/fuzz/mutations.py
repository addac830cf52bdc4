"""Mutations of files: of bytes, of the words in a text, of what a checksum protects."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from dynsys.plan.plan_file import FORMAT

__all__ = ["mutate", "mutate_cache_entry", "mutate_npz", "mutate_plan"]

NUMBERS = (
    b"0", b"-0.0", b"1", b"-1", b"1e308", b"-1e308", b"1e-320", b"nan", b"inf", b"-inf",
    b"1e400", b"2147483648", b"9223372036854775808", b"1" * 5000, b"1_0", b"0x10", b"1e-3",
    b"1,5", b"",
)  # fmt: skip
WORDS = (
    b"\x00", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", "\u202e".encode(),
    "\U0001f916".encode(), b"*a", b"&a [1]", b"!!python/object/apply:os.system [id]",
    b"<!DOCTYPE a>", b"&lt;", b"]]>",
    b"../../../etc/passwd", b"/dev/zero", b"null", b"true", b"[]", b"{}", b"~", b"2001-01-01",
    b"12:30:45", b"0o17", b"? ", b"- ", b": ", b"\t", b"\r\n", b"%", b"'", b'"', b"x" * 70000,
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*")


def mutate(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return the content after one to four random changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(_CHANGES)(content, others, rng)
    return content


def _place(content: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + int(rng.paretovariate(0.7)))


def _flip(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    for _unused in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _delete(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    start, stop = _place(content, rng)
    return content[:start] + content[stop:]


def _repeat(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    start, stop = _place(content, rng)
    part = content[start : min(stop, start + 2000)]
    return content[:stop] + part * rng.choice((1, 1, 2, 50)) + content[stop:]


def _splice(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    a, b = _place(other, rng)
    start, stop = _place(content, rng)
    return content[:start] + other[a:b] + content[stop:]


def _bytes(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    start, stop = _place(content, rng)
    filler = rng.choice((b"\x00", b"\xff", b"\x7f", rng.randbytes(1))) * (stop - start)
    return content[:start] + filler + content[stop:]


def _replace(pattern: re.Pattern[bytes], chosen: Sequence[bytes]) -> Callable[..., bytes]:
    def change(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
        found = list(pattern.finditer(content))
        if not found:
            return content
        place = rng.choice(found)
        own = [m.group() for m in found]
        new = rng.choice((rng.choice(chosen), rng.choice(own)))
        return content[: place.start()] + new + content[place.end() :]

    return change


def _swap_lines(content: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


_CHANGES: tuple[Callable[..., bytes], ...] = (
    _flip, _truncate, _delete, _repeat, _splice, _bytes, _swap_lines,
    _replace(_NUMBER, NUMBERS), _replace(_NUMBER, NUMBERS), _replace(_NUMBER, WORDS),
    _replace(_WORD, WORDS), _replace(_WORD, NUMBERS), _replace(_WORD, WORDS),
)  # fmt: skip


# ---- inside of checksums -------------------------------------------------------------------


def mutate_plan(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Change a value of the plan and sign it anew, or change the file itself."""
    try:
        document = json.loads(content)
        plan = document["plan"]
        assert isinstance(plan, dict)
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        return mutate(content, others, rng)
    if rng.random() < 0.3:
        return mutate(content, others, rng)
    _mutate_json(plan, rng)
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"dynsys plan":{FORMAT},"sha256":"{checksum}","plan":{text}}}\n'.encode()


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**400, 1.5, 1e308, "", "x", "\ud800", [], {}, [[]],
    [1, 2], {"a": 1}, "argument", "sampling", "lu", "symmetric", "saddle",
)  # fmt: skip


def _mutate_json(value: Any, rng: random.Random) -> None:
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.8:
            value = value[key]
            continue
        if rng.random() < 0.3:
            del value[key]
        else:
            value[key] = rng.choice(VALUES)
        return


def mutate_cache_entry(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Change a section of a cache entry and sign it for its key, or change the file itself.

    Code is never changed and signed: who can write the cache folder may run code anyway.
    """
    header = struct.Struct("<8sIQQQ32s")
    if len(content) < header.size or rng.random() < 0.4:
        return mutate(content, others, rng)
    magic, version, *lengths, _ = header.unpack_from(content)
    if sum(lengths) + header.size != len(content):
        return mutate(content, others, rng)
    described = content[header.size : header.size + lengths[0]]
    rest = content[header.size + lengths[0] :]
    arrays, payload = rest[: lengths[1]], rest[lengths[1] :]
    described = mutate(described, others, rng)
    if rng.random() < 0.2:
        arrays = mutate(arrays, others, rng)
    sections = (described, arrays, payload)
    sizes = [len(section) for section in sections]
    digest = hashlib.sha256(b"0" * 64 + struct.pack("<QQQ", *sizes))
    for section in sections:
        digest.update(section)
    return header.pack(magic, version, *sizes, digest.digest()) + b"".join(sections)


def mutate_npz(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Change one member of the archive, or its name, and zip it again; or change the file."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:
        return mutate(content, others, rng)
    if not members or rng.random() < 0.4:
        return mutate(content, others, rng)
    k = rng.randrange(len(members))
    name, data = members[k]
    if rng.random() < 0.2:
        name = rng.choice((name + "x", "../" + name, "time." + name, members[0][0], "q.npy"))
    else:
        header, body = data[:128], data[128:]
        data = mutate(header, others, rng) + body if rng.random() < 0.7 else header + body[:50]
    members[k] = (name, data)
    out = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=kind)
    return out.getvalue()
