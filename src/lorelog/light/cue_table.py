"""Finds the memories whose cues match a tool call, in a sorted file, while the agent waits.

`services.standing.memories` writes the file: lines `KEY TAB HINT TAB RANK TAB VALUE TAB JSON`, sorted by bytes. A call is
turned into a few keys (parts of its paths, names of its programs, words of its text), and each key is found by binary
search in the file, which is mapped if it is large. A line counts only if the call contains its hint, the longest fixed text of its value; a key
with many lines has one that lists all its hints. Then the value is compared, and JSON is parsed for matches only. The
number of values compared for one key is limited, in the order of `RANK`: own memories first, those never used last, then newest first.

A hook loads this module: it imports `os`, `time` and what a call needs. It never raises: without a readable file nothing matches.
"""

from __future__ import annotations

import os
import time

from lorelog.light.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator
    from typing import Any


MAX_CALL_CHARS = 20_000
MAX_UNLISTED = 32
"""Lines of a table without lists of hints."""
HINT_LIST, HINT_SEPARATOR = b"\x01", "\x1f"
MAX_COMPARED, MAX_FOREIGN_COMPARED = 100, 20
"""Values compared for one key; fewer of memories that came with the repository, which may have been made to be slow."""
MAX_PATHS = 32
_MIN_MAPPED_BYTES = 65_536
"""A smaller table is read, which takes less time than importing `mmap`."""
MAX_COMMANDS_COMPARED = 64
MAX_MATCHES = 20
DAY_WINDOW = 3
"""Days from a cue's day on which a session is shown the memory, because people do not work every day."""
PATH, EXTENSION, COMMAND, TOOL, SYMBOL, ERROR, EVENT, DAY = "p", "x", "c", "t", "s", "e", "v", "d"
"""First letters of the keys."""
SYMBOL_NAMES, ERROR_WORDS = "S", "E"
"""Keys of the lines that list all symbols, or all first words of errors, for one comparison with a text's words."""
_SPECIFICITY = {"path": 3, "command": 3, "tool": 3, "symbol": 3, "error": 3, "event": 1, "day": 2}
_NON_NAME = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_$")}
_FAILED_MOMENTS = ("tool-failed",)
_AFTER_MOMENTS = ("tool-after", "tool-failed")
_READING_NAMES = frozenset({"get", "list", "read", "search", "find", "fetch", "query", "view"})
_TEMPORARY = frozenset({"tmp", "private", "var"})
"""First parts of the paths of temporary directories."""


def match_cues(files: tuple[str, ...], call: dict[str, Any], *, root: str, moment: str) -> list[dict[str, Any]]:
    """Return the memories whose cues match a call, the most specific cue first, one entry per memory.

    `call` is a normalised tool call, `root` the project's directory, and `moment` `tool-before`, `tool-after` or
    `tool-failed`. Output is only there after a call, so errors and failures match then, and everything else before.
    """
    try:
        if not any(map(_size, files)):
            return []
        query = _CallQuery(call, root, moment)
        found = [line for file in files for line in _search(file, query)]
        return _best_matches(found, query.unfit_for_filed)
    except Exception:
        return []


def event_cues(files: tuple[str, ...], event: str, today: str) -> list[dict[str, Any]]:
    """Return the memories with a cue for an event, and those for the days up to `today` (an ISO date)."""
    keys = [(EVENT, event)]
    if event == "session-start":
        keys += [(DAY, day) for day in _recent_days(today)]
    try:
        found = []
        for file in files:
            with _open_table(file) as table:
                found += [match for kind, value in keys for match in table.exact(kind, value)]
        return _best_matches(found)
    except Exception:
        return []


def call_events(call: dict[str, Any]) -> list[str]:
    """Return the events that a tool call is, before it runs."""
    return _CallQuery(call, "", "tool-before").events


