"""One review of a project: the open statements, the judge, and what becomes of each statement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.errors import DailyLimitReached, ModelError, ModelFault
from lorelog.core.ports import Progress, group_by
from lorelog.core.serializable import Serializable
from lorelog.light.delivery_files import DeliveryFiles
from lorelog.light.delivery_log import estimate_tokens
from lorelog.services.llm.receipts import OUTCOME_DONE, OUTCOME_STARTED, CallUsage, Receipts
from lorelog.services.places.workspace import Workspace
from lorelog.services.review.filing import (
    BATCH,
    FILED,
    PERSON,
    PURPOSE_REVIEW,
    SAME,
    UNDECIDED,
    WAITING,
    Filing,
    PastCalls,
    ReviewEntry,
    ReviewLog,
)
from lorelog.services.review.statements import Statement, StatementSource
from lorelog.services.standing.memories import replace_if_changed

if TYPE_CHECKING:
    from lorelog.services.guards.past_calls import ReplaySources
    from lorelog.services.guards.replay import PastCall
    from lorelog.services.memories.lifecycle import AddMemories
    from lorelog.services.review.judge import Judge, Verdict
    from lorelog.services.standing.rules import StandingRule
    from lorelog.services.traces.friction import Wall

TOKENS_PER_STATEMENT = 670
"""On 2,275 statements of three teams 320 with confirmations, 140 to 190 for what was said again; and the overhead of an agent's program."""
MAX_RULES = 60
"""Standing rules that a judge is told, newest first."""
_SHOWN = timedelta(days=30)
MAX_EARLIER = 4_000
"""Captured statements that new ones are compared with, newest first."""
_WAITS = "'lorelog review' asks whether it shall stand as a rule."
_PASSING = frozenset({"question", "pasted", "other"})
"""Labels of what nobody asks for."""


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
    left: int = 0
    """Statements that no judge was asked about yet."""
    left_tokens: int = 0
    """About what it needs for them."""
    stopped: str = ""
    """Why it ended before all statements that it was given."""


class JudgeRun(Serializable, Struct, frozen=True, kw_only=True):
    """What a judge did on one day."""

    at: str
    """When its last call ended."""
    judge: str
    calls: int
    failures: int
    statements: int
    """Statements that it decided about."""
    filed: int
    tokens: int


class JudgeState(Serializable, Struct, frozen=True, kw_only=True):
    """Who may judge, what waits for it, and what it did."""

    judge: str
    """The setting review.judge."""
    problem: str
    """Why the last call failed; empty if it did not."""
    open: int
    """Statements that nobody has decided about."""
    tokens: int
    """About what a judge needs for them."""
    runs: tuple[JudgeRun, ...]
    """Newest first."""


def tokens_per_statement(runs: Sequence[JudgeRun]) -> int:
    """Return what a judge used for each statement so far, or usually does."""
    statements = sum(run.statements for run in runs)
    return sum(run.tokens for run in runs) // statements if statements >= BATCH else TOKENS_PER_STATEMENT


