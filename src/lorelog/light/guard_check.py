"""Check a tool call against the guards. A hook does this before every tool call, so it must be cheap and never fail.

`guards.jsonl` holds events and is the truth. `cache/…/delivery/guards.json` is derived from it: the guards that are on,
valid for exactly one state of the log. If it is missing or older, the log itself is read.

A log that cannot be read completely means that no guard applies: a lost line might have switched a guard off, and a
call must not be blocked because lorelog is broken. `guard_problem` then returns the reason, so that the hook logs it.
"""

from __future__ import annotations

import os

from lorelog.core.paths import cache_folder
from lorelog.light.quick_json import loads
from lorelog.light.shell_command import command_variants, split_command, written_paths
from lorelog.light.wildcard import matches_path, matches_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    GuardEvent = Mapping[str, Any]
    GuardFields = dict[str, Any]
    FileStamp = list[int]


MAX_DISMISSALS = 3
"""Dismissals after which a guard retires."""
MAX_LOG_BYTES = 1_500_000
"""Size of a log, about 10,000 events, up to which a hook reads it without its derived file."""
_MAX_SNAPSHOT_BYTES = 8_000_000
MAX_CONTENT_CHARS = 20_000
_MAX_PATHS = 50
_NOTICE_DAYS = 7
PERSON, AGENT = "person", "agent"
WARN, BLOCK = "warn", "block"
ON, OFF, RETIRED = "on", "off", "retired"
_EVENTS = frozenset({"add", "approve", "enable", "disable", "dismiss", "retire", "remove"})
_TEXT_FIELDS = ("tool", "command", "content", "message", "memory", "project")
_WRITING_KINDS = frozenset({"edit", "run"})
_SHELL_OPERATORS = frozenset("|;&\n")
_outcomes: dict[str, str] = {}
"""Why the last check of each log failed; an empty text if it did not. Saves `guard_problem` a second read."""


def check_guards(file: str, project: str, call: Mapping[str, Any], root: str) -> dict[str, str] | None:
    """Return the strongest guard that a tool call matches, or None. Never raises.

    The reply has `guard` (id), `action` (warn or block), `message` and `memory` (id of the correction, or empty).
    """
    try:
        guards, _ = _read_guards(file)
        found = find_matches([guard for guard in guards if guard["project"] in ("", project)], call, root)
        match = format_match(found[0]) if found else None
    except Exception as error:
        _outcomes[file] = f"{type(error).__name__}: {error}"
        return None
    _outcomes[file] = ""
    return match


def guard_problem(file: str) -> dict[str, str] | None:
    """Return why the guards of a file were not applied, as {"error": reason}; None if they were. Never raises.

    Tells about the last `check_guards` of this process, or, before the first, whether the log can be read.
    """
    reason = _outcomes.get(file)
    if reason is None:
        try:
            _read_guards(file)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    return {"error": f"guards were not applied: {reason}"} if reason else None


def guard_notices(file: str, project: str, today: str) -> list[str]:
    """Return a sentence for each guard of a project that retired within the last days before `today`. Never raises."""
    try:
        _, retired = _read_guards(file)
        return [
            f"lorelog guard {guard['id']} was dismissed {MAX_DISMISSALS} times and has retired: {guard['message']}"
            for guard in retired
            if guard["project"] in ("", project)
            and 0 <= _day_number(today) - _day_number(guard["changed"]) <= _NOTICE_DAYS
        ]
    except Exception:
        return []


def _day_number(day: str) -> int:
    """Return a number for an ISO day; months count 31 days, which is exact enough for a notice."""
    year, month, date = day[:10].split("-")
    return (int(year) * 12 + int(month)) * 31 + int(date)


def find_matches(guards: Iterable[GuardFields], call: Mapping[str, Any], root: str) -> list[GuardFields]:
    """Return the guards that a call matches: those that block first, then the most specific."""
    view = CallView(call, root)
    found = [guard for guard in guards if view.matches(guard)]
    return sorted(found, key=lambda guard: (effective_action(guard) == BLOCK, _specificity(guard)), reverse=True)


def format_match(guard: GuardFields) -> dict[str, str]:
    """Return a guard as a hook passes it to the host."""
    action = effective_action(guard)
    text = (guard["message"] or "the user does not want this call").rstrip(" .")
    if action == BLOCK:
        message = f"Blocked by lorelog guard {guard['id']}: {text}. Only the user can switch this guard off."
    else:
        author = "" if guard["created_by"] == PERSON or guard["approved"] else " (written by an agent)"
        message = f"Warning of lorelog guard {guard['id']}{author}: {text}."
    return {"guard": guard["id"], "action": action, "message": message, "memory": guard["memory"]}


