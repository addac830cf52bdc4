"""Agreement with Pinocchio, MuJoCo and iDynTree: dynamics and sensors, in long campaigns.

    python -m experiments.trust.agreement --seconds 600 --seed 0 --json FILE

Real robots and random trees by turns; at every state the torque of inverse dynamics, the qdd of
forward dynamics and the readings of an accelerometer, a gyroscope, a force and a torque sensor
on every body, under random external wrenches, by compiled kernels, against every program that
can read the robot. Every robot MuJoCo takes is also read back from its MJCF, sensors included.

Differences are relative to the largest entry of the peer's answer. That of qdd is judged as
the torque it stands for, |H (qdd - qdd')| / |torque|, which does not suffer from the
conditioning of H.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.types import Array
from experiments.agreement.cases import QUANTITIES, Case, random_case, real_cases
from experiments.trust.faults_common import own_cache

__all__ = ["LIMIT", "Record", "main", "run"]

LIMIT = 1e-9


@final
@dataclass
class Record:
    """What a campaign has seen so far."""

    states: int = 0
    comparisons: int = 0
    robots: set[str] = field(default_factory=set)
    worst: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, seed: int, states: int) -> None:
        """Compare one robot at some states."""
        self.robots.add(case.name)
        for peer, quantity, differences in case.compare(np.random.default_rng(seed), states):
            self._note(case.name, seed, peer, quantity, differences)
        self.refused |= {f"{case.name}, {peer}": why for peer, why in case.refused.items()}
        self.states += states

    def _note(self, robot: str, seed: int, peer: str, quantity: str, found: Array) -> None:
        self.comparisons += len(found)
        largest = float(np.max(found)) if np.isfinite(found).all() else float("inf")
        row = self.worst.setdefault(peer, {})
        if largest >= row.get(quantity, {"difference": -1.0})["difference"]:
            row[quantity] = {"difference": largest, "robot": robot}
        if not largest <= LIMIT:
            self.failures.append(
                {
                    "robot": robot,
                    "seed": seed,
                    "peer": peer,
                    "quantity": quantity,
                    "difference": largest,
                }
            )

    def report(self) -> dict[str, Any]:
        """Everything as JSON data."""
        return {
            "states": self.states,
            "comparisons": self.comparisons,
            "robots": len(self.robots),
            "limit": LIMIT,
            "worst": self.worst,
            "refused": self.refused,
            "failures": self.failures,
        }


def run(
    seconds: float,
    seed: int,
    *,
    states: int = 20,
    robots: Sequence[str] | None = None,
) -> Record:
    """Compare until the time is over: real robots, then random ones, and again."""
    end = time.monotonic() + seconds
    record = Record()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        real = [
            (name, make)
            for name, make in real_cases()
            if robots is None or name.removesuffix(".urdf") in robots
        ]
        opened: dict[str, Case] = {}
        while True:
            for name, make in real:
                if name not in opened:
                    opened[name] = make(Path(folder), int(rng.integers(2**31)))
                record.add(opened[name], int(rng.integers(2**31)), states)
                if time.monotonic() > end:
                    return record
            for case in _random_cases(rng, Path(folder)):
                record.add(case, int(rng.integers(2**31)), states)
                if time.monotonic() > end:
                    return record


def _random_cases(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    for _ in range(6):
        yield random_case(int(rng.integers(2**31)), folder)


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("pin", "mujoco", "idyntree")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; 1 if any difference is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--states", type=int, default=20, help="per visit of a robot")
    parser.add_argument("--robots", nargs="*", help="real ones, by file name; default: all")
    parser.add_argument("--json", nargs="?", const="-", help="file, or nothing for stdout")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as cache, own_cache(Path(cache)):
        try:  # in a cache of their own: random robots would fill the user's
            record = run(
                options.seconds, options.seed, states=options.states, robots=options.robots
            )
        except DynsysError as error:
            raise SystemExit(f"the campaign stopped: {error}") from error
    report = record.report() | {
        "seed": options.seed,
        "seconds": round(time.monotonic() - start, 1),
        "versions": _versions(),
    }
    if options.json and options.json != "-":
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1) if options.json == "-" else _table(report))
    return 1 if record.failures else 0


def _table(report: dict[str, Any]) -> str:
    lines = [
        f"{report['states']} states of {report['robots']} robots,"
        f" {report['comparisons']} comparisons, limit {report['limit']:g}",
        f"{'':16}" + "".join(f"{name:>15}" for name in QUANTITIES),
    ]
    for peer, row in report["worst"].items():
        cells = [
            f"{row[q]['difference']:15.1e}" if q in row else f"{'-':>15}" for q in QUANTITIES
        ]
        lines.append(f"{peer:16}" + "".join(cells))
    lines += [f"refused: {who}: {why}" for who, why in report["refused"].items()]
    lines += [f"FAILED: {failure}" for failure in report["failures"]]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
