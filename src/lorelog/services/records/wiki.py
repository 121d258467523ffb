"""Compiles a project's records to the pages of a wiki.

There is a page for each task with all its records, one each for decisions, failures, evidence and highlights, the pages
that agents wrote, a brief and an index. Every citation links to the record itself. Each page begins with a mark that
says that it is generated and contains a hash of its content.

Unchanged pages are not rewritten, and files without our mark are never touched. A page that was edited by hand is moved aside before it is
overwritten: the wiki can be rebuilt, but the edit cannot.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import StoreUnwritable
from lorelog.core.grammar import plural
from lorelog.core.paths import is_below
from lorelog.core.record import DIGEST_MARK, UNPAGED_KINDS, Record, Trust, TrustTier
from lorelog.records.digests import (
    Digest,
    DigestLine,
    DigestRole,
    DigestScope,
    TaskResume,
    build_brief,
    build_library,
    build_resume,
)
from lorelog.records.tables import RecordTables, Task
from lorelog.records.trust import assess_records, source_ids
from lorelog.services.places.workspace import DEFAULT_TENANT, TENANTS, Workspace
from lorelog.services.records.markdown import (
    DIGEST_BADGE,
    escape_inline,
    fence_text,
    heading_anchor,
    id_slug,
    quote_markdown,
    record_heading,
    render_field,
    short_id,
    trust_badge,
)
from lorelog.services.records.record_scope import RecordScope, digest_scope_for
from lorelog.services.records.store import RecordStore

TASKS_FOLDER, PAGES_FOLDER = "tasks", "pages"
NO_TASK_PAGE = f"{TASKS_FOLDER}/_no-task.md"
"""No slug of a task's id begins with an underscore."""
_DISCLAIMER = (
    f"{DIGEST_BADGE} Compiled from records, for orientation only: follow the citations before you rely on a sentence."
)
_PAGE_FIELDS = ("content", "artifact_role")


class WikiRecords(Struct, frozen=True, dict=True):
    """All records of a tenant with their trust."""

    records: Mapping[str, Record]
    trust: Mapping[str, Trust] = field(default_factory=dict)

    @cached_property
    def replacements(self) -> Mapping[str, str]:
        """The last superseding record by superseded record."""
        return {record.supersedes: record.id for record in self.records.values() if record.supersedes}

    def superseded_by(self, identity: str) -> str:
        """Return the id of the record that supersedes another; empty if none does."""
        return self.replacements.get(identity, "")


def page_path(record: Record) -> str:
    """Return the page of a record."""
    if record.kind == "wiki_page":
        return f"{PAGES_FOLDER}/{id_slug(record.id)}.md"
    return f"{TASKS_FOLDER}/{id_slug(record.task)}.md" if record.task else NO_TASK_PAGE


def render_citation(identity: str, wiki_records: WikiRecords, folder: str) -> str:
    """Return a link to a record from a page in `folder`."""
    record = wiki_records.records.get(identity)
    if record is None:
        return f"{escape_inline(short_id(identity))} (not in the ledger)"
    up = "../" if folder else ""
    return f"[{escape_inline(short_id(identity))}]({up}{page_path(record)}#{heading_anchor(record_heading(record))})"


def render_digest_page(digest: Digest, wiki_records: WikiRecords, folder: str) -> str:
    """Return a digest as a page."""
    parts = [
        f"# {escape_inline(digest.title)}",
        "",
        _DISCLAIMER,
        "",
        _home_link(folder),
        *_render_digest_lines(digest.lines, wiki_records, folder),
    ]
    return "\n".join(parts) + "\n"


