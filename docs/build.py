"""Build the site: pages of this folder, pages made of the sources, one folder of HTML.

    python -m docs.build [--output build/docs]

Needs the extra ``docs`` (Sphinx, MyST, furo) and no network. Warnings are errors: status 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.api_pages import api_pages
from docs.command_pages import command_pages
from docs.notebook_pages import notebook_pages
from docs.sensor_pages import sensor_pages

__all__ = ["build", "main", "pages"]

SOURCE = Path(__file__).parent
OTHERS = "OTHER PAGES"
"""Line of the contents that stands for all pages not listed before it."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of every page that is made of the sources."""
    yield from sensor_pages()
    yield from api_pages()
    yield from command_pages()
    yield from notebook_pages()


def _list_other_pages(index: Path) -> None:
    """Put the pages of the top folder that nobody listed at the end of the contents."""
    text = index.read_text(encoding="utf-8")
    names = sorted(path.stem for path in index.parent.glob("*.md") if path != index)
    others = [name for name in names if f"\n{name}\n" not in text]
    index.write_text(text.replace(f"{OTHERS}\n", "".join(f"{n}\n" for n in others)), "utf-8")


def build(output: Path) -> int:
    """Write the site into ``output/html``; returns Sphinx's status, 0 without any warning."""
    from sphinx.cmd.build import build_main

    source = output / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    _list_other_pages(source / "index.md")
    for name, text in pages():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if (output / "html" / ".buildinfo").is_file():  # written by an earlier run: no stale pages
        shutil.rmtree(output / "html")
    arguments = ["-q", "-W", "--keep-going", "-E", "-b", "html", "-d", str(output / "doctrees")]
    return build_main([*arguments, str(source), str(output / "html")])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m docs.build")
    parser.add_argument("--output", type=Path, default=SOURCE.parent / "build" / "docs")
    options = parser.parse_args(arguments)
    try:
        status = build(options.output)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"the module {error.name!r} is missing; run: pip install '.[docs]'\n")
        return 2
    if status == 0:
        sys.stdout.write(f"wrote {options.output / 'html' / 'index.html'}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
