"""What the pages of a wiki look like: Markdown with badges, where every citation leads to the record itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lorelog.core.record import Record, Trust
from lorelog.records.digests import Digest, Line
from lorelog.records.digests_build import View
from lorelog.records.digests_resume import Resume
from lorelog.records.tables_asked import Task
from lorelog.services.records.wiki_words import (
    DIGEST_BADGE,
    anchor,
    authored,
    badge,
    escaped,
    fenced,
    heading_of,
    short,
    slug,
    value_lines,
)

TASKS, WRITTEN = "tasks", "pages"
LOOSE = f"{TASKS}/_no-task.md"
"""No task's page has such a name."""
_CONTRACT = (
    f"{DIGEST_BADGE} Compiled from records, and worth a hint: follow the citations before you rely on a sentence."
)
_OWN = ("content", "artifact_role")


@dataclass(frozen=True)
class Shelf:
    """All records, and what they are worth."""

    records: Mapping[str, Record]
    trust: Mapping[str, Trust] = field(default_factory=dict)

    @cached_property
    def replacements(self) -> Mapping[str, str]:
        """What was superseded, and by what last."""
        return {one.supersedes: one.id for one in self.records.values() if one.supersedes}

    def superseded(self, identity: str) -> str:
        """Return what has taken the place of a record; empty where nothing has."""
        return self.replacements.get(identity, "")


def page_of(record: Record) -> str:
    """Return the page that a record stands on."""
    if record.kind == "wiki_page":
        return f"{WRITTEN}/{slug(record.id)}.md"
    return f"{TASKS}/{slug(record.task)}.md" if record.task else LOOSE


def citation(identity: str, shelf: Shelf, at: str) -> str:
    """Return a link to a record from a page that lies in the folder `at`."""
    record = shelf.records.get(identity)
    if record is None:
        return f"{escaped(short(identity))} (not in the ledger)"
    up = "../" if at else ""
    return f"[{escaped(short(identity))}]({up}{page_of(record)}#{anchor(heading_of(record))})"


def digest_page(digest: Digest, shelf: Shelf, at: str) -> str:
    """Return a digest as a page."""
    parts = [f"# {escaped(digest.title)}", "", _CONTRACT, "", _home(at), *_digest_lines(digest.lines, shelf, at)]
    return "\n".join(parts) + "\n"


def task_page(told: Resume, records: Sequence[Record], shelf: Shelf) -> str:
    """Return a task: where it is, and every record of it, the oldest first."""
    task = told.task
    began = f"began {task.started_at[:10]}" if task.started_at else "never begun"
    facts = [escaped(task.status, 60), began, f"by {escaped(task.agent, 100) or 'somebody'}", f"{len(records)} records"]
    facts += [f"ended {task.finished_at[:10]}"] if task.finished_at else []
    facts += [f"project {escaped(task.project, 300)}"] if task.project else ["no project"]
    parts = [
        f"# {escaped(told.goal.text if told.goal else task.id, 300)}",
        "",
        _CONTRACT,
        "",
        _home(TASKS),
        "",
        f"Task {escaped(task.id)}: {', '.join(facts)}.",
        *_digest_lines(told.digest.lines, shelf, TASKS),
        "",
        "## Records",
    ]
    for one in records:
        parts += ["", *_record(one, shelf, TASKS)]
    return "\n".join(parts) + "\n"


def loose_page(records: Sequence[Record], shelf: Shelf) -> str:
    """Return records that belong to no task."""
    parts = ["# Records of no task", "", _CONTRACT, "", _home(TASKS)]
    for one in records:
        parts += ["", *_record(one, shelf, TASKS)]
    return "\n".join(parts) + "\n"


def written_page(record: Record, shelf: Shelf) -> str:
    """Return a page that somebody wrote: what they wrote stands as a quotation, and as data where it is tainted."""
    content = record.text("content")
    trust = shelf.trust.get(record.id)
    body = fenced(content) if trust is None or trust.tainted else authored(content)
    parts = [
        f"# {title_of(record)}",
        "",
        _home(WRITTEN),
        "",
        *_record(record, shelf, WRITTEN),
        "",
        "## What it says",
        "",
        *body,
    ]
    return "\n".join(parts) + "\n"


