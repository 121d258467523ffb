"""What is done to each contender in a speed run.

Responsible for the order of the work: repetitions alternate between the contenders, so that a noisy minute of the
machine falls on both, and everything is warmed up once before anything is timed (compiled modules, file cache).
A scenario returns what it saw; what it means is `report.py`'s business.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.contenders import HITS, Contender, chunks_reported, hits, search, start_index
from bench.corpus import ENTRIES_PER_FILE, SEED, Writer, journal_entry, questions, write_journals
from bench.measure import EmbeddingService, Measured, disk_bytes, median, require, run

SHORT_COMMANDS_PER_REPEAT = 3
SEARCHES_WHILE_INDEXING = 8
CONTENTION = 3.0  # on two cores a search shares them with the indexer and the embedding service
EDITS = ("blank line", "line of prose", "line changed", "entry appended")


@dataclass
class Seen:
    """What one contender was seen to do at one corpus size."""

    helps: list[Measured] = field(default_factory=list)
    first: list[Measured] = field(default_factory=list)
    unchanged: list[Measured] = field(default_factory=list)
    searches: list[Measured] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)
    embedded_unchanged: int = 0
    chunks: int | None = None
    fewest_hits: int = HITS
    disk: int = 0
    home: Path = Path()

    @property
    def embedded_first(self) -> int:
        return self.embedded[-1]


@dataclass(frozen=True)
class WhileIndexing:
    """Searches against a home that another process writes."""

    idle_s: float
    tried: int
    succeeded: int
    walls_s: list[float]
    unwaiting: (
        int  # answered searches that ended before the indexer did, or in about the time they take when it is idle
    )
    indexer_held: bool
    failure: str


@dataclass(frozen=True)
class Ground:
    """Where a run happens: a place of its own, the service, how often."""

    place: Path
    service: EmbeddingService
    repeat: int


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def warm_up(ground: Ground, contenders: Sequence[Contender]) -> None:
    """One untimed round of everything on a single file."""
    files = ground.place / "warm-up"
    write_journals(files, ENTRIES_PER_FILE)
    for contender in contenders:
        fresh = _in_fresh_home(contender, ground, "warm-up")
        require(run(fresh.help_command(), fresh.environment(), files), f"{fresh.name} --help")
        require(start_index(fresh, files).finish(), f"{fresh.name} index")
        require(search(fresh, "warm up", files), f"{fresh.name} search")


def side_by_side(ground: Ground, contenders: Sequence[Contender], files: Path) -> dict[str, Seen]:
    """Help, first index, unchanged re-index and cold search of every contender, taking turns."""
    seen = {contender.name: Seen() for contender in contenders}
    for turn in range(ground.repeat):
        for contender in contenders:
            _first_index(ground, contender, files, seen[contender.name], turn)
    for question in questions(ground.repeat * SHORT_COMMANDS_PER_REPEAT):
        for contender in contenders:
            _short_commands(ground, contender, files, seen[contender.name], question)
    return seen


def _in_fresh_home(contender: Contender, ground: Ground, label: str) -> Contender:
    home = ground.place / f"{contender.name}-{label}"
    home.mkdir()
    return contender.in_home(home)


def _first_index(ground: Ground, contender: Contender, files: Path, seen: Seen, turn: int) -> None:
    fresh = _in_fresh_home(contender, ground, f"{files.name}-{turn}")
    ground.service.reset()
    measured = require(start_index(fresh, files).finish(), f"{fresh.name} index")
    seen.first.append(measured)
    seen.embedded.append(ground.service.texts())
    seen.chunks = chunks_reported(measured)
    seen.disk = disk_bytes(fresh.home)
    seen.home = fresh.home
    say(f"{fresh.name}: first index of {files.name} {measured.wall_s:.2f} s, {seen.embedded[-1]} texts embedded")


def _short_commands(ground: Ground, contender: Contender, files: Path, seen: Seen, question: str) -> None:
    there = contender.in_home(seen.home)
    seen.helps.append(require(run(there.help_command(), there.environment(), files), f"{there.name} --help"))
    ground.service.reset()
    seen.unchanged.append(require(start_index(there, files).finish(), f"{there.name} unchanged re-index"))
    seen.embedded_unchanged = max(seen.embedded_unchanged, ground.service.texts())
    found = require(search(there, question, files), f"{there.name} search")
    seen.searches.append(found)
    seen.fewest_hits = min(seen.fewest_hits, hits(found))
    say(
        f"{there.name}: help {seen.helps[-1].wall_s:.3f} s, unchanged {seen.unchanged[-1].wall_s:.3f} s, "
        f"search {found.wall_s:.3f} s with {hits(found)} hits"
    )


@dataclass
class Edited:
    """Index runs of one contender after the same kind of edit."""

    runs: list[Measured] = field(default_factory=list)
    texts: int = 0
    """The most texts that one run sent to the model."""


def index_after_edits(ground: Ground, contenders: Sequence[Contender], files: Path) -> dict[str, dict[str, Edited]]:
    """Index after small edits of one 20-section file, each repeated, by edit and contender.

    The contenders' homes must hold the index of the same files as they are now.
    """
    path = sorted(files.glob("*.md"))[len(list(files.glob("*.md"))) // 2]
    seen: dict[str, dict[str, Edited]] = {}
    for edit in EDITS:
        seen[edit] = {contender.name: Edited() for contender in contenders}
        for number in range(ground.repeat):
            _edit(path, edit, number)
            for contender in contenders:
                _index_edited(ground, contender, files, seen[edit][contender.name])
        say(f"{edit}: texts embedded " + ", ".join(f"{name} {of.texts}" for name, of in seen[edit].items()))
    return seen


def _edit(path: Path, edit: str, number: int) -> None:
    text = path.read_text(encoding="utf-8")
    if edit == "blank line":
        text = "\n" + text
    elif edit == "line of prose":
        text = f"Reviewed by the whole team on Friday {number}.\n" + text
    elif edit == "line changed":
        lines = text.split("\n")
        place = next(at for at in range(len(lines) // 2, len(lines)) if lines[at].startswith("- "))
        lines[place] = f"- Changed for the {number}th time: {Writer(SEED + number).sentence()}"
        text = "\n".join(lines)
    else:
        text += journal_entry(Writer(SEED + 2 + number), 999_000 + number, 21)
    path.write_text(text, encoding="utf-8", newline="\n")


def _index_edited(ground: Ground, contender: Contender, files: Path, edited: Edited) -> None:
    ground.service.reset()
    edited.runs.append(require(start_index(contender, files).finish(), f"{contender.name} index after an edit"))
    edited.texts = max(edited.texts, ground.service.texts())


def search_while_indexing(ground: Ground, contender: Contender, files: Path, more: Path) -> WhileIndexing:
    """Search a home that holds `files` while another process adds `more` to it; that process is then stopped."""
    asked = questions(SEARCHES_WHILE_INDEXING)
    idle_s = median(search(contender, question, files).wall_s for question in asked)
    ground.service.reset()
    indexer = start_index(contender, more)
    while indexer.is_running() and ground.service.texts() == 0:
        time.sleep(0.02)
    during: list[Measured] = []
    unwaiting = 0
    for question in asked:
        if not indexer.is_running():
            break
        during.append(search(contender, question, files))
        unwaiting += _answered(during[-1]) and (indexer.is_running() or during[-1].wall_s <= CONTENTION * idle_s)
    held = indexer.is_running()
    ended = indexer.stop()
    good = [measured for measured in during if _answered(measured)]
    failures = [measured.last_words() for measured in during if not measured.succeeded]
    say(f"{contender.name}: {len(good)} of {len(during)} searches succeeded while it indexed {more.name}")
    return WhileIndexing(
        idle_s=idle_s,
        tried=len(during),
        succeeded=len(good),
        walls_s=[measured.wall_s for measured in during],
        unwaiting=unwaiting,
        indexer_held=held or ended.succeeded,
        failure=failures[0] if failures else "",
    )


def _answered(measured: Measured) -> bool:
    return measured.succeeded and hits(measured) > 0
