"""The robot in viser's page: meshes or rounded solids, sensors, contact forces.

A contact force is an arrow from the frame it acts at; the ball at its tip spans two standard
deviations along each axis of the frame. Nothing here knows of time: :meth:`RobotScene.show`
draws one posture and its forces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import poses, transforms
from dynsys.types import Array, IntArray
from problems.problem_file import ProblemFile
from problems.studio.shapes import Ball, body_balls, robot_size
from problems.visuals import Visual, read_visuals, simplified
from sensors import AbstractSensor

__all__ = ["RobotScene", "hull_of"]

GREY, BODY, FORCE = (120, 128, 138), (150, 160, 172), (217, 89, 25)
KINDS = {
    "imu": (52, 120, 246),
    "accelerometer": (52, 120, 246),
    "gyroscope": (52, 120, 246),
    "force_torque": (230, 150, 20),
    "joint_torque": (40, 160, 90),
    "motor_torque": (40, 160, 90),
}
"""Colours of sensors; others are grey."""
LABELLED = ("imu", "accelerometer", "gyroscope", "force_torque", "force_plate")
GLASS = 0.5
MOST_TRIANGLES = 2500
"""Of a body's meshes."""
LONGEST = 0.4
"""Length of the longest arrow, part of the robot's size."""


@final
class RobotScene:
    """Draws a robot on a server of viser.

    Attributes
    ----------
    notes : why meshes are missing, if any are.
    has_shapes : True if the file's shapes are drawn.
    """

    def __init__(
        self, server: Any, problem: ProblemFile, frames: tuple[str, ...], meshes: bool = True
    ) -> None:
        self._server, self._robot = server, problem.tree
        self._frames = frames
        self.size = robot_size(self._robot)
        self.notes: tuple[str, ...] = ()
        self.has_shapes = False
        scene = server.scene
        scene.set_up_direction("+z")
        self._ground = scene.add_grid(
            "/ground", width=4.0 * self.size, height=4.0 * self.size, cell_size=0.25 * self.size
        )
        self._skins: list[Any] = []
        self._bodies = [
            scene.add_frame(f"/robot/{i}_{name}", show_axes=False)
            for i, name in enumerate(self._robot.body_names)
        ]
        covered = self._draw_file(problem) if meshes else set()
        self._draw_solids(covered)
        self._draw_sensors(problem)
        self._prepare_forces()

    # ---- what does not change ------------------------------------------------------------

    def _body_path(self, body: int) -> str:
        return f"/robot/{body}_{self._robot.body_names[body]}" if body >= 0 else "/base"

    def _draw_file(self, problem: ProblemFile) -> set[int]:
        """Shapes of the robot's file; the bodies that have some."""
        path = problem.robot_path
        try:
            if path is None:
                return set()
            found = read_visuals(path, self._robot)
        except ModelError as error:
            self.notes = (str(error),)
            return set()
        self.notes = found.notes
        for k, shape in enumerate(_coarse(found.shapes)):
            name = f"{self._body_path(shape.body)}/shape_{k}"
            self._mesh(name, shape.points, shape.triangles)
        self.has_shapes = bool(found.shapes)
        return {shape.body for shape in found.shapes}

    def _mesh(self, name: str, points: Array, faces: IntArray) -> None:
        handle = self._server.scene.add_mesh_simple(
            name,
            np.asarray(points, dtype=np.float32),
            np.asarray(faces, dtype=np.uint32),
            color=BODY,
            side="double",
        )
        self._skins.append(handle)

    def see_through(self, on: bool) -> None:
        """Draw bodies as glass: forces from below go through the legs."""
        for handle in self._skins:
            handle.opacity = GLASS if on else None

    def stand_on_ground(self, q: Array) -> tuple[float, float, float]:
        """Put the ground below a free robot at a posture (nq,); the middle of its bodies."""
        placed = poses(self._robot, transforms(self._robot, q))
        points = [np.asarray(pose.r, dtype=np.float64) for pose in placed]
        for frame in self._robot.frames.values():
            if frame.body >= 0:
                points.append(np.asarray(placed[frame.body].point(frame.transform.r), float))
        low, high = np.min(points, axis=0), np.max(points, axis=0)
        if self._robot.joints[0].kind == "free":
            self._ground.position = (0.0, 0.0, float(low[2]))
        x, y, z = (0.5 * (low + high)).tolist()
        return x, y, z

    def _draw_solids(self, covered: set[int]) -> None:
        """Rounded solids, with the masses that the equations know, for all other bodies.

        Where the file has shapes, bodies without any are not meant to be seen.
        """
        if self.has_shapes:
            return
        for body, balls in enumerate(body_balls(self._robot, self.size)):
            if body not in covered:
                self._mesh(f"{self._body_path(body)}/solid", *hull_of(balls))

    def _draw_sensors(self, problem: ProblemFile) -> None:
        for sensor in problem.sensors:
            place = _place(self._robot, sensor)
            if place is None or sensor.constant(1) is not None:
                continue
            body, point = place
            kind = sensor.kind
            path = f"{self._body_path(body)}/sensor_{sensor.name.replace('/', '_')}"
            small = 0.006 if kind.startswith("joint") else 0.014
            self._server.scene.add_icosphere(
                path, radius=small * self.size, color=KINDS.get(kind, GREY), position=point
            )
            if kind in LABELLED:
                self._server.scene.add_label(f"{path}/label", sensor.name)

    def _prepare_forces(self) -> None:
        scene, n = self._server.scene, len(self._frames)
        self._arrows = scene.add_arrows(
            "/forces",
            np.zeros((max(n, 1), 2, 3), dtype=np.float32),
            FORCE,
            shaft_radius=0.008 * self.size,
            head_radius=0.02 * self.size,
            head_length=0.04 * self.size,
            visible=False,
        )
        self._spreads = [
            scene.add_icosphere(
                f"/spread/{name}", radius=1.0, color=FORCE, opacity=0.35, visible=False
            )
            for name in self._frames
        ]

    # ---- one posture ---------------------------------------------------------------------

    def show(
        self, q: Array, force: Array | None = None, std: Array | None = None, scale: float = 0.0
    ) -> None:
        """Draw a posture (nq,) and forces (frames, 3) in N, ``scale`` metres for each."""
        robot = self._robot
        placed = poses(robot, transforms(robot, q))
        turns = np.array([np.asarray(p.E, dtype=np.float64).T for p in placed])
        quaternions = Rotation.from_matrix(turns).as_quat(scalar_first=True)
        with self._server.atomic():
            for handle, pose, turn in zip(self._bodies, placed, quaternions, strict=True):
                handle.wxyz, handle.position = turn, np.asarray(pose.r, dtype=np.float64)
            if force is not None and std is not None and self._frames:
                self._show_forces(placed, turns, force, std, scale)

    def _show_forces(
        self, placed: list[Any], turns: Array, force: Array, std: Array, scale: float
    ) -> None:
        points = np.zeros((len(self._frames), 2, 3))
        for k, name in enumerate(self._frames):
            frame = self._robot.frame(name)
            E = np.asarray(frame.transform.E, dtype=np.float64)
            turn = turns[frame.body] @ E.T  # frame -> world
            start = np.asarray(placed[frame.body].point(frame.transform.r), dtype=np.float64)
            known = bool(np.isfinite(force[k]).all())
            tip = start + scale * (turn @ force[k]) if known else start
            points[k] = start, tip
            ball = self._spreads[k]
            ball.visible = known and bool(np.isfinite(std[k]).all())
            if ball.visible:
                ball.position = tip
                ball.wxyz = Rotation.from_matrix(turn).as_quat(scalar_first=True)
                ball.scale = tuple(np.maximum(2 * scale * std[k], 1e-4).tolist())
        self._arrows.points = points.astype(np.float32)
        self._arrows.visible = True

    def arrow_scale(self, force: Array) -> float:
        """Metres for a newton, so that the longest arrow of a log has its length."""
        known = force[np.isfinite(force).all(axis=-1)]
        largest = float(np.linalg.norm(known, axis=-1).max()) if known.size else 0.0
        return LONGEST * self.size / largest if largest > 0 else 0.0


