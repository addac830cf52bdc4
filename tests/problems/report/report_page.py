"""The page of a report as a reader of HTML finds it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "link", "br", "path", "rect", "circle", "input", "hr"}


class Page(HTMLParser):
    """Checks that elements nest; collects texts, attributes and scripts of JSON."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data: list[Any] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID or (tag in ("path", "rect", "circle") and self._titled()):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if data.lstrip().startswith("{"):
                self.data.append(json.loads(data))
        else:
            self.text += data

    def _titled(self) -> bool:
        """True for a shape that holds its title: it has an end tag of its own."""
        return not (self.get_starttag_text() or "").endswith("/>")
