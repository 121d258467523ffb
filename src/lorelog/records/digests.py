"""Digests: libraries, project briefs and task resumes, compiled from records on demand, with the trust of a hint.

A digest is made of canonical records only, never of another digest or of superseded records. Every sentence cites its
records. It contains nothing that depends on the current time: the same records give the same bytes under the same id, so
a client that keeps a digest can see whether anything has changed.

A library is a list of items from many tasks that are all failures, decisions or evidence. Which record
belongs in which library follows the rules of memd, another program that keeps memories; the order of the records does
not matter. Trust is looked up only for the items that are shown. Little more is read than is shown, so a ledger of many
years is briefed as fast as a new one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.record import CANDIDATE_TRUST, DIGEST_TRUST, UNPAGED_KINDS, UNTRUSTED_ORIGINS, Record, Trust
from lorelog.core.serializable import Serializable
from lorelog.language import lexicon
from lorelog.records.tables import RecordContentFilter, RecordQuery, RecordTables, RelatedProject, Task, ToolRun

MAX_CITED_RECORDS = 12
"""Cited records that a reply lists with a digest."""
MAX_LINE_CHARS = 500
MAX_TASKS = 5
MAX_ITEMS = 10
MAX_RELATED = 5
MAX_RUNS = 5
SUCCESS_STATUSES = ("completed", "success")
IMPLICIT_DECISION_KINDS = frozenset({"task_finish", "review"})
"""Kinds that settle something without being recorded as a decision. A verification adds to the trust of another."""
_REPLY_KINDS = IMPLICIT_DECISION_KINDS | {"verification"}
_DECISION_TEXT_FIELDS = ("summary", "requested_action", "motivation", "method_summary")
_MAX_WORD_MATCHES = 150
"""Records with words of a query that are ranked."""
_MAX_QUERY_WORDS = 20
_MAX_CHAIN_LENGTH = 50
_MAX_NAMES = 5
_LIST_SECTIONS = {
    "blockers": "Blockers",
    "what_worked": "What worked",
    "what_failed": "What failed",
    "validation": "Validation",
    "followups": "Remaining work",
}
_MAX_FACT_RECORDS = 300
_MAX_RUNS_READ = 50
_STATUS_KINDS = ("task_progress", "task_finish", "revision")
_WORD = re.compile(r"[^\W_]+")
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

TrustLookup = Callable[[Iterable[str]], Mapping[str, Trust]]
"""Returns the trust of records by id."""
RevisedKinds = Mapping[str, str]
"""By the id of a revision: the kind of the first record in its chain of revisions."""


class DigestRole(StrEnum):
    BRIEF = "project_brief"
    RESUME = "task_resume"
    FAILURES = "failure_library"
    DECISIONS = "decision_library"
    EVIDENCE = "evidence_library"


DIGEST_TITLES: Mapping[DigestRole, str] = {
    DigestRole.BRIEF: "Project brief",
    DigestRole.RESUME: "Task status",
    DigestRole.FAILURES: "Failures",
    DigestRole.DECISIONS: "Decisions in force",
    DigestRole.EVIDENCE: "Evidence",
}


class DigestLine(Serializable, Struct, frozen=True, rename={"cites": "artifact_ids"}):
    """A sentence of a digest, and the ids of the records it is based on."""

    text: str
    cites: tuple[str, ...]
    section: str = ""
    tainted: bool = False
    """It contains tool output or imported text, as a quotation."""


class Digest(Struct, frozen=True, kw_only=True):
    """A page compiled from records."""

    id: str
    role: DigestRole
    scope: str
    """`task:ID`, `project:ID`, or `tenant` for all projects."""
    title: str
    lines: tuple[DigestLine, ...]
    records: tuple[str, ...]
    """Ids of all cited records, in the order of first citation."""
    tainted: bool
    hash: str
    """SHA-256 of role, scope, title and lines."""

    @property
    def trust(self) -> Trust:
        """The trust of a digest: a hint, whatever its records are."""
        return replace(DIGEST_TRUST, tainted=self.tainted)


class DigestItem(Struct, frozen=True):
    """An entry of a library: a record, its relevant text, and its trust."""

    record: Record
    text: str
    trust: Trust = CANDIDATE_TRUST
    """The record's trust, once `attach_trust` has set it."""
    explicit: bool | None = None
    """For a decision: whether it was recorded as one."""


