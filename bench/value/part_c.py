"""C: tasks graded by execution, with an agent that obeys what it is told.

The history is captured by `lorelog backfill`. The task's prompt and the naive solution's tool calls run through the real hooks. If every
part of the decision was delivered within the budget, the informed solution is applied, otherwise the naive one, and the hidden tests
decide. The result is an upper bound for a model that obeys. Where only a superseded rule was delivered, that is damage.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.result import Verdicts, format_table
from bench.value.graded import isolation, passes
from bench.value.intervals import mean, share
from bench.value.memory import Memory, Shown, fit, is_quoted, open_memory
from bench.value.tasks import Task, TaskSet, load_sets
from bench.value.transcripts import session_id, write_transcript

BUDGETS = (200, 600, 2_000)
_SPLITS = {200: (0, 200), 600: (400, 200), 2_000: (600, 1_400)}
"""Tokens for session start and prompt that make up a budget."""
_MAX_PROMPT_CHARS = 400
_HITS = {200: "2", 600: "2", 2_000: "8"}
"""Hits of the arm that takes any; the prompt's tokens are shared among them."""
_BARE, _END = "what if: our ranking, bare text", "what if: how the best hit's conversation ended, bare text"
_HINTED = "what if: a line with the prompt says that a memory is likely, and the agent asks"
_HINT_TOKENS = 30
ARMS = (
    "nothing",
    "file of all facts",
    "BM25",
    "memsearch",
    "lorelog, unasked",
    "lorelog, any hit",
    "lorelog, asked",
    _HINTED,
    _BARE,
    _END,
)
_OURS = ("lorelog, unasked", "lorelog, any hit", "lorelog, asked")


@dataclass(frozen=True)
class Outcome:
    """One task under one arm and budget."""

    task: str
    set: str
    arm: str
    budget: int
    tokens: int
    informed: bool
    solved: bool
    damage: bool
    stage: str = ""
    """What lost a miss of ours."""


def run_part(sources: Path, keep: Path, deadline: float) -> list[Outcome]:
    """Run all tasks of all sets."""
    outcomes: list[Outcome] = []
    for tasks in load_sets(sources):
        graded = _Graded(keep / "graded.json")
        usable = [task for task in tasks.tasks if graded.discriminates(task)]
        if len(usable) < len(tasks.tasks):
            print(
                f"left out of {tasks.name}: {len(tasks.tasks) - len(usable)} tasks whose tests do not tell the solutions apart"
            )
        _check_history(tasks)

        def write(folder: Path, directory: Path, tasks: TaskSet = tasks) -> None:
            for conversation in tasks.history:
                write_transcript(conversation, folder, directory)

        with open_memory(keep, tasks.name, tasks.now, write) as memory:
            trial = _Trial(memory, tasks, graded)
            for task in usable:
                if time.monotonic() > deadline:
                    break
                outcomes += trial.outcomes(task)
    (keep / "outcomes_c.json").write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1), "utf-8")
    return outcomes


def _check_history(tasks: TaskSet) -> None:
    said = {one.name: " ".join(text for _, text in one.messages) for one in tasks.history}
    for task in tasks.tasks:
        missing = task.missing(" ".join(said[name] for name in task.sessions))
        assert not missing, f"the history of {task.name} has not {missing}"


