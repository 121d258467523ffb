"""The wiki: every citation leads to its record, text stays text, and files are written only where something is new."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.services.records.archives import archive_of, say, say_verified

from lorelog.core.errors import StoreUnwritable
from lorelog.core.record import DIGEST_MARK, is_compiled
from lorelog.services.records.archive import Archive
from lorelog.services.records.wiki import compile_wiki
from lorelog.services.records.wiki_files import pages_in, usual_folder, write_pages
from lorelog.services.records.wiki_words import anchor, authored, escaped, fenced, quoted_lines, slug

MARKDOWN = MarkdownIt("commonmark")
"""As lenient as Markdown gets: HTML is let through."""
LINK = re.compile(r"\]\(([^)#]+)#([^)]+)\)")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """The records of an empty project."""
    place = tmp_path / "app"
    place.mkdir()
    with archive_of(place) as opened:
        yield opened


def fill(archive: Archive) -> None:
    """Write some records of every kind that the wiki shows."""
    say(archive, "task_start")
    say(archive, "task_progress", {"what_failed": ["plan A"], "summary": "half\n# no heading"})
    decided = say_verified(archive, "use redis")
    say(archive, "evidence", origin="tool")
    say(archive, "wiki_page", {"related_artifact_ids": [decided.id], "content": "# Caches\n\ntext"}, task="")
    say(archive, "task_start", task="task-2")


def inline_types(text: str) -> set[str]:
    """Return what kinds of things Markdown finds in a text."""
    return {one.type for token in MARKDOWN.parse(text) for one in (token, *(token.children or ()))}


def test_every_citation_leads_to_its_record(archive: Archive) -> None:
    """Each link of each page leads to a page that is there, and to a heading that is on it."""
    fill(archive)
    pages = compile_wiki(archive).pages
    headings = {
        name: {anchor(line.lstrip("# ")) for line in text.split("\n") if line.startswith("#")}
        for name, text in pages.items()
    }

    links = [(name, *found) for name, text in pages.items() for found in LINK.findall(text)]

    assert len(links) > 10
    for name, path, at in links:
        target = os.path.normpath(Path(name).parent / path)
        assert at in headings[target], (name, path, at)


def test_there_is_a_page_for_everything(archive: Archive) -> None:
    """Tasks, libraries, written pages, a brief and an index; each bears the mark, and its sentences badges."""
    fill(archive)
    pages = compile_wiki(archive).pages

    named = {"index.md", "brief.md", "decisions.md", "failures.md", "evidence.md", "highlights.md"}
    assert {*named, "tasks/task-1.md", "tasks/task-2.md"} < set(pages)
    assert all(text.startswith(DIGEST_MARK) and is_compiled(text) for text in pages.values())
    assert "use redis (`[verified]` [" in pages["decisions.md"]
    assert "`[tainted: tool]`" in pages["evidence.md"]
    assert "plan A" in pages["failures.md"]
    assert "`[record]`" in pages["failures.md"]
    assert "`[digest]`" in pages["brief.md"]
    assert "Caches" in pages["index.md"]


def test_other_projects_are_left_out_unless_asked_for(archive: Archive) -> None:
    """A wiki shows its project and what belongs to none."""
    say(archive, fields={"summary": "ours"})
    say(archive, fields={"summary": "everybody's"}, project="", task="task-2")
    say(archive, fields={"summary": "theirs"}, project="/elsewhere", task="task-3")

    own, every = compile_wiki(archive).pages, compile_wiki(archive, all_projects=True).pages

    assert "tasks/task-3.md" not in own
    assert "theirs" not in "".join(own.values())
    assert "everybody's" in own["decisions.md"]
    assert "theirs" in every["decisions.md"]


def test_what_was_named_elsewhere_is_marked_in_the_index(archive: Archive) -> None:
    """A title is text, too: one that a tool or an import brought is told from one of ours."""
    say(archive, "task_start", {"goal": "ours"})
    say(archive, "task_start", {"goal": "theirs"}, task="task-2", origin="import")
    brought = say(archive, "evidence", origin="tool")
    say(archive, "wiki_page", {"related_artifact_ids": [brought.id], "content": "# From a log"}, task="")

    lines = compile_wiki(archive).pages["index.md"].split("\n")

    marked = {
        name: "tainted" in line for line in lines for name in ("ours", "theirs", "From a log") if f"[{name}]" in line
    }
    assert marked == {"ours": False, "theirs": True, "From a log": True}


def test_without_records_there_are_no_pages(archive: Archive) -> None:
    """Nothing said, nothing compiled, nothing written."""
    folder = usual_folder(archive.place)

    assert compile_wiki(archive).pages == {}
    assert write_pages({}, folder).written == []
    assert not folder.exists()


def test_what_was_superseded_is_marked_on_its_task_page(archive: Archive) -> None:
    """The page of a task shows all of its history; libraries show what is in force."""
    old = say(archive, fields={"summary": "use redis 7"})
    say(archive, "revision", {"summary": "use redis 8"}, reply_to=old.id, relation="revises")
    pages = compile_wiki(archive).pages

    assert "redis 7" not in pages["decisions.md"]
    assert "redis 7" in pages["tasks/task-1.md"]
    assert "superseded by: [" in pages["tasks/task-1.md"]


def test_unchanged_pages_are_not_written_again(archive: Archive, tmp_path: Path) -> None:
    """Built twice nothing is touched; a new record changes only pages that tell of it."""
    fill(archive)
    first = write_pages(compile_wiki(archive).pages, tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}

    again = write_pages(compile_wiki(archive).pages, tmp_path)
    say(archive, "task_progress", task="task-2")
    later = write_pages(compile_wiki(archive).pages, tmp_path)

    assert (again.written, again.unchanged) == ([], first.written)
    assert {path: path.stat().st_mtime_ns for path in stamps if path.name == "task-1.md"}.items() <= stamps.items()
    assert "tasks/task-2.md" in later.written
    assert "tasks/task-1.md" in later.unchanged


def test_pages_without_records_are_removed_and_files_of_others_stay(archive: Archive, tmp_path: Path) -> None:
    """Only what bears our mark for that very place is removed or overwritten."""
    fill(archive)
    (tmp_path / "tasks").mkdir()
    own = tmp_path / "tasks" / "mine.md"
    own.write_text("my notes", "utf-8")
    taken = tmp_path / "index.md"
    taken.write_text("# My own index", "utf-8")
    built = write_pages(compile_wiki(archive).pages, tmp_path)
    copied = tmp_path / "copy.md"
    copied.write_bytes((tmp_path / "brief.md").read_bytes())

    gone = write_pages({}, tmp_path)

    assert built.left_alone == ["index.md"]
    assert set(gone.removed) == set(built.written)
    assert own.read_text("utf-8") == "my notes"
    assert taken.read_text("utf-8") == "# My own index"
    assert sorted(path.name for path in tmp_path.rglob("*.md")) == ["copy.md", "index.md", "mine.md"]


def test_a_page_that_was_changed_by_hand_is_put_aside(archive: Archive, tmp_path: Path) -> None:
    """What somebody typed into a page is kept beside it."""
    fill(archive)
    pages = compile_wiki(archive).pages
    write_pages(pages, tmp_path)
    page = tmp_path / "brief.md"
    page.write_text(page.read_text("utf-8") + "and this\n", "utf-8")
    assert [one.name for one in pages_in(tmp_path) if one.edited] == ["brief.md"]

    built = write_pages(pages, tmp_path)

    assert built.put_aside == ["brief.md"]
    assert (tmp_path / "brief.md.edited").read_text("utf-8").endswith("and this\n")
    assert page.read_text("utf-8") == pages["brief.md"]


def test_a_link_does_not_choose_where_pages_go(archive: Archive, tmp_path: Path) -> None:
    """A wiki folder of a repository that is a link out of it is refused, and so is one inside the wiki."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = Path(archive.place.project.id) / ".lorelog" / "wiki"
    folder.mkdir(parents=True)
    (folder / "tasks").symlink_to(elsewhere)
    fill(archive)

    with pytest.raises(StoreUnwritable, match="a link that leads out"):
        write_pages(compile_wiki(archive).pages, folder)
    (folder / "tasks").unlink()
    folder.rename(tmp_path / "moved")
    folder.symlink_to(elsewhere)
    with pytest.raises(StoreUnwritable, match="a link that leads out"):
        usual_folder(archive.place)
    assert list(elsewhere.iterdir()) == []


