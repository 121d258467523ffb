"""One review of a project: the open statements, the judge, and what becomes of each statement."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

from msgspec import Struct

from lorelog.core.serializable import Serializable
from lorelog.light.cue_table import call_events
from lorelog.light.delivery_files import DeliveryFiles
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
from lorelog.services.review.judge import LASTING_LABELS, MAX_RULES, Judge, KnownRule, Verdict, word_stems
from lorelog.services.review.statements import REJECTION, Statement, StatementSource
from lorelog.services.standing.memories import replace_if_changed
from lorelog.services.standing.rules import read_standing_memories
from lorelog.services.traces.remedies import command_shape

_REPLAYED_KINDS = frozenset({CueKind.COMMAND, CueKind.PATH, CueKind.EVENT})

STEERING_LABELS = frozenset({"remark", "instruction"})
"""What is for the work at hand, unless it is said again."""
NEIGHBOURS = 6
"""Earlier statements that a new one is compared with; chosen on real repetitions, see docs/decisions/sessions.md."""
MAX_EARLIER, _MAX_COMPARED_CHARS = 4_000, 400


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


def _is_short(statement: Statement) -> bool:
    """Return whether a statement may be a repetition; longer ones are tasks and pasted text."""
    return len(statement.text) <= _MAX_COMPARED_CHARS


class _WordIndex:
    """Texts by their words; rare words count more."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._words = {key: word_stems(text) for key, text in texts.items()}
        counts = Counter(chain.from_iterable(self._words.values()))
        self._weights = {word: math.log(1 + len(texts) / count) ** 2 for word, count in counts.items()}
        self._lengths = {key: math.sqrt(self._weigh(words)) or 1.0 for key, words in self._words.items()}

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two texts."""
        shared = self._weigh(self._words[first] & self._words[second])
        return shared / (self._lengths[first] * self._lengths[second])

    def _weigh(self, words: Iterable[str]) -> float:
        return sum(self._weights[word] for word in words)


def nearest_earlier(new: Sequence[Statement], earlier: Sequence[Statement]) -> list[Statement]:
    """Return the earlier statements of other sessions that are nearest to new ones by their words, a few for each.

    Words at a rejection are compared by the rejected call too: "rebase first" and "pull first" have only the push in common.
    """
    every = {said.id: said for said in (*earlier, *new)}
    texts = _WordIndex({key: said.text for key, said in every.items()})
    calls = _WordIndex({key: said.before if said.channel == REJECTION else "" for key, said in every.items()})
    found: set[str] = set()
    for said in new:
        scores = {
            key: texts.similarity(said.id, key) + calls.similarity(said.id, key)
            for key, other in every.items()
            if other.session != said.session and other.project == said.project and other.date <= said.date
        }
        found.update(key for key in heapq.nlargest(NEIGHBOURS, scores, key=scores.__getitem__) if scores[key])
    return [every[key] for key in found.difference(said.id for said in new)]


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
        judged = 0
        rules = self.rules()
        for verdicts in judge.judge(statements, rules):
            again = self._said_again(judge, [said for said in statements if said.id in verdicts], verdicts, rules)
            filed = self.file(statements, verdicts, rules, name)
            judged += len(filed)
            entries += filed
            for verdict, members in again:
                entries += self._filing(name).file_again(verdict, members, rules)
            rules[:] = self.rules()  # the next batch may repeat or replace what was just filed
        return ReviewReport(
            judge=name,
            judged=judged,
            filed=tuple(entry for entry in entries if entry.outcome == FILED),
            waiting=tuple(entry for entry in entries if entry.outcome == WAITING),
            repeated=sum(entry.outcome == SAME for entry in entries),
            left=len(statements) - judged,
        )

    def _said_again(
        self, judge: Judge, statements: Sequence[Statement], verdicts: Mapping[str, Verdict], rules: Sequence[KnownRule]
    ) -> list[tuple[Verdict, list[Statement]]]:
        """Return what these statements say again. It is asked before they are filed: if it fails, they stay open."""
        new = [said for said in statements if verdicts[said.id].label in STEERING_LABELS and _is_short(said)]
        entries = self.log.entries().values()
        settled = {entry.statement for entry in entries if entry.outcome in (FILED, SAME)}
        settled |= {entry.statement for entry in entries if entry.label not in STEERING_LABELS | LASTING_LABELS}
        settled -= {source.statement for entry in entries for source in entry.sources}
        earlier = nearest_earlier(new, [said for said in self._captured if said.id not in settled and _is_short(said)])
        return [*judge.compare(new, earlier, rules)] if earlier else []

    @cached_property
    def _captured(self) -> list[Statement]:
        return self._source.open_statements(None, MAX_EARLIER, in_full=False)

    def file(
        self,
        statements: Sequence[Statement],
        verdicts: Mapping[str, Verdict],
        rules: Sequence[KnownRule],
        judge: str,
    ) -> list[ReviewEntry]:
        """File statements by the verdicts of a person or a model."""
        entries = self._filing(judge).file(statements, verdicts, rules)
        self.note_waiting()
        return entries

    def _filing(self, judge: str) -> Filing:
        filed = self.log.by_memory()
        return Filing(
            judge=judge,
            log=self.log,
            add=self._add,
            replay=self._replay,
            is_persons=lambda memory: memory not in filed or filed[memory].judge == PERSON,
        )

    def note_waiting(self) -> None:
        """Write how many statements wait, for the start of the next session."""
        project = self._workspace.project.id
        count = self._source.count_open((project,), self.log.entries())
        files = DeliveryFiles(str(self._workspace.tenant_folder), project)
        replace_if_changed(Path(files.waiting), str(count).encode())

    @cached_property
    def _past_calls(self) -> list[PastCall]:
        return self._calls.calls()[0]

    def _replay(self, entry: ReviewEntry) -> PastCalls:
        """Compare a rule with the past calls that its cues name, or else with those like the call at whose rejection it was said."""
        hits: dict[int, bool] = {}
        cues = [cue for cue in read_cues(entry.cues) if cue.kind in _REPLAYED_KINDS]
        rejected = (call for call in self._past_calls if call.rejected and call.command and not cues)
        words = {entry.words, *(source.words for source in entry.sources)}
        said = {command_shape(call.command) for call in rejected if quote_words(call.statement) in words}
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
