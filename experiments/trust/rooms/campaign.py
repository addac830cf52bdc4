"""Hostile arguments to every call that takes arrays: refused in words, or the same numbers.

    python -m experiments.trust.rooms [--only WORD ...] [--json FILE]

Each call of :data:`experiments.trust.rooms.calls.CALLS` is made with good arguments, then with
one of them changed, three times each: by what answers first and by machine code later.

    same      other ways to write the same numbers (lists, float32, big-endian, strided, masked
              nowhere): the answers of the good ones to rounding
    refused   NaN, infinity, a masked entry, complex numbers, text, None, other shapes: an error
              of dynsys
    huge      1e200 in one entry: an error of dynsys, or no answer that is not finite

Anything else is a failure: another exception, a number where there can be none. Exit status 1
if there is one.
"""

from __future__ import annotations

import argparse
import json
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.types import Array

__all__ = ["CHANGES", "Call", "Outcome", "judged", "main", "outcomes"]

NAN, INF = float("nan"), float("inf")
SIZES = ("one too many", "one too few", "a row too few", "nothing")
SHAPES = ("a number", "an axis more", *SIZES)


@final
@dataclass(frozen=True, eq=False)
class Call:
    """A call and good arguments for it, those that are arrays.

    ``run(**arguments)`` gives numbers of any structure. ``missing`` names arguments where NaN
    says that there is no number, ``optional`` those that may be None, ``any_size`` those that
    may be longer or shorter, ``any_shape`` those that may also have other axes, ``any_number``
    those that are handed on as they are.
    """

    run: Callable[..., Any]
    arguments: Mapping[str, Array]
    missing: Sequence[str] = ()
    optional: Sequence[str] = ()
    any_size: Sequence[str] = ()
    any_shape: Sequence[str] = ()
    any_number: Sequence[str] = ()


@final
@dataclass(frozen=True)
class Outcome:
    """What became of one change of one argument."""

    call: str
    argument: str
    change: str
    told: str
    failure: str = ""


# ---- changes of an argument ------------------------------------------------------------------


def _with(x: Array, value: Any) -> Any:
    other = np.array(x, dtype=np.result_type(x, type(value)))
    other.ravel()[-1:] = value
    return other


def _masked(x: Array) -> Any:
    mask = np.zeros(x.shape, dtype=bool)
    mask.ravel()[-1:] = True
    return np.ma.masked_array(x, mask)


def _strided(x: Array) -> Array:
    if not x.ndim:
        return x
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), NAN)
    wide[..., ::2] = x
    return wide[..., ::2]


def _read_only(x: Array) -> Array:
    other = x.copy()
    other.setflags(write=False)
    return other


CHANGES: Mapping[str, tuple[str, Callable[[Array], Any]]] = {
    "list": ("same", lambda x: x.tolist()),
    "float32": ("same", lambda x: x.astype(np.float32)),
    "big-endian": ("same", lambda x: x.astype(">f8")),
    "long double": ("same", lambda x: x.astype(np.longdouble)),
    "objects": ("same", lambda x: x.astype(object)),
    "strided": ("same", _strided),
    "columns first": ("same", lambda x: x.copy(order="F")),
    "read-only": ("same", _read_only),
    "masked nowhere": ("same", lambda x: np.ma.masked_array(x, np.zeros(x.shape, dtype=bool))),
    "NaN": ("refused", lambda x: _with(x, NAN)),
    "infinite": ("refused", lambda x: _with(x, -INF)),
    "masked": ("refused", _masked),
    "complex": ("refused", lambda x: _with(x, 1.0 + 2.0j)),
    "complex list": ("refused", lambda x: _with(x, 1.0 + 2.0j).tolist()),
    "text": ("refused", lambda x: "abc"),
    "texts": ("refused", lambda x: np.full(x.shape, "x")),
    "times": ("refused", lambda x: np.zeros(x.shape, dtype="M8[s]")),
    "None": ("refused", lambda x: None),
    "a number": ("refused", lambda x: 1.0),
    "one too many": ("refused", lambda x: np.concatenate([x, x[..., :1]], axis=-1)),
    "one too few": ("refused", lambda x: x[..., :-1]),
    "a row too few": ("refused", lambda x: x[:-1]),
    "nothing": ("refused", lambda x: x[..., :0]),
    "an axis more": ("refused", lambda x: x[None, None]),
    "ragged": ("refused", lambda x: [[1.0], [1.0, 2.0]]),
    "a mapping": ("refused", lambda x: {"nobody": 1.0}),
    "huge": ("huge", lambda x: _with(x, 1e200)),
    "tiny": ("huge", lambda x: _with(x, 5e-324)),
}
"""What is expected, and how an argument is changed. Arguments are exact in float32."""


