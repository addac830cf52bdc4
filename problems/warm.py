"""Arrays in memory that is used again: entering fresh pages costs more than filling them.

Memory above some hundred kilobytes comes from the system page by page, each cleared when it is
first written; that takes as long as a kernel does for the states that fill it. A problem that
is asked for batches again and again writes to the pages of answers that nobody has any more.

An array made here is a view of such memory and holds a reference to it, as do views of the
array. Memory that only its owner refers to cannot be read by anyone: it is free.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import final

import numpy as np

from dynsys.kernel.stream import LINE, copy, stream
from dynsys.types import Array

__all__ = ["WarmMemory"]

FEWEST = 2**17
"""Numbers (1 MiB) below which the system's own memory is as good."""
STREAMED = 2**21
"""Numbers (16 MiB) from which copies go past the caches: nobody reads them soon."""
MOST, PIECES = 2**25, 8
"""Numbers (256 MiB) and pieces of memory that are remembered; the oldest are forgotten."""


@final
class WarmMemory:
    """Memory of one problem; any thread may ask for arrays.

    Examples
    --------
    >>> memory = WarmMemory()
    >>> x = memory.empty((700, 200))
    >>> address, part = x.ctypes.data, x[5:9, 1]
    >>> del x
    >>> y = memory.empty((700, 200))
    >>> y.ctypes.data == address  # ``part`` still looks at the other
    False
    >>> del part
    >>> memory.empty((660, 200)).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._pieces: list[Array] = [np.empty(0)]
        _, self._alone = self._pop()  # what is counted where nobody else refers to a piece

    def empty(self, shape: tuple[int, int]) -> Array:
        """Array of undefined numbers."""
        size = shape[0] * shape[1]
        return np.empty(shape) if size < FEWEST else self._piece(size)[:size].reshape(shape)

    def copies(self, arrays: tuple[Array, ...]) -> list[Array | bytes]:
        """Copies of arrays in one piece of memory: what looks at one keeps all.

        Of small ones their bytes, the cheapest copy there is.
        """
        size = sum([x.size for x in arrays])
        if size < FEWEST:
            return [x.tobytes() for x in arrays]
        return self._written(arrays, size, stream if size >= STREAMED else np.copyto)[0]

    def finite_copies(self, arrays: tuple[Array, ...]) -> list[Array | bytes] | None:
        """The same, None if some number is not finite."""
        size = sum([x.size for x in arrays])
        if size >= FEWEST:
            write = stream if size >= STREAMED else copy
            found, finite = self._written(arrays, size, write)
            return found if finite else None
        for x in arrays:
            if not np.isfinite(x).all():
                return None
        return [x.tobytes() for x in arrays]

    def _written(
        self, arrays: tuple[Array, ...], size: int, write: Callable[[Array, Array], bool | None]
    ) -> tuple[list[Array | bytes], bool]:
        """Copies in one piece, each from the beginning of a line; what ``write`` says."""
        piece = self._piece(size + LINE * (len(arrays) + 1))
        start = -(piece.__array_interface__["data"][0] // 8) % LINE
        found: list[Array | bytes] = []
        fine = True
        for x in arrays:
            there = piece[start : start + x.size].reshape(x.shape)
            fine &= bool(write(there, x))
            found.append(there)
            start += -(-x.size // LINE) * LINE
        return found, fine

    def _piece(self, size: int) -> Array:
        """Memory that nobody refers to, the last used first, or new one."""
        pieces, busy, found = self._pieces, [], None
        while found is None and pieces:
            try:
                piece, references = self._pop()
            except IndexError:  # another thread was faster
                break
            if references == self._alone and len(piece) >= size:
                found = piece
            else:
                busy.append(piece)
        if found is None:
            found = np.empty(size)
            while busy and (len(busy) >= PIECES or sum(map(len, busy)) > MOST - size):
                busy.pop()
        pieces.extend(reversed(busy))
        if len(found) <= MOST:
            pieces.append(found)
        return found

    def _pop(self) -> tuple[Array, int]:
        """A piece that no other thread sees while it is looked at, and references to it."""
        piece = self._pieces.pop()
        return piece, _references(piece)


_references = getattr(sys, "getrefcount", id)  # without counts no piece is ever free
