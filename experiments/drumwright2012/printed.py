"""[DRUM]'s algorithm 1 and what its tables 1 to 3 count, executed as printed, on any scalars.

Vectors are (angular, linear) and (moment, force), so that the spatial transpose is the plain
one. What the paper leaves open is read as follows, here and in every count:

- The pose (R, x) of a link's frame is given, and where its joint (u at p) and its mass (J about
  c) are in that frame. So axes and inertias each move a point, R p + x and R c + x, without
  which neither the 24n multiplications of the axes nor the 57n additions of the inertias come
  out.
- A sum of k products has k - 1 additions. What (2), (5) and (8) print as zero or as identity is
  skipped, all else is not; symmetry saves nothing.
- Quotients come before products: line 5 divides one number, eq. (7) the six of I^A s.
- I^A s and s^S I^A s are kept (section 5.2), and what reaches the base, link 0, is gathered
  there, by eq. (7) as by line 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from dynsys.loops.tree_state import TreeState
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, IntArray, ScalarArray
from experiments.counting import OperationCount, Tally

__all__ = [
    "COMPLETE",
    "FROM_ITS_JOINT",
    "Isolated",
    "Link",
    "algorithm_1",
    "articulate",
    "axis",
    "cholesky",
    "composite",
    "elements",
    "executed",
    "isolated",
    "links_of",
    "propagate",
    "update",
]

Scalars: TypeAlias = Callable[[Any], ScalarArray]
Vectors: TypeAlias = Sequence[ScalarArray]
Parents: TypeAlias = Sequence[int] | IntArray
T = TypeVar("T")
FROM_ITS_JOINT, COMPLETE = "from the column's own joint on", "with the term that it lacks"


class Link(NamedTuple):
    """Pose R (3, 3) and x (3,); in its frame: joint at p along u, mass m at c, J about it."""

    R: ScalarArray
    x: ScalarArray
    p: ScalarArray
    u: ScalarArray
    m: Any
    c: ScalarArray
    J: ScalarArray


class Isolated(NamedTuple):
    """A spatial inertia by its 13 numbers: mass m, first moment h (3,), J (3, 3), at origin."""

    m: Any
    h: ScalarArray
    J: ScalarArray

    def matrix(self, scalars: Scalars) -> ScalarArray:
        """All 36 elements [J, h~; -h~, m 1]; zeros are scalars like others."""
        out, (x, y, z) = scalars(np.zeros((6, 6))), self.h
        out[:3, :3] = self.J
        for r, c, value in ((1, 0, z), (0, 2, y), (2, 1, x)):
            out[r, c + 3] = out[c + 3, r] = value
            out[c, r + 3] = out[r + 3, c] = -value
        for k in (3, 4, 5):
            out[k, k] = self.m
        return out


def links_of(robot: KinematicTree, q: Array, scalars: Scalars = np.array) -> list[Link]:
    """Links of a robot of revolute joints at q, in the base's frame; joints at p = 0."""
    state = TreeState(robot, q)
    return [
        Link(
            R=scalars(pose.E.T),
            x=scalars(pose.r),
            p=scalars(np.zeros(3)),
            u=scalars(S[:3]),
            m=scalars([body.inertia.mass])[0],
            c=scalars(body.inertia.com),
            J=scalars(body.inertia.about_com),
        )
        for pose, S, body in zip(state.poses, state.tree.S, robot.bodies, strict=True)
    ]


def axis(link: Link) -> ScalarArray:
    """Spatial axis (6,) in the global frame: eq. (2), (3), (8)."""
    along = link.R @ link.u
    return np.concatenate([along, _cross(link.x + link.R @ link.p, along)])


def isolated(link: Link) -> Isolated:
    """Spatial inertia in the global frame: eq. (2), (4), (5), with E E^T = 1."""
    r = link.x + link.R @ link.c
    h = link.m * r
    return Isolated(link.m, h, link.R @ link.J @ link.R.T - _skews(h, r))


def _cross(a: ScalarArray, b: ScalarArray) -> ScalarArray:
    (x, y, z), (k, m, n) = a, b
    return np.array([y * n - z * m, z * k - x * n, x * m - y * k])


def _skews(a: ScalarArray, b: ScalarArray) -> ScalarArray:
    """a~ b~ (3, 3) without the zeros of either."""
    out = np.empty((3, 3), dtype=np.result_type(a, b))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i, i] = -(a[j] * b[j] + a[k] * b[k])
        out[i, j], out[i, k] = a[j] * b[i], a[k] * b[i]
    return out


# ---- Theta(n^2) inversion ------------------------------------------------------------------


def articulate(
    parent: Parents, s: Vectors, inertia: ScalarArray
) -> tuple[list[ScalarArray], list[Any]]:
    """I^A s (6,) and s^S I^A s of every link, by eq. (7).

    inertia (n + 1, 6, 6), the base's last, becomes I^A.
    """
    Is, sIs = list(s), list[Any](s)
    for i in reversed(range(len(s))):
        Is[i] = inertia[i] @ s[i]
        sIs[i] = s[i] @ Is[i]
        rest = inertia[i] - np.multiply.outer(Is[i], Is[i] / sIs[i])
        inertia[parent[i]] = inertia[parent[i]] + rest
    return Is, sIs


def propagate(
    parent: Parents,
    s: Vectors,
    Is: Vectors,
    sIs: Sequence[Any],
    R: ScalarArray,
    Y: ScalarArray,
    first: int | None = None,
    complete: bool = False,
) -> None:
    """Lines 4-5 for a column R (n,): impulses Y (n + 1, 6), zeros at first, the base's last.

    ``first`` : where the column is not zero, if only there, as section 5.2 says; else all i.
    ``complete`` : with the term Y_i that line 5 lacks.
    """
    for i in reversed(range(len(s) if first is None else first + 1)):
        through = Is[i] * ((R[i] - s[i] @ Y[i]) / sIs[i])
        Y[parent[i]] = Y[parent[i]] + (Y[i] + through if complete else through)


