"""What is wrong with a wiki, or with what it tells.

Pages that differ from what would be built, citations that lead nowhere, decisions that rest on superseded records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lorelog.core.record import Record, Tier
from lorelog.records.trust import rests_on
from lorelog.services.records.wiki import Wiki
from lorelog.services.records.wiki_files import PageOnDisk, pages_in
from lorelog.services.records.wiki_pages import page_of
from lorelog.services.records.wiki_words import anchor, heading_of, short

_LINK = re.compile(r"\]\(((?:\.\./)?(?:tasks|pages)/[^)#\s]+\.md)#([^)\s]+)\)")
_BUILD = "lorelog wiki build"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at."""

    kind: str
    """missing, stale, edited, broken_citation or superseded_ground."""
    page: str
    message: str
    hint: str
    records: tuple[str, ...] = ()


def lint(wiki: Wiki, folder: Path) -> list[Finding]:
    """Return what is wrong, pages first."""
    found = {one.name: one for one in pages_in(folder)}
    return [*_pages(wiki, folder, found), *_links(wiki, found), *_references(wiki), *_grounds(wiki)]


def verified_decisions(wiki: Wiki) -> list[Record]:
    """Return the decisions in force that a second writer speaks for, or that speak for another's record themselves."""
    trust = wiki.shelf.trust
    return [
        one
        for one in wiki.shown
        if _decides(one, wiki)
        and not wiki.shelf.superseded(one.id)
        and one.id in trust
        and (trust[one.id].verified_by or trust[one.id].tier is Tier.VERIFIED)
    ]


def _decides(record: Record, wiki: Wiki) -> bool:
    """Say whether a record is a decision, or takes the place of one."""
    seen = set[str]()
    while record.kind == "revision" and record.id not in seen:
        seen.add(record.id)
        before = wiki.shelf.records.get(record.supersedes or record.reply_to)
        if before is None:
            return False
        record = before
    return record.kind == "decision"


def _pages(wiki: Wiki, folder: Path, found: dict[str, PageOnDisk]) -> Iterator[Finding]:
    if wiki.pages and not found:
        yield Finding("missing", "", f"there is no wiki in {folder}", _BUILD)
        return
    for name, text in wiki.pages.items():
        page = found.get(name)
        if page is None:
            yield Finding("missing", name, f"{name} is not there", _BUILD)
        elif page.edited:
            hint = f"{_BUILD} puts it aside; what should stay is written as a record (artifact.create wiki_page)"
            yield Finding("edited", name, f"{name} was changed by hand", hint)
        elif page.text != text:
            yield Finding("stale", name, f"{name} is not what would be built now", _BUILD)
    for name in sorted(set(found) - set(wiki.pages)):
        yield Finding("stale", name, f"{name} has no records any more", _BUILD)


def _links(wiki: Wiki, found: dict[str, PageOnDisk]) -> Iterator[Finding]:
    """Yield citations on pages that lead to no record."""
    places = {f"{page_of(one)}#{anchor(heading_of(one))}" for one in wiki.shelf.records.values()}
    for name, page in found.items():
        gone = {f"{path.removeprefix('../')}#{at}" for path, at in _LINK.findall(page.text)} - places
        for one in sorted(gone):
            message = f"{name} cites {one.rpartition('#')[2]}, which is not in the ledger"
            yield Finding("broken_citation", name, message, f"{_BUILD}; 'lorelog ledger verify' finds lost records")


def _references(wiki: Wiki) -> Iterator[Finding]:
    """Yield records that name records which are not there."""
    for record in wiki.shown:
        for one in rests_on(record):
            if one not in wiki.shelf.records:
                message = f"{record.kind} {short(record.id)} refers to {one[:80]}, which is not in the ledger"
                hint = "revise the record, or import the ledger that has the other"
                yield Finding("broken_citation", page_of(record), message, hint, (record.id,))


def _grounds(wiki: Wiki) -> Iterator[Finding]:
    """Yield verified decisions that rest on what was superseded."""
    for record in verified_decisions(wiki):
        for one in rests_on(record):
            newer = wiki.shelf.superseded(one)
            if newer and newer != record.id and record.supersedes != one:
                message = (
                    f"the verified decision {short(record.id)} rests on {short(one)}, superseded by {short(newer)}"
                )
                hint = "look whether it still holds, and revise it if not"
                yield Finding("superseded_ground", page_of(record), message, hint, (record.id, one, newer))
