"""The gallery of the documentation: pictures and the page that shows them.

    python -m experiments.gallery [NAME ...]

Draws the named pictures (default: all) into ``docs/pictures`` and writes ``docs/gallery.md``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from dynsys.errors import ModelWarning
from experiments.gallery_pictures import PICTURES
from experiments.performance_results import ROOT

__all__ = ["main", "page"]

DOCS = ROOT / "docs"
INTRODUCTION = """\
# Gallery

Every picture is drawn by code: `python -m experiments.gallery NAME`.
"""


def page() -> str:
    """Return the Markdown of the page."""
    parts = [str(INTRODUCTION)]
    for name, (_, title, caption) in PICTURES.items():
        parts.append(f"## {title}\n\n![{title}](pictures/{name}.png)\n\n{caption} (`{name}`)\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw and write; see the module."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gallery")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PICTURES)
    if unknown:
        parser.error(f"no picture {', '.join(sorted(unknown))}; there is {', '.join(PICTURES)}")
    warnings.simplefilter("ignore", ModelWarning)
    folder = DOCS / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        path = folder / f"{name}.png"
        PICTURES[name][0](path)
        print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size // 1000} kB)")
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
