"""Types on systems that the tests do not run on."""

from __future__ import annotations

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