def test_ids_that_are_no_names_get_pages_too(archive: Archive) -> None:
    """Whatever a task is called, its page has a name of its own that leads nowhere else."""
    for task in ("../../etc/passwd", "_no-task", "X", "a/b"):
        say(archive, "task_start", task=task)
    names = [name for name in compile_wiki(archive).pages if name.startswith("tasks/")]

    assert len(names) == 4
    assert all(re.fullmatch(r"tasks/x-[0-9a-f]{32}\.md", name) for name in names)


HOSTILE = st.text(alphabet=st.sampled_from("<>&[]()!`*_~#-+=|\\:\"'/ \n\t1.ahref"), max_size=60) | st.text(max_size=60)


@given(HOSTILE)
def test_escaped_text_is_nothing_but_text(text: str) -> None:
    """No link, heading, emphasis, code, list, rule or HTML comes out of a text, wherever it stands; and it reads the same."""
    shown = escaped(text)

    for before, extra in (
        ("", set[str]()),
        ("- ", {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}),
    ):
        found = inline_types(before + shown)
        assert found <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"} | extra
    children = [one for token in MARKDOWN.parse(shown) for one in token.children or ()]
    assert "".join(one.content for one in children) == " ".join(shown_plain(text).split())


def shown_plain(text: str) -> str:
    """What of a text can be shown."""
    from lorelog.services.records.wiki_words import plain

    return plain(text)


