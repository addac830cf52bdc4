"""The benchmark of the search, in small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import search_benchmark
from experiments.nori2017.counts import chain, load_cell_system


@pytest.mark.slow
def test_square_systems_are_compared() -> None:
    system = load_cell_system(chain(4, taper=1.0), net_wrench=False)
    row = search_benchmark.square("cells", system, 120, 60.0, 30)
    assert row.spearman >= 0.9 and row.ranked >= 20 and row.restarts == 120
    safe = {m: x for m, x in row.operations.items() if x and m not in row.unsafe}
    assert row.best == min(safe.values()) and {"120 restarts", "ours"} <= set(safe)
    libraries = [x for m, x in safe.items() if m not in ("120 restarts", "ours")]
    assert safe["120 restarts"] < min(libraries) and safe["ours"] <= min(libraries)
    told = "\n".join(search_benchmark.table([row], []))
    assert "ours" in told and f"Spearman {row.spearman:.3f}" in told


@pytest.mark.slow
def test_rows_of_earlier_runs_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = tmp_path / "search.json", tmp_path / "search.txt"
    words = ["--json", str(file), "--text", str(text), "--restarts", "40", "--ranked", "5"]
    search_benchmark.main(["--quick", *words])
    capsys.readouterr()
    search_benchmark.main(["--only", "nothing at all", *words])
    kept = json.loads(file.read_text())["square"]
    assert [row["name"] for row in kept] == ["load cells 4"]
    assert "load cells 4" in capsys.readouterr().out


def test_published_text_is_what_the_results_say() -> None:
    folder = search_benchmark.RESULTS
    squares, redundants = search_benchmark.kept(folder / "search.json")
    assert squares and redundants
    text = "\n".join(search_benchmark.table([*squares.values()], [*redundants.values()]))
    assert (folder / "search.txt").read_text(encoding="utf-8") == text + "\n"
