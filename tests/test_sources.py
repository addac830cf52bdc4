"""What files say: a digest that words nobody reads do not change, and all else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynsys import sources
from dynsys.sources import meaning

BEFORE = '''"""Springs."""

STIFFNESS = 2.0
"""N/m."""


def force(x, scale=1.0):
    """Return the force."""
    if x > 0:
        return -STIFFNESS * x * scale
    try:
        return {"low": 0.0}["low"]
    except KeyError:
        "never"
        return None
'''


@pytest.fixture(params=["first", "kept", "off"])
def digest(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Digests are computed in an empty folder, or read from one that knows ``BEFORE``."""
    monkeypatch.setenv("DYNSYS_CACHE", "off" if request.param == "off" else str(tmp_path / "c"))
    if request.param == "kept":
        digest_of(tmp_path, BEFORE)
    return str(request.param)


def digest_of(folder: Path, text: str) -> str:
    path = folder / "springs.py"
    path.write_text(text)
    return meaning([path])[0]


@pytest.mark.parametrize(
    ("part", "now"),
    [
        ('"""Springs."""', '"""Springs, and what they weigh."""'),
        ('"""Springs."""\n', ""),
        ('"""N/m."""', '"""Newton per metre."""  # measured'),
        ("    if x > 0:", "\n\n    # beyond the stop\n    if (x > 0):"),
        ('"""Return the force."""', '"""It pulls."""'),
        ('"never"', '"ever"'),
    ],
)
def test_words_change_nothing(digest: str, tmp_path: Path, part: str, now: str) -> None:
    assert BEFORE.count(part) == 1
    same = digest_of(tmp_path, BEFORE) == digest_of(tmp_path, BEFORE.replace(part, now))
    assert same == (digest != "off")


@pytest.mark.parametrize(
    ("part", "now"),
    [
        ("2.0", "2.0000000000000004"),
        ("2.0", "2"),
        ("> 0", ">= 0"),
        ("* scale", "/ scale"),
        ("scale=1.0", "scale=-1.0"),
        ('["low"]', '["LOW"]'),
        ("return None", "return 0.0"),
        ("KeyError", "Exception"),
        ("STIFFNESS = ", "STIFFNESS: float = "),
        ("    if x > 0:\n        return", "    if x > 0: pass\n    return"),
    ],
)
@pytest.mark.usefixtures("digest")
def test_all_else_counts(tmp_path: Path, part: str, now: str) -> None:
    assert BEFORE.count(part) == 1
    assert digest_of(tmp_path, BEFORE) != digest_of(tmp_path, BEFORE.replace(part, now))


@pytest.mark.usefixtures("digest")
def test_what_is_no_python_is_told_apart(tmp_path: Path) -> None:
    texts = [BEFORE, "def", "def f(", "x = '\\ud800'", "x = '\\ud801'", "\0"]
    assert len({digest_of(tmp_path, text) for text in texts}) == len(texts)


def test_files_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    once = digest_of(tmp_path, BEFORE)
    monkeypatch.setattr(sources, "_said", lambda *_: "parsed again")
    assert digest_of(tmp_path, BEFORE) == once
    (kept,) = (tmp_path / "cache").iterdir()
    for damage in (kept.read_bytes()[:-9], b"\xff", b""):
        kept.write_bytes(damage)
        assert digest_of(tmp_path, BEFORE) == "parsed again"


def test_what_is_kept_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "MOST_KEPT", 3)
    for number in range(10):
        digest_of(tmp_path, f"x = {number}")
    (kept,) = (tmp_path / "cache").iterdir()
    assert 1 <= len(kept.read_text().splitlines()) <= 3


def test_a_folder_that_others_may_write_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    said = digest_of(tmp_path, BEFORE)
    (tmp_path / "cache").chmod(0o777)
    assert digest_of(tmp_path, BEFORE) != said