class Reviewer:
    """Reviews the statements of one project."""

    def __init__(
        self,
        workspace: Workspace,
        source: StatementSource,
        calls: Callable[[], ReplaySources],
        writers: Callable[[], tuple[AddMemories, Callable[[str], None]]],
    ) -> None:
        """`writers` returns what adds memories, and what lists one at the start of sessions."""
        self.log = ReviewLog(workspace.tenant_folder)
        self._workspace, self._source, self._calls, self._writers = workspace, source, calls, writers

    def statements(
        self, projects: tuple[str, ...] | None, limit: int, only: Container[str] | None = None, *, unasked: bool = False
    ) -> list[Statement]:
        """Return the open statements, newest first: those with the ids of `only`, or those that no judge was asked about."""
        return self._source.open_statements(projects, limit, self._decided(unasked=unasked), only)

    def count_open(self, projects: tuple[str, ...] | None, *, unasked: bool = False) -> Counter[str]:
        return self._source.count_open(projects, self._decided(unasked=unasked))

    def _decided(self, *, unasked: bool) -> set[str]:
        entries = self.log.entries().values()
        return {entry.statement for entry in entries if unasked or entry.outcome != UNDECIDED}

    def rules(self, limit: int | None = MAX_RULES) -> list[StandingRule]:
        """Return the user's rules and decisions that stand, newest first."""
        from lorelog.services.standing.rules import read_standing_memories

        return [memory for memory in read_standing_memories(self._workspace) if memory.is_users][:limit]

    def run(
        self, judge: Judge, name: str, statements: Sequence[Statement], progress: Progress | None = None
    ) -> ReviewReport:
        """Let a judge file statements. Raise LorelogError if it fails at once; finished batches stay filed."""
        entries: list[ReviewEntry] = []
        repetitions: list[ReviewEntry] = []
        stopped = ""
        try:
            while left := statements[len(entries) :]:
                if progress is not None:
                    progress("judging", len(entries), len(statements))
                rules = self.rules()
                batch = judge.take(left, rules)
                verdicts = judge.judge(batch, rules)
                said_again = self._compare(judge, batch, verdicts, rules)  # if it is unavailable, the batch stays open
                filing = self.filing(name)
                entries += filing.file(batch, verdicts, rules)
                for verdict, members in said_again:
                    repetitions += filing.file_again(verdict, members, rules)
        except (DailyLimitReached, ModelError) as error:
            if not entries:
                raise
            stopped = error.message
        self.note_waiting()
        outcomes = Counter(entry.outcome for entry in entries)
        return ReviewReport(
            judge=name,
            judged=len(entries) - outcomes[UNDECIDED],
            filed=tuple(entry for entry in (*entries, *repetitions) if entry.outcome == FILED),
            waiting=tuple(entry for entry in (*entries, *repetitions) if entry.outcome == WAITING),
            repeated=outcomes[SAME] + sum(entry.outcome == SAME for entry in repetitions),
            stopped=stopped,
        )

    def _compare(
        self, judge: Judge, batch: Sequence[Statement], verdicts: Mapping[str, Verdict], rules: Sequence[StandingRule]
    ) -> list[tuple[Verdict, list[Statement]]]:
        """Return what statements for the work at hand say again, of earlier sessions or of each other."""
        from lorelog.services.review.judge import STEERING_LABELS, nearest_earlier

        new = [said for said in batch if said.id in verdicts and verdicts[said.id].label in STEERING_LABELS]
        entries = self.log.entries().values()
        settled = {entry.statement for entry in entries if entry.outcome in (FILED, SAME) or entry.label in _PASSING}
        settled -= {source.statement for entry in entries for source in entry.sources}
        new, earlier = nearest_earlier(new, [said for said in self._captured if said.id not in settled])
        with suppress(ModelFault):  # without a usable answer nothing was said again
            return [*judge.compare(new, earlier, rules)] if new and (earlier or rules) else []
        return []

    @cached_property
    def _captured(self) -> list[Statement]:
        return self._source.open_statements(None, MAX_EARLIER, in_full=False)

    def walls(self, projects: tuple[str, ...] | None) -> Iterator[Wall]:
        """Yield what the user said in several sessions, in whatever words: it was filed as one rule, or waits as one."""
        from lorelog.services.traces.friction import SAID, Wall

        rules = {rule.id: rule.text for rule in self.rules(None)}
        entries = [entry for entry in self.log.entries().values() if entry.outcome in (FILED, SAME, WAITING)]
        texts = rules | {entry.statement: entry.wording for entry in entries if entry.outcome == WAITING}
        same: defaultdict[str, set[str]] = defaultdict(set)
        for entry in entries:
            same[entry.memory or entry.statement].update(
                [source.statement for source in entry.sources] or [entry.statement]
            )
        wanted = set[str]().union(*same.values())
        found = self._source.open_statements(projects, len(wanted), only=wanted, in_full=False) if wanted else []
        for subject in texts.keys() & same.keys():
            said = [statement for statement in found if statement.id in same[subject]]
            yield Wall(
                kind=SAID,
                what=texts[subject],
                sessions=len({statement.session for statement in said}),
                calls=len(said),
                tokens=sum(estimate_tokens(statement.text) for statement in said),
                last_at=max((statement.date for statement in said), default=""),
                remedy=f"'lorelog rules {subject[:8]}' shows what agents did about it." if subject in rules else _WAITS,
            )

    def runs(self) -> tuple[JudgeRun, ...]:
        """Return what judges did in the last weeks, newest first: a line for each day (of UTC) and judge."""
        outcomes: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for entry in self.log.entries().values():
            outcomes[entry.at[:10], entry.judge][entry.outcome] += 1
        days = group_by(self._calls_of_judges(), lambda usage: (usage.at[:10], usage.call.model))
        return tuple(
            JudgeRun(
                at=max(usage.at for usage in usages),
                judge=key[1],
                calls=len(usages),
                failures=sum(usage.status not in (OUTCOME_DONE, OUTCOME_STARTED) for usage in usages),
                statements=outcomes[key].total() - outcomes[key][UNDECIDED],
                filed=outcomes[key][FILED],
                tokens=sum(usage.tokens_in + usage.tokens_out for usage in usages),
            )
            for key, usages in sorted(days.items(), reverse=True)
        )

    def state(self, judge: str, projects: tuple[str, ...] | None) -> JudgeState:
        """Return what waits for a judge, and what it did."""
        runs, waiting = self.runs(), self.count_open(projects).total()
        failed = self._last_failure()
        return JudgeState(
            judge=judge,
            problem=f"{failed.call.model} did not answer ({failed.status})" if failed else "",
            open=waiting,
            tokens=waiting * tokens_per_statement(runs),
            runs=runs,
        )

    def has_failed_within(self, seconds: float) -> bool:
        """Return whether the last call of a judge failed, and not long ago."""
        failed = self._last_failure()
        return failed is not None and failed.at > (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()

    def _last_failure(self) -> CallUsage | None:
        last = max(self._calls_of_judges(), key=lambda usage: usage.at, default=None)
        return last if last is not None and last.status not in (OUTCOME_DONE, OUTCOME_STARTED) else None

    def _calls_of_judges(self) -> list[CallUsage]:
        since = (datetime.now().astimezone().date() - _SHOWN).isoformat()
        calls = Receipts.of_tenant(self._workspace.tenant_folder).usage_since(since)[0]
        return [usage for usage in calls if usage.call.purpose == PURPOSE_REVIEW]

    def filing(self, judge: str) -> Filing:
        """Return what files the verdicts of a model, or of a person; `note_waiting` is called after the last ones."""
        filed = self.log.by_memory()
        add, list_at_start = self._writers()
        return Filing(
            judge=judge,
            log=self.log,
            add=add,
            replay=self._replay,
            is_persons=lambda memory: memory not in filed or filed[memory].judge == PERSON,
            list_at_start=list_at_start,
        )

    def note_waiting(self) -> None:
        """Write how many statements wait, for the start of the next session."""
        project = self._workspace.project.id
        count = self.count_open((project,)).total()
        files = DeliveryFiles(str(self._workspace.tenant_folder), project)
        replace_if_changed(Path(files.waiting), str(count).encode())

    @cached_property
    def _past_calls(self) -> list[PastCall]:
        return self._calls().calls()[0]

    def _replay(self, entry: ReviewEntry) -> PastCalls:
        """Compare a rule with the past calls that its cues name, or else with those like the call at whose rejection it was said."""
        hits: dict[int, bool] = {}
        sessions: set[str] = set()
        from msgspec.structs import asdict

        from lorelog.light.cue_table import call_events
        from lorelog.light.shell_command import with_verb
        from lorelog.services.cues.cue import Cue, CueKind, read_cues
        from lorelog.services.guards.guard_log import GuardConditions, GuardDraft, guard_from_draft
        from lorelog.services.guards.replay import quote_words, replay
        from lorelog.services.standing.rules import command_candidate, path_candidate
        from lorelog.services.traces.remedies import command_shape

        kinds = (CueKind.COMMAND, CueKind.PATH, CueKind.EVENT)
        cues = [cue for cue in read_cues(entry.cues) if cue.kind in kinds]
        rejected = (call for call in self._past_calls if call.rejected and call.command and not cues)
        words = entry.quotes
        said = {command_shape(call.command) for call in rejected if quote_words(call.statement) in words}
        shapes = (" ".join([*with_verb(shape.split()), "*"]) for shape in said - {""})
        for cue in cues or [Cue(CueKind.COMMAND, shape) for shape in shapes]:
            calls, conditions = self._past_calls, GuardConditions(tool="run")
            if cue.kind is CueKind.EVENT:
                calls = [call for call in calls if cue.value in call_events(call.as_fields())]
            else:
                find = command_candidate if cue.kind is CueKind.COMMAND else path_candidate
                conditions = find(cue.value)[0]
            guard = guard_from_draft(GuardDraft(**asdict(conditions), message=entry.wording), PERSON)
            for hit in replay(guard, calls, words).hits:
                hits[id(hit.call)] = hits.get(id(hit.call), False) or hit.corrected
                sessions.add(hit.call.session)
        return PastCalls(len(hits), sum(hits.values()), frozenset(sessions - {""}))
