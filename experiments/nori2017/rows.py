"""The numbers of [NORI]'s experiments beside ours: jobs, each of which gives some rows.

Theirs are those in the paper and those that the published scripts print; the mean of ours over
random states is compared with one state of theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.peeling import Peeled
from dynsys.plan.search.search import Search
from experiments.nori2017 import posedness
from experiments.nori2017 import search as searches
from experiments.nori2017.counts import (
    Mean,
    PublishedAndTrue,
    chain,
    forward_operations,
    forward_system,
    inverse_system,
    load_cell_operations,
    load_cell_system,
    lu_counts,
    matrix_aba_counts,
    permuted_lu,
    plain_lu,
    shuffled,
)
from experiments.nori2017.notes import BRANCHED, FIGURE_1, FIGURE_2, PROOFS, SEARCH, TRIANGULAR
from experiments.nori2017.published import aba_operations
from experiments.papers.paper_rows import Row

__all__ = [
    "SCRIPT_BRANCHED",
    "SCRIPT_CELLS_LU",
    "SCRIPT_CELLS_PERMUTED",
    "SCRIPT_LU",
    "SCRIPT_MATRIX_ABA",
    "SCRIPT_PERMUTED",
    "SCRIPT_PERMUTED_TRUE",
    "Job",
    "figure_1",
    "figure_2",
    "jobs",
    "sizes",
    "states",
]

Job: TypeAlias = tuple[Callable[..., list[Row]], tuple[Any, ...]]
Script: TypeAlias = tuple[int | None, ...] | None


def jobs(quick: bool) -> list[Job]:
    """Functions with their arguments, in the order of the tables; they may run anywhere."""
    first, second = sizes(quick)
    branched: Sequence[int] = (10,) if quick else (10, 20, 30)
    triangular: Sequence[int] = (10, 100) if quick else (10, 30, 100, 1000, 5000)
    ranked: Sequence[int] = (6,) if quick else (6, 8, 12)
    return [
        *((figure_1_rows, (n, states(n, quick))) for n in first),
        *((figure_2_rows, (n, states(n, quick))) for n in second),
        *((branched_rows, (n, states(n, quick))) for n in branched),
        *((triangular_rows, (n,)) for n in triangular),
        (feet_rows, ()),
        *((published_set_rows, (n,)) for n in ranked),
        *(() if quick else ((humanoid_rows, ()),)),
        *((search_rows, (name, quick)) for name in searches.systems(quick)),
        *((proof_rows, (name,)) for name in searches.small_systems(quick)),
    ]


# ---- figures 1 and 2 -----------------------------------------------------------------------


def figure_1_rows(n: int, count: int) -> list[Row]:
    """Forward dynamics of a serial chain of n bodies."""
    lu, permuted = figure_1(n, count)
    aba, ours = aba_operations(n), forward_operations(n)
    matrix, corrected = (
        matrix_aba_counts(chain(n), min(2, count), corrected=c) for c in (False, True)
    )
    a, m, c = SCRIPT_MATRIX_ABA.get(n, (None, None, None))
    closed = (205 * n - 248, 224 * n - 259)
    return [
        *_pair(FIGURE_1, n, "ABA, closed form", closed, aba.additions, aba.multiplications),
        *_means(FIGURE_1, n, "matrix ABA, published rules", (a, m), matrix),
        *_means(FIGURE_1, n, "matrix ABA, products counted", (a, c), corrected),
        *_means(FIGURE_1, n, "LU, published rules", SCRIPT_LU.get(n), lu.published),
        *_means(FIGURE_1, n, "LU, true", None, lu.true),
        *_means(FIGURE_1, n, "permuted LU, published rules", SCRIPT_PERMUTED.get(n),
                permuted.published),
        *_means(FIGURE_1, n, "permuted LU, true", SCRIPT_PERMUTED_TRUE.get(n), permuted.true),
        *_scatter(FIGURE_1, n, lu.published, permuted.published),
        *_pair(FIGURE_1, n, "ours, executed", None, ours.additions,
               ours.multiplications + ours.divisions),
        Row(FIGURE_1, f"N = {n}", "ours with external wrenches, executed, total", None,
            forward_operations(n, wrenches=True).total),
        Row(FIGURE_1, f"N = {n}", "ours / ABA", None, ours.total / aba.total),
    ]  # fmt: skip


def figure_2_rows(n: int, count: int) -> list[Row]:
    """Torques from load cells at both ends of a serial chain of n bodies."""
    lu, permuted = figure_2(n, count)
    ours = load_cell_operations(n)
    return [
        *_means(FIGURE_2, n, "LU, published rules", SCRIPT_CELLS_LU.get(n), lu.published),
        *_means(FIGURE_2, n, "LU, true", None, lu.true),
        *_means(FIGURE_2, n, "permuted LU, published rules", SCRIPT_CELLS_PERMUTED.get(n),
                permuted.published),
        *_means(FIGURE_2, n, "permuted LU, true", None, permuted.true),
        *_scatter(FIGURE_2, n, lu.published, permuted.published),
        *_pair(FIGURE_2, n, "ours, executed", None, ours.additions,
               ours.multiplications + ours.divisions),
        Row(FIGURE_2, f"N = {n}", "ours, all unknowns, executed, total", None,
            load_cell_operations(n, everything=True).total),
        Row(FIGURE_2, f"N = {n}", "permuted LU, true / ours", None,
            permuted.true.total / ours.total),
    ]  # fmt: skip


def _scatter(table: str, n: int, lu: Mean, permuted: Mean) -> list[Row]:
    """How far single states are from the mean: the scripts have one state per N."""
    return [
        Row(table, f"N = {n}", f"{what}, published rules, additions, std of one state / mean",
            None, round(mean.scatter, 4))
        for what, mean in (("LU", lu), ("permuted LU", permuted))
    ]  # fmt: skip


def _means(table: str, n: int, what: str, paper: Script, mean: Mean) -> list[Row]:
    return _pair(
        table, n, what, paper, round(mean.additions, 1), round(mean.multiplications, 1)
    )


def _pair(table: str, n: int, what: str, paper: Script, a: float, m: float) -> list[Row]:
    first, second = paper or (None, None)
    return [
        Row(table, f"N = {n}", f"{what}, additions", first, a),
        Row(table, f"N = {n}", f"{what}, multiplications", second, m),
    ]


# ---- branched, triangular ------------------------------------------------------------------


def branched_rows(n: int, count: int) -> list[Row]:
    """Forward dynamics of a tree, branching factor 1.5."""
    permuted = lu_counts(forward_system(chain(n, 1.5)), permuted_lu(), count)
    ours = forward_operations(n, 1.5)
    entries, a, m = SCRIPT_BRANCHED[n]
    return [
        Row(BRANCHED, f"N = {n}", "permuted LU, entries of L + U", entries, permuted.entries),
        *_means(BRANCHED, n, "permuted LU, true elimination", (a, m),
                permuted.true_elimination),
        *_pair(BRANCHED, n, "ours, executed", None, ours.additions,
               ours.multiplications + ours.divisions),
    ]  # fmt: skip


def triangular_rows(n: int) -> list[Row]:
    """Inverse dynamics from shuffled rows and columns: fill 0; the paper stops at 100."""
    pattern = inverse_system(chain(n, 1.5)).pattern()
    mixed = shuffled(pattern, n)
    start = time.perf_counter()
    order = Peeled().order(mixed)
    seconds = time.perf_counter() - start
    lu = symbolic_lu(mixed, order)
    published = n <= 100
    where = f"N = {n}, bf 1.5, shuffled"
    return [
        Row(TRIANGULAR, where, "fill", 0 if published else None, lu.fill),
        Row(TRIANGULAR, where, "triangular", "yes" if published else None,
            "yes" if lu.is_triangular else "no"),
        Row(TRIANGULAR, where, "seconds", None, round(seconds, 4)),
    ]  # fmt: skip


# ---- posedness -----------------------------------------------------------------------------


def feet_rows() -> list[Row]:
    """Property 3: rank of what two feet's cells do not see."""
    found = []
    for name, components, paper in (
        ("four load cells per foot", posedness.PLATE, "singular for some pose"),
        ("slippery floor", posedness.SLIPPERY, "solvable"),
    ):
        columns, ranks = posedness.feet_ranks(components)
        regular = ranks == {columns}
        verdict = "full rank at 200 poses" if regular else "singular at 200 poses"
        right = regular == (paper == "solvable")
        found.append(Row("Property 3", name, "[H, X* H]", paper, verdict, "claim", right))
    return found


