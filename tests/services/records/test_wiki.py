"""Wiki pages: every citation links to its record, text stays text, unchanged files are not written, and lint finds what is wrong with them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.services.records.conftest import say, say_verified

from lorelog.core.errors import StoreUnwritable
from lorelog.core.record import DIGEST_MARK, is_digest_text
from lorelog.records.digests import strip_control_chars
from lorelog.services.records import wiki
from lorelog.services.records.record_scope import RecordScope

MARKDOWN = MarkdownIt("commonmark")
"""The most lenient Markdown parser: HTML is allowed."""
LINK = re.compile(r"\]\(([^)#]+)#([^)]+)\)")


def fill(archive: RecordScope) -> None:
    say(archive, "task_start")
    say(archive, "task_progress", {"what_failed": ["plan A"], "summary": "half\n# no heading"})
    decided = say_verified(archive, "use redis")
    say(archive, "evidence", origin="tool")
    say(archive, "wiki_page", {"related_artifact_ids": [decided.id], "content": "# Caches\n\ntext"}, task="")
    say(archive, "task_start", task="task-2")


def inline_types(text: str) -> set[str]:
    return {item.type for token in MARKDOWN.parse(text) for item in (token, *(token.children or ()))}


def test_every_citation_leads_to_its_record(archive: RecordScope) -> None:
    """Each link leads to an existing page and heading."""
    fill(archive)
    pages = wiki.compile_wiki(archive).pages
    headings = {
        name: {wiki.heading_anchor(line.lstrip("# ")) for line in text.split("\n") if line.startswith("#")}
        for name, text in pages.items()
    }

    links = [(name, *found) for name, text in pages.items() for found in LINK.findall(text)]

    assert len(links) > 10
    for name, path, at in links:
        target = os.path.normpath(Path(name).parent / path)
        assert at in headings[target], (name, path, at)


def test_there_is_a_page_for_everything(archive: RecordScope) -> None:
    """There are pages of tasks, libraries, written pages, a brief and an index, each with mark and badges."""
    fill(archive)
    pages = wiki.compile_wiki(archive).pages

    named = {"index.md", "brief.md", "decisions.md", "failures.md", "evidence.md"}
    assert {*named, "tasks/task-1.md", "tasks/task-2.md"} < set(pages)
    assert all(text.startswith(DIGEST_MARK) and is_digest_text(text) for text in pages.values())
    assert "use redis (`[verified]` [" in pages["decisions.md"]
    assert "`[tainted: tool]`" in pages["evidence.md"]
    assert "plan A" in pages["failures.md"]
    assert "`[record]`" in pages["failures.md"]
    assert "`[digest]`" in pages["brief.md"]
    assert "Caches" in pages["index.md"]


def test_other_projects_are_left_out_unless_asked_for(archive: RecordScope) -> None:
    """A wiki shows its own project and global records."""
    say(archive, fields={"summary": "ours"})
    say(archive, fields={"summary": "everybody's"}, project="", task="task-2")
    say(archive, fields={"summary": "theirs"}, project="/elsewhere", task="task-3")

    own, every = wiki.compile_wiki(archive).pages, wiki.compile_wiki(archive, all_projects=True).pages

    assert "tasks/task-3.md" not in own
    assert "theirs" not in "".join(own.values())
    assert "everybody's" in own["decisions.md"]
    assert "theirs" in every["decisions.md"]


def test_what_was_named_elsewhere_is_marked_in_the_index(archive: RecordScope) -> None:
    """Titles from a tool or an import are marked."""
    say(archive, "task_start", {"goal": "ours"})
    say(archive, "task_start", {"goal": "theirs"}, task="task-2", origin="import")
    brought = say(archive, "evidence", origin="tool")
    say(archive, "wiki_page", {"related_artifact_ids": [brought.id], "content": "# From a log"}, task="")

    lines = wiki.compile_wiki(archive).pages["index.md"].split("\n")

    marked = {
        name: "tainted" in line for line in lines for name in ("ours", "theirs", "From a log") if f"[{name}]" in line
    }
    assert marked == {"ours": False, "theirs": True, "From a log": True}


def test_what_was_superseded_is_marked_on_its_task_page(archive: RecordScope) -> None:
    """A task's page shows its whole history; libraries show records in force."""
    old = say(archive, fields={"summary": "use redis 7"})
    say(archive, "revision", {"summary": "use redis 8"}, reply_to=old.id, relation="revises")
    pages = wiki.compile_wiki(archive).pages

    assert "redis 7" not in pages["decisions.md"]
    assert "redis 7" in pages["tasks/task-1.md"]
    assert "superseded by: [" in pages["tasks/task-1.md"]


