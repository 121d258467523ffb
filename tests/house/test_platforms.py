"""Types on systems that the tests do not run on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CLIENT = "src/lorelog/light"
WINDOWS = (
    "src/lorelog/core",
    "src/lorelog/retrieval",
    *(f"src/lorelog/config/{name}.py" for name in ("schema", "settings")),
    *(f"{CLIENT}/{name}.py" for name in ("daemon_connection", "daemon_client")),
)
"""What type-checks on Windows: the seams (locks, processes, paths, sockets). Other modules open files with POSIX flags."""


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "paths"), [("darwin", ("src",)), ("win32", WINDOWS)])
def test_types_hold_on_other_systems(platform: str, paths: tuple[str, ...], tmp_path: Path) -> None:
    """The package type-checks for macOS, and its seams to the system for Windows."""
    words = ["--platform", platform, "--follow-imports=silent", "--cache-dir", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
