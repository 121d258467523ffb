"""What the first prompt of a real session could be told without asking, by the relevance of the best memory of another session.

Each session of a team is captured whole when it has ended, in order of time, with the vectors of the built-in model. At the first prompt of
each session (of at least 20 characters, no command of the host) `lorelog search` is asked with the whole text: the memory holds only the past.
Subagents' sessions and copies of a session do not count. Two things are counted, neither is shown by the product:

- files: of the first three of the search's line of files, those that neither prompt nor session had named, whether any is read, edited or
  named in a command later in the session (by folder and name); beside it the files that most sessions had changed until then;
- memories: what a reader said of the best memory, blind to its relevance, `wanted` (it states something that the work needs and the prompt
  does not say), `harmless` (the same subject), `noise`, or `program` (the prompt is typed by a program). `first_prompts.tsv` has that under a
  digest of both, never a text. `--pairs FILE` writes the pairs that have no label yet, to be read; do not commit that file.

    python -m bench.delivery.first_prompts TEAM_FOLDER... [--pairs FILE]

Ten minutes for 500 sessions on one core, most of it capture. A TEAM_FOLDER holds one team's transcripts in any form that lorelog reads.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import time_machine
from bench.delivery.hook_calls import Bench
from bench.result import format_table

from lorelog import Lorelog
from lorelog.core.errors import LorelogError
from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turns import ParsedTurn, TranscriptStats
from lorelog.services.sessions.capture_db import OPEN_TURN_S

LABELS = Path(__file__).with_name("first_prompts.tsv")
THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)
_MIN_PROMPT_CHARS, _SHORT_CHARS, _MAX_QUERY_CHARS = 20, 400, 4_000
_SHOWN_FILES, _FILES_TOKENS = 3, 200
_HOST_TEXT = (
    "/",
    "[Request interrupted",
    "<",
    "Caveat:",
    "This session is being continued",
    "# AGENTS.md",
    "Base directory for this skill",
)
_INJECTED = re.compile(
    r"<system-reminder>.*?</system-reminder>|<ide_\w+>.*?</ide_\w+>|<lorelog-memory>.*?</lorelog-memory>", re.DOTALL
)
_NAMED_FILE = re.compile(r"[\w.@-]*(?:/[\w.@-]+)+\.\w+|[\w-]+\.\w{1,5}\b")
_BEST_OF_LANE = re.compile(r"BM25 ([\d.]+) of best \1,|cosine ([\d.-]+) between [\d.-]+ and \2,")


@dataclass(frozen=True)
class Session:
    """A session as lorelog reads it, and the number of its first prompt."""

    path: Path
    host: str
    name: str
    directory: str
    turns: tuple[ParsedTurn, ...]
    first: int

    @property
    def prompt(self) -> str:
        return _typed(self.turns[self.first])

    def files(self, turns: Sequence[ParsedTurn]) -> set[str]:
        """Return the files that turns read, edited or named in commands, each by folder and name."""
        found: set[str] = set()
        for turn in turns:
            for action in (*turn.digest.actions, *turn.digest.delegated):
                found |= {*action.files, action.opened, *_NAMED_FILE.findall(action.command)}
        return {_tail(file.removeprefix(f"{self.directory}/")) for file in found if file}

    def edited(self) -> set[str]:
        """Return the files of the project that it changed."""
        files = (file for turn in self.turns for action in turn.digest.actions for file in action.files)
        own = (file.removeprefix(f"{self.directory}/") for file in files)
        return {file for file in own if not file.startswith("/")}


@dataclass(frozen=True)
class Asked:
    """A first prompt, the best memory of another session, and the files that could be named with it."""

    team: str
    session: Session
    relevance: float
    agrees: bool
    """It is the best of both lanes."""
    memory: str
    digest: str
    files: tuple[str, ...]
    most_changed: tuple[str, ...]

    @property
    def is_short(self) -> bool:
        return len(self.session.prompt) <= _SHORT_CHARS

    def opened(self, files: Sequence[str]) -> bool | None:
        """Return whether any of the first files is opened later, or None if each was named before."""
        session, prompt = self.session, self.session.prompt.lower()
        before = session.files(session.turns[: session.first])
        new = [_tail(file) for file in files[:_SHOWN_FILES] if file.rpartition("/")[2].lower() not in prompt]
        new = [file for file in new if file not in before]
        return bool(session.files(session.turns[session.first :]).intersection(new)) if new else None


def read_sessions(folder: Path) -> list[Session]:
    """Return the sessions of a team that have a first prompt, by their beginning; of copies only one."""
    found: dict[tuple[str, float], Session] = {}
    for path in sorted(folder.rglob("*.json*")):
        try:
            conversation = open_conversation(str(path))
            head = read_conversation_head(conversation)
            turns = [] if head.is_sidechain else conversation.turns(TranscriptStats())
            main = tuple(turn for turn in turns if turn.start_time and not turn.turn.sidechain)
        except LorelogError as error:
            print(f"bench: {path.name}: {error.message}", file=sys.stderr)
            continue
        first = next((number for number, turn in enumerate(main) if len(_typed(turn)) >= _MIN_PROMPT_CHARS), None)
        if first is not None:
            name = head.session if conversation.host == "opencode" and head.session else path.stem
            session = Session(path, conversation.host, name, head.directory, main, first)
            found.setdefault((session.prompt, round(main[first].start_time or 0, -2)), session)
    return sorted(found.values(), key=lambda session: session.turns[0].start_time or 0)


def _typed(turn: ParsedTurn) -> str:
    text = _INJECTED.sub("", turn.turn.user).strip()
    return "" if text.startswith(_HOST_TEXT) else text


def _tail(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def ask_first_prompts(folder: Path) -> Iterator[Asked]:
    """Capture a team's sessions in order of time, and yield what is found at each first prompt."""
    sessions = read_sessions(folder)
    moments: list[tuple[float, bool, int]] = []
    for number, session in enumerate(sessions):
        ends = (action.time or 0 for turn in session.turns for action in turn.digest.actions)
        starts = [turn.start_time or 0 for turn in session.turns]
        moments += [(starts[session.first], False, number), (max(*starts, *ends, 0) + 1, True, number)]
    with tempfile.TemporaryDirectory(prefix="first-") as place, ExitStack() as stack:
        bench = Bench(Path(place).resolve())
        bench.environment |= {"LORELOG_DAEMON_WARM": "auto", "TZ": "UTC", "LORELOG_EMBEDDING_PROVIDER": "builtin"}
        root = bench.make_project("project")
        stack.enter_context(bench.active())
        memory = stack.enter_context(Lorelog(project=root, daemon="off"))
        clock = stack.enter_context(time_machine.travel(datetime.fromtimestamp(min(moments)[0], UTC), tick=False))
        changed: Counter[str] = Counter()
        for at, is_end, number in sorted(moments):
            session = sessions[number]
            clock.move_to(datetime.fromtimestamp(at + (OPEN_TURN_S + 60 if is_end else 0), UTC))
            if is_end:
                _capture(memory, session, bench.root / "transcripts" / f"{number}-{session.path.name}", root)
                changed.update(session.edited())
            elif asked := _ask(memory, folder.name, session, changed):
                yield asked


