"""Whether the values that rows quote stand on the lines of the papers' text that they name.

The text of the papers is not part of the project: a checkout may have it in ``../shared``. A
number of a row has to be among the numbers of its lines, a word among their words; numerals
written out ("twenty") count as numbers, lines of crosses (a printed pattern) as their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.papers.paper_rows import CITED, Row

__all__ = ["FOLDER", "text_of", "uncited"]

FOLDER = Path(__file__).parents[3] / "shared" / "papers"
CROSS = "\N{MULTIPLICATION SIGN}"
_NUMERALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen twenty"
).split()


def text_of(name: str) -> list[str] | None:
    """Lines of a paper's text by the name of its experiment; None where it is not there."""
    year = name[-4:]
    author = name[:-4].replace("_", "")
    for file in sorted(FOLDER.glob(f"*{year}*.txt")):
        if file.name.replace("_", "").startswith(author):
            return file.read_text(encoding="utf-8").splitlines()
    return None


def uncited(rows: Sequence[Row], text: Sequence[str]) -> Iterator[str]:
    """A sentence for each row whose value does not stand where it says, or says nowhere."""
    for one in rows:
        if one.paper is None or one.basis not in CITED:
            continue
        where = f"{one.table}, {one.row}, {one.quantity}"
        if not re.fullmatch(r"\d+(-\d+)?", one.lines):
            yield f"{where}: {one.paper!r} names no lines of the paper"
            continue
        first, _, last = one.lines.partition("-")
        cited = text[int(first) - 1 : int(last or first)]
        crosses = sum(line.count(CROSS) for line in cited if not line.strip(f"{CROSS} "))
        printed = _tokens(" ".join([*cited, str(crosses)]))
        wanted = _tokens(str(one.paper))
        missing = sorted(wanted - printed)
        if not wanted:
            yield f"{where}: nothing in {one.paper!r} can be looked for"
        elif missing:
            yield f"{where}: {', '.join(missing)} of {one.paper!r} not on line {one.lines}"


def _tokens(text: str) -> set[str]:
    """Numbers and words of a text, without what sets them in type."""
    plain = re.sub(r"\\(?:mathbf|mathrm|text|frac|left|right|times|cdot|[,;!])", " ", text)
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain)
    found = {f"{float(number):g}" for number in re.findall(r"\d+(?:\.\d+)?", plain)}
    words = {word.lower() for word in re.findall(r"[A-Za-z]{2,}", plain)}
    return found | {str(_NUMERALS.index(word)) if word in _NUMERALS else word for word in words}
