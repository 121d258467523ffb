"""What every view is drawn with: the line of Markdown, the title of a memory, home, the palette and the menu, key by key."""

from __future__ import annotations

import json

import pytest
from tests.page.browser import Tab
from tests.page.conftest import PageWorld

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
