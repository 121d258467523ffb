"""The view Timeline, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.demo_sessions import TODAY
from tests.page.conftest import PageWorld

pytestmark = pytest.mark.slow


def test_days_and_sessions_show_requests_and_outcomes(page: PageWorld) -> None:
    """Sessions of both agents stand below their day, with requests, outcomes, failures and what the user corrected."""
    tab = page.open("#/timeline")
    tab.wait_text("Why is the shipment cache stale?")
    text = tab.text()
    for shown in (
        "kept the old TTL of 5 minutes",
        "1 failed",
        "use pnpm, not npm",
        "codex",
        "Yesterday",
        "never run terraform",
    ):
        assert shown in text
    assert tab.run("document.querySelectorAll('.tl-day').length > 8")
    assert tab.errors == []


def test_a_session_can_be_shown_alone(page: PageWorld) -> None:
    """A click on a session's id shows that session only; its turns lead to their memories, its deliveries to Shown to agents."""
    tab = page.open("#/timeline")
    tab.click(".tl-session header a", TODAY[:8])
    tab.wait(f"location.hash === '#/timeline?session={TODAY}' && document.querySelectorAll('.tl-session').length === 1")
    tab.wait_text("shown memories 4 times")
    tab.click(".tl-link", "Why is the shipment cache stale?")
    tab.wait_text("The workers that were started before the deploy")
    tab.wait("document.querySelector('.card .conversation')")


def test_agents_and_days_are_chosen(page: PageWorld) -> None:
    """Only the sessions of one agent are shown if it is chosen, and fewer days for a shorter time."""
    tab = page.open("#/timeline?since=all&host=codex")
    tab.wait_text("Which carriers still poll")
    assert "shipment cache stale" not in tab.text()
    tab.choose(".view-head select", "7d")
    tab.wait("location.hash.includes('since=7d')")


def test_today_is_live(page: PageWorld, tmp_path: Path) -> None:
    """A turn that is captured, and a memory that is added, appear without reloading."""
    from tests.ingest.transcripts.conversations import claude_turn, write_lines

    tab = page.open("#/timeline")
    tab.wait_text("Why is the shipment cache stale?")
    page.call("memory.add", {"text": "The staging cluster is called heron."})
    tab.wait("[...document.querySelectorAll('.tl-link')].some(e => e.innerText.includes('called heron'))")
    lines = claude_turn("u9", "Where is the dashboard?", "At /staging.", timestamp="2099-01-01T10:00:00.000Z")
    talk = write_lines(tmp_path / "live.jsonl", lines)
    given = {"host": "claude", "session": "live-1", "transcript": str(talk), "moment": "session-end"}
    page.call("session.capture", {**given, "everything": True})
    tab.wait_text("Where is the dashboard?")


def test_hostile_text_is_only_text(page: PageWorld, tmp_path: Path) -> None:
    """Markup in a request is shown as text, characters that reorder it are named, and a long line stays in its column."""
    from tests.ingest.transcripts.conversations import claude_turn, write_lines

    bad = "<img src=x onerror=\"document.title='owned'\"> \u202egnp.exe " + "x" * 5000
    talk = write_lines(tmp_path / "bad.jsonl", claude_turn("u8", bad, bad, timestamp="2099-01-01T10:00:00.000Z"))
    given = {"host": "claude", "session": "bad-1", "transcript": str(talk), "moment": "session-end"}
    page.call("session.capture", {**given, "everything": True})
    page.call("memory.add", {"text": "Open \u202egnp.exe with `less`."})
    tab = page.open("#/timeline")
    tab.wait_text("Open ⟨U+202E⟩gnp.exe with less.")
    tab.run("location.hash = '#/timeline?session=bad-1'")
    tab.wait_text("onerror")
    assert tab.run("document.querySelectorAll('.timeline img').length === 0 && document.title !== 'owned'")
    assert "\u202e" not in tab.text()
    assert tab.run("document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth")


def test_keys_walk_the_entries(page: PageWorld) -> None:
    """J and k move the focus along the entries, Enter opens the memory, Escape leads back."""
    tab = page.open("#/timeline")
    tab.wait("document.querySelectorAll('.tl-link').length > 3")
    tab.press("j")
    tab.press("j")
    tab.wait("document.activeElement === document.querySelectorAll('.tl-link')[1]")
    tab.press("Enter")
    tab.wait("location.hash.startsWith('#/memory/')")
