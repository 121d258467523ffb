"""Text output of records: short ids that can be typed back, trust badges, and tables."""

from __future__ import annotations

import os
import sys

from lorelog.surfaces.cli.client import print_note
from lorelog.surfaces.text import (
    RECORD_TIERS,
    align,
    format_origin,
    one_line,
    short_path,
    shorten_ids,
    stylize,
    truncate,
    visible_width,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from lorelog.operations.operation import Json

_SHORT_ID_CHARS = 13
"""Of 36. They encode the time to the millisecond, so they are rarely equal for two records."""
_MAX_SUMMARY_CHARS = 72
_MIN_SUMMARY_COLUMNS = 24
"""With fewer columns left beside the table, a record's summary is printed below its line."""
_PIPE_COLUMNS = 10_000
_NAMELESS_REASON = "its writer has no name"
"""Same text as in the ledger's trust rules."""
_STATUS_STYLES = {"in_progress": "cyan", "completed": "green", "success": "green", "failed": "red", "blocked": "yellow"}
_SUMMARY_FIELDS = ("summary", "goal", "tool_name", "what_failed", "what_worked", "validation", "requested_action")
_SHOWN_FIELDS = (
    *("goal", "motivation", "scientific_question", "hypothesis", "expected_outputs", "summary", "method_summary"),
    *("next_step", "blockers", "tool_name", "tool_version", "command", "why_chosen", "inputs", "outputs", "parameters"),
    *("evidence_kind", "metric_name", "metric_value", "metrics", "what_worked", "what_failed", "validation"),
    *("uncertainty", "followups", "confidence", "requested_action", "verification_status", "approval_state"),
    *("artifact_role", "dataset_refs", "entity_refs", "contributors", "challenge_id", "provenance", "content"),
)
_FIELD_LABELS = {"motivation": "because", "what_worked": "worked", "what_failed": "failed", "next_step": "next"}


def short_record_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return the first characters of each id of a record or task: 13, or as many as tell it from the others."""
    return shorten_ids(ids, _SHORT_ID_CHARS)


def short_id(identity: str) -> str:
    return identity[:_SHORT_ID_CHARS]


def format_badge(trust: Json, writers: Mapping[str, str], *, signed: bool = False) -> str:
    """Return a trust badge; `signed` if the writer's signature is valid."""
    parts = []
    if trust["tier"] == "verified_record":
        parts.append(stylize(f"verified ({'signed' if trust['signed'] else 'unsigned'})", "green"))
    elif trust["verified_by"]:
        by = dict.fromkeys(
            (one_line(writers.get(record, "")).strip() or short_id(record))
            + (" (signed)" if record in trust["signed_by"] else "")
            for record in trust["verified_by"]
        )
        parts.append(stylize(f"verified by {', '.join(by)}", "green"))
    elif trust["tier"] == "canonical_record":
        parts.append("record" + (" (signed)" if signed else ""))
    else:
        parts.append(one_line(trust["tier"]))
    if trust["promotion"] == "refused":
        parts.append(stylize("promotion refused", "yellow"))
    if trust["tainted"]:
        parts.append(stylize("tainted", "yellow"))
    elif trust["requires_verification"]:
        parts.append(stylize("not to be relied on", "yellow"))
    return ", ".join(parts)


def format_trust(trust: Json, origin: str) -> str:
    """Return the trust badge of a record, the origin of a tainted memory, or ''."""
    if trust["tier"] != "semantic_candidate":
        return format_badge(trust, {})
    return stylize(f"from {format_origin(origin)}", "yellow") if trust["tainted"] else ""


def format_location(chunk: Mapping[str, Any], trust: Json | None) -> str:
    """Return file and lines; for a record its id, because its file is generated from the ledger."""
    anchor = chunk["anchor"] or {}
    if trust and trust["tier"] in RECORD_TIERS and anchor.get("memory"):
        return f"record {one_line(short_id(anchor['memory']))}"
    return f"{short_path(chunk['source'])}:{chunk['start_line']}-{chunk['end_line']}"


def format_summary(record: Mapping[str, object]) -> str:
    for name in _SUMMARY_FIELDS:
        text = flatten_value(record.get(name))
        if text:
            return truncate(f"{_FIELD_LABELS[name]}: {text}" if name in _FIELD_LABELS else text, _MAX_SUMMARY_CHARS)
    return ""


def format_agent(record: Mapping[str, object]) -> str:
    """Return the printable name of a record's writer."""
    return one_line(str(record.get("writer", ""))).strip() or "nobody"


def format_time(at: str) -> str:
    """Return a time to the minute, in the local time zone."""
    from datetime import datetime

    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return one_line(at)


def format_status(status: str) -> str:
    return stylize(one_line(status), _STATUS_STYLES.get(status, "dim"))


def show_tasks(tasks: Sequence[Json], *, projects: bool) -> None:
    ids = short_record_ids(task["task_id"] for task in tasks)
    _print_rows(
        [
            stylize(ids[task["task_id"]], "cyan"),
            format_status(task["status"]),
            format_time(task["updated_at"]),
            *([short_path(task["project"]) or "(global)"] if projects else []),
            truncate(flatten_value(task["goal"]), _MAX_SUMMARY_CHARS),
        ]
        for task in tasks
    )


def show_records(records: Sequence[Json]) -> None:
    """Print records as a table with trust badges."""
    ids = short_record_ids(record["artifact_id"] for record in records)
    writers = {record["artifact_id"]: record.get("writer", "") for record in records}
    _print_rows(
        [
            stylize(ids[record["artifact_id"]], "cyan"),
            format_time(record["at"]),
            one_line(record["artifact_kind"]),
            format_agent(record),
            format_badge(record["trust"], writers, signed=record["signed"]),
            format_summary(record),
        ]
        for record in records
    )


def show_task(reply: Json, args: object = None) -> None:
    task = reply["task"]
    started = f"started by {format_agent(task)} {format_time(task['started_at'])}"
    print("  ".join([stylize(task["task_id"], "cyan"), format_status(task["status"]), started]))
    print(stylize(one_line(task["goal"]), "bold"))
    print()
    show_records(reply["artifacts"])


def show_record(record: Json, writers: Mapping[str, str]) -> None:
    head = [stylize(record["artifact_id"], "cyan"), one_line(record["artifact_kind"]), format_status(record["status"])]
    badge = format_badge(record["trust"], writers, signed=record["signed"])
    print("  ".join([*head, format_agent(record), format_time(record["at"]), badge]))
    for name in _SHOWN_FIELDS:
        text = _format_value(record.get(name))
        if text:
            print(f"  {_FIELD_LABELS.get(name, name.replace('_', ' '))}: {text}")
    for name, label in (("task_id", "task"), ("reply_to_artifact_id", "replies to"), ("supersedes", "supersedes")):
        if record.get(name):
            print(f"  {label}: {one_line(str(record.get(name)))}")
    if record["origin"] not in {"agent", "user"}:
        print(f"  origin: {one_line(record['origin'])}")
    print(f"  trust: {one_line(record['trust']['reason'])}")
    if record["trust"]["promotion"] == "refused":
        print(f"  promotion: refused, {one_line(record['trust']['promotion_reason'])}")


def show_trust(record: Json, writers: Mapping[str, str]) -> None:
    trust = record["trust"]
    print(f"{stylize(record['artifact_id'], 'cyan')}  {format_badge(trust, writers, signed=record['signed'])}")
    print(f"  {format_summary(record)}")
    print(f"  because: {one_line(trust['reason'])}")
    print(f"  writer: {format_agent(record)}, {'signed' if record['signed'] else 'not signed'}")
    print(f"  origin: {one_line(record['origin'])}")
    if trust["promotion"] in {"granted", "refused"}:
        print(f"  promotion: {one_line(trust['promotion'])}, {one_line(trust['promotion_reason'])}")


def show_digest(digest: Json) -> None:
    """Print a digest, each sentence with the records it cites."""
    ids = short_record_ids(record for line in digest["lines"] for record in line["artifact_ids"])
    section = ""
    for line in digest["lines"]:
        if line["section"] != section:
            if section:
                print()
            section = line["section"]
            print(stylize(one_line(section), "bold"))
        cited = stylize(f"[{', '.join(ids[record] for record in line['artifact_ids'])}]", "dim")
        print(f"  {one_line(line['text'])}  {cited}")


def print_record_written(label: str, reply: Json) -> None:
    """Print the id of a new record, whether its confirmation of another one was counted, and the notes."""
    task = f" of task {short_id(reply['task_id'])}" if reply["task_id"] else ""
    print(f"{label} {short_id(reply['artifact_id'])}{task}")
    trust, reason = reply["trust"], reply["trust"]["promotion_reason"]
    if trust["promotion"] == "granted":
        how = "both writers proven by signature" if trust["signed"] else "writers told apart by name only"
        print(f"{stylize('promotion: granted', 'green')}, {one_line(reason)} ({how})")
    elif trust["promotion"] == "refused":
        print(f"{stylize('promotion: refused', 'yellow')}, {one_line(reason)}")
        if reason == _NAMELESS_REASON:
            print_note("give your name with --as NAME, or set it once: lorelog config set records.writer NAME")
    for text in reply.pop("notes"):
        if not (reason and reason in text):  # already printed
            print_note(text)


def _format_value(value: object) -> str:
    """Return a value as text; a list of several items has one line per item."""
    if isinstance(value, list) and len(value) > 1:
        return "".join(f"\n    - {flatten_value(item)}" for item in value)
    return flatten_value(value)


def flatten_value(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(flatten_value, value)))
    if isinstance(value, dict):
        return ", ".join(f"{one_line(str(name))} {flatten_value(item)}" for name, item in value.items())
    return "" if value is None else one_line(" ".join(str(value).split()))


def _print_rows(lines: Iterable[Sequence[str]]) -> None:
    """Print aligned columns; the last column uses the rest of the line, or the next line if that is too short."""
    rows = list(lines)
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):
        columns = 0
    for row, cells in zip(rows, align([row[:-1] for row in rows]), strict=True):
        line = "  ".join(cells)
        remaining = (columns or _PIPE_COLUMNS) - sum(map(visible_width, cells)) - 2 * len(cells)
        if remaining >= _MIN_SUMMARY_COLUMNS or not row[-1]:
            print(f"{line}  {truncate(row[-1], remaining)}".rstrip())
        else:
            print(f"{line.rstrip()}\n    {row[-1]}")
