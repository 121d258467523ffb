"""What holds for every view: narrow screens, zoom, the keyboard, other tabs and programs, and servers that restart."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bench.corpus import write_journals
from tests.page.browser import Browser, Tab
from tests.page.conftest import PageWorld, check_accessible
from tests.page.test_look import open_palette
from tests.surfaces.conftest import command_line, project  # noqa: F401  (a fixture)
from tests.surfaces.daemon.conftest import Warm, warm  # noqa: F401  (a fixture)

pytestmark = pytest.mark.slow
VIEWS = ("home", "search", "timeline", "told", "records", "health", "settings")
SHOWN = "e => e.getClientRects().length > 0 && getComputedStyle(e).visibility === 'visible'"
TARGETS = "a[href], button:not(:disabled), input, select, textarea, summary, [tabindex='0']"


def open_view(page: PageWorld, view: str, **emulated: object) -> Tab:
    tab = page.open(f"#/{view}", **emulated)
    tab.wait(f"document.querySelector('main.view-{view.replace('?', '/').partition('/')[0]} h1')")
    tab.wait("!document.querySelector('main')?.innerText.includes('Loading')")
    return tab


def refuse_value(tab: Tab) -> None:
    tab.fill(".setting-form input.mono", "0")
    tab.click(".setting-form button.primary")


OPENED: dict[str, tuple[str, Callable[[Tab], None] | None, str]] = {
    "home": (".home-part .use", open_palette, ".palette [role=option]"),
    "search?q=cache": (".preview .why-now", None, ""),
    "memory/{ttl now}": (".card .markdown", lambda tab: tab.press("e"), "dialog textarea"),
    "timeline": (".timeline", None, ""),
    "told": (".told-table", None, ""),
    "told/balance": (".use.yes", None, ""),
    "told/failures": (".remedies code", None, ""),
    "told/guards": (".replay-hit", None, ""),
    "told/inbox": (".inbox-item .markdown p", None, ""),
    "records/evidence": (".record.focus", lambda tab: tab.click(".record.focus button", "Confirm"), "dialog textarea"),
    "records/wiki/brief.md": (".wiki .markdown li", None, ""),
    "health": (".problems li", lambda tab: tab.click("details summary"), "details[open]"),
    "settings?edit=search.k": (".setting-form", refuse_value, ".setting-form .notice.error"),
}
"""Views with the element that shows that they are complete; what to do then, and the element that it shows."""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("view", OPENED)
def test_every_view_is_accessible(page: PageWorld, view: str, *, dark: bool) -> None:
    """Axe has no serious finding, in light and in dark, also in dialogs and errors; on a phone nothing is wider than the screen."""
    complete, act, shown = OPENED[view]
    tab = page.open(f"#/{view.format_map(page.ids)}", dark=dark, width=390 if dark else 1360)
    tab.wait(f"document.querySelector({complete!r})")
    check_accessible(tab)
    if act:
        act(tab)
        tab.wait(f"document.querySelector({shown!r})")
        check_accessible(tab)
    assert tab.run("document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth")


@pytest.mark.parametrize("size", [{"width": 360, "height": 740}, {"width": 640, "height": 400, "scale": 2.0}])
def test_nothing_is_lost_on_a_narrow_screen(page: PageWorld, size: dict[str, float]) -> None:
    """At a phone's width, and at 200 % zoom, no view scrolls sideways, and navigation and tools can be reached."""
    for view in (*VIEWS, "records/decisions", f"memory/{page.ids['ttl now']}", "search?q=cache"):
        tab = open_view(page, view, **size)
        wide = tab.run(
            "[document.documentElement, ...document.querySelectorAll('body, main, main > *, main > * > :not(.sr-only), .rail, .search-head')]"
            ".filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')"
            ".map(e => `${e.tagName}.${e.className} ${e.scrollWidth} > ${e.clientWidth}`)"
        )
        assert wide == [], view
        beyond = tab.run(
            f"[...document.querySelectorAll({TARGETS!r})].filter({SHOWN})"
            ".filter(e => { const r = e.getBoundingClientRect(); return !e.closest('pre, table, .sr-only, .skip, .turns') && (r.left < -1 || r.right > innerWidth + 1); })"
            ".map(e => e.outerHTML.slice(0, 120))"
        )
        assert beyond == [], view
        missing = tab.run(
            f"[...document.querySelectorAll('.rail li a, .rail .tools button, .scope button')].filter(e => !({SHOWN})(e))"
            ".map(e => e.outerHTML.slice(0, 120))"
        )
        assert missing == [], view
        narrow = tab.run(
            "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility({ opacityProperty: true }) && e.clientWidth > 4 && e.clientWidth < 40 && e.innerText?.length > 20)"
            ".map(e => e.outerHTML.slice(0, 120))"
        )
        assert narrow == [], view  # a column of single letters


@pytest.mark.parametrize("view", [*VIEWS, "memory"])
def test_the_keyboard_reaches_everything(page: PageWorld, view: str) -> None:
    """Tab reaches every control of a view, one after the other, and shows where it is."""
    tab = open_view(page, f"memory/{page.ids['pnpm']}" if view == "memory" else view)
    tab.run("document.activeElement?.blur()")
    tab.run(
        f"window.wanted = [...document.querySelectorAll({TARGETS!r})].filter({SHOWN}).filter(e => e.tabIndex >= 0 && e.checkVisibility())"
    )
    wanted = tab.run("wanted.length")
    assert wanted > 8
    tab.run("window.reached = new Set(); window.unseen = []")
    missing = "wanted.filter(e => e.isConnected && !reached.has(e)).map(e => e.outerHTML.slice(0, 100))"
    for _ in range(2 * wanted + 8):  # twice: a view that loads late may take the focus to its start once
        if tab.run(missing) == []:
            break
        tab.press("Tab")
        tab.run(
            "(() => { const e = document.activeElement; reached.add(e); const s = getComputedStyle(e);"
            " if (e !== document.body && s.outlineStyle === 'none' && s.boxShadow === 'none' && s.borderColor === 'rgb(0, 0, 0)')"
            " unseen.push(e.outerHTML.slice(0, 100)); })()"
        )
    assert tab.run(missing) == []
    assert tab.run("unseen") == []