class DigestScope(Struct, frozen=True):
    """The projects whose records a digest covers."""

    projects: tuple[str, ...] | None
    """The current project first; None for all projects of the tenant."""
    name: str
    """The project's display name."""

    @property
    def scope(self) -> str:
        return "tenant" if self.projects is None else f"project:{self.projects[0]}"


class ProjectBrief(Struct, frozen=True, kw_only=True):
    """A summary of a project's tasks and decisions for a newcomer."""

    digest: Digest
    overview: str
    active: tuple[tuple[Task, DigestLine], ...]
    completed: tuple[tuple[Task, DigestLine], ...]
    failures: tuple[DigestItem, ...]
    decisions: tuple[DigestItem, ...]
    evidence: tuple[DigestItem, ...]
    related: tuple[RelatedProject, ...]


class TaskResume(Struct, frozen=True, kw_only=True):
    """The state of a task, for someone who continues it. Texts are formatted by trust, and empty where there is none."""

    digest: Digest
    task: Task
    goal: str
    latest: str
    """The latest status summary."""
    next_step: str
    """Empty for a finished task."""
    lists: Mapping[str, tuple[str, ...]]
    """Blockers, what worked, …: unique entries, newest first."""
    open_runs: tuple[ToolRun, ...]
    recent_runs: tuple[ToolRun, ...]
    decisions: tuple[DigestItem, ...]


def make_digest(role: DigestRole, scope: str, name: str, lines: Iterable[DigestLine]) -> Digest:
    """Return a digest of the lines that cite at least one record; `name` is the task or project in its title."""
    title = f"{DIGEST_TITLES[role]}: {name}"
    kept = tuple(line for line in lines if line.cites and line.text)
    content = [str(role), scope, title, [[line.section, line.text, list(line.cites), line.tainted] for line in kept]]
    return Digest(
        id=f"digest-{role}-{hashlib.sha256(f'{role}:{scope}'.encode()).hexdigest()[:16]}",
        role=role,
        scope=scope,
        title=title,
        lines=kept,
        records=tuple(dict.fromkeys(cite for line in kept for cite in line.cites)),
        tainted=any(line.tainted for line in kept),
        hash=hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest(),
    )


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return a text on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def strip_control_chars(text: str) -> str:
    """Return valid text without characters that control a terminal or the direction of writing."""
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return _CONTROL_CHARS.sub("\ufffd", whole)


def format_author(record: Record) -> str:
    return f"{one_line(record.agent, 60) or 'nobody'}, {record.at[:10]}"


def format_record_text(text: str, record: Record, trust: Trust) -> str:
    """Return a record's text on one line; as a quotation if it is tainted."""
    line = one_line(text)
    if not trust.tainted or not line:
        return line
    source = record.origin if record.origin in UNTRUSTED_ORIGINS else "text derived from a tool or an import"
    return f"quoted from {source}: {json.dumps(line, ensure_ascii=False)}"


def attach_trust(items: Sequence[DigestItem], trust_of: TrustLookup) -> list[DigestItem]:
    """Return items with their trust, and their texts formatted accordingly."""
    trusts = trust_of([item.record.id for item in items])
    return [
        replace(item, trust=trust, text=format_record_text(item.text, item.record, trust))
        for item in items
        if (trust := trusts.get(item.record.id)) is not None
    ]


def content_words(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text.casefold()) if word not in lexicon("function_words"))


def rank_items(items: Sequence[DigestItem], query: str, limit: int) -> list[DigestItem]:
    """Return the first items; with a query, those that share the most words with it."""
    words = content_words(query)
    if not words:
        return list(items[:limit])

    def shared(item: DigestItem) -> int:
        fields = map(item.record.text, ("summary", "goal", "motivation", "evidence_kind", "tool_name"))
        return len(words & content_words(" ".join((item.text, *fields))))

    return sorted(items, key=shared, reverse=True)[:limit]


