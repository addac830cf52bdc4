"""Moved: see dynsys.ordering.fingerprint (kept while functions.py is being edited)."""

from dynsys.model.tree import KinematicTree


def robot_fingerprint(robot: KinematicTree) -> str:
    """Digest of a robot."""
    from dynsys.ordering.fingerprint import fingerprint_robot

    return fingerprint_robot(robot).digest
