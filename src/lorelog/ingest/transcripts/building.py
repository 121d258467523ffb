"""Turns under construction, within limits, so that neither a long conversation nor a long answer fills the memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from lorelog.core.session import Deed, Told
from lorelog.core.transcript import ToolCall, Turn
from lorelog.ingest.transcripts.deeds import deed_of, failure_of, faults_of

TEXT_CHARS = 20_000
"""Of what the user or the assistant said in one turn."""
RESULT_CHARS = 500
INPUT_CHARS = 300
TOOLS = 100
"""Calls of one turn that are kept: the first ones; the others are counted."""
_SAID = 4
"""Texts of the assistant that are told of a turn: the last ones."""
_DEEDS = 400
_FAULTS = 50
"""Errors that are told of a turn: the first ones."""
_ID_CHARS = 200
_NAME_CHARS = 100
_TELLING = (
    "command",
    "cmd",
    "file_path",
    "filePath",
    "pattern",
    "query",
    "path",
    "url",
    "description",
    "prompt",
    "skill",
)
"""Arguments that say what a call is about, best first."""
_CLEAR_MILLISECONDS = 100_000_000_000
"""Larger numbers are milliseconds since 1970, smaller ones seconds: as seconds this is the year 5138."""

Record = dict[str, Any]


@dataclass(slots=True)
class Tally:
    """What was met on the way beside turns."""

    skipped: int = 0
    broken: int = 0
    session: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    """What to tell about the conversation, and how often it was met."""

    def note(self, text: str) -> None:
        """Count something worth telling."""
        self.notes[text] = self.notes.get(text, 0) + 1


@dataclass(frozen=True, slots=True)
class Found:
    """A turn, every name that the host has for something in it, and what there is to tell of it."""

    turn: Turn
    names: frozenset[str]
    told: Told = field(default_factory=Told)
    began: float | None = None
    """Seconds since 1970; None when nothing says so."""
    texts: int = 0
    """How often the assistant has said something."""
    calls: int = 0
    """Tools that were called, with those that are not kept."""
    open: bool = False
    """Nothing says that it has ended, and it does not look as if it had: it was asked last, or a tool was called."""


class _Text:
    """Pieces of text up to a limit; of what comes later only the length is kept."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self.left_out = 0

    def add(self, text: str) -> None:
        text = text.strip()
        if not text:
            return
        room = max(0, TEXT_CHARS - self._length)
        self.left_out += len(text) - min(room, len(text))
        if room:
            self._pieces.append(text[:room])
            self._length += min(room, len(text))

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __str__(self) -> str:
        text = "\n\n".join(self._pieces)
        return f"{text}… [{self.left_out:,} more characters]" if self.left_out else text


class TurnBuilder:
    """A turn that is still going on."""

    def __init__(self, identity: object = "", time: object = "", *, sidechain: bool = False) -> None:
        self.identity = text_of(identity)
        self.time = ""
        self.began: float | None = None
        self.begin(time)
        self.sidechain = sidechain
        self.interrupted = False
        self.failed = False
        """The host gave up on it."""
        self.ended = False
        """The host says that it is over."""
        self.pending = False
        """The host says that it is not."""
        self._has_last_word = False
        self.names: set[str] = {self.identity} - {""}
        self._user = _Text()
        self._assistant = _Text()
        self._tools: list[ToolCall] = []
        self._calls: dict[str, int] = {}
        self._left_out = 0
        self._last: deque[str] = deque(maxlen=_SAID)
        self._texts = 0
        self._deeds: list[Deed] = []
        self._deeds_by_call: dict[str, int] = {}
        self._faults = 0

    @property
    def has_request(self) -> bool:
        """Something was asked."""
        return bool(self._user)

    @property
    def has_answer(self) -> bool:
        """Something was said or done about it."""
        return bool(self._assistant or self._tools)

    @property
    def has_words(self) -> bool:
        """The assistant said something."""
        return bool(self._assistant)

    @property
    def has_tools(self) -> bool:
        """A tool was called."""
        return bool(self._tools)

    def name(self, *names: object) -> None:
        """Remember names by which this turn may be asked for."""
        self.names.update(one for one in names if isinstance(one, str) and one)

    def begin(self, time: object) -> None:
        """Take note of when it began."""
        when = instant(time)
        self.time = moment(time)
        self.began = None if when is None else when.timestamp()

    def ask(self, text: object) -> None:
        """Add to the request."""
        self._user.add(text_of(text))
        self._has_last_word = False

    def say(self, text: object) -> None:
        """Add to the answer."""
        said = text_of(text)
        self._assistant.add(said)
        if said.strip():
            self._last.append(said)
            self._texts += 1
            self._has_last_word = True

    def call(self, call: object, name: object, given: object) -> None:
        """Add a tool call; of equal ids the first counts."""
        identity = text_of(call)
        if identity and identity in self._deeds_by_call:
            return
        self._has_last_word = False
        self._deeds_by_call[identity or f"unnamed {len(self._deeds_by_call)}"] = len(self._deeds)
        if len(self._deeds) < _DEEDS:
            self._deeds.append(deed_of(text_of(name).strip()[:_NAME_CHARS] or "tool", given))
        if len(self._tools) >= TOOLS:
            self._left_out += 1
            return
        if identity:
            self._calls[identity] = len(self._tools)
        short, cut = shorten(describe(given), INPUT_CHARS)
        self._tools.append(ToolCall(text_of(name).strip()[:_NAME_CHARS] or "tool", short, truncated=cut))

    def answer(self, call: object, result: object, *, failed: bool = False) -> None:
        """Add what a tool answered; an answer to a call that nobody saw is dropped."""
        deed = self._deeds_by_call.get(text_of(call))
        if deed is None:
            return
        text = result_text(result)
        if deed < len(self._deeds) and not self._deeds[deed].failed:
            wrong, why = failure_of(text, failed=failed)
            done = replace(self._deeds[deed], failed=wrong, error=text_of(why))
            faults = faults_of(text_of(text), done) if self._faults < _FAULTS else ()
            self._faults += len(faults)
            self._deeds[deed] = replace(done, faults=faults)
        number = self._calls.get(text_of(call))
        if number is None:
            return
        before = self._tools[number]
        if before.result:
            return
        short, cut = shorten(text, RESULT_CHARS)
        self._tools[number] = ToolCall(before.name, before.input, short, failed, before.truncated or cut)

    def find(self, number: int, identity: str) -> Found:
        """Return the turn as it is now, with its names and what there is to tell of it."""
        told = Told(str(self._user), tuple(self._last), tuple(self._deeds), self.interrupted, self.failed)
        turn = self.build(number, identity)
        over = self.ended or self.interrupted or self.failed
        is_open = not over and (self.pending or not self._has_last_word)
        extent = (self._texts, len(self._deeds_by_call), is_open)
        return Found(turn, frozenset(self.names), told, self.began, *extent)

    def build(self, number: int, identity: str) -> Turn:
        """Return the turn as it is now."""
        return Turn(
            id=identity,
            number=number,
            time=self.time,
            user=str(self._user),
            assistant=str(self._assistant),
            tools=tuple(self._tools),
            sidechain=self.sidechain,
            interrupted=self.interrupted,
            truncated=bool(
                self._user.left_out
                or self._assistant.left_out
                or self._left_out
                or any(one.truncated for one in self._tools)
            ),
            tools_left_out=self._left_out,
        )


