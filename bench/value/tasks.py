"""Tasks with a history, a naive solution that must fail, an informed one that must pass, and hidden tests.

- remem (majiayu000/remem): 16 tasks; each fact is one message of the user. All histories are one memory, so the others are decoys.
- sde (vectorize-io/sde-bench): the planted tasks whose decision is in a conversation, among 140 other conversations about the same library.
- sde-amended: the same, with a decision that a later conversation amended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.value.answers import REMEM_INFORMED, REMEM_PARTS, SDE_PARTS, SDE_STALE
from bench.value.graded import output_of
from bench.value.sources import GitSource, find_source
from bench.value.transcripts import Conversation

_REMEM, _SDE = "majiayu000/remem", "vectorize-io/sde-bench"
_FIRST_DAY = datetime(2025, 10, 1, 9, tzinfo=UTC)
_DECOYS = "gen/decoy_conversations.json"


@dataclass(frozen=True)
class Task:
    """One task: what the agent is asked, and both solutions."""

    name: str
    prompt: str
    module: str
    """The file that the solution changes."""
    files: Mapping[str, str]
    naive: str
    """Text of the module after the obvious repair."""
    informed: str
    tests: Mapping[str, str]
    """Hidden files."""
    command: tuple[str, ...]
    """Words after the interpreter."""
    parts: tuple[str, ...]
    """Patterns that the delivered text must all contain."""
    stale: str = ""
    """Pattern of the superseded rule."""
    sessions: tuple[str, ...] = ()
    """Names of the conversations with its decision, oldest first."""

    def missing(self, text: str) -> list[str]:
        """Return the patterns that a text lacks."""
        plain = " ".join(text.split())
        return [part for part in self.parts if not re.search(part, plain, re.IGNORECASE)]

    def is_stale_in(self, text: str) -> bool:
        """Return whether a text has the superseded rule."""
        return bool(self.stale) and bool(re.search(self.stale, " ".join(text.split()), re.IGNORECASE))


@dataclass(frozen=True)
class TaskSet:
    """Tasks that share a memory."""

    name: str
    tasks: tuple[Task, ...]
    history: tuple[Conversation, ...]

    @property
    def now(self) -> datetime:
        """Return a moment after the whole history."""
        return max(conversation.started for conversation in self.history) + timedelta(days=1)

    def facts(self) -> str:
        """Return a file with every message of the tasks' own conversations that states the decision: the user's words."""
        wanted = {name for task in self.tasks for name in task.sessions}
        said = (text for one in self.history if one.name in wanted for role, text in one.messages if role == "user")
        return "# Project memory\n\n" + "".join(f"- {' '.join(text.split())}\n" for text in said)


def load_sets(sources: Path) -> Iterator[TaskSet]:
    """Yield the sets of tasks."""
    yield _remem(find_source(sources, _REMEM))
    source = find_source(sources, _SDE)
    yield _sde(source, "conversation", "sde")
    yield _sde(source, "conversation-amended", "sde-amended")


def _remem(source: GitSource) -> TaskSet:
    given = source.json("eval/coding-bench/fixtures/tasks.json")
    files: dict[str, str] = given["repo"]["files"]
    tasks, history = [], []
    for task in given["tasks"]:
        module, informed = REMEM_INFORMED[task["id"]]
        names = []
        for episode in task["history_episodes"]:
            names.append(f"remem {episode['episode_id']}")
            started = datetime.fromtimestamp(episode["reference_time_epoch"], UTC)
            said = tuple((event["role"], event["sanitized_content"]) for event in episode["raw_events"])
            history.append(Conversation(names[-1], started, said))
        command = tuple(task["score"]["commands"][0][1:])
        tests = task["score"]["hidden_files"]
        parts = REMEM_PARTS[task["id"]]
        tasks.append(Task(task["id"], task["prompt"], module, files, files[module], informed, tests, command, parts, sessions=tuple(names)))  # fmt: skip
    return TaskSet("remem", tuple(tasks), tuple(history))


def _sde(source: GitSource, kind: str, name: str) -> TaskSet:
    traps = _read_traps(source)
    tasks: list[Task] = []
    history: list[Conversation] = []
    started = _FIRST_DAY
    found = [source.json(path) for path in source.paths() if path.endswith("/task.json")]
    given = [task for task in found if task["source"] == kind and task["tier"] == "planted"]
    decoys: list[dict[str, Any]] = source.json(_DECOYS)
    step = max(1, len(decoys) // len(given))
    for number, task in enumerate(given):
        trap_name = re.sub(r"^boltons-|-amended$", "", task["codebase"])
        trap, chats = traps[trap_name], task["conversations"]
        names = []
        for order, chat in enumerate(chats if isinstance(chats[0], list) else [chats]):
            names.append(f"{name} {task['task_id']} {order}")
            said = tuple((message["role"], message["text"]) for message in chat)
            history.append(Conversation(names[-1], started + timedelta(days=order * 20), said))
        last = number == len(given) - 1
        for decoy in decoys[number * step : None if last else (number + 1) * step]:
            started += timedelta(hours=4)
            said = tuple((message["role"], message["text"]) for message in decoy["turns"])
            history.append(Conversation(f"{name} decoy {len(history)}", started, said))
        started += timedelta(hours=4)
        tasks.append(_sde_task(task, trap_name, trap, tuple(names)))
    return TaskSet(name, tuple(tasks), tuple(history))


def _sde_task(task: Mapping[str, Any], name: str, trap: Mapping[str, Any], sessions: tuple[str, ...]) -> Task:
    package = trap["pkg"]
    files = {
        f"{package}/__init__.py": trap["init"],
        trap["module"]: trap["bug"],
        "tests/test_existing.py": trap["existing_test"],
    }
    tests = {"tests/test_regression.py": trap["repro_test"], "tests/test_hidden.py": trap["hidden_test"]}
    return Task(
        name=task["task_id"],
        prompt=task["bug_report"],
        module=trap["module"],
        files=files,
        naive=trap["naive"][0] if isinstance(trap["naive"], list) else trap["naive"],
        informed=trap["correct"],
        tests=tests,
        command=("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"),
        parts=SDE_PARTS[name],
        stale=SDE_STALE.get(name, "") if "amended" in task["source"] else "",
        sessions=sessions,
    )


def _read_traps(source: GitSource) -> dict[str, dict[str, Any]]:
    """Return the traps of the set's generator, which a process without a network prints."""
    files = {Path(path).name: text for path, text in source.files("gen") if path.endswith(".py")}
    printed = output_of(files, ("-c", "import json, traps; print(json.dumps(traps.TRAPS, default=str))"))
    traps: dict[str, dict[str, Any]] = json.loads(printed)
    return traps
