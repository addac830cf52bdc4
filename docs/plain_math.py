r"""Equations as docstrings write them, in the letters of the screen, turned into LaTeX.

>>> latex("y = [0 1] X a_body + omega x v")
'y = [0 \\;\\; 1] \\, X \\, a_{\\text{body}} + \\omega \\times v'
>>> latex("y = X^-T f_joint")
'y = X^{-T} \\, f_{\\text{joint}}'
"""

from __future__ import annotations

import re

__all__ = ["latex"]

SYMBOLS = {
    "tau": r"\tau",
    "omega": r"\omega",
    "qdd": r"{\ddot q}",
    "qd": r"{\dot q}",
    "wd": r"{\dot w}",
    "dp": r"\mathrm{d}p",
    "dt": r"\mathrm{d}t",
    "sum": r"\sum",
    "=": "=",
}
SUM = re.compile(r"sum over ((?:\w+ of \w)|\w+)")
COMMENT = re.compile(r"\s{3,}(?=(?:at|for|in)\b)")
WORDS = re.compile(r"\\text\{([^}_]+)\} \\, \\text\{([^}_]+)\}")
TOKEN = re.compile(
    r"(?P<name>[A-Za-z]+)(?P<scripts>(?:[_^](?:-?[A-Za-z0-9]+|\*))*)"
    r"|(?P<number>\d+(?:\^\d+)?)|(?P<space>\s+)|(?P<other>.)"
)


def latex(equation: str) -> str:
    """Return one equation as LaTeX; a comment behind three blanks stays text."""
    lines = [_line(line) for line in equation.splitlines()]
    if len(lines) == 1:
        return lines[0]
    return r"\begin{aligned} & " + r" \\ & \qquad ".join(lines) + r" \end{aligned}"


def _line(equation: str) -> str:
    formula, *comment = COMMENT.split(equation.strip(), maxsplit=1)
    formula = formula.replace(" x* ", " \\timesstar ").replace(" x ", " \\times ")
    formula = SUM.sub(lambda m: f"\\sumover{{{m[1]}}}", formula)
    parts = re.split(r"(\\timesstar|\\times|\\sumover\{[^}]*\})", formula)
    text = "".join(_part(part) for part in parts)
    text = re.sub(r"\s+", " ", text).strip()
    while (merged := WORDS.sub(r"\\text{\1 \2}", text)) != text:
        text = merged
    text = re.sub(r", (?=\(\\omega|w =)", r", \\quad ", text)
    return text + (f" \\qquad \\text{{{comment[0].strip()}}}" if comment else "")


def _part(part: str) -> str:
    if part == "\\timesstar":
        return r" \times^{*} "
    if part == "\\times":
        return r" \times "
    if part.startswith("\\sumover"):
        return rf" \sum_{{\text{{{part[9:-1]}}}}} "
    found = [(m.lastgroup or "", m) for m in TOKEN.finditer(part)]
    kinds = ["name" if m["name"] else kind for kind, m in found]
    out = []
    for k, (_, m) in enumerate(found):
        before = kinds[k - 1] if k else "other"
        after = kinds[k + 1] if k + 1 < len(kinds) else "other"
        if m["name"]:
            out.append(_symbol(m["name"], m["scripts"]))
        elif kinds[k] == "space":
            pair = (before, after) == ("number", "number")
            left = before in ("name", "number") or found[k - 1][1][0] in ")]"
            right = after in ("name", "number") or (
                k + 1 < len(found) and found[k + 1][1][0] in "(["
            )
            out.append(r" \;\; " if pair else r" \, " if left and right else " ")
        else:
            out.append("" if m[0] == "@" else m[0])
    return "".join(out)


def _symbol(name: str, scripts: str) -> str:
    if name not in SYMBOLS and len(name) > 1:
        return rf"\text{{{name}{scripts or ''}}}"
    base = SYMBOLS.get(name, name)
    if base.startswith("{"):
        base += "{}"  # an index beside the accented letter, not below it
    for mark, script in re.findall(r"([_^])(-?[A-Za-z0-9]+|\*)", scripts or ""):
        word = rf"\text{{{script}}}" if len(script.lstrip("-")) > 2 else script
        base += f"{mark}{{{word}}}"
    return base
