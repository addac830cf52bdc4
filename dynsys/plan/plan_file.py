"""Plans as files: JSON text with a version and a checksum. No code is ever read from a file.

A file is refused unless every field has its type, sizes and names fit together, orders are
permutations and numbers finite: a plan decides which numbers a kernel divides by.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dynsys.errors import PlanFileError
from dynsys.plan.fingerprint import Fingerprint
from dynsys.plan.operations import Operations
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.symmetric import SymmetricStep

if TYPE_CHECKING:
    from dynsys.plan.plan import Plan

__all__ = ["FORMAT", "LARGEST_FILE", "read_plan", "write_plan"]

FORMAT = 1
LARGEST_FILE = 64 * 2**20
"""Bytes; a plan of 10^5 pivots has about 20 MB."""

_STEPS = ("joint pair", "pivot", "link pair")
_LARGEST_COUNT = 2**53


def write_plan(plan: Plan, path: Path) -> None:
    """Write the file beside its place, then move it there: no reader ever sees half a plan."""
    content = json.dumps(_encoded(plan), sort_keys=True, separators=(",", ":"), allow_nan=False)
    checksum = sha256(content.encode()).hexdigest()
    text = f'{{"dynsys plan":{FORMAT},"sha256":"{checksum}","plan":{content}}}\n'
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PlanFileError(
            f"plan file {str(path)!r} cannot be written: {error}; nothing was changed"
        ) from None


def read_plan(path: Path) -> dict[str, Any]:
    """Read and verify a plan; returns the fields of :class:`Plan`."""
    reader = _Reader(path)
    content_bytes = reader.bytes()
    try:
        document = json.loads(content_bytes.decode("utf-8"), parse_constant=reader.constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, PlanFileError):
            raise
        reader.refuse(f"it is not JSON text ({error})")
    if not isinstance(document, dict) or "dynsys plan" not in document:
        reader.refuse("it holds no dynsys plan")
    version = document["dynsys plan"]
    if version != FORMAT:
        reader.refuse(
            f"it has format {version!r}, this dynsys reads {FORMAT}; make the plan again"
        )
    content = reader.mapping(document, "plan")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    if document.get("sha256") != sha256(text.encode()).hexdigest():
        reader.refuse("its checksum does not fit: the file was damaged or edited")
    try:
        return _decoded(content, reader)
    except (ValueError, OverflowError) as error:
        reader.refuse(str(error))


def _encoded(plan: Plan) -> dict[str, Any]:
    order = plan.order
    return {
        "method": plan.method,
        "robot": _encoded_fingerprint(plan.robot),
        "problem": _encoded_fingerprint(plan.problem),
        "layout": None if plan.layout is None else _encoded_fingerprint(plan.layout),
        "operations": {
            "multiplications": plan.operations.multiplications,
            "additions": plan.operations.additions,
            "divisions": plan.operations.divisions,
        },
        "pivots": [[p.step, p.name, p.safety, p.ratio] for p in plan.pivots],
        "steps": [[step.kind, step.body] for step in plan.steps],
        "row_order": None if order is None else order.row_order.tolist(),
        "col_order": None if order is None else order.col_order.tolist(),
        "options": dict(plan.options),
        "ordering": plan.ordering,
        "versions": dict(plan.versions),
    }


def _encoded_fingerprint(fingerprint: Fingerprint) -> dict[str, Any]:
    return {"subject": fingerprint.subject, "parts": list(fingerprint.parts.items())}


def _decoded(content: dict[str, Any], reader: _Reader) -> dict[str, Any]:
    method = reader.text(content, "method")
    if method not in ("symmetric", "lu"):
        reader.refuse(f"method {method!r} is unknown")
    operations = reader.mapping(content, "operations")
    counts = [
        reader.whole(operations.get(key), key, _LARGEST_COUNT)
        for key in ("multiplications", "additions", "divisions")
    ]
    order = _decoded_order(content, reader) if method == "lu" else None
    return dict(
        method=method,
        robot=_decoded_fingerprint(content, "robot", reader),
        problem=_decoded_fingerprint(content, "problem", reader),
        operations=Operations(*counts),
        pivots=tuple(_decoded_pivot(p, reader) for p in reader.sequence(content, "pivots")),
        layout=(
            None
            if content.get("layout") is None
            else _decoded_fingerprint(content, "layout", reader)
        ),
        steps=tuple(_decoded_step(s, reader) for s in reader.sequence(content, "steps")),
        order=order,
        options=reader.options(content),
        ordering=reader.text(content, "ordering"),
        versions={
            str(key): reader.text(reader.mapping(content, "versions"), key)
            for key in reader.mapping(content, "versions")
        },
    )


def _decoded_fingerprint(content: dict[str, Any], key: str, reader: _Reader) -> Fingerprint:
    given = reader.mapping(content, key)
    parts: dict[str, str] = {}
    for item in reader.sequence(given, "parts"):
        if not (isinstance(item, list) and [type(x) for x in item] == [str, str]):
            reader.refuse(f"a part of its {key} fingerprint is no pair of texts")
        parts[item[0]] = item[1]
    return Fingerprint(reader.text(given, "subject"), parts)


def _decoded_order(content: dict[str, Any], reader: _Reader) -> PivotOrder:
    orders = []
    for key in ("row_order", "col_order"):
        given = reader.sequence(content, key)
        orders.append([reader.whole(x, f"an entry of {key}", len(given) - 1) for x in given])
    if len(orders[0]) != len(orders[1]):
        reader.refuse("row_order and col_order have different lengths")
    return PivotOrder(*orders)


def _decoded_pivot(given: Any, reader: _Reader) -> PlannedPivot:
    if not isinstance(given, list) or len(given) != 4:
        reader.refuse("a pivot is not [step, name, safety, ratio]")
    step, name, safety, ratio = given
    if not isinstance(name, str) or safety not in ("argument", "sampling"):
        reader.refuse(f"a pivot has the name {name!r} and the safety {safety!r}")
    if ratio is not None and not (
        type(ratio) in (int, float) and math.isfinite(ratio) and ratio >= 0
    ):
        reader.refuse(f"the ratio of pivot {name!r} is {ratio!r}, not a number >= 0")
    step = reader.whole(step, "the step of a pivot", _LARGEST_COUNT)
    return PlannedPivot(step, name, safety, None if ratio is None else float(ratio))


def _decoded_step(given: Any, reader: _Reader) -> SymmetricStep:
    if not isinstance(given, list) or len(given) != 2 or given[0] not in _STEPS:
        reader.refuse("a step is not [kind, body] of a known kind")
    return SymmetricStep(given[0], reader.whole(given[1], "the body of a step", 2**31))


class _Reader:
    """Typed access to parsed JSON; whatever does not fit is refused with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def bytes(self) -> bytes:
        """Content of the file, if it is a regular one of bounded size."""
        try:
            if not self.path.is_file():
                self.refuse("there is no such file")
            with self.path.open("rb") as stream:
                content = stream.read(LARGEST_FILE + 1)
        except (OSError, ValueError) as error:
            self.refuse(f"it cannot be read ({error})")
        if len(content) > LARGEST_FILE:
            self.refuse(f"it has more bytes than any plan ({LARGEST_FILE})")
        return content

    def refuse(self, why: str) -> NoReturn:
        raise PlanFileError(f"plan file {str(self.path)!r} is refused: {why}")

    def constant(self, name: str) -> NoReturn:
        self.refuse(f"it holds {name}, which is no number of a plan")

    def mapping(self, content: dict[str, Any], key: str) -> dict[str, Any]:
        value = content.get(key)
        if not isinstance(value, dict):
            self.refuse(f"{key!r} is missing or no mapping")
        return value

    def sequence(self, content: dict[str, Any], key: str) -> list[Any]:
        value = content.get(key)
        if not isinstance(value, list):
            self.refuse(f"{key!r} is missing or no list")
        return value

    def text(self, content: dict[str, Any], key: str) -> str:
        value = content.get(key)
        if not isinstance(value, str):
            self.refuse(f"{key!r} is missing or no text")
        return value

    def whole(self, value: Any, what: str, largest: int) -> int:
        if type(value) is not int or not 0 <= value <= largest:
            self.refuse(f"{what} is {value!r}, not a whole number in 0..{largest}")
        return value

    def options(self, content: dict[str, Any]) -> dict[str, bool | int | float | str]:
        given = self.mapping(content, "options")
        for key, value in given.items():
            if type(value) not in (bool, int, float, str):
                self.refuse(f"option {key!r} is of type {type(value).__name__}")
            if isinstance(value, float) and not math.isfinite(value):
                self.refuse(f"option {key!r} is not finite")
        return given
