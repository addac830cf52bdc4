"""The recursive gold standards: one algorithm, one module, scalars of any kind."""

from dynsys.recursive.aba import aba
from dynsys.recursive.coriolis import coriolis_matrix
from dynsys.recursive.crba import crba
from dynsys.recursive.jacobian import jacobian
from dynsys.recursive.kinematics import forward_kinematics
from dynsys.recursive.momentum import (
    centre_of_mass,
    centre_of_mass_jacobian,
    centroidal_momentum,
    centroidal_momentum_bias,
    centroidal_momentum_matrix,
    kinetic_energy,
    momentum,
    potential_energy,
)
from dynsys.recursive.rnea import rnea

__all__ = [
    "aba",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_bias",
    "centroidal_momentum_matrix",
    "coriolis_matrix",
    "crba",
    "forward_kinematics",
    "jacobian",
    "kinetic_energy",
    "momentum",
    "potential_energy",
    "rnea",
]