def effective_action(guard: GuardFields) -> str:
    """Return `block` only for a guard that a person wrote or approved."""
    by_person = guard["created_by"] == PERSON or guard["approved"]
    return BLOCK if guard["action"] == BLOCK and by_person else WARN


def _specificity(guard: GuardFields) -> tuple[int, int]:
    texts = [guard["tool"], guard["command"], guard["content"], *guard["paths"]]
    return sum(bool(guard[name]) for name in ("tool", "command", "content", "paths")), sum(map(len, texts))


class CallView:
    """A tool call prepared for matching. Its paths, which the file system resolves, are read when the first guard needs them."""

    def __init__(self, call: Mapping[str, Any], root: str) -> None:
        self._root = root
        self._tool = _text_of(call, "tool").lower()
        self._command = _text_of(call, "command")
        self._content = _text_of(call, "content")[:MAX_CONTENT_CHARS]
        self.kind = _text_of(call, "kind") or ("run" if self._command else "edit" if self._content else "other")
        given = call.get("paths")
        self._given_paths = (
            [path for path in given if isinstance(path, str)] if isinstance(given, (list, tuple)) else []
        )
        self._commands = split_command(self._command) if self._command else []
        # Each with a space after it, the program in lower case, with and without its folder.
        self.texts = [
            " ".join([variant[0].lower(), *variant[1:], ""])
            for words in self._commands
            for variant in command_variants(words, through_runners=False)
        ]
        self._paths: tuple[list[str], list[str]] | None = None

    def matches(self, guard: GuardFields) -> bool:
        """Return True if every condition of a guard holds."""
        tool = guard["tool"].lower()
        if tool and tool != self.kind and not matches_text(tool, self._tool):
            return False
        if guard["command"] and not self._matches_command(guard["command"]):
            return False
        if (guard["paths"] or guard["content"]) and not tool and self.kind not in _WRITING_KINDS:
            return False  # reading a protected file is allowed
        if guard["content"] and not self._matches_content(guard["content"]):
            return False
        if guard["paths"] and not any(self._matches_any_path(pattern) for pattern in guard["paths"]):
            return False
        return bool(tool or guard["command"] or guard["content"] or guard["paths"])

    def _matches_command(self, pattern: str) -> bool:
        if not self._command:
            return False
        pattern = " ".join(pattern.split())
        if _SHELL_OPERATORS & set(pattern):  # curl * | sh
            return matches_text(pattern, " ".join(self._command.split()))
        first, space, rest = pattern.partition(" ")
        folded = first.lower() + space + rest
        literal = _longest_literal(rest)
        # The space after the last word lets `npm *` match `npm`, and `git push *--force *` match a last --force.
        return any(
            literal in text and (matches_text(folded, text) or matches_text(folded, text[:-1])) for text in self.texts
        )

    def _matches_content(self, pattern: str) -> bool:
        if not self._content or _longest_literal(pattern) not in self._content:
            return False
        return any(matches_text(f"*{pattern}*", line) for line in self._content.split("\n"))

    def _matches_any_path(self, pattern: str) -> bool:
        if self._paths is None:
            self._paths = self._collect_paths()
        inside, absolute = self._paths
        folded = os.path.expanduser(pattern).lower()
        # A leading slash means the project's root, as in cues, or the root of the file system.
        candidates = (*inside, *absolute) if folded.startswith("/") else inside
        return any(matches_path(folded, path) for path in candidates)

    def _collect_paths(self) -> tuple[list[str], list[str]]:
        """Return the call's paths in lower case: relative to the project if they lie in it, and from the system's root."""
        given = [*self._given_paths, *written_paths(self._commands)]
        inside: list[str] = []
        absolute: list[str] = []
        for path in given[:_MAX_PATHS]:
            whole = os.path.normpath(os.path.join(self._root, os.path.expanduser(path)))
            for base, name in ((self._root, whole), (os.path.realpath(self._root), os.path.realpath(whole))):
                absolute.append(name.lower().lstrip("/"))
                prefix = base.rstrip("/") + "/"
                if name.startswith(prefix):
                    inside.append(name[len(prefix) :].lower())
        return list(dict.fromkeys(inside)), list(dict.fromkeys(absolute))


def _text_of(call: Mapping[str, Any], name: str) -> str:
    value = call.get(name)
    return value if isinstance(value, str) else ""


def _longest_literal(pattern: str) -> str:
    return max(pattern.replace("?", "*").split("*"), key=len)


# -- the log ---------------------------------------------------------------------------------------------------------


def snapshot_path(file: str) -> str:
    return os.path.join(cache_folder(os.path.dirname(file)), "delivery", "guards.json")


