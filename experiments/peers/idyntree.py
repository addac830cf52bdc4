"""iDynTree's estimators as contenders: BERDY and ExtWrenchesAndJointTorquesEstimator.

BERDY is timed as update + doEstimate, with diagonal priors tuned to it (constraints 1e4,
regularisation 1e-4, measurements 1e3 as inverse covariances). Its truth is a random point of
its own constraints, its data are exact. Loaders and models are kept alive by hand: the bindings
do not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import idyntree.swig as idt
import numpy as np

from dynsys.types import Array

__all__ = ["Berdy", "ExternalWrenches", "links_and_joints", "quiet"]

GRAVITY = (0.0, 0.0, -9.81)
OMEGA = (0.1, -0.2, 0.3)
INVERSE_COVARIANCES = {"constraints": 1e4, "regularisation": 1e-4, "measurements": 1e3}


@contextmanager
def quiet() -> Iterator[None]:
    """Let go what the library writes to standard error: a line per texture of a robot file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _names(words: Sequence[str]) -> Any:
    vector = idt.StringVector()
    for word in words:
        vector.push_back(word)
    return vector


def links_and_joints(urdf: str) -> tuple[list[str], list[str]]:
    """Names of all links, and of the joints that move."""
    loader = idt.ModelLoader()
    if not loader.loadModelFromFile(urdf):
        raise OSError(f"iDynTree cannot read {urdf}")
    model = loader.model()
    links = [model.getLinkName(i) for i in range(model.getNrOfLinks())]
    joints = [
        model.getJointName(j)
        for j in range(model.getNrOfJoints())
        if model.getJoint(j).getNrOfDOFs() == 1
    ]
    return links, joints


@final
@dataclass(eq=False)
class Berdy:
    """One BERDY problem at ``n_states`` random states.

    Parameters
    ----------
    urdf, joints : file, and the joints kept; None keeps fixed joints too (and their FTs).
    floating : base variant.
    qdd, torque : whether all joint accelerations, all torques are measured.
    imu_links : links with accelerometer and gyroscope.
    """

    urdf: str
    joints: Sequence[str] | None
    floating: bool
    qdd: bool
    torque: bool
    imu_links: Sequence[str] = ()
    n_states: int = 32
    error: float = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self._helper = idt.BerdyHelper()
        if not self._helper.init(self._model(), self._options()):
            raise RuntimeError("BerdyHelper.init failed")
        model = self._helper.model()
        self._base = self._helper.dynamicTraversal().getBaseLink().getIndex()
        self._solver = idt.BerdySparseMAPSolver(self._helper)
        self._set_priors()
        n_q, n_v = model.getNrOfPosCoords(), model.getNrOfDOFs()
        states = [
            (
                idt.JointPosDoubleArray.FromPython(rng.uniform(-1, 1, n_q)),
                idt.JointDOFsDoubleArray.FromPython(rng.uniform(-1, 1, n_v)),
            )
            for _ in range(self.n_states)
        ]
        self._gravity = idt.Vector3.FromPython(list(GRAVITY))
        self._omega = idt.Vector3.FromPython(list(OMEGA))
        truths = [self._truth(state, rng) for state in states]
        self._runs = [
            (*state, idt.VectorDynSize.FromPython(y))
            for state, (_, y) in zip(states, truths, strict=True)
        ]
        self.error = max(
            float(np.abs(self._estimate(*run) - d).max() / np.abs(d).max())
            for run, (d, _) in zip(self._runs, truths, strict=True)
        )

    def _model(self) -> Any:
        loader = idt.ModelLoader()
        if self.joints is None:
            loader.loadModelFromFile(self.urdf)
        else:
            loader.loadReducedModelFromFile(self.urdf, _names(self.joints))
        model = loader.model().copy()
        if not self.floating:
            model.sensors().removeAllSensorsOfType(idt.SIX_AXIS_FORCE_TORQUE)
        for link in self.imu_links:
            for kind in (idt.AccelerometerSensor, idt.GyroscopeSensor):
                sensor = kind()
                sensor.setName(f"{link}_{kind.__name__}")
                sensor.setParentLink(link)
                sensor.setParentLinkIndex(model.getLinkIndex(link))
                sensor.setLinkSensorTransform(idt.Transform.Identity())
                model.sensors().addSensor(sensor)
        self._keep = (loader, model)
        return model

    def _options(self) -> Any:
        options = idt.BerdyOptions()
        options.berdyVariant = (
            idt.BERDY_FLOATING_BASE if self.floating else idt.ORIGINAL_BERDY_FIXED_BASE
        )
        options.includeAllNetExternalWrenchesAsDynamicVariables = True
        options.includeAllNetExternalWrenchesAsSensors = True
        options.includeAllJointAccelerationsAsSensors = self.qdd
        options.includeAllJointTorquesAsSensors = self.torque
        return options

    def _set_priors(self) -> None:
        solver = self._solver
        for matrix, value in (
            (solver.dynamicsConstraintsPriorCovarianceInverse(), "constraints"),
            (solver.dynamicsRegularizationPriorCovarianceInverse(), "regularisation"),
            (solver.measurementsPriorCovarianceInverse(), "measurements"),
        ):
            for k in range(matrix.rows()):
                matrix.setValue(k, k, INVERSE_COVARIANCES[value])

    def _truth(self, state: tuple[Any, Any], rng: np.random.Generator) -> tuple[Array, Array]:
        """A random d with D d + b_D = 0, and its exact measurements."""
        helper = self._helper
        if self.floating:
            helper.updateKinematicsFromFloatingBase(*state, self._base, self._omega)
        else:
            helper.updateKinematicsFromFixedBase(*state, self._base, self._gravity)
        D, Y = idt.MatrixDynSize(), idt.MatrixDynSize()
        b_D, b_Y = idt.VectorDynSize(), idt.VectorDynSize()
        helper.resizeAndZeroBerdyMatrices(D, b_D, Y, b_Y)
        helper.getBerdyMatrices(D, b_D, Y, b_Y)
        A, a = D.toNumPy().copy(), b_D.toNumPy().copy()
        d = rng.uniform(-1, 1, A.shape[1])
        d = d - np.linalg.lstsq(A, A @ d + a, rcond=None)[0]
        return d, Y.toNumPy() @ d + b_Y.toNumPy()

    def _solve(self, q: Any, qd: Any, y: Any) -> None:
        if self.floating:
            self._solver.updateEstimateInformationFloatingBase(
                q, qd, self._base, self._omega, y
            )
        else:
            self._solver.updateEstimateInformationFixedBase(q, qd, self._base, self._gravity, y)
        self._solver.doEstimate()

    def _estimate(self, q: Any, qd: Any, y: Any) -> Array:
        self._solve(q, qd, y)
        return np.array(self._solver.getLastEstimate().toNumPy())

    def run(self, repeats: int) -> None:
        """Estimate every state ``repeats`` times."""
        for _ in range(repeats):
            for state in self._runs:
                self._solve(*state)