def _capture(memory: Lorelog, session: Session, copy: Path, root: Path) -> None:
    copy.parent.mkdir(exist_ok=True)
    text = session.path.read_text("utf-8", "replace")
    copy.write_text(text.replace(session.directory, str(root)) if len(session.directory) > 1 else text, "utf-8")
    words = {"host": session.host, "session": session.name, "transcript": str(copy), "directory": str(root)}
    try:
        memory.call("session.capture", {**words, "everything": True})
    except LorelogError as error:
        print(f"bench: {session.path.name}: {error.message}", file=sys.stderr)
    copy.unlink()


def _ask(memory: Lorelog, team: str, session: Session, changed: Counter[str]) -> Asked | None:
    query = {"query": session.prompt[:_MAX_QUERY_CHARS]}
    hits: list[dict[str, Any]] = memory.call("memory.search", {**query, "k": 5, "explain": True})["hits"]
    best = next((hit for hit in hits if (hit["anchor"] or {}).get("session") != session.name), None)
    if best is None:
        return None
    packing = memory.call("memory.search", {**query, "token_budget": _FILES_TOKENS})["packing"]
    anchor = best["anchor"] or {}
    where = f"{session.name}\n{session.prompt}\n{anchor.get('session')}\n{anchor.get('turn')}\n{best['type']}"
    lanes = sum(bool(_BEST_OF_LANE.search(part["note"])) for part in best["explanation"])
    return Asked(
        team, session, best["relevance"], lanes > 1,
        " ".join(re.sub(r"<!--.*?-->", "", best["content"], flags=re.DOTALL).split()),
        hashlib.sha256(where.encode()).hexdigest()[:16],
        tuple(packing["files"]), tuple(file for file, _ in changed.most_common(_SHOWN_FILES)),
    )  # fmt: skip


def report(found: Sequence[Asked], labels: dict[str, str]) -> Iterator[str]:
    """Yield the tables: files and memories, from each relevance on."""
    rows = []
    for least in THRESHOLDS:
        here = [one for one in found if one.relevance >= least]
        lines = ([one.opened(one.files) for one in here], [one.opened(one.most_changed) for one in here])
        rows.append(
            [
                f"{least:.1f}",
                str(len(here)),
                *(f"{line.count(True)} of {len(line) - line.count(None)}" for line in lines),
            ]
        )
    yield format_table(["relevance at least", "first prompts", "any of three files opened", "most changed"], rows)
    kinds: dict[str, Callable[[Asked], bool]] = {
        "to 400 characters": lambda one: one.is_short,
        "to 400, best of both lanes": lambda one: one.is_short and one.agrees,
        "longer": lambda one: not one.is_short,
    }
    rows = []
    for kind, is_kind in kinds.items():
        for least in THRESHOLDS[1:]:
            here = [one for one in found if one.relevance >= least and is_kind(one)]
            said = Counter(labels.get(one.digest, "not read") for one in here)
            names = ("wanted", "harmless", "noise", "program", "not read")
            rows.append([kind, f"{least:.1f}", str(len(here)), *(str(said[name]) for name in names)])
    yield "\n" + format_table(
        ["prompt", "relevance at least", "n", "wanted", "harmless", "noise", "program", "not read"], rows
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Ask at the first prompts of teams and print the tables of each and of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teams", nargs="+", type=Path, metavar="TEAM_FOLDER")
    parser.add_argument("--pairs", type=Path, help="write the pairs that have no label, in random order, to be read")
    options = parser.parse_args(argv)
    labels = dict(line.split("\t") for line in LABELS.read_text("utf-8").splitlines()[1:])
    every: list[Asked] = []
    for folder in options.teams:
        every += (found := list(ask_first_prompts(folder)))
        print(f"\n### {folder.name}\n", *report(found, labels), sep="\n", flush=True)
    print("\n### all\n", *report(every, labels), sep="\n")
    if options.pairs:
        unread = [one for one in every if one.digest not in labels]
        random.Random(7).shuffle(unread)
        pairs = (f"{one.digest}\n  {one.session.prompt[:600]}\n  {one.memory[:600]}\n" for one in unread)
        options.pairs.write_text("\n".join(pairs), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
