"""How soon a real documentation tree can be searched by words, with the built-in model still working on its vectors.

Responsible for the promise "lexical first": the index command runs as a user runs it, and from outside, by the same
commands a user has, it is watched until every file is there and words that only one file has find that file. The
indexer is then left alone for a while to see the rate of the vectors, stopped as Ctrl-C does, and the rest of the
vectors is extrapolated from that rate; waiting for all of them would measure the model, not the promise.

    python bench/words.py --data DIR [--corpus kubernetes_en] [--cores 2] [--observe 60]
"""

import argparse
import itertools
import json
import os
import re
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import own_program
from bench.measure import CommandFailed, Measured, Running, clean_environment, require, run
from bench.result import Figure, note_figure

TARGET_S = 30.0
POLL_S = 0.5
PROBES = 12
GIVE_UP_S = 900.0
STEM = 5  # letters; files that share a beginning may share a stem
SUFFIXES = (".md", ".markdown")


@dataclass(frozen=True)
class Memory:
    """A lorelog home, asked from outside."""

    program: Path
    home: Path
    files: Path

    def start(self) -> Running:
        return Running([self.program, "index", self.files, "--json"], self._environment(), self.files)

    def stats(self) -> Mapping[str, Any]:
        """What stats says; nothing while the home is still empty."""
        measured = self._ask("status", "index", "--json")
        answer = json.loads(measured.output) if measured.succeeded else {}
        return answer if isinstance(answer, dict) else {}

    def finds(self, word: str, path: Path) -> bool:
        measured = self._ask("search", word, "-k", "5", "--lane", "lexical", "--json")
        return measured.succeeded and path.relative_to(self.files).as_posix() in measured.output

    def _ask(self, *words: str) -> Measured:
        return run([self.program, *words], self._environment(), self.files)

    def _environment(self) -> dict[str, str]:
        return clean_environment(self.home) | {"LORELOG_HOME": str(self.home), "LORELOG_DAEMON_WARM": "off"}


@dataclass(frozen=True)
class Seen:
    """What was watched: seconds are counted from the start of the index command."""

    files: int
    words_s: float
    found: int
    probes: int
    chunks: int
    vectors: int
    rate: float

    @property
    def all_vectors_s(self) -> float | None:
        return self.chunks / self.rate if self.rate > 0 else None


def unpack(archive: Path, directory: Path) -> list[Path]:
    """The Markdown files of an archive that have something to find, in the order of their paths."""
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return [path for path in sorted(directory.rglob("*")) if _is_markdown(path.relative_to(directory), path)]


def _is_markdown(inside: Path, path: Path) -> bool:
    hidden = any(part.startswith(".") for part in inside.parts)
    return not hidden and path.suffix.lower() in SUFFIXES and path.is_file() and path.stat().st_size > 0