class _Graded:
    """Verdicts of hidden tests, kept by what was run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, bool] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def passes(self, task: Task, module: str) -> bool:
        """Return whether the hidden tests of a task pass with this text of its module."""
        files = {**task.files, task.module: module, **task.tests}
        digest = hashlib.sha256(json.dumps([sorted(files.items()), task.command]).encode()).hexdigest()
        if digest not in self._known:
            self._known[digest] = passes(files, task.command)
            self._file.write_text(json.dumps(self._known), "utf-8")
        return self._known[digest]

    def discriminates(self, task: Task) -> bool:
        """Return whether the informed solution passes and the naive one fails."""
        return self.passes(task, task.informed) and not self.passes(task, task.naive)


class _Trial:
    """A memory and the tasks that it should help with."""

    def __init__(self, memory: Memory, tasks: TaskSet, graded: _Graded) -> None:
        self._memory, self._tasks, self._graded = memory, tasks, graded
        self._notes: dict[str, str] = defaultdict(str)
        for entry in re.split(r"^(?=### )", memory.notes(), flags=re.MULTILINE):
            if found := re.search(r"session:([\w-]+)", entry):
                self._notes[found[1]] += re.sub(r"<!--.*?-->", "", entry, flags=re.DOTALL)

    def outcomes(self, task: Task) -> Iterator[Outcome]:
        """Yield the outcome of a task under every arm and budget."""
        for arm in ARMS:
            for budget in BUDGETS:
                shown = self._shown(task, arm, budget)
                is_informed = not task.missing(shown.text)
                solved = self._graded.passes(task, task.informed if is_informed else task.naive)
                stage = "" if solved or arm not in _OURS else self._stage(task, arm, shown.text)
                yield Outcome(
                    task.name, self._tasks.name, arm, budget, shown.tokens, is_informed, solved,
                    not is_informed and task.is_stale_in(shown.text), stage,
                )  # fmt: skip

    def _shown(self, task: Task, arm: str, budget: int) -> Shown:
        lanes = self._memory.lanes
        plain: dict[str, Callable[[], str]] = {
            "nothing": lambda: "",
            "file of all facts": lambda: fit(self._tasks.facts().splitlines(), budget),
            "BM25": lambda: fit(_bare(lanes.bm25(task.prompt)), budget),
            "memsearch": lambda: fit(_bare(lanes.memsearch(task.prompt)), budget),
            _BARE: lambda: fit(_bare(self._memory.ranked(task.prompt)), budget),
            _END: lambda: fit(_bare(self._ends(self._memory.ranked(task.prompt))), budget),
        }
        if arm == "lorelog, asked":
            return self._memory.search(task.prompt, budget)
        if arm in plain:
            return Shown(arm, plain[arm]())
        shown = Shown(arm, "\n".join(part.text for part in self._hooks(task, arm, budget)))
        if arm != _HINTED or self._memory.recall(task.prompt) or not self._is_likely(task.prompt):
            return shown
        asked = self._memory.search(task.prompt, budget)
        return Shown(arm, f"{shown.text}\n{asked.text}", shown.tokens + _HINT_TOKENS + asked.tokens)

    def _is_likely(self, prompt: str) -> bool:
        hits = self._memory.api.call("memory.search", {"query": prompt, "k": 1})["hits"]
        return len(prompt) <= _MAX_PROMPT_CHARS and bool(hits) and hits[0]["confidence"] in ("strong", "likely")

    def _ends(self, ranked: Sequence[str]) -> list[str]:
        """Return the last memory of each ranked one's conversation, before the ranked ones themselves."""
        sessions = dict.fromkeys(found[1] for text in ranked if (found := re.search(r"session:([\w-]+)", text)))
        ends = [re.split(r"^(?=### )", self._notes[session], flags=re.MULTILINE)[-1] for session in sessions]
        return list(dict.fromkeys([*ends[:1], *ranked[:1], *ends[1:], *ranked[1:]]))

    def _hooks(self, task: Task, arm: str, budget: int) -> Sequence[Shown]:
        start, prompt = _SPLITS[budget]
        file = str(self._memory.root / task.module)
        before = task.files[task.module]
        calls = (
            ("Read", {"file_path": file}),
            ("Edit", {"file_path": file, "old_string": before, "new_string": task.naive}),
        )
        more = (
            {"LORELOG_SESSION_HITS_RELEVANCE": "0", "LORELOG_SESSION_HITS": _HITS[budget]}
            if arm == "lorelog, any hit"
            else {}
        )
        os.environ |= more
        try:
            return self._memory.run_session(
                f"{task.name} {arm} {budget}", task.prompt, calls, start=start, budget=prompt
            )
        finally:
            for name in more:
                del os.environ[name]

    def _stage(self, task: Task, arm: str, shown: str) -> str:
        """Return the first stage that lost the decision of a task."""
        own = [session_id(name) for name in task.sessions]
        notes = "\n".join(self._notes[session] for session in own)
        others = "\n".join(text for session, text in self._notes.items() if session not in own)
        if missing := task.missing(notes):
            return f"capture: {'all' if len(missing) == len(task.parts) else 'part'} of it is in no note"
        if is_quoted(shown, notes, others):
            return "packing: the right conversation is shown, but not all of the decision"
        if arm == "lorelog, asked":
            return "search: other memories come first"
        if len(task.prompt) > _MAX_PROMPT_CHARS:
            return "prompt: longer than 400 characters, nothing is searched for"
        if arm == "lorelog, unasked" and not self._memory.recall(task.prompt):
            return "prompt: no rare name of it is in a memory, nothing is searched for"
        return "search: other memories come first"