def published_set_rows(n: int) -> list[Row]:
    """Ranks of the published sets."""
    expected = {"autoSensSIE": 1, "autoSensSIEfriction": 0, "autoSensSIEfriction_fy": 1}
    return [
        Row("published sets", f"{name}, N = {n}", "26N - rank", expected[name], max(missing))
        for name, missing in posedness.published_ranks(n).items()
    ]


def humanoid_rows() -> list[Row]:
    """Remark 5: a humanoid on both feet."""
    found = []
    for name, components, verdict in (
        ("four load cells per foot", posedness.PLATE, "ill-posed"),
        ("slippery floor", posedness.SLIPPERY, "well-posed"),
    ):
        missing = posedness.humanoid_on_feet(components)
        ours = "well-posed" if missing == {0} else "ill-posed"
        found.append(Row("Remark 5", f"humanoid on two feet, {name}", "torques", verdict, ours))
    return found


# ---- search --------------------------------------------------------------------------------


def search_rows(name: str, quick: bool) -> list[Row]:
    """Operations that a search saves on the best constructive order; the same seed again."""
    search = Search(evaluations=1600 if quick else 32000, seed=0)
    system = searches.systems(quick)[name]
    result, again = (searches.improve(name, system, search) for _ in range(2))
    same = result.order == again.order and result.found == again.found
    return [
        Row(SEARCH, name, "constructive order, executed", None, result.constructive),
        Row(SEARCH, name, "found, executed", None, result.found),
        Row(SEARCH, name, "saved", None, round(result.saved, 4)),
        Row(SEARCH, name, "same order from the same seed", None, "yes" if same else "no"),
    ]


