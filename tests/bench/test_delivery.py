"""The made-up sessions of the delivery benchmark."""

from __future__ import annotations

from pathlib import Path

from bench.delivery.held_out import make_held_out_projects
from bench.delivery.hook_calls import Bench
from bench.delivery.made_up import make_projects
from bench.delivery.replay import read_sessions


def test_held_out_rules_are_not_those_of_the_made_up_projects() -> None:
    """The sets share no rule, so that one measures what was not worked on."""
    sets = [make_projects(1), make_held_out_projects(unseen=False), make_held_out_projects(unseen=True)]
    texts = [{rule.text for project in projects for rule in project.rules} for projects in sets]

    assert not texts[0] & texts[1]
    assert not texts[2] & (texts[0] | texts[1])
    assert all(project.prose for projects in sets[1:] for project in projects)


def test_a_bench_has_a_home_of_its_own(tmp_path: Path) -> None:
    """Nothing of the person's home or environment reaches the benchmark."""
    bench = Bench(tmp_path)

    assert bench.environment["LORELOG_HOME"] == str(tmp_path / "home")
    assert bench.environment["HOME"] == str(tmp_path / "user")
    assert list(read_sessions(tmp_path / "missing", tmp_path)) == []
