"""The flows in ARCHITECTURE.md are the flows of the program: the functions they name are called, in their order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT
from tests.ingest.transcripts.conversations import claude_turn, write_lines

from lorelog.light.daemon_connection import find_address, is_listening

STEP = re.compile(r"`([a-z_0-9.]+:[A-Za-z_0-9.]+)`")
TRACER = Path(__file__).with_name("call_trace.py")

Trace = Callable[..., list[str]]


def flow(title: str) -> list[str]:
    """Return the functions that a flow names, in order."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    section = text.partition(f"### {title}\n")[2]
    return STEP.findall(re.split(r"^#{2,3} ", section, maxsplit=1, flags=re.MULTILINE)[0])


def assert_called_in_order(steps: list[str], calls: list[str]) -> None:
    """Fail with the first step that was not called, or was called before the step above it."""
    assert steps
    position = {name: index for index, name in reversed(list(enumerate(calls)))}
    assert [step for step in steps if step not in position] == []
    assert steps == sorted(steps, key=position.__getitem__)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Runs commands one after the other and returns the functions they called, in order."""

    def run(*commands: list[str], input_text: str = "", **environment: str) -> list[str]:
        calls: list[str] = []
        for number, words in enumerate(commands):
            output = tmp_path / f"trace-{time.monotonic_ns()}-{number}.txt"
            subprocess.run(
                [sys.executable, str(TRACER), str(output), *words],
                cwd=tmp_path,
                input=input_text,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=True,
            )
            calls += output.read_text("utf-8").splitlines()
        return calls

    return run


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file to index, with vectors from the fake embedder."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    path = tmp_path / "note.md"
    path.write_text("# Cache\n\nWe use Redis with a TTL of five minutes.\n", "utf-8")
    return path


def test_the_flow_of_an_index_run_and_of_a_cold_search(note: Path, trace: Trace) -> None:
    """A file goes to vectors, and a search without the daemon to its hits, as ARCHITECTURE.md says."""
    assert_called_in_order(flow("A document, from file to vectors"), trace(["index", note.name]))
    assert_called_in_order(flow("A search, without the daemon"), trace(["search", "why redis?"]))


@pytest.fixture
def daemon_calls(tmp_path: Path) -> Iterator[Path]:
    """A daemon that writes down what it calls."""
    output = tmp_path / "daemon.txt"
    environment = {**os.environ, "LORELOG_EMBEDDING_PROVIDER": "fake"}
    daemon = subprocess.Popen(
        [sys.executable, str(TRACER), str(output), "daemon", "--home", os.environ["LORELOG_HOME"]],
        cwd=tmp_path,
        env=environment,
    )
    address = find_address()
    for _ in range(600):
        if is_listening(address):
            break
        time.sleep(0.1)
    yield output
    # The daemon detaches itself: the process started above has ended.
    subprocess.run([sys.executable, "-m", "lorelog", "daemon", "stop"], cwd=tmp_path, env=environment, check=True)
    daemon.wait()


@pytest.mark.slow
def test_the_flow_of_a_warm_search(note: Path, trace: Trace, daemon_calls: Path) -> None:
    """A search with the daemon goes as ARCHITECTURE.md says, in both processes."""
    trace(["index", note.name], LORELOG_DAEMON_WARM="required")

    client = trace(["search", "why redis?"], LORELOG_DAEMON_WARM="required")

    steps = flow("A search, with the daemon")
    here = [step for step in steps if step.startswith(("surfaces.cli", "light.daemon_client"))]
    assert_called_in_order(here, client)
    assert [name for name in client if not name.startswith(("core", "light", "surfaces"))] == []
    assert_called_in_order([step for step in steps if step not in here], daemon_calls.read_text("utf-8").splitlines())


@pytest.mark.slow
def test_the_flow_of_a_tool_call(tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory reaches a tool call as ARCHITECTURE.md says."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    trace(["guard", "add", "--command", "rm -rf *", "--message", "Ask first."])
    call = {"tool_name": "Bash", "tool_input": {"command": "npm install"}, "session_id": "s-1", "cwd": str(tmp_path)}

    calls = trace(["add", "Use pnpm, not npm", "--type", "correction"])
    calls += trace(["hook", "claude", "tool-before"], input_text=json.dumps(call))

    assert_called_in_order(flow("A tool call, from hook to memory"), calls)


@pytest.mark.slow
def test_the_flow_of_a_turn(tmp_path: Path, home: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn goes from the hook to the journal as ARCHITECTURE.md says."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    talk = write_lines(tmp_path / "session.jsonl", claude_turn("a1", "Use Redis for the cache.", "Redis it is."))
    (home / "run").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "run" / "start.failed").write_text(f"{time.monotonic():.3f} for the test", "utf-8")  # starts no daemon
    payload = {"session_id": "s-1", "transcript_path": str(talk), "cwd": str(tmp_path), "hook_event_name": "Stop"}

    calls = trace(["hook", "claude", "turn-end"], input_text=json.dumps(payload), LORELOG_DAEMON_WARM="auto")
    calls += trace(["hosts", "flush", "--wait", "0"])

    assert_called_in_order(flow("A turn, from hook to journal"), calls)
