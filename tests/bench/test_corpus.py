"""The made-up journals of the speed bench."""

import hashlib
from pathlib import Path

import pytest
from bench.corpus import write_journals

pytestmark = pytest.mark.slow


def test_the_same_bytes_everywhere(tmp_path: Path) -> None:
    """Any machine and Python writes the same files, and a larger corpus begins with the smaller: figures can be compared."""
    paths = write_journals(tmp_path / "large", 200)
    small = write_journals(tmp_path / "small", 40)

    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    assert digest == "10d4b5e7b3282df437aab4817b0d8991e5d60da32a813d170e0d9b0c5b15e002"
    assert [path.read_bytes() for path in small] == [path.read_bytes() for path in paths[: len(small)]]
