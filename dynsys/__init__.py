"""dynsys: rigid-body dynamics as one sparse linear system.

Mechanics and sparse linear systems; sensors and problems are packages of their own on top.
"""

from typing import TYPE_CHECKING

from dynsys.lazy import lazy_names

if TYPE_CHECKING:
    from dynsys import interop
    from dynsys.errors import (
        DynsysError,
        KernelBuildError,
        LayoutError,
        ModelError,
        ModelWarning,
        PlanMismatchError,
        SingularSystemError,
        StateError,
        StructurallySingularError,
    )
    from dynsys.kernel.quantities import specialise
    from dynsys.loops.inverse_inertia import (
        InverseInertia,
        inverse_inertia,
        inverse_inertia_times,
    )
    from dynsys.model import synthetic
    from dynsys.model.constraints import FrameConstraint, JointConstraint
    from dynsys.model.contacts import Contact
    from dynsys.model.readers import load
    from dynsys.model.tree import KinematicTree
    from dynsys.motion import (
        centre_of_mass,
        centre_of_mass_jacobian,
        centroidal_momentum,
        centroidal_momentum_bias,
        centroidal_momentum_matrix,
        coriolis_matrix,
        kinetic_energy,
        momentum,
        potential_energy,
    )
    from dynsys.operational.operational_space import OperationalSpace, operational_space
    from dynsys.operational.tasks import BodyMotion, CentreOfMass, Posture, RelativeMotion
    from dynsys.plan.plan import Plan
    from dynsys.recursive import forward_kinematics
    from dynsys.recursive.sparse_factors import (
        ltdl,
        ltl,
        mul_L,
        mul_LT,
        solve_L,
        solve_LT,
        solve_ltdl,
        solve_ltl,
    )
    from dynsys.system.linear_system import LinearSystem
    from dynsys.verbs import aba, crba, jacobian, rnea

__all__ = [
    "BodyMotion",
    "CentreOfMass",
    "Contact",
    "DynsysError",
    "FrameConstraint",
    "InverseInertia",
    "JointConstraint",
    "KernelBuildError",
    "KinematicTree",
    "LayoutError",
    "LinearSystem",
    "ModelError",
    "ModelWarning",
    "OperationalSpace",
    "Plan",
    "PlanMismatchError",
    "Posture",
    "RelativeMotion",
    "SingularSystemError",
    "StateError",
    "StructurallySingularError",
    "aba",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_bias",
    "centroidal_momentum_matrix",
    "coriolis_matrix",
    "crba",
    "forward_kinematics",
    "interop",
    "inverse_inertia",
    "inverse_inertia_times",
    "jacobian",
    "kinetic_energy",
    "load",
    "ltdl",
    "ltl",
    "momentum",
    "mul_L",
    "mul_LT",
    "operational_space",
    "potential_energy",
    "rnea",
    "solve_L",
    "solve_LT",
    "solve_ltdl",
    "solve_ltl",
    "specialise",
    "synthetic",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "dynsys.errors": (
            "DynsysError KernelBuildError LayoutError ModelError ModelWarning "
            "PlanMismatchError SingularSystemError StateError StructurallySingularError"
        ),
        "dynsys.kernel.quantities": "specialise",
        "dynsys.loops.inverse_inertia": "InverseInertia inverse_inertia inverse_inertia_times",
        "dynsys.model": "synthetic",
        "dynsys.model.constraints": "FrameConstraint JointConstraint",
        "dynsys.model.contacts": "Contact",
        "dynsys.model.readers": "load",
        "dynsys.model.tree": "KinematicTree",
        "dynsys.motion": (
            "centre_of_mass centre_of_mass_jacobian centroidal_momentum "
            "centroidal_momentum_bias centroidal_momentum_matrix coriolis_matrix "
            "kinetic_energy momentum potential_energy"
        ),
        "dynsys.operational": (
            "BodyMotion CentreOfMass OperationalSpace Posture RelativeMotion operational_space"
        ),
        "dynsys.plan.plan": "Plan",
        "dynsys.recursive": "forward_kinematics",
        "dynsys.recursive.sparse_factors": (
            "ltdl ltl mul_L mul_LT solve_L solve_LT solve_ltdl solve_ltl"
        ),
        "dynsys.system.linear_system": "LinearSystem",
        "dynsys.verbs": "aba crba jacobian rnea",
    },
)