def index_page(
    view: View,
    overview: str,
    tasks: Mapping[str, Task],
    shelf: Shelf,
    written: Sequence[Record],
    libraries: Sequence[str],
) -> str:
    """Return where everything is. What a tool or an import has named bears a mark beside its name."""
    parts = [f"# {escaped(view.name)}", "", _CONTRACT, "", escaped(overview), "", "- [Project brief](brief.md)"]
    parts += [f"- [{_library_title(name)}]({name})" for name in libraries]
    if written:
        parts += ["", "## Pages", ""]
        newest = sorted(written, key=lambda one: -one.seq)
        parts += [f"- [{title_of(one)}]({page_of(one)}){_mark(one.id, shelf)}" for one in newest]
    by_project: dict[str, list[tuple[str, Task]]] = {}
    for name, task in sorted(tasks.items(), key=lambda pair: pair[1].updated_at, reverse=True):
        by_project.setdefault(task.project, []).append((name, task))
    for project in sorted(by_project):
        of_project = f"Tasks of {escaped(project, 300)}" if project else "Tasks of no project"
        parts += ["", f"## {of_project if len(by_project) > 1 else 'Tasks'}", ""]
        for name, task in by_project[project]:
            state = f"{escaped(task.status, 60)}, {task.updated_at[:10]}"
            mark = _mark(task.started_by or task.last, shelf)
            parts.append(f"- [{escaped(task.goal or task.id, 200)}]({name}){mark} ({state})")
    return "\n".join(parts) + "\n"


def _mark(identity: str, shelf: Shelf) -> str:
    record, trust = shelf.records.get(identity), shelf.trust.get(identity)
    return f" {badge(record, shelf.trust)}" if record is not None and trust is not None and trust.tainted else ""


def title_of(record: Record) -> str:
    """Return what a written page is called: its first heading, else its summary."""
    first = next((line for line in record.text("content").split("\n") if line.startswith("# ")), "")
    return escaped(first[2:] or record.text("summary") or record.id, 120)


def _library_title(name: str) -> str:
    return name.removesuffix(".md").capitalize()


def _home(at: str) -> str:
    return f"[Index]({'../' if at else ''}index.md)"


def _digest_lines(lines: Iterable[Line], shelf: Shelf, at: str) -> list[str]:
    parts, section = list[str](), ""
    for line in lines:
        if line.section != section:
            section = line.section
            parts += ["", f"## {escaped(section)}", ""]
        parts.append(f"- {escaped(line.text)} {_cited(line.cites, shelf, at)}")
    return parts


def _cited(ids: Sequence[str], shelf: Shelf, at: str) -> str:
    cites = []
    for one in ids:
        record = shelf.records.get(one)
        worth = f"{badge(record, shelf.trust)} " if record is not None else ""
        cites.append(f"{worth}{citation(one, shelf, at)}")
    return f"({'; '.join(cites)})"


def _record(record: Record, shelf: Shelf, at: str) -> list[str]:
    """Return a record with all that it says."""
    trust = shelf.trust.get(record.id)
    who = escaped(record.agent, 100) or "somebody"
    at_ = escaped(record.at[:16].replace("T", " "))
    facts = [f"{badge(record, shelf.trust)} {who}", f"{at_} UTC", escaped(record.status, 60), f"origin {record.origin}"]
    parts = [f"### {heading_of(record)}", "", ", ".join(facts), ""]
    if slug(record.id) != record.id:
        parts.append(f"- id: {escaped(record.id)}")
    if record.reply_to:
        how = escaped(record.relation or "replies to", 60)
        stance = {True: ", and supports it", False: ", and does not support it", None: ""}[record.supports_claim]
        parts.append(f"- {how}: {citation(record.reply_to, shelf, at)}{stance}")
    if record.supersedes and record.supersedes != record.reply_to:
        parts.append(f"- supersedes: {citation(record.supersedes, shelf, at)}")
    if newer := shelf.superseded(record.id):
        parts.append(f"- superseded by: {citation(newer, shelf, at)}")
    if trust is not None:
        parts += [f"- verified by: {citation(one, shelf, at)}" for one in trust.verified_by]
        if trust.promotion == "refused":
            parts.append(f"- verifies nothing: {escaped(trust.promotion_reason)}")
    if related := record.texts("related_artifact_ids"):
        parts.append(f"- rests on: {'; '.join(citation(one, shelf, at) for one in related)}")
    for name, value in record.fields.items():
        if name in _OWN or name == "related_artifact_ids" or value in ("", [], {}, None):
            continue
        parts += value_lines(escaped(name, 60), value, data=trust is None or trust.tainted)
    return parts