def _bare(texts: Sequence[str]) -> list[str]:
    return [re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL) for text in texts]


def report(outcomes: Sequence[Outcome], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    sets = list(dict.fromkeys(one.set for one in outcomes))
    tasks = {one.task: one.set for one in outcomes}
    yield (
        f"{len(tasks)} tasks: "
        + ", ".join(f"{name} {sum(given == name for given in tasks.values())}" for name in sets)
        + "."
    )
    yield f"Tests ran {'in a network without interfaces' if isolation() else 'with the network of the machine'}."
    yield "\n### Solved, by tokens that the agent may be shown\n"
    head = ["", *(f"{name}, {budget:,}" for name in sets for budget in BUDGETS)]
    rows = []
    for arm in ARMS:
        cells = []
        for name in sets:
            for budget in BUDGETS:
                found = [one.solved for one in outcomes if (one.arm, one.set, one.budget) == (arm, name, budget)]
                cells.append(f"{sum(found)} of {len(found)}")
        rows.append([arm, *cells])
    yield format_table(head, rows)
    yield "\n### All tasks, with 95 % intervals over tasks\n"
    rows = []
    for arm in ARMS:
        for budget in BUDGETS if arm != "nothing" else BUDGETS[:1]:
            found_all = [one for one in outcomes if (one.arm, one.budget) == (arm, budget)]
            solved = sum(one.solved for one in found_all)
            spent = sum(one.tokens for one in found_all)
            per_solved = f"{spent / solved:,.0f}" if solved else "none solved"
            rows.append([
                f"{arm}, {budget:,}" if arm != "nothing" else arm, share([one.solved for one in found_all]),
                mean([float(one.tokens) for one in found_all]), per_solved, str(sum(one.damage for one in found_all)),
            ])  # fmt: skip
    yield format_table(["", "solved", "tokens shown", "tokens for each solved task", "superseded rule alone"], rows)
    yield "\n### What lost the misses, at 600 tokens\n"
    for arm in _OURS:
        stages = Counter(one.stage for one in outcomes if one.arm == arm and one.budget == 600 and one.stage)
        yield f"- {arm}: " + ("; ".join(f"{count} {stage}" for stage, count in stages.most_common()) or "none missed")
    _judge(outcomes, verdicts)


def _judge(outcomes: Sequence[Outcome], verdicts: Verdicts) -> None:
    def solved(arm: str) -> list[bool]:
        return [one.solved for one in outcomes if one.arm == arm and one.budget == 600]

    best = max(sum(solved("BM25")), sum(solved("memsearch")))
    for arm in _OURS:
        hits = solved(arm)
        verdicts.judge(
            f"tasks solved by an obedient agent, {arm}, 600 tokens", share(hits), f"more than BM25 and memsearch's ranking ({best})",
            met=sum(hits) > best, headline=arm == "lorelog, unasked",
        )  # fmt: skip
    damage = sum(one.damage for one in outcomes if one.arm in _OURS and one.budget == 600)
    verdicts.judge("superseded rule shown without its amendment, 600 tokens", str(damage), "0", met=damage == 0)
