"""What hooks have spooled becomes memory by itself while a daemon runs."""

from __future__ import annotations

from pathlib import Path

from tests.services.session.talks import Talk, World
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.services.session import spool
from lorelog.surfaces.daemon import client


def spooled_talk(warm: Warm, root: Path) -> tuple[World, Talk]:
    """A session whose events lie in the daemon's spool."""
    world = World(root / "world")
    world.home = Path(warm.address.home)
    return world, Talk(world)


def test_a_spooled_turn_is_found_by_search(warm: Warm, tmp_path: Path) -> None:
    """Events that were there before the daemon, and those that come while it runs, woken or not."""
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "fake"\n')
    warm.stop()
    world, talk = spooled_talk(warm, tmp_path)
    talk.spool("session-start", source="startup")
    talk.exchange("where do otters sleep?", "They hold hands.")
    talk.spool("turn-end")
    warm.start()

    eventually(lambda: not spool.spooled(warm.address.home), "the spool is empty")
    found = client.ask("memory.search", {"query": "otters"}, directory=str(world.project))["hits"]
    assert "They hold hands." in found[0]["content"]
    assert found[0]["anchor"]["session"] == talk.session

    talk.exchange("and beavers?", "In a lodge.")
    talk.spool("turn-end")
    client.ask("daemon.wake", {}, directory="/")
    eventually(lambda: "In a lodge." in world.text(), "the second turn is written")
    eventually(lambda: not spool.spooled(warm.address.home), "the spool is empty")
    assert warm.status()["last_error"] is None


def test_a_killed_daemon_is_followed_by_one_that_goes_on(warm: Warm, tmp_path: Path) -> None:
    """Kill it while it drains, several times: every turn is there once."""
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
    eventually(lambda: not spool.spooled(warm.address.home), "the spool is empty")

    assert [world.text().count(f"User asked: question {number:02}\n") for number in range(30)] == [1] * 30
    assert len(world.entries()) == 30