def test_keys_lead_through_all_views(page: PageWorld) -> None:
    """The digits open the views, ? tells the keys, Escape closes that, and / leads to the search from everywhere."""
    tab = open_view(page, "search")
    tab.run("document.activeElement.blur()")
    for number, view in enumerate((*VIEWS[:4], "told", *VIEWS[4:]), start=1):
        tab.press(str(number))
        tab.wait(f"document.querySelector('#page:has(li:nth-child({number}) [aria-current]) .view-{view} h1')")
        tab.run("document.activeElement.blur()")
        tab.press("?")
        tab.wait("document.querySelector('dialog[open] .keys')")
        tab.press("Escape")
        tab.wait("!document.querySelector('dialog')")
    tab.press("/")
    tab.wait("document.activeElement?.type === 'search'")
    assert tab.errors == []


def test_two_tabs_and_the_command_line_see_each_other(page: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one tab edits, the other shows; what the command line deletes and restores, both show; and it sees their edit."""
    monkeypatch.setenv("LORELOG_HOME", str(page.home))

    def type_command(*words: str) -> str:
        done = subprocess.run(
            command_line("--daemon", "off", *words), cwd=page.project, capture_output=True, text=True, check=True
        )
        return done.stdout

    first, second = (page.open(f"#/memory/{page.ids['pnpm']}") for _ in range(2))
    for tab in (first, second):
        tab.wait_text("Use pnpm in this repository")
    first.press("e")
    first.wait("document.querySelector('dialog textarea')")
    text = first.run("document.querySelector('dialog textarea').value")
    first.fill("dialog textarea", text.replace("never npm", "npm is not used"))
    first.click("dialog button.primary")
    second.wait_text("npm is not used")
    assert "npm is not used" in type_command("show", page.ids["pnpm"])
    type_command("delete", page.ids["pnpm"])
    for tab in (first, second):
        tab.wait_text("This memory is deleted")
    type_command("restore", page.ids["pnpm"])
    for tab in (first, second):
        tab.wait_text("npm is not used")


def start_page(place: Path, port: int = 0) -> tuple[subprocess.Popen[str], str]:
    """Run `lorelog ui`; return its process and the address that it printed."""
    words = command_line("ui", "--no-open", "--port", str(port))
    process = subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_the_page_outlives_the_daemon(warm: Warm, browser: Browser) -> None:  # noqa: F811
    """While the daemon stops and starts again, an open page finds, shows and writes memories."""
    warm.start()
    warm.ask("memory.add", {"text": "The walrus is grey."})
    process, address = start_page(warm.project)
    try:
        tab = browser.open(address)
        tab.wait("document.querySelector('main h1')")
        tab.run("location.hash = '#/search'")
        tab.wait_text("The walrus is grey.")
        for animal, change in (("narwhal", warm.stop), ("beluga", warm.start)):
            change()
            added = tab.run(f"""fetch('/api/page/call/memory.add', {{ method: 'POST', headers: {{ 'Content-Type': 'application/json' }},
                body: JSON.stringify({{ text: 'The {animal} sings.' }}) }}).then(r => r.status)""")
            assert added == 200
            tab.wait_text(f"The {animal} sings.")
            tab.fill("input[type=search]", animal)
            tab.wait(f"document.querySelector('.hit-title')?.innerText.toLowerCase().includes('{animal}')")
            tab.fill("input[type=search]", "")
        assert tab.run("document.querySelector('.live').innerText") == "connected"
    finally:
        process.terminate()
        process.communicate()


def test_the_page_reports_a_server_restart(warm: Warm, browser: Browser) -> None:  # noqa: F811
    """While the server is gone, the page says that it is reconnecting; at a new one it says how to log in, and then works."""
    process, address = start_page(warm.project)
    port = urlsplit(address).port
    assert port is not None
    try:
        tab = browser.open(address)
        tab.wait("document.querySelector('.live')?.innerText === 'connected'")
        process.terminate()
        process.communicate()
        tab.wait("document.querySelector('.live.off')")
        process, address = start_page(warm.project, port)
        tab.wait_text("This browser is not logged in")
        tab.go(address)
        tab.wait("document.querySelector('.live')?.innerText === 'connected'")
    finally:
        process.terminate()
        process.communicate()


def test_ten_thousand_memories_scroll(page: PageWorld) -> None:
    """Of 10,000 memories, few are loaded first and few rows exist at a time, yet the last one can be reached."""
    write_journals(page.project / "memory" / "old", 10_000)
    page.call("memory.index", {"vectors": False})
    count = len(page.call("memory.list", {"limit": 20_000})["memories"])
    assert count > 10_000
    tab = open_view(page, "search")
    tab.wait("document.querySelectorAll('.row').length > 5")
    assert tab.run("Number(document.querySelector('.row').getAttribute('aria-setsize'))") <= 200
    box = "document.querySelector('.long-list')"
    tab.wait(f"({box}.scrollTop = {box}.scrollHeight, document.querySelector('#row-{count - 1}'))", 120)
    assert tab.run("document.querySelectorAll('.row').length") < 60
    assert tab.errors == []
