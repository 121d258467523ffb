"""The view Shown to agents, in a browser: deliveries, balance, rules, failures, guards and the inbox, each verb with its effect on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples.demo_sessions import TODAY
from tests.ingest.transcripts.conversations import claude_turn, write_lines
from tests.page.browser import Tab
from tests.page.conftest import PageWorld, check_accessible

pytestmark = pytest.mark.slow


def guard(page: PageWorld, command: str) -> dict[str, Any] | None:
    found = page.call("guard.list", {})["guards"]
    return next((each for each in found if each["command"] == command), None)


def inbox(page: PageWorld, text: str) -> Tab:
    tab = page.open("#/told/inbox")
    tab.wait(
        f"[...document.querySelectorAll('.inbox-item .markdown')].some(e => e.innerText.includes({json.dumps(text)}))"
    )
    return tab


def press_verb(tab: Tab, text: str, verb: str) -> None:
    tab.run(
        f"[...document.querySelectorAll('.inbox-item')].find(e => e.innerText.includes({json.dumps(text)}))"
        f".querySelectorAll('.verbs button').forEach(b => b.innerText === {json.dumps(verb)} && b.click())"
    )


def test_a_session_shows_its_deliveries(page: PageWorld) -> None:
    """Each delivery has its time, moment, cue or guard, memories, whether they were used, and its tokens."""
    tab = page.open("#/told")
    tab.wait_text("guard npm * warns")
    text = tab.text()
    for shown in (
        "before a call",
        "changed the call",
        "2 of 4 used",
        "155 tokens",
        "codex",
        "standing rule",
        "not known",
        "path=migrations/**",
    ):
        assert shown in text
    tab.choose(".filters select", "cue")
    tab.wait("document.querySelectorAll('.told-session tbody').length === 1")
    assert tab.errors == []


def test_one_session_is_shown_by_its_id(page: PageWorld) -> None:
    """The link of a session shows its deliveries only, until the filter is removed; a new delivery appears by itself."""
    from lorelog.light.delivery_log import append_delivery

    tab = page.open(f"#/told?session={TODAY}")
    tab.wait("document.querySelectorAll('.told-session').length === 1")
    recall = {"moment": "prompt", "kind": "recall", "tokens": 1, "memories": [page.ids["ttl"]]}
    folder = str(page.home / "data" / "default" / "deliveries")
    append_delivery(folder, "claude", TODAY, {**recall, "project": str(page.project)})
    tab.wait_text("156 tokens")
    tab.click(".filters .chip.active")
    tab.wait("document.querySelectorAll('.told-session').length === 2")


def test_a_guard_shows_its_back_test(page: PageWorld) -> None:
    """The back-test says how many captured calls the guard matches, and which of them the user corrected."""
    tab = page.open("#/told/guards")
    tab.wait("document.querySelector('.replay-hit')")
    text = tab.text()
    assert "caught 1 of 12 calls: you corrected it" in text
    assert "npm install preact" in text


def test_rules_and_memories_have_a_balance(page: PageWorld) -> None:
    """A line of AGENTS.md opens with the calls that broke it; a memory that changed a call says so, one without a sign of use is not used."""
    (page.project / "AGENTS.md").write_text("- Never run `npm install`.\n", "utf-8")
    tab = page.open("#/told/rules")
    tab.wait_text("AGENTS.md:1")
    tab.click(".back-test summary", "Never run")
    tab.wait_text("npm install preact")
    tab.run("location.hash = '#/told/balance'")
    tab.wait_text("changed the call 1×")
    assert tab.run("[...document.querySelectorAll('.use')].map(e => e.innerText)").count("not used") == 1
    assert tab.errors == []


def test_a_failure_comes_with_what_fixed_it(page: PageWorld) -> None:
    """The newest error is open with the run that passed after a change; an error that is pasted is looked up."""
    tab = page.open("#/told/failures")
    tab.wait_text("AssertionError: 300 != 60")
    tab.wait_text("src/harbor/cache/shipments.py")
    tab.fill(".ask-error input", "KeyError: 'walrus'")
    tab.click(".ask-error button")
    tab.wait_text("It was not seen before as an error.")
    assert tab.errors == []


def test_a_guard_is_switched_and_removed(page: PageWorld) -> None:
    """Switching off and on, calling it wrong and removing it are in the guard's log."""
    tab = page.open("#/told/guards")
    tab.click(".guard:first-child .verbs button", "Switch off")
    tab.wait("document.querySelector('.guard:first-child').classList.contains('off')")
    assert (guard(page, "npm *") or {})["state"] == "off"
    tab.click(".guard:first-child .verbs button", "Switch on, blocking")
    tab.wait("document.querySelector('.guard:first-child .chip.bad')")
    assert (guard(page, "npm *") or {})["action"] == "block"
    tab.click(".guard:first-child .verbs button", "Not what I want")
    tab.wait_text("not wanted 1 of 3 times")
    tab.click(".guard:first-child .verbs button", "Remove")
    tab.wait("document.querySelectorAll('.guard').length === 2")
    assert guard(page, "npm *") is None
    tab.click(".toast button", "Undo")
    tab.wait("document.querySelectorAll('.guard').length === 3 && document.querySelector('.guard .chip.bad')")
    assert (guard(page, "npm *") or {})["state"] == "on"