class _CallQuery:
    """The parts of a tool call that cues are compared with."""

    __slots__ = (
        "commands",
        "events",
        "is_after",
        "output",
        "output_words",
        "paths",
        "text",
        "tools",
        "unfit_for_filed",
        "words",
    )

    def __init__(self, call: dict[str, Any], root: str, moment: str) -> None:
        self.is_after = moment in _AFTER_MOMENTS
        kind = _text(call, "kind")
        self.commands: list[list[list[str]]] = []
        commands: list[list[str]] = []
        self.paths: list[str] = []
        self.text = self.output = ""
        self.tools: list[str] = []
        self.events: list[str] = []
        self.words: frozenset[str] = frozenset()
        self.output_words: frozenset[str] = frozenset()
        self.unfit_for_filed: tuple[str, ...] = ()
        """Kinds of cues by which a filed rule is not meant here: a tool that only reads, commands in a temporary directory."""
        if self.is_after:
            self.output = _text(call, "output")
            self.output_words = _words(self.output)
            if moment in _FAILED_MOMENTS or call.get("failed") is True:
                self.events = ["failure"]
            return
        self.tools = tool_names(_text(call, "tool").lower())
        if not _READING_NAMES.isdisjoint(self.tools):
            self.unfit_for_filed = ("tool",)
        command = _text(call, "command")
        if kind == "run":
            from lorelog.light.shell_command import command_variants, split_command

            commands = split_command(command)[:MAX_COMMANDS_COMPARED]
            self.commands = list(map(command_variants, commands))
            self.events = _command_events(self.commands)
        if kind in ("edit", "search", "other"):
            self.text = "\n".join((_text(call, "content"), "" if kind == "edit" else command))
            self.words = _words(self.text)
        # Relative to the project's root, with slashes; those outside keep all their parts.
        prefix = os.path.normpath(root) + "/" if root else "/"
        paths = [os.path.normpath(path.replace("\\", "/")) for path in _call_paths(call, kind, commands)]
        place = commands[0][1] if commands and commands[0][0] == "cd" and len(commands[0]) > 1 else ""
        if place.startswith("/") and place.split("/")[1] in _TEMPORARY:
            self.unfit_for_filed = () if f"{os.path.normpath(place)}/".startswith(prefix) else ("command", "event")
        relative = dict.fromkeys(path.removeprefix(prefix).lstrip("/") for path in paths)
        self.paths = [path for path in relative if path not in ("", ".")]