def test_unchanged_pages_are_not_written_again(archive: RecordScope, tmp_path: Path) -> None:
    """A second build touches nothing; a new record changes only its pages."""
    fill(archive)
    first = wiki.write_pages(wiki.compile_wiki(archive).pages, tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}

    again = wiki.write_pages(wiki.compile_wiki(archive).pages, tmp_path)
    say(archive, "task_progress", task="task-2")
    later = wiki.write_pages(wiki.compile_wiki(archive).pages, tmp_path)

    assert (again.written, again.unchanged) == ([], first.written)
    assert {path: path.stat().st_mtime_ns for path in stamps if path.name == "task-1.md"}.items() <= stamps.items()
    assert "tasks/task-2.md" in later.written
    assert "tasks/task-1.md" in later.unchanged


def test_pages_without_records_are_removed_and_files_of_others_stay(archive: RecordScope, tmp_path: Path) -> None:
    """Only files with our mark for their own name are removed or overwritten."""
    fill(archive)
    (tmp_path / "tasks").mkdir()
    own = tmp_path / "tasks" / "mine.md"
    own.write_text("my notes", "utf-8")
    taken = tmp_path / "index.md"
    taken.write_text("# My own index", "utf-8")
    built = wiki.write_pages(wiki.compile_wiki(archive).pages, tmp_path)
    copied = tmp_path / "copy.md"
    copied.write_bytes((tmp_path / "brief.md").read_bytes())

    gone = wiki.write_pages({}, tmp_path)

    assert built.left_alone == ["index.md"]
    assert set(gone.removed) == set(built.written)
    assert own.read_text("utf-8") == "my notes"
    assert taken.read_text("utf-8") == "# My own index"
    assert sorted(path.name for path in tmp_path.rglob("*.md")) == ["copy.md", "index.md", "mine.md"]


def test_a_page_that_was_changed_by_hand_is_put_aside(archive: RecordScope, tmp_path: Path) -> None:
    """An edited page is kept beside the new one."""
    fill(archive)
    pages = wiki.compile_wiki(archive).pages
    wiki.write_pages(pages, tmp_path)
    page = tmp_path / "brief.md"
    page.write_text(page.read_text("utf-8") + "and this\n", "utf-8")
    assert [name for name, (_, is_edited) in wiki.read_pages(tmp_path).items() if is_edited] == ["brief.md"]

    built = wiki.write_pages(pages, tmp_path)

    assert built.put_aside == ["brief.md"]
    assert (tmp_path / "brief.md.edited").read_text("utf-8").endswith("and this\n")
    assert page.read_text("utf-8") == pages["brief.md"]


