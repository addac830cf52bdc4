"""ROS 2 messages as named numbers, both ways: JointState, Imu, WrenchStamped, Odometry.

| message              | names                                                               |
|----------------------|---------------------------------------------------------------------|
| JointState           | ``q.JOINT``, ``qd.JOINT``, ``effort.JOINT``                         |
| Imu                  | ``ax ay az`` (linear acceleration), ``wx wy wz`` (angular velocity) |
| WrenchStamped        | ``fx fy fz tx ty tz``                                               |
| AccelStamped         | ``ax ay az``, ``wdx wdy wdz``                                       |
| Odometry             | pose and twist of the free joint, in the order of q and qd          |
| dynsys NamedValues   | names of its own: whatever has no message of ROS                    |

The last three numbers of a name are those of the sensor's rows, so a load-cell plate reads its
``tx ty fz`` from a WrenchStamped, an accelerometer its ``ax ay az`` from an Imu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["DEFINITIONS", "NAMED_VALUES", "READERS", "build_message", "message_kind", "stamp"]

NAMED_VALUES = "dynsys_msgs/msg/NamedValues"
_RULE = "=" * 80
_HEADER = "std_msgs/Header header\n"
_STAMPED = f"""{_RULE}
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
{_RULE}
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
_VECTOR3 = f"{_RULE}\nMSG: geometry_msgs/Vector3\nfloat64 x\nfloat64 y\nfloat64 z\n"
_QUATERNION = (
    f"{_RULE}\nMSG: geometry_msgs/Quaternion\nfloat64 x\nfloat64 y\nfloat64 z\nfloat64 w\n"
)
_POINT = _VECTOR3.replace("Vector3", "Point")

DEFINITIONS: Mapping[str, str] = {
    "sensor_msgs/msg/JointState": _HEADER
    + "string[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n"
    + _STAMPED,
    "sensor_msgs/msg/Imu": _HEADER
    + "geometry_msgs/Quaternion orientation\nfloat64[9] orientation_covariance\n"
    + "geometry_msgs/Vector3 angular_velocity\nfloat64[9] angular_velocity_covariance\n"
    + "geometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance\n"
    + _STAMPED
    + _QUATERNION
    + _VECTOR3,
    "geometry_msgs/msg/WrenchStamped": _HEADER
    + "geometry_msgs/Wrench wrench\n"
    + _STAMPED
    + f"{_RULE}\nMSG: geometry_msgs/Wrench\ngeometry_msgs/Vector3 force\n"
    + "geometry_msgs/Vector3 torque\n"
    + _VECTOR3,
    "geometry_msgs/msg/AccelStamped": _HEADER
    + "geometry_msgs/Accel accel\n"
    + _STAMPED
    + f"{_RULE}\nMSG: geometry_msgs/Accel\ngeometry_msgs/Vector3 linear\n"
    + "geometry_msgs/Vector3 angular\n"
    + _VECTOR3,
    "nav_msgs/msg/Odometry": _HEADER
    + "string child_frame_id\ngeometry_msgs/PoseWithCovariance pose\n"
    + "geometry_msgs/TwistWithCovariance twist\n"
    + _STAMPED
    + f"{_RULE}\nMSG: geometry_msgs/PoseWithCovariance\ngeometry_msgs/Pose pose\n"
    + f"float64[36] covariance\n{_RULE}\nMSG: geometry_msgs/TwistWithCovariance\n"
    + f"geometry_msgs/Twist twist\nfloat64[36] covariance\n{_RULE}\nMSG: geometry_msgs/Pose\n"
    + f"geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n{_RULE}\n"
    + "MSG: geometry_msgs/Twist\ngeometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n"
    + _POINT
    + _QUATERNION
    + _VECTOR3,
    NAMED_VALUES: _HEADER + "string[] names\nfloat64[] values\n" + _STAMPED,
}
"""Definition text of every message that is written; read messages carry their own."""


# ---- reading -------------------------------------------------------------------------------


def _xyz(v: Any, names: str) -> dict[str, float]:
    return dict(zip(names.split(), (v.x, v.y, v.z), strict=True))


