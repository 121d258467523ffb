"""Guards: checks on tool calls that warn or block, made from what a person corrected.

They are kept as events in `guards.jsonl` of the tenant's folder, never in a repository: a cloned repository must not
bring rules that stop an agent. Only a guard that a person wrote or approved may block. A guard of an agent only warns,
and an agent cannot change a guard that a person wrote or approved. A guard that was dismissed three times retires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import asdict

from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import NotFound, UsageError
from lorelog.core.policy import RIGHTS
from lorelog.core.serializable import Serializable, utc_now
from lorelog.light import guard_check
from lorelog.light.delivery_files import short_digest
from lorelog.light.guard_check import AGENT, BLOCK, MAX_DISMISSALS, OFF, ON, PERSON, RETIRED, WARN
from lorelog.services.memory_state.append_log import AppendLog

MAX_PATTERN_CHARS = 300
MAX_MESSAGE_CHARS = 400
MAX_GUARDS = 2_000
_MAX_PATHS = 20
_MIN_LITERAL_CHARS = 2
"""Letters or digits that a pattern must contain: `*` and `* *` match every call."""


class GuardConditions(Serializable, Struct, frozen=True, kw_only=True):
    """The calls that a guard applies to: all conditions that are not empty must hold."""

    tool: str = ""
    """Name of a tool, with wildcards, or one of the kinds edit, run and read."""
    paths: tuple[str, ...] = ()
    """Patterns of files, of which one must match a file that the call writes."""
    command: str = ""
    """Pattern of a simple command: `npm *` matches `cd app && npm install`."""
    content: str = ""
    """Pattern of a part of a line that the call writes."""

    def patterns(self) -> list[str]:
        return [*filter(None, (self.tool, self.command, self.content)), *self.paths]

    def condition_fields(self) -> dict[str, Any]:
        return {"tool": self.tool, "paths": list(self.paths), "command": self.command, "content": self.content}


class GuardDraft(GuardConditions, frozen=True, kw_only=True):
    message: str
    action: str = WARN
    """What it does when it is on: warn or block. An agent's guard without approval never blocks."""
    memory: str = ""
    """Id of the correction it comes from."""
    project: str = ""
    """Id of its project; empty for all projects."""


class Guard(GuardDraft, frozen=True, kw_only=True):
    """A guard in its current state."""

    id: str
    created_by: str
    state: str = OFF
    """`on`, `off` or `retired`."""
    approved: bool = False
    """True if a person approved it."""
    dismissals: int = 0
    created: str = ""
    changed: str = ""

    @property
    def by_person(self) -> bool:
        """True if a person wrote or approved it."""
        return self.created_by == PERSON or self.approved

    def as_fields(self) -> dict[str, Any]:
        """Return the guard as `guard_check` matches it."""
        names = ("id", "action", "message", "memory", "project", "created_by", "approved", "state")
        return self.condition_fields() | {name: getattr(self, name) for name in names}


class GuardChange(Serializable, Struct, frozen=True):
    """A guard after a change."""

    guard: Guard
    changed: bool
    """False if it was in that state before."""
    notes: tuple[str, ...] = ()


