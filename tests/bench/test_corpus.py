"""The made-up journals of the speed bench."""

import hashlib
from pathlib import Path

import pytest
from bench.corpus import ENTRIES_PER_FILE, questions, write_journals

pytestmark = pytest.mark.slow


def sections(path: Path) -> list[str]:
    return ["## " + part for part in path.read_text(encoding="utf-8").split("## ")[1:]]


def test_the_same_bytes_everywhere(tmp_path: Path) -> None:
    """Two runs, on any machine and Python, write the same files; numbers from different days can be compared."""
    digests = []
    for name in ("one", "other"):
        paths = write_journals(tmp_path / name, 200)
        digests.append(hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest())
    assert digests == ["10d4b5e7b3282df437aab4817b0d8991e5d60da32a813d170e0d9b0c5b15e002"] * 2


def test_a_larger_corpus_begins_with_the_smaller(tmp_path: Path) -> None:
    """Size is the only difference between two sizes, so growth can be read from them."""
    small = write_journals(tmp_path / "small", 40)
    large = write_journals(tmp_path / "large", 80)
    assert [path.read_bytes() for path in small] == [path.read_bytes() for path in large[: len(small)]]


@pytest.mark.parametrize(("entries", "files"), [(20, 1), (50, 3), (2000, 100)])
def test_twenty_entries_a_file(tmp_path: Path, entries: int, files: int) -> None:
    """So many entries are asked for, so many are written, twenty a file, the rest in the last."""
    paths = write_journals(tmp_path, entries)
    counts = [len(sections(path)) for path in paths]
    assert len(paths) == files
    assert sum(counts) == entries
    assert max(counts) == ENTRIES_PER_FILE


def test_an_entry_is_one_chunk(tmp_path: Path) -> None:
    """Entries are about a kilobyte, below the size at which a chunker splits, unlike one another, with no heading inside."""
    entries = [entry for path in write_journals(tmp_path, 400) for entry in sections(path)]
    sizes = [len(entry) for entry in entries]
    assert min(sizes) > 850
    assert max(sizes) < 1500
    assert len(set(entries)) == len(entries)
    assert not any(line.startswith("#") for entry in entries for line in entry.split("\n")[1:])


def test_the_vocabulary_is_of_a_few_thousand_words(tmp_path: Path) -> None:
    """A lexical index meets as many words as in a team's real journals, not a handful repeated."""
    text = " ".join(path.read_text(encoding="utf-8") for path in write_journals(tmp_path, 2000))
    words = {word for word in text.lower().replace(".", " ").split() if word.isalpha()}
    assert 2000 < len(words) < 8000


def test_questions_differ_and_repeat_from_run_to_run() -> None:
    """Every search of a run asks something else, and the next run asks the same."""
    assert len(set(questions(30))) == 30
    assert questions(30) == questions(30)
