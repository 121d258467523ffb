"""Writes a wiki to disk and checks it.

Unchanged pages are not rewritten, and files without our mark are never touched. A page that was edited by hand is moved
aside before it is overwritten: the wiki can be rebuilt, but the edit cannot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from lorelog.core.atomic_file import write_atomic
from lorelog.core.dataclasses import dataclass, field
from lorelog.core.errors import StoreUnwritable
from lorelog.core.paths import is_below
from lorelog.core.patterns import lazy_pattern
from lorelog.core.record import DIGEST_MARK, Record, TrustTier
from lorelog.records.trust import source_ids
from lorelog.services.places.workspace import DEFAULT_TENANT, TENANTS, Workspace
from lorelog.services.records.markdown import heading_anchor, record_heading, short_id
from lorelog.services.records.wiki.pages import Wiki, hash_page, page_path

_PAGE_MARK = lazy_pattern(re.escape(DIGEST_MARK) + r" page:(\S+) sha256:([0-9a-f]{64}) -->\n")
_FOLDERS = ("", "tasks", "pages")
EDITED_SUFFIX = ".edited"
"""Suffix of an edited page that was moved aside."""


@dataclass(frozen=True, slots=True)
class PageOnDisk:
    """A page of ours on disk."""

    name: str
    text: str
    edited: bool
    """Whether it was changed after it was written."""


@dataclass(slots=True)
class WikiBuildReport:
    """Result of writing a wiki."""

    folder: str
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    put_aside: list[str] = field(default_factory=list)
    """Pages that were edited by hand; the edited text is in `NAME.edited`."""
    left_alone: list[str] = field(default_factory=list)
    """Files that are not ours but have the name of a page."""


def default_wiki_folder(workspace: Workspace) -> Path:
    """Return the folder of a project's wiki. Raise StoreUnwritable if a link would lead it elsewhere.

    A repository may come from someone else: a symbolic link in it must not decide where we write.
    """
    own = Path(".lorelog") if workspace.tenant == DEFAULT_TENANT else Path(TENANTS) / workspace.tenant
    folder = Path(workspace.project.id) / own / "wiki"
    if not is_below(os.path.realpath(folder), os.path.realpath(workspace.project.id)):
        raise StoreUnwritable(
            f"{folder} is a link that leads out of {workspace.project.id}", hint="make it a directory, or use --output"
        )
    return folder


def write_pages(pages: Mapping[str, str], folder: Path) -> WikiBuildReport:
    """Update a folder with the pages. Raise StoreUnwritable."""
    report = WikiBuildReport(str(folder))
    try:
        existing = {page.name: page for page in read_pages(folder)}
        for name, text in pages.items():
            _write_page(folder, name, text, existing.get(name), report)
        for name, page in existing.items():
            if name not in pages:
                _backup_edited_page(folder, page, report)
                _checked_page_path(folder, name).unlink(missing_ok=True)
                report.removed.append(name)
    except OSError as error:
        raise StoreUnwritable(
            f"{error.filename or folder} cannot be written: {error.strerror or error}",
            hint="make it writable, or choose another folder: --output DIR",
        ) from error
    return report


def read_pages(folder: Path) -> Iterator[PageOnDisk]:
    """Yield our pages in a folder; other files are ignored."""
    for below in _FOLDERS:
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in sorted((folder / below).iterdir()):
                name = f"{below}/{path.name}" if below else path.name
                page = _read_page(folder, name) if path.suffix == ".md" else None
                if page is not None:
                    yield page


def _read_page(folder: Path, name: str) -> PageOnDisk | None:
    path = folder / name
    if path.is_symlink() or not path.is_file():
        return None
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    mark = _PAGE_MARK.match(text)
    if mark is None or mark[1] != name:
        return None
    return PageOnDisk(name, text, hash_page(text[mark.end() :]) != mark[2])


def _write_page(folder: Path, name: str, text: str, existing: PageOnDisk | None, report: WikiBuildReport) -> None:
    path = _checked_page_path(folder, name)
    if existing is not None and existing.text == text:
        report.unchanged.append(name)
        return
    if existing is None and os.path.lexists(path):
        report.left_alone.append(name)
        return
    if existing is not None:
        _backup_edited_page(folder, existing, report)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode("utf-8", "replace"), mode=0o644, durable=False)  # derived: it can be built again
    report.written.append(name)


def _backup_edited_page(folder: Path, page: PageOnDisk, report: WikiBuildReport) -> None:
    if page.edited:
        path = _checked_page_path(folder, page.name)
        path.replace(path.with_name(path.name + EDITED_SUFFIX))
        report.put_aside.append(page.name)


def _checked_page_path(folder: Path, name: str) -> Path:
    """Return the path of a page. Raise StoreUnwritable if a link would lead it elsewhere."""
    path = folder / name
    if not is_below(os.path.realpath(path.parent), os.path.realpath(folder)):
        raise StoreUnwritable(f"{path.parent} is a link that leads out of {folder}", hint="make it a directory")
    return path


_CITATION_LINK = lazy_pattern(r"\]\(((?:\.\./)?(?:tasks|pages)/[^)#\s]+\.md)#([^)\s]+)\)")
_BUILD_COMMAND = "lorelog wiki build"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A problem of the wiki or its records."""

    kind: str
    """missing, stale, edited, broken_citation or superseded_ground."""
    page: str
    message: str
    hint: str
    records: tuple[str, ...] = ()


