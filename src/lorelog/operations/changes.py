"""The operation on changes of code: `code.check`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

from msgspec.structs import replace

from lorelog.code.git import Git
from lorelog.core.errors import StoreError, UsageError
from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.light.delivery_files import STANDING_TYPES
from lorelog.light.guard_check import ON
from lorelog.operations.code import tree_root
from lorelog.operations.operation import OperationFamily, RequestContext, ShellCommand
from lorelog.operations.requests import FilePath, ScopedRequest, about, resolve_path
from lorelog.services.changes.check import ChangeReport, ChangeSources, check_change
from lorelog.services.changes.diff import read_change, read_patch
from lorelog.services.guards.guard_log import Guard, GuardLog
from lorelog.services.standing.memories import CUELESS_TYPES, is_captured, plain_text, read_words
from lorelog.services.standing.ownership import memory_body
from lorelog.services.standing.rules import StandingRule, read_instructions
from lorelog.services.traces.tables import TraceFilter

OPERATIONS = OperationFamily()
_MAX_FACTS = 2_000


class ChangeRequest(ScopedRequest, frozen=True):
    """A change; what is staged if neither commits nor a patch are named."""

    patch: Annotated[
        FilePath | None, about("A file with a unified diff, which is compared with the checked-out commit.")
    ] = None
    text: Annotated[
        str, about("A unified diff itself, which is compared with the checked-out commit.", max_length=4_000_000)
    ] = ""
    diff: Annotated[str, about("Two commits: A..B, or A...B from where they parted.", max_length=1000)] = ""
    staged: Annotated[bool, about("What is staged for the next commit (the default).")] = False


@OPERATIONS.declare(
    "code.check", ShellCommand("check", ("patch",), hidden=("text",), metavars={"patch": "FILE.patch", "diff": "A..B"})
)
def check_diff(engine: Engine, request: ChangeRequest, call: RequestContext) -> ChangeReport:
    """Say what a change runs against: guards, rules, memories that it makes false, failures at the same place, and earlier reverts.

    A finding needs a name that both share: a command, a file, a definition. Likeness of texts is none. What came with a
    repository is quoted, and only a guard that a person set to block makes `blocks` true.
    """
    if sum(map(bool, (request.patch, request.text, request.diff, request.staged))) > 1:
        raise UsageError("give commits, a patch, or --staged: one of them", hint="lorelog check --diff main..HEAD")
    if request.patch is not None and not call.names_files:
        raise UsageError("only the shell and Python can name a file to read", hint="name commits with diff")
    patch = request.text or None
    if request.patch:
        patch = read_patch(resolve_path(request.patch, call.directory))
    git = Git(tree_root(engine, call))
    change = read_change(git, request.diff, patch)
    made = git.run_text("log", "-1", "--format=%cI", change.head) if change.head else ""
    moment = datetime.fromisoformat(made) if made else datetime.now(UTC)
    guards, notes = _read_guards(engine)
    scope = TraceFilter(
        projects=engine.log_projects(all_projects=request.all_projects), until=int(moment.timestamp() * 1000), limit=200
    )
    sources = ChangeSources(
        root=git.root,
        guards=guards,
        memories=[*engine.standing_rules(), *_read_facts(engine), *read_instructions(git.root)],
        errors=lambda name: engine.traces().tables().errors(replace(scope, file=name))[0],
    )
    report = check_change(change, sources, git, moment.astimezone().isoformat())
    return replace(report, notes=(*report.notes, *notes), unindexed=_has_new_journal(engine))


def _read_guards(engine: Engine) -> tuple[list[Guard], list[str]]:
    """Return the guards that are on; none, and why, if their log cannot be read: that must block nothing."""
    try:
        guards = GuardLog(engine.place.tenant_folder / "guards.jsonl").visible(engine.place.project.id)
        return [guard for guard in guards if guard.state == ON], []
    except StoreError as error:
        return [], [f"guards were not applied: {error.message}"]


def _read_facts(engine: Engine) -> Iterator[StandingRule]:
    """Yield the memories that were added, are no rules or decisions, and still hold."""
    state_of, ownership = engine.lifecycle_index().state_of, engine.ownership()
    for stored in engine.store.authored_chunks(Filters(projects=engine.visible_projects()), _MAX_FACTS):
        chunk, anchor, state = stored.chunk, stored.chunk.anchor, state_of(stored)
        is_fact = anchor is not None and not is_captured(anchor) and chunk.type not in (*CUELESS_TYPES, *STANDING_TYPES)
        if anchor and is_fact and not (stored.machine or state.superseded_by or state.expired):
            yield StandingRule(
                id=anchor.memory,
                text=plain_text(read_words(chunk)[0]),
                type=chunk.type or "memory",
                date=chunk.date,
                origin=anchor.origin,
                own=ownership.is_own(chunk, memory_body(stored)),
            )


def _has_new_journal(engine: Engine) -> bool:
    """Return whether the newest journal is not indexed, as in a fresh clone."""
    newest = max(engine.place.journals.glob("*.md"), default=None)
    return newest is not None and engine.store.document(os.path.realpath(newest)) is None
