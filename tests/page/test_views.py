"""The views Records, Memory, Search, Timeline and Shown to agents, in a browser: each verb and its effect on disk."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from examples.demo_sessions import TODAY
from tests.ingest.transcripts.conversations import claude_turn, write_lines
from tests.page.browser import Tab
from tests.page.conftest import PageWorld, check_accessible

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


def show(page: PageWorld, name: str) -> Tab:
    tab = page.open(f"#/memory/{page.ids[name]}")
    tab.wait("document.querySelector('.card .markdown')")
    return tab


def choose_verb(tab: Tab, name: str) -> None:
    tab.run("document.querySelector('.menu button').focus()")
    tab.press("ArrowDown")
    tab.wait("document.activeElement?.role === 'menuitem'")
    while not tab.run("document.activeElement.innerText").startswith(name):
        tab.press("ArrowDown")
    tab.press("Enter")


def file_of(page: PageWorld, name: str) -> Path:
    return Path(page.call("memory.expand", {"id": page.ids[name]})["source"])


def test_edit_writes_the_file_and_keeps_the_id(page: PageWorld) -> None:
    """Editing shows the words only; saved, they are in the Markdown file, below the same time and id."""
    tab = show(page, "pnpm")
    tab.press("e")
    tab.wait("document.querySelector('dialog textarea')")
    text = tab.run("document.querySelector('dialog textarea').value")
    assert text.startswith("Use pnpm")
    before = file_of(page, "pnpm").read_text("utf-8")
    tab.fill("dialog textarea", text.replace("never npm", "not npm or yarn"))
    tab.click("dialog button.primary")
    tab.wait("!document.querySelector('dialog')")
    tab.wait_text("not npm or yarn")
    assert file_of(page, "pnpm").read_text("utf-8") == before.replace("never npm", "not npm or yarn")
    assert page.call("memory.get", {"id": page.ids["pnpm"]})["memory"]["origin"] == "user"


def test_an_edit_does_not_overwrite_another_editor_s_change(page: PageWorld) -> None:
    """If the file changed meanwhile, nothing is written, both texts are shown, and mine can be saved knowingly."""
    tab = show(page, "pnpm")
    tab.press("e")
    tab.wait("document.querySelector('dialog textarea')")
    path = file_of(page, "pnpm")
    path.write_text(path.read_text("utf-8").replace("the lockfile is pnpm's", "CI checks the lockfile"), "utf-8")
    page.call("memory.index", {})
    text = tab.run("document.querySelector('dialog textarea').value")
    tab.fill("dialog textarea", text.replace("never npm", "not yarn"))
    tab.click("dialog button.primary")
    tab.wait_text("The file was changed meanwhile")
    assert "CI checks the lockfile" in path.read_text("utf-8")
    assert "not yarn" not in path.read_text("utf-8")
    tab.click("dialog button.primary", "Save mine over it")
    tab.wait("!document.querySelector('dialog')")
    assert "not yarn" in path.read_text("utf-8")


def test_supersede_shows_now_and_before(page: PageWorld) -> None:
    """Replacing a memory opens the new one, with both texts side by side; the old text stays in its file."""
    tab = show(page, "review")
    tab.press("s")
    tab.fill("dialog textarea", "Pull requests need two reviews.")
    tab.click("dialog button.primary")
    tab.wait_text("Now and before")
    tab.wait_text("need one review")
    assert page.call("memory.get", {"id": page.ids["review"]})["superseded_by"]
    assert "need one review" in file_of(page, "review").read_text("utf-8")


def test_delete_can_be_undone(page: PageWorld) -> None:
    """X hides a memory and offers to undo it; a deleted memory's page offers to restore it."""
    tab = show(page, "pnpm")
    tab.press("x")
    tab.wait_text("This memory is deleted")
    assert page.call("memory.get", {"id": page.ids["pnpm"]})["deleted"]
    tab.click(".toast button", "Undo")
    tab.wait_text("Use pnpm in this repository")
    assert not page.call("memory.get", {"id": page.ids["pnpm"]})["deleted"]


def test_expiry_and_review_days_are_set(page: PageWorld) -> None:
    """The last day and the day of review are saved; an impossible day is refused with the reason."""
    tab = show(page, "pnpm")
    choose_verb(tab, "Expiry")
    tab.fill("dialog input", "soon")
    tab.click("dialog button.primary")
    tab.wait("document.querySelector('dialog .notice.error')")
    tab.fill("dialog input", "2099-12-31")
    tab.click("dialog button.primary")
    tab.wait("!document.querySelector('dialog')")
    tab.wait_text("2099-12-31")


def test_forget_needs_the_id_and_leaves_a_receipt(page: PageWorld) -> None:
    """Forgetting is confirmed by typing the id; the text is then in no file, and a receipt says so."""
    path = file_of(page, "pnpm")
    tab = show(page, "pnpm")
    choose_verb(tab, "Forget")
    tab.wait_text("Erased")
    assert tab.run("document.querySelector('dialog button.danger').disabled")
    tab.fill("dialog input.mono", page.call("memory.get", {"id": page.ids["pnpm"]})["memory"]["id"][:8])
    tab.wait("!document.querySelector('dialog button.danger').disabled")
    tab.click("dialog button.danger")
    tab.wait_text("Receipt")
    tab.wait("document.querySelector('dialog .notice.good')")
    assert "Use pnpm" not in path.read_text("utf-8")
    assert page.call("memory.forget_receipts", {})["receipts"]


