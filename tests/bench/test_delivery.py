"""The made-up sessions of the delivery benchmark."""

from __future__ import annotations

from bench.delivery.held_out import make_held_out_projects
from bench.delivery.made_up import make_projects


def test_held_out_rules_are_not_those_of_the_made_up_projects() -> None:
    """The sets share no rule, so that one measures what was not worked on."""
    sets = [make_projects(1), make_held_out_projects(unseen=False), make_held_out_projects(unseen=True)]
    texts = [{rule.text for project in projects for rule in project.rules} for projects in sets]

    assert not texts[0] & texts[1]
    assert not texts[2] & (texts[0] | texts[1])
    assert all(project.prose for projects in sets[1:] for project in projects)