def lint_wiki(wiki: Wiki, folder: Path) -> list[LintFinding]:
    """Return the problems, those of pages first."""
    existing = {page.name: page for page in read_pages(folder)}
    return [
        *_lint_pages(wiki, folder, existing),
        *_lint_citations(wiki, existing),
        *_lint_references(wiki),
        *_lint_superseded_grounds(wiki),
    ]


def verified_decisions(wiki: Wiki) -> list[Record]:
    """Return the decisions in force that a second writer verified, or that verify another record."""
    trust = wiki.records.trust
    return [
        record
        for record in wiki.page_records
        if _is_decision(record, wiki)
        and not wiki.records.superseded_by(record.id)
        and record.id in trust
        and (trust[record.id].verified_by or trust[record.id].tier is TrustTier.VERIFIED)
    ]


def _is_decision(record: Record, wiki: Wiki) -> bool:
    """Return True for a decision and for a revision of one."""
    seen = set[str]()
    while record.kind == "revision" and record.id not in seen:
        seen.add(record.id)
        before = wiki.records.records.get(record.supersedes or record.reply_to)
        if before is None:
            return False
        record = before
    return record.kind == "decision"


def _lint_pages(wiki: Wiki, folder: Path, existing: dict[str, PageOnDisk]) -> Iterator[LintFinding]:
    if wiki.pages and not existing:
        yield LintFinding("missing", "", f"{folder} contains no wiki", _BUILD_COMMAND)
        return
    for name, text in wiki.pages.items():
        page = existing.get(name)
        if page is None:
            yield LintFinding("missing", name, f"{name} does not exist", _BUILD_COMMAND)
        elif page.edited:
            hint = f"{_BUILD_COMMAND} moves it aside; write text to keep as a record (artifact.create wiki_page)"
            yield LintFinding("edited", name, f"{name} was edited by hand", hint)
        elif page.text != text:
            yield LintFinding("stale", name, f"{name} is out of date", _BUILD_COMMAND)
    for name in sorted(set(existing) - set(wiki.pages)):
        yield LintFinding("stale", name, f"{name} has no records any more", _BUILD_COMMAND)


def _lint_citations(wiki: Wiki, existing: dict[str, PageOnDisk]) -> Iterator[LintFinding]:
    targets = {
        f"{page_path(record)}#{heading_anchor(record_heading(record))}" for record in wiki.records.records.values()
    }
    for name, page in existing.items():
        cited = {f"{path.removeprefix('../')}#{anchor}" for path, anchor in _CITATION_LINK.findall(page.text)}
        for target in sorted(cited - targets):
            message = f"{name} cites {target.rpartition('#')[2]}, which is not in the ledger"
            hint = f"{_BUILD_COMMAND}; 'lorelog ledger check' finds lost records"
            yield LintFinding("broken_citation", name, message, hint)


def _lint_references(wiki: Wiki) -> Iterator[LintFinding]:
    for record in wiki.page_records:
        for source_id in source_ids(record):
            if source_id not in wiki.records.records:
                message = f"{record.kind} {short_id(record.id)} refers to {source_id[:80]}, which is not in the ledger"
                hint = "revise the record, or import the ledger that has the other"
                yield LintFinding("broken_citation", page_path(record), message, hint, (record.id,))


def _lint_superseded_grounds(wiki: Wiki) -> Iterator[LintFinding]:
    for record in verified_decisions(wiki):
        for source_id in source_ids(record):
            newer = wiki.records.superseded_by(source_id)
            if newer and newer != record.id and record.supersedes != source_id:
                message = (
                    f"the verified decision {short_id(record.id)} rests on {short_id(source_id)}, "
                    f"superseded by {short_id(newer)}"
                )
                hint = "check whether it still holds, and revise it if not"
                yield LintFinding("superseded_ground", page_path(record), message, hint, (record.id, source_id, newer))
