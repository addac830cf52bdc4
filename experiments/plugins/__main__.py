"""Kernels inside CasADi, JAX and PyTorch: cost of a call, a trajectory, a friction fit.

python -m experiments.plugins [calls] [trajectory] [friction] [--steps 40] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.plugins.calls import call_costs
from experiments.plugins.friction import fit_friction
from experiments.plugins.trajectory import arm, compare_swings

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write what was asked for; 1 if the ways do not agree."""
    parser = argparse.ArgumentParser(description="Kernels inside other tools.")
    parts = ("calls", "trajectory", "friction")
    parser.add_argument("parts", nargs="*", metavar="|".join(parts))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    chosen, robot = asked.parts or parts, arm()
    if unknown := set(chosen) - set(parts):
        parser.error(f"there is no part {sorted(unknown)[0]!r}: {', '.join(parts)}")
    results: dict[str, Any] = {}
    agree = True
    if "calls" in chosen:
        results["calls_us"] = costs = call_costs(robot)
        for who, times in costs.items():
            print(f"{who:18}", *(f"{what} {us:8.3f} us" for what, us in times.items()))
    if "trajectory" in chosen:
        swings = compare_swings(robot, asked.steps)
        results["trajectory"] = [one.told() for one in swings]
        for one in swings:
            print(
                f"{one.who:34} effort {one.effort:.9f}, {one.at_limit} torques at a limit,"
                f" {one.iterations:4} iterations, set up {one.setup_s:6.2f} s, solve"
                f" {one.solve_s:6.3f} s, {one.in_functions_s:6.3f} of it in functions"
            )
        efforts = [one.effort for one in swings]
        apart = max(np.abs(one.motion - swings[0].motion).max() for one in swings)
        print(f"motions apart by at most {apart:.1e} rad")
        agree = max(efforts) - min(efforts) <= 1e-6 * min(efforts)
    if "friction" in chosen:
        tools = ["jax", *(["torch"] if importlib.util.find_spec("torch") else [])]
        for tool in tools:
            fit = fit_friction(robot, tool)
            off = float(np.abs(fit.found - fit.true).max())
            results.setdefault("friction", []).append(
                {"tool": tool, "off": off, "rounds": fit.rounds, "seconds": fit.seconds}
            )
            print(
                f"{tool}: {len(fit.names)} parameters, off by at most {off:.4f},"
                f" {fit.rounds} rounds, {fit.seconds:.3f} s"
            )
            agree = agree and off < 0.05
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
