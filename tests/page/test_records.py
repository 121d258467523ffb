"""The view Records, in a browser: tasks, threads, trust and its reason, the wiki, and the verbs that write records."""

from __future__ import annotations

import pytest
from tests.page.conftest import PageWorld

pytestmark = pytest.mark.slow


def ledger(page: PageWorld) -> str:
    return (page.home / "data" / "default" / "ledger.jsonl").read_text("utf-8")


def test_a_task_shows_its_state_and_its_thread(page: PageWorld) -> None:
    """The newest task is open: its next step, and its records with replies below what they reply to."""
    tab = page.open("#/records")
    tab.wait_text("Move carrier polling to events")
    tab.click(".record-rows a", "Ship webhooks exactly once")
    tab.wait_text("replay a day")
    tab.wait_text("0 duplicates in 41,000 deliveries")
    assert "I replayed Tuesday" in tab.run("document.querySelector('.thread .thread').innerText")
    assert tab.run("document.querySelector('.records-detail').innerText").count("verified record") >= 1


def test_trust_shows_its_reason_and_its_verification(page: PageWorld) -> None:
    """A verified record says why it is trusted, and links to the verification."""
    tab = page.open("#/records/evidence")
    tab.wait_text("0 duplicates in 41,000 deliveries")
    tab.wait("document.querySelector('.record.focus .why a')")
    reason = tab.run("document.querySelector('.record.focus .why').innerText")
    [evidence] = [item for item in page.call("artifact.find_evidence", {})["results"] if "0 duplicates" in item["text"]]
    assert evidence["trust"]["reason"] in reason
    tab.click(".record.focus .why a")
    tab.wait(f"location.hash.includes('{evidence['trust']['verified_by'][0]}')")


def test_a_task_is_found_by_words_and_status(page: PageWorld) -> None:
    """Typing in the field lists the matching tasks; the status leaves out the others."""
    tab = page.open("#/records")
    tab.wait_text("Move carrier polling to events")
    tab.choose("select", "completed")
    tab.wait("document.querySelectorAll('.record-rows li').length === 1")
    tab.wait_text("500 runs without a failure")
    tab.fill(".records-head input", "no such words at all zzz")
    tab.wait("document.querySelector('.records .empty, .record-rows')")


def test_a_dispute_is_written_to_the_ledger(page: PageWorld) -> None:
    """Disputing a decision appends a verification that does not support it, and the thread shows it."""
    tab = page.open("#/records/decisions")
    tab.click(".record-rows a", "Tests never read the real clock")
    tab.wait_text("Tests never read the real clock")
    before = ledger(page)
    tab.click(".record.focus button", "Dispute")
    tab.fill("dialog textarea", "The nightly tests read it.")
    tab.click("dialog button.primary")
    tab.wait("!document.querySelector('dialog')")
    tab.wait_text("The nightly tests read it.")
    tab.wait_text("contradicts it")
    assert "The nightly tests read it." in ledger(page)[len(before) :]


def test_a_decision_is_recorded(page: PageWorld) -> None:
    """A decision that is typed in the page is in the ledger, as the user's, and is opened."""
    tab = page.open("#/records")
    tab.click("button", "Record a decision")
    tab.fill("dialog textarea", "Releases are cut on Tuesdays.")
    tab.click("dialog button.primary")
    tab.wait("!document.querySelector('dialog')")
    tab.wait("document.querySelector('.record.focus')")
    [hit] = page.call("artifact.search", {"query": "Releases Tuesdays", "kinds": ["decision"], "k": 1})["hits"]
    assert hit["artifact"]["summary"] == "Releases are cut on Tuesdays."
    assert hit["artifact"]["origin"] == "user"


def test_the_wiki_is_read_and_its_citations_lead_to_records(page: PageWorld) -> None:
    """The index of the wiki links to its pages, and a citation to the record."""
    tab = page.open("#/records/wiki")
    tab.click(".wiki a", "Decisions")
    tab.wait("location.hash.endsWith('/wiki/decisions.md')")
    tab.wait_text("Decisions in force")
    tab.click(".wiki li a")
    tab.wait("document.querySelector('.record.focus')")
    assert tab.errors == []


def test_keys_move_through_the_list(page: PageWorld) -> None:
    """J and k open the next and the previous record, Escape leaves it."""
    tab = page.open("#/records")
    tab.wait_text("Move carrier polling to events")
    tab.press("j")
    tab.wait("location.hash.startsWith('#/records/tasks/')")
    first = tab.run("location.hash")
    tab.press("j")
    tab.wait(f"location.hash !== '{first}'")
    tab.press("k")
    tab.wait(f"location.hash === '{first}'")
    tab.press("Escape")
    tab.wait("location.hash === '#/records/tasks'")


def test_hostile_records_stay_text(page: PageWorld) -> None:
    """Script, reordering characters and links in a record are shown, not run or followed."""
    text = "<img src=x onerror=alert(1)> \u202egnp.exe [go](javascript:alert(1))"
    page.call("artifact.decision", {"summary": text, "writer": "eve"})
    tab = page.open("#/records/decisions")
    tab.wait_text("<img src=x onerror=alert(1)>")
    assert "U+202E" in tab.text()
    assert tab.run("document.querySelectorAll('main img, main a[href^=javascript]').length") == 0