def library_items(role: DigestRole, records: Iterable[Record], revised: RevisedKinds) -> list[DigestItem]:
    """Return the items of a library from records in force, the newest first; recorded decisions before implied ones.

    Digests and redactions are ignored, and so are repeated records.
    """
    unique = {record.id: record for record in sorted(records, key=attrgetter("seq"), reverse=True)}
    kept = [record for record in unique.values() if record.kind not in UNPAGED_KINDS]
    items = list[DigestItem]()
    for record in kept:
        kind = revised.get(record.id, record.kind)
        explicit = kind == "decision" if role is DigestRole.DECISIONS else None
        if text := _LIBRARIES[role].text(record, kind):
            items.append(DigestItem(record, text, explicit=explicit))
    return sorted(items, key=lambda item: item.explicit is False)


def _join_lists(record: Record, *names: str) -> str:
    texts = (text.strip() for name in names for text in record.texts(name))
    return "; ".join(filter(None, texts))


def _decision_text(record: Record, kind: str) -> str:
    """Return what a record decides or settles. Objections settle nothing."""
    if kind == "decision":
        names: tuple[str, ...] = _DECISION_TEXT_FIELDS
    elif kind in IMPLICIT_DECISION_KINDS and record.supports_claim is not False:
        names = ("summary",)
    else:
        return ""
    texts = (record.text(name).strip() for name in names)
    return next(filter(None, texts), "") or _join_lists(record, "what_worked", "validation")


def _evidence_text(record: Record, kind: str) -> str:
    if kind != "evidence":
        return _join_lists(record, "validation")
    text = ": ".join(filter(None, (record.text("evidence_kind").strip(), record.text("summary").strip())))
    name, value = record.text("metric_name"), record.fields.get("metric_value")
    return f"{text} ({name.strip()} = {value})" if name and isinstance(value, int | float) else text


class _LibraryRules(Struct, frozen=True):
    sources: tuple[RecordContentFilter, ...]
    """The records from which the library is made."""
    label: Callable[[DigestItem], str]
    """The first words of an item's line."""
    text: Callable[[Record, str], str] = lambda _record, _kind: ""
    """An item's text from a record and the kind it stands for; empty if it does not belong in the library."""


_LIBRARIES: Mapping[DigestRole, _LibraryRules] = {
    DigestRole.FAILURES: _LibraryRules(
        (RecordContentFilter(("what_failed", "blockers")),),
        lambda _: "Failed or blocked",
        lambda record, _: _join_lists(record, "what_failed", "blockers"),
    ),
    DigestRole.DECISIONS: _LibraryRules(
        # Separate, so that many reviews do not crowd out the decisions.
        (
            RecordContentFilter(kinds=("decision", "revision")),
            RecordContentFilter(kinds=sorted(IMPLICIT_DECISION_KINDS)),
        ),
        lambda item: "Decided" if item.explicit else "Settled" if item.record.kind == "task_finish" else "Checked",
        _decision_text,
    ),
    DigestRole.EVIDENCE: _LibraryRules(
        (RecordContentFilter(("validation",), ("evidence", "revision")),),
        lambda item: {True: "Evidence for", False: "Evidence against", None: "Evidence"}[item.record.supports_claim],
        _evidence_text,
    ),
}


def revised_kinds(tables: RecordTables, records: Iterable[Record]) -> RevisedKinds:
    """Return the kind that each revision stands for: that of the first record in its chain of revisions."""
    current = {record.id: record for record in records if record.kind == "revision"}
    for _ in range(_MAX_CHAIN_LENGTH):
        ids = {record.supersedes or record.reply_to for record in current.values() if record.kind == "revision"} - {""}
        earlier = {record.id: record for record in tables.by_ids(ids)}
        moved = {
            start: earlier.get(record.supersedes or record.reply_to, record) if record.kind == "revision" else record
            for start, record in current.items()
        }
        if moved == current:
            break
        current = moved
    return {start: record.kind for start, record in current.items()}