def _coarse(shapes: Sequence[Visual]) -> Iterator[Visual]:
    """Shapes a browser draws quickly; as they are where what simplifies is not installed."""
    for shape in shapes:
        try:
            yield simplified(shape, MOST_TRIANGLES)
        except ModuleNotFoundError:
            yield shape


def hull_of(balls: list[Ball]) -> tuple[Array, IntArray]:
    """Corners and triangles of the convex hull of balls, seen from outside."""
    u = _directions()
    points = np.concatenate([np.array(ball[:3]) + ball[3] * u for ball in balls])
    hull = ConvexHull(points)
    corners, inverse = np.unique(hull.simplices, return_inverse=True)
    faces = inverse.reshape(hull.simplices.shape)
    points = points[corners]
    a, b, c = (points[faces[:, k]] for k in range(3))
    inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
    faces[inwards] = faces[inwards][:, ::-1]
    return points, faces


def _directions() -> Array:
    """Directions (n, 3) all around, evenly (Fibonacci)."""
    n = 96
    z = 1.0 - 2.0 * (np.arange(n) + 0.5) / n
    angle = np.pi * (1.0 + 5.0**0.5) * np.arange(n)
    r = np.sqrt(1.0 - z**2)
    return np.column_stack([r * np.cos(angle), r * np.sin(angle), z])


def _place(robot: KinematicTree, sensor: AbstractSensor) -> tuple[int, Array] | None:
    """Body of a sensor and its point there; None for what has no place."""
    for key in ("frame", "at", "joint", "body"):
        name = getattr(sensor, key, None)
        if isinstance(name, str):
            if name in robot.joint_names:
                return robot.joint_index(name), np.zeros(3)
            frame = robot.frame(name)
            offset = np.asarray(getattr(sensor, "xyz", np.zeros(3)), dtype=np.float64)
            return frame.body, np.asarray(frame.transform.point(offset), dtype=np.float64)
    return None
