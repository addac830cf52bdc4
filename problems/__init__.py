"""Problems on the linear system D(q) d + b(q, qd) = 0: dynamics, estimation from sensors."""

from typing import TYPE_CHECKING

from dynsys.lazy import lazy_names

if TYPE_CHECKING:
    from dynsys.errors import ContradictionError
    from problems.derivatives import Derivatives
    from problems.dynamics import ForwardDynamics, HybridDynamics, InverseDynamics
    from problems.estimation.alignment import Alignment, align_sensor
    from problems.estimation.calibration import Calibration, calibrate_offsets
    from problems.estimation.derivatives import EstimateDerivatives
    from problems.estimation.estimate import Estimate, Suspect
    from problems.estimation.estimation import Estimation
    from problems.estimation.noise import NoiseEstimate, estimate_noise
    from problems.estimation.predict import Prediction, predict
    from problems.held_verdict import HeldVerdict
    from problems.identification.identification import Identification
    from problems.measured.prior import Prior
    from problems.placement.placement import Candidate, Placement, place_sensors
    from problems.problem import AbstractDynamics, AbstractProblem
    from problems.products import Gradient
    from problems.solution import NamedVectors, Solution
    from problems.verdict.verdict import Verdict

__all__ = [
    "AbstractDynamics",
    "AbstractProblem",
    "Alignment",
    "Calibration",
    "Candidate",
    "ContradictionError",
    "Derivatives",
    "Estimate",
    "EstimateDerivatives",
    "Estimation",
    "ForwardDynamics",
    "Gradient",
    "HeldVerdict",
    "HybridDynamics",
    "Identification",
    "InverseDynamics",
    "NamedVectors",
    "NoiseEstimate",
    "Placement",
    "Prediction",
    "Prior",
    "Solution",
    "Suspect",
    "Verdict",
    "align_sensor",
    "calibrate_offsets",
    "estimate_noise",
    "place_sensors",
    "predict",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "dynsys.errors": "ContradictionError",
        "problems.derivatives": "Derivatives",
        "problems.dynamics": "ForwardDynamics HybridDynamics InverseDynamics",
        "problems.estimation.alignment": "Alignment align_sensor",
        "problems.estimation.calibration": "Calibration calibrate_offsets",
        "problems.estimation.derivatives": "EstimateDerivatives",
        "problems.estimation.estimate": "Estimate Suspect",
        "problems.estimation.estimation": "Estimation",
        "problems.estimation.noise": "NoiseEstimate estimate_noise",
        "problems.estimation.predict": "Prediction predict",
        "problems.held_verdict": "HeldVerdict",
        "problems.identification.identification": "Identification",
        "problems.measured.prior": "Prior",
        "problems.placement.placement": "Candidate Placement place_sensors",
        "problems.problem": "AbstractDynamics AbstractProblem",
        "problems.products": "Gradient",
        "problems.solution": "NamedVectors Solution",
        "problems.verdict.verdict": "Verdict",
    },
)
