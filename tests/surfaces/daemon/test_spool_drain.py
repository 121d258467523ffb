"""Spooled hook events become memories while a daemon runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.sessions.talks import CaptureHome, ClaudeTalk
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.light import daemon_client as client
from lorelog.services.sessions import drain


def spooled_talk(warm: Warm, root: Path) -> tuple[CaptureHome, ClaudeTalk]:
    """Return a session whose events are in the daemon's spool."""
    world = CaptureHome(root / "world")
    world.home = Path(warm.address.home)
    return world, ClaudeTalk(world)


@pytest.mark.slow
def test_a_spooled_turn_is_found_by_search(warm: Warm, tmp_path: Path) -> None:
    """Events spooled before the daemon started and while it runs are captured, with and without a wake-up."""
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "fake"\n')
    warm.stop()
    world, talk = spooled_talk(warm, tmp_path)
    talk.spool("session-start", source="startup")
    talk.exchange("where do otters sleep?", "They hold hands.")
    talk.spool("turn-end")
    warm.start()

    eventually(lambda: not drain.list_events(warm.address.home), "the spool is empty")
    found = client.call_daemon("memory.search", {"query": "otters"}, directory=str(world.project))["hits"]
    assert "They hold hands." in found[0]["content"]
    assert found[0]["anchor"]["session"] == talk.session

    talk.exchange("and beavers?", "In a lodge.")
    talk.spool("turn-end")
    client.call_daemon("daemon.wake", {}, directory="/")
    eventually(lambda: "In a lodge." in world.text(), "the second turn is written")
    eventually(lambda: not drain.list_events(warm.address.home), "the spool is empty")
    assert warm.status()["last_error"] is None


@pytest.mark.slow
def test_a_killed_daemon_is_followed_by_one_that_goes_on(warm: Warm, tmp_path: Path) -> None:
    """If the daemon is killed several times while it drains, every turn is captured exactly once."""
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "none"\n')
    world, talk = spooled_talk(warm, tmp_path)
    talk.spool("session-start", source="startup")
    for number in range(30):
        talk.exchange(f"question {number:02}", f"answer {number:02}")
        talk.spool("turn-end")
        if number % 10 == 9:
            eventually(world.journals, "something is written")
            warm.kill()
            warm.start()
    eventually(lambda: not drain.list_events(warm.address.home), "the spool is empty")

    assert [world.text().count(f"User asked: question {number:02}\n") for number in range(30)] == [1] * 30
    assert len(world.entries()) == 30
