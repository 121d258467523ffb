"""memsearch's suite is run only when somebody fetched it, and a failure without a reason is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.compat.__main__ import APPLICABLE

ROOT = Path(__file__).parents[2]


def test_a_folder_without_the_suite_is_refused(tmp_path: Path) -> None:
    """Without the fetched suite nothing is reported: the command says what is missing."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.compat", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "has no tests of memsearch" in done.stderr
    assert not done.stdout


@pytest.mark.slow
def test_a_failure_without_a_reason_fails_the_command(tmp_path: Path) -> None:
    """A suite in which one unknown test fails is counted as it is, and the status is 1."""
    (tmp_path / "tests").mkdir()
    for name in APPLICABLE:
        (tmp_path / "tests" / name).write_text("")
    ids = "from memsearch.chunker import compute_chunk_id\n\ndef test_id():\n    assert len(compute_chunk_id('a.md', 1, 2, 'h', 'm')) == 16\n"
    (tmp_path / "tests" / "test_chunker.py").write_text(f"{ids}\nasync def test_wrong():\n    assert False\n")

    done = subprocess.run(
        [sys.executable, "-m", "bench.compat", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "| all | 2 | 1 |" in done.stdout
    assert "test_wrong: failed: no reason is known" in done.stdout