def test_a_guard_is_tried_and_added(page: PageWorld) -> None:
    """A new guard can be back-tested before it is added; a pattern that matches everything is refused with the reason."""
    tab = page.open("#/told/guards")
    tab.click("button", "New guard")
    tab.fill("dialog input[name=command]", "*")
    tab.fill("dialog input[name=message]", "Ask first.")
    tab.click("dialog button.primary")
    tab.wait("document.querySelector('dialog .notice.error')")
    tab.fill("dialog input[name=command]", "make rehearse *")
    tab.click("dialog footer button", "Back-test")
    tab.wait_text("1 of 12")
    check_accessible(tab)
    tab.click("dialog button.primary")
    tab.wait("!document.querySelector('dialog')")
    assert (guard(page, "make rehearse *") or {})["message"] == "Ask first."


def test_a_proposed_rule_is_approved_and_undone(page: PageWorld) -> None:
    """Approving writes the rule as the user's own memory to the journal; Undo brings the proposal back."""
    text = "Always add an index in a migration of its own."
    tab = inbox(page, text)
    press_verb(tab, text, "Approve")
    tab.wait_text("it is your rule now")
    new = page.call("memory.get", {"id": page.ids["agent rule"]})["superseded_by"]
    written = page.call("memory.expand", {"id": new})
    assert written["origin"] == "user"
    assert f"supersedes:{page.ids['agent rule']}" in written["content"]
    is_listed = (
        f"[...document.querySelectorAll('.inbox-item .markdown')].some(e => e.innerText.includes({json.dumps(text)}))"
    )
    tab.wait(f"!{is_listed}")
    tab.click(".toast button", "Undo")
    tab.wait(is_listed)
    assert not page.call("memory.get", {"id": page.ids["agent rule"]})["superseded_by"]


def test_a_remark_is_approved_in_other_words(page: PageWorld) -> None:
    """A remark of a conversation becomes a rule in the words that the user gives it."""
    text = "use pnpm, not npm"
    tab = inbox(page, text)
    press_verb(tab, text, "Word it…")
    tab.fill("dialog textarea", "Packages are installed with pnpm, never with npm.")
    check_accessible(tab)
    tab.click("dialog button.primary")
    tab.wait_text("it is a rule now")
    listed = page.call("memory.list", {"types": ["preference"]})["memories"]
    assert any("Packages are installed with pnpm" in each["content"] and each["origin"] == "user" for each in listed)


def test_refusing_deletes_an_imported_memory(page: PageWorld) -> None:
    """An import that is refused is deleted, and Undo restores it."""
    text = "Tarnfreight answers 200"
    tab = inbox(page, text)
    press_verb(tab, text, "Refuse")
    tab.wait("![...document.querySelectorAll('.inbox-item')].some(e => e.innerText.includes('Tarnfreight answers'))")
    assert page.call("memory.get", {"id": page.ids["import"]})["deleted"]
    tab.click(".toast button", "Undo")
    tab.wait("[...document.querySelectorAll('.inbox-item')].some(e => e.innerText.includes('Tarnfreight answers'))")
    assert not page.call("memory.get", {"id": page.ids["import"]})["deleted"]


def test_guards_and_summaries_are_decided_by_keyboard(page: PageWorld) -> None:
    """J and k select an item, a approves it, r refuses it: a guard is switched on, a summary deleted."""
    tab = page.open("#/told/inbox?kind=guard")
    tab.wait("document.querySelectorAll('.inbox-item').length === 2")
    tab.press("a")
    tab.wait("document.querySelectorAll('.inbox-item').length === 1")
    assert (guard(page, "git push *--force *") or {})["state"] == "on"
    tab.press("r")
    tab.wait_text("Nothing waits for you.")
    assert guard(page, "terraform apply *") is None
    assert page.call("guard.list", {})["proposals"] == []
    tab.run("location.hash = '#/told/inbox?kind=summary'")
    tab.wait_text("Yesterday: the retries")
    tab.press("r")
    tab.wait_text("Nothing waits for you.")
    assert page.call("memory.list", {"types": ["summary"]})["memories"] == []


def test_a_long_inbox_is_emptied_by_day_and_by_keyboard(page: PageWorld, tmp_path: Path) -> None:
    """Hundreds of statements are grouped by day, newest first; selected ones are closed together, and the next ones come."""
    before = page.call("review.list", {"kind": "statement"})["total_count"]
    lines = [
        line
        for number in range(230)
        for line in claude_turn(
            f"u{number}",
            f"look at part {number}",
            "Done.",
            timestamp=f"2099-03-{5 + number // 115:02}T{10 + number % 115 // 60}:{number % 115 % 60:02}:00.000Z",
        )
    ]
    talk = write_lines(tmp_path / "long.jsonl", lines)
    page.call("session.capture", {"host": "claude", "session": "long", "transcript": str(talk), "everything": True})
    tab = page.open("#/told/inbox?kind=statement")
    tab.wait("document.querySelectorAll('.inbox-item').length === 200")
    assert f"The newest 200 of {230 + before}" in tab.text()
    assert "look at part 229" in tab.run("document.querySelector('.inbox-item').innerText")
    check_accessible(tab)
    tab.press("m")
    tab.press("j")
    tab.press("m")
    tab.press("r")
    tab.wait("document.querySelector('dialog[open]')")
    tab.press("Enter")
    tab.wait_text("2 closed")
    assert page.call("review.list", {"kind": "statement"})["total_count"] == 228 + before
    tab.wait("document.querySelector('.inbox-group h2 button').innerText === 'Select these 113'")
    tab.press("*")
    tab.press("r")
    tab.click("dialog button.danger")
    tab.wait_text("200 closed")
    tab.wait(f"document.querySelectorAll('.inbox-item').length === {28 + before}")
    assert "about" in tab.run("document.querySelector('.judge-state').innerText")
    assert tab.errors == []
