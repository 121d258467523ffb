"""The views Settings, and Health and cost, in a browser: each value with its origin, and its effect on the files."""

from __future__ import annotations

from datetime import date

import pytest
from tests.page.browser import Tab
from tests.page.conftest import PageWorld

from lorelog.core.errors import ConfigError
from lorelog.wiring import change_setting, resolve_location

pytestmark = pytest.mark.slow


def edit(page: PageWorld, key: str) -> Tab:
    tab = page.open(f"#/settings?q={key}")
    tab.click(f"#setting-{key.replace('.', chr(92) + '.')} button", "Change")
    tab.wait("document.querySelector('.setting-form')")
    return tab


def test_a_value_is_saved_in_the_user_s_file(page: PageWorld) -> None:
    """A new value is in config.toml and effective, and its origin is shown."""
    tab = edit(page, "search.k")
    tab.fill(".setting-form input.mono", "9")
    tab.click(".setting-form button.primary")
    tab.wait("!document.querySelector('.setting-form')")
    tab.wait("document.querySelector('#setting-search\\\\.k .chip').innerText === 'you'")
    assert "k = 9" in (page.home / "config.toml").read_text("utf-8")
    assert len(page.call("memory.search", {"query": "cache"})["hits"]) > 5


def test_a_value_is_saved_for_the_project_and_removed_again(page: PageWorld) -> None:
    """The project's file is chosen by hand; removing the setting from it brings the default back."""
    tab = edit(page, "search.k")
    tab.fill(".setting-form input.mono", "3")
    tab.click(".setting-form label", "for this project")
    tab.click(".setting-form button.primary")
    tab.wait("document.querySelector('#setting-search\\\\.k .chip').innerText === 'project'")
    assert "k = 3" in (page.project / ".lorelog.toml").read_text("utf-8")
    assert not (page.home / "config.toml").exists()
    tab.click(".setting button", "Change")
    tab.click(".setting-form button", "Remove")
    tab.wait("document.querySelector('#setting-search\\\\.k .chip').innerText === 'default'")
    assert "k = 3" not in (page.project / ".lorelog.toml").read_text("utf-8")


@pytest.mark.parametrize(("key", "value"), [("search.k", "0"), ("search.k", "many"), ("embedding.api_key", "sk-abc")])
def test_a_value_is_refused_with_the_message_of_the_shell(page: PageWorld, key: str, value: str) -> None:
    """The page says what `lorelog config set` says, and nothing is written."""
    tab = edit(page, key)
    tab.fill(".setting-form input.mono", value)
    tab.click(".setting-form button.primary")
    tab.wait("document.querySelector('.setting-form .notice.error')")
    with pytest.raises(ConfigError) as refused:
        change_setting(resolve_location(home=page.home, project=page.project), key, value, of_project=False)
    assert refused.value.message in tab.text()
    assert refused.value.hint in tab.text()
    assert not (page.home / "config.toml").exists()


def test_a_value_of_the_environment_is_named(page: PageWorld) -> None:
    """A setting from the environment shows its variable, and a change in the file says that it has no effect."""
    tab = edit(page, "embedding.provider")
    tab.wait_text("LORELOG_EMBEDDING_PROVIDER")
    tab.choose(".setting-form select", "none")
    tab.click(".setting-form button.primary")
    tab.wait("document.querySelector('.setting-form .notice.warn')")
    assert 'provider = "none"' in (page.home / "config.toml").read_text("utf-8")


def test_a_change_in_the_shell_appears(page: PageWorld) -> None:
    """A setting that the command line changes is shown without reloading."""
    tab = page.open("#/settings?q=search.k")
    tab.wait("document.querySelector('#setting-search\\\\.k')")
    change_setting(resolve_location(home=page.home, project=page.project), "search.k", "12", of_project=False)
    tab.wait("document.querySelector('#setting-search\\\\.k .setting-value').innerText === '12'")


def test_settings_are_filtered(page: PageWorld) -> None:
    """Ten are shown first, all others in closed sections; words leave out other settings, the box those with their default."""
    tab = page.open("#/settings")
    tab.wait("document.querySelectorAll('.setting').length > 60")
    assert tab.run("[...document.querySelectorAll('.setting')].filter(e => e.checkVisibility()).length") == 10
    tab.fill(".settings-head input", "debounce")
    tab.wait("document.querySelectorAll('.setting').length === 1")
    tab.fill(".settings-head input", "")
    tab.click(".settings-head label")
    tab.wait("document.querySelectorAll('.setting').length < 10")
    tab.wait_text("LORELOG_EMBEDDING_PROVIDER")


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
