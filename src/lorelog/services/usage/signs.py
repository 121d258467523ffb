"""Notes whether the memories that a session was shown were used, where that can be seen in its turns.

Precision comes before recall: a memory that only looks used would stay in front of better ones. Three signs of use count:

- `id`: the assistant wrote the memory's id, in its text or in a tool call.
- `obeyed`: a guard blocked a call, or it was held because of the memory, and the same call was not made again.
- `changed`: after a tool call that brought the memory, a similar call has a program, an option, a path or a word in code of the
  memory that stood nowhere before, and the first one is not repeated ("use pnpm": `npm install`, then `pnpm install`).

If the user rejected that other call, the memory was `contradicted`: it made the agent do what the user did not want.

The result is kept beside the log, `<host>.<digest>.used.jsonl`. A memory without any sign is noted as `none` for the
first turns that were read, so that a delivery whose turns were never read is not counted as unused.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from lorelog.core.atomic_file import append_line
from lorelog.core.paths import cache_folder
from lorelog.core.serializable import parse_iso_time
from lorelog.core.session import ToolAction
from lorelog.ingest.transcripts.turns import ParsedTurn
from lorelog.ingest.transcripts.user_replies import is_rejection
from lorelog.light.delivery_log import call_digest, read_lines, session_log
from lorelog.light.shell_command import command_variants, split_command
from lorelog.services.usage.history import CONTRADICTED, NOT_USED, SIGNS, Delivery, read_session, used_file

MAX_TURNS = 3
"""Turns after a delivery that are noted as read without a sign."""
_CLOCK_SLACK_S = 2.0
"""The log has whole seconds, and a hook may run just before the host notes the prompt's time."""
_MIN_ID_CHARS = 8
"""Characters of a shortened id."""
_MAX_TEXT_CHARS = 100_000
_PUNCTUATION = "`'\"()[]{}<>,;:.!?*"
_HEX_ID = re.compile(r"[0-9a-f]{8,}(?:-[0-9a-f]+)*")


def note_usage(deliveries_folder: Path, host: str, session: str, turns: Sequence[ParsedTurn]) -> dict[str, str]:
    """Note the memories that these turns of a session used; return how, by memory id.

    Turns may be given once or repeatedly, all at once or as they end, in the order of the conversation. Never raises OSError.
    """
    log = Path(session_log(str(deliveries_folder), host, session))
    deliveries = read_session(log)
    if not deliveries or not turns:
        return {}
    known = _KnownUsage(used_file(log))
    files = sorted((Path(cache_folder(deliveries_folder.parent)) / "delivery").glob("*.standing.jsonl"))
    lines = (line for file in files for line in read_lines(str(file)))
    texts = {line["id"]: line["text"] for line in lines if isinstance(line.get("text"), str) and line.get("id")}
    conversation = _Conversation(turns)
    found: dict[str, str] = {}
    for delivery in deliveries:
        first = conversation.first_turn(delivery.at)
        for memory in delivery.memories if first is not None else ():
            if memory in known.used:
                continue
            for turn, how in conversation.signs(delivery, memory, texts.get(memory, ""), first or 0, known):
                known.add(turn, how, memory)
                if how in SIGNS:
                    found[memory] = how
    with suppress(OSError):
        known.save()
    return found


