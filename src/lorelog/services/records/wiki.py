"""The wiki: all that the records of a project say, as pages that a person can browse.

A page for each task with every record of it, pages for what was decided, what failed, what speaks for it and what is worth
remembering, pages that agents wrote, a brief and an index. All of it is compiled: nothing is written into the wiki, and nothing
in it is the only copy of anything. Each page begins with a mark that says so, and says what it held when it was written.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lorelog.core.record import DIGEST, DIGEST_MARK, Record, Trust
from lorelog.records.digests import Role
from lorelog.records.digests_build import View, brief, library
from lorelog.records.digests_resume import resume
from lorelog.records.tables import RecordTables
from lorelog.records.tables_asked import Task
from lorelog.records.trust import tiers
from lorelog.services.records import wiki_pages
from lorelog.services.records.archive import Archive
from lorelog.services.records.book import Book
from lorelog.services.records.digesting import view_of
from lorelog.services.records.wiki_pages import Shelf, page_of

INDEX, BRIEF = "index.md", "brief.md"
LIBRARY_PAGES: Mapping[Role, str] = {
    Role.DECISIONS: "decisions.md",
    Role.FAILURES: "failures.md",
    Role.EVIDENCE: "evidence.md",
    Role.HIGHLIGHTS: "highlights.md",
}
_MOST_ITEMS = 200
_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Wiki:
    """A wiki that was compiled, and not written anywhere yet."""

    pages: Mapping[str, str]
    """Texts by the paths of their files, mark and all."""
    shelf: Shelf
    """All records of the tenant, and what they are worth."""
    shown: tuple[Record, ...]
    """Those that stand on its pages."""


def compile_wiki(archive: Archive, *, all_projects: bool = False) -> Wiki:
    """Return the wiki of what is seen from a place; without records it has no pages."""
    tables = archive.book.tables()
    view = view_of(archive, all_projects=all_projects)
    shelf = _shelf(archive.book, tables)
    shown = tuple(one for one in shelf.records.values() if view.projects is None or one.project in view.projects)
    if not shown:
        return Wiki({}, shelf, ())
    bodies = dict(_pages(tables, view, shelf, shown))
    return Wiki({name: marked(name, body) for name, body in sorted(bodies.items())}, shelf, shown)


def marked(name: str, body: str) -> str:
    """Return a page with its mark, which names the page and what it holds."""
    return f"{DIGEST_MARK} page:{name} sha256:{hash_of(body)} -->\n{body}"


def hash_of(body: str) -> str:
    """Return the name of what a page holds."""
    return hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()


def _shelf(book: Book, tables: RecordTables) -> Shelf:
    records = list[Record]()
    place = 0
    while some := tables.after(place, _AT_ONCE):
        records += [record for _, record in some]
        place = some[-1][0]
    once: dict[str, Record] = {}
    for one in records:
        once.setdefault(one.id, one)
    worth = tiers(records, book.signer)
    return Shelf({one.id: one for one in once.values() if one.kind != DIGEST}, worth)


def _pages(tables: RecordTables, view: View, shelf: Shelf, shown: tuple[Record, ...]) -> Iterable[tuple[str, str]]:
    def trust_of(ids: Iterable[str]) -> Mapping[str, Trust]:
        return {one: shelf.trust[one] for one in ids if one in shelf.trust}

    by_page: dict[str, list[Record]] = defaultdict(list)
    for one in shown:
        by_page[page_of(one)].append(one)
    tasks: dict[str, Task] = {}
    for name, records in by_page.items():
        first = records[0]
        task = tables.task(first.task) if first.task and first.kind != "wiki_page" else None
        if first.kind == "wiki_page":
            yield name, wiki_pages.written_page(first, shelf)
        elif task is None:
            yield name, wiki_pages.loose_page(records, shelf)
        else:
            tasks[name] = task
            yield name, wiki_pages.task_page(resume(tables, trust_of, task), records, shelf)
    libraries = list[str]()
    for role, name in LIBRARY_PAGES.items():
        made = library(tables, trust_of, view, role, most=_MOST_ITEMS)
        if made.items:
            libraries.append(name)
            yield name, wiki_pages.digest_page(made.digest, shelf, "")
    told = brief(tables, trust_of, view)
    yield BRIEF, wiki_pages.digest_page(told.digest, shelf, "")
    written = [one for one in shown if one.kind == "wiki_page" and not shelf.superseded(one.id)]
    yield INDEX, wiki_pages.index_page(view, told.overview, tasks, shelf, written, libraries)
