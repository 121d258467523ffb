"""Workers as processes: their environments, how they are started, asked and ended.

Responsible for every contender running in its own virtual environment below `.bench/`, with a bare environment, and for
what becomes of one that fails: a `CommandFailed` with its last words.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.measure import CommandFailed, clean_environment
from bench.scale.contender import CONTENDERS

REPOSITORY = Path(__file__).resolve().parents[2]
_REQUIREMENTS = Path(__file__).with_name("requirements")


@dataclass(frozen=True)
class Workplace:
    """Where environments, materials and stores are kept between runs."""

    root: Path

    def python(self, name: str) -> Path:
        """Return the interpreter of a contender, its environment made when it is not there or its pins have changed."""
        environment = CONTENDERS[name].environment
        if not environment:
            return Path(sys.executable)
        folder, requirements = self.root / "env" / environment, _REQUIREMENTS / f"{environment}.txt"
        pins, mark = requirements.read_text("utf-8"), folder / "installed.txt"
        if not mark.exists() or mark.read_text("utf-8") != pins:
            _make_environment(folder, requirements)
            mark.write_text(pins, encoding="utf-8")
        return folder / "bin" / "python"

    def version(self, name: str) -> str:
        """Return a contender with the versions that are really installed for it."""
        packages = CONTENDERS[name].packages
        code = f"import importlib.metadata as m; print(*(f'{{n}} {{m.version(n)}}' for n in {packages!r}), sep=', ')"
        answer = subprocess.run([self.python(name), "-c", code], capture_output=True, text=True, check=False)
        return answer.stdout.strip() or f"{name}, version unknown"


def _make_environment(folder: Path, requirements: Path) -> None:
    print(f"making the environment {folder} (once; needs the network)", file=sys.stderr, flush=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    steps = [[sys.executable, "-m", "venv", "--clear", str(folder)], [str(folder / "bin" / "python"), *install]]
    for step in steps:
        if subprocess.run(step, check=False).returncode != 0:
            raise CommandFailed(f"could not make the environment: {' '.join(step)}")


class Worker:
    """A started worker. Ask it, or take its one answer; leaving the block ends it."""

    def __init__(self, place: Workplace, task: dict[str, Any]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed on leaving; a pipe nobody reads would stall it
        self._name = task["contender"]
        environment = clean_environment(place.root) | {"PYTHONPATH": str(REPOSITORY), "ANONYMIZED_TELEMETRY": "False"}
        command = [str(place.python(self._name)), "-m", "bench.scale.worker", json.dumps(task)]
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=place.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def take(self, limit_s: float) -> dict[str, Any]:
        """Wait for the next answer; a worker that takes longer than the limit is ended."""
        assert self._process.stdout is not None
        timer = threading.Timer(limit_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            self._process.wait()
            raise CommandFailed(f"{self._name}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, limit_s: float, **asked: Any) -> dict[str, Any]:
        """Ask a serving worker and wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise CommandFailed(f"{self._name}: {self._last_words()}") from None
        return self.take(limit_s)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"ended with status {self._process.returncode}, nothing said"
