"""Notes whether the memories that a session was shown were used, where that can be seen in its turns.

Precision comes before recall: a memory that only looks used would stay in front of better ones. Four signs count:

- `id`: the assistant wrote the memory's id, in its text or in a tool call.
- `obeyed`: a guard blocked a call, or it was held because of the memory, and the same call was not made again.
- `changed`: after a tool call that brought the memory, a similar call contains a word of the memory that the first one
  did not contain, and the first one is not repeated ("use pnpm": `npm install`, then `pnpm install`).
- `words`: the assistant wrote words that are distinctive for the memory and that came from nowhere else: not from the
  user, not from tool results, not from earlier turns.

The result is kept beside the log, `<host>.<digest>.used.jsonl`. A memory without any sign is noted as `none` for each
turn that was read, so that a delivery whose turns were never read is not counted as unused.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lorelog.core.dataclasses import dataclass
from lorelog.core.paths import cache_folder
from lorelog.core.patterns import lazy_pattern
from lorelog.core.session import ToolAction, parse_iso_time
from lorelog.ingest.transcripts.turns import ParsedTurn
from lorelog.retrieval.analyser import STOP_WORDS
from lorelog.services.delivery.log import append_line, call_digest, read_lines, session_log
from lorelog.services.usage.history import NOT_USED, Delivery, read_session, used_file

MAX_TURNS = 3
"""Turns after a delivery in which distinctive words count. Later ones have their own reasons."""
MIN_PLAIN_WORDS = 3
"""Ordinary distinctive words that must occur together; one identifier is enough."""
_CLOCK_SLACK_S = 2.0
"""The log has whole seconds, and a hook may run just before the host notes the prompt's time."""
_MIN_ID_CHARS = 8
"""Characters of a shortened id."""
_MAX_TEXT_CHARS = 100_000
_WORD = lazy_pattern(r"[^\W_](?:[\w./:@-]*[^\W_])?")
_IDENTIFIER = lazy_pattern(r"[a-z\d][A-Z]|[^\W\d_]\d|[^\W_][_./:@-][^\W_]")
"""Case change, digit or separator inside a word."""
_HYPHENATED = lazy_pattern(r"[^\W\d_]+(?:-[^\W\d_]+)+")
"""Hyphenated prose, such as `well-known`, is not an identifier."""
_HEX_ID = lazy_pattern(r"[0-9a-f]{8,}(?:-[0-9a-f]+)*")
_MIN_IDENTIFIER_CHARS = 6
_MIN_PLAIN_CHARS = 5
_MIN_CHANGED_CHARS = 3
_COMMON_WORDS = frozenset(
    """
    able about above across added adding after again against agent almost along already also although always among
    another answer anything apply around asked avoid based because become been before begin behind below better
    between branch breaking bring build built called calls cannot cause certain change changed changes check
    checks class clean clear code command commands commit commits complete config configuration contains content
    context correct could create created current data default delete description different directory does doing
    done during each either else ensure entry error errors even ever every everything exactly example except exist
    existing exists expected explain fail failed failing fails false feature field file files find first fixed
    fixes folder follow following format found from full function functions future general generated getting give
    given good group handle happens have help here however implement implementation import important include
    included index inside install instead into issue issues itself just keep kind know large last later least
    leave library like line lines list little local logic long look main make makes making many match matches
    maybe mean means message method might missing mode module more most move much must name named names need
    needed needs never next nothing note number object once only open option options order original other
    otherwise output over package page parameter part pass passed path paths place plan please point possible
    prefer present problem process project properly provide push python query question quick rather read really
    reason recent related release remember remove removed replace report repository request require required
    response result results return returned right rule rules running same save schema script search second section
    seems select server session setting settings several should show shown similar simple simply since single
    small some something source specific stable start state statement step still stop store string such suite sure
    system table take task test tested testing tests text than that their them then there these they thing things
    think this those though three through time together tool tools true turn type types under unless until update
    updated upon used user users uses using usually valid value values variable verify version very want wanted
    what when where whether which while whole will with within without word words work working works would write
    written wrong your
    """.split()  # noqa: SIM905 (a list literal would take ten screens)
)
TextOf = Callable[[str], str]


