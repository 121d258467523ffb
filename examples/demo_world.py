"""A small world for the page: two weeks of journals, sessions of two agents, guards, tasks, decisions, a wiki page and costs.

`python examples/demo.py ui` opens the page over it; the page's tests and the pictures of the documentation use it as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from examples.demo_sessions import add_guard_delivery, add_proposals, add_sessions

HERE = Path(__file__).parent
_DAY = re.compile(r"2026-(?:02|03)-\d\d")
Call = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Calls an operation."""


def copy_journals(project: Path) -> None:
    """Copy the journals of the example, dated so that their last day is yesterday."""
    target = project / "memory"
    target.mkdir(parents=True, exist_ok=True)
    last = date(2026, 3, 13)
    shift = date.today() - timedelta(days=1) - last

    def move(found: re.Match[str]) -> str:
        return (date.fromisoformat(found[0]) + shift).isoformat()

    for path in (HERE / "fortnight" / "memory").glob("*.md"):
        name, text = (_DAY.sub(move, part) for part in (path.name, path.read_text("utf-8")))
        (target / name).write_text(text, "utf-8")


def write_code(project: Path) -> None:
    """Write the code that some memories mention, so that their state can be checked."""
    for name in ("src/harbor/cache/shipments.py", "scripts/check_migrations.py"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""Code of the example."""\n\n\nclass ShipmentCache:\n    """Caches shipments."""\n', "utf-8")


def fill(project: Path, home: Path, call: Call) -> dict[str, str]:
    """Write memories, records, guards, costs and deliveries; return the ids of some memories by name."""
    copy_journals(project)
    write_code(project)
    call("memory.index", {"paths": ["memory"]})
    ids = _add_memories(call)
    _date_back(project, call)
    guard = _add_guards(call)
    _add_records(call)
    add_sessions(project, home, call)
    ids |= add_proposals(home, project, call)
    _add_costs(home / "data" / "default", str(project))
    _add_deliveries(home / "data" / "default" / "deliveries", str(project), ids, guard)
    return ids


def _add_memories(call: Call) -> dict[str, str]:
    def add(text: str, kind: str, *tags: str, **more: Any) -> str:
        return str(call("memory.add", {"text": text, "type": kind, "tags": list(tags), **more})["memory"])

    ids = {
        "pnpm": add("Use pnpm in this repository, never npm: the lockfile is pnpm's.", "correction", "tooling"),
        "migrations": add(
            "Run `scripts/check_migrations.py` before every commit that touches `migrations/`.",
            "preference",
            "database",
            cues=["path=migrations/**", "event=commit"],
        ),
        "ttl": add("The shipment cache has a TTL of 5 minutes in staging.", "decision", "redis", "cache"),
        "review": add("Pull requests need one review; the author merges.", "fact", "process", expires="3m"),
    }
    newer = {"id": ids["ttl"], "text": "The shipment cache has a TTL of 60 seconds in staging, as in production."}
    ids["ttl now"] = str(call("memory.supersede", newer)["memory"])
    call("memory.set_expiry", {"id": ids["review"], "review_after": "today"})
    return ids


def _date_back(project: Path, call: Call) -> None:
    """Date the memories of today's journal an hour back: agents are shown them before now."""
    [journal] = (project / ".lorelog" / "memory").glob("*.md")
    earlier = datetime.now().astimezone() - timedelta(hours=1)
    at = f"{earlier:%H:%M}" if f"{earlier:%Y-%m-%d}" == journal.stem else "00:00"
    journal.write_text(re.sub(r"(?m)^### \d\d:\d\d", f"### {at}", journal.read_text("utf-8")), "utf-8")
    call("memory.index", {})


def _add_guards(call: Call) -> str:
    npm = call("guard.add", {"command": "npm *", "message": "Use pnpm, not npm.", "action": "warn"})["guard"]
    call("guard.enable", {"id": npm["id"]})
    call("guard.add", {"paths": ["migrations/**"], "message": "Migrations are written by hand.", "action": "block"})
    return str(npm["id"])


def _add_records(call: Call) -> None:
    polling = call("task.start", {"goal": "Move carrier polling to events", "writer": "codex"})["task_id"]
    call(
        "task.progress",
        {
            "task_id": polling,
            "writer": "codex",
            "summary": "Two of five carriers send events",
            "blockers": ["The sandbox of the third carrier sends no events"],
            "failed_attempts": ["Polling and events at once: parcels were updated twice"],
            "next_step": "ask the carrier for a test account",
        },
    )
    flaky = call("task.start", {"goal": "Find out why the label tests are flaky", "writer": "claude"})["task_id"]
    done = {
        "task_id": flaky,
        "writer": "claude",
        "summary": "The clock was read twice around midnight",
        "what_worked": ["Freezing the clock in the fixture"],
        "validation": ["500 runs without a failure"],
    }
    call("task.finish", done)
    call("artifact.decision", {"summary": "Tests never read the real clock", "writer": "mara", "task_id": flaky})
    _add_page(call, _add_webhooks(call))


def _add_webhooks(call: Call) -> str:
    """Write the records of a task whose evidence is verified; return the evidence."""
    task = call("task.start", {"goal": "Ship webhooks exactly once", "writer": "mara"})["task_id"]
    step = {"task_id": task, "writer": "claude"}
    call("task.progress", {**step, "summary": "Deliveries have idempotency keys", "next_step": "replay a day"})
    run = {
        **step,
        "tool_name": "replay",
        "command": "make replay DAY=tuesday",
        "why_chosen": "Tuesday had 9 duplicates",
    }
    call("task.run_start", {**run, "inputs": ["the log of Tuesday"]})
    call("task.run_finish", {**step, "status": "completed", "notes": "41,000 deliveries in 12 minutes"})
    found = call(
        "task.add_evidence",
        {**step, "evidence_kind": "test", "summary": "0 duplicates in 41,000 deliveries", "writer": "claude"},
    )
    told = {"reply_to_artifact_id": found["artifact_id"], "supports_claim": True, "writer": "mara"}
    call("artifact.verification", {**told, "summary": "I replayed Tuesday and found none either."})
    call("artifact.decision", {"summary": "Webhooks carry an idempotency key", "writer": "mara", "task_id": task})
    return str(found["artifact_id"])


def _add_page(call: Call, evidence: str) -> None:
    text = (
        f"# Webhooks\n\nEach delivery has a key; the receiver keeps keys for 7 days. A replay found no duplicates ({evidence}).\n\n"
        "- Retries: 5, then the dead-letter queue.\n"
    )
    page = {"artifact_kind": "wiki_page", "artifact_role": "concept", "related_artifact_ids": [evidence]}
    call("artifact.create", {**page, "summary": "How webhooks are delivered", "content": text, "writer": "claude"})


def _add_costs(folder: Path, project: str) -> None:
    """Write three weeks of receipts of model calls."""
    lines = []
    for age in range(21, -1, -1):
        day = date.today() - timedelta(days=age)
        if day.weekday() >= 5:
            continue
        for number, (purpose, model, tokens) in enumerate(
            [
                ("note", "claude-haiku", 5200),
                ("embedding", "text-embedding-3-small", 2600),
                ("compact", "gpt-mini", 4100),
            ]
        ):
            if purpose == "compact" and age % 7:
                continue
            spent = tokens + (age * 977 + number * 331) % 3000
            entry = {"at": f"{day}T10:00:00.000Z", "day": str(day), "id": f"{age}-{number}", "purpose": purpose}
            who = {"project": project, "provider": "demo", "host": "claude", "model": model}
            used = {"outcome": "ok", "tokens_in": spent, "tokens_out": 0 if number == 1 else spent // 9, "seconds": 1.5}
            lines.append(json.dumps({**entry, **who, **used}))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "receipts.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _add_deliveries(folder: Path, project: str, ids: dict[str, str], guard: str) -> None:
    from lorelog.light.delivery_log import append_delivery, session_log
    from lorelog.services.usage.history import used_file

    shown = [
        ("claude", "5e0c1a77-demo", "session-start", "standing", "", ["pnpm", "migrations"], 58),
        ("claude", "5e0c1a77-demo", "tool-before", "cue", "path=migrations/**", ["migrations"], 31),
        ("claude", "5e0c1a77-demo", "prompt", "recall", "", ["ttl now"], 44),
        ("codex", "c0dec0de-demo", "session-start", "standing", "", ["pnpm"], 27),
        ("codex", "c0dec0de-demo", "prompt", "recall", "", ["review", "ttl now"], 71),
    ]
    now = datetime.now(UTC)
    for number, (host, session, moment, kind, cue, names, tokens) in enumerate(shown):
        at = (now - timedelta(minutes=24 - 4 * number)).strftime("%Y-%m-%dT%H:%M:%SZ")
        delivery = {"project": project, "moment": moment, "kind": kind, "tokens": tokens, "at": at}
        memories = {"memories": [ids[name] for name in names]}
        append_delivery(str(folder), host, session, {**delivery, **memories, **({"cue": cue} if cue else {})})
    add_guard_delivery(folder, project, guard, ids["pnpm"])
    log = Path(session_log(str(folder), "claude", "5e0c1a77-demo"))
    lines = ({"how": "changed", "memories": [ids["migrations"]]}, {"how": "none", "memories": [ids["pnpm"]]})
    used_file(log).write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