def rare_words(paths: list[Path]) -> dict[Path, str]:
    """A word that one file alone has, for files spread over the whole list, the last among them."""
    texts = {path: path.read_text("utf-8", "replace") for path in paths}
    beginnings = ({word[:STEM] for word in re.findall(r"[a-z]+", text.lower())} for text in texts.values())
    spread = Counter(itertools.chain.from_iterable(beginnings))
    alone = {
        path: min(own)
        for path, text in texts.items()
        if (own := {word for word in _prose_words(text) if spread[word[:STEM]] == 1})
    }
    step = max(1, len(alone) // PROBES)
    return dict(list(alone.items())[::-1][::step][:PROBES])


def _prose_words(text: str) -> set[str]:
    """Words outside front matter and comments, which need not be indexed."""
    prose = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", " ", text, flags=re.DOTALL)
    return set(re.findall(r"(?<=\s)[a-z]{7,14}(?=[\s.,;])", prose))


def watch(memory: Memory, paths: list[Path], observe_s: float) -> Seen:
    """Run the indexer and watch it from outside."""
    probes = rare_words(paths)
    started = time.perf_counter()
    indexer = memory.start()
    try:
        words_s = _until_searchable(memory, indexer, len(paths), probes, started)
        found = sum(memory.finds(word, path) for path, word in probes.items())
        before, since = number(memory.stats(), "vectors", "embedded"), time.perf_counter()
        while indexer.is_running() and time.perf_counter() - since < observe_s:
            time.sleep(POLL_S)
        stats = memory.stats()
        vectors = number(stats, "vectors", "embedded")
        rate = (vectors - before) / (time.perf_counter() - since)
    finally:
        indexer.stop()
    return Seen(len(paths), words_s, found, len(probes), number(stats, "chunks"), vectors, rate)


def _until_searchable(
    memory: Memory, indexer: Running, files: int, probes: Mapping[Path, str], started: float
) -> float:
    """Seconds until every file is counted and the word of the last one finds it."""
    path, word = next(iter(probes.items()))
    documents = -1
    while time.perf_counter() - started < GIVE_UP_S:
        ended = not indexer.is_running()
        documents = number(memory.stats(), "documents")
        if documents >= files and memory.finds(word, path):
            return time.perf_counter() - started
        if ended:
            require(indexer.finish(), "lorelog index")
            break
        time.sleep(POLL_S)
    raise CommandFailed(f"{documents} of {files} files are there, and '{word}' should find {path.name}")


def number(stats: Mapping[str, Any], *names: str) -> int:
    """The first of the named numbers, wherever in the reply it is."""
    for name in names:
        if isinstance(value := stats.get(name), int):
            return value
    nested = [number(value, *names) for value in stats.values() if isinstance(value, dict)]
    return max(nested, default=0)


def empty_memory(program: Path, place: Path) -> Memory:
    if not program.exists():
        raise CommandFailed(f"no lorelog at {program}: install it, or give --lorelog PROGRAM")
    (place / "home").mkdir()
    return Memory(program.resolve(), place / "home", place / "files")


def hold_to(cores: int) -> int:
    """Keep this process and all it starts to so many cores, where the system can; the number it has."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or cores
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    os.sched_setaffinity(0, allowed)
    return len(allowed)


def show(seen: Seen, name: str, cores: int) -> bool:
    met = seen.words_s < TARGET_S and seen.found == seen.probes
    rest = f"{seen.all_vectors_s:,.0f} s" if seen.all_vectors_s else "not seen to move"
    rows = [
        ("", name, "target", ""),
        ("---", "---:", "---", "---"),
        (
            f"{seen.files:,} files searchable by words, {cores} cores",
            f"{seen.words_s:.1f} s",
            f"< {TARGET_S:g} s",
            _verdict(met),
        ),
        (
            "files found by a word only they have",
            f"{seen.found} of {seen.probes}",
            "all",
            _verdict(seen.found == seen.probes),
        ),
        ("chunks", f"{seen.chunks:,}", "", ""),
        ("vectors when the indexer was stopped", f"{seen.vectors:,}", "", ""),
        ("vectors a second", f"{seen.rate:.1f}", "", ""),
        ("all vectors, extrapolated from that rate", rest, "", ""),
    ]
    print("\n".join("| " + " | ".join(row) + " |" for row in rows))
    note_figure(Figure(*rows[2][:3], met=met))
    note_figure(Figure(*rows[3][:3], met=seen.found == seen.probes))
    return met


def _verdict(met: bool) -> str:  # noqa: FBT001  one flag, one word
    return "ok" if met else "MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(description="Seconds until a documentation tree is searchable by words.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds corpora/NAME.tar.gz")
    parser.add_argument("--corpus", default="kubernetes_en", metavar="NAME")
    parser.add_argument("--lorelog", type=Path, default=own_program(), metavar="PROGRAM")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--observe", type=float, default=60.0, metavar="SECONDS", help="how long to watch the vectors")
    options = parser.parse_args()
    cores = hold_to(options.cores)
    try:
        with tempfile.TemporaryDirectory(prefix="lorelog-words-") as place:
            memory = empty_memory(options.lorelog, Path(place).resolve())
            paths = unpack(options.data / "corpora" / f"{options.corpus}.tar.gz", memory.files)
            seen = watch(memory, paths, options.observe)
    except (CommandFailed, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0 if show(seen, options.corpus, cores) else 1


if __name__ == "__main__":
    sys.exit(main())
