"""What holds on systems and versions that the tests do not run on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_types_hold_on_macos(tmp_path: Path) -> None:
    """The package type-checks for macOS."""
    words = ["--platform", "darwin", "--follow-imports=silent", "--cache-dir", str(tmp_path), "src"]

    done = subprocess.run([sys.executable, "-m", "mypy", *words], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_no_statement_numbers_its_parameters() -> None:
    """Python 3.14 refuses a sequence for SQLite's `?1`; names, or `?` alone, work in every version."""
    numbered = re.compile(r"(?:[=<>(,+-]|\bTHEN) ?\?\d")
    texts = ((path, path.read_text("utf-8")) for path in (ROOT / "src").rglob("*.py"))
    assert [f"{path.name}: {found[0]}" for path, text in texts for found in numbered.finditer(text)] == []
