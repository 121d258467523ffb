"""One review of a project: the open statements, the judge, and what becomes of each statement."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from lorelog.core.serializable import Serializable
from lorelog.light.cue_table import call_events
from lorelog.services.cues.cue import Cue, CueKind, read_cues
from lorelog.services.guards.guard_log import GuardDraft, guard_from_draft
from lorelog.services.guards.replay import PastCall, ReplaySources, replay
from lorelog.services.memories.lifecycle import AddMemories
from lorelog.services.places.workspace import Workspace
from lorelog.services.review.filing import (
    FILED,
    PERSON,
    SAME,
    WAITING,
    Filing,
    PastCalls,
    ReviewEntry,
    ReviewLog,
    quote_words,
)
from lorelog.services.review.judge import MAX_RULES, Judge, KnownRule, Verdict
from lorelog.services.review.statements import Statement, StatementSource
from lorelog.services.standing.rules import read_standing_memories
from lorelog.services.traces.remedies import command_shape

_REPLAYED_KINDS = frozenset({CueKind.COMMAND, CueKind.PATH, CueKind.EVENT})


class ReviewReport(Serializable, Struct, frozen=True, kw_only=True):
    """Result of a review."""

    judge: str
    judged: int
    filed: tuple[ReviewEntry, ...]
    """Statements that became a memory."""
    waiting: tuple[ReviewEntry, ...]
    """Proposals that need a person."""
    repeated: int
    """Statements that repeat a standing rule."""
    left: int
    """Statements that are still open."""


class Reviewer:
    """Reviews the statements of one project."""

    def __init__(
        self,
        workspace: Workspace,
        source: StatementSource,
        calls: ReplaySources,
        add: AddMemories,
    ) -> None:
        self.log = ReviewLog(workspace.tenant_folder)
        self._workspace, self._source, self._calls, self._add = workspace, source, calls, add

    def statements(
        self, projects: tuple[str, ...] | None, limit: int, only: Container[str] | None = None
    ) -> list[Statement]:
        """Return the open statements, newest first; with `only`, those with these ids."""
        return self._source.open_statements(projects, limit, self.log.entries(), only)

    def rules(self) -> list[KnownRule]:
        """Return the rules and decisions that stand, newest first."""
        standing = [memory for memory in read_standing_memories(self._workspace) if memory.own]
        return [KnownRule(memory.id, memory.text, memory.said_on) for memory in standing[:MAX_RULES]]

    def run(self, judge: Judge, name: str, statements: Sequence[Statement]) -> ReviewReport:
        """Let a judge file statements. Raise ModelError if it fails; the batches before stay filed."""
        entries: list[ReviewEntry] = []
        rules = self.rules()
        for verdicts in judge.judge(statements, rules):
            entries += self.file(statements, verdicts, rules, name)
            rules[:] = self.rules()  # the next batch may repeat or replace what was just filed
        return ReviewReport(
            judge=name,
            judged=len(entries),
            filed=tuple(entry for entry in entries if entry.outcome == FILED),
            waiting=tuple(entry for entry in entries if entry.outcome == WAITING),
            repeated=sum(entry.outcome == SAME for entry in entries),
            left=len(statements) - len(entries),
        )

    def file(
        self,
        statements: Sequence[Statement],
        verdicts: Mapping[str, Verdict],
        rules: Sequence[KnownRule],
        judge: str,
    ) -> list[ReviewEntry]:
        """File statements by the verdicts of a person or a model."""
        filed = self.log.by_memory()
        filing = Filing(
            judge=judge,
            log=self.log,
            add=self._add,
            replay=self._replay,
            is_persons=lambda memory: memory not in filed or filed[memory].judge == PERSON,
        )
        return filing.file(statements, verdicts, rules)

    @cached_property
    def _past_calls(self) -> list[PastCall]:
        return self._calls.calls()[0]

    def _replay(self, entry: ReviewEntry) -> PastCalls:
        """Compare a rule with the past calls that its cues name, or else with those like the call at whose rejection it was said."""
        hits: dict[int, bool] = {}
        cues = [cue for cue in read_cues(entry.cues) if cue.kind in _REPLAYED_KINDS]
        rejected = (call for call in self._past_calls if call.rejected and call.command and not cues)
        said = {command_shape(call.command) for call in rejected if quote_words(call.statement) == entry.words}
        for cue in cues or [Cue(CueKind.COMMAND, shape) for shape in said - {""}]:
            calls, draft = self._past_calls, GuardDraft(message=entry.wording, command=f"{cue.value}*")
            if cue.kind is CueKind.PATH:
                draft = GuardDraft(message=entry.wording, paths=(cue.value,))
            elif cue.kind is CueKind.EVENT:
                calls = [call for call in calls if cue.value in call_events(call.as_fields())]
                draft = GuardDraft(message=entry.wording, tool="run")
            guard = guard_from_draft(draft, PERSON)
            for hit in replay(guard, calls, entry.wording).hits:
                hits[id(hit.call)] = hits.get(id(hit.call), False) or hit.corrected
        return PastCalls(len(hits), sum(hits.values()))