class _KnownUsage:
    """What the file of a session says, and the lines to be added."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.used: set[str] = set()
        self.turns: dict[str, dict[str, None]] = {}
        """The turns that were read after each memory was delivered, in order."""
        self._new: dict[tuple[str, str], list[str]] = {}
        for line in read_lines(str(file)):
            memories = line.get("memories")
            for memory in memories if isinstance(memories, list) else ():
                if isinstance(memory, str):
                    self._remember(str(line.get("turn", "")), str(line.get("how", "")), memory)

    def add(self, turn: str, how: str, memory: str) -> None:
        if how == NOT_USED and turn in self.turns.get(memory, {}):
            return
        self._remember(turn, how, memory)
        self._new.setdefault((turn, how), []).append(memory)

    def save(self) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for (turn, how), memories in self._new.items():
            line = {"at": at, "turn": turn, "how": how, "memories": memories}
            append_line(str(self._file), json.dumps(line, ensure_ascii=False).encode("utf-8", "replace"))

    def _remember(self, turn: str, how: str, memory: str) -> None:
        self.turns.setdefault(memory, {})[turn] = None
        if how in SIGNS:
            self.used.add(memory)


class _Conversation:
    """The turns of a session in order."""

    def __init__(self, turns: Sequence[ParsedTurn]) -> None:
        self._turns = turns
        self._ends: list[float | None] = []
        end: float | None = None
        for turn in reversed(turns):
            self._ends.append(end)
            end = end if turn.start_time is None else turn.start_time
        self._ends.reverse()

    def first_turn(self, at: str) -> int | None:
        """Return the index of the turn in which, or before which, a delivery was made; None if it came after all."""
        moment = parse_iso_time(at)
        if moment is None:
            return None
        when = moment.timestamp() + _CLOCK_SLACK_S
        return next((index for index, end in enumerate(self._ends) if end is None or end > when), None)

    def signs(
        self, delivery: Delivery, memory: str, text: str, first: int, known: _KnownUsage
    ) -> Iterator[tuple[str, str]]:
        """Yield each turn from the first on with the sign found in it, or `none`, up to the first sign."""
        turns = dict(known.turns.get(memory, {}))
        for index, parsed in enumerate(self._turns[first:], first):
            identity = parsed.turn.id
            turns[identity] = None
            position = list(turns).index(identity)
            how = self._sign(delivery, memory, text, index, is_first=index == first and position == 0)
            if how or position < MAX_TURNS:
                yield identity, how or NOT_USED
            if how:
                return

    def _sign(self, delivery: Delivery, memory: str, text: str, index: int, *, is_first: bool) -> str:
        turn = self._turns[index]
        actions, spoken = turn.digest.actions, turn.digest.assistant_texts
        calls = [at for at, _ in enumerate(actions) if _is_target(turn, at, delivery.target)] if is_first else []
        is_tool = delivery.moment.startswith("tool-") and is_first
        start = calls[0] + 1 if calls else len(actions) if is_tool else 0
        # Before the call that brought the memory, the assistant did not know it.
        said = spoken[-1:] if is_tool else (turn.turn.assistant, *spoken)
        if contains_id("\n".join((*said, *(_call_text(turn, at) for at in range(start, len(actions))))), memory):
            return "id"
        if not calls:
            return ""
        is_stopped = delivery.action == "hold" or bool(delivery.guard and delivery.action != "warn")
        may_change = delivery.moment == "tool-before" if not is_stopped else not delivery.guard
        if may_change and (how := self._change(text, index, calls)):
            return how
        return "obeyed" if is_stopped and len(calls) == 1 and actions[calls[0]].failed else ""

    def _change(self, text: str, index: int, calls: Sequence[int]) -> str:
        """Return the sign if the call was not repeated and a similar one follows that has a new literal of the memory."""
        if len(calls) > 1:
            return ""
        turn = self._turns[index]
        original, later = turn.digest.actions[calls[0]], turn.digest.actions[calls[0] + 1 :]
        wanted = set(find_words(text)) - set(self._words_before(index, calls[0]))
        in_code = set(find_words(" ".join(text.split("`")[1::2])))
        words = set(original.command.lower().split())
        for action in later:
            if original.command:
                is_similar = bool(words & set(action.command.lower().split()))
            else:
                is_similar = bool(action.files) and not set(action.files) & set(original.files)
            runs = (variant for words in split_command(action.command) for variant in command_variants(words))
            literals = in_code | {variant[0].lower() for variant in runs}
            new = wanted.intersection(find_words(_action_text(action))) if is_similar else ()
            if any(word in literals or word.startswith("-") or "/" in word or "." in word for word in new):
                return CONTRADICTED if is_rejection(action.error) else "changed"
        return ""

    def _words_before(self, index: int, call: int) -> Iterator[str]:
        """Yield the words of earlier turns, of a turn's request and results, and of its calls up to one."""
        for number, parsed in enumerate(self._turns[: index + 1]):
            shown, digest = parsed.turn, parsed.digest
            yield from find_words("\n".join((shown.user, digest.request, *(tool.result for tool in shown.tools))))
            last = call + 1 if number == index else len(digest.actions)
            calls = (_call_text(parsed, at) for at in range(last))
            said = () if number == index else (shown.assistant, *digest.assistant_texts)
            yield from find_words("\n".join((*said, *calls)))


def contains_id(text: str, memory: str) -> bool:
    """Return whether a text contains a memory's id, or the beginning of a long hexadecimal one."""
    if not memory or memory[:_MIN_ID_CHARS] not in text:  # most texts: nothing is compared
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
    """Return the words of a text in lower case, without the punctuation around them; options and paths are whole words."""
    return filter(None, (word.strip(_PUNCTUATION) for word in text[:_MAX_TEXT_CHARS].lower().split()))


def _is_target(turn: ParsedTurn, index: int, target: str) -> bool:
    """Return True if a call of a turn has a digest."""
    action = turn.digest.actions[index]
    digests = {call_digest(action.command, action.files)}
    if not (action.command or action.files):
        digests.add(call_digest("", (_call_text(turn, index),)))
    return bool(target) and target in digests


def _call_text(turn: ParsedTurn, index: int) -> str:
    tools = turn.turn.tools
    return _action_text(turn.digest.actions[index]) or (tools[index].input if index < len(tools) else "")


def _action_text(action: ToolAction) -> str:
    return " ".join(filter(None, (action.command, *action.files)))
