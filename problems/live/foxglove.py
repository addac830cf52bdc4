"""A live source for Foxglove: joints, robot, wrenches, estimates and alarms by its own schemas.

| topic                | schema                   |                                            |
|----------------------|--------------------------|--------------------------------------------|
| ``/joint_states``    | foxglove.JointStates     | positions, velocities, estimated torques   |
| ``/tf``              | foxglove.FrameTransforms | every body in ``world``                    |
| ``/dynsys/scene``    | foxglove.SceneUpdate     | a line per link; an arrow per wrench       |
| ``/dynsys/estimate`` | JSON with its schema     | every output and the p-value, for plots    |
| ``/dynsys/log``      | foxglove.Log             | alarms                                     |

A few times a second, after the sample has been answered: who looks must not slow who measures.
What every sample says goes out by the session's own channel.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any, final

import numpy as np
from scipy.spatial.transform import Rotation

from dynsys.distribution import install
from dynsys.errors import LogError, RefusedError
from dynsys.recursive.kinematics import poses, transforms
from problems.live.session import LiveSession

__all__ = ["FoxgloveSource", "require_foxglove"]

RATE = 30.0
"""Pictures per second."""
METRES_PER_NEWTON = 1e-3
WORLD = "world"


def require_foxglove() -> None:
    """LogError says what to install where the package is missing."""
    try:
        import foxglove  # noqa: F401
    except ModuleNotFoundError:
        raise LogError(
            f"Foxglove needs the Python package foxglove-sdk; run: {install('foxglove')}"
        ) from None


@final
class FoxgloveSource:
    """Shows a session to whoever connects: one of its viewers.

    Raises
    ------
    LogError
        if the package foxglove-sdk is not installed.
    RefusedError
        if the port is taken.
    """

    def __init__(self, session: LiveSession, host: str, port: int) -> None:
        require_foxglove()
        import foxglove
        from foxglove import channels, messages

        self._messages: Any = messages
        self._context = context = foxglove.Context()
        self._joints = channels.JointStatesChannel("/joint_states", context=context)
        self._tf = channels.FrameTransformsChannel("/tf", context=context)
        self._scene = channels.SceneUpdateChannel("/dynsys/scene", context=context)
        self._log = channels.LogChannel("/dynsys/log", context=context)
        self._estimate = foxglove.Channel(
            "/dynsys/estimate", schema=_schema(session), context=context
        )
        try:
            self._server = foxglove.start_server(
                name=f"dynsys: {session.decoder.robot.name}",
                host=host,
                port=port,
                context=context,
            )
        except (OSError, RuntimeError) as error:
            raise RefusedError(f"{host}:{port}: {error}") from None
        self.port = int(self._server.port)
        self._next = 0.0
        self._wrenches = _wrenches(session)

    def close(self) -> None:
        """Let everybody go."""
        self._server.stop()

    def show(self, time: float, session: LiveSession) -> None:
        """Show the last estimate, if it is time for a picture; alarms always."""
        for event in session.events:
            self._tell(time, event)
        now = perf_counter()
        if now < self._next or session.refusal:
            return
        self._next = now + 1.0 / RATE
        stamp = max(round(time * 1e9), 0)
        self._show_joints(session, stamp)
        self._show_bodies(session, stamp)
        estimator = session.estimator
        values = dict(zip(estimator.columns, estimator.row.tolist(), strict=True))
        values |= {"p_value": estimator.p_value, "chi_square": estimator.chi_square}
        known = {name: x if math.isfinite(x) else None for name, x in values.items()}
        self._estimate.log({"alarm": session.watch.is_on, **known}, log_time=stamp)

    def idle(self, session: LiveSession) -> None:
        """Nothing waits to be shown."""

    def _stamp(self, stamp: int) -> Any:
        return self._messages.Timestamp(stamp // 1_000_000_000, stamp % 1_000_000_000)

    def _show_joints(self, session: LiveSession, stamp: int) -> None:
        robot, decoder, m = session.decoder.robot, session.decoder, self._messages
        values = dict(
            zip(session.estimator.columns, session.estimator.row.tolist(), strict=True)
        )
        states = []
        for i, name in enumerate(robot.joint_names):
            if robot.joints[i].nq == 1 and robot.bodies[i].coupling is None:
                effort = values.get(f"torque.{name}", math.nan)
                states.append(
                    m.JointState(
                        name=name,
                        position=float(decoder.q[robot.q_slices()[i]][0]),
                        velocity=float(decoder.qd[robot.v_slices()[i]][0]),
                        effort=effort if math.isfinite(effort) else None,
                    )
                )
        self._joints.log(
            m.JointStates(timestamp=self._stamp(stamp), joints=states), log_time=stamp
        )

    def _show_bodies(self, session: LiveSession, stamp: int) -> None:
        robot, m, at = session.decoder.robot, self._messages, self._stamp(stamp)
        placed = poses(robot, transforms(robot, session.decoder.q))
        turns = Rotation.from_matrix([np.asarray(p.E, float).T for p in placed]).as_quat()
        moved, links = [], []
        for i, name in enumerate(robot.body_names):
            x, y, z = (float(v) for v in placed[i].r)
            moved.append(
                m.FrameTransform(
                    timestamp=at,
                    parent_frame_id=WORLD,
                    child_frame_id=name,
                    translation=m.Vector3(x=x, y=y, z=z),
                    rotation=m.Quaternion(
                        **dict(zip("xyzw", map(float, turns[i]), strict=True))
                    ),
                )
            )
            if robot.parent[i] >= 0:
                before = placed[robot.parent[i]].r
                links += [m.Point3(**dict(zip("xyz", map(float, r), strict=True)))
                          for r in (before, placed[i].r)]  # fmt: skip
        line = m.LinePrimitive(
            type=m.LinePrimitiveLineType.LineList,
            thickness=0.02,
            points=links,
            color=m.Color(r=0.45, g=0.5, b=0.55, a=1.0),
        )
        entities = [m.SceneEntity(timestamp=at, frame_id=WORLD, id="links", lines=[line])]
        entities += self._arrows(session, at)
        self._tf.log(m.FrameTransforms(transforms=moved), log_time=stamp)
        self._scene.log(m.SceneUpdate(entities=entities), log_time=stamp)

    def _arrows(self, session: LiveSession, at: Any) -> list[Any]:
        """Estimated contact forces, in the coordinates of their bodies."""
        m, robot, found = self._messages, session.decoder.robot, []
        for name, where in self._wrenches.items():
            force = session.estimator.row[where][3:]
            size = float(np.linalg.norm(force))
            if not 0 < size < math.inf:
                continue
            frame = robot.frame(name)
            E = np.asarray(frame.transform.E, float)
            turn, _ = Rotation.align_vectors([E.T @ force], [[1.0, 0.0, 0.0]])
            x, y, z, w = turn.as_quat().tolist()
            place = dict(zip("xyz", map(float, frame.transform.r), strict=True))
            arrow = m.ArrowPrimitive(
                pose=m.Pose(
                    position=m.Vector3(**place), orientation=m.Quaternion(x=x, y=y, z=z, w=w)
                ),
                shaft_length=0.8 * METRES_PER_NEWTON * size,
                shaft_diameter=0.02,
                head_length=0.2 * METRES_PER_NEWTON * size,
                head_diameter=0.04,
                color=m.Color(r=0.85, g=0.35, b=0.1, a=1.0),
            )
            found.append(
                m.SceneEntity(
                    timestamp=at,
                    frame_id=robot.body_names[frame.body],
                    id=f"external_wrench.{name}",
                    arrows=[arrow],
                )
            )
        return found

    def _tell(self, time: float, event: dict[str, Any]) -> None:
        m, stamp = self._messages, max(round(time * 1e9), 0)
        begins = event.get("state") == "begins"
        words = f"readings {'contradict' if begins else 'agree with'} the model"
        text = f"{words} (chi-square {event.get('chi_square', math.nan):.4g})"
        level = m.LogLevel.Warning if begins else m.LogLevel.Info
        self._log.log(
            m.Log(timestamp=self._stamp(stamp), level=level, message=text, name="dynsys"),
            log_time=stamp,
        )


def _wrenches(session: LiveSession) -> dict[str, slice]:
    """Place in the row of every external wrench that is estimated, by its frame."""
    found, column = {}, 0
    for output in session.estimator.outputs:
        here = slice(column, column := column + len(output.group.columns))
        kind, _, frame = output.group.name.partition(".")
        if kind == "external_wrench" and frame:
            found[frame] = here
    return found


def _schema(session: LiveSession) -> dict[str, Any]:
    """JSON schema of the topic of estimates."""
    number = {"type": ["number", "null"]}
    names = (*session.estimator.columns, "p_value", "chi_square")
    return {
        "title": "dynsys.Estimate",
        "type": "object",
        "properties": {"alarm": {"type": "boolean"}, **dict.fromkeys(names, number)},
    }