def render_task_page(resume: TaskResume, records: Sequence[Record], wiki_records: WikiRecords) -> str:
    """Return a task's page: its state, and all its records, oldest first."""
    task = resume.task
    began = f"began {task.started_at[:10]}" if task.started_at else "never begun"
    facts = [
        escape_inline(task.status, 60),
        began,
        f"by {escape_inline(task.agent, 100) or 'nobody'}",
        plural(len(records), "record"),
    ]
    facts += [f"ended {task.finished_at[:10]}"] if task.finished_at else []
    facts += [f"project {escape_inline(task.project, 300)}"] if task.project else ["no project"]
    parts = [
        f"# {escape_inline(resume.goal or task.id, 300)}",
        "",
        _DISCLAIMER,
        "",
        _home_link(TASKS_FOLDER),
        "",
        f"Task {escape_inline(task.id)}: {', '.join(facts)}.",
        *_render_digest_lines(resume.digest.lines, wiki_records, TASKS_FOLDER),
        "",
        "## Records",
    ]
    for record in records:
        parts += ["", *_render_record(record, wiki_records, TASKS_FOLDER)]
    return "\n".join(parts) + "\n"


def render_no_task_page(records: Sequence[Record], wiki_records: WikiRecords) -> str:
    """Return the page of records without a task."""
    parts = ["# Records of no task", "", _DISCLAIMER, "", _home_link(TASKS_FOLDER)]
    for record in records:
        parts += ["", *_render_record(record, wiki_records, TASKS_FOLDER)]
    return "\n".join(parts) + "\n"


def render_written_page(record: Record, wiki_records: WikiRecords) -> str:
    """Return a page that an agent wrote: its text as a quotation, or as a fenced block if it is tainted."""
    content = record.text("content")
    trust = wiki_records.trust.get(record.id)
    body = fence_text(content) if trust is None or trust.tainted else quote_markdown(content)
    parts = [
        f"# {written_page_title(record)}",
        "",
        _home_link(PAGES_FOLDER),
        "",
        *_render_record(record, wiki_records, PAGES_FOLDER),
        "",
        "## What it says",
        "",
        *body,
    ]
    return "\n".join(parts) + "\n"


def render_index_page(
    *,
    view: DigestScope,
    overview: str,
    tasks: Mapping[str, Task],
    wiki_records: WikiRecords,
    written: Sequence[Record],
    libraries: Sequence[str],
) -> str:
    """Return the index page. Titles from a tool or an import are marked as such."""
    parts = [
        f"# {escape_inline(view.name)}",
        "",
        _DISCLAIMER,
        "",
        escape_inline(overview),
        "",
        "- [Project brief](brief.md)",
    ]
    parts += [f"- [{_library_title(name)}]({name})" for name in libraries]
    if written:
        parts += ["", "## Pages", ""]
        newest = sorted(written, key=lambda record: -record.seq)
        parts += [
            f"- [{written_page_title(record)}]({page_path(record)}){_taint_mark(record.id, wiki_records)}"
            for record in newest
        ]
    by_project: dict[str, list[tuple[str, Task]]] = {}
    for name, task in sorted(tasks.items(), key=lambda pair: pair[1].updated_at, reverse=True):
        by_project.setdefault(task.project, []).append((name, task))
    for project in sorted(by_project):
        of_project = f"Tasks of {escape_inline(project, 300)}" if project else "Tasks of no project"
        parts += ["", f"## {of_project if len(by_project) > 1 else 'Tasks'}", ""]
        for name, task in by_project[project]:
            state = f"{escape_inline(task.status, 60)}, {task.updated_at[:10]}"
            mark = _taint_mark(task.started_by or task.last, wiki_records)
            parts.append(f"- [{escape_inline(task.goal or task.id, 200)}]({name}){mark} ({state})")
    return "\n".join(parts) + "\n"


def _taint_mark(identity: str, wiki_records: WikiRecords) -> str:
    record, trust = wiki_records.records.get(identity), wiki_records.trust.get(identity)
    return (
        f" {trust_badge(record, wiki_records.trust)}"
        if record is not None and trust is not None and trust.tainted
        else ""
    )


