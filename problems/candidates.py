"""Candidate files: sensors as in a layout file, each with a cost.

candidates:
  - {cost: 3, kind: force_torque, name: l_ft, at: l_ankle_roll, std: [0.05, 1.0]}
  - {cost: 1, all_joint_torques: {std: 0.5}}        # that cost for each of them
"""

from __future__ import annotations

from dynsys.model.readers.xml_input import PathLike
from dynsys.model.tree import KinematicTree
from problems.placement import Candidate
from sensors.files import read_layout
from sensors.yaml_input import Item, read_yaml

__all__ = ["load_candidates"]


def load_candidates(path: PathLike, robot: KinematicTree) -> list[Candidate]:
    """Read a candidate file for a robot.

    Raises
    ------
    LayoutError
        naming file, line, what is wrong, and the nearest valid name.
    """
    root = read_yaml(path)
    sections = root.mapping("a candidate file")
    if set(sections) != {"candidates"}:
        raise root.error("a candidate file has one section, 'candidates'")
    found: list[Candidate] = []
    for item in sections["candidates"].listed("candidates"):
        cost, entry = 1.0, item
        if isinstance(item.value, dict) and "cost" in item.value:
            given = item.value["cost"]
            if isinstance(given.value, bool) or not isinstance(given.value, (int, float)):
                raise given.error(f"cost must be a number, got {given.plain()!r}")
            if not given.value > 0:
                raise given.error(f"cost must be positive, got {given.value}")
            cost = float(given.value)
            rest = {key: value for key, value in item.value.items() if key != "cost"}
            entry = Item(rest, item.file, item.line)
        one = Item({"sensors": Item([entry], item.file, item.line)}, item.file, item.line)
        found += [Candidate(sensor, cost) for sensor in read_layout(one, robot)]
    return found
