"""Compiles a project's records to the pages of a wiki.

There is a page for each task with all its records, one each for decisions, failures and evidence, the pages
that agents wrote, a brief and an index. Every citation links to the record itself. Each page begins with a mark that
says that it is generated and contains a hash of its content.

Unchanged pages are not rewritten, and files without our mark are never touched. A page that was edited by hand is moved aside before it is
overwritten: the wiki can be rebuilt, but the edit cannot.

A record's text may have been written to deceive. None of it may become a link, heading, badge, HTML or comment, so
everything is escaped. Badges are code spans, which escaped text cannot produce.
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

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.errors import StoreUnwritable, plural
from lorelog.core.paths import leads_out
from lorelog.core.ports import group_by
from lorelog.core.record import DIGEST_MARK, UNPAGED_KINDS, UNTRUSTED_ORIGINS, Json, Record, Trust, TrustTier
from lorelog.records import digests
from lorelog.records.tables import RecordTables, Task
from lorelog.records.trust import assess_records, source_ids
from lorelog.services.places.workspace import DEFAULT_TENANT, TENANTS, Workspace
from lorelog.services.records.record_scope import RecordScope, digest_scope_for

TASKS_FOLDER, PAGES_FOLDER = "tasks", "pages"
NO_TASK_PAGE = f"{TASKS_FOLDER}/_no-task.md"
"""No slug of a task's id begins with an underscore."""
INDEX_PAGE, BRIEF_PAGE = "index.md", "brief.md"
LIBRARY_PAGES: Mapping[digests.DigestRole, str] = {
    digests.DigestRole.DECISIONS: "decisions.md",
    digests.DigestRole.FAILURES: "failures.md",
    digests.DigestRole.EVIDENCE: "evidence.md",
}
EDITED_SUFFIX = ".edited"
"""Suffix of an edited page that was moved aside."""
_INLINE_MARKUP = re.compile(r"[\\`*\[\]<>&~|$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"(?:[#=+-]|[0-9]{1,9}(?=[.)]))")
_SLUG_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_MAX_SLUG_CHARS = 64
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
DIGEST_BADGE = "`[digest]`"
_DISCLAIMER = (
    f"{DIGEST_BADGE} Compiled from records, for orientation only: follow the citations before you rely on a sentence."
)
_HIDDEN_FIELDS = ("content", "artifact_role", "related_artifact_ids")
_MAX_ITEMS = 200
_PAGE_MARK = re.compile(re.escape(DIGEST_MARK) + r" page:(\S+) sha256:([0-9a-f]{64}) -->\n")
_CITATION_LINK = re.compile(r"\]\(((?:\.\./)?(?:tasks|pages)/[^)#\s]+\.md)#([^)\s]+)\)")
_SHORT_ID_CHARS = 13
"""Fewer are not enough: the first eight of a UUIDv7 are a time, which records of the same minute share."""
_BUILD_COMMAND = "lorelog wiki build"


def escape_inline(text: str, max_chars: int | None = None) -> str:
    """Return Markdown that shows the text literally, on one line."""
    line = " ".join(digests.strip_control_chars(text).split())
    if max_chars is not None and len(line) > max_chars:
        line = line[: max_chars - 1].rstrip() + "…"
    return _escape_block_line(line)


def quote_markdown(text: str) -> list[str]:
    """Return Markdown as a quotation. It keeps its formatting, but not HTML or images.

    Tags are escaped inside code as well: a hidden tag relies on a wrong guess of where code ends.
    """
    lines = _TAG.sub("&lt;", digests.strip_control_chars(text).replace("![", "\\![")).strip("\n").split("\n")
    return [f"> {line}".rstrip() for line in lines]


def quote_text(text: str, indent: str = "") -> list[str]:
    """Return text of several lines as a quotation that shows each line literally."""
    lines = digests.strip_control_chars(text).strip("\n").split("\n")
    return [f"{indent}> {_escape_block_line(line)}".rstrip() for line in lines]


def fence_text(text: str, indent: str = "") -> list[str]:
    """Return text as a fenced block. The fence is longer than any inside."""
    whole = digests.strip_control_chars(text).strip("\n")
    fence = "```"
    while fence in whole:
        fence += "`"
    return [f"{indent}{line}".rstrip() for line in (f"{fence}text", *whole.split("\n"), fence)]


def id_slug(identity: str) -> str:
    """Return an id that is safe in file names and anchors; most ids are unchanged."""
    is_short = 0 < len(identity) <= _MAX_SLUG_CHARS
    if is_short and _SLUG_CHARS.issuperset(identity) and not identity.startswith(("-", "x-")):
        return identity
    return f"x-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def heading_anchor(heading: str) -> str:
    """Return a heading's anchor by GitHub's rule."""
    kept = (char for char in heading.strip().lower() if char.isalnum() or char in "_- ")
    return "".join(kept).replace(" ", "-")


def record_heading(record: Record) -> str:
    """Return a record's heading on its page."""
    return f"{re.sub(r'[^a-z_]', '', record.kind) or 'record'} {id_slug(record.id)}"


def trust_badge(record: Record, trust: Mapping[str, Trust]) -> str:
    own = trust.get(record.id)
    if own is None:
        return "`[not judged]`"
    badges = []
    if own.tainted:
        badges.append(f"`[tainted: {record.origin}]`" if record.origin in UNTRUSTED_ORIGINS else "`[tainted]`")
    proven = own.signed if own.tier is TrustTier.VERIFIED else bool(own.signed_by)
    if own.tier is TrustTier.VERIFIED or own.verified_by:
        badges.append("`[verified, signed]`" if proven else "`[verified]`")
    elif not badges:
        badges.append("`[record]`")
    return " ".join(badges)


def render_field(name: str, value: Json, *, data: bool) -> Sequence[str]:
    """Return a record's field as Markdown; as a fenced block if `data` (text from an untrusted origin)."""
    label = f"- {name.replace('_', ' ')}:"
    if isinstance(value, list):
        texts = [_flatten_value(item) for item in value]
        if data:
            return [label, "", *fence_text("\n".join(texts), "  "), ""]
        return [label, *(f"  - {escape_inline(item)}" for item in texts if item.strip())]
    text = _flatten_value(value)
    if data:
        return [label, "", *fence_text(text, "  "), ""]
    if "\n" in text.strip():
        return [label, "", *quote_text(text, "  "), ""]
    return [f"{label} {escape_inline(text)}"]


def _flatten_value(value: Json) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_flatten_value(item)}" for name, item in sorted(value.items()))
    if isinstance(value, list):
        return "; ".join(map(_flatten_value, value))
    return "" if value is None else str(value)


def _escape_block_line(line: str) -> str:
    text = _INLINE_MARKUP.sub(r"\\\g<0>", line.strip())
    block = _BLOCK_START.match(text)
    if block is None:
        return text
    at = block.end() if block[0][0].isdigit() else 0
    return f"{text[:at]}\\{text[at:]}"


class Wiki(Struct, frozen=True, dict=True):
    """A compiled wiki that is not on disk yet."""

    records: Mapping[str, Record]
    """All records of the tenant."""
    trust: Mapping[str, Trust]
    page_records: tuple[Record, ...]
    pages: dict[str, str] = field(default_factory=dict)
    """Page texts by file name, including their marks."""

    @cached_property
    def replacements(self) -> Mapping[str, str]:
        """The last superseding record by superseded record."""
        return {record.supersedes: record.id for record in self.records.values() if record.supersedes}

    def is_tainted(self, identity: str) -> bool:
        """Return True if a record's text must not look like ours, also if its trust is unknown."""
        return identity not in self.trust or self.trust[identity].tainted

    def cite(self, identity: str, folder: str, *, badge: bool = False) -> str:
        """Return a link to a record from a page in `folder`, with its trust as a badge if wanted."""
        record = self.records.get(identity)
        name = escape_inline(identity[:_SHORT_ID_CHARS])
        if record is None:
            return f"{name} (not in the ledger)"
        link = f"[{name}]({'../' if folder else ''}{_record_link(record)})"
        return f"{trust_badge(record, self.trust)} {link}" if badge else link


def compile_wiki(scope: RecordScope, *, all_projects: bool = False) -> Wiki:
    """Return the wiki of the visible records; without records it has no pages."""
    tables = scope.records.tables()
    view = digest_scope_for(scope, all_projects=all_projects)
    records = list(tables.all())
    first = {record.id: record for record in reversed(records)}
    first = {record.id: first[record.id] for record in records if first[record.id].kind not in UNPAGED_KINDS}
    shown = tuple(record for record in first.values() if view.projects is None or record.project in view.projects)
    wiki = Wiki(first, assess_records(records, scope.records.signer), shown)
    for name, body in sorted(_render_pages(tables, view, wiki)) if shown else ():
        wiki.pages[name] = f"{DIGEST_MARK} page:{name} sha256:{_hash_page(body)} -->\n{body}"
    return wiki


def _hash_page(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()


def _page_path(record: Record) -> str:
    if record.kind == "wiki_page":
        return f"{PAGES_FOLDER}/{id_slug(record.id)}.md"
    return f"{TASKS_FOLDER}/{id_slug(record.task)}.md" if record.task else NO_TASK_PAGE


def _record_link(record: Record) -> str:
    return f"{_page_path(record)}#{heading_anchor(record_heading(record))}"


def _render_pages(tables: RecordTables, view: digests.DigestScope, wiki: Wiki) -> Iterator[tuple[str, str]]:
    def trust_of(ids: Iterable[str]) -> Mapping[str, Trust]:
        return {id_: wiki.trust[id_] for id_ in ids if id_ in wiki.trust}

    tasks: dict[str, Task] = {}
    for name, records in group_by(wiki.page_records, _page_path).items():
        first = records[0]
        task = tables.task(first.task) if first.task and first.kind != "wiki_page" else None
        if first.kind == "wiki_page":  # its text as a quotation, or as a fenced block if it is tainted
            content = first.text("content")
            body = fence_text(content) if wiki.is_tainted(first.id) else quote_markdown(content)
            lines = [*_render_records([first], wiki, PAGES_FOLDER), "", "## What it says", "", *body]
            yield name, _render_page(_written_page_title(first), PAGES_FOLDER, lines, disclaimer=False)
        elif task is None:
            lines = _render_records(records, wiki, TASKS_FOLDER)
            yield name, _render_page("Records of no task", TASKS_FOLDER, lines)
        else:
            tasks[name] = task
            yield name, _render_task_page(digests.build_resume(tables, trust_of, task), records, wiki)
    libraries = {
        name: digests.build_library(tables, trust_of, view, role, limit=_MAX_ITEMS)
        for role, name in LIBRARY_PAGES.items()
    }
    brief = digests.build_brief(tables, trust_of, view)
    filled = {name: digest for name, (digest, items) in libraries.items() if items}
    for name, digest in (*filled.items(), (BRIEF_PAGE, brief.digest)):
        yield name, _render_page(escape_inline(digest.title), "", _render_digest(digest, wiki, ""))
    yield INDEX_PAGE, _render_index_page(view.name, brief.overview, tasks, wiki, list(filled))


def _render_page(title: str, folder: str, lines: Iterable[str], *, disclaimer: bool = True) -> str:
    """Return a page with a link to the index; `lines` begin with an empty one."""
    home = f"[Index]({'../' if folder else ''}{INDEX_PAGE})"
    head = [f"# {title}", "", *([_DISCLAIMER, ""] if disclaimer else []), home]
    return "\n".join((*head, *lines)) + "\n"


def _render_task_page(resume: digests.TaskResume, records: Sequence[Record], wiki: Wiki) -> str:
    """Return a task's page: its state, and all its records, oldest first."""
    task = resume.task
    facts = [
        escape_inline(task.status, 60),
        f"began {task.started_at[:10]}" if task.started_at else "never begun",
        f"by {escape_inline(task.agent, 100) or 'nobody'}",
        plural(len(records), "record"),
        f"ended {task.finished_at[:10]}" if task.finished_at else "",
        f"project {escape_inline(task.project, 300)}" if task.project else "no project",
    ]
    lines = [
        "",
        f"Task {escape_inline(task.id)}: {', '.join(filter(None, facts))}.",
        *_render_digest(resume.digest, wiki, TASKS_FOLDER),
        "",
        "## Records",
        *_render_records(records, wiki, TASKS_FOLDER),
    ]
    return _render_page(escape_inline(resume.goal or task.id, 300), TASKS_FOLDER, lines)


def _written_page_title(record: Record) -> str:
    """Return the title of a written page: its first heading, else its summary."""
    first = next((line for line in record.text("content").split("\n") if line.startswith("# ")), "")
    return escape_inline(first[2:] or record.text("summary") or record.id, 120)


def _render_index_page(
    name: str, overview: str, tasks: Mapping[str, Task], wiki: Wiki, libraries: Sequence[str]
) -> str:
    """Return the index page. Titles from a tool or an import are marked as such."""

    def mark(identity: str) -> str:
        known = identity in wiki.records and identity in wiki.trust
        return f" {trust_badge(wiki.records[identity], wiki.trust)}" if known and wiki.is_tainted(identity) else ""

    parts = [f"# {escape_inline(name)}", "", _DISCLAIMER, "", escape_inline(overview), ""]
    parts.append(f"- [Project brief]({BRIEF_PAGE})")
    parts += [f"- [{page.removesuffix('.md').capitalize()}]({page})" for page in libraries]
    written = [
        record for record in wiki.page_records if record.kind == "wiki_page" and record.id not in wiki.replacements
    ]
    if written:
        parts += ["", "## Pages", ""]
        newest = sorted(written, key=lambda record: -record.seq)
        parts += [f"- [{_written_page_title(record)}]({_page_path(record)}){mark(record.id)}" for record in newest]
    by_project: dict[str, list[str]] = defaultdict(list)
    for page, task in sorted(tasks.items(), key=lambda pair: pair[1].updated_at, reverse=True):
        state = f"{escape_inline(task.status, 60)}, {task.updated_at[:10]}"
        title = escape_inline(task.goal or task.id, 200)
        by_project[task.project].append(f"- [{title}]({page}){mark(task.started_by or task.last)} ({state})")
    for project in sorted(by_project):
        of_project = f"Tasks of {escape_inline(project, 300)}" if project else "Tasks of no project"
        parts += ["", f"## {of_project if len(by_project) > 1 else 'Tasks'}", "", *by_project[project]]
    return "\n".join(parts) + "\n"


def _render_digest(digest: digests.Digest, wiki: Wiki, folder: str) -> list[str]:
    parts, section = list[str](), ""
    for line in digest.lines:
        if line.section != section:
            section = line.section
            parts += ["", f"## {escape_inline(section)}", ""]
        cites = "; ".join(wiki.cite(id_, folder, badge=True) for id_ in line.cites)
        parts.append(f"- {escape_inline(line.text)} ({cites})")
    return parts


def _render_records(records: Iterable[Record], wiki: Wiki, folder: str) -> list[str]:
    return [line for record in records for line in _render_record(record, wiki, folder)]


def _render_record(record: Record, wiki: Wiki, folder: str) -> Iterator[str]:
    facts = [
        f"{trust_badge(record, wiki.trust)} {escape_inline(record.agent, 100) or 'nobody'}",
        f"{escape_inline(record.at[:16].replace('T', ' '))} UTC",
        escape_inline(record.status, 60),
        f"origin {record.origin}",
    ]
    yield from ("", f"### {record_heading(record)}", "", ", ".join(facts), "")
    if id_slug(record.id) != record.id:
        yield f"- id: {escape_inline(record.id)}"
    if record.reply_to:
        how = escape_inline(record.relation or "replies to", 60)
        stance = {True: ", and supports it", False: ", and does not support it", None: ""}[record.supports_claim]
        yield f"- {how}: {wiki.cite(record.reply_to, folder)}{stance}"
    if record.supersedes and record.supersedes != record.reply_to:
        yield f"- supersedes: {wiki.cite(record.supersedes, folder)}"
    if newer := wiki.replacements.get(record.id):
        yield f"- superseded by: {wiki.cite(newer, folder)}"
    if (trust := wiki.trust.get(record.id)) is not None:
        yield from (f"- verified by: {wiki.cite(id_, folder)}" for id_ in trust.verified_by)
        if trust.promotion == "refused":
            yield f"- verifies nothing: {escape_inline(trust.promotion_reason)}"
    if related := record.texts("related_artifact_ids"):
        yield f"- rests on: {'; '.join(wiki.cite(id_, folder) for id_ in related)}"
    for name, value in record.fields.items():
        if name not in _HIDDEN_FIELDS and value not in ("", [], {}, None):
            yield from render_field(escape_inline(name, 60), value, data=wiki.is_tainted(record.id))


PageOnDisk = tuple[str, bool]
"""The text of a page, and whether it was changed after it was written."""


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
    _refuse_links_out(folder, workspace.project.id, "make it a directory, or use --output")
    return folder


def _refuse_links_out(path: Path, folder: Path | str, hint: str) -> None:
    if leads_out(path, folder):
        raise StoreUnwritable(f"{path} is a link that leads out of {folder}", hint=hint)


def write_pages(pages: Mapping[str, str], folder: Path) -> WikiBuildReport:
    """Update a folder with the pages. Raise StoreUnwritable."""
    report = WikiBuildReport(str(folder))
    with Writing(folder, hint="make it writable, or choose another folder: --output DIR", names_file=True):
        existing = read_pages(folder)
        for name in (*pages, *(name for name in existing if name not in pages)):
            _update_page(folder / name, pages.get(name), existing.get(name), report)
    return report


def _update_page(path: Path, text: str | None, existing: PageOnDisk | None, report: WikiBuildReport) -> None:
    name = path.relative_to(report.folder).as_posix()
    _refuse_links_out(path.parent, report.folder, "make it a directory")
    if existing is None and os.path.lexists(path):
        report.left_alone.append(name)
        return
    if existing is not None and existing[0] == text:
        report.unchanged.append(name)
        return
    if existing is not None and existing[1]:
        path.replace(path.with_name(path.name + EDITED_SUFFIX))
        report.put_aside.append(name)
    if text is None:
        path.unlink(missing_ok=True)
        report.removed.append(name)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode("utf-8", "replace"), mode=0o644, durable=False)  # derived: it can be built again
        report.written.append(name)


def read_pages(folder: Path) -> dict[str, PageOnDisk]:
    """Return our pages in a folder by name; other files are ignored."""
    pages: dict[str, PageOnDisk] = {}
    for below in ("", TASKS_FOLDER, PAGES_FOLDER):
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in sorted((folder / below).iterdir()):
                if path.suffix != ".md" or path.is_symlink() or not path.is_file():
                    continue
                name = f"{below}/{path.name}" if below else path.name
                text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
                mark = _PAGE_MARK.match(text)
                if mark is not None and mark[1] == name:
                    pages[name] = text, _hash_page(text[mark.end() :]) != mark[2]
    return pages


class LintFinding(Struct, frozen=True):
    kind: str
    """missing, stale, edited, broken_citation or superseded_ground."""
    page: str
    message: str
    hint: str
    records: tuple[str, ...] = ()


def lint_wiki(wiki: Wiki, folder: Path) -> list[LintFinding]:
    """Return the problems, those of pages first."""
    return [*_lint_pages(wiki, folder), *_lint_records(wiki)]


def _lint_pages(wiki: Wiki, folder: Path) -> Iterator[LintFinding]:
    existing = read_pages(folder)
    if wiki.pages and not existing:
        yield LintFinding("missing", "", f"{folder} contains no wiki", _BUILD_COMMAND)
        return
    for name, text in wiki.pages.items():
        page = existing.get(name)
        if page is None:
            yield LintFinding("missing", name, f"{name} does not exist", _BUILD_COMMAND)
        elif page[1]:
            hint = f"{_BUILD_COMMAND} moves it aside; write text to keep as a record (artifact.create wiki_page)"
            yield LintFinding("edited", name, f"{name} was edited by hand", hint)
        elif page[0] != text:
            yield LintFinding("stale", name, f"{name} is out of date", _BUILD_COMMAND)
    for name in sorted(set(existing) - set(wiki.pages)):
        yield LintFinding("stale", name, f"{name} has no records any more", _BUILD_COMMAND)
    targets = set(map(_record_link, wiki.records.values()))
    for name, (text, _) in existing.items():
        cited = {f"{path.removeprefix('../')}#{anchor}" for path, anchor in _CITATION_LINK.findall(text)}
        for target in sorted(cited - targets):
            message = f"{name} cites {target.rpartition('#')[2]}, which is not in the ledger"
            hint = f"{_BUILD_COMMAND}; 'lorelog ledger check' finds lost records"
            yield LintFinding("broken_citation", name, message, hint)


def _lint_records(wiki: Wiki) -> Iterator[LintFinding]:
    pairs = [(record, source_id) for record in wiki.page_records for source_id in source_ids(record)]
    for record, source_id in pairs:
        if source_id not in wiki.records:
            message = (
                f"{record.kind} {record.id[:_SHORT_ID_CHARS]} refers to {source_id[:80]}, which is not in the ledger"
            )
            hint = "revise the record, or import the ledger that has the other"
            yield LintFinding("broken_citation", _page_path(record), message, hint, (record.id,))
    for record, source_id in pairs:
        newer = wiki.replacements.get(source_id, record.id)
        if newer != record.id and record.supersedes != source_id and _is_verified_decision(record, wiki):
            message = (
                f"the verified decision {record.id[:_SHORT_ID_CHARS]} rests on {source_id[:_SHORT_ID_CHARS]}, "
                f"superseded by {newer[:_SHORT_ID_CHARS]}"
            )
            hint = "check whether it still holds, and revise it if not"
            yield LintFinding("superseded_ground", _page_path(record), message, hint, (record.id, source_id, newer))


def _is_verified_decision(record: Record, wiki: Wiki) -> bool:
    """Return True for a decision in force, or a revision of one, that a second writer verified or that verifies another."""
    trust = wiki.trust.get(record.id)
    if trust is None or record.id in wiki.replacements:
        return False
    seen = set[str]()
    while (
        record.kind == "revision" and record.id not in seen and (record.supersedes or record.reply_to) in wiki.records
    ):
        seen.add(record.id)
        record = wiki.records[record.supersedes or record.reply_to]
    return record.kind == "decision" and (bool(trust.verified_by) or trust.tier is TrustTier.VERIFIED)