def note_usage(
    deliveries_folder: Path, host: str, session: str, turns: Sequence[ParsedTurn], text_of: TextOf | None = None
) -> dict[str, str]:
    """Note the memories that these turns of a session used; return how, by memory id.

    Turns may be given once or repeatedly, all at once or as they end, in the order of the conversation. `text_of`
    returns the text of a memory that is not in the standing files, or an empty text. Never raises OSError.
    """
    log = Path(session_log(str(deliveries_folder), host, session))
    deliveries = read_session(log)
    if not deliveries or not turns:
        return {}
    known = _KnownUsage.read(log)
    texts = _MemoryTexts(Path(cache_folder(deliveries_folder.parent)) / "delivery", text_of)
    conversation = _Conversation(turns)
    found: dict[str, str] = {}
    for delivery in deliveries:
        first = conversation.first_turn(delivery.at)
        for memory in delivery.memories if first is not None else ():
            if memory in known.used:
                continue
            evidence = _Evidence(delivery, memory, texts, conversation)
            for turn, how in evidence.judge(first or 0, known.turns_of(memory)):
                known.add(turn, how, memory)
                if how != NOT_USED:
                    found[memory] = how
                    break
    with suppress(OSError):
        known.save()
    return found


class _KnownUsage:
    """What the file of a session says, and the lines to be added."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.used: set[str] = set()
        self._looked: dict[str, dict[str, None]] = {}
        self._new: dict[tuple[str, str], list[str]] = {}

    @classmethod
    def read(cls, log: Path) -> _KnownUsage:
        known = cls(used_file(log))
        for line in read_lines(str(known._file)):
            memories = line.get("memories")
            for memory in memories if isinstance(memories, list) else ():
                if isinstance(memory, str):
                    known._remember(str(line.get("turn", "")), str(line.get("how", "")), memory)
        return known

    def turns_of(self, memory: str) -> Mapping[str, None]:
        """Return the turns that were read after a memory was delivered."""
        return dict(self._looked.get(memory, {}))

    def add(self, turn: str, how: str, memory: str) -> None:
        if how == NOT_USED and turn in self._looked.get(memory, {}):
            return
        self._remember(turn, how, memory)
        self._new.setdefault((turn, how), []).append(memory)

    def save(self) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for (turn, how), memories in self._new.items():
            line = {"at": at, "turn": turn, "how": how, "memories": memories}
            append_line(str(self._file), json.dumps(line, ensure_ascii=False).encode("utf-8", "replace"))

    def _remember(self, turn: str, how: str, memory: str) -> None:
        self._looked.setdefault(memory, {})[turn] = None
        if how not in {"", NOT_USED}:
            self.used.add(memory)


class _MemoryTexts:
    """Texts of memories: those of the standing files, and others on demand."""

    def __init__(self, folder: Path, text_of: TextOf | None) -> None:
        self._texts: dict[str, str] = {}
        for file in sorted(folder.glob("*.standing.jsonl")):
            for line in read_lines(str(file)):
                if isinstance(line.get("id"), str) and isinstance(line.get("text"), str):
                    self._texts[line["id"]] = line["text"]
        self._text_of = text_of or (lambda _: "")
        self._counts: Counter[str] | None = None

    def text(self, memory: str) -> str:
        if memory not in self._texts:
            self._texts[memory] = self._text_of(memory)[:_MAX_TEXT_CHARS]
            self._counts = None
        return self._texts[memory]

    def distinctive(self, memory: str) -> frozenset[str]:
        """Return the words of a memory that few other memories contain."""
        words = set(find_words(self.text(memory)))
        if self._counts is None:
            self._counts = Counter(word for text in self._texts.values() for word in set(find_words(text)))
        limit = max(1, len(self._texts) // 50)
        return frozenset(word for word in words if self._counts[word] <= limit)


@dataclass(frozen=True, slots=True)
class _TurnView:
    """The words of a turn by who wrote them."""

    id: str
    request: frozenset[str]
    results: frozenset[str]
    spoken: str
    """All texts of the assistant."""
    conclusion: str
    """The last text, which was written after all tool calls."""
    actions: tuple[ToolAction, ...]
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, turn: ParsedTurn) -> _TurnView:
        shown, digest = turn.turn, turn.digest
        return cls(
            id=shown.id,
            request=frozenset(find_words(f"{shown.user}\n{digest.request}")),
            results=frozenset(find_words("\n".join(tool.result for tool in shown.tools))),
            spoken="\n".join((shown.assistant, *digest.assistant_texts)),
            conclusion=digest.assistant_texts[-1] if digest.assistant_texts else "",
            actions=digest.actions,
            inputs=tuple(tool.input for tool in shown.tools),
        )

    def all_words(self) -> frozenset[str]:
        return self.request | self.results | frozenset(find_words("\n".join((self.spoken, *self.calls(0)))))

    def calls(self, start: int) -> Iterator[str]:
        """Yield the text of the tool calls from an index on."""
        for index, action in enumerate(self.actions[start:], start):
            yield _action_text(action) or (self.inputs[index] if index < len(self.inputs) else "")

    def find_call(self, target: str) -> list[int]:
        """Return the indexes of the calls with a digest."""
        return [index for index, _ in enumerate(self.actions) if target and target in self._digests(index)]

    def _digests(self, index: int) -> tuple[str, ...]:
        action = self.actions[index]
        read = self.inputs[index] if index < len(self.inputs) and not action.command and not action.files else ""
        return (call_digest(action.command, action.files), call_digest("", (read,)) if read else "")


class _Conversation:
    """The turns of a session in order."""

    def __init__(self, turns: Sequence[ParsedTurn]) -> None:
        self.views = [_TurnView.of(turn) for turn in turns]
        self._ends: list[float | None] = []
        end: float | None = None
        for turn in reversed(turns):
            self._ends.append(end)
            end = end if turn.start_time is None else turn.start_time
        self._ends.reverse()
        self._heard: dict[int, frozenset[str]] = {0: frozenset()}

    def first_turn(self, at: str) -> int | None:
        """Return the index of the turn in which, or before which, a delivery was made; None if it came after all."""
        moment = parse_iso_time(at)
        if moment is None:
            return None
        when = moment.timestamp() + _CLOCK_SLACK_S
        return next((index for index, end in enumerate(self._ends) if end is None or end > when), None)

    def words_before(self, index: int) -> frozenset[str]:
        """Return all words of the turns before one."""
        if index not in self._heard:
            known = max(number for number in self._heard if number < index)
            later = (view.all_words() for view in self.views[known:index])
            self._heard[index] = self._heard[known].union(*later)
        return self._heard[index]


class _Evidence:
    """Looks for signs that a memory of a delivery was used."""

    def __init__(self, delivery: Delivery, memory: str, texts: _MemoryTexts, conversation: _Conversation) -> None:
        self._delivery, self._memory, self._texts, self._conversation = delivery, memory, texts, conversation

    def judge(self, first: int, looked: Mapping[str, None]) -> Iterator[tuple[str, str]]:
        """Yield each turn from the first on with the sign found in it, or `none`, up to the first sign."""
        heard = self._conversation.words_before(first)
        turns = dict(looked)
        for number, view in enumerate(self._conversation.views[first:]):
            heard |= view.request
            turns[view.id] = None
            is_first = number == 0 and next(iter(turns)) == view.id
            position = list(turns).index(view.id)
            how = self._sign(view, heard | view.results, is_first=is_first, is_near=position < MAX_TURNS)
            if how:
                yield view.id, how
                return
            if position < MAX_TURNS:
                yield view.id, NOT_USED

    def _sign(self, view: _TurnView, heard: frozenset[str], *, is_first: bool, is_near: bool) -> str:
        calls = view.find_call(self._delivery.target) if is_first else []
        is_tool = self._delivery.moment.startswith("tool-")
        start = calls[0] + 1 if calls else len(view.actions) if is_tool and is_first else 0
        text = "\n".join((view.conclusion if is_tool and is_first else view.spoken, *view.calls(start)))
        if contains_id(text, self._memory):
            return "id"
        is_stopped = bool(self._delivery.guard and self._delivery.action != "warn") or self._delivery.action == "hold"
        if calls and is_stopped and not self._delivery.guard and self._is_changed(view, calls, heard):
            return "changed"
        if calls and is_stopped:
            obeyed = len(calls) == 1 and view.actions[calls[0]].failed
            return "obeyed" if obeyed else ""
        if calls and self._delivery.moment == "tool-before" and self._is_changed(view, calls, heard):
            return "changed"
        if not is_near:
            return ""
        called = frozenset(word for index in calls for word in find_words(_call_text(view, index)))
        return "words" if self._has_words(frozenset(find_words(text)), heard | called) else ""

    def _is_changed(self, view: _TurnView, calls: Sequence[int], heard: frozenset[str]) -> bool:
        """Return whether the call was not repeated and a similar one follows that has a word of the memory."""
        if len(calls) > 1:
            return False
        original = view.actions[calls[0]]
        before = heard | {word for text in list(view.calls(0))[: calls[0] + 1] for word in find_words(text)}
        wanted = {
            word
            for word in find_words(self._texts.text(self._memory))
            if len(word) >= _MIN_CHANGED_CHARS and word not in _COMMON_WORDS and word not in before
        }
        known_words = set(original.command.lower().split())
        for action in view.actions[calls[0] + 1 :]:
            words = set(find_words(_action_text(action)))
            if original.command:
                is_similar = bool(action.command) and bool(known_words & set(action.command.lower().split()))
            else:
                is_similar = bool(action.files) and not set(action.files) & set(original.files)
            if is_similar and wanted & words:
                return True
        return False

    def _has_words(self, written: frozenset[str], heard: frozenset[str]) -> bool:
        words = (self._texts.distinctive(self._memory) & written) - heard
        if any(_is_identifier(word, self._texts.text(self._memory)) for word in words):
            return True
        plain = [word for word in words if len(word) >= _MIN_PLAIN_CHARS and word not in _COMMON_WORDS]
        return len(plain) >= MIN_PLAIN_WORDS


def contains_id(text: str, memory: str) -> bool:
    """Return whether a text contains a memory's id, or the beginning of a long hexadecimal one."""
    if not memory:
        return False
    if re.search(rf"(?<![\w-]){re.escape(memory)}(?![\w-])", text):
        return True
    if not _HEX_ID.fullmatch(memory):
        return False
    return any(
        len(match[0]) >= _MIN_ID_CHARS and memory.startswith(match[0])
        for match in re.finditer(r"(?<![\w-])[0-9a-f]{8}[0-9a-f-]*(?![\w-])", text)
    )


def find_words(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case without stop words; identifiers and paths are whole words."""
    for match in _WORD.finditer(text[:_MAX_TEXT_CHARS].lower()):
        word = match[0]
        if len(word) >= _MIN_CHANGED_CHARS and word not in STOP_WORDS:
            yield word


def _is_identifier(word: str, text: str) -> bool:
    """Return whether a word of a text is an identifier, a path or a version, by how the text spells it."""
    if len(word) < _MIN_IDENTIFIER_CHARS or _HYPHENATED.fullmatch(word):
        return False
    start = text.lower().find(word)
    spelled = text[start : start + len(word)] if start >= 0 else word
    return bool(_IDENTIFIER.search(spelled))


def _call_text(view: _TurnView, index: int) -> str:
    return next(iter(list(view.calls(index))), "")


def _action_text(action: ToolAction) -> str:
    return " ".join(filter(None, (action.command, *action.files)))