def proof_rows(name: str) -> list[Row]:
    """The least of all orders of a small system."""
    proof = searches.prove(name)
    return [
        Row(PROOFS, name, "constructive order, estimate", None, proof.constructive),
        Row(PROOFS, name, "least of all orders", None, proof.least),
    ]


# ---- what the published scripts of [NORI] print: one random state per N, run under Octave ----
# Additions and multiplications, LU or products with substitution.

SCRIPT_LU = {
    2: (204, 285), 5: (1088, 1180), 10: (3668, 3976), 20: (11683, 13718), 30: (30007, 31665),
}  # fmt: skip
SCRIPT_PERMUTED = {
    2: (173, 237), 5: (675, 795), 10: (1828, 1721), 20: (4021, 3621), 30: (6094, 5692),
}  # fmt: skip
SCRIPT_PERMUTED_TRUE = {
    2: (187, 283), 5: (1118, 1450), 10: (4060, 4873), 20: (9491, 11251), 30: (14576, 17265),
}  # fmt: skip
SCRIPT_MATRIX_ABA = {
    2: (192, 504, 618), 5: (931, 1508, 2314), 10: (2159, 3185, 5141), 20: (4624, 6526, 10790),
    30: (7112, 9919, 16515),
}  # fmt: skip
SCRIPT_CELLS_LU = {
    8: (2450, 3640), 10: (3859, 5393), 12: (5333, 7493), 14: (5969, 8363), 16: (9104, 12192),
    18: (8985, 12190), 20: (12927, 17049),
}  # fmt: skip
SCRIPT_CELLS_PERMUTED = {
    8: (1183, 1825), 10: (1670, 2561), 12: (2170, 3316), 14: (3032, 4582), 16: (3511, 5329),
    18: (3533, 5410), 20: (4329, 6573),
}  # fmt: skip
SCRIPT_BRANCHED = {
    10: (1393, 1847, 2385), 20: (3157, 5577, 6836), 30: (4922, 9227, 11159),
}  # fmt: skip


# ---- sizes and states of figures 1 and 2, and the LU counts at each ------------------------

SIZES_1 = (*range(2, 31), 40, 60, 80, 100)
SIZES_2 = (*range(4, 21), 30, 40, 60)
QUICK_1, QUICK_2 = (2, 5, 10), (8, 10)
STATES, QUICK_STATES, FEW_STATES = 100, 20, 3
"""Single states of LU scatter by 10 to 20 %: a mean of 20 would still be off by 5 %."""


def figure_1(n: int, states: int) -> tuple[PublishedAndTrue, PublishedAndTrue]:
    """LU and permuted LU of forward dynamics, chain of n bodies."""
    system = forward_system(chain(n))
    return (
        lu_counts(system, plain_lu(), states, discount_units=True),
        lu_counts(system, permuted_lu(), states, discount_units=True),
    )


def figure_2(n: int, states: int) -> tuple[PublishedAndTrue, PublishedAndTrue]:
    """LU and permuted LU with load cells at both ends of a chain of n bodies."""
    system = load_cell_system(chain(n, taper=1.0))
    return lu_counts(system, plain_lu(), states), lu_counts(system, permuted_lu(), states)


def sizes(quick: bool) -> tuple[Sequence[int], Sequence[int]]:
    """Numbers of bodies of figure 1 and of figure 2."""
    return (QUICK_1, QUICK_2) if quick else (SIZES_1, SIZES_2)


def states(n: int, quick: bool) -> int:
    """Number of random states; fewer beyond the sizes of the paper."""
    return QUICK_STATES if quick else STATES if n <= 30 else FEW_STATES
