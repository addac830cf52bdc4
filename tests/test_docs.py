"""The site: its blocks run, its pages are whole, it builds without a warning or a network."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import dynsys
import problems
import sensors
from docs.build import _list_other_pages, build, pages
from docs.docstrings import markdown, read
from docs.notebook_pages import FOLDER, cells
from docs.plain_math import latex
from docs.sensor_pages import classes, example, humanoid
from experiments import gallery, performance_page
from experiments import performance_page as performance_results
from sensors import sensor_kinds
from tests.markdown_blocks import ROOT, blocks, run_page, run_page_apart, run_python

DOCS = ROOT / "docs"
WRITTEN = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
WITH_CODE = [path for path in WRITTEN if blocks((DOCS / path).read_text(encoding="utf-8"))]
HOW_TO = (
    "estimate",
    "constraints",
    "compare",
    "permutations",
    "realtime",
    "live",
    "view",
    "logs",
    "real_robots",
    "derivatives",
    "plugins",
    "simulate",
)
GENERATED = dict(pages())
has_sphinx = all(importlib.util.find_spec(name) for name in ("sphinx", "myst_parser", "furo"))


def test_the_pages_are_there() -> None:
    names = {str(path) for path in WRITTEN}
    expected = {"index.md", "tutorial.md", "theory.md", "performance.md", "gallery.md"}
    assert expected | {f"howto/{name}.md" for name in HOW_TO} <= names


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=str)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "contributing.md":
        run_page_apart(DOCS / page, tmp_path)
    else:
        run_page(DOCS / page, tmp_path, monkeypatch)


def links() -> Iterator[tuple[Path, str]]:
    for path in [ROOT / "README.md", *(DOCS / page for page in WRITTEN)]:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"\w+:|#", target):
                yield path, target.split("#")[0]


def test_links_lead_somewhere() -> None:
    made = {(DOCS / name).resolve() for name in GENERATED}
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path, target in links()
        if not (path.parent / target).exists() and (path.parent / target).resolve() not in made
    ]
    assert broken == []


def test_no_paths_of_one_machine() -> None:
    pattern = re.compile(r"/(home|root|work|Users)/|/tmp/")
    files = [p for p in DOCS.rglob("*") if p.suffix in (".md", ".py", ".json", ".css")]
    wrong = [p.name for p in files if pattern.search(p.read_text(encoding="utf-8"))]
    assert len(files) > 15
    assert wrong == []


# ---- notebooks ----------------------------------------------------------------------------

NOTEBOOKS = sorted(FOLDER.glob("*.py"))


def test_there_is_a_page_of_every_notebook() -> None:
    numbers = [path.stem.split("_")[0] for path in NOTEBOOKS]
    assert numbers == ["1", "2", "3", "4"]
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"]({path.stem}.md)" in index and f"]({path.name})" in index
        page = GENERATED[f"notebooks/{path.stem}.md"]
        assert page.startswith(f"# {path.stem[0]}. ")
        code = [body for kind, body in cells(path.read_text("utf-8")) if kind == "python"]
        assert [body for _, body in blocks(page)] == code


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_code_is_explained_and_ends_in_what_it_shows(path: Path) -> None:
    found = cells(path.read_text(encoding="utf-8"))
    kinds = [cell.kind for cell in found[1:]]
    assert kinds == ["markdown", "python"] * (len(kinds) // 2)
    for said, code in zip(found[1::2], found[2::2], strict=True):
        assert 1 <= len(re.findall(r"[.?](?=\s)", said.body)) <= 3, said.body
        assert isinstance(ast.parse(code.body).body[-1], ast.Assert | ast.Expr), code.body


def test_what_is_no_notebook_is_refused() -> None:
    with pytest.raises(ValueError, match="before the first cell: 'import numpy"):
        cells("import numpy\n\n# %%\n1\n")
    with pytest.raises(ValueError, match="'x = 1'"):
        cells("# %% [markdown]\n# Text.\nx = 1\n")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    pyplot.close("all")  # those of other tests
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "notebook"}
    for kind, body in cells(path.read_text(encoding="utf-8")):
        if kind == "python":
            shown = run_python(body, path.name, names)
            html = getattr(shown, "_repr_html_", lambda: "no table")()
            assert html and (shown is not None or "assert" in body.splitlines()[-1]), body
    drawn = [axes for n in pyplot.get_fignums() for axes in pyplot.figure(n).axes]
    pyplot.close("all")
    assert all(axes.lines and axes.get_ylabel() for axes in drawn)
    assert bool(drawn) == (path.stem[0] in "14")
    assert not list(tmp_path.iterdir())


# ---- pages made of the sources ------------------------------------------------------------


def test_every_sensor_has_a_page_with_its_equation() -> None:
    for kind, cls in classes().items():
        page = GENERATED[f"sensors/{kind}.md"]
        assert page.startswith(f"# {cls.__name__}\n")
        assert re.search(r"\$\$ (\\begin\{aligned\} & )?y = ", page)
        assert f"kind: {kind}" in page
    assert {cls.kind for cls in sensor_kinds().values()} == set(classes())


@pytest.mark.parametrize("kind", classes())
def test_equations_are_mathml(kind: str) -> None:
    if not has_sphinx:
        pytest.skip("Sphinx is not installed")
    from docutils.utils.math.latex2mathml import tex2mathml

    for equation in read(classes()[kind]).equations:
        root = ElementTree.fromstring(tex2mathml(latex(equation), as_block=True))
        assert "".join(root.itertext()).replace(" ", "").strip().startswith("y")


def test_every_sensor_has_an_example_on_the_humanoid() -> None:
    robot = humanoid()
    assert [kind for kind, cls in classes().items() if example(cls, robot) is None] == []


@pytest.mark.parametrize("package", [dynsys, sensors, problems], ids=lambda p: p.__name__)
def test_every_public_name_is_in_the_reference(package: object) -> None:
    name = package.__name__  # type: ignore[attr-defined]
    page = GENERATED[f"api/{name}.md"]
    missing = [n for n in package.__all__ if f"## {name}.{n}\n" not in page]  # type: ignore[attr-defined]
    assert missing == []


@pytest.mark.parametrize("package", [dynsys, sensors, problems], ids=lambda p: p.__name__)
def test_the_reference_has_every_parameter_with_its_meaning(package: Any) -> None:
    """Of functions and classes, and of the methods of these; what is written is not lost."""
    page = GENERATED[f"api/{package.__name__}.md"]
    parts = dict(
        re.findall(r"^#{2,4} (\S+)\n(.*?)(?=^#{2,4} |\Z)", page, re.DOTALL | re.MULTILINE)
    )
    checked = 0
    for name in package.__all__:
        thing = getattr(package, name)
        things = {f"{package.__name__}.{name}": thing}
        if inspect.isclass(thing):
            own = {k: v for k, v in vars(thing).items() if inspect.isfunction(v)}
            things |= {f"{name}.{k}": v for k, v in own.items() if not k.startswith("_")}
        for title, call in things.items():
            is_class = inspect.isclass(call) and not issubclass(call, BaseException)
            if not (is_class or inspect.isfunction(call)):  # errors, aliases of types
                continue
            for parameter in inspect.signature(call).parameters.values():
                if parameter.name != "self" and not parameter.name.startswith("_"):
                    assert re.search(
                        rf"^\| `\**{parameter.name}` \|", parts[title], re.MULTILINE
                    )
                    checked += 1
            for parameter, meaning in read(call).parameters.items():
                assert parameter.lstrip("*") in parts[title]
                assert markdown(" ".join(meaning.split()))[:60] in parts[title]
    assert checked > 100


# ---- pages made of results -----------------------------------------------------------------


def test_performance_page_and_readme_are_what_the_results_say() -> None:
    assert performance_page.main(["--check"]) == 0


def test_performance_page_names_machine_date_commit_and_where_it_is_slower() -> None:
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert re.search(r"\*Measured \d{4}-\d\d-\d\d .*commit.* on .*Python", text)
    assert "## Where it is slower" in text


def test_a_slower_result_is_told() -> None:
    slower: dict[str, list[str]] = {}
    cells = {"ours": {"ns": 200.0}, "CasADi C": {"ns": 100.0}, "Pinocchio C++": {"ns": 300.0}}
    performance_page._note_losses(slower, "ID of ur5", cells)
    assert slower == {"Ours, longer than CasADi C": ["ID of ur5 (2.00 times)"]}


TIMING = {"task": "ID", "mode": "one state", "error": 1e-16}
WRITTEN_BY_EXPERIMENTS: dict[str, Any] = {
    "peers": {
        "machine": {"processor": "abacus", "python": "3.11", "packages": {}, "compilers": []},
        "robots": {
            "ur5": {
                "nv": 6,
                "timings": [
                    {**TIMING, "who": "ours", "median_ns": 300.0},
                    {**TIMING, "who": "casadi c gcc", "median_ns": 200.0},
                    {**TIMING, "who": "casadi c clang-22", "median_ns": 100.0},
                ],
            }
        },
    },
    "operational": {
        "machine": {"processor": "abacus", "python": "3.11"},
        "comparisons": [
            {
                "robot": "icub",
                "nv": 38,
                "task": "Lambda^-1",
                "routes": [
                    {"who": "ours", "median_ns": 20.0, "error": 1e-15},
                    {"who": "aba", "median_ns": 10.0, "error": 2e-15},
                ],
            }
        ],
    },
    "long_log": {"samples": 10, "solved_per_second": 3.0, "same_bytes": True},
    "start_up": [{"robot": "arm", "problem": "ID", "first_s": 1.0, "again_s": 0.1}],
    "calls": {
        "verbs": [
            {"robot": "arm", "verb": "rnea", "ours_us": 3.0, "pinocchio_us": 2.0, "times": 1.5}
            | {"first_ms": 1.0, "second_ms": 100.0}
        ],
        "batches": [{"robot": "arm", "problem": "ID", "states": 64, "times": 1.2}],
        "first": {"bodies": 300, "first_s": 10.0, "again_s": 0.5},
    },
}


def test_results_are_taken_and_losses_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performance_results, "RESULTS", tmp_path / "results")
    for name, content in WRITTEN_BY_EXPERIMENTS.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(content))
        performance_results.take(name, file)
    text = performance_page.page()
    assert "| ur5 (6) | 300 | - | - | - | 100 | - | 0.3 | - |" in text
    assert "Ours, longer than CasADi C: ID of ur5 (3.00 times)." in text
    assert "longer than Pinocchio: Lambda^-1 of icub (2.00 times)." in text
    assert "longer than Pinocchio Python: rnea of arm (1.50 times)." in text
    assert "| ID, arm | 1.20 |" in text
    assert "on abacus, Python 3.11" in text
    assert "In no comparison" not in text


def test_gallery_is_what_its_script_writes() -> None:
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.page()
    sizes = {path.stem: path.stat().st_size for path in (DOCS / "pictures").glob("*.png")}
    assert set(gallery.PICTURES) <= set(sizes)
    assert max(sizes.values()) < 300_000


# ---- the site -----------------------------------------------------------------------------


def test_pages_that_nobody_listed_end_the_contents(tmp_path: Path) -> None:
    index = tmp_path / "index.md"
    index.write_text((DOCS / "index.md").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("theory", "trust"):
        (tmp_path / f"{name}.md").touch()
    _list_other_pages(index)
    assert "\ngallery\ntrust\n```" in index.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not has_sphinx, reason="needs the extra 'docs'")
@pytest.mark.filterwarnings("ignore:.*MystReferenceResolver")
def test_site_builds_without_warnings_and_asks_no_network(tmp_path: Path) -> None:
    assert build(tmp_path) == 0
    html = tmp_path / "html"
    assert (html / "index.html").is_file()
    loads = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(?:https?:)?//', re.I)
    asking = [
        path.name
        for path in html.rglob("*.html")
        if loads.search(path.read_text(encoding="utf-8"))
    ]
    assert asking == []
    assert "<math" in (html / "theory.html").read_text(encoding="utf-8")
