"""Records as people see them: short ids that can be typed back, what each is worth, and tables."""

from __future__ import annotations

import os
import sys

from lorelog.surfaces.cli.paper import colourful, note, one_line, origin_told, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from lorelog.operations.digest_replies import DigestShape
    from lorelog.operations.record_replies import TaskHitShape
    from lorelog.operations.record_shapes import ArtifactShape
    from lorelog.operations.trust_shapes import TrustShape

_SHORT = 13
"""Of an id's 36 characters. They are its time to the millisecond; those of two records are seldom the same."""
_GIST = 72
_LEAST_GIST = 24
"""Columns that are worth having beside a table; with fewer, what a record says goes below its line."""
_WIDE = 10_000
_DIGEST_MARK = "<!-- lorelog:digest"
"""As `core.record` has it, which would load more than the answer needs."""
_OF_RECORDS = ("canonical_record", "verified_record")
_NAMELESS = "its writer has no name"
"""As the ledger's judge says it."""
_STATUS = {"in_progress": "cyan", "completed": "green", "success": "green", "failed": "red", "blocked": "yellow"}
_TELLING = ("summary", "goal", "tool_name", "what_failed", "what_worked", "validation", "requested_action")
_SHOWN = (
    *("goal", "motivation", "scientific_question", "hypothesis", "expected_outputs", "summary", "method_summary"),
    *("next_step", "blockers", "tool_name", "tool_version", "command", "why_chosen", "inputs", "outputs", "parameters"),
    *("evidence_kind", "metric_name", "metric_value", "metrics", "what_worked", "what_failed", "validation"),
    *("uncertainty", "followups", "confidence", "requested_action", "verification_status", "approval_state"),
    *("artifact_role", "dataset_refs", "entity_refs", "contributors", "challenge_id", "provenance", "content"),
)
_CALLED = {"motivation": "because", "what_worked": "worked", "what_failed": "failed", "next_step": "next"}


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """Return for each id its first characters: as few as tell it from the others shown, and enough to be typed back."""
    known = sorted(set(ids))
    short = {}
    for number, one in enumerate(known):
        length = _SHORT
        for other in (*known[max(0, number - 1) : number], *known[number + 1 : number + 2]):
            while length < len(one) and other.startswith(one[:length]):
                length += 1
        short[one] = one[:length]
    return short


def short(identity: str) -> str:
    """Return the first characters of one id."""
    return identity[:_SHORT]


def badge(record: ArtifactShape, writers: Mapping[str, str]) -> str:
    """Return in a few words what a record is worth. `writers` names who wrote the records that may speak for it."""
    return badge_of(record["trust"], writers, signed=record["signed"])


def badge_of(trust: TrustShape, writers: Mapping[str, str], *, signed: bool = False) -> str:
    """Return in a few words what something is worth; `signed`: its own writer is proven by a key."""
    parts = []
    if trust["tier"] == "verified_record":
        parts.append(styled(f"verified ({'signed' if trust['signed'] else 'unsigned'})", "green"))
    elif trust["verified_by"]:
        by = dict.fromkeys(
            (one_line(writers.get(one, "")).strip() or short(one)) + (" (signed)" if one in trust["signed_by"] else "")
            for one in trust["verified_by"]
        )
        parts.append(styled(f"verified by {', '.join(by)}", "green"))
    elif trust["tier"] == "canonical_record":
        parts.append("record" + (" (signed)" if signed else ""))
    else:
        parts.append(one_line(trust["tier"]))
    if trust["promotion"] == "refused":
        parts.append(styled("promotion refused", "yellow"))
    if trust["tainted"]:
        parts.append(styled("tainted", "yellow"))
    elif trust["requires_verification"]:
        parts.append(styled("not to be relied on", "yellow"))
    return ", ".join(parts)


def worth_told(trust: TrustShape, origin: str) -> str:
    """Return what a text is worth that was read by its id: nothing for a memory, unless it is a tool's or an import's."""
    if trust["tier"] != "semantic_candidate":
        return badge_of(trust, {})
    return styled(f"from {origin_told(origin)}", "yellow") if trust["tainted"] else ""


def place_told(shown: Mapping[str, Any], trust: TrustShape | None) -> str:
    """Return where a text stands: its file and lines; of a record its id, because its page is made from the ledger."""
    anchor = shown["anchor"] or {}
    if trust and trust["tier"] in _OF_RECORDS and anchor.get("memory"):
        return f"record {one_line(short(anchor['memory']))}"
    return f"{short_path(shown['source'])}:{shown['start_line']}-{shown['end_line']}"


def gist(record: Mapping[str, object]) -> str:
    """Return what a record says, on one line."""
    for name in _TELLING:
        said = _flat(record.get(name))
        if said:
            return _cut(f"{_CALLED[name]}: {said}" if name in _CALLED else said)
    return ""


def who(said: Mapping[str, object]) -> str:
    """Return who said something, fit to be printed: a name may hold anything."""
    return one_line(str(said.get("agent_id", ""))).strip() or "(nobody)"