@given(HOSTILE)
def test_quoted_and_fenced_text_stays_inside(text: str) -> None:
    """Nothing of a quotation or a block of data gets out of it."""
    quoted = "\n".join([*quoted_lines(text), "", "after"])
    block = "\n".join([*fenced(text), "", "after"])

    assert inline_types(quoted) <= {
        *("blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close"),
        *("inline", "text", "text_special", "softbreak"),
    }
    tokens = MARKDOWN.parse(block)
    assert [one.type for one in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[2].content == "after"


@given(HOSTILE)
def test_written_pages_hold_no_html_and_no_images(text: str) -> None:
    """Markdown that somebody wrote keeps its form inside a quotation, and brings nothing else along."""
    tokens = MARKDOWN.parse("\n".join([*authored(text), "", "# after"]))

    assert not inline_types("\n".join(authored(text))) & {"html_block", "html_inline", "image"}
    assert [one.content for one in tokens if one.type == "inline" and one.level == 1] == ["after"]


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_names_of_files_are_safe_and_distinct(one: str, other: str) -> None:
    """A name has no separator and no dots, and two ids never share one."""
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", slug(one))
    assert (slug(one) == slug(other)) == (one == other)


@given(st.text(max_size=40))
def test_the_mark_is_looked_for_at_the_beginning(text: str) -> None:
    """A page is known by its first line, also below front matter; a text that merely mentions the mark is not one."""
    assert is_compiled(f"\ufeff\n{DIGEST_MARK} x -->\n{text}")
    assert is_compiled(f"---\ntitle: x\n---\n\n{DIGEST_MARK} x -->\n{text}")
    assert not is_compiled(f"a{text}\n{DIGEST_MARK}")
