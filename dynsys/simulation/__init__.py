"""Simulation of trees in contact with a plane: steps, contact, friction, closures, records."""

from dynsys.simulation.contacts import (
    ROUTES,
    Closure,
    ContactInertia,
    ContactPoints,
    Ground,
    Route,
)
from dynsys.simulation.impulses import Impulses, solve_contacts
from dynsys.simulation.simulator import Drives, Integrator, Record, Simulation, SimulationState

__all__ = [
    "ROUTES",
    "Closure",
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
