"""Plans as files: JSON text with a version and a checksum. No code is ever read from a file.

A file is refused unless every field has its type, sizes and names fit together, orders are
permutations and numbers finite: a plan decides which numbers a kernel divides by. Nor does a
file hold what nobody reads: two entries of one name, or one that no plan has.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from dynsys.errors import PlanFileError
from dynsys.plan.fingerprint import Fingerprint
from dynsys.plan.methods import ORDERS, EliminationOrder
from dynsys.plan.operations import Operations
from dynsys.plan.pivots import PlannedPivot, SafeBy
from dynsys.plan.symmetric import SymmetricStep
from dynsys.resumable import replacing

__all__ = ["FORMAT", "read_plan", "write_plan"]

FORMAT = 4
"""1 had estimators without an order, 2 did not say which order was counted, 3 let all else be
changed, and told sensors by their parameters alone."""
LARGEST_FILE = 64 * 2**20
"""Bytes; a plan of 10^5 pivots has about 20 MB."""

_METHODS = ("symmetric", *ORDERS)
_STEPS = ("joint pair", "pivot", "link pair", "multiplier", "redundant")
_COUNTS = ("multiplications", "additions", "divisions")
_LARGEST_COUNT = 2**53

T = TypeVar("T", dict[str, Any], list[Any], str)
Made = TypeVar("Made")


# ---- writing ---------------------------------------------------------------------------------


def write_plan(plan: Mapping[str, Any], path: Path) -> None:
    """Write the fields of a plan beside the file's place, then move them there as a whole.

    Raises
    ------
    PlanFileError
        if that is not possible; no reader ever sees half a plan.
    """
    content = _text(_encoded(plan), allow_nan=False)
    checksum = sha256(content.encode()).hexdigest()
    text = f'{{"dynsys plan":{FORMAT},"sha256":"{checksum}","plan":{content}}}\n'
    try:
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlanFileError(
            f"plan file {str(path)!r} cannot be written: {error}; nothing was changed"
        ) from None


def _text(content: dict[str, Any], allow_nan: bool = True) -> str:
    """The one text of some JSON data, of which the checksum is made."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)


def _encoded(plan: Mapping[str, Any]) -> dict[str, Any]:
    order: EliminationOrder | None = plan["order"]
    steps: tuple[SymmetricStep, ...] = plan["steps"]
    pivots: tuple[PlannedPivot, ...] = plan["pivots"]
    prints: dict[str, Fingerprint | None] = {k: plan[k] for k in ("robot", "problem", "layout")}
    return {
        **{key: plan[key] for key in ("method", "ordering", "digest")},
        **{key: dict(plan[key]) for key in ("options", "versions")},
        **{
            key: None if f is None else {"subject": f.subject, "parts": _pairs(f.parts)}
            for key, f in prints.items()
        },
        "operations": {key: getattr(plan["operations"], key) for key in _COUNTS},
        "pivots": [[p.step, p.name, p.safety, p.ratio] for p in pivots],
        "steps": [[step.kind, step.body] for step in steps],
        "order": None if order is None else order.encoded(),
    }


def _pairs(parts: Mapping[str, str]) -> list[list[str]]:
    return [list(pair) for pair in parts.items()]


# ---- reading ---------------------------------------------------------------------------------


def read_plan(path: Path, make: Callable[..., Made]) -> Made:
    """Read and verify the fields of a plan, and make it of them.

    Raises
    ------
    PlanFileError
        if the file is damaged, from another version, or no plan at all.
    """
    return _Reader(path).plan(make)


