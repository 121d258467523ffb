"""From what somebody says to a record in the ledger.

Whatever is named must be there: a misspelt task must not found one, nor a reply hang on nothing. What comes from where (task,
project, thread) is settled here, secrets are taken out, and whoever has a key signs. Nothing is projected or embedded before
the answer; searching catches up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lorelog.core.errors import StoreError, UsageError
from lorelog.core.identity import new_id
from lorelog.core.record import CANDIDATE_TRUST, Draft, Json, Promotion, Record
from lorelog.records.kinds import KINDS, check, complete, is_reply
from lorelog.records.tables import Asked, RecordTables
from lorelog.records.trust import identity
from lorelog.services.records.archive import Archive
from lorelog.services.records.judged import Judged, judged
from lorelog.services.records.naming import find_record, find_task
from lorelog.services.records.redacting import redacted

_GOES_ON = frozenset({"task_start", "task_progress", "task_finish"})
_SAYS = {"decision": "what was decided", "revision": "what holds now"}


_NOT_LOOKED_UP = replace(CANDIDATE_TRUST, reason="what it is worth could not be looked up")


@dataclass(frozen=True, slots=True)
class Written:
    """A record that is on disk, what it is worth, and what its writer should know."""

    judged: Judged
    notes: tuple[str, ...] = ()

    @property
    def record(self) -> Record:
        """The record."""
        return self.judged.record


def write(archive: Archive, said: Draft, *, agent: str | None = None, to_global: bool = False) -> Written:
    """Write what was said. Ids in it may be cut to their first characters.

    `agent` is who says it: None for whoever speaks here, blank for nobody. With `to_global` a record that belongs to no task
    yet belongs to no project.
    """
    fields = {name: value for name, value in said.fields.items() if value is not None and value not in ("", [], {})}
    said = replace(said, fields=fields, status=said.status.strip())
    check(said.kind, fields)
    _check_said(said)
    said = replace(said, agent=_writer(archive, agent))
    tables = archive.book.tables()
    parent = find_record(tables, said.reply_to) if said.reply_to else None
    said = _placed(archive, _resolved(tables, said, parent), tables, parent, to_global=to_global)
    clean, taken = redacted(said, archive.patterns)
    draft = archive.keyring.sign(clean)
    notes = list(_notes(tables, draft, taken))
    archive.place.found()
    (record,) = archive.book.append([draft])
    try:
        (worth,) = judged(archive.book, [record])
    except StoreError as error:  # it is written all the same
        return Written(
            Judged(record, _NOT_LOOKED_UP), (*notes, f"it is written, but nothing else is known: {error.message}")
        )
    return Written(worth, (*notes, *_promoted(worth)))


def _check_said(said: Draft) -> None:
    """Raise UsageError for a decision or a revision that says nothing: it would stand in the place of what did."""
    texts = [one for value in said.fields.values() for one in (value if isinstance(value, list) else [value])]
    if said.kind in _SAYS and not any(one.strip() if isinstance(one, str) else True for one in texts):
        raise UsageError(f"a {said.kind} has to say something", hint=f"summary: {_SAYS[said.kind]}")


def _writer(archive: Archive, given: str | None) -> str:
    """Return in whose name a record is written. Raise UsageError for a name that is not the signing identity's."""
    signer = archive.keyring.name
    if not signer:
        return archive.agent if given is None else given
    if given is not None and identity(given) != identity(signer):
        raise UsageError(
            f"records are signed as {signer!r} here, and cannot be written in the name of {given!r}",
            hint="leave agent_id (--as) out, or sign with that one's key: the setting records.identity",
        )
    return signer


def _resolved(tables: RecordTables, said: Draft, parent: Record | None) -> Draft:
    """Return a draft with whole ids in place of what they were cut to."""
    fields: dict[str, Json] = dict(said.fields)
    if isinstance(named := fields.get("parent_task_id"), str):
        fields["parent_task_id"] = find_task(tables, named)
    if isinstance(related := fields.get("related_artifact_ids"), list):
        ids = [find_record(tables, str(one)).id for one in related]
        fields["related_artifact_ids"] = list(dict.fromkeys(ids))
    return replace(
        said,
        fields=fields,
        task=find_task(tables, said.task) if said.task else "",
        reply_to=parent.id if parent else "",
        supersedes=find_record(tables, said.supersedes).id if said.supersedes else "",
        id=new_id(),
        at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )


def _placed(archive: Archive, said: Draft, tables: RecordTables, parent: Record | None, *, to_global: bool) -> Draft:
    """Return a draft with the task, project and thread that it belongs to."""
    here = "" if to_global else archive.place.project.id
    draft = complete(said, parent)
    rules = KINDS[draft.kind]
    if rules.needs_task and not draft.task and not is_reply(draft):
        raise UsageError(
            f"a {draft.kind} needs a task", hint="give task_id, or reply_to_artifact_id with a record of the task"
        )
    task = tables.task(draft.task) if draft.task else None
    if task is not None:
        # A task begun anew stays where it is; what replies from elsewhere is filed where its task is.
        return replace(draft, project=task.project)
    inherited = parent is not None and not rules.founds
    return replace(draft, project=parent.project if inherited and parent else here)


def _notes(tables: RecordTables, draft: Draft, taken: Mapping[str, int]) -> Iterator[str]:
    if taken:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(taken.items()))
        yield f"secrets were taken out before it was written: {kinds}"
    if draft.thread not in {draft.task, draft.id} and not tables.find(Asked(thread=draft.thread, most=1)):
        yield f"it begins the thread {draft.thread!r}: no record was in it"
    task = tables.task(draft.task) if draft.task else None
    if task is not None and task.finished_at and draft.kind in _GOES_ON:
        again = "this is another end of it" if draft.kind == "task_finish" else "this opens it again"
        yield f"the task had been finished before; {again}"
    if draft.supersedes:
        earlier = tables.superseding(draft.supersedes)
        if earlier:
            yield f"{draft.supersedes} had been superseded before, by {earlier[-1].id}"


def _promoted(worth: Judged) -> Iterator[str]:
    trust = worth.trust
    if trust.promotion is Promotion.REFUSED:
        yield f"it verifies nothing: {trust.promotion_reason}"
