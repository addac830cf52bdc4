"""Layouts that were and will be again: undo and redo."""

from __future__ import annotations

from typing import final

from problems.studio.folder import RefusedError
from sensors.layout import Layout

__all__ = ["History"]

MOST_UNDONE = 100


@final
class History:
    """Layouts before and after the one that is shown."""

    def __init__(self) -> None:
        self._before: list[Layout] = []
        self._after: list[Layout] = []

    @property
    def can_undo(self) -> bool:
        """True if there is a layout to go back to."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """True if something has been undone."""
        return bool(self._after)

    def leave(self, layout: Layout) -> None:
        """Remember a layout that another one replaces."""
        self._before = [*self._before, layout][-MOST_UNDONE:]
        self._after = []

    def undo(self, layout: Layout) -> Layout:
        """Return the layout before the shown one."""
        if not self._before:
            raise RefusedError("there is nothing to undo")
        self._after.append(layout)
        return self._before.pop()

    def redo(self, layout: Layout) -> Layout:
        """Return the layout that the shown one was undone from."""
        if not self._after:
            raise RefusedError("there is nothing to do again")
        self._before.append(layout)
        return self._after.pop()
