"""Map, then reduce: each batch is summed up by itself, and the summaries are put together until they fit into one.

Every answer is checked before it is used, and what is put together is checked again, against the sources and not against the
lines it was made of: what got by once must not become a source. Where too little of an answer is left, the batch's own sentences take
its place, and of lines that were put together badly the lines themselves are kept. A model that cannot be asked ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from lorelog.core.compact import CompactBatch, DroppedLine
from lorelog.core.errors import UsageError
from lorelog.core.ports import Completion, Progress
from lorelog.retrieval.cost import estimate_tokens
from lorelog.services.compact.batching import Near, make_batches
from lorelog.services.compact.checking import Checked, Checker, Line, plain
from lorelog.services.compact.quoting import PROMPT, Frame, shortened
from lorelog.services.compact.sources import Source
from lorelog.services.gate import Gate
from lorelog.services.telling import telling

PURPOSE = "compact"
MOST_OF_A_BATCH = 12_000
"""Tokens of sources that are summed up at once, however much more a model reads: it overlooks what is in the middle of more."""
MOST_WITHOUT_MODEL = 4_000
MOST_TAKEN_OUT = 120
"""Lines of a summary that no model words."""
MOST_WORDED = 300
"""Lines of a summary that a model words, should it put nothing together."""
_SAFETY = 1.25
"""As the gate counts what is sent."""
_LEAST_ROOM = 300
_LINE_TOKENS, _MORE_TOKENS = 90, 100
_LEAST_LINES, _MOST_LINES, _MOST_MERGED = 3, 24, 60
_SHRINKS = 0.9
"""Lines that are not fewer than this after they were put together will not be next time either."""
_ROUNDS = 8
_CHARACTERS_A_TOKEN = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be asked: the sources in their batches, each quoted within one question."""

    batches: tuple[tuple[Source, ...], ...]
    frame: Frame
    prompt: str = PROMPT
    gate: Gate | None = None
    """Who is asked; None takes sentences out."""
    most_lines: int = _MOST_LINES
    """Of one answer: a model that reads little at once has little room to answer in."""

    def reports(self) -> tuple[CompactBatch, ...]:
        """Return the batches, with what each costs at most."""
        return tuple(self._report(batch) for batch in self.batches)

    def most_tokens(self) -> int:
        """Return what all of it costs at most, where no round of putting together needs another."""
        if self.gate is None:
            return 0
        summing = sum(one.tokens for one in self.reports())
        if len(self.batches) == 1:
            return summing
        lines = _LINE_TOKENS * sum(lines_for(len(batch), self.most_lines) for batch in self.batches)
        system = self.frame.merging(_MOST_MERGED, "0" * 16)
        calls = ceil(lines / max(1, _room_to_merge(self.gate, system)))
        return summing + calls * self.gate.most_cost(system, "", 2 * _MORE_TOKENS) + ceil((1 + _SAFETY) * lines)

    def question(self, batch: Sequence[Source]) -> tuple[str, str, int]:
        """Return what is asked about a batch: how to write, what about, and how much at most."""
        lines = lines_for(len(batch), self.most_lines)
        system = self.frame.summing(self.prompt, lines, batch[0].id)
        return system, "\n".join(map(self.frame.quote, batch)), _out(lines)

    def _report(self, batch: Sequence[Source]) -> CompactBatch:
        cost = 0 if self.gate is None else self.gate.most_cost(*self.question(batch))
        days = sorted(one.day for one in batch)
        return CompactBatch(len(batch), days[0], days[-1], cost, extracted=self.gate is None)


@dataclass(frozen=True, slots=True)
class Worded:
    """A summary, and what came of each batch."""

    lines: tuple[Line, ...]
    batches: tuple[CompactBatch, ...]
    dropped: tuple[DroppedLine, ...] = ()
    calls: int = 0
    tokens: int = 0
    notes: tuple[str, ...] = ()


