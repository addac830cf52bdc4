"""Numerical edges of estimation: is the true error of every determined quantity covered?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from dynsys.errors import DynsysError
from dynsys.types import Array
from experiments.trust.edges_estimation_cases import EstimationEdge
from experiments.trust.edges_estimation_oracle import exact_unknowns
from experiments.trust.edges_verdict import Verdict
from problems.estimation.estimate import QUANTITIES, Estimate, Quantity
from problems.estimation.trust import EstimateTrust

__all__ = ["judge_estimation_edge"]

ZERO = 1e-30


def judge_estimation_edge(family: str, edge: EstimationEdge) -> Verdict:
    """Estimate at an edge, and compare with 60 decimal digits."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimate = edge.problem.solve(edge.q, edge.qd, edge.y, active=edge.active)
            trust = estimate.trust()
        except DynsysError as error:
            text = f"{type(error).__name__}: {str(error)[:120]}"
            return Verdict(family, edge.name, "estimation", True, error=text)
    return _verdict(family, edge, estimate, trust)


def _verdict(
    family: str, edge: EstimationEdge, estimate: Estimate, trust: EstimateTrust
) -> Verdict:
    rows = edge.problem.measured.pack(edge.y, edge.active, None)
    exact = exact_unknowns(edge.problem, edge.q, edge.qd, rows)
    columns = edge.problem.system.unknowns.columns
    errors: dict[Quantity, Array] = {}
    scales: dict[Quantity, float] = {}
    covered = True
    for kind in QUANTITIES:
        found, truth = estimate.values[kind].array, exact[columns(kind)]
        known = np.isfinite(found)
        missed = [abs(float(t - f)) for f, t in zip(found[known], truth[known], strict=True)]
        errors[kind] = np.array(missed)
        scales[kind] = max((abs(float(t)) for t in truth[known]), default=0.0)
        bound = trust.error[kind][known]
        covered &= bool((errors[kind] <= bound).all())
        covered &= bool(np.isnan(trust.error[kind][~known]).all())
        covered &= bool((estimate.determined[kind].array == known).all())
    bounds: Mapping[Quantity, Array] = {
        kind: trust.error[kind][~np.isnan(trust.error[kind])] for kind in QUANTITIES
    }
    if not any(len(bounds[kind]) for kind in ("torque", "qdd")):
        return Verdict(family, edge.name, "estimation", covered, error="undetermined")
    return Verdict(
        family,
        edge.name,
        "estimation",
        covered,
        _relative(errors, scales),
        _relative(bounds, scales),
        float(np.max(trust.condition)),
    )


def _relative(errors: Mapping[Quantity, Array], scales: Mapping[Quantity, float]) -> float:
    """Largest error of torque and qdd, each relative to its largest entry unless all are 0."""
    relative = []
    for kind in ("torque", "qdd"):
        scale = scales[kind] if scales[kind] > ZERO else 1.0
        relative.append(float(np.max(errors[kind], initial=0.0)) / scale)
    return max(relative)
