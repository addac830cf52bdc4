"""Simulation of trees in contact with a plane: integrators, contact, friction, energy."""

from dynsys.simulation.contact_inertia import ROUTES, ContactInertia, Route
from dynsys.simulation.contacts import ContactPoints, Ground
from dynsys.simulation.drives import Drives
from dynsys.simulation.friction import Impulses, solve_contacts
from dynsys.simulation.simulator import Integrator, Record, Simulation, SimulationState

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