def file_stamp(file: str) -> FileStamp | None:
    """Return size, time and inode of a log; None if there is none."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read_guards(file: str) -> tuple[list[GuardFields], list[GuardFields]]:
    """Return the guards that are on, and those that retired. Raise an exception if the log is damaged."""
    stamp = file_stamp(file)
    if stamp is None:
        return [], []
    snapshot = _read_snapshot(file, stamp)
    if snapshot is not None:
        return snapshot
    with open(file, "rb") as stream:
        data = stream.read(MAX_LOG_BYTES + 1)
    return split_by_state(fold_events(parse_events(data)))


def split_by_state(guards: Mapping[str, GuardFields]) -> tuple[list[GuardFields], list[GuardFields]]:
    """Return the guards that are on, and those that retired."""
    on = [guard for guard in guards.values() if guard["state"] == ON]
    return on, [guard for guard in guards.values() if guard["state"] == RETIRED]


def _read_snapshot(file: str, stamp: FileStamp) -> tuple[list[GuardFields], list[GuardFields]] | None:
    try:
        with open(snapshot_path(file), "rb") as stream:
            snapshot = loads(stream.read(_MAX_SNAPSHOT_BYTES))
        if snapshot["stamp"] != stamp:
            return None
        on, retired = snapshot["on"], snapshot["retired"]
        if all(guard.keys() >= _GUARD_FIELDS for guard in (*on, *retired)):
            return on, retired
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    return None


def parse_events(data: bytes) -> list[GuardEvent]:
    """Return the events of a log. A torn last line is ignored. Raise ValueError for any other malformed line."""
    if len(data) > MAX_LOG_BYTES:
        raise ValueError(f"the log has more than {MAX_LOG_BYTES:,} bytes; 'lorelog guard list' makes it readable")
    lines = [line for line in data.split(b"\n")[:-1] if line.strip()]
    # One call for all lines takes a third of the time of one call per line.
    events = loads(b"[" + b",".join(lines) + b"]")
    if len(events) != len(lines):
        raise ValueError("a line is not one JSON object")
    return [parse_event(event) for event in events]


def parse_event(event: Any) -> GuardEvent:
    """Return an event if all its fields have the right types. Raise ValueError otherwise."""
    if not isinstance(event, dict) or event.get("event") not in _EVENTS:
        raise ValueError("a line is not an event of a guard")
    for name in ("id", "at", "by"):
        if not isinstance(event.get(name), str) or not event[name]:
            raise ValueError(f"an event has no {name}")
    if event["by"] not in (PERSON, AGENT) or event.get("action", WARN) not in (WARN, BLOCK):
        raise ValueError("an event has an unknown author or action")
    if any(not isinstance(event.get(name, ""), str) for name in _TEXT_FIELDS):
        raise ValueError("a field of an event is not text")
    paths = event.get("paths", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError("the paths of an event are not texts")
    return event


def fold_events(events: Iterable[GuardEvent]) -> dict[str, GuardFields]:
    """Return the state of every guard after these events, by id. Events that their author may not cause are ignored."""
    guards: dict[str, GuardFields] = {}
    for event in events:
        kind, identity = event["event"], event["id"]
        guard = guards.get(identity)
        if kind == "add":
            if guard is None:
                guards[identity] = {
                    **{name: event.get(name, "") for name in _TEXT_FIELDS},
                    **dict.fromkeys(("created", "changed"), event["at"]),
                    "id": identity,
                    "created_by": event["by"],
                    "approved": False,
                    "state": OFF,
                    "dismissals": 0,
                    "paths": list(event.get("paths", ())),
                    "action": event.get("action", WARN),
                }
        elif guard is not None and may_change(guard, event["by"]):
            if kind == "remove":
                del guards[identity]
            else:
                _apply(guard, event)
    return guards


def may_change(guard: GuardFields, by: str) -> bool:
    """Return True for a person, and for an agent if no person wrote or approved the guard."""
    return by == PERSON or (guard["created_by"] == AGENT and not guard["approved"])


_GUARD_FIELDS = frozenset(
    (*_TEXT_FIELDS, "id", "paths", "action", "created_by", "approved", "state", "dismissals", "created", "changed")
)


def _apply(guard: GuardFields, event: GuardEvent) -> None:
    kind, by_person = event["event"], event["by"] == PERSON
    if kind == "approve" and by_person:
        guard["approved"] = True
        guard["action"] = event.get("action", guard["action"])
    elif kind == "enable" and (by_person or guard["state"] != RETIRED):
        guard["dismissals"] = 0 if guard["state"] == RETIRED else guard["dismissals"]
        guard["state"] = ON
    elif kind == "disable" and guard["state"] == ON:
        guard["state"] = OFF
    elif kind == "dismiss":
        guard["dismissals"] += 1
        if guard["dismissals"] >= MAX_DISMISSALS:
            guard["state"] = RETIRED
    elif kind == "retire":
        guard["state"] = RETIRED
    else:
        return
    guard["changed"] = event["at"]