# ---- answers ---------------------------------------------------------------------------------


def _numbers(answer: Any) -> Iterator[Array]:
    """All numbers of an answer."""
    if isinstance(answer, Mapping):
        for part in answer.values():
            yield from _numbers(part)
    elif isinstance(answer, (list, tuple)):
        for part in answer:
            yield from _numbers(part)
    elif answer is not None:
        yield np.asarray(answer, dtype=np.float64)


def judged(name: str, call: Call, argument: str, change: str, repeat: int = 3) -> Outcome:
    """Make the call with one argument changed, some times."""
    expected, changed = CHANGES[change]
    if change in ("NaN", "masked") and argument in call.missing:
        expected = "missing"
    if change == "None" and argument in call.optional:
        expected = "huge"
    good = {key: x.copy() for key, x in call.arguments.items()}
    told, failure = "", ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if expected == "missing":  # masked or NaN, the same is missing
            good[argument] = _with(call.arguments[argument], NAN)
        truth = list(_numbers(call.run(**good)))
        for again in range(repeat):
            try:
                given = good | {argument: changed(call.arguments[argument].copy())}
                found = list(_numbers(call.run(**given)))
            except DynsysError as error:
                told = f"{type(error).__name__}: {str(error)[:100]}"
                if expected == "same":
                    failure = f"refused: {told}"
            except Exception as error:  # what is looked for
                where = traceback.extract_tb(error.__traceback__)[-1]
                failure = f"{type(error).__name__}: {str(error)[:100]} ({where.name})"
            else:
                told = "answered"
                failure = _wrong(expected, truth, found)
            if failure:
                failure += f" at call {again}" if again else ""
                break
    return Outcome(name, argument, change, told, failure)


def _wrong(expected: str, truth: Sequence[Array], found: Sequence[Array]) -> str:
    """What is wrong with an answer that was given."""
    if expected == "refused":
        some = [x for x in found if x.size]
        return "answered" if all(np.isfinite(x).all() for x in some) else "not finite, no error"
    if expected == "huge":
        sound = all(np.isfinite(x).all() for x in truth)
        good = all(np.isfinite(x).all() for x in found)
        return "not finite, no error" if sound and not good else ""
    if expected in ("same", "missing"):
        for one, other in zip(truth, found, strict=True):
            if not np.allclose(one, other, rtol=1e-12, atol=1e-12, equal_nan=True):
                return f"other numbers, off by {np.abs(one - other).max():.2g}"
    return ""


def outcomes(calls: Mapping[str, Callable[[], Call]], repeat: int = 3) -> Iterator[Outcome]:
    """Every change of every argument of every call."""
    for name, make in calls.items():
        call = make()
        for argument in call.arguments:
            for change in CHANGES:
                array = call.arguments[argument]
                if change in SIZES and (array.ndim == 0 or argument in call.any_size):
                    continue
                if change in SHAPES and argument in call.any_shape:
                    continue
                if change in ("infinite", "huge", "None") and argument in call.any_number:
                    continue
                if change == "a row too few" and (array.ndim < 2 or len(call.arguments) < 2):
                    continue
                yield judged(name, call, argument, change, repeat)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign."""
    from experiments.trust.rooms.calls import CALLS

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="calls whose name has this word")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    some = {
        name: make
        for name, make in CALLS.items()
        if not options.only or any(word in name for word in options.only)
    }
    rows: list[dict[str, Any]] = []
    for name, make in some.items():
        found = list(outcomes({name: make}))
        failures = [one for one in found if one.failure]
        for one in failures:
            print(f"{one.call:34} {one.argument:12} {one.change:14} {one.failure}", flush=True)
        refused = sum(one.told != "answered" for one in found)
        row = {"call": name, "changes": len(found), "refused": refused}
        rows.append(row | {"failures": [asdict(one) for one in failures]})
        if options.json:
            text = "".join(json.dumps(row) + "\n" for row in rows)
            options.json.write_text(text, encoding="utf-8")
    bad = sum(len(row["failures"]) for row in rows)
    print(f"{sum(row['changes'] for row in rows)} changes of {len(rows)} calls, {bad} failures")
    return int(bad > 0)
