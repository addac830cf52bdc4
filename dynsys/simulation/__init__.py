"""Simulation of trees in contact with a plane: integrators, contact, friction, energy."""

from dynsys.simulation.contacts import (
    ROUTES,
    ContactInertia,
    ContactPoints,
    Ground,
    Impulses,
    Route,
    solve_contacts,
)
from dynsys.simulation.simulator import Drives, Integrator, Record, Simulation, SimulationState

__all__ = [
    "ROUTES",
    "ContactInertia",
    "ContactPoints",
    "Drives",
    "Ground",
    "Impulses",
    "Integrator",
    "Record",
    "Route",
    "Simulation",
    "SimulationState",
    "solve_contacts",
]
