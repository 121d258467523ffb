"""The view Memory, in a browser: each verb and its effect on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.browser import Tab
from tests.page.conftest import PageWorld

pytestmark = pytest.mark.slow


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
