"""What every view is drawn with, key by key, and what holds for all of them: narrow screens, zoom, the keyboard, other tabs and programs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bench.corpus import write_journals
from tests.page.browser import Browser, Tab
from tests.page.conftest import PageWorld, check_accessible
from tests.surfaces.conftest import command_line, project  # noqa: F401  (a fixture)
from tests.surfaces.daemon.conftest import Warm, warm  # noqa: F401  (a fixture)

pytestmark = pytest.mark.slow
LINES = {
    "a*b, src/*, lib/*, *.py and {{7*7}}": "a*b, src/*, lib/*, *.py and {{7*7}}",
    "*args, **kwargs, snake_case_name and __init__.py": "*args, **kwargs, snake_case_name and __init__.py",
    "**Decision**: *never* `src/**/*.ts`": "<strong>Decision</strong>: <em>never</em> <code>src/**/*.ts</code>",
    "- Outcome: done \\# here\n- Files: `a.py`": "Outcome: done # here · Files: <code>a.py</code>",
    "see [the page](https://example.test/x), not ![it](a.png)": "see the page, not it",
    "kept <!-- memory:x type:fact -->whole<!-- memory:94b8 ty": "kept whole",
    "<b onclick=x>admin\u202etxt</b>": "&lt;b onclick=x&gt;admin⟨U+202E⟩txt&lt;/b&gt;",
}
"""Lines of Markdown with the elements they become."""
TITLES = {
    "### 20:30\n<!-- memory:x -->\nUse `a. B`, e.g. this. Then more.\n- c": [
        "Use `a. B`, e.g. this.",
        "Then more.\n- c",
    ],
    "### 9:05\n- User asked: Why? And how?\n- Outcome: so.": ["Why? And how?", "- Outcome: so."],
    "## Traps\n\n| a | b |\n|---|---|": ["Traps", "| a | b |\n|---|---|"],
    "发现上海港的时区写错了。全部改成。": ["发现上海港的时区写错了。", "全部改成。"],
    "word " * 60: ["word " * 36 + "…", "word " * 60],
}
"""Texts of memories with their title and what is left of the text below it."""


def open_palette(tab: Tab) -> None:
    tab.press("k", control=True)
    tab.wait("document.activeElement?.role === 'combobox'")


def test_a_line_of_markdown_loses_nothing(page: PageWorld) -> None:
    """Stars that are not markup stay, code and emphasis are shown as such, comments are left out, hidden characters named."""
    tab = page.open("#/search")
    for line, wanted in LINES.items():
        drawn = tab.run(
            "Promise.all([import('/page/ui.js'), import('/page/vendor/preact.js')]).then(([ui, { render }]) => {"
            f" const box = document.createElement('div'); render(ui.html`<${{ui.Inline}} text=${{{json.dumps(line)}}} />`, box);"
            " return box.innerHTML.trim(); })"
        )
        assert drawn == wanted, line
    for text, (title, rest) in TITLES.items():
        heading = text.partition("\n")[0].lstrip("# ") if text.startswith("#") else ""
        parts = tab.run(f"import('/page/ui.js').then(ui => ui.splitTitle({json.dumps(text)}, {json.dumps(heading)}))")
        assert [parts["title"].replace("word…", "word …"), parts["rest"]] == [title, rest], text


def test_a_memory_is_named_by_its_first_sentence(page: PageWorld) -> None:
    """The list, the heading of the memory and its text agree: the sentence is the title, and is not said twice."""
    page.call("memory.add", {"text": "Deploys go out on `Tuesdays`. Never on *Friday*.", "type": "decision"})
    tab = page.open("#/search", width=1440, height=900)
    tab.wait("document.querySelector('.row.selected .hit-title code')")
    assert tab.run("document.querySelector('.row .hit-title').innerText") == "Deploys go out on Tuesdays."
    assert (
        tab.run("[...document.querySelectorAll('.row')].filter(e => e.getBoundingClientRect().bottom < 876).length")
        >= 18
    )
    tab.wait("document.querySelector('.card .markdown em')")
    assert tab.run("document.querySelector('.card-title').innerText") == "Deploys go out on Tuesdays."
    assert tab.run("document.querySelector('.card > .markdown').innerText") == "Never on Friday."
    colours = "new Set([...document.querySelectorAll('.hit .type')].map(e => e.innerText + getComputedStyle(e).color))"
    types = "new Set([...document.querySelectorAll('.hit .type')].map(e => e.innerText))"
    assert tab.run(f"{colours}.size === {types}.size && {types}.size > 3")


def test_home_is_today(page: PageWorld) -> None:
    """Home has the last session, what waits and what agents were shown, no list; a letter begins a search, Escape twice leads back."""
    tab = page.open("")
    for part in ("Customers see old ETAs", "Waiting for your word", "do not force push", "scripts/check_migrations.py"):
        tab.wait_text(part)
    assert tab.run("document.querySelectorAll('.row').length") == 0
    tab.type("pnpm", pauses_ms=(15,))
    tab.wait("document.querySelector('.results')?.dataset.question === 'pnpm' && document.querySelector('.row')")
    assert tab.run("location.hash") == "#/search?q=pnpm"
    tab.press("Escape")
    tab.press("Escape")
    tab.wait("location.hash === '#/search'")
    tab.press("Escape")
    tab.wait("document.querySelector('.home-part')")
    tab.click(".lists a", "Corrections")
    tab.wait("[...document.querySelectorAll('.hit .type')].some(e => e.innerText === 'correction')")
    assert tab.errors == []


def test_the_palette_does_everything_by_name(page: PageWorld) -> None:
    """Ctrl-K, also from a field: a view, a verb of the open memory and a search by a few letters, arrows and Enter; Escape closes it."""
    tab = page.open("#/search")
    tab.wait("document.activeElement?.type === 'search'")
    option = "document.querySelector('.palette [aria-selected=true]')?.innerText"

    def choose(text: str, name: str) -> None:
        open_palette(tab)
        tab.type(text, pauses_ms=(15,))
        tab.wait(f"{option}?.startsWith({json.dumps(name)})")
        active = tab.run("document.activeElement.getAttribute('aria-activedescendant')")
        assert tab.run(f"document.getElementById({json.dumps(active)}).closest('[role=listbox]').id") == "palette-list"
        tab.press("Enter")
        tab.wait("!document.querySelector('dialog.palette')")

    choose("inb", "Inbox")
    tab.wait("location.hash === '#/told/inbox'")
    choose("giraffes", "Search for")
    tab.wait("location.hash === '#/search?q=giraffes'")
    tab.go(page.address(f"#/memory/{page.ids['pnpm']}"))
    tab.wait("document.querySelector('.card-title')")
    choose("exp rev", "Expiry and review")
    tab.wait("document.querySelector('dialog[open] input')")
    tab.press("Escape")
    open_palette(tab)
    tab.wait(f"{option}?.startsWith('Edit')")
    tab.press("ArrowDown")
    tab.wait(f"{option}?.startsWith('Delete')")
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")
    assert tab.errors == []


def test_keys_wait_for_what_a_key_opens(page: PageWorld) -> None:
    """While the palette or a dialog is being loaded, letters are kept for it, and none is a verb of the memory behind it."""
    tab = page.open(f"#/memory/{page.ids['pnpm']}")
    tab.wait("document.querySelector('.card-title')")
    tab.run(
        "import('/page/ui.js').then(ui => { window.held = ui.loadForKey(() => new Promise(done => { window.loaded = done; })); })"
    )
    for letter in "xyz":
        tab.press(letter)
    assert tab.run("(loaded('a module'), held)") == {"module": "a module", "typed": "xyz"}
    assert not page.call("memory.get", {"id": page.ids["pnpm"]})["deleted"]
    tab.press("e")
    tab.wait("document.querySelector('dialog textarea')")


def test_the_menu_of_verbs_is_a_menu(page: PageWorld) -> None:
    """Arrows walk its items in a circle, letters do nothing behind it, Escape closes it and the button has the focus again."""
    tab = page.open(f"#/memory/{page.ids['pnpm']}")
    button = "document.querySelector('.menu > button')"
    tab.wait(button)
    tab.run(f"{button}.focus()")
    tab.press("Enter")
    tab.wait(f"document.activeElement.role === 'menuitem' && {button}.getAttribute('aria-expanded') === 'true'")
    tab.press("ArrowUp")
    assert tab.run("document.activeElement.innerText").startswith("Forget")
    tab.press("x")
    tab.press("Escape")
    tab.wait(f"!document.querySelector('[role=menu]') && document.activeElement === {button}")
    assert not page.call("memory.get", {"id": page.ids["pnpm"]})["deleted"]


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