def written_page_title(record: Record) -> str:
    """Return the title of a written page: its first heading, else its summary."""
    first = next((line for line in record.text("content").split("\n") if line.startswith("# ")), "")
    return escape_inline(first[2:] or record.text("summary") or record.id, 120)


def _library_title(name: str) -> str:
    return name.removesuffix(".md").capitalize()


def _home_link(folder: str) -> str:
    return f"[Index]({'../' if folder else ''}index.md)"


def _render_digest_lines(lines: Iterable[DigestLine], wiki_records: WikiRecords, folder: str) -> list[str]:
    parts, section = list[str](), ""
    for line in lines:
        if line.section != section:
            section = line.section
            parts += ["", f"## {escape_inline(section)}", ""]
        parts.append(f"- {escape_inline(line.text)} {_render_citations(line.cites, wiki_records, folder)}")
    return parts


def _render_citations(ids: Sequence[str], wiki_records: WikiRecords, folder: str) -> str:
    cites = []
    for id_ in ids:
        record = wiki_records.records.get(id_)
        badge = f"{trust_badge(record, wiki_records.trust)} " if record is not None else ""
        cites.append(f"{badge}{render_citation(id_, wiki_records, folder)}")
    return f"({'; '.join(cites)})"


def _render_record(record: Record, wiki_records: WikiRecords, folder: str) -> list[str]:
    trust = wiki_records.trust.get(record.id)
    who = escape_inline(record.agent, 100) or "nobody"
    at_ = escape_inline(record.at[:16].replace("T", " "))
    facts = [
        f"{trust_badge(record, wiki_records.trust)} {who}",
        f"{at_} UTC",
        escape_inline(record.status, 60),
        f"origin {record.origin}",
    ]
    parts = [f"### {record_heading(record)}", "", ", ".join(facts), ""]
    if id_slug(record.id) != record.id:
        parts.append(f"- id: {escape_inline(record.id)}")
    if record.reply_to:
        how = escape_inline(record.relation or "replies to", 60)
        stance = {True: ", and supports it", False: ", and does not support it", None: ""}[record.supports_claim]
        parts.append(f"- {how}: {render_citation(record.reply_to, wiki_records, folder)}{stance}")
    if record.supersedes and record.supersedes != record.reply_to:
        parts.append(f"- supersedes: {render_citation(record.supersedes, wiki_records, folder)}")
    if newer := wiki_records.superseded_by(record.id):
        parts.append(f"- superseded by: {render_citation(newer, wiki_records, folder)}")
    if trust is not None:
        parts += [f"- verified by: {render_citation(id_, wiki_records, folder)}" for id_ in trust.verified_by]
        if trust.promotion == "refused":
            parts.append(f"- verifies nothing: {escape_inline(trust.promotion_reason)}")
    if related := record.texts("related_artifact_ids"):
        parts.append(f"- rests on: {'; '.join(render_citation(id_, wiki_records, folder) for id_ in related)}")
    for name, value in record.fields.items():
        if name in _PAGE_FIELDS or name == "related_artifact_ids" or value in ("", [], {}, None):
            continue
        parts += render_field(escape_inline(name, 60), value, data=trust is None or trust.tainted)
    return parts


INDEX_PAGE, BRIEF_PAGE = "index.md", "brief.md"
LIBRARY_PAGES: Mapping[DigestRole, str] = {
    DigestRole.DECISIONS: "decisions.md",
    DigestRole.FAILURES: "failures.md",
    DigestRole.EVIDENCE: "evidence.md",
    DigestRole.HIGHLIGHTS: "highlights.md",
}
_MAX_ITEMS = 200
_BATCH_SIZE = 2000


class Wiki(Struct, frozen=True):
    """A compiled wiki that is not on disk yet."""

    pages: Mapping[str, str]
    """Page texts by file name, including their marks."""
    records: WikiRecords
    """All records of the tenant."""
    page_records: tuple[Record, ...]
    """The records on its pages."""