def update(
    parent: Parents,
    s: Vectors,
    Is: Vectors,
    sIs: Sequence[Any],
    R: ScalarArray,
    Y: ScalarArray,
    v: ScalarArray,
) -> list[Any]:
    """Lines 7-10: the column of M^-1 R; v (n + 1, 6), zeros at first, the base's last."""
    x = []
    for i in range(len(s)):
        x.append((R[i] - (Is[i] @ v[parent[i]] + s[i] @ Y[i])) / sIs[i])
        v[i] = v[parent[i]] + s[i] * x[i]
    return x


def algorithm_1(robot: KinematicTree, q: Array, complete: bool = False) -> Array:
    """What algorithm 1 gives for R = 1 (n, n), ``complete`` or to the letter."""
    links, n = links_of(robot, q), robot.nv
    inertia = np.zeros((n + 1, 6, 6))
    inertia[:n] = [isolated(link).matrix(np.array) for link in links]
    s = [axis(link) for link in links]
    Is, sIs = articulate(robot.parent, s, inertia)
    out = np.empty((n, n))
    for k, R in enumerate(np.eye(n)):
        Y, v = np.zeros((n + 1, 6)), np.zeros((n + 1, 6))
        propagate(robot.parent, s, Is, sIs, R, Y, complete=complete)
        out[:, k] = update(robot.parent, s, Is, sIs, R, Y, v)
    return out


# ---- composite-rigid-body algorithm --------------------------------------------------------


def composite(parent: Parents, inertia: list[Isolated]) -> None:
    """Composite inertias in the place of isolated ones: eq. (6), 13 sums per link but one."""
    for i in reversed(range(len(inertia))):
        if parent[i] >= 0:
            one, two = inertia[parent[i]], inertia[i]
            inertia[parent[i]] = Isolated(one.m + two.m, one.h + two.h, one.J + two.J)


def elements(parent: Parents, s: Vectors, Is: Vectors) -> ScalarArray:
    """M (n, n), its lower triangle: s_i^S I_j s_j for every j and all i that carry it."""
    M = np.zeros((len(s), len(s)), dtype=object)
    for j in range(len(s)):
        i = j
        while i >= 0:
            M[j, i] = s[i] @ Is[j]
            i = parent[i]
    return M


def cholesky(M: ScalarArray) -> None:
    """Lower factor in the place of M's lower triangle, an element after the other."""
    for i in range(len(M)):
        for j in range(i + 1):
            for k in range(j):
                M[i, j] = M[i, j] - M[i, k] * M[j, k]
            M[i, j] = M[i, j] / M[j, j] if j < i else np.sqrt(M[i, i])


# ---- counts --------------------------------------------------------------------------------


@cache
def executed(n: int) -> dict[str, dict[str, OperationCount]]:
    """Operations executed for a chain of n joints, by table and row of the paper.

    "line 5" has it as section 5.2 starts it, and as it is right.
    """
    robot, tally = synthetic.chain(n), Tally()
    parent = robot.parent
    links = links_of(robot, robot.random_configuration(0), tally.scalars)

    def counted(run: Callable[..., T], *inputs: Any) -> tuple[T, OperationCount]:
        before = tally.count
        return run(*inputs), tally.count - before

    def propagated(k: int, first: int | None = None, complete: bool = False) -> ScalarArray:
        Y = tally.scalars(np.zeros((n + 1, 6)))
        propagate(parent, s, Is, sIs, tally.scalars(np.eye(n)[k]), Y, first, complete)
        return Y

    def updated(k: int, Y: ScalarArray) -> list[Any]:
        v = tally.scalars(np.zeros((n + 1, 6)))
        return update(parent, s, Is, sIs, tally.scalars(np.eye(n)[k]), Y, v)

    one: dict[str, OperationCount] = {}
    s, one["spatial axes"] = counted(lambda: [axis(link) for link in links])
    inertias, one["isolated inertias"] = counted(lambda: [isolated(link) for link in links])
    two = dict(one)
    every = tally.scalars(np.zeros((n + 1, 6, 6)))
    every[:n] = [inertia.matrix(tally.scalars) for inertia in inertias]
    (Is, sIs), one["articulated inertias"] = counted(articulate, parent, s, every)
    Y, one["impulse propagation"] = counted(lambda: [propagated(k) for k in range(n)])
    _, one["velocity updates"] = counted(lambda: [updated(k, Y[k]) for k in range(n)])

    three = {
        "spatial axes": counted(axis, links[0])[1],
        "isolated inertias": counted(isolated, links[0])[1],
        "articulated inertias": one["articulated inertias"],
        "impulse propagation": counted(propagated, 0)[1],
        "velocity updates": counted(updated, 0, Y[0])[1],
    }
    line_5 = {
        FROM_ITS_JOINT: counted(lambda: [propagated(k, k) for k in range(n)])[1],
        COMPLETE: counted(lambda: [propagated(k, complete=True) for k in range(n)])[1],
    }

    _, two["composite inertias"] = counted(composite, parent, inertias)
    whole = [inertia.matrix(tally.scalars) for inertia in inertias]
    gained, two["I s vectors"] = counted(
        lambda: [inertia @ along for inertia, along in zip(whole, s, strict=True)]
    )
    M, two["elements of M"] = counted(elements, parent, s, gained)
    _, two["Cholesky (naive)"] = counted(cholesky, M)
    for table in (one, two, three):
        table["total"] = sum(table.values(), OperationCount())
    return {"table 1": one, "table 2": two, "table 3": three, "line 5": line_5}