def _joint_state(m: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for prefix, values in (("q", m.position), ("qd", m.velocity), ("effort", m.effort)):
        for joint, value in zip(m.name, values, strict=False):
            found[f"{prefix}.{joint}"] = float(value)
    return found


def _imu(m: Any) -> dict[str, float]:
    return _xyz(m.linear_acceleration, "ax ay az") | _xyz(m.angular_velocity, "wx wy wz")


def _wrench(m: Any) -> dict[str, float]:
    return _xyz(m.wrench.force, "fx fy fz") | _xyz(m.wrench.torque, "tx ty tz")


def _accel(m: Any) -> dict[str, float]:
    return _xyz(m.accel.linear, "ax ay az") | _xyz(m.accel.angular, "wdx wdy wdz")


def _odometry(m: Any) -> dict[str, float]:
    pose, twist = m.pose.pose, m.twist.twist
    found = _xyz(pose.position, "q[0] q[1] q[2]") | _xyz(pose.orientation, "q[3] q[4] q[5]")
    found["q[6]"] = pose.orientation.w
    return (
        found
        | _xyz(twist.angular, "qd[0] qd[1] qd[2]")
        | _xyz(twist.linear, "qd[3] qd[4] qd[5]")
    )


def _named_values(m: Any) -> dict[str, float]:
    return dict(zip(m.names, map(float, m.values), strict=True))


READERS: Mapping[str, Callable[[Any], dict[str, float]]] = {
    "JointState": _joint_state,
    "Imu": _imu,
    "WrenchStamped": _wrench,
    "AccelStamped": _accel,
    "Odometry": _odometry,
    "NamedValues": _named_values,
}
"""Names and numbers of a message, by the last word of its type."""


def stamp(message: Any, logged: int) -> float:
    """Seconds of a message: its header's stamp, or when it was logged (ns) if that is zero."""
    own = message.header.stamp
    nanoseconds = int(own.sec) * 1_000_000_000 + int(own.nanosec)
    return (nanoseconds or logged) / 1e9


# ---- writing -------------------------------------------------------------------------------


def message_kind(labels: Sequence[str]) -> str:
    """Type of the ROS message that can hold numbers of these labels."""
    known = {
        "sensor_msgs/msg/Imu": {"ax", "ay", "az", "wx", "wy", "wz"},
        "geometry_msgs/msg/WrenchStamped": {"fx", "fy", "fz", "tx", "ty", "tz"},
        "geometry_msgs/msg/AccelStamped": {"ax", "ay", "az", "wdx", "wdy", "wdz"},
    }
    for kind, labels_of_kind in known.items():
        if set(labels) == labels_of_kind:
            return kind
    return NAMED_VALUES


def build_message(kind: str, time: float, values: Mapping[str, float]) -> dict[str, Any]:
    """Message of a kind from seconds and named numbers, in the names of the module."""
    nanoseconds = round(time * 1e9)
    header = {
        "stamp": {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000},
        "frame_id": "",
    }

    def vector(names: str) -> dict[str, float]:
        return {axis: values[name] for axis, name in zip("xyz", names.split(), strict=True)}

    if kind.endswith("Imu"):
        unknown = [-1.0] + [0.0] * 8
        return {
            "header": header,
            "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
            "orientation_covariance": unknown,
            "angular_velocity": vector("wx wy wz"),
            "angular_velocity_covariance": [0.0] * 9,
            "linear_acceleration": vector("ax ay az"),
            "linear_acceleration_covariance": [0.0] * 9,
        }
    if kind.endswith("WrenchStamped"):
        wrench = {"force": vector("fx fy fz"), "torque": vector("tx ty tz")}
        return {"header": header, "wrench": wrench}
    if kind.endswith("AccelStamped"):
        accel = {"linear": vector("ax ay az"), "angular": vector("wdx wdy wdz")}
        return {"header": header, "accel": accel}
    if kind.endswith("JointState"):
        joints = list(dict.fromkeys(name.partition(".")[2] for name in values))
        return {"header": header, "name": joints} | {
            field: [values[f"{prefix}.{j}"] for j in joints if f"{prefix}.{j}" in values]
            for field, prefix in (("position", "q"), ("velocity", "qd"), ("effort", "effort"))
        }
    if kind.endswith("Odometry"):
        return _build_odometry(header, vector, values)
    return {"header": header, "names": list(values), "values": list(values.values())}


def _build_odometry(
    header: dict[str, Any],
    vector: Callable[[str], dict[str, float]],
    values: Mapping[str, float],
) -> dict[str, Any]:
    orientation = vector("q[3] q[4] q[5]") | {"w": values["q[6]"]}
    pose = {"position": vector("q[0] q[1] q[2]"), "orientation": orientation}
    twist = {"angular": vector("qd[0] qd[1] qd[2]"), "linear": vector("qd[3] qd[4] qd[5]")}
    return {
        "header": header,
        "child_frame_id": "",
        "pose": {"pose": pose, "covariance": [0.0] * 36},
        "twist": {"twist": twist, "covariance": [0.0] * 36},
    }