def make_plan(sources: Sequence[Source], near: Near, gate: Gate | None, prompt: str = "") -> Plan:
    """Return the sources in batches. Raise UsageError where a model reads too little at once to be asked about any."""
    frame = Frame.around([one.text for one in sources])
    prompt = prompt or PROMPT
    most, most_lines = MOST_WITHOUT_MODEL, _MOST_LINES
    if gate is not None:
        most_lines = _lines_within(gate)
        system = frame.summing(prompt, most_lines, "0" * 16)
        most = min(MOST_OF_A_BATCH, room_for(gate, system, _out(most_lines)))
        if most < _LEAST_ROOM:
            raise UsageError(
                f"{gate.model} reads {gate.window_tokens:,} tokens at once, which leaves no room for sources",
                hint="a shorter prompt, or another llm.window_tokens",
            )
    fitting = [_fitted(one, most, frame) for one in sources]
    costs = {one.id: estimate_tokens(frame.quote(one)) + 1 for one in fitting}
    batches = make_batches(fitting, lambda one: costs[one.id], most, near)
    return Plan(tuple(batches), frame, prompt, gate, most_lines)


def lines_for(count: int, most: int = _MOST_LINES) -> int:
    """Return how many lines so many sources are worth."""
    return max(_LEAST_LINES, min(most, ceil(count / 2)))


