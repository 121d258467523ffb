"""The view Search, in a browser."""

from __future__ import annotations

import json
import re
from datetime import date

import pytest
from tests.page.conftest import PageWorld

pytestmark = pytest.mark.slow


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