def build_library(
    tables: RecordTables,
    trust_of: TrustLookup,
    scope: DigestScope,
    role: DigestRole,
    *,
    query: str = "",
    limit: int = MAX_ITEMS,
) -> tuple[Digest, tuple[DigestItem, ...]]:
    """Return the library of failures, decisions or evidence: its digest and its items.

    It is made of the newest records that it may use, and of those that share a word with the query.
    """
    in_force = RecordQuery(projects=scope.projects, limit=4 * limit + 20, in_force=True)
    words = sorted(content_words(query), key=lambda word: (-len(word), word))[:_MAX_QUERY_WORDS]
    records = list[Record]()
    for content in _LIBRARIES[role].sources:
        records += tables.find_by_content(content, in_force)
        if words:
            records += tables.find_by_content(replace(content, words=words), replace(in_force, limit=_MAX_WORD_MATCHES))
    if role is DigestRole.DECISIONS:
        records = _without_outdated_replies(tables, records)
    items = library_items(role, records, revised_kinds(tables, records))
    items = attach_trust(rank_items(items, query, limit), trust_of)
    lines = [_item_line(role, item) for item in items]
    return make_digest(role, scope.scope, one_line(scope.name, 200), lines), tuple(items)


def _without_outdated_replies(tables: RecordTables, records: Sequence[Record]) -> list[Record]:
    """Return records without reviews, verifications and task ends that reply to a superseded record."""
    newer = tables.superseded_by(
        record.reply_to for record in records if record.kind in _REPLY_KINDS and record.reply_to
    )
    return [record for record in records if record.kind not in _REPLY_KINDS or record.reply_to not in newer]


def _item_line(role: DigestRole, item: DigestItem) -> DigestLine:
    text = f"{_LIBRARIES[role].label(item)} ({format_author(item.record)}): {item.text}"
    return DigestLine(text, (item.record.id,), DIGEST_TITLES[role], item.trust.tainted)


def build_brief(
    tables: RecordTables,
    trust_of: TrustLookup,
    scope: DigestScope,
    *,
    query: str = "",
    limit: int = MAX_ITEMS,
    related: bool = True,
) -> ProjectBrief:
    """Return a project's brief: tasks, failures, decisions, evidence and related projects."""
    open_tasks, open_count = tables.find_tasks(scope.projects, open_=True, limit=MAX_TASKS)
    done_tasks, _ = tables.find_tasks(scope.projects, open_=False, statuses=SUCCESS_STATUSES, limit=MAX_TASKS)
    active = _task_lines(tables, trust_of, open_tasks, "Active tasks")
    completed = _task_lines(tables, trust_of, done_tasks, "Recently completed")
    roles = (DigestRole.FAILURES, DigestRole.DECISIONS, DigestRole.EVIDENCE)
    limit = min(limit, MAX_ITEMS)
    libraries = [build_library(tables, trust_of, scope, role, query=query, limit=limit) for role in roles]
    failures, decisions, evidence = (items for _, items in libraries)
    near = tables.related_projects(scope.projects, MAX_RELATED) if related and scope.projects else []
    trusts = trust_of([project.record for project in near])
    lines = [*(line for _, line in (*active, *completed)), *(line for digest, _ in libraries for line in digest.lines)]
    for project in near:
        names = ", ".join(json.dumps(one_line(name, 60), ensure_ascii=False) for name in project.names[:_MAX_NAMES])
        more = f" and {len(project.names) - _MAX_NAMES} more" if len(project.names) > _MAX_NAMES else ""
        text = f"{one_line(project.project, 200)} names the same subjects: {names}{more}"
        tainted = project.record in trusts and trusts[project.record].tainted
        lines.append(DigestLine(text, (project.record,), "Related projects", tainted))
    name = one_line(scope.name, 200)
    counts = (open_count, len(completed), *(len(items) for _, items in libraries))
    words = ("active task", "recent completed task", "recent failure", "decision", "evidence highlight")
    *parts, last = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in zip(counts, words, strict=True)]
    overview = f"Project {name} has {', '.join(parts)}, and {last}."
    cited = tuple(dict.fromkeys(identity for line in lines for identity in line.cites))
    first = DigestLine(overview, cited, "Overview", any(line.tainted for line in lines))
    return ProjectBrief(
        digest=make_digest(DigestRole.BRIEF, scope.scope, name, [first, *lines]),
        overview=overview,
        active=active,
        completed=completed,
        failures=failures,
        decisions=decisions,
        evidence=evidence,
        related=tuple(near),
    )


