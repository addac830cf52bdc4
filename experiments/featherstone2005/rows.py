"""[BIS] reproduced: R. Featherstone, factorisation of the joint-space inertia matrix, 2005.

    python -m experiments.featherstone2005 [--json] [--plot FOLDER]

Counts come from the formulas and from running the algorithms over counting scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import dynsys
from dynsys.model import synthetic
from dynsys.model.expanded import expanded_parent
from dynsys.model.joints import AbstractJoint, Cylindrical, Revolute, Spherical
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, KinematicTree
from dynsys.recursive.sparse_factors import (
    ltdl_in_situ,
    ltl,
    ltl_in_situ,
    mul_L,
    mul_LT,
    solve_L,
    solve_LT,
    solve_ltdl,
    solve_ltl,
    tree_sums,
)
from dynsys.types import Array, IntArray, ScalarArray
from experiments.counting import OperationCount, Tally, exact_fit, written_out
from experiments.featherstone2005 import counts as published
from experiments.featherstone2005.axial_screws import ScrewRobot
from experiments.figures import symmetric_pattern
from experiments.papers import paper_rows
from experiments.papers.paper_rows import Row, row

__all__ = ["figures", "main", "rows"]

TITLE = "Featherstone 2005: branch-induced sparsity"
TREE_1 = (-1, 0, 0, 1, 1, 2, 2)
LARGEST = 500
NOTES = (
    "RNEA and ABA counts are formulas of Balafoutis et al. and of McMillan and Orin, as the"
    " paper quotes and corrects them; all others were executed over counting scalars as well.",
    "The formulas of tables 1 and 2 are found again, in exact arithmetic, from what is executed"
    " on trees and from the trees' own sums; one that does not fit every tree is an error.",
)


def rows() -> list[Row]:
    """All numbers of the paper, beside ours."""
    return [
        *tree_1_rows(),
        *table_1_rows(),
        *table_2_rows(),
        *section_4_rows(),
        *humanoid_rows(),
        *forward_dynamics_rows(),
        *accuracy_rows(),
    ]


# ---- sections 2 and 4 --------------------------------------------------------------------


def tree_1_rows() -> list[Row]:
    """Tree 1 of figures 1 and 2: pattern of H and L, no fill-in, expanded parent array."""
    robot = tree_1({})
    H = dynsys.recursive.crba(robot, robot.random_configuration(0))
    crosses = [int(np.count_nonzero(matrix)) for matrix in (H, ltl(H, TREE_1))]
    expanded = expanded_parent(tree_1({0: Cylindrical(), 1: Cylindrical(), 5: Spherical()})) + 1
    others = int((~published.dh_nodes(TREE_1)).sum())
    return [
        row("eq. 4", "tree 1", "nonzeros of H", 27, crosses[0], lines="300-306"),
        row("eq. 4", "tree 1", "nonzeros of L", 17, crosses[1], lines="378-384"),
        row("eq. 17", "tree 1", "non-DH nodes", 3, others, lines="1146-1147"),
        row(
            "figure 2",
            "tree 1, joints 1, 2, 6 of 2, 2, 3 DoF",
            "expanded parent array",
            "0 1 2 3 2 4 4 5 8 9 5",
            " ".join(map(str, expanded)),
            lines=288,
        ),
    ]


def tree_1(joints: Mapping[int, AbstractJoint]) -> KinematicTree:
    """Tree 1, general inertias and places, with revolute joints where no other is named."""
    rng, bodies = np.random.default_rng(0), []
    for i, p in enumerate(TREE_1):
        joint = joints.get(i, Revolute(rng.normal(size=3)))
        placement = Transform(np.eye(3), rng.normal(size=3))
        bodies.append(Body(f"body_{i + 1}", p, joint, placement, cloud_inertia(rng)))
    return KinematicTree("tree 1", bodies)


def random_inertia(parent: Sequence[int] | IntArray, seed: int = 0) -> Array:
    """Random H with the pattern of a tree: H = L^T L, well conditioned."""
    rng = np.random.default_rng(seed)
    pattern = np.tril(symmetric_pattern(list(parent)))
    L = np.where(pattern, rng.uniform(-0.3, 0.3, pattern.shape), 0.0)
    np.fill_diagonal(L, rng.uniform(1.0, 2.0, len(L)))
    return np.asarray(L.T @ L)


def executed(parent: IntArray, unit: bool) -> dict[str, OperationCount]:
    """Operations executed by the algorithms of table 1 on a tree, LTDL if ``unit``."""
    F = factorised(parent, unit)[0].astype(np.float64)
    solve: Callable[..., Any] = (
        (lambda L, x: solve_ltdl(L, np.diagonal(L).copy(), parent, x))
        if unit
        else (lambda L, x: solve_ltl(L, parent, x))
    )
    runs: dict[str, Callable[..., Any]] = {"back-substitute": solve} | {
        name: partial(_with_factor, algorithm, parent, unit)
        for name, algorithm in (
            ("L x", mul_L),
            ("L^T x", mul_LT),
            ("L^-1 x", solve_L),
            ("L^-T x", solve_LT),
        )
    }
    counts = {"factorise": factorised(parent, unit)[1]}
    for name, run in runs.items():
        tally = Tally()
        run(tally.scalars(F), tally.scalars(np.ones(len(F))))
        counts[name] = tally.count
    return counts


def _with_factor(
    run: Callable[..., Any], parent: IntArray, unit: bool, L: ScalarArray, x: ScalarArray
) -> None:
    run(L, parent, x, unit=unit)


def factorised(parent: IntArray, unit: bool = True) -> tuple[ScalarArray, OperationCount]:
    """Factors in place of a random H with the pattern of a tree, and what that executed."""
    tally = Tally()
    F = tally.scalars(random_inertia(parent))
    (ltdl_in_situ if unit else ltl_in_situ)(F, parent)
    return F, tally.count


TABLE_1 = {
    "factorise": ("n √ + D1 div + D2 (m + a)", "D1 div + D2 (m + a)", "780-781"),
    "back-substitute": ("2n div + 2D1 (m + a)", "n div + 2D1 (m + a)", "783"),
    "L x": ("n m + D1 (m + a)", "D1 (m + a)", "785"),
    "L^T x": ("n m + D1 (m + a)", "D1 (m + a)", "785"),
    "L^-1 x": ("n div + D1 (m + a)", "D1 (m + a)", "787"),
    "L^-T x": ("n div + D1 (m + a)", "D1 (m + a)", "787"),
}
"""By operation: LTL, LTDL as the paper prints them, and its lines."""


def table_1_rows() -> list[Row]:
    """Table 1: the formulas in n, D1, D2 that fit what is executed on every one of 12 trees."""
    rng = np.random.default_rng(1)
    drawn = [np.array([int(rng.integers(-1, i)) for i in range(n)]) for n in range(2, 14)]
    sums = [(found.n, found.D1, found.D2) for found in map(tree_sums, drawn)]
    out = []
    for k, name in enumerate(("LTL", "LTDL")):
        counts = [executed(parent, name == "LTDL") for parent in drawn]
        for operation, (*paper, lines) in TABLE_1.items():
            found = cost_formula(sums, [one[operation] for one in counts])
            where = f"{operation}, {name}"
            out.append(row("table 1", where, "formula", paper[k], found, lines=lines))
    return out


def cost_formula(sums: Sequence[Sequence[int]], counts: Sequence[OperationCount]) -> str:
    """Cost in n, D1 and D2, as the paper writes it: the only one that fits every count."""
    fits = {
        kind: exact_fit(sums, [getattr(count, name) for count in counts])
        for kind, name in (
            ("√", "square_roots"),
            ("div", "divisions"),
            ("m", "multiplications"),
            ("a", "additions"),
        )
    }
    parts = []
    for k, symbol in enumerate(("n", "D1", "D2")):
        for times in sorted({fit[k] for fit in fits.values()} - {0}):
            kinds = [kind for kind, fit in fits.items() if fit[k] == times]
            what = kinds[0] if len(kinds) == 1 else f"({' + '.join(kinds)})"
            parts.append(f"{written_out([symbol], [times])} {what}")
    return " + ".join(parts)


TABLE_2 = {
    "unbranched": ("n", "(n^2 - n)/2", "(n^3 - n)/6", "871"),
    "short side branches": ("m", "m^2", "(2m^3 + 3m^2 + m)/6", "873"),
    "balanced tree": ("i", "i 2^i", "(i^2 + i) 2^(i-1)", "876-881"),
    "spanning grid": ("m", "m^3 - m^2", "(7m^4 - 6m^3 - m^2)/12", "883"),
}
"""By topology: variable, D1, D2 (of balanced trees the summands), lines of the paper."""
TOPOLOGIES = tuple(TABLE_2)


def table_2_rows() -> list[Row]:
    """Table 2: the closed forms that fit the sums of every tree of at most LARGEST nodes."""
    out = []
    for name, (letter, *paper, lines) in TABLE_2.items():
        sizes, found = zip(*((m, tree_sums(parent)) for m, parent in trees(name)), strict=True)
        names = [f"{letter}^{k}" for k in (4, 3, 2)] + [letter]
        for k, quantity in enumerate(("D1", "D2")):
            sums, after = [getattr(one, quantity) for one in found], ""
            if name == "balanced tree":  # what level i + 1 adds, over 2^i or 2^(i-1)
                sums = [
                    Fraction(y - x, 2 ** (i - k)) for i, (x, y) in enumerate(pairwise(sums), 1)
                ]
                sizes, after = sizes[: len(sums)], (" 2^i", " 2^(i-1)")[k]
            fit = exact_fit([[m**4, m**3, m**2, m] for m in sizes], sums)
            text = written_out(names, fit)
            text = (f"({text})" if after and " " in text else text) + after
            where = f"{name}, n up to {found[-1].n}"
            out.append(row("table 2", where, quantity, paper[k], text, lines=lines))
    return out


def trees(name: str) -> list[tuple[int, list[int]]]:
    """The size m and parent array of all trees of a topology with at most LARGEST nodes."""
    out = []
    for m in range(1, LARGEST + 1):
        parent = parents_of(name, m)
        if len(parent) > LARGEST:
            break
        out.append((m, parent))
    return out


def parents_of(name: str, m: int) -> list[int]:
    """Parent array of a topology of table 2 without building the robot's inertias."""
    if name == "unbranched":
        return list(range(-1, m - 1))
    if name == "short side branches":
        return [p for k in range(m) for p in (2 * k - 2 if k else -1, 2 * k)]
    if name == "balanced tree":
        return [(i - 1) // 2 for i in range(2**m - 1)]
    return [i - m if i >= m else i - 1 for i in range(m * m)]


def operations(parent: Sequence[int]) -> int:
    """Cost of LTDL as figure 5 plots it: D1 + 2 D2, of the tree itself."""
    return published.factor_count(tree_sums(parent), unit=True).total


@cache
def section_4_rows() -> list[Row]:
    """Ratios that section 4.2 quotes, dense LTDL over sparse as executed, and its limits."""
    out = []
    for name, m, paper, line in (
        ("balanced tree", 4, 7.8, "899-900"),
        ("balanced tree", 8, 430, "900"),
        ("spanning grid", 4, 5.3, "909"),
        ("spanning grid", 16, 74, "909"),
    ):
        parent = parents_of(name, m)
        n = len(parent)
        sparse, dense = (
            factorised(np.array(p))[1].total for p in (parent, parents_of("unbranched", n))
        )
        digits = float(f"{dense / sparse:.2g}")  # the paper prints two
        shown, where = int(digits) if isinstance(paper, int) else digits, f"{name}, n = {n}"
        out.append(row("section 4.2", where, "times cheaper", paper, shown, lines=line))
        out.append(row("section 4.2", where, "exactly", None, dense / sparse))
    m, within = 2000, 0.001
    branched, chain = (
        tree_sums(parents_of(name, n))
        for name, n in (("short side branches", m), ("unbranched", 2 * m))
    )
    for quantity, words, limit, value in (
        ("D1 / D1 of chain", "one-half", 1 / 2, branched.D1 / chain.D1),
        ("D2 / D2 of chain", "one-quarter", 1 / 4, branched.D2 / chain.D2),
    ):
        out.append(
            row(
                "section 4.2",
                f"short side branches, n = {2 * m}",
                quantity,
                words,
                value,
                holds=abs(value - limit) < within,
                lines="849-850",
                within=f"{within} of the limit",
            )
        )
    return out


# ---- section 6 ---------------------------------------------------------------------------


def humanoid_rows() -> list[Row]:
    """D quantities and costs of the humanoid and of the equivalent chain."""
    robot = synthetic.humanoid30()
    sums = tree_sums(expanded_parent(robot))
    zeros = 900 - sums.nonzeros
    chain = list(range(-1, 24))
    humanoid_crba, chain_crba = (
        published.crba_sums(parent, floating_base=True) for parent in (robot.parent, chain)
    )
    run = ScrewRobot(robot.parent.tolist(), base_frames=True).inertia_matrix()[1]
    chain_run = ScrewRobot(chain, base_frames=True).inertia_matrix()[1]
    ran, ran_dense = (
        {name: count.divisions_as_multiplications for name, count in executed(p, True).items()}
        for p in (expanded_parent(robot), np.arange(-1, 29))
    )
    a, b = published.crba_count(humanoid_crba), published.crba_count(chain_crba)
    where = "section 6"
    body_sums, steps = tree_sums(robot.parent), factorised(expanded_parent(robot))[1]
    return [
        row(where, "humanoid", "D1 expanded", 219, steps.divisions, lines="1400-1411"),
        row(where, "humanoid", "D2 expanded", 1039, steps.multiplications, lines="1415-1433"),
        row(where, "humanoid", "nonzeros of H", 468, sums.nonzeros, lines=1446),
        row(where, "humanoid", "zeros of H", 432, zeros, "given", lines=1447),
        row(
            where, "humanoid", "percent zeros", 48, round(zeros / 9), "given", lines="1435-1437"
        ),
        *(
            row(where, who, f"{what}, executed", paper, counts[what], lines=line)
            for who, what, paper, counts, line in (
                ("humanoid", "factorise", "1258m + 1039a", ran, 1451),
                ("humanoid", "back-substitute", "468m + 438a", ran, 1452),
                ("dense 30 x 30", "factorise", "4930m + 4495a", ran_dense, 1453),
                ("dense 30 x 30", "back-substitute", "900m + 870a", ran_dense, 1454),
            )
        ),
        *(
            row(where, who, what, paper, joined(found), lines=lines)
            for who, what, paper, found, lines in (
                ("humanoid", "D0, D1", "24 84", (body_sums.D0, body_sums.D1), "1462-1475"),
                ("humanoid", SUMS, "21 66 3 18 1 6", humanoid_crba, "1484-1491"),
                ("chain", SUMS, "24 300 0 0 1 24", chain_crba, "1496-1500"),
            )
        ),
        row(where, "humanoid", "JSIM, formula", "2475m + 2124a", a, "given", lines=1503),
        row(where, "humanoid", "JSIM, executed", "2475m + 2124a", run, lines=1503),
        row(where, "chain", "JSIM, formula", "6462m + 4419a", b, "given", lines=1505),
        row(where, "chain", "JSIM, executed", "6462m + 4419a", chain_run, lines=1505),
        *(
            row(where, "chain / humanoid", f"JSIM, {what}", paper, ratio, "given", lines=line)
            for what, paper, ratio, line in (
                ("a = m", 2.37, b.total / a.total, 1507),
                ("a = 0", 2.61, b.multiplications / a.multiplications, 1508),
            )
        ),
    ]


SUMS = "D0a D1a D0b D1b D0c D1c"


def joined(values: Sequence[int]) -> str:
    """Numbers in one string."""
    return " ".join(map(str, values))


def forward_dynamics_counts() -> dict[str, dict[str, OperationCount]]:
    """Cost of forward dynamics of humanoid and chain via CRBA and via ABA (figure 7)."""
    robot = synthetic.humanoid30()
    out = {}
    for name, parent, sums in (
        ("humanoid", robot.parent, tree_sums(expanded_parent(robot))),
        ("chain", np.arange(-1, 24), published.unbranched_sums(30)),
    ):
        non_dh = int((~published.dh_nodes(parent)).sum())
        parts = {
            "C by RNEA": published.rnea_count(25, non_dh, floating_base=True),
            "H by CRBA": published.crba_count(published.crba_sums(parent, floating_base=True)),
            "LTDL": published.factor_count(sums, unit=True).divisions_as_multiplications,
            "back-substitution": published.solve_count(
                sums, unit=True
            ).divisions_as_multiplications,
        }
        aba = OperationCount(224 * 24 - 30, 205 * 24 - 37) + non_dh * OperationCount(66, 57)
        total = sum(parts.values(), OperationCount())
        out[name] = {**parts, "via CRBA": total, "via ABA": aba}
    return out


def forward_dynamics_rows() -> list[Row]:
    """Forward dynamics, inertia matrix against propagation (figure 7), by the paper's formulas.

    The total counts C, H, LTDL and one back-substitution; tau - C is left out.
    """
    counts = forward_dynamics_counts()
    human, chain = counts["humanoid"], counts["chain"]
    paper = {
        ("humanoid", "C by RNEA"): ("2275m + 1996a", 1532),
        ("chain", "C by RNEA"): ("2263m + 1972a", 1528),
        ("humanoid", "via CRBA"): ("6476m + 5597a", 1551),
        ("chain", "via CRBA"): ("14555m + 11756a", 1552),
        ("humanoid", "via ABA"): ("5544m + 5054a", 1545),
        ("chain", "via ABA"): ("5346m + 4883a", 1540),
    }
    where = "section 6"
    out = [
        row(where, who, what, value, counts[who][what], "given", lines=line)
        for (who, what), (value, line) in paper.items()
    ]
    a, b, aba = human["via CRBA"], chain["via CRBA"], human["via ABA"]
    more, faster = "CRBA over ABA, humanoid, percent", "CRBA / ABA, chain"
    by_m = a.multiplications / aba.multiplications
    ratios = (
        ("chain / humanoid", "via CRBA, a = m", 2.18, b.total / a.total, 1554),
        ("chain / humanoid", "a = 0", 2.25, b.multiplications / a.multiplications, 1555),
        (more, "a = m", 14, round(100 * (a.total / aba.total - 1)), 1556),
        (more, "a = 0", 17, round(100 * (by_m - 1)), 1557),
        (faster, "a = m", 2.6, b.total / chain["via ABA"].total, 1561),
    )
    return [
        *out,
        *(
            row("figure 7", who, what, value, ours, "given", lines=line)
            for who, what, value, ours, line in ratios
        ),
    ]


def accuracy_rows() -> list[Row]:
    """Section 2: error of H^-1 b by LTL over that by LAPACK's Cholesky, median of 50 states.

    The paper names neither its matrices nor its measure: "slightly more accurate" than
    MATLAB's Cholesky with much sparsity, "slightly less" with little.
    """
    what, why = "error of H^-1 b / Cholesky's", "the paper names no matrices and no measure"
    out = []
    for robot, paper, line in (
        (synthetic.balanced_tree(6), "slightly more accurate", 538),
        (synthetic.humanoid30(), "slightly more accurate", 538),
        (synthetic.chain(30), "slightly less accurate", 540),
    ):
        ratio = solve_error_ratio(robot, states=50)
        more = "more" in paper
        out.append(
            row(
                "section 2",
                f"LTL, {robot.name}",
                what,
                paper,
                ratio,
                holds=(ratio < 1) == more,
                why=why,
                lines=line,
                within=f"any ratio {'below' if more else 'above'} one",
            )
        )
    return out


def solve_error_ratio(robot: KinematicTree, states: int) -> float:
    """Median over states of (error of H^-1 b by LTL) / (by LAPACK), b random."""
    parent, ratios = expanded_parent(robot), []
    for seed in range(states):
        H = dynsys.recursive.crba(robot, robot.random_configuration(seed))
        b = np.random.default_rng(seed).normal(size=len(H))
        factor = cho_factor(H, lower=True)
        by_lapack = cho_solve(factor, b)
        exact, wide = by_lapack.astype(np.longdouble), H.astype(np.longdouble)
        for _ in range(6):  # refinement with residuals in extended precision
            exact = exact + cho_solve(factor, (b - wide @ exact).astype(np.float64))
        by_ltl = solve_ltl(ltl(H, parent), parent, b)
        errors = [np.abs(x - exact).max() for x in (by_ltl, by_lapack)]
        ratios.append(float(errors[0] / errors[1]))
    return float(np.median(ratios))


def figures(folder: Path) -> list[Path]:
    """Write figures 1, 5, 6 and 7 as PNG files and return their paths."""
    from experiments.featherstone2005 import figures as featherstone2005_figures

    return featherstone2005_figures.write(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    return paper_rows.main(TITLE, rows, figures, NOTES, argv)