def test_a_link_does_not_choose_where_pages_go(archive: RecordScope, tmp_path: Path) -> None:
    """A wiki folder that is a link out of the repository is refused, and so is one inside the wiki."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = Path(archive.workspace.project.id) / ".lorelog" / "wiki"
    folder.mkdir(parents=True)
    (folder / "tasks").symlink_to(elsewhere)
    fill(archive)

    with pytest.raises(StoreUnwritable, match="a link that leads out"):
        wiki.write_pages(wiki.compile_wiki(archive).pages, folder)
    (folder / "tasks").unlink()
    folder.rename(tmp_path / "moved")
    folder.symlink_to(elsewhere)
    with pytest.raises(StoreUnwritable, match="a link that leads out"):
        wiki.default_wiki_folder(archive.workspace)
    assert list(elsewhere.iterdir()) == []


HOSTILE = st.text(alphabet=st.sampled_from("<>&[]()!`*_~#-+=|\\:\"'/ \n\t1.ahref"), max_size=60) | st.text(max_size=60)


@given(HOSTILE)
def test_escaped_text_is_nothing_but_text(text: str) -> None:
    """Escaped text produces no Markdown element anywhere, and reads the same."""
    shown = wiki.escape_inline(text)

    for before, extra in (
        ("", set[str]()),
        ("- ", {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}),
    ):
        found = inline_types(before + shown)
        assert found <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"} | extra
    children = [child for token in MARKDOWN.parse(shown) for child in token.children or ()]
    assert "".join(child.content for child in children) == " ".join(strip_control_chars(text).split())


@given(HOSTILE)
def test_quoted_and_fenced_text_stays_inside(text: str) -> None:
    """Quoted and fenced text cannot leave its block."""
    quoted = "\n".join([*wiki.quote_text(text), "", "after"])
    block = "\n".join([*wiki.fence_text(text), "", "after"])

    assert inline_types(quoted) <= {
        *("blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close"),
        *("inline", "text", "text_special", "softbreak"),
    }
    tokens = MARKDOWN.parse(block)
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[2].content == "after"


@given(HOSTILE)
def test_written_pages_hold_no_html_and_no_images(text: str) -> None:
    """Written Markdown keeps its formatting inside a quotation, and brings no HTML or images."""
    tokens = MARKDOWN.parse("\n".join([*wiki.quote_markdown(text), "", "# after"]))

    assert not inline_types("\n".join(wiki.quote_markdown(text))) & {"html_block", "html_inline", "image"}
    assert [token.content for token in tokens if token.type == "inline" and token.level == 1] == ["after"]


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_names_of_files_are_safe_and_distinct(one: str, other: str) -> None:
    """A slug has no separators or dots, and two ids never share one."""
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", wiki.id_slug(one))
    assert (wiki.id_slug(one) == wiki.id_slug(other)) == (one == other)


@given(st.text(max_size=40))
def test_the_mark_is_looked_for_at_the_beginning(text: str) -> None:
    """A page is recognized by its mark on the first line, also after front matter, and not by a mention of it."""
    assert is_digest_text(f"\ufeff\n{DIGEST_MARK} x -->\n{text}")
    assert is_digest_text(f"---\ntitle: x\n---\n\n{DIGEST_MARK} x -->\n{text}")
    assert not is_digest_text(f"a{text}\n{DIGEST_MARK}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "wiki"


def build(archive: RecordScope, folder: Path) -> None:
    wiki.write_pages(wiki.compile_wiki(archive).pages, folder)


def kinds(archive: RecordScope, folder: Path) -> list[str]:
    return [item.kind for item in found(archive, folder)]


def found(archive: RecordScope, folder: Path) -> list[wiki.LintFinding]:
    return wiki.lint_wiki(wiki.compile_wiki(archive), folder)


def test_a_fresh_wiki_is_clean(archive: RecordScope, folder: Path) -> None:
    """There are no findings without records, nor after a build."""
    assert kinds(archive, folder) == []
    say(archive, "task_start")
    say_verified(archive, "use redis")
    assert kinds(archive, folder) == ["missing"]

    build(archive, folder)

    assert kinds(archive, folder) == []


def test_pages_that_are_not_as_they_would_be_built_are_named(archive: RecordScope, folder: Path) -> None:
    """Stale, missing, edited and leftover pages are each reported."""
    say(archive, "task_start")
    say(archive, "task_start", task="task-2")
    build(archive, folder)
    say(archive, "task_progress")
    (folder / "tasks" / "task-2.md").unlink()
    brief = folder / "brief.md"
    brief.write_text(brief.read_text("utf-8").replace("make", "take"), "utf-8")

    by_page = {item.page: item.kind for item in found(archive, folder)}

    assert by_page["tasks/task-1.md"] == "stale"
    assert by_page["tasks/task-2.md"] == "missing"
    assert by_page["brief.md"] == "edited"
    assert {item.kind for item in wiki.lint_wiki(wiki.compile_wiki(archive), folder) if item.page == "index.md"} <= {
        "stale"
    }


def test_a_citation_of_what_is_not_in_the_ledger_is_found(archive: RecordScope, folder: Path) -> None:
    """A citation of a missing record is reported, on a page and in a record."""
    one = say(archive, fields={"summary": "use redis", "related_artifact_ids": ["never-was"]})
    build(archive, folder)
    page = folder / "decisions.md"
    page.write_text(page.read_text("utf-8").replace(f"decision-{one.id}", "decision-gone"), "utf-8")

    broken = [item for item in found(archive, folder) if item.kind == "broken_citation"]

    assert [entry.page for entry in broken] == ["decisions.md", "tasks/task-1.md"]
    assert "decision-gone" in broken[0].message
    assert "never-was" in broken[1].message
    assert broken[1].records == (one.id,)


def test_a_verified_decision_on_superseded_ground_is_found(archive: RecordScope, folder: Path) -> None:
    """A verified decision based on a superseded record is reported with both; a revision of its own source is fine."""
    ground = say(archive, "evidence")
    decided = say_verified(archive, "ship it", fields={"related_artifact_ids": [ground.id]})
    newer = say(archive, "revision", {"summary": "300 ms"}, reply_to=ground.id, relation="revises")
    revised = say(
        archive, "revision", {"summary": "ship it soon"}, reply_to=decided.id, relation="revises", agent="jon"
    )
    build(archive, folder)
    assert kinds(archive, folder) == []  # the decision was superseded itself

    other = say_verified(archive, "keep the otters", fields={"related_artifact_ids": [ground.id, revised.id]})
    build(archive, folder)
    (finding,) = found(archive, folder)

    assert finding.kind == "superseded_ground"
    assert finding.records == (other.id, ground.id, newer.id)
