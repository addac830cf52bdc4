"""What the numbers of the experiment say, in words, and whether its claims came out."""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.ordering.umfpack import UmfpackLibrary
from experiments.paper_rows import Row

__all__ = ["FIGURE_1", "FIGURE_2", "holds", "notes"]

FIGURE_1, FIGURE_2 = "figure 1, forward dynamics", "figure 2, load cells"


def notes(found: Sequence[Row]) -> list[str]:
    """Where the published counts hold and where they do not, with the numbers found."""
    value = {(row.table, row.row, row.quantity): row.ours for row in found}

    def number(*key: str) -> float:
        return float(value[key])  # type: ignore[arg-type]

    largest = max(int(r.row[4:]) for r in found if r.table == FIGURE_1 and _published(r))
    at = f"N = {largest}"
    true, published, aba = (
        sum(
            number(FIGURE_1, at, f"{what}, {kind}") for kind in ("additions", "multiplications")
        )
        for what in ("permuted LU, true", "permuted LU, published rules", "ABA, closed form")
    )
    ratios = {
        row.row: float(row.ours)  # type: ignore[arg-type]
        for row in found
        if row.quantity == "permuted LU, true / ours" and int(row.row[4:]) >= 8
    }
    over = [r for r in found if r.quantity == "ours / ABA" and float(r.ours) > 1]  # type: ignore[arg-type]
    worst, farthest = _farthest(found)
    library = "UMFPACK" if UmfpackLibrary.find() is not None else "SuperLU with COLAMD"
    return [
        f"Permuted LU by {library}, a new order at every state as in the scripts.",
        "ABA's closed form holds. The counts of LU hold as counts by the scripts' rules: ours,"
        f" means over states, agree with theirs, of one random state, within {worst:.1%} (the"
        f" farthest is {farthest.quantity} at {farthest.row}: {farthest.paper} there,"
        f" {farthest.ours} here).",
        f"As operations they do not hold: at {at} the rules give permuted LU {published:.0f}"
        f" against ABA's {aba:.0f}, executed are {true:.0f}, {true / aba:.1f} times ABA. The"
        " rules take the entrywise product of a pivot's row and column for the outer one.",
        "Matrix ABA is counted without its articulated inertias and without products in sums of"
        " several; with these products it is far above ABA.",
        f"Ours is {'at or below' if not over else 'above'} ABA's closed form"
        + (" for every N tried" if not over else f" at {', '.join(r.row for r in over)}")
        + ", entries of D and b included, which the counts of LU leave out.",
        "Load cells: permuted LU executes"
        f" {min(ratios.values()):.1f} to {max(ratios.values()):.1f} times the operations of"
        " ours (RNEA with open parameters, torques only) for N >= 8.",
        "Inverse dynamics is triangular in every size tried, and peeling finds it in linear"
        " time. Remark 3's NP-completeness is no obstacle: of a regular matrix a triangular"
        " form either peels or does not exist.",
        "Property 3 says that some pose of the feet is singular; all are: two planes meet in a"
        " line, and opposite forces along it are seen by neither plate.",
    ]


def _published(row: Row) -> bool:
    return row.quantity.startswith("permuted LU, published") and row.paper is not None


def _farthest(found: Sequence[Row]) -> tuple[float, Row]:
    """Largest deviation of LU and permuted LU by the published rules from the scripts'."""
    compared = [
        row for row in found if "LU, published rules" in row.quantity and row.paper is not None
    ]
    deviations = [abs(float(row.ours) / float(row.paper) - 1) for row in compared]  # type: ignore[arg-type]
    worst = max(range(len(compared)), key=deviations.__getitem__)
    return deviations[worst], compared[worst]


def holds(found: Sequence[Row]) -> bool:
    """Whether what this experiment claims came out."""
    for row in found:
        if row.quantity == "ours / ABA" and float(row.ours) > 1:  # type: ignore[arg-type]
            return False
        if "ABA, closed form" in row.quantity and row.agrees is False:
            return False
        ratio = row.quantity == "permuted LU, true / ours" and int(row.row[4:]) >= 8
        if ratio and float(row.ours) < 2:  # type: ignore[arg-type]
            return False
    tables = ("published sets", "Remark 5", "triangularisation of inverse dynamics")
    return all(row.agrees is not False for row in found if row.table in tables)
