"""The table of times with and without the extra ``fast``."""

from __future__ import annotations

from experiments.plain import table


def test_both_stand_beside_each_other() -> None:
    fast = {"dynamics": [0.1, 9e-7, 1.5e-5], "search": 1500}
    plain = {"dynamics": [0.03, 1.2e-5, 4.4e-4], "search": 24}
    assert table(fast, plain).splitlines()[2:] == [
        "| dynamics | 100 ms / 30 ms | 900 ns / 12 us | 15 us / 440 us |",
        "| search: orders priced | | | 1500 / 24 |",
    ]
