"""The numbers of [NORI]'s experiments beside ours: jobs, each of which gives some rows.

The text of the paper has words and no numbers of figures 1 and 2. Those here are what its
published scripts compute (iron76/bnt_time_varying, experiments/computationalComplexity) at one
random state per N: ABA/serial/compare/main.m for figure 1, SIE/compare/main.m for figure 2. One
state of theirs is compared with the range of single states of ours; ours is shown as a mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.libraries import Umfpack, UmfpackLibrary
from dynsys.plan.orders.peeling import Peeled
from dynsys.plan.search.search import Search
from dynsys.system.unknowns import UnknownKind
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
    permuted_program_operations,
    plain_lu,
    reused_order,
    shuffled,
    umfpack_triangular,
)
from experiments.nori2017.notes import (
    ABSTRACT,
    BRANCHED,
    FIGURE_1,
    FIGURE_2,
    PROOFS,
    REMARK_3,
    REMARK_4,
    SEARCH,
    TRIANGULAR,
)
from experiments.nori2017.published import aba_operations
from experiments.papers.paper_rows import Row

__all__ = [
    "SCRIPT_CELLS_LU",
    "SCRIPT_CELLS_PERMUTED",
    "SCRIPT_LU",
    "SCRIPT_MATRIX_ABA",
    "SCRIPT_PERMUTED",
    "Job",
    "figure_1",
    "figure_2",
    "jobs",
    "sizes",
    "states",
]

Job: TypeAlias = tuple[Callable[..., list[Row]], tuple[Any, ...]]
Script: TypeAlias = tuple[int, int] | None
Said: TypeAlias = tuple[str | None, str]
"""Words of the paper, None where it has none, and the line they stand on."""


def jobs(quick: bool) -> list[Job]:
    """Functions with their arguments, in the order of the tables; they may run anywhere."""
    first, second = sizes(quick)
    branched: Sequence[int] = (10,) if quick else (10, 20, 30)
    triangular: Sequence[int] = (10, 100) if quick else (10, 30, 100, 1000, 5000)
    ranked: Sequence[int] = (6,) if quick else (6, 8, 12)
    found: Sequence[int] = (5, 10, 30, 100) if quick else range(5, 101)
    reused: Sequence[int] = (10,) if quick else (5, 10, 20, 30)
    umfpack: list[Job] = [
        *((remark_3_rows, (found, branching, mixed))
          for branching in (1.0, 1.5) for mixed in (False, True)),
        *((remark_4_rows, (problem, n, 30 if quick else STATES))
          for problem in (FORWARD, "load cells") for n in reused),
    ]  # fmt: skip
    return [
        *((figure_1_rows, (n, states(n, quick))) for n in first),
        *((figure_2_rows, (n, states(n, quick))) for n in second),
        *((branched_rows, (n, states(n, quick))) for n in branched),
        *((triangular_rows, (n,)) for n in triangular),
        *(umfpack if UmfpackLibrary.find() is not None else ()),
        (feet_rows, ()),
        (random_feet_rows, (200 if quick else 1000,)),
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
        matrix_aba_counts(chain(n), min(20, count), corrected=c) for c in (False, True)
    )
    return [
        *(_fewer_than_aba(n, permuted) if n in (10, 30) else ()),
        *_means(FIGURE_1, n, "matrix ABA, published rules", SCRIPT_MATRIX_ABA.get(n), matrix),
        *_means(FIGURE_1, n, "matrix ABA, products counted", None, corrected),
        *_means(FIGURE_1, n, "LU, published rules", SCRIPT_LU.get(n), lu.published),
        *_means(FIGURE_1, n, "LU, true", None, lu.true),
        *_means(FIGURE_1, n, "permuted LU, published rules", SCRIPT_PERMUTED.get(n),
                permuted.published),
        *_means(FIGURE_1, n, "permuted LU, true", None, permuted.true),
        *_scatter(FIGURE_1, n, lu.published, permuted.published),
        *_pair(FIGURE_1, n, "ours, executed", ours.additions,
               ours.multiplications + ours.divisions),
        Row(FIGURE_1, f"N = {n}", "ours with external wrenches, executed, total", None,
            forward_operations(n, wrenches=True).total),
        Row(FIGURE_1, f"N = {n}", "ours / ABA", None, ours.total / aba.total),
    ]  # fmt: skip


def _fewer_than_aba(n: int, permuted: PublishedAndTrue) -> list[Row]:
    """The abstract's claim, by what is executed; ABA by the closed form of the scripts."""
    aba, true = aba_operations(n).total, permuted.true.total
    why = (
        f"{permuted.published.total:.0f} against {aba} by the rule of its scripts, which takes"
        " the entrywise product of a pivot's column and row for the outer one; executed are"
        f" {true:.0f}, and {permuted_program_operations(n)} as a program without any product"
        " by 0 or 1"
    )
    said = "reduces the number of floating point operations"
    return [
        Row(ABSTRACT, f"N = {n}, forward dynamics", "operations of permuted LU / of ABA", said,
            true / aba, "claim", true < aba, why, "7"),
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
        *_pair(FIGURE_2, n, "ours, executed", ours.additions,
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


def _means(table: str, n: int, what: str, script: Script, mean: Mean) -> list[Row]:
    """Means, beside one state of the scripts: it passes within the range of ours."""
    ours = round(mean.additions, 1), round(mean.multiplications, 1)
    if script is None:
        return _pair(table, n, what, *ours)
    inside = [a <= x <= b for a, x, b in zip(mean.least, script, mean.most, strict=True)]
    return [
        Row(table, f"N = {n}", f"{what}, {kind}", script[k], ours[k], "scripts", inside[k],
            "" if inside[k] else OUTSIDE, within="the range of single states of ours")
        for k, kind in enumerate(("additions", "multiplications"))
    ]  # fmt: skip


def _pair(table: str, n: int, what: str, a: float, m: float) -> list[Row]:
    return [
        Row(table, f"N = {n}", f"{what}, additions", None, a),
        Row(table, f"N = {n}", f"{what}, multiplications", None, m),
    ]


# ---- branched, triangular ------------------------------------------------------------------


def branched_rows(n: int, count: int) -> list[Row]:
    """Forward dynamics of a tree, branching factor 1.5."""
    permuted = lu_counts(forward_system(chain(n, 1.5)), permuted_lu(), count)
    ours = forward_operations(n, 1.5)
    return [
        Row(BRANCHED, f"N = {n}", "permuted LU, entries of L + U", None, permuted.entries),
        *_means(BRANCHED, n, "permuted LU, true elimination", None, permuted.true_elimination),
        *_pair(BRANCHED, n, "ours, executed", ours.additions,
               ours.multiplications + ours.divisions),
    ]  # fmt: skip


def triangular_rows(n: int) -> list[Row]:
    """Inverse dynamics from shuffled rows and columns, by peeling: problem 1."""
    pattern = inverse_system(chain(n, 1.5)).pattern()
    mixed = shuffled(pattern, n)
    start = time.perf_counter()
    order = Peeled().order(mixed)
    seconds = time.perf_counter() - start
    lu = symbolic_lu(mixed, order)
    where, triangular = f"N = {n}, bf 1.5, shuffled", lu.is_triangular
    return [
        Row(TRIANGULAR, where, "fill", 0, lu.fill, lines="169"),
        Row(TRIANGULAR, where, "triangular", "necessarily a solution",
            "yes" if triangular else "no", "claim", triangular, lines="161"),
        Row(TRIANGULAR, where, "seconds", None, round(seconds, 4)),
    ]  # fmt: skip


def remark_3_rows(sizes: Sequence[int], branching: float, mixed: bool) -> list[Row]:
    """Inverse dynamics by the paper's own UMFPACK, rows and columns as built or shuffled."""
    found = sum(umfpack_triangular(n, branching, mixed=mixed) for n in sizes)
    where = f"N = {sizes[0]} to {sizes[-1]}, bf {branching}, {'shuffled' if mixed else 'built'}"
    ours = f"triangular, no fill, at {found} of {len(sizes)} sizes"
    return [
        Row(REMARK_3, where, "UMFPACK's order", "a solution is always found if N_B <= 100",
            ours, "claim", found == len(sizes), lines="173"),
    ]  # fmt: skip


def remark_4_rows(problem: str, n: int, count: int) -> list[Row]:
    """One order of UMFPACK, found at one state, at many others without finding it anew."""
    answers: UnknownKind = "qdd" if problem == FORWARD else "torque"
    if problem == FORWARD:
        system = forward_system(chain(n))
    else:
        system = load_cell_system(chain(n, taper=1.0))
    one = reused_order(system, Umfpack(), answers, count)
    where, ratio = f"{problem}, N = {n}", one.executed / one.anew
    said = "the optimized permutations computed previously"
    benefits = "its benefits can be exploited in the runtime computations"
    return [
        Row(REMARK_4, where, f"error of {count} states / largest {answers}", said, one.error,
            "claim", one.error < ACCURATE, lines="175", within=f"{ACCURATE:g}"),
        Row(REMARK_4, where, "operations / with an order found at every state", benefits,
            ratio, "claim", ratio < DEARER, lines="175", within=f"a ratio of {DEARER}"),
        Row(REMARK_4, where, "least pivot / largest entry left in its column", None, one.pivot),
    ]  # fmt: skip


# ---- posedness -----------------------------------------------------------------------------


def feet_rows() -> list[Row]:
    """Property 3: rank of what two feet's cells do not see, at random poses."""
    found = []
    for name, components, said in (
        ("four load cells per foot", posedness.PLATE, EXISTS),
        ("slippery floor", posedness.SLIPPERY, SOLVABLE),
    ):
        columns, ranks = posedness.feet_ranks(components)
        regular = ranks == {columns}
        verdict = "full rank at 200 poses" if regular else "singular at 200 poses"
        right = regular == (said == SOLVABLE)
        found.append(_said("Property 3", name, "[H, X* H]", said, verdict, right))
    return found


def random_feet_rows(count: int) -> list[Row]:
    """Property 3 over random H: H_f singular, as it says, and regular, which it leaves out."""
    found, rng = [], np.random.default_rng(0)
    for rank in range(4):
        poses = [posedness.singular_poses(posedness.random_unseen(rank, rng), rng)
                 for _ in range(count)]  # fmt: skip
        parallel, turned = (sum(singular) for singular in zip(*poses, strict=True))
        where, verdict = f"H_f of rank {rank}", f"singular for {parallel} of {count} random H"
        said = EXISTS if rank < 3 else UNSAID
        seen = f"singular for {turned} of {count} random H"
        found += [
            _said("Property 3", where, "[H, X* H], R = 1", said, verdict, parallel == count),
            _said("Property 3", where, "[H, X* H], any R", UNSAID, seen),
        ]
    return found


def published_set_rows(n: int) -> list[Row]:
    """The published sets: of the third the paper says nothing."""
    said = {"autoSensSIE": ILL_POSED, "autoSensSIEfriction": SOLVABLE}
    return [
        _posed("published sets", f"{name}, N = {n}", said.get(name, UNSAID), missing)
        for name, missing in posedness.published_ranks(n).items()
    ]


def humanoid_rows() -> list[Row]:
    """A humanoid on both feet: eq. 17, remark 5, and the slippery floor after it."""
    return [
        _posed("Remark 5", f"humanoid on two feet, {name}", said,
               posedness.humanoid_on_feet(components, soles_parallel=parallel), why)
        for name, components, said, parallel, why in (
            ("no sensors", (), ("ill-posed", "273"), False, ""),
            ("four load cells per foot", posedness.PLATE, ILL_POSED, False, ""),
            ("slippery floor", posedness.SLIPPERY, SOLVABLE, False, ""),
            ("slippery floor, soles in one plane", posedness.SLIPPERY, SOLVABLE, True,
             "both torsions are about one normal, and only their sum is seen; at random states,"
             " as in the scripts, no two soles are parallel"),
        )
    ]  # fmt: skip


def _posed(table: str, where: str, said: Said, missing: set[int], why: str = "") -> Row:
    """Whether all unknowns are determined, beside the paper's word for it."""
    solvable = missing == {0}
    ours = "solvable" if solvable else f"ill-posed: rank lacks {max(missing)}"
    return _said(table, where, "all unknowns", said, ours, solvable == (said == SOLVABLE), why)


def _said(
    table: str, where: str, what: str, said: Said, ours: str, right: bool = True, why: str = ""
) -> Row:
    """A claim in words, or a finding of ours where the paper says nothing."""
    paper, lines = said
    if paper is None:
        return Row(table, where, what, None, ours, "ours")
    return Row(table, where, what, paper, ours, "claim", right, why, lines)


FORWARD = "forward dynamics"
UNSAID: Said = (None, "")
EXISTS: Said = ("there always exists", "299")
ILL_POSED: Said = ("ill-posed", "307")
SOLVABLE: Said = ("solvable", "318")


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


# ---- what the published scripts of [NORI] compute: one random state per N, run under Octave --
# Additions and multiplications, LU or products with substitution, by rules of their own.

SCRIPT_LU = {
    2: (204, 285), 5: (1088, 1180), 10: (3668, 3976), 20: (11683, 13718), 30: (30007, 31665),
}  # fmt: skip
SCRIPT_PERMUTED = {
    2: (173, 237), 5: (675, 795), 10: (1828, 1721), 20: (4021, 3621), 30: (6094, 5692),
}  # fmt: skip
SCRIPT_MATRIX_ABA = {
    2: (192, 504),
    5: (931, 1508),
    10: (2159, 3185),
    20: (4624, 6526),
    30: (7112, 9919),
}
SCRIPT_CELLS_LU = {
    8: (2450, 3640), 10: (3859, 5393), 12: (5333, 7493), 14: (5969, 8363), 16: (9104, 12192),
    18: (8985, 12190), 20: (12927, 17049),
}  # fmt: skip
SCRIPT_CELLS_PERMUTED = {
    8: (1183, 1825), 10: (1670, 2561), 12: (2170, 3316), 14: (3032, 4582), 16: (3511, 5329),
    18: (3533, 5410), 20: (4329, 6573),
}  # fmt: skip


OUTSIDE = "theirs, of one random state, lies outside the range of single states of ours"

# ---- sizes and states of figures 1 and 2, and the LU counts at each ------------------------

SIZES_1 = (*range(2, 31), 40, 60, 80, 100)
SIZES_2 = (*range(4, 21), 30, 40, 60)
QUICK_1, QUICK_2 = (2, 5, 10), (8, 10)
STATES, QUICK_STATES, FEW_STATES = 100, 20, 3
"""Single states of LU scatter by 10 to 20 %: a mean of 20 would still be off by 5 %."""
ACCURATE, DEARER = 1e-8, 1.1
"""What an order that is reused may lose: in its answers, and in operations."""


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
