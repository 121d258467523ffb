"""The adapter for agent-memory-bench, run through the interface that its contract describes, on made-up sessions."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from tests.surfaces.mcp.conftest import Agents

ADAPTER = Path(__file__).resolve().parents[2] / "examples" / "agent_memory_bench" / "adapter.py"
HARNESS = ADAPTER.parent / "stand_in"
SESSIONS = {
    "sessions/parcel-codes/p01.jsonl": [
        {"role": "user", "content": "The depot refused parcel 4417. Find out why.", "ts": "2026-05-04T09:00:00Z"},
        {
            "role": "assistant", "content": "", "tool_name": "Read", "tool_input": json.dumps({"file_path": "/srv/app/depot.log"}),
            "tool_result": "1\trefused: checksum of parcel code 4417", "ts": "2026-05-04T09:00:40Z",
        },
        {"role": "assistant", "content": "The depot refused it because the parcel code lacked its checksum letter.", "ts": "2026-05-04T09:01:20Z"},
        {"role": "user", "content": "Agreed. Decision: parcel codes end with a modulo-23 checksum letter.", "ts": "2026-05-04T09:02:00Z"},
    ],
    "distractors/d01.jsonl": [
        {"role": "user", "content": "Rename the helper in tables.py to draw_table.", "ts": "2026-05-05T09:00:00Z"},
        {"role": "assistant", "content": "Renamed it to draw_table; the tests pass.", "ts": "2026-05-05T09:00:40Z"},
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _corpus(tmp_path: Path) -> None:
    """A corpus: one file of JSON lines for each session, listed in the manifest but for one."""
    for path in (*SESSIONS, "sessions/parcel-codes/p02.jsonl"):
        file = tmp_path / "corpus" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(message)}\n" for message in SESSIONS.get(path, [{}])))
    (tmp_path / "corpus" / "manifest.json").write_text(json.dumps(dict.fromkeys(SESSIONS, "the digest")))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter, imported as it is beside the harness."""
    monkeypatch.syspath_prepend(HARNESS)
    spec = spec_from_file_location("amb_adapter", ADAPTER)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "harness"]:
        del sys.modules[name]


def test_a_recorded_session_becomes_a_transcript_word_for_word(module: Any, tmp_path: Path) -> None:
    """Every message becomes a line with its own time, a tool's result a line after its call, and nothing is added."""
    path, messages = next(iter(SESSIONS.items()))
    lines = list(module.transcript_lines(path, messages, tmp_path))
    assert [line["type"] for line in lines] == ["user", "assistant", "user", "assistant", "user"]
    assert [line["timestamp"][11:16] for line in lines] == ["09:00", "09:00", "09:00", "09:01", "09:02"]
    (call,), (result,) = lines[1]["message"]["content"], lines[2]["message"]["content"]
    assert (call["name"], call["input"]) == ("Read", {"file_path": "/srv/app/depot.log"})
    assert (result["tool_use_id"], result["content"]) == (call["id"], "1\trefused: checksum of parcel code 4417")
    assert lines[4]["message"]["content"] == messages[3]["content"]


@pytest.mark.slow
def test_a_session_of_the_arm_finds_the_decision_through_its_mcp_server(module: Any, tmp_path: Path) -> None:
    """A decision of a recorded session is found through the server that the session's configuration starts."""
    adapter = module.LorelogAdapter(tmp_path / "stores")
    assert adapter.ingest(tmp_path / "corpus", "seed-1")["memories"] >= 2
    spec = adapter.build("seed-1", tmp_path / "session")
    assert "search_memory" in Path(spec.append_system_prompt_file).read_text()
    assert adapter.admission_signal().mcp_tool_prefixes == ("mcp__lorelog__",)
    server = json.loads(Path(spec.mcp_config).read_text())["mcpServers"]["lorelog"]
    agents = Agents(lambda: StdioServerParameters(**server), "legacy")
    reply = agents.run(lambda client: client.call_tool("search_memory", {"query": "parcel codes checksum"}))
    assert "modulo-23" in str(reply.content)


@pytest.mark.slow
def test_the_sidecar_answers_with_the_session_that_decided(tmp_path: Path) -> None:
    """The challenge's process is ready, finds the session with the decision, and refuses other requests."""
    address = tmp_path / "run" / "adapter.sock"
    address.parent.mkdir()
    words = [sys.executable, str(ADAPTER), "--corpus", str(tmp_path / "corpus"), "--socket", str(address)]
    process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(HARNESS)})
    try:
        while not address.exists() and process.poll() is None:
            time.sleep(0.1)

        def ask(method: str, **params: object) -> dict[str, Any]:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(address))
                request = {"api": "amb-challenge-adapter-v1", "id": "r", "method": method, "params": params}
                client.sendall(json.dumps(request).encode() + b"\n")
                reply: dict[str, Any] = json.loads(client.makefile().readline())
                return reply

        assert ask("health")["result"] == {"ready": True}
        found = ask("search", task_id="t", query="how do parcel codes end", limit=3)["result"]
        assert found["hits"][0]["source_id"] == "sessions/parcel-codes/p01.jsonl"
        assert "modulo-23" in " ".join(hit["text"] for hit in found["hits"])
        assert "result" in ask("reset")
        assert "error" in ask("ingest")
    finally:
        process.terminate()
        process.wait()