def _task_lines(
    tables: RecordTables, trust_of: TrustLookup, tasks: Sequence[Task], section: str
) -> tuple[tuple[Task, DigestLine], ...]:
    starts = current_versions(tables, [task.started_by or task.last for task in tasks])
    lasts = {task.id: latest_with_field(tables, task.id, "summary", _STATUS_KINDS) for task in tasks}
    trusts = trust_of([record.id for record in (*starts.values(), *lasts.values()) if record is not None])

    def field(record: Record | None, name: str) -> str:
        text = record.text(name) if record is not None else ""
        return format_record_text(text, record, trusts[record.id]) if record is not None and text else ""

    lines = list[tuple[Task, DigestLine]]()
    for task in tasks:
        start, last = starts.get(task.started_by or task.last), lasts[task.id]
        cited = [record.id for record in (start, last) if record is not None and record.id in trusts]
        if not cited:
            continue
        when = f"since {task.started_at[:10]}" if not task.finished_at else f"ended {task.finished_at[:10]}"
        agent = one_line(task.agent, 60) or "nobody"
        goal = field(start, "goal") or "a task without a goal"
        text = f"{goal} ({one_line(task.status, 40)}, {agent}, {when})"
        if summary := field(last, "summary"):
            text += f"; last: {summary}"
        if not task.finished_at and (step := field(last, "next_step")):
            text += f"; next: {step}"
        tainted = any(trusts[identity].tainted for identity in cited)
        lines.append((task, DigestLine(text, tuple(dict.fromkeys(cited)), section, tainted)))
    return tuple(lines)


def current_versions(tables: RecordTables, ids: Sequence[str]) -> dict[str, Record]:
    """Return records, or the records that superseded them last, by the given ids."""
    current = {identity: identity for identity in ids if identity}
    for _ in range(_MAX_CHAIN_LENGTH):
        newer = tables.superseded_by(current.values())
        if not newer:
            break
        current = {start: newer.get(identity, identity) for start, identity in current.items()}
    else:
        current = {start: identity for start, identity in current.items() if identity not in newer}
    records = {record.id: record for record in tables.by_ids(current.values())}
    return {start: records[identity] for start, identity in current.items() if identity in records}


def latest_with_field(tables: RecordTables, task: str, name: str, kinds: Sequence[str] = ()) -> Record | None:
    """Return the newest record in force of a task that has a field."""
    query = RecordQuery(kinds=kinds, task=task, in_force=True, limit=5)
    records = tables.find_by_content(RecordContentFilter((name,)), query)
    return next((record for record in records if record.text(name).strip()), None)


