"""The made-up sessions of the delivery benchmark."""

from __future__ import annotations

import random
from pathlib import Path

from bench.delivery.held_out import make_held_out_projects
from bench.delivery.hook_calls import Bench, shown_text
from bench.delivery.made_up import STACKS, make_projects, unrelated_calls
from bench.delivery.replay import read_sessions


def test_sessions_are_the_same_for_a_seed() -> None:
    """A seed gives the same projects, rules and calls; another seed gives others."""
    first, second, other = make_projects(1), make_projects(1), make_projects(2)

    assert first == second != other
    assert sum(len(project.rules) for project in first) == 200
    assert len({project.name for project in first}) == len(first) == 2 * len(STACKS)


def test_rules_of_a_project_differ() -> None:
    """No two rules of a project say the same, and no rule is about a call that is unrelated to it."""
    for project in make_projects(3):
        assert len({rule.text for rule in project.rules}) == len(project.rules)
        calls = unrelated_calls(project, "/p", random.Random(1), 200)
        assert len(calls) == 200
        assert not {repr(rule.seeded) for rule in project.rules} & set(map(repr, calls))


def test_held_out_rules_are_not_those_of_the_made_up_projects() -> None:
    """The sets share no rule, so that one measures what was not worked on."""
    sets = [make_projects(1), make_held_out_projects(unseen=False), make_held_out_projects(unseen=True)]
    texts = [{rule.text for project in projects for rule in project.rules} for projects in sets]

    assert not texts[0] & texts[1]
    assert not texts[2] & (texts[0] | texts[1])
    assert all(project.prose for projects in sets[1:] for project in projects)


def test_the_text_for_the_model_is_read_from_any_answer() -> None:
    """Added context and the reason of a refusal count; notices for the user do not."""
    assert shown_text({"hookSpecificOutput": {"additionalContext": "a"}, "systemMessage": "b"}) == "a"
    assert shown_text({"hookSpecificOutput": {"permissionDecisionReason": "c"}}) == "c"
    assert shown_text({}) == ""


def test_a_bench_has_a_home_of_its_own(tmp_path: Path) -> None:
    """Nothing of the person's home or environment reaches the benchmark."""
    bench = Bench(tmp_path)

    assert bench.environment["LORELOG_HOME"] == str(tmp_path / "home")
    assert bench.environment["HOME"] == str(tmp_path / "user")
    assert list(read_sessions(tmp_path / "missing", tmp_path)) == []