def moment(at: str) -> str:
    """Return a time to the minute, as clocks show it here."""
    from datetime import datetime

    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return one_line(at)


def status_of(status: str) -> str:
    """Return a status in its colour."""
    return styled(one_line(status), _STATUS.get(status, "dim"))


def show_tasks(tasks: Sequence[TaskHitShape], *, projects: bool) -> None:
    """Print tasks as a table."""
    ids = shortened(one["task_id"] for one in tasks)
    rows = []
    for one in tasks:
        place = [short_path(one["project"]) or "(global)"] if projects else []
        row = [styled(ids[one["task_id"]], "cyan"), status_of(one["status"]), moment(one["updated_at"])]
        rows.append([*row, *place, _cut(_flat(one["goal"]))])
    _print_rows(rows)


def show_records(records: Sequence[ArtifactShape]) -> None:
    """Print records as a table, with what each is worth."""
    ids = shortened(one["artifact_id"] for one in records)
    writers = {one["artifact_id"]: one.get("agent_id", "") for one in records}
    rows = []
    for one in records:
        row = [styled(ids[one["artifact_id"]], "cyan"), moment(one["at"]), one_line(one["artifact_kind"])]
        rows.append([*row, who(one), badge(one, writers), gist(one)])
    _print_rows(rows)


def show_record(record: ArtifactShape, writers: Mapping[str, str]) -> None:
    """Print all that a record says."""
    head = [styled(record["artifact_id"], "cyan"), one_line(record["artifact_kind"]), status_of(record["status"])]
    print("  ".join([*head, who(record), moment(record["at"]), badge(record, writers)]))
    for name in _SHOWN:
        said = _lines(record.get(name))
        if said:
            print(f"  {_CALLED.get(name, name.replace('_', ' '))}: {said}")
    for name, label in (("task_id", "task"), ("reply_to_artifact_id", "replies to"), ("supersedes", "supersedes")):
        if record.get(name):
            print(f"  {label}: {one_line(str(record.get(name)))}")
    if record["origin"] not in {"agent", "user"}:
        print(f"  origin: {one_line(record['origin'])}")
    print(f"  trust: {one_line(record['trust']['reason'])}")
    if record["trust"]["promotion"] == "refused":
        print(f"  promotion: refused, {one_line(record['trust']['promotion_reason'])}")


def show_digest(digest: DigestShape) -> None:
    """Print what was compiled from records, each sentence with the records that it rests on."""
    if not sys.stdout.isatty():
        print(f"{_DIGEST_MARK} {one_line(digest['artifact_id'])} -->")  # kept in a file, it stays out of the index
    ids = shortened(one for line in digest["lines"] for one in line["artifact_ids"])
    section = ""
    for line in digest["lines"]:
        if line["section"] != section:
            if section or not sys.stdout.isatty():
                print()
            section = line["section"]
            print(styled(one_line(section), "bold"))
        cited = styled(f"[{', '.join(ids[one] for one in line['artifact_ids'])}]", "dim")
        print(f"  {one_line(line['text'])}  {cited}")


def say_promotion(trust: TrustShape) -> None:
    """Say whether a record that speaks for another was counted, and why not."""
    if trust["promotion"] == "granted":
        how = "both writers are proven by their keys" if trust["signed"] else "writers by their names alone"
        print(f"{styled('promotion: granted', 'green')}, {one_line(trust['promotion_reason'])} ({how})")
    elif trust["promotion"] == "refused":
        print(f"{styled('promotion: refused', 'yellow')}, {one_line(trust['promotion_reason'])}")
        if trust["promotion_reason"] == _NAMELESS:
            note("say who you are with --as, or once and for all: lorelog config set records.agent NAME")


def _lines(value: object) -> str:
    """Return a value to be read: a list of several on lines of their own."""
    if isinstance(value, list) and len(value) > 1:
        return "".join(f"\n    - {_flat(one)}" for one in value)
    return _flat(value)


def _flat(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_flat, value)))
    if isinstance(value, dict):
        return ", ".join(f"{one_line(str(name))} {_flat(one)}" for name, one in value.items())
    return "" if value is None else one_line(" ".join(str(value).split()))


def _cut(text: str, most: int = _GIST) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as their widest; the last is as long as it is."""
    if not rows:
        return
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    left = _columns() - sum(widths) - 2 * len(widths)
    for row in rows:
        cells = "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False))
        if left >= _LEAST_GIST or not row[-1]:
            print(f"{cells}  {_cut(row[-1], left)}".rstrip())
        else:
            print(f"{cells.rstrip()}\n    {row[-1]}")


def _columns() -> int:
    """Return how wide the terminal is; a pipe is as wide as may be."""
    try:
        return (os.get_terminal_size(sys.stdout.fileno()).columns or _WIDE) if sys.stdout.isatty() else _WIDE
    except (OSError, ValueError):
        return _WIDE


def _width(text: str) -> int:
    """Return how wide a text is on the screen: what colours it takes no room."""
    if colourful(sys.stdout):
        import re

        text = re.sub(r"\x1b\[\d+m", "", text)
    return len(text)
