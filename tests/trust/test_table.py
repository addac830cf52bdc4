"""The table of trust: findings have tests, commits are found by the ids they name."""

from __future__ import annotations

from experiments.trust.table import findings, guards, text_of, without_test


def test_every_finding_has_a_regression_test() -> None:
    assert without_test(findings(), guards()) == []


def test_ids_are_unique_and_failures_explained() -> None:
    found = findings()
    assert len({one["id"] for one in found}) == len(found)
    assert all(one["failure"] and one["fix"] for one in found)


def test_tests_are_found_by_their_marks() -> None:
    here = "tests/trust/test_table.py::test_ids_are_unique_and_failures_explained"
    assert here not in {test for tests in guards().values() for test in tests}
    assert "tests/model/test_parameters.py::" in "".join(guards()["F9"])  # of one parameter
    assert without_test([{"id": "Z-1"}, {"id": "Z-2"}], {"Z-2": [here]}) == ["Z-1"]


def test_commits_are_those_that_name_the_finding() -> None:
    found = [{"id": "Z-1", "failure": "broke", "fix": "mended"}]
    commits = [("ccc", "more of Z-1"), ("bbb", "logs: mend (Z-12)"), ("aaa", "mend\n\nZ-1")]
    page = text_of({}, found, commits)
    assert "| Z-1 | broke | mended | - | aaa, ccc |" in page
    assert "not committed yet" in text_of({}, found, [])


def test_results_become_lines() -> None:
    results = {
        "fuzz": [{"area": "urdf", "cases": 10, "refused": 7, "failures": []}],
        "edges": [{"true_error": 1e-9, "error": None, "covered": True}],
        "faults": {
            "injected": 3,
            "survived": 2,
            "faults": [
                {
                    "name": "fork",
                    "fault": "fork",
                    "injected": 3,
                    "survived": 2,
                    "meaning": "same bits",
                    "skipped": "",
                }
            ],
        },
    }
    runs = {"fuzz": {"commit": "abc1234", "processor_minutes": 10.1}}
    page = text_of({**results, "runs": runs}, [], [])
    fuzz = "| fuzz | 10 inputs to 1 readers | 7 refused by errors of dynsys | 0 "
    assert fuzz + "| abc1234 | 10.1 |" in page
    assert "| faults | 3 injections of 1 faults | - | 1 | - | - |" in page
    assert "| fork | 3 | 2 | same bits |" in page
    assert "true error 1.0e-09" in page
