"""Runs hidden tests on a solution: in a temporary folder, without a network, with bounded time and memory."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_SECONDS = 60
_BYTES = 2_000_000_000


@cache
def isolation() -> tuple[str, ...]:
    """Return the words that start a command in a network of its own, which has no interfaces; empty where that is not possible."""
    words = ("unshare", "--map-root-user", "--net")
    if not shutil.which("unshare"):
        return ()
    done = subprocess.run([*words, "true"], capture_output=True, check=False)
    return () if done.returncode else words


def passes(files: Mapping[str, str], command: tuple[str, ...]) -> bool:
    """Return whether a command of the interpreter succeeds among these files."""
    return not _run(files, command).returncode


def output_of(files: Mapping[str, str], command: tuple[str, ...]) -> str:
    """Return what a command of the interpreter prints among these files."""
    done = _run(files, command)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    return done.stdout


def _run(files: Mapping[str, str], command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    words = [*isolation(), sys.executable, *command]
    with tempfile.TemporaryDirectory(prefix="value-") as made:
        root = Path(made)
        for path, text in files.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        environment = {"PATH": "/usr/bin:/bin", "HOME": made, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": made}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        try:
            return subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False, preexec_fn=_limit)  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 1, "", "it took too long")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
