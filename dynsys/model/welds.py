"""Fixed joints that readers fold away, kept for whoever cuts the robot there.

A sensor in a fixed joint feels the links beyond it. Folding adds their inertia to the body that
carries them; a :class:`Weld` remembers the part beyond the joint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

from dynsys.model.spatial import Inertia, Transform

__all__ = ["Weld", "WeldRecorder"]


@final
@dataclass(frozen=True, eq=False)
class Weld:
    """A folded fixed joint within ``body`` (-1: the base), and all that hangs beyond it.

    Parameters
    ----------
    joint, link : names of the fixed joint and of the link it carries.
    body : number of the body both of its links are part of.
    transform : body -> frame of the carried link.
    parent_transform : body -> frame of the link that carries it.
    inertia : of the carried link and everything welded to it, in body coordinates.
    children : bodies whose joints hang on that part.
    """

    joint: str
    link: str
    body: int
    transform: Transform
    parent_transform: Transform
    inertia: Inertia
    children: tuple[int, ...]


@final
class WeldRecorder:
    """Collects folded links while a robot is assembled, parents before children."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._folded: dict[str, Weld] = {}
        self._hanging: dict[str, list[int]] = {}

    def fold(
        self,
        link: str,
        *,
        joint: str,
        parent: str,
        body: int,
        transform: Transform,
        parent_transform: Transform,
        inertia: Inertia,
    ) -> None:
        """Remember a link welded to ``parent``; ``inertia`` in its own coordinates."""
        self._parent[link] = parent
        seen = inertia.seen_from(transform)
        self._folded[link] = Weld(joint, link, body, transform, parent_transform, seen, ())

    def hang(self, body: int, link: str) -> None:
        """Remember that the joint of ``body`` sits on ``link``."""
        self._hanging.setdefault(link, []).append(body)

    def welds(self) -> dict[str, Weld]:
        """Welds by the name of their fixed joint and, where that is free, of their link."""
        inertia = {link: weld.inertia for link, weld in self._folded.items()}
        children = {link: list(self._hanging.get(link, ())) for link in self._folded}
        for link in reversed(self._folded):
            parent = self._parent[link]
            if parent in self._folded:
                inertia[parent] = inertia[parent].plus(inertia[link])
                children[parent].extend(children[link])
        found = {
            weld.joint: replace(
                weld, inertia=inertia[link], children=tuple(sorted(children[link]))
            )
            for link, weld in self._folded.items()
        }
        return found | _by_link(found)


def _by_link(found: Mapping[str, Weld]) -> dict[str, Weld]:
    return {weld.link: weld for weld in found.values() if weld.link not in found}