class GuardLog:
    """The guards of one tenant, folded from their events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = AppendLog(path, guard_check.parse_event, is_strict=True)

    def all(self) -> list[Guard]:
        """Return all guards, oldest first. Raise StoreDamaged if the log cannot be read."""
        return [
            convert(fields | {"action": guard_check.effective_action(fields)}, Guard)
            for fields in self._fold().values()
        ]

    def visible(self, project: str) -> list[Guard]:
        """Return the guards of a project and the global ones, oldest first."""
        return [guard for guard in self.all() if guard.project in ("", project)]

    def removed(self) -> frozenset[str]:
        """Return the ids of guards that a person removed or refused: they are not proposed again."""
        removed = {event["id"] for event in self._log.lines() if (event["event"], event["by"]) == ("remove", PERSON)}
        return frozenset(removed - {guard.id for guard in self.all()})

    def find(self, identity: str) -> Guard:
        """Return a guard by its id or the beginning of it. Raise NotFound or UsageError."""
        found = [guard for guard in self.all() if guard.id.startswith(identity)] if identity else []
        exact = [guard for guard in found if guard.id == identity]
        if len(found) > 1 and not exact:
            raise UsageError(f"{identity!r} matches {len(found)} guards", hint="use more characters of the id")
        if not found:
            raise NotFound(f"there is no guard {identity[:100]!r}", hint="'lorelog guard list' shows all guards")
        return (exact or found)[0]

    def add(self, draft: GuardDraft, by: str) -> GuardChange:
        """Add a guard, switched off. A guard with the same conditions is not added again."""
        check_draft(draft, by)
        identity = guard_id(draft.project, draft)
        known = {guard.id: guard for guard in self.all()}
        if identity in known:
            return GuardChange(known[identity], False, ("a guard with these conditions exists already",))
        if len(known) >= MAX_GUARDS:
            raise UsageError(f"there are {len(known):,} guards, which is the maximum", hint="lorelog guard remove ID")
        event = {name: getattr(draft, name) for name in ("action", "message", "memory", "project")}
        self._append(identity, by, ("add", draft.condition_fields() | event))
        return GuardChange(self.find(identity), True)

    def enable(self, guard: Guard, by: str, action: str = "") -> GuardChange:
        """Switch a guard on. A person thereby approves it, with `action` if given."""
        wanted = action or guard.action
        if by == AGENT and (wanted == BLOCK or guard.state == RETIRED):
            raise RIGHTS["guard"].refusal("an agent")
        self._check_may_change(guard, by)
        if guard.state == ON and guard.action == wanted and (by == AGENT or guard.by_person):
            return GuardChange(guard, False)
        events: list[tuple[str, dict[str, Any]]] = [("enable", {})]
        if by == PERSON:
            events.insert(0, ("approve", {"action": wanted}))
        self._append(guard.id, by, *events)
        return GuardChange(self.find(guard.id), True)

    def disable(self, guard: Guard, by: str) -> GuardChange:
        self._check_may_change(guard, by)
        if guard.state != ON:
            return GuardChange(guard, False)
        self._append(guard.id, by, ("disable", {}))
        return GuardChange(self.find(guard.id), True)

    def dismiss(self, guard: Guard, by: str) -> GuardChange:
        """Count a wrong match. The third one retires the guard."""
        self._check_may_change(guard, by)
        if guard.state == RETIRED:
            return GuardChange(guard, False, (f"{guard.id} has retired already",))
        retires = guard.dismissals + 1 >= MAX_DISMISSALS
        events: list[tuple[str, dict[str, Any]]] = [("dismiss", {})]
        if retires:
            events.append(("retire", {"reason": f"dismissed {MAX_DISMISSALS} times"}))
        self._append(guard.id, by, *events)
        note = f"{guard.id} was dismissed {MAX_DISMISSALS} times and has retired: it no longer warns or blocks"
        return GuardChange(self.find(guard.id), True, (note,) if retires else ())

    def remove(self, guard: Guard, by: str) -> GuardChange:
        self._check_may_change(guard, by)
        self._append(guard.id, by, ("remove", {}))
        return GuardChange(guard, True)

    def refresh_snapshot(self) -> None:
        """Write the derived file that hooks read. An error is ignored: hooks then read the log."""
        with suppress(OSError):
            stamp = guard_check.file_stamp(str(self.path))
            on, retired = guard_check.split_by_state(self._fold())
            text = json.dumps({"stamp": stamp, "on": on, "retired": retired}, ensure_ascii=False)
            target = Path(guard_check.snapshot_path(str(self.path)))
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(target, text.encode("utf-8", "replace"), durable=False)

    def _fold(self) -> dict[str, dict[str, Any]]:
        return guard_check.fold_events(self._log.lines())

    def _append(self, identity: str, by: str, *events: tuple[str, Mapping[str, Any]]) -> None:
        at = utc_now()
        self._log.append({"event": kind, "id": identity, "at": at, "by": by, **fields} for kind, fields in events)
        self.refresh_snapshot()

    def _check_may_change(self, guard: Guard, by: str) -> None:
        if by == AGENT and guard.by_person:
            raise RIGHTS["guard"].refusal("an agent")


def check_draft(draft: GuardDraft, by: str) -> None:
    """Raise UsageError if a guard may not be added."""
    check_patterns(draft)
    check_literals(draft)
    if draft.action not in (WARN, BLOCK):
        raise UsageError(f"{draft.action!r} is not an action of a guard", hint="use warn or block")
    if by == AGENT and draft.action == BLOCK:
        raise RIGHTS["guard"].refusal("an agent")
    if len(draft.message) > MAX_MESSAGE_CHARS or "\n" in draft.message:
        raise UsageError(f"the message must be one line of at most {MAX_MESSAGE_CHARS} characters")


def check_patterns(conditions: GuardConditions) -> None:
    """Raise UsageError for patterns that are too long or too many."""
    if len(conditions.paths) > _MAX_PATHS:
        raise UsageError(f"a guard has at most {_MAX_PATHS} paths (got {len(conditions.paths)})")
    for pattern in conditions.patterns():
        if len(pattern) > MAX_PATTERN_CHARS or "\n" in pattern or "\0" in pattern:
            raise UsageError(f"a pattern must be one line of at most {MAX_PATTERN_CHARS} characters")


def check_literals(conditions: GuardConditions) -> None:
    """Raise UsageError for a guard without conditions, or with a pattern such as `*`."""
    if not conditions.patterns():
        raise UsageError("a guard without a condition matches every call", hint="give --command, --path or --content")
    for pattern in conditions.patterns():
        enough = 1 if pattern in conditions.paths else _MIN_LITERAL_CHARS  # `*.c` is a kind of file
        if sum(letter.isalnum() for letter in pattern) < enough:
            raise UsageError(
                f"the pattern {pattern!r} matches nearly every call",
                hint="name at least two letters or digits, as in 'npm *'",
            )


def guard_id(project: str, conditions: GuardConditions) -> str:
    """Return the id of a guard: the same conditions in the same project have the same id."""
    return "g" + short_digest(json.dumps([project, *conditions.condition_fields().values()], ensure_ascii=False))[:8]


def describe_conditions(conditions: GuardConditions) -> str:
    """Return the conditions in words: `command 'npm *'`."""
    names = ("tool", "command", "content")
    parts = [f"{name} {value!r}" for name in names if (value := getattr(conditions, name))]
    return ", ".join([*parts, *([f"path {' or '.join(map(repr, conditions.paths))}"] if conditions.paths else [])])


def guard_from_draft(draft: GuardDraft, by: str) -> Guard:
    """Return the guard that adding a draft would make, for a replay."""
    return Guard(id=guard_id(draft.project, draft), created_by=by, **asdict(draft))
