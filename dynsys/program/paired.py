"""Derivatives of inverse dynamics, freedoms side by side: a head, lanes, then pairs.

The recursion of :mod:`dynsys.recursive.derivatives` does the same for every freedom but for two
sweeps. So a program is recorded of the first sweep alone, what moves how, and two more of a
single freedom, its *lane*, which SIMD code runs for several freedoms at a time:

    head     pose, motion and axis of every freedom        root to leaf, straight-line code
    loads    what the body behind a freedom adds           lane by lane
    sums     what a freedom carries                        leaf to root
    pairing  what a freedom brings to its pairs            lane by lane
    pairs    entries (i, j) of d torque by q, qd and qdd   :mod:`dynsys.kernel.llvm.pair_tail`

A joint of several freedoms has its body behind the last one; the others carry it too. The head
is one array (quantities, nv) after the other, :data:`HEAD`, then slopes of friction (nv,).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np

from dynsys.model.spatial import MassMoments, Transform
from dynsys.program.frames import Reframed
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.recursive.derivatives import Carried, load_of, move_bodies, moving_axis, paired
from dynsys.types import Array, ScalarArray

__all__ = [
    "HEAD",
    "LOAD",
    "MOMENTS",
    "PAIRED",
    "PAIRING",
    "Lane",
    "lane_moments",
    "loads_lane",
    "paired_results",
    "paired_size",
    "pairing_lane",
]

PAIRED = "paired_derivatives"
"""Name of the head as an output."""

Sizes = dict[str, int]
"""Quantities of a lane by name, with how many numbers each has."""
HEAD: Sizes = {"S": 6, "v": 6, "a": 6, "v_after": 6, "a_after": 6, "E": 9, "r": 3, "wrench": 6}
"""Of the module: a freedom's axis, motion before and after its joint; pose of its body, wrench
on it in the common frame (only where external wrenches are an input)."""
MOMENTS: Sizes = {"mass": 1, "first": 3, "second": 6}
LOAD: Sizes = {"h": 3, "P": 6, "K2": 9, "p2": 3, "f": 6}
PAIRING: Sizes = {
    "P": 3, "Q": 6, "R": 6, "row": 6, "row_B": 3, "own_q": 6, "by_q": 6, "by_qd": 6
}  # fmt: skip
"""P is its angular part, the one that pairs need."""
UPPER = np.triu_indices(3)


@final
@dataclass(frozen=True, eq=False)
class Lane:
    """A program of one freedom: its inputs and outputs by name, in order."""

    program: Program
    inputs: Sizes
    outputs: Sizes


def paired_size(nv: int, wrenches: bool) -> int:
    """Numbers of the head."""
    return (sum(HEAD.values()) - (0 if wrenches else HEAD["wrench"]) + 1) * nv


def paired_results(
    mechanism: Reframed,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    f_ext: ScalarArray | None,
    slopes: ScalarArray,
) -> ScalarArray:
    """The head (:func:`paired_size`,) on the graph of the inputs."""
    moved, _ = move_bodies(mechanism, q, qd, qdd)
    lanes = {
        name: np.zeros((size, len(qd)), dtype=object)
        for name, size in HEAD.items()
        if f_ext is not None or name != "wrench"
    }
    for i, body in enumerate(moved):
        for k, S in body.axes:
            found = {"S": S, "v": body.v, "a": body.a, "v_after": body.v_after}
            if k == body.axes[-1][0]:
                found |= {"a_after": body.a_after, "E": np.ravel(body.pose.E), "r": body.pose.r}
                if f_ext is not None:
                    found["wrench"] = body.pose.force_back(f_ext[i])
            for name, values in found.items():
                lanes[name][:, k] = values
    return np.concatenate([*(np.ravel(x) for x in lanes.values()), slopes])


def lane_moments(mechanism: Reframed) -> Array | None:
    """Mass moments (10, nv) of the body behind every freedom, :data:`MOMENTS`.

    None where a body that has some is behind no freedom of its own, but moves.
    """
    found, moves = np.zeros((10, mechanism.nv)), [False] * mechanism.n_bodies
    for i, (moments, where) in enumerate(
        zip(mechanism.moments, mechanism.v_slices(), strict=True)
    ):
        numbers = [moments.mass, *moments.first, *moments.second[UPPER]]
        parent = mechanism.parent[i]
        moves[i] = where.start < where.stop or (parent >= 0 and moves[parent])
        if where.start < where.stop:
            found[:, where.stop - 1] = numbers
        elif moves[i] and np.any(numbers):
            return None
    return found


@cache
def loads_lane(wrenches: bool) -> Lane:
    """What the body behind a freedom adds to what is carried."""
    names = ("E", "r", "v_after", "a_after", *(["wrench"] if wrenches else []))
    sizes = MOMENTS | {name: HEAD[name] for name in names}
    graph, given = _inputs(sizes)
    moments = MassMoments(given["mass"][0], given["first"], _symmetric(given["second"]))
    seen = moments.seen_from(Transform(given["E"].reshape(3, 3), given["r"]))
    load = load_of(seen, given["v_after"], given["a_after"], given.get("wrench"))
    parts = [load.h, load.P[UPPER], load.K2.ravel(), load.p2, load.f]
    return Lane(graph.program(list(np.concatenate(parts))), sizes, LOAD)


@cache
def pairing_lane() -> Lane:
    """What a freedom brings to its pairs, from its motion and from what it carries."""
    sizes = {"mass": 1} | LOAD | {name: HEAD[name] for name in ("S", "v", "a", "v_after")}
    graph, given = _inputs(sizes)
    load = Carried()
    load.mass, load.h, load.P = given["mass"][0], given["h"], _symmetric(given["P"])
    load.K2, load.p2, load.f = given["K2"].reshape(3, 3), given["p2"], given["f"]
    x = moving_axis(0, given["S"], given["v"], given["a"], given["v_after"])
    of = paired(x, load)
    parts = [x.P[:3], x.Q, x.R, of.row, of.row_B, of.own_q, of.by_q, of.by_qd]
    return Lane(graph.program(list(np.concatenate(parts))), sizes, PAIRING)


def _inputs(sizes: Sizes) -> tuple[Graph, dict[str, ScalarArray]]:
    graph = Graph()
    return graph, {name: graph.inputs(size) for name, size in sizes.items()}


def _symmetric(upper: ScalarArray) -> ScalarArray:
    """(3, 3) from the six numbers of its upper triangle."""
    out = np.zeros((3, 3), dtype=object)
    out[UPPER] = upper
    out.T[UPPER] = upper
    return out