def build_resume(
    tables: RecordTables, trust_of: TrustLookup, task: Task, *, query: str = "", limit: int = 10
) -> TaskResume:
    kinds = ("decision", "revision", *sorted(IMPLICIT_DECISION_KINDS))
    settled = _without_outdated_replies(tables, tables.find(RecordQuery(kinds=kinds, task=task.id, in_force=True)))
    items = library_items(DigestRole.DECISIONS, settled, revised_kinds(tables, settled))
    items = rank_items(items, query, limit)
    start = current_versions(tables, [task.started_by]).get(task.started_by)
    last = latest_with_field(tables, task.id, "summary", _STATUS_KINDS) or latest_with_field(tables, task.id, "summary")
    step = None if task.finished_at else latest_with_field(tables, task.id, "next_step")
    facts = _task_facts(tables, task.id, query, limit)
    all_runs = tables.runs(task.id, _MAX_RUNS_READ)
    superseded = tables.superseded_by(_run_record_ids(all_runs))
    of_runs = {record.id: record for record in tables.by_ids(_run_record_ids(all_runs)) if record.id not in superseded}
    runs = [
        (run, of_runs[run.finish or run.id])  # with its newest record
        for run in all_runs
        if run.id not in superseded and (run.finish or run.id) in of_runs
    ]
    listed = (record for entries in facts.values() for _, record in entries)
    ids = {record.id for record in (start, last, step, *listed, *(item.record for item in items)) if record is not None}
    trusts = trust_of(sorted(ids.union(_run_record_ids([run for run, _ in runs]))))
    lines = list[DigestLine]()

    def add(record: Record, text: str, section: str, label: str) -> str:
        shown = format_record_text(text, record, trusts[record.id])
        lines.append(DigestLine(f"{label} {shown}", (record.id,), section, trusts[record.id].tainted))
        return shown

    def add_field(record: Record | None, name: str, section: str, label: str) -> str:
        text = record.text(name).strip() if record is not None else ""
        return add(record, text, section, f"{label}:") if record is not None and text else ""

    goal = add_field(start, "goal", "Goal", f"Task ({one_line(task.status, 40)})")
    latest = add_field(last, "summary", "Latest status", f"Last ({format_author(last)})" if last else "")
    next_step = add_field(step, "next_step", "Next step", f"Next ({format_author(step)})" if step else "")
    lists = {
        name: tuple(add(record, text, section, f"({format_author(record)})") for text, record in facts[name])
        for name, section in _LIST_SECTIONS.items()
    }
    shown = [_run_line(run, record, trusts) for run, record in runs]
    decisions = tuple(attach_trust(items, lambda _: trusts))
    lines += [line for _, line in shown[:MAX_RUNS]]
    lines += [_item_line(DigestRole.DECISIONS, item) for item in decisions]
    return TaskResume(
        digest=make_digest(DigestRole.RESUME, f"task:{task.id}", goal or one_line(task.id, 80), lines),
        task=task,
        goal=goal,
        latest=latest,
        next_step=next_step,
        lists=lists,
        open_runs=tuple(run for run, _ in shown if not run.finish)[:MAX_RUNS],
        recent_runs=tuple(run for run, _ in shown[:MAX_RUNS]),
        decisions=decisions,
    )


def _task_facts(tables: RecordTables, task: str, query: str, limit: int) -> dict[str, list[tuple[str, Record]]]:
    """Return the list entries of a task's records without duplicates: the newest, or the best matches of a query."""
    records = tables.find_by_content(
        RecordContentFilter(tuple(_LIST_SECTIONS)), RecordQuery(task=task, in_force=True, limit=_MAX_FACT_RECORDS)
    )
    words = content_words(query)
    facts: dict[str, list[tuple[str, Record]]] = {}
    for name in _LIST_SECTIONS:
        unique: dict[str, tuple[str, Record]] = {}
        for record in records:
            for text in filter(None, map(str.strip, record.texts(name))):
                unique.setdefault(" ".join(text.casefold().split()), (text, record))
        facts[name] = sorted(unique.values(), key=lambda fact: -len(words & content_words(fact[0])))[:limit]
    return facts


def _run_record_ids(runs: Sequence[ToolRun]) -> Iterable[str]:
    return (identity for run in runs for identity in (run.id, run.finish) if identity)


def _run_line(run: ToolRun, record: Record, trusts: Mapping[str, Trust]) -> tuple[ToolRun, DigestLine]:
    """Return a run with its summary formatted by trust, and its line."""
    cites = tuple(dict.fromkeys(_run_record_ids([run])))
    trust = next((trusts[cite] for cite in cites if trusts[cite].tainted), trusts[record.id])
    command = format_record_text(run.command or run.tool, record, trust) or "a tool"
    text = format_record_text(run.summary, record, trust)
    state = one_line(run.status, 40) if run.finish else "still open"
    line = f"Run ({format_author(record)}; {state}): {command}" + (f": {text}" if text else "")
    return replace(run, summary=text), DigestLine(line, cites, "Runs", trust.tainted)
