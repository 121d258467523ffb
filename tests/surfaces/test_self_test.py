"""`lorelog doctor --chaos`: a sound program passes, and a lost, doubled or unverifiable write is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell

from lorelog.surfaces.cli.self_test import TrialReport, check_words
from lorelog.surfaces.python.client import Lorelog


@pytest.mark.slow
def test_a_killed_writer_loses_nothing(shell: Shell) -> None:
    """Every write that was acknowledged before a kill is found afterwards, once."""
    reply = shell("doctor", "--chaos", "--cycles", "2", "--json").json

    assert reply["ok"], reply
    assert [trial["name"] for trial in reply["trials"]] == ["killed writers", "lost cache"]
    assert reply["trials"][0]["acknowledged"] >= 2


def test_a_lost_or_doubled_write_is_noticed(tmp_path: Path) -> None:
    """A word that was acknowledged and is not there is lost; one that is there two times is named too."""
    (tmp_path / "project").mkdir()
    with Lorelog(
        project=tmp_path / "project", home=tmp_path / "home", settings={"embedding.provider": "none"}
    ) as memory:
        memory.add("The otterx sleeps at noon.")
        for _ in range(2):
            memory.task.start(goal="Feed the otterx.")
    report = TrialReport("killed writers")

    check_words(tmp_path, report, ["otterx", "walrusx"])

    assert (report.lost, report.twice) == (1, 1)
    assert report.faults == ["twice: otterx", "lost: walrusx"]
    assert not report.ok
