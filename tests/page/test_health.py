"""The view Health and cost, in a browser."""

from __future__ import annotations

from datetime import date

import pytest
from tests.page.conftest import PageWorld

pytestmark = pytest.mark.slow
DRAWN = "[...document.querySelectorAll('.canvas svg')].map(p => [...p.querySelectorAll('rect, .stroke')].some(m => m.getBBox().height > 20))"
"""For each plot, whether a bar or a line of some height is in it."""


def test_index_daemon_hosts_and_files_are_shown(page: PageWorld) -> None:
    """The four tiles have the sizes of the index, the daemon's state, the hosts and the indexed files."""
    tab = page.open("#/health")
    tab.wait("document.querySelectorAll('.tile dl, .tile .plain-list').length >= 3")
    stats = page.call("memory.stats", {})
    tab.wait_text(f"{stats['chunks']} chunks")
    tab.wait_text("not running")
    for text in ("Claude Code", "OpenClaw", ".lorelog/memory"):
        tab.wait_text(text)


def test_problems_come_with_their_remedy(page: PageWorld) -> None:
    """A memory that is due and a damaged file are listed, each with what to do; the page shows what is due."""
    with (page.home / "data" / "default" / "guards.jsonl").open("a", encoding="utf-8") as guards:
        guards.write("{broken\n")
    tab = page.open("#/health")
    tab.wait_text("due for review")
    [check] = [check for check in page.call("memory.health", {})["checks"] if "guards.jsonl" in check["message"]]
    tab.wait_text(check["message"])
    tab.wait_text(check["hint"])
    tab.click(".problems a", "Show")
    tab.wait("document.querySelectorAll('.row').length === 1")
    assert "Pull requests need one review" in tab.run("document.querySelector('.row').innerText")


def test_plots_are_drawn_and_can_be_read_as_tables(page: PageWorld) -> None:
    """The bill, the growth of index and journals, and the tokens shown are drawn; the same numbers are in tables."""
    tab = page.open("#/health")
    tab.wait("document.querySelectorAll('.canvas svg').length === 4")
    tab.wait(f"{DRAWN}.every(Boolean)")
    tab.run("document.querySelectorAll('.as-table').forEach(d => { d.open = true; })")
    total = page.call("memory.cost", {"since": "30d", "by": ["purpose"]})
    assert f"{total['total']['calls']} calls" in tab.text()
    tab.wait("document.querySelector('.as-table tbody tr')")
    assert "session notes" in tab.run("document.querySelector('.plot.wide table').innerText")
    tab.run(
        "(() => { const c = document.querySelector('.canvas'), { right, top } = c.getBoundingClientRect();"
        " c.dispatchEvent(new PointerEvent('pointermove', { clientX: right - 20, clientY: top + 50, bubbles: true })); })()"
    )
    tab.wait(f"document.querySelector('.read-out').innerText.startsWith('{date.today()}  session notes')")
    assert tab.errors == []


def test_a_call_of_a_model_changes_the_bill_without_reloading(page: PageWorld) -> None:
    """The total is that of the chosen period, and a receipt written by another process appears in it."""
    from lorelog.services.llm.receipts import CallOutcome, ModelCall, Receipts

    tab = page.open("#/health")
    tab.click(".periods button", "7 days")
    tab.wait("location.hash.includes('since=7d')")
    calls = page.call("memory.cost", {"since": "7d"})["total"]["calls"]
    tab.wait_text(f"{calls} calls")
    receipts = Receipts(page.home / "data" / "default" / "receipts.jsonl")
    receipts.record(ModelCall("note", "demo", "claude-haiku"), CallOutcome("ok", 900, 90, 1.0))
    tab.wait_text(f"{calls + 1} calls")