class _CueTable:
    """A sorted file in memory. Use it as a context manager."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self._data = data

    def __enter__(self) -> _CueTable:
        return self

    def __exit__(self, *_: object) -> None:
        if not isinstance(self._data, bytes):
            self._data.close()

    def candidates(self, kind: str, key: str, text: str) -> Iterator[tuple[str, str, bytes]]:
        """Yield rank, value and JSON of the lines with a key whose hint is in a text, best rank first, up to a limit."""
        prefix = f"{kind}{escape_key(key)}\t".encode("utf-8", "replace")
        listed = self._lines(prefix + HINT_LIST, 1)
        if listed:
            # Text is searched eight times faster than bytes.
            hints = [hint for hint in _decode(listed[0][2]).split(HINT_SEPARATOR) if hint in text][:MAX_COMPARED]
            lines = [line for hint in hints for line in self._lines(prefix + f"{hint}\t".encode(), MAX_COMPARED)]
        else:
            lines = [line for line in self._lines(prefix, MAX_UNLISTED) if _decode(line[0]) in text]
        foreign = 0
        for _, rank, value, entry in sorted(lines, key=lambda line: line[1])[:MAX_COMPARED]:
            foreign += rank.startswith(b"1")
            if foreign <= MAX_FOREIGN_COMPARED:
                yield rank.decode(), _decode(value), entry

    def names(self, kind: str) -> list[str]:
        """Return the names that the table lists under a key."""
        lines = self._lines(f"{kind}\t".encode(), 1)
        return _decode(lines[0][2]).split(" ") if lines else []

    def exact(self, kind: str, value: str) -> list[tuple[str, str, bytes]]:
        """Return the lines whose key says everything, such as an event."""
        label = {EVENT: "event", DAY: "day"}[kind]
        return [(rank, f"{label}={value}", entry) for rank, _, entry in self.candidates(kind, value, "")]

    def _lines(self, prefix: bytes, limit: int) -> list[list[bytes]]:
        """Return hint, rank, value and JSON of the first lines with a prefix that begins with a key."""
        data, position = self._data, self._first(prefix)
        lines: list[list[bytes]] = []
        while len(lines) < limit:
            end = data.find(b"\n", position)
            line = data[position:end] if end >= 0 else b""
            if not line.startswith(prefix):
                break
            lines.append(line.split(b"\t", 4)[1:])
            position = end + 1
        return lines

    def _first(self, prefix: bytes) -> int:
        """Return the position of the first line that is not smaller than a prefix."""
        data = self._data
        low, high = 0, len(data)
        while low < high:
            middle = (low + high) // 2
            start = data.rfind(b"\n", low, middle) + 1 or low
            if data[start : start + len(prefix)] < prefix:
                end = data.find(b"\n", middle)
                low = high if end < 0 else end + 1
            else:
                high = start
        return low


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _open_table(file: str) -> _CueTable:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _CueTable(b"")
    try:
        if os.fstat(descriptor).st_size < _MIN_MAPPED_BYTES:
            return _CueTable(os.read(descriptor, _MIN_MAPPED_BYTES))
        import mmap

        return _CueTable(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return _CueTable(b"")
    finally:
        os.close(descriptor)


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _search(file: str, query: _CallQuery) -> list[tuple[str, str, bytes]]:
    with _open_table(file) as table:
        found = [match for event in query.events for match in table.exact(EVENT, event)]
        found += _match_paths(table, query.paths)
        found += _match_commands(table, query.commands)
        for name in query.tools:
            found += [
                (rank, f"tool={value}", entry)
                for rank, value, entry in table.candidates(TOOL, name, "")
                if all(part in query.tools for part in tool_names(value))
            ]
        if query.words:
            found += _match_symbols(table, query)
        if query.output_words:
            found += _match_errors(table, query)
        return found


def _match_paths(table: _CueTable, paths: list[str]) -> Iterator[tuple[str, str, bytes]]:
    keys = [(PATH, part) for path in paths for part in path.split("/") if part]
    keys += [(EXTENSION, extension_of(path)) for path in paths]
    keys += [(PATH, "")] if paths else []
    text = "\n".join(paths)
    from lorelog.light.wildcard import matches_path

    for kind, key in dict.fromkeys(keys):
        for rank, pattern, entry in table.candidates(kind, key, text):
            if any(matches_path(pattern, path) for path in paths):
                yield rank, f"path={pattern}", entry


def _match_commands(table: _CueTable, commands: list[list[list[str]]]) -> Iterator[tuple[str, str, bytes]]:
    if not commands:
        return
    from lorelog.light.shell_command import matches_variant

    by_name: dict[str, list[list[str]]] = {"": []}
    for variants in commands:
        for variant in variants:
            by_name.setdefault(variant[0], []).append(variant)
            by_name[""].append(variant)
    for name, variants in by_name.items():
        text = "\n".join(map(" ".join, variants))
        for rank, pattern, entry in table.candidates(COMMAND, name, text):
            if any(matches_variant(pattern, variant) for variant in variants):
                yield rank, f"command={pattern}", entry


def _match_symbols(table: _CueTable, query: _CallQuery) -> Iterator[tuple[str, str, bytes]]:
    for name in query.words.intersection(table.names(SYMBOL_NAMES)):
        for rank, symbol, entry in table.candidates(SYMBOL, name, name):
            *_, owner, last = "", *symbol.split(".")
            # The last two names of a dotted symbol touch each other: `pool.acquire`, `Pool::acquire`.
            joined = not owner or any(f"{owner}{joint}{last}" in query.text for joint in (".", "::", "#", "->", "()."))
            if joined and all(part in query.words for part in symbol.split(".")):
                yield rank, f"symbol={symbol}", entry


def _match_errors(table: _CueTable, query: _CallQuery) -> Iterator[tuple[str, str, bytes]]:
    from lorelog.light.wildcard import matches_text

    lines = [" ".join(line.split()) for line in query.output.split("\n")]
    text = "\n".join(lines)
    for word in sorted({"", *query.output_words.intersection(table.names(ERROR_WORDS))}):
        named = [line for line in lines if word in line]
        for rank, pattern, entry in table.candidates(ERROR, word, text):
            anywhere = f"*{pattern}*"
            if any(matches_text(anywhere, line) for line in named):
                yield rank, f"error={pattern}", entry


def _best_matches(found: Iterable[tuple[str, str, bytes]], unfit: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return one entry per memory, its most specific cue: own ones first, those never used after them, specific ones first.

    One that needs both a path and what is done there is left out if the call has only one of them.
    """
    ranked = sorted(found, key=lambda match: (match[0][:2], -_specificity(match[1]), match[0]))
    matches: dict[str, dict[str, Any]] = {}
    today = time.strftime("%Y-%m-%d")
    kinds: dict[bytes, set[str]] = {}
    for _, cue, entry in ranked:
        kinds.setdefault(entry, set()).add(cue.partition("=")[0])
    for _, cue, entry in ranked:
        is_whole = "tool" in kinds[entry] or ("path" in kinds[entry] and len(kinds[entry]) > 1)
        try:
            memory = loads(entry)
        except ValueError:
            continue
        identity = memory.get("id") if isinstance(memory, dict) else None
        is_unfit = bool(memory.get("reason")) and cue.partition("=")[0] in unfit
        if not isinstance(identity, str) or is_unfit or (memory.get("both") and not is_whole):
            continue
        if identity not in matches and not "" < memory.get("expires", "") < today:
            matches[identity] = {**memory, "cue": cue}
            if len(matches) == MAX_MATCHES:
                break
    return list(matches.values())


