"""Synthetic journals of a team: the same bytes on every machine, in any size.

Responsible for writing journal-like Markdown, 20 entries a file, about 1 KB an entry, each of which is one chunk for
both contenders (under 1,500 characters, no heading inside). Entries have no file title above them because memsearch
makes a chunk of a bare title and others may not; the number of chunks would then compare unlike work.

Only `Random.random()` is used: it is the one method whose sequence Python promises to keep between versions.

    python bench/corpus.py DIR [--entries 2000]
"""

import argparse
import datetime as dt
import itertools
from pathlib import Path
from random import Random

ENTRIES_PER_FILE = 20
SEED = 20260214
VOCABULARY_SIZE = 4000
BODY_CHARACTERS = 900


def _words(line: str) -> list[str]:
    return line.split()


ONSETS = _words("b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sc sh sl sp st str t tr v w")
VOWELS = _words("a e i o u ai ea oo ou")
CODAS = _words("n r t ck l m nd st rt x ss ng p")
ENDINGS = ["", "", "er", "ing", "ed", "ion", "able", "ment", "s"]
ORDINARY = _words(
    "the a to of in and for with on after before when because is was we it this that from by not into under over "
    "cache index query token server client request reply queue worker thread lock schema migration release branch commit "
    "test build deploy config timeout retry error warning parser chunk vector embedding search rank score memory journal "
    "fixed added removed renamed measured decided reverted moved split merged checked found slow fast broken green"
)
COMMANDS = ["make test", "git rebase main", "docker compose up -d", "pytest -x -q", "curl -s localhost:8080/health"]


class Writer:
    """Random words and sentences from a seed, with word frequencies as in real prose."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._words = ORDINARY + self._invent(VOCABULARY_SIZE - len(ORDINARY))

    def _invent(self, count: int) -> list[str]:
        known = set(ORDINARY)
        while len(known) < len(ORDINARY) + count:
            stem = "".join(self.pick(ONSETS) + self.pick(VOWELS) for _ in range(1 + self.below(2)))
            known.add(stem + self.pick(CODAS) + self.pick(ENDINGS))
        return sorted(known - set(ORDINARY))

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def pick(self, choices: list[str]) -> str:
        return choices[self.below(len(choices))]

    def word(self) -> str:
        if self._random.random() < 0.45:
            return self.pick(ORDINARY)
        return self._words[int(len(self._words) * self._random.random() ** 2)]

    def phrase(self, length: int) -> str:
        return " ".join(self.word() for _ in range(length))

    def sentence(self) -> str:
        text = self.phrase(6 + self.below(12))
        return text[0].upper() + text[1:] + "."

    def hexadecimal(self, length: int) -> str:
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(length))


def journal_entry(writer: Writer, number: int, slot: int) -> str:
    """Return a journal entry: heading with time, memsearch's anchor comment, notes, sometimes a command, blank line."""
    hour, minute = 8 + slot // 2, (slot % 2) * 30 + writer.below(30)
    lines = [
        f"## {hour:02d}:{minute:02d} {writer.phrase(3)}",
        f"<!-- session:{writer.hexadecimal(12)} turn:{writer.hexadecimal(12)} transcript:/tmp/{number}.jsonl -->",
        f"- Ticket ENTRY-{number:06d}: {writer.sentence()}",
    ]
    if writer.below(4) == 0:
        lines += ["", "```sh", writer.pick(COMMANDS), "```", ""]
    while sum(len(line) + 1 for line in lines) < BODY_CHARACTERS + writer.below(120):
        lines.append(f"- {writer.sentence()} {writer.sentence()}")
    return "\n".join(lines) + "\n\n"


def write_journals(directory: Path, entries: int, seed: int = SEED) -> list[Path]:
    """Write journals with a number of entries, and return their paths, oldest day first."""
    directory.mkdir(parents=True, exist_ok=True)
    writer = Writer(seed)
    day = dt.date(2020, 1, 1)
    numbers = iter(range(entries))
    paths = []
    while batch := list(itertools.islice(numbers, ENTRIES_PER_FILE)):
        path = directory / f"{day.isoformat()}.md"
        text = "".join(journal_entry(writer, number, slot) for slot, number in enumerate(batch))
        path.write_text(text, encoding="utf-8", newline="\n")
        paths.append(path)
        day += dt.timedelta(days=1)
    return paths


def questions(count: int, seed: int = SEED + 1) -> list[str]:
    """Return queries in the words of the corpus, so that all lanes of both programs find something."""
    writer = Writer(SEED)
    asker = Random(seed)
    for _ in range(int(asker.random() * 1000)):
        writer.word()
    return [f"why was the {writer.phrase(4)} {writer.word()}" for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the made-up journals of the speed bench.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--entries", type=int, default=2000)
    arguments = parser.parse_args()
    paths = write_journals(arguments.directory, arguments.entries)
    size = sum(path.stat().st_size for path in paths)
    print(f"{arguments.entries} entries in {len(paths)} files, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
