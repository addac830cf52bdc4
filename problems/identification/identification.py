"""Identification: parameters of a robot from its motion and any sensors.

    y = R(q, qd, qdd) theta + E(q) x + c

The laws are linear in inertias, friction, rotors and offsets once the motion is known, whatever
the sensors measure: joint torques, motor currents, force/torque sensors, force plates, or the
ground forces of a floating base without any joint torque. What a layout and a motion can see of
the parameters is said before a robot moves (:meth:`Identification.verdict`); a log gives values
with deviations (:meth:`Identification.fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np

from dynsys.errors import StateError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike
from problems.identification.fit import HUBER, Fit, Noise, checked_log, fit_parameters
from problems.identification.parameter_set import Choice, ParameterSet
from problems.identification.seen import Seen, seen_by
from problems.identification.weighted import Log
from problems.measured.measured_system import Readings
from sensors.layout import Layout

__all__ = ["Identification"]


@final
class Identification:
    """Parameters of a robot as unknowns of its measured equations.

    Parameters
    ----------
    robot, layout
        the model, which gives all values to start from, and the sensors.
    inertia : bodies whose ten inertial parameters are sought: True, False or names.
    friction, rotor, offset : joints whose viscous and Coulomb friction, rotor inertia and
        constant torque are sought. True: those whose torque some reading sees.
    asymmetric : joints whose dry friction differs with the direction.
    sensor_offset, sensor_gain : sensors whose readings have a constant error, or a factor:
        a motor constant in N m/A, say. Gains are told apart from masses by other sensors, or
        by the masses that stay at the model's value.
    contacts : bodies that touch something unknown, other at every sample, beside those that
        the layout says are: bodies on whose external wrench there is some reading; and where
        it states that nothing touches some bodies, all others. Else bodies move freely.

    Raises
    ------
    LayoutError
        naming a sensor whose reading is not linear in the parameters.
    ModelError
        naming a body, joint or sensor that is none.

    Examples
    --------
    >>> import dynsys, sensors
    >>> robot = dynsys.synthetic.chain(2)
    >>> torques = [sensors.JointTorque(f"t_{n}", n, std=0.1) for n in robot.joint_names]
    >>> identification = Identification(robot, sensors.Layout(robot, torques))
    >>> identification.parameters[:2], len(identification.parameters)
    (('link_1.mass', 'link_1.mx'), 28)
    """

    robot: KinematicTree
    layout: Layout

    def __init__(
        self,
        robot: KinematicTree,
        layout: Layout,
        inertia: Choice = True,
        friction: Choice = True,
        rotor: Choice = True,
        offset: Choice = True,
        *,
        asymmetric: Choice = False,
        sensor_offset: Choice = False,
        sensor_gain: Choice = False,
        contacts: Sequence[str] = (),
    ) -> None:
        joints = {"viscous": friction, "coulomb": friction, "coulomb_minus": asymmetric}
        joints |= {"armature": rotor, "offset": offset}
        errors = {"offset": sensor_offset, "gain": sensor_gain}
        if isinstance(layout, Layout) and isinstance(robot, KinematicTree):
            robot = layout.touched(robot)
        self.sought = ParameterSet.of(robot, layout, inertia, joints, errors, contacts)
        self.robot, self.layout = robot, layout

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the columns of the regressor."""
        return self.sought.names

    def regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """R (rows of the layout, parameters) at one state."""
        robot = self.robot
        state = robot.check_q(q), robot.check_v(qd, "qd"), robot.check_v(qdd, "qdd")
        return self.sought.rows(*state).checked().theta

    def regressor_batch(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """R (N, rows, parameters) at N states."""
        log = checked_log(self.sought, q, qd, qdd, None)
        return self.sought.rows(log.q, log.qd, log.qdd).checked().theta

    def verdict(
        self,
        q: ArrayLike | None = None,
        qd: ArrayLike | None = None,
        qdd: ArrayLike | None = None,
    ) -> Seen:
        """What this layout sees of the parameters: by some motion (N, ...), or by any.

        Without a motion random states within the limits take its place: the base parameters.
        """
        if q is None and qd is None and qdd is None:
            return seen_by(self.sought, None)
        if q is None or qd is None or qdd is None:
            raise StateError("a motion is q, qd and qdd: give all three, or none of them")
        log = checked_log(self.sought, q, qd, qdd, None)
        return seen_by(self.sought, Log(log.q, log.qd, log.qdd, np.zeros_like(log.y)))

    def fit(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        y: Readings,
        physical: bool = True,
        *,
        noise: Noise = "estimate",
        huber: float | None = HUBER,
        sizes: Mapping[str, float] | None = None,
    ) -> Fit:
        """Fit the parameters to a log; see :mod:`problems.identification.fit`.

        ``fit.least_squares.words`` name readings and combinations of parameters in which the
        fit departs from its data (:mod:`problems.identification.least_squares`).

        Parameters
        ----------
        q, qd, qdd : motion (N, nq), (N, nv), (N, nv).
        y : readings (N, rows), or by sensor name; NaN for none.
        physical : inertias that some body has, friction and rotors that are not negative.
        noise : ``estimate`` takes the deviation of each reading from its residuals, ``layout``
            the one that the layout states.
        huber : residuals beyond so many deviations count by their size, not its square; None
            for plain least squares.
        sizes : natural size by name of parameter, in place of the usual ones: how far it may
            be expected from the model's value.
        """
        log = checked_log(self.sought, q, qd, qdd, y)
        scale = self.sought.scaled(sizes or {})
        return fit_parameters(
            self.sought, log, scale, physical=physical, noise=noise, huber=huber
        )