class _Reader:
    """Typed access to a file's JSON; whatever does not fit is refused with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def refuse(self, why: str) -> NoReturn:
        raise PlanFileError(f"plan file {str(self.path)!r} is refused: {why}")

    def plan(self, make: Callable[..., Made]) -> Made:
        """The plan in the file."""
        content_bytes = self._bytes()
        try:
            document = json.loads(
                content_bytes.decode("utf-8"),
                parse_constant=self._constant,
                object_pairs_hook=self._mapping,
            )
        except (ValueError, RecursionError) as error:
            self.refuse(f"it is not JSON text ({error})")
        if not isinstance(document, dict) or "dynsys plan" not in document:
            self.refuse("it holds no dynsys plan")
        version = document["dynsys plan"]
        if type(version) is not int or version != FORMAT:
            self.refuse(
                f"it has format {version!r}, this dynsys reads {FORMAT}; make the plan again"
            )
        content = self.get(document, "plan", dict)
        if document.get("sha256") != sha256(_text(content).encode()).hexdigest():
            self.refuse("its checksum does not fit: the file was damaged or edited")
        if more := document.keys() - {"dynsys plan", "sha256", "plan"}:
            self.refuse(f"it holds {min(more)!r}, which nobody reads")
        try:
            fields = self._fields(content)
            self._require_all_read(content, _encoded(fields))
            return make(**fields)
        except (ValueError, OverflowError) as error:
            self.refuse(str(error))

    def _mapping(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object of JSON text; none of its names comes twice."""
        found = dict(pairs)
        if len(found) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            self.refuse(f"it holds {twice!r} twice")
        return found

    def _require_all_read(self, content: dict[str, Any], read: dict[str, Any]) -> None:
        """Refuse what is more, or less, than what was read."""
        for key in (*read, *content):
            if key not in content:
                self.refuse(f"{key!r} is missing")
            if key not in read or content[key] != read[key]:
                self.refuse(f"{key!r} holds something that no plan has")

    def _bytes(self) -> bytes:
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

    def _constant(self, name: str) -> NoReturn:
        self.refuse(f"it holds {name}, which is no number of a plan")

    def get(self, content: dict[str, Any], key: str, kind: type[T]) -> T:
        """Value of a key, which must be of a kind: dict, list or str."""
        value = content.get(key)
        if not isinstance(value, kind):
            what = {dict: "mapping", list: "list", str: "text"}[kind]
            self.refuse(f"{key!r} is missing or no {what}")
        return value

    def whole(self, value: Any, what: str, largest: int) -> int:
        """A whole number in 0 .. largest."""
        if type(value) is not int or not 0 <= value <= largest:
            self.refuse(f"{what} is {value!r}, not a whole number in 0..{largest}")
        return value

    # ---- the fields of a plan ----------------------------------------------------------------

    def _fields(self, content: dict[str, Any]) -> dict[str, Any]:
        method = self.get(content, "method", str)
        if method not in _METHODS:
            self.refuse(f"method {method!r} is unknown")
        operations = self.get(content, "operations", dict)
        counts = [self.whole(operations.get(key), key, _LARGEST_COUNT) for key in _COUNTS]
        if not (digest := self.get(content, "digest", str)):
            self.refuse("'digest' is empty: it does not say what the plan was when made")
        layout = content.get("layout")
        versions = self.get(content, "versions", dict)
        steps = tuple(map(self._step, self.get(content, "steps", list)))
        order = content.get("order")
        if (method in ORDERS and steps) or (method not in ORDERS and order is not None):
            self.refuse(f"method {method!r} has an order or steps, not both")
        return {
            "method": method,
            "robot": self._fingerprint(content, "robot"),
            "problem": self._fingerprint(content, "problem"),
            "operations": Operations(*counts),
            "pivots": tuple(map(self._pivot, self.get(content, "pivots", list))),
            "layout": None if layout is None else self._fingerprint(content, "layout"),
            "steps": steps,
            "order": ORDERS[method].decoded(order) if method in ORDERS else None,
            "options": self._options(content),
            "ordering": self.get(content, "ordering", str),
            "versions": {key: self.get(versions, key, str) for key in versions},
            "digest": digest,
        }

    def _fingerprint(self, content: dict[str, Any], key: str) -> Fingerprint:
        given = self.get(content, key, dict)
        parts: dict[str, str] = {}
        for item in self.get(given, "parts", list):
            if not (isinstance(item, list) and [type(x) for x in item] == [str, str]):
                self.refuse(f"a part of its {key} fingerprint is no pair of texts")
            parts[item[0]] = item[1]
        return Fingerprint(self.get(given, "subject", str), parts)

    def _pivot(self, given: Any) -> PlannedPivot:
        if not isinstance(given, list) or len(given) != 4:
            self.refuse("a pivot is not [step, name, safety, ratio]")
        step, name, safety, ratio = given
        if not isinstance(name, str) or safety not in get_args(SafeBy):
            self.refuse(f"a pivot has the name {name!r} and the safety {safety!r}")
        if ratio is not None and not (
            type(ratio) in (int, float) and math.isfinite(ratio) and ratio >= 0
        ):
            self.refuse(f"the ratio of pivot {name!r} is {ratio!r}, not a number >= 0")
        step = self.whole(step, "the step of a pivot", _LARGEST_COUNT)
        return PlannedPivot(step, name, safety, None if ratio is None else float(ratio))

    def _step(self, given: Any) -> SymmetricStep:
        if not isinstance(given, list) or len(given) != 2 or given[0] not in _STEPS:
            self.refuse("a step is not [kind, body] of a known kind")
        return SymmetricStep(given[0], self.whole(given[1], "the body of a step", 2**31))

    def _options(self, content: dict[str, Any]) -> dict[str, bool | int | float | str]:
        given = self.get(content, "options", dict)
        for key, value in given.items():
            if type(value) not in (bool, int, float, str):
                self.refuse(f"option {key!r} is of type {type(value).__name__}")
            if isinstance(value, float) and not math.isfinite(value):
                self.refuse(f"option {key!r} is not finite")
        return given
