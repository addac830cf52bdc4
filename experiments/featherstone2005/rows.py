"""[BIS] reproduced: R. Featherstone, factorisation of the joint-space inertia matrix, 2005.

    python -m experiments.featherstone2005 [--json] [--plot FOLDER]

Counts come from the formulas and from running the algorithms over counting scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import dynsys
from dynsys.model import synthetic
from dynsys.model.expanded import expanded_parent
from dynsys.model.joints import Cylindrical, Revolute, Spherical
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, KinematicTree
from dynsys.recursive.sparse_factors import (
    ltdl_in_situ,
    ltl,
    ltl_in_situ,
    mul_L,
    solve_L,
    solve_ltdl,
    solve_ltl,
    tree_sums,
)
from dynsys.types import Array, IntArray
from experiments.counting import OperationCount, Tally
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
    sums, H = tree_sums(TREE_1), random_inertia(TREE_1)
    L = ltl(H, TREE_1)
    expanded = expanded_parent(figure_2_robot()) + 1
    return [
        row("eq. 4", "tree 1", "nonzeros of H", 27, sums.nonzeros),
        row("eq. 4", "tree 1", "nonzeros of L", 17, int(np.count_nonzero(L))),
        row("eq. 17", "tree 1", "non-DH nodes", 3, int((~published.dh_nodes(TREE_1)).sum())),
        row(
            "figure 2",
            "tree 1, joints 1, 2, 6 of 2, 2, 3 DoF",
            "expanded parent array",
            "0 1 2 3 2 4 4 5 8 9 5",
            " ".join(map(str, expanded)),
        ),
    ]


def figure_2_robot() -> KinematicTree:
    """Tree 1 with joints 1 and 2 of two and joint 6 of three freedoms."""
    rng = np.random.default_rng(0)
    joints = {0: Cylindrical(), 1: Cylindrical(), 5: Spherical()}
    bodies = [
        Body(f"body_{i + 1}", p, joints.get(i, Revolute()), inertia=cloud_inertia(rng))
        for i, p in enumerate(TREE_1)
    ]
    return KinematicTree("figure 2", bodies)


def random_inertia(parent: Sequence[int] | IntArray, seed: int = 0) -> Array:
    """Random H with the pattern of a tree: H = L^T L, well conditioned."""
    rng = np.random.default_rng(seed)
    pattern = np.tril(symmetric_pattern(list(parent)))
    L = np.where(pattern, rng.uniform(-0.3, 0.3, pattern.shape), 0.0)
    np.fill_diagonal(L, rng.uniform(1.0, 2.0, len(L)))
    return np.asarray(L.T @ L)


def executed(parent: IntArray, unit: bool) -> dict[str, OperationCount]:
    """Operations executed by the algorithms of table 1 on a tree, LTDL if ``unit``."""
    counts = {}
    tally = Tally()
    F = tally.scalars(random_inertia(parent))
    (ltdl_in_situ if unit else ltl_in_situ)(F, parent)
    counts["factorise"] = tally.count
    L, diag = F.astype(np.float64), np.diagonal(F).astype(np.float64)
    for name in ("back-substitute", "L x", "L^-1 x"):
        tally = Tally()
        x, factor, d = tally.scalars(np.ones(len(L))), tally.scalars(L), tally.scalars(diag)
        if name == "back-substitute" and unit:
            solve_ltdl(factor, d, parent, x)
        elif name == "back-substitute":
            solve_ltl(factor, parent, x)
        else:
            (mul_L if name == "L x" else solve_L)(factor, parent, x, unit=unit)
        counts[name] = tally.count
    return counts


def table_1_rows() -> list[Row]:
    """Table 1 at the humanoid: formulas, and what was executed."""
    parent = expanded_parent(synthetic.humanoid30())
    sums, out = tree_sums(parent), []
    for name, unit in (("LTL", False), ("LTDL", True)):
        formulas = {
            "factorise": published.factor_count(sums, unit=unit),
            "back-substitute": published.solve_count(sums, unit=unit),
            "L x": published.product_count(sums, unit=unit),
            "L^-1 x": published.triangular_solve_count(sums, unit=unit),
        }
        for operation, count in executed(parent, unit).items():
            where = f"{operation}, {name}, humanoid"
            out.append(row("table 1", where, "executed", formulas[operation], count))
    return out


def table_2_rows() -> list[Row]:
    """Table 2: closed forms against the trees themselves, and against executed LTDL."""
    out = []
    for name, closed in published.CLOSED_FORMS.items():
        sizes = [m for m in range(1, LARGEST + 1) if closed(m).n <= LARGEST]
        same = sum(closed(m) == tree_sums(parents_of(name, m)) for m in sizes)
        out.append(row("table 2", name, f"sizes with n <= {LARGEST} right", len(sizes), same))
        for m in [m for m in sizes if closed(m).n <= 64][-1:]:
            count = executed(np.array(parents_of(name, m)), True)["factorise"]
            formula = published.factor_count(closed(m), unit=True)
            out.append(row("table 2", f"{name}, n = {closed(m).n}", "LTDL", formula, count))
        last = closed(sizes[-1])
        for quantity, value in (("D1", last.D1), ("D2", last.D2)):
            out.append(row("table 2", f"{name}, n = {last.n}", quantity, None, value))
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


def operations(name: str, m: int) -> int:
    """Cost of LTDL as figure 5 plots it: D1 + 2 D2, of the tree itself."""
    return published.factor_count(tree_sums(parents_of(name, m)), unit=True).total


def section_4_rows() -> list[Row]:
    """Ratios that section 4.2 quotes, dense over sparse, and its limits."""
    out = []
    for name, m, paper in (
        ("balanced tree", 4, 7.8),
        ("balanced tree", 8, 430),
        ("spanning grid", 4, 5.3),
        ("spanning grid", 16, 74),
    ):
        n = published.CLOSED_FORMS[name](m).n
        ratio = operations("unbranched", n) / operations(name, m)
        digits = float(f"{ratio:.2g}")  # the paper prints two
        shown = int(digits) if isinstance(paper, int) else digits
        out.append(row("section 4.2", f"{name}, n = {n}", "times cheaper", paper, shown))
        out.append(row("section 4.2", f"{name}, n = {n}", "exactly", None, ratio))
    m = 2000
    branched, dense = (
        published.CLOSED_FORMS["short side branches"](m),
        published.unbranched_sums(2 * m),
    )
    for quantity, paper, value in (
        ("D1 / D1 of chain", 0.5, branched.D1 / dense.D1),
        ("D2 / D2 of chain", 0.25, branched.D2 / dense.D2),
    ):
        where = f"short side branches, n = {2 * m}"
        out.append(row("section 4.2", where, quantity, paper, round(value, 3)))
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
    body_sums = tree_sums(robot.parent)
    return [
        row(where, "humanoid", "D1 expanded", 219, sums.D1),
        row(where, "humanoid", "D2 expanded", 1039, sums.D2),
        row(where, "humanoid", "nonzeros of H", 468, sums.nonzeros),
        row(where, "humanoid", "zeros of H", 432, zeros, "given"),
        row(where, "humanoid", "percent zeros", 48, round(100 * zeros / 900), "given"),
        *(
            row(where, who, f"{what}, executed", paper, counts[what])
            for who, what, paper, counts in (
                ("humanoid", "factorise", "1258m + 1039a", ran),
                ("humanoid", "back-substitute", "468m + 438a", ran),
                ("dense 30 x 30", "factorise", "4930m + 4495a", ran_dense),
                ("dense 30 x 30", "back-substitute", "900m + 870a", ran_dense),
            )
        ),
        row(where, "humanoid", "D0, D1", "24 84", f"{body_sums.D0} {body_sums.D1}"),
        row(
            where,
            "humanoid",
            "D0a D1a D0b D1b D0c D1c",
            "21 66 3 18 1 6",
            joined(humanoid_crba),
        ),
        row(where, "chain", "D0a D1a D0b D1b D0c D1c", "24 300 0 0 1 24", joined(chain_crba)),
        row(where, "humanoid", "JSIM, formula", "2475m + 2124a", a, "given"),
        row(where, "humanoid", "JSIM, executed", "2475m + 2124a", run),
        row(where, "chain", "JSIM, formula", "6462m + 4419a", b, "given"),
        row(where, "chain", "JSIM, executed", "6462m + 4419a", chain_run),
        row(where, "chain / humanoid", "JSIM, a = m", 2.37, b.total / a.total, "given"),
        row(
            where,
            "chain / humanoid",
            "JSIM, a = 0",
            2.61,
            b.multiplications / a.multiplications,
            "given",
        ),
    ]


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
        ("humanoid", "C by RNEA"): "2275m + 1996a",
        ("chain", "C by RNEA"): "2263m + 1972a",
        ("humanoid", "via CRBA"): "6476m + 5597a",
        ("chain", "via CRBA"): "14555m + 11756a",
        ("humanoid", "via ABA"): "5544m + 5054a",
        ("chain", "via ABA"): "5346m + 4883a",
    }
    where = "section 6"
    out = [
        row(where, who, what, value, counts[who][what], "given")
        for (who, what), value in paper.items()
    ]
    a, b = human["via CRBA"], chain["via CRBA"]
    aba = human["via ABA"]
    ratios = (
        ("chain / humanoid", "via CRBA, a = m", 2.18, b.total / a.total),
        ("chain / humanoid", "a = 0", 2.25, b.multiplications / a.multiplications),
        ("CRBA / ABA, humanoid", "a = m", 1.14, a.total / aba.total),
        ("CRBA / ABA, humanoid", "a = 0", 1.17, a.multiplications / aba.multiplications),
        ("CRBA / ABA, chain", "a = m", 2.6, b.total / chain["via ABA"].total),
    )
    return [*out, *(row("figure 7", *ratio, "given") for ratio in ratios)]


def accuracy_rows() -> list[Row]:
    """Section 2: error of H^-1 b by LTL over that by LAPACK's Cholesky, median of 50 states.

    The paper names neither its matrices nor its measure: "slightly more accurate" than
    MATLAB's Cholesky with much sparsity, "slightly less" with little.
    """
    what, why = "error of H^-1 b / Cholesky's", "the paper names no matrices and no measure"
    out = []
    for robot, paper in (
        (synthetic.balanced_tree(6), "slightly more accurate"),
        (synthetic.humanoid30(), "slightly more accurate"),
        (synthetic.chain(30), "slightly less accurate"),
    ):
        ratio = solve_error_ratio(robot, states=50)
        right = (ratio < 1) == ("more" in paper)
        out.append(
            row("section 2", f"LTL, {robot.name}", what, paper, ratio, holds=right, why=why)
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
