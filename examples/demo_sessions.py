"""Sessions of two agents for the world of the demo, captured from conversations, and proposals that wait for a person."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Call = Callable[[str, dict[str, Any]], dict[str, Any]]
Line = dict[str, Any]
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)
TODAY, YESTERDAY, CODEX = "5e0c1a77-demo", "9a1f33d0-demo", "c0dec0de-demo"

Turn = tuple[str, list[tuple[str, dict[str, Any], str]], str]
"""What was asked, the tool calls with their results, and the answer. A result that begins with ✗ is an error."""

_TODAY_TURNS: list[Turn] = [
    (
        "Customers see old ETAs for a few minutes after a deploy. Why is the shipment cache stale?",
        [
            ("Bash", {"command": "pytest tests/cache -q"}, "✗tests/cache/test_ttl.py: AssertionError: 300 != 60"),
            ("Edit", {"file_path": "src/harbor/cache/shipments.py", "old_string": "300", "new_string": "60"}, "ok"),
            ("Bash", {"command": "pytest tests/cache -q"}, "14 passed"),
        ],
        (
            "The workers that were started before the deploy kept the old TTL of 5 minutes. It is read from the settings now, "
            "and a test fails if a worker keeps its own."
        ),
    ),
    (
        "Add a small page that shows the age of the cache.",
        [
            ("Bash", {"command": "npm install preact"}, "✗" + _REJECTED + "use pnpm, not npm"),
            ("Bash", {"command": "pnpm add preact"}, "Done in 2.1s"),
            ("Write", {"file_path": "web/cache-age.js", "content": "export const age = 0;\n"}, "ok"),
        ],
        "The page is at /internal/cache-age. It shows the age of each key and the time of the last event.",
    ),
    (
        "No, I meant the staging dashboard, not a new page.",
        [("Edit", {"file_path": "web/staging.js", "old_string": "[]", "new_string": "[age]"}, "ok")],
        "Moved to the staging dashboard; the page is gone.",
    ),
]
_YESTERDAY_TURNS: list[Turn] = [
    (
        "Rehearse migration 0042 on the restored backup.",
        [
            ("Bash", {"command": "scripts/check_migrations.py 0042"}, "ok: lock_timeout 3s, CONCURRENTLY"),
            ("Bash", {"command": "make rehearse MIGRATION=0042"}, "✗ERROR: canceling statement due to lock timeout"),
        ],
        (
            "The rehearsal failed: the index build waited for a long report. I moved the index to a migration of its own, and "
            "the second rehearsal took 41 seconds without a blocked read."
        ),
    ),
    (
        "From now on, never run terraform apply. Jonas applies changes himself.",
        [("Bash", {"command": "terraform plan -out plan.tfplan"}, "Plan: 2 to add, 0 to change")],
        "Understood: I only plan. The plan is in plan.tfplan.",
    ),
]
_CODEX_TURNS: list[Turn] = [
    (
        "Which carriers still poll instead of sending events?",
        [("shell", {"command": "grep -rn poll_interval config/carriers"}, "tarnfreight.toml:4: poll_interval = 300")],
        "Only Tarnfreight. Kelpline and Osprey have sent events since March.",
    ),
    (
        "Count the duplicates in Tuesday's webhook log.",
        [("shell", {"command": "python scripts/count_duplicates.py --day tuesday"}, "0 duplicates in 41,000")],
        "There are none in 41,000 deliveries.",
    ),
]


def add_sessions(project: Path, home: Path, call: Call) -> None:
    """Write conversations as their hosts do, and capture them."""
    folder = home.parent / "conversations"
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    _capture(folder, project, call, TODAY, _claude_lines(TODAY, project, now - timedelta(minutes=25), _TODAY_TURNS))
    before = now - timedelta(days=1, minutes=50)
    _capture(folder, project, call, YESTERDAY, _claude_lines(YESTERDAY, project, before, _YESTERDAY_TURNS))
    lines = _codex_lines(CODEX, project, now - timedelta(minutes=40), _CODEX_TURNS)
    _capture(folder, project, call, CODEX, lines, host="codex")


def _capture(
    folder: Path, project: Path, call: Call, session: str, lines: Iterator[Line], *, host: str = "claude"
) -> None:
    path = folder / (f"{session}.jsonl" if host == "claude" else f"rollout-{session}.jsonl")
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    given = {"host": host, "session": session, "transcript": str(path), "directory": str(project)}
    call("session.capture", {**given, "moment": "session-end", "branch": "main", "everything": True})


def _claude_lines(session: str, project: Path, start: datetime, turns: list[Turn]) -> Iterator[Line]:
    clock = start

    def line(kind: str, name: str, content: Any) -> Line:
        nonlocal clock
        clock += timedelta(minutes=1)
        message = {"role": kind, "content": content} | ({"id": f"msg_{name}"} if kind == "assistant" else {})
        place = {"sessionId": session, "cwd": str(project), "gitBranch": "main", "isSidechain": False}
        stamp = clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"type": kind, "uuid": f"{session}-{name}", "timestamp": stamp, "message": message, **place}

    for number, (asked, calls, answer) in enumerate(turns):
        yield line("user", f"u{number}", asked)
        for step, (tool, given, result) in enumerate(calls):
            name = f"{number}-{step}"
            use = {"type": "tool_use", "id": f"t{name}", "name": tool, "input": given}
            yield line("assistant", f"a{name}", [use])
            outcome = {"content": result.removeprefix("✗"), "is_error": result.startswith("✗")}
            yield line("user", f"r{name}", [{"type": "tool_result", "tool_use_id": f"t{name}", **outcome}])
        yield line("assistant", f"e{number}", [{"type": "text", "text": answer}])


def _codex_lines(session: str, project: Path, start: datetime, turns: list[Turn]) -> Iterator[Line]:
    clock = start

    def line(kind: str, payload: Line) -> Line:
        nonlocal clock
        clock += timedelta(minutes=1)
        return {"timestamp": clock.isoformat().replace("+00:00", "Z"), "type": kind, "payload": payload}

    def said(role: str, text: str) -> Line:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    yield line("session_meta", {"id": session, "cwd": str(project)})
    for number, (asked, calls, answer) in enumerate(turns):
        yield line("response_item", said("user", asked))
        for step, (tool, given, result) in enumerate(calls):
            name = f"c{number}-{step}"
            use = {"type": "function_call", "name": tool, "call_id": name, "arguments": json.dumps(given)}
            yield line("response_item", use)
            yield line("response_item", {"type": "function_call_output", "call_id": name, "output": result})
        yield line("response_item", said("assistant", answer))


def add_proposals(home: Path, project: Path, call: Call) -> dict[str, str]:
    """Add what waits for a person: rules and a guard of an agent, an import, a summary; return ids of memories by name."""
    from lorelog.services.guards.guard_log import GuardDraft, GuardLog

    def add(text: str, kind: str, origin: str, *tags: str) -> str:
        given = {"text": text, "type": kind, "origin": origin, "tags": list(tags)}
        return str(call("memory.add", given)["memory"])

    ids = {
        "agent rule": add("Always add an index in a migration of its own.", "preference", "agent", "database"),
        "import": add(
            "Tarnfreight answers 200 with an error in the body; check `status`.", "lesson", "import", "carriers"
        ),
    }
    add("Yesterday: the retries of the carriers were moved into one place.", "summary", "agent")
    message = "The branch is shared: do not force push."
    draft = GuardDraft(command="git push *--force *", message=message, project=str(project))
    GuardLog(home / "data" / "default" / "guards.jsonl").add(draft, "agent")
    return ids


def add_guard_delivery(folder: Path, project: str, guard: str, memory: str) -> None:
    """Log that a guard warned the session of today."""
    from lorelog.light.delivery_log import append_delivery

    warned = {"project": project, "moment": "tool-before", "kind": "guard", "guard": guard, "action": "warn"}
    append_delivery(str(folder), "claude", TODAY, {**warned, "tokens": 22, "memories": [memory]})