def compile_wiki(scope: RecordScope, *, all_projects: bool = False) -> Wiki:
    """Return the wiki of the visible records; without records it has no pages."""
    tables = scope.records.tables()
    view = digest_scope_for(scope, all_projects=all_projects)
    wiki_records = _load_records(scope.records, tables)
    shown = tuple(
        record for record in wiki_records.records.values() if view.projects is None or record.project in view.projects
    )
    if not shown:
        return Wiki({}, wiki_records, ())
    bodies = dict(_render_pages(tables, view, wiki_records, shown))
    return Wiki({name: add_page_mark(name, body) for name, body in sorted(bodies.items())}, wiki_records, shown)


def add_page_mark(name: str, body: str) -> str:
    """Return a page with its mark, which contains its name and hash."""
    return f"{DIGEST_MARK} page:{name} sha256:{hash_page(body)} -->\n{body}"


def hash_page(body: str) -> str:
    """Return the hash of a page's content."""
    return hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()


def _load_records(store: RecordStore, tables: RecordTables) -> WikiRecords:
    records = list[Record]()
    position = 0
    while batch := tables.applied_after(position, _BATCH_SIZE):
        records += [record for _, record in batch]
        position = batch[-1][0]
    first: dict[str, Record] = {}
    for record in records:
        first.setdefault(record.id, record)
    trust = assess_records(records, store.signer)
    return WikiRecords({id_: record for id_, record in first.items() if record.kind not in UNPAGED_KINDS}, trust)


def _render_pages(
    tables: RecordTables, view: DigestScope, wiki_records: WikiRecords, shown: tuple[Record, ...]
) -> Iterable[tuple[str, str]]:
    def trust_of(ids: Iterable[str]) -> Mapping[str, Trust]:
        return {id_: wiki_records.trust[id_] for id_ in ids if id_ in wiki_records.trust}

    by_page: dict[str, list[Record]] = defaultdict(list)
    for record in shown:
        by_page[page_path(record)].append(record)
    tasks: dict[str, Task] = {}
    for name, records in by_page.items():
        first = records[0]
        task = tables.task(first.task) if first.task and first.kind != "wiki_page" else None
        if first.kind == "wiki_page":
            yield name, render_written_page(first, wiki_records)
        elif task is None:
            yield name, render_no_task_page(records, wiki_records)
        else:
            tasks[name] = task
            yield name, render_task_page(build_resume(tables, trust_of, task), records, wiki_records)
    libraries = list[str]()
    for role, name in LIBRARY_PAGES.items():
        library = build_library(tables, trust_of, view, role, limit=_MAX_ITEMS)
        if library.items:
            libraries.append(name)
            yield name, render_digest_page(library.digest, wiki_records, "")
    brief = build_brief(tables, trust_of, view)
    yield BRIEF_PAGE, render_digest_page(brief.digest, wiki_records, "")
    written = [record for record in shown if record.kind == "wiki_page" and not wiki_records.superseded_by(record.id)]
    yield (
        INDEX_PAGE,
        render_index_page(
            view=view,
            overview=brief.overview,
            tasks=tasks,
            wiki_records=wiki_records,
            written=written,
            libraries=libraries,
        ),
    )


_PAGE_MARK = re.compile(re.escape(DIGEST_MARK) + r" page:(\S+) sha256:([0-9a-f]{64}) -->\n")
_FOLDERS = ("", "tasks", "pages")
EDITED_SUFFIX = ".edited"
"""Suffix of an edited page that was moved aside."""


class PageOnDisk(Struct, frozen=True):
    """A page of ours on disk."""

    name: str
    text: str
    edited: bool
    """Whether it was changed after it was written."""


class WikiBuildReport(Struct):
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


_CITATION_LINK = re.compile(r"\]\(((?:\.\./)?(?:tasks|pages)/[^)#\s]+\.md)#([^)\s]+)\)")
_BUILD_COMMAND = "lorelog wiki build"


class LintFinding(Struct, frozen=True):
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
