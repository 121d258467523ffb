"""The made-up journals of the speed bench."""

import hashlib
from pathlib import Path

import pytest
from bench.corpus import write_journals

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