def test_a_memory_shows_where_it_was_delivered(page: PageWorld) -> None:
    """A memory names the sessions it was shown to, by which cue, and whether it was used."""
    tab = show(page, "migrations")
    tab.wait_text("Shown to agents")
    tab.wait_text("path=migrations/**")
    tab.wait("document.querySelector('.card .use.yes')?.innerText === 'used'")


def test_searches_as_you_type(page: PageWorld) -> None:
    """Typing finds memories without a further key: their first sentence, type, file and relevance, whose parts add up; the foot has the time."""
    tab = page.open("#/search")
    tab.fill("input[type=search]", "shipment cache TTL")
    tab.wait("document.querySelector('.hit .relevance-bar')")
    tab.wait("document.querySelector('.hit-title').innerText.startsWith('The shipment cache has a TTL of 60 seconds')")
    assert tab.run("[...document.querySelector('.hit-foot').children].map(e => e.innerText)")[1:3] == [
        "decision",
        f"{date.today()}.md",
    ]
    tab.wait("document.querySelector('.score-table')")
    numbers = tab.run("[...document.querySelectorAll('.score-table .number')].map(e => Number(e.textContent))")
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.01)
    assert re.search(r"of \d+ sections in [\d.]+ m?s", tab.run("document.querySelector('.count').innerText"))
    assert tab.run("location.hash").startswith("#/search?q=shipment")
    assert tab.errors == []


@pytest.mark.parametrize("view", ["home", "search", "records/tasks", "settings"])
def test_fast_typing_loses_no_letter(page: PageWorld, view: str) -> None:
    """A search box has every letter that was typed quickly on a slow machine, at home too, where the first one begins the search, and then asks the server for nothing more."""
    text = "why did we shorten the cache TTL"
    tab = page.open(f"#/{view}")
    tab.wait("document.querySelector('main input[type=search]')")
    tab.run("document.querySelector('main input[type=search]').focus()")
    tab.send("Emulation.setCPUThrottlingRate", rate=6)
    tab.type(text, pauses_ms=(10, 30, 50, 20))
    tab.wait(f"document.querySelector('main input[type=search]').value === {json.dumps(text)}")
    tab.wait(f"new URLSearchParams(location.hash.split('?')[1]).get('q') === {json.dumps(text)}")
    if view in {"home", "search"}:
        tab.wait(f"document.querySelector('.results').dataset.question === {json.dumps(text)}")
    tab.wait_quiet()
    assert tab.run("document.querySelector('main input[type=search]').value") == text
    assert tab.errors == []


def test_keys_walk_the_results_and_open_a_memory(page: PageWorld) -> None:
    """J and k move the selection, Enter opens the memory, Escape leads back."""
    tab = page.open("#/search?q=cache")
    tab.wait("document.querySelectorAll('.row').length > 2")
    tab.run("document.activeElement.blur()")
    tab.press("j")
    tab.wait("document.querySelector('.row.selected')?.id === 'row-1'")
    tab.press("k")
    tab.wait("document.querySelector('.row.selected')?.id === 'row-0'")
    tab.press("Enter")
    tab.wait("location.hash.startsWith('#/memory/') && document.querySelector('.card .markdown')")
    tab.press("Escape")
    tab.wait("location.hash.startsWith('#/search')")


def test_weak_matches_are_behind_a_click(page: PageWorld) -> None:
    """If nothing is likely, the page says so, and the weak matches are listed after a click, with bars as short as their relevance."""
    tab = page.open(
        "#/search?q=cache%20shipment%20marmalade%20giraffes%20juggle%20purple%20quantum%20sourdough%20bread"
    )
    tab.wait_text("Probably nothing relevant.")
    assert tab.run("document.querySelectorAll('.hit').length") == 0
    tab.click(".notice .unfold", "weak match")
    tab.wait("document.querySelector('.hit .relevance-bar')")
    assert tab.run("parseFloat(document.querySelector('.hit .relevance-bar').style.width)") < 20
    assert tab.run("document.querySelector('.count').innerText.includes('+')") is False


def test_filters_are_set_and_removed_by_click(page: PageWorld) -> None:
    """Clicking a type shows memories of that type only; clicking the filter shows all again."""
    tab = page.open("#/search")
    tab.click(".hit .type", "correction")
    types = "[...document.querySelectorAll('.row .type')].map(e => e.innerText)"
    tab.wait(f"{types}.length > 0 && {types}.every(type => type === 'correction')")
    tab.click(".filters .chip.active", "correction")
    tab.wait("document.querySelectorAll('.row').length > 5")


def test_the_time_of_a_question_is_shown_as_understood(page: PageWorld) -> None:
    """A question about last week shows the days that were understood."""
    tab = page.open("#/search?q=what%20did%20we%20decide%20about%20the%20cache%20last%20week%3F")
    tab.wait("document.querySelector('.chip.understood')")


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