@final
class ExternalWrenches:
    """ExtWrenchesAndJointTorquesEstimator: FTs cut the robot, one unknown contact per piece.

    ``contacts`` are the frames with unknown wrenches besides the base. ``ft``, ``torque`` are
    the data and the answer at each state, FTs by name.
    """

    def __init__(
        self, urdf: str, joints: Sequence[str], contacts: Sequence[str], n_states: int = 32
    ) -> None:
        rng = np.random.default_rng(0)
        self._estimator = idt.ExtWrenchesAndJointTorquesEstimator()
        if not self._estimator.loadModelAndSensorsFromFileWithSpecifiedDOFs(
            urdf, _names(joints)
        ):
            raise OSError(f"iDynTree cannot read {urdf}")
        model = self._estimator.model()
        self._base = model.getDefaultBaseLink()
        self._gravity = idt.Vector3.FromPython(list(GRAVITY))
        base_only, self._unknown = (idt.LinkUnknownWrenchContacts(model) for _ in range(2))
        base_frame = model.getFrameName(self._base)
        for contacts_of, frames in (
            (base_only, [base_frame]),
            (self._unknown, [base_frame, *contacts]),
        ):
            for frame in frames:
                contact = idt.UnknownWrenchContact()
                contact.unknownType = idt.FULL_WRENCH
                contact.contactPoint.zero()
                contacts_of.addNewContactInFrame(model, model.getFrameIndex(frame), contact)
        self._wrenches = idt.LinkContactWrenches(model)
        self._torque = idt.JointDOFsDoubleArray(model)
        self.states = rng.uniform(-1, 1, (n_states, 3, model.getNrOfDOFs()))
        self._runs = [self._expected(state, base_only) for state in self.states]
        self.truth = np.array([torque for _, _, torque in self._runs])
        self.error = self._largest_error()

    def _expected(self, state: Array, contacts: Any) -> tuple[tuple[Any, ...], Any, Array]:
        """Kinematics, what the FTs would read without contacts, and the torques."""
        q = idt.JointPosDoubleArray.FromPython(state[0])
        motion = (q, *(idt.JointDOFsDoubleArray.FromPython(x) for x in state[1:]))
        readings = idt.SensorsMeasurements(self._estimator.model().sensors())
        self._estimator.updateKinematicsFromFixedBase(*motion, self._base, self._gravity)
        self._estimator.computeExpectedFTSensorsMeasurements(
            contacts, readings, self._wrenches, self._torque
        )
        return motion, readings, np.array(self._torque.toNumPy())

    def _largest_error(self) -> float:
        worst = 0.0
        for motion, readings, torque in self._runs:
            self._solve(motion, readings)
            found = self._torque.toNumPy()
            worst = max(worst, float(np.abs(found - torque).max() / np.abs(torque).max()))
        return worst

    def _solve(self, motion: tuple[Any, ...], readings: Any) -> None:
        self._estimator.updateKinematicsFromFixedBase(*motion, self._base, self._gravity)
        self._estimator.estimateExtWrenchesAndJointTorques(
            self._unknown, readings, self._wrenches, self._torque
        )

    def run(self, repeats: int) -> None:
        """Estimate every state ``repeats`` times."""
        for _ in range(repeats):
            for motion, readings, _ in self._runs:
                self._solve(motion, readings)