def _specificity(cue: str) -> int:
    from lorelog.light.wildcard import count_literals, has_wildcard

    kind, _, value = cue.partition("=")
    return 1000 * _SPECIFICITY.get(kind, 0) + 2 * count_literals(value) + (0 if has_wildcard(value) else 1)


def _call_paths(call: dict[str, Any], kind: str, commands: list[list[str]]) -> list[str]:
    """Return the files that a call reads, edits or names in a command. A search names a place, not its files."""
    given = call.get("paths")
    paths = [path for path in given if isinstance(path, str)] if isinstance(given, list | tuple) else []
    if kind == "run":
        words = [word for words in commands for word in words[1:]]
        paths += [word for word in words if ("/" in word or "." in word) and not word.startswith(("-", "http", "."))]
        paths += [word.removeprefix("./") for word in words if word.startswith("./")]
    elif kind not in ("edit", "read"):
        return []
    return paths[:MAX_PATHS]


def tool_names(tool: str) -> list[str]:
    """Return the parts of a tool's name: `mcp__linear__create_issue` has four."""
    return tool.translate(_NON_NAME).replace("_", " ").split()


def extension_of(path: str) -> str:
    """Return the suffix of a path with its dot; empty if there is none."""
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return f".{suffix}" if dot and stem else ""


def _command_events(commands: list[list[list[str]]]) -> list[str]:
    from lorelog.light.shell_command import is_commit, is_e2e_run, is_test_run

    events = []
    if any(map(is_commit, commands)):
        events.append("commit")
    tests = [variants for variants in commands if is_test_run(variants)]
    if tests:
        events.append("test")
    if any(map(is_e2e_run, tests)):
        events.append("e2e-test")
    return events


def _words(text: str) -> frozenset[str]:
    """Return the names in a text. `str.translate` takes a fifth of a millisecond for 20,000 characters."""
    return frozenset(text.translate(_NON_NAME).split())


def _text(call: dict[str, Any], name: str) -> str:
    value = call.get(name)
    return value[:MAX_CALL_CHARS] if isinstance(value, str) else ""


def escape_key(key: str) -> str:
    """Return a key without the characters that separate fields and lines."""
    return key.replace("\t", " ").replace("\n", " ")


def _recent_days(today: str) -> list[str]:
    """Return a day and the days before it that still count. Written without `datetime`, which is slow to import."""
    try:
        year, month, day = (int(part) for part in today.split("-"))
    except ValueError:
        return []
    # `mktime` accepts a day 0 and below. At noon no change of the clock moves it to another day.
    noons = [time.mktime((year, month, day - before, 12, 0, 0, 0, 0, -1)) for before in range(DAY_WINDOW)]
    return [time.strftime("%Y-%m-%d", time.localtime(noon)) for noon in noons]