def number_turns(builders: Iterable[TurnBuilder]) -> Iterator[Found]:
    """Build turns in their order, with ids that no two of them share; empty ones are no turns."""
    used: set[str] = set()
    number = 0
    for builder in builders:
        if not builder.has_request and not builder.has_answer:
            continue
        number += 1
        wanted = "".join(builder.identity.split())[:_ID_CHARS] or f"turn-{number}"
        identity, again = wanted, 1
        while identity in used:
            again += 1
            identity = f"{wanted}#{again}"
        used.add(identity)
        yield builder.find(number, identity)


def text_of(value: object) -> str:
    """Return a text that can be encoded: JSON may hold half of a surrogate pair."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def texts_of(content: object, kinds: Iterable[str] = ("text",)) -> str:
    """Return what a message says, whose content is a text or a list of blocks, of which some kinds are text."""
    if isinstance(content, str):
        return text_of(content)
    wanted = frozenset(kinds)
    said = [text_of(one.get("text")) for one in blocks_of(content) if kind_of(one) in wanted]
    return "\n\n".join(one for one in said if one.strip())


def blocks_of(content: object) -> list[Record]:
    """Return the blocks of a message's content; a bare text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def kind_of(record: Record) -> str:
    """Return a record's type, or an empty text: other values could not even be looked up."""
    kind = record.get("type")
    return kind if isinstance(kind, str) else ""


def record_of(value: object) -> Record:
    """Return a JSON object, or an empty one in the place of anything else."""
    return value if isinstance(value, dict) else {}


def shorten(text: str, limit: int) -> tuple[str, bool]:
    """Return at most so many characters of a text, saying how many more there are, and whether there are."""
    text = text_of(text.strip("\r\n").rstrip())
    return (f"{text[:limit]}… [{len(text) - limit:,} more characters]", True) if len(text) > limit else (text, False)


def describe(given: object) -> str:
    """Return what a call's arguments are about: a telling one alone, or all of them as JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.lstrip()[:1] in {"{", "["} else given
        except (ValueError, RecursionError):
            return given
    if isinstance(given, dict):
        telling = next((given[key] for key in _TELLING if given.get(key)), None)
        if isinstance(telling, list) and all(isinstance(word, str) for word in telling):
            return " ".join(telling)
        if isinstance(telling, str):
            return telling
    if given is None or given in ({}, []):
        return ""
    return given if isinstance(given, str) else _as_json(given)


def result_text(result: object) -> str:
    """Return what a tool answered as text: hosts wrap it in blocks, objects, or JSON within a string."""
    if isinstance(result, str):
        return _unwrapped(result)
    if isinstance(result, list):
        said = [
            text_of(one.get("text")) if isinstance(one.get("text"), str) else f"[{text_of(one.get('type')) or 'data'}]"
            for one in blocks_of(result)
        ]
        return "\n".join(said)
    if isinstance(result, dict):
        for key in ("output", "content", "text", "result", "error", "message"):
            if result.get(key):
                return result_text(result[key])
    return "" if result is None else _as_json(result)


def moment(value: object) -> str:
    """Return a time as ISO in UTC, to the second; empty if it is none."""
    when = instant(value)
    return "" if when is None else when.strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(value: object) -> datetime | None:
    """Return a time in UTC, whether it was text or a number of seconds or milliseconds; None if neither."""
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            when = datetime.fromtimestamp(value / 1000 if value > _CLEAR_MILLISECONDS else value, UTC)
        else:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return when.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _unwrapped(text: str) -> str:
    if text.startswith('{"output"'):
        try:
            output = record_of(json.loads(text)).get("output")
        except (ValueError, RecursionError):
            return text
        return output if isinstance(output, str) else text
    return text


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""
