"""One review of a project: the open statements, the judge, and what becomes of each statement."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import date
from functools import cached_property

from msgspec import Struct

from lorelog.core.serializable import Serializable
from lorelog.services.guards.replay import PastCall, ReplaySources
from lorelog.services.memories.lifecycle import AddMemories
from lorelog.services.places.workspace import Workspace
from lorelog.services.review.filing import (
    FILED,
    SAME,
    WAITING,
    Filing,
    PastCalls,
    ReviewEntry,
    ReviewLog,
)
from lorelog.services.review.judge import MAX_RULES, Judge, KnownRule, Verdict
from lorelog.services.review.statements import Statement, StatementSource
from lorelog.services.standing.rules import StandingRule, check_rules, read_standing_memories


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
        return [KnownRule(memory.id, memory.text) for memory in standing[:MAX_RULES]]

    def run(self, judge: Judge, name: str, statements: Sequence[Statement]) -> ReviewReport:
        """Let a judge file statements. Raise ModelError if it fails; the batches before stay filed."""
        entries: list[ReviewEntry] = []
        rules = self.rules()
        for verdicts in judge.judge(statements, rules):
            entries += self.file(statements, verdicts, rules, name)
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
            is_persons=lambda memory: memory not in filed,
        )
        return filing.file(statements, verdicts, rules)

    @cached_property
    def _past_calls(self) -> list[PastCall]:
        return self._calls.calls()[0]

    def _replay(self, cues: Sequence[str], wording: str) -> PastCalls:
        rule = StandingRule(id="", text=wording, cues=tuple(cues), forbids=True)
        ((balance, _),) = check_rules([rule], self._past_calls, date.today())
        return PastCalls(balance.broken, balance.corrected)
