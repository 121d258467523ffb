"""What the records bench writes and asks: two hand-written corpora of confusable tasks, and a crowd of made-up records.

The corpora lie in `corpora/*.toml`. Both have the shape of memd's own task-memory corpus: whole lifecycles in pairs
that are easily taken for each other, and questions of which each means one task. Their vocabularies have nothing in
common, so that whoever tunes to one sees it in the other.
"""

import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorelog.core.record import RecordDraft

CORPORA = Path(__file__).with_name("corpora")
_OPERATIONS = {
    "progress": "task.progress",
    "run_start": "task.run_start",
    "run_finish": "task.run_finish",
    "evidence": "task.add_evidence",
    "decision": "artifact.decision",
    "finish": "task.finish",
}
_RENAMED = {"task.progress": {"what_failed": "failed_attempts"}, "task.run_finish": {"summary": "notes"}}


@dataclass(frozen=True)
class Case:
    """One task from its beginning to where it is."""

    name: str
    agent: str
    start: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]

    def calls(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the operations that write it, the first without a task."""
        yield "task.start", {**self.start, "writer": self.agent}
        for step in self.steps:
            op = _OPERATIONS[step["op"]]
            names = _RENAMED.get(op, {})
            yield (
                op,
                {names.get(name, name): value for name, value in step.items() if name != "op"} | {"writer": self.agent},
            )

    def sections(self) -> Iterator[str]:
        """Yield what it says as plain Markdown, a section for each record: what a memory without records would hold."""
        for said in (self.start, *self.steps):
            title = "start" if said is self.start else said["op"]
            lines = [f"{name.replace('_', ' ')}: {_flat(value)}" for name, value in said.items() if name != "op"]
            yield "\n".join([f"## {title}", "", *lines, ""])


@dataclass(frozen=True)
class Question:
    """Something asked, and the one task that is meant."""

    text: str
    case: str
    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """Tasks and questions."""

    name: str
    cases: tuple[Case, ...]
    questions: tuple[Question, ...]


def corpora() -> list[Corpus]:
    """Return all corpora, by name."""
    return [_read(path) for path in sorted(CORPORA.glob("*.toml"))]


def _read(path: Path) -> Corpus:
    read = tomllib.loads(path.read_text("utf-8"))
    cases = [Case(item["name"], item["agent"], item["start"], tuple(item["steps"])) for item in read["cases"]]
    return Corpus(path.stem, tuple(cases), tuple(Question(**item) for item in read["questions"]))


def _flat(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_flat(item)}" for name, item in value.items())
    return str(value)


# -- a crowd -------------------------------------------------------------------------------------------------------------

_KINDS = ("task_progress", "run_start", "run_finish", "evidence", "review", "decision", "verification", "task_finish")
_SHARES = (40, 12, 12, 14, 6, 8, 4, 4)
_AGENTS = ("mara", "otto", "ines", "kofi")


class Crowd:
    """Records by the thousand, of a project's tasks, from a seed: the same on every machine but for ids and times."""

    def __init__(self, project: str, tasks: int, seed: int = 6) -> None:
        self._random = random.Random(seed)
        self._words = _vocabulary(self._random)
        self._weights = [1 / (rank + 3) for rank in range(len(self._words))]
        self._project = project
        self.tasks = [f"crowd-{number:05d}" for number in range(tasks)]
        self._started = 0

    def drafts(self, count: int, known: list[str]) -> list[RecordDraft]:
        """Return some more records; `known` are ids that they may reply to."""
        return [self._draft(known) for _ in range(count)]

    def question(self) -> str:
        """Return a few words, as somebody might ask."""
        return self.say(4)

    def say(self, count: int) -> str:
        """Return words."""
        return " ".join(self._random.choices(self._words, self._weights, k=count))

    def _draft(self, known: list[str]) -> RecordDraft:
        agent = self._random.choice(_AGENTS)
        if self._started < len(self.tasks):  # every task begins before anyone speaks of it
            task = self.tasks[self._started]
            self._started += 1
            return self._said("task_start", task, agent, {"goal": self.say(9), "motivation": self.say(12)})
        kind = self._random.choices(_KINDS, _SHARES)[0]
        task = self._random.choice(self.tasks)
        reply = self._random.choice(known) if known and kind in {"review", "verification"} else ""
        return self._said(kind, task, agent, self._fields(kind), reply)

    def _fields(self, kind: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"summary": self.say(24)}
        if kind == "task_progress":
            fields |= {"next_step": self.say(8), "what_failed": [self.say(7)] if self._random.random() < 0.3 else []}
        elif kind == "run_start":
            tool = self._random.choice(self._words[:60])
            fields |= {"tool_name": tool, "command": self.say(4), "why_chosen": self.say(6), "inputs": [self.say(2)]}
        elif kind == "evidence":
            fields |= {
                "evidence_kind": "measurement",
                "metric_name": self.say(1),
                "metric_value": self._random.random(),
            }
        elif kind == "task_finish":
            fields |= {"what_worked": [self.say(6)], "what_failed": [self.say(6)], "validation": [self.say(6)]}
        elif kind in {"review", "verification", "decision"}:
            fields |= {"validation": [self.say(6)]}
        return fields

    def _said(self, kind: str, task: str, agent: str, fields: dict[str, Any], reply: str = "") -> RecordDraft:
        status = {"task_start": "in_progress", "task_progress": "in_progress", "run_start": "started"}.get(kind)
        return RecordDraft(
            kind=kind,
            project=self._project,
            task=task,
            thread=task,
            agent=agent,
            reply_to=reply,
            relation="verifies" if kind == "verification" else "reviews" if reply else "",
            supports_claim=True if reply else None,
            status=status or ("completed" if kind in {"run_finish", "task_finish"} else "recorded"),
            fields=fields,
        )


def _vocabulary(chance: random.Random) -> list[str]:
    """Return made-up words that can be told apart, the same for the same chance."""
    heads, tails = "bdfgklmnprstvz", "aeiou"
    made = {
        "".join(chance.choice(heads) + chance.choice(tails) for _ in range(chance.randint(2, 4))) for _ in range(6000)
    }
    return sorted(made, key=lambda word: (len(word), word))