def _lines_within(gate: Gate) -> int:
    """Return how many lines an answer may have: it takes a quarter of the window at most, the rest is for what it is about."""
    if gate.window_tokens <= 0:
        return _MOST_LINES
    return max(_LEAST_LINES, min(_MOST_LINES, gate.window_tokens // 4 // _LINE_TOKENS))


def room_for(gate: Gate, system: str, answer: int) -> int:
    """Return how many tokens a question may be long beside what is said to every one, and its answer."""
    if gate.window_tokens <= 0:
        return MOST_OF_A_BATCH
    rest = gate.window_tokens - gate.most_cost("", "", answer)
    return int(rest / _SAFETY) - estimate_tokens(system) - 2


def _room_to_merge(gate: Gate, system: str) -> int:
    """Return how many tokens of lines are put together at once: what comes of them may be as long as they are."""
    if gate.window_tokens <= 0:
        return MOST_OF_A_BATCH
    rest = gate.window_tokens - gate.most_cost(system, "", 2 * _MORE_TOKENS)
    return min(MOST_OF_A_BATCH, int(rest / (1 + _SAFETY)))


def _out(lines: int) -> int:
    return _LINE_TOKENS * lines + _MORE_TOKENS


def _fitted(source: Source, most: int, frame: Frame) -> Source:
    """Return a source that fits into a batch by itself: cut, if there is no other way."""
    length = len(source.text)
    while estimate_tokens(frame.quote(source)) + 1 > most and length > 0:
        length = min(length * 3 // 4, _CHARACTERS_A_TOKEN * most)
        source = replace(source, text=shortened(source.text, length))
    return source


class Worder:
    """Words one plan."""

    def __init__(self, plan: Plan, clean: Callable[[str], str], progress: Progress | None = None) -> None:
        self._plan = plan
        self._clean = clean
        self._progress = progress
        self._dropped: list[DroppedLine] = []
        self._notes: list[str] = []
        self._calls = 0
        self._tokens = 0
        self._sources = {one.id: one for batch in plan.batches for one in batch}

    def word(self) -> Worded:
        """Return the summary. Raise Capped or ModelError when a model could not be asked to the end."""
        reports: list[CompactBatch] = []
        parts: list[tuple[Line, ...]] = []
        for number, (batch, report) in enumerate(zip(self._plan.batches, self._plan.reports(), strict=True), 1):
            self._tell(number - 1)
            lines, extracted = self._sum_up(batch, number)
            parts.append(lines)
            reports.append(replace(report, lines=len(lines), extracted=extracted))
        self._tell(len(parts))
        gate = self._plan.gate
        lines = tuple(one for part in parts for one in part)
        if gate is not None and len([part for part in parts if part]) > 1:
            lines = self._merge(gate, lines)
        lines = self._few(lines, MOST_TAKEN_OUT if gate is None else MOST_WORDED)
        return Worded(
            tuple(dict.fromkeys(lines)),
            tuple(reports),
            tuple(self._dropped),
            self._calls,
            self._tokens,
            tuple(self._notes),
        )

    # -- map ---------------------------------------------------------------------------------------------------------

    def _sum_up(self, batch: Sequence[Source], number: int) -> tuple[tuple[Line, ...], bool]:
        gate = self._plan.gate
        if gate is None:
            return extract(batch, self._clean), True
        answer = self._ask(gate, *self._plan.question(batch))
        checked = Checker({one.id: one for one in batch}, self._clean).check(
            answer.text, lines_for(len(batch), self._plan.most_lines)
        )
        self._drop(checked, number)
        if not checked.is_little:
            return checked.lines, False
        kept, lost = len(checked.lines), len(checked.dropped)
        self._notes.append(
            f"batch {number}: only {kept} of {kept + lost} lines held, so sentences were taken out of it instead"
        )
        return extract(batch, self._clean), True

    # -- reduce ------------------------------------------------------------------------------------------------------

    def _merge(self, gate: Gate, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        """Put lines together, as many as fit at once, until they fit at once or do not get fewer."""
        room = _room_to_merge(gate, self._plan.frame.merging(_MOST_MERGED, "0" * 16))
        for _ in range(_ROUNDS):
            groups = _groups(lines, room)
            before = sum(_cost(one) for one in lines)
            lines = tuple(dict.fromkeys(one for group in groups for one in self._put_together(gate, group)))
            if len(groups) == 1 or sum(_cost(one) for one in lines) > _SHRINKS * before:
                break
        return lines

    def _put_together(self, gate: Gate, group: tuple[Line, ...]) -> tuple[Line, ...]:
        if len(group) < _LEAST_LINES:
            return group
        ids = dict.fromkeys(one for line in group for one in line.ids)
        wanted = min(_MOST_MERGED, max(_LEAST_LINES, ceil(len(group) * 0.7)))
        system = self._plan.frame.merging(wanted, next(iter(ids)))
        text = self._plan.frame.quote_lines([str(line) for line in group])
        answer = self._ask(gate, system, text, min(_out(wanted), sum(map(_cost, group)) + _MORE_TOKENS))
        checked = Checker({one: self._sources[one] for one in ids}, self._clean).check(answer.text, wanted)
        self._drop(checked, 0)
        if not checked.is_little:
            return checked.lines
        self._notes.append(f"{len(group)} lines stand as they are: too few held of what they were put together to")
        return group

    def _few(self, lines: tuple[Line, ...], most: int) -> tuple[Line, ...]:
        few = condense(lines, most)
        if self._plan.gate is not None and len(few) < len(lines):
            self._notes.append(
                f"{len(lines):,} lines were left that the model put together no further: the {len(few):,} that say most are kept"
            )
        return few

    # -- both --------------------------------------------------------------------------------------------------------

    def _ask(self, gate: Gate, system: str, text: str, most: int) -> Completion:
        self._calls += 1
        answer = gate.ask(PURPOSE, system, text, most)
        self._tokens += answer.tokens_in + answer.tokens_out
        return answer

    def _drop(self, checked: Checked, batch: int) -> None:
        self._dropped += [replace(one, batch=batch) for one in checked.dropped]

    def _tell(self, done: int) -> None:
        if self._progress is not None:
            self._progress("compact", done, len(self._plan.batches))


def extract(batch: Sequence[Source], clean: Callable[[str], str]) -> tuple[Line, ...]:
    """Return the sentences of a batch that say most, in the order of time; each cites its source."""
    # The headings above it are no sentence of it.
    found = telling([one.text.removeprefix(one.stored.chunk.context).lstrip() for one in batch])
    best = sorted(found, key=lambda one: (-one.weight, one.place))[: lines_for(len(batch))]
    lines = (Line(plain(one.text, clean), (batch[one.place].id,)) for one in sorted(best, key=lambda one: one.place))
    return tuple(one for one in lines if any(map(str.isalnum, one.text)))


def condense(lines: Sequence[Line], most: int = MOST_TAKEN_OUT) -> tuple[Line, ...]:
    """Return lines in their order, the telling half of each run of them, until there are few enough for one to read."""
    while len(lines) > most:
        runs = [lines[start : start + _MOST_LINES] for start in range(0, len(lines), _MOST_LINES)]
        lines = [line for run in runs for line in _better_half(run)]
    return tuple(lines)


def _better_half(run: Sequence[Line]) -> list[Line]:
    weights = {one.place: one.weight for one in telling([line.text for line in run])}
    best = sorted(range(len(run)), key=lambda place: (-weights.get(place, -1.0), place))[: (len(run) + 1) // 2]
    return [run[place] for place in sorted(best)]


def _groups(lines: Sequence[Line], room: int) -> list[tuple[Line, ...]]:
    """Return lines in their order, in groups that fit."""
    groups: list[list[Line]] = []
    left = 0
    for line in lines:
        cost = _cost(line)
        if not groups or cost > left:
            groups.append([])
            left = room
        groups[-1].append(line)
        left -= cost
    return [tuple(group) for group in groups]


def _cost(line: Line) -> int:
    return estimate_tokens(str(line)) + 1
