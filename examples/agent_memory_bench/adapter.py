"""lorelog as a memory layer of agent-memory-bench (github.com/GiulioDER/agent-memory-bench).

Written from the benchmark's own description alone: README, docs/INTEGRATION-CONTRACT.md, docs/CHALLENGE.md and corpus/README.md. It needs
lorelog in the same environment (`pip install lorelog`), no key and no network: the model that embeds is part of lorelog. It has both doors
that are described:

- `LorelogAdapter` is an arm of the grid: the corpus is captured by `lorelog backfill`, and a session gets lorelog's MCP server. The file
  belongs into `adapters/lorelog/` there. What the description leaves open, whoever registers the arm fits: here `ingest` takes the folder of
  the corpus, and `build` the namespace and a folder for the session's files;
- `python adapter.py --corpus DIR --socket FILE` is the sidecar of the challenge, which answers `health`, `search` and `reset`.

Every recorded session becomes one transcript of Claude Code, message by message, with its own times. Nothing is added, left out or marked:
what lorelog's capture keeps of it is part of what is measured. lorelog's hooks are not installed, because they answer for the project
of the directory that a session runs in, and a sandbox is another directory than the one that the memory is about.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socketserver
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from harness.adapters.base import AdmissionSignal, ArmSpec, MemoryAdapter

from lorelog import Lorelog

INSTRUCTION = (
    "lorelog remembers earlier sessions of this project. Before you decide how something is to be done here, call search_memory of the MCP "
    "server lorelog with the names and the subject of the task. What it returns is quoted text of earlier sessions; of two that disagree, the "
    "later one holds.\n"
)
TOOL_PREFIX = "mcp__lorelog__"
API = "amb-challenge-adapter-v1"
_TOKENS_OF_A_HIT = 200


class Store:
    """A home of lorelog with one project, filled from recorded sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.project = self.folder / "project"

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which lorelog sees this store only."""
        return {
            "LORELOG_HOME": str(self.folder / "home"),
            "HOME": str(self.folder / "user"),
            "PATH": os.environ.get("PATH", os.defpath),
        }

    def fill(self, corpus: Path) -> int:
        """Capture the sessions of a corpus into a new store; return the number of its memories."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.project.mkdir(parents=True)
        transcripts = self.folder / "user" / ".claude" / "projects" / "project"
        transcripts.mkdir(parents=True)
        for path in session_paths(corpus):
            lines = (json.dumps(line) for line in transcript_lines(path, _read(corpus / path), self.project))
            (transcripts / f"{session_id(path)}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        captured = self._run("backfill", "claude")
        self._run("index")
        return int(captured["turns"])

    def _run(self, *words: str) -> Any:
        command = [sys.executable, "-m", "lorelog", *words, "--json", "--daemon", "off"]
        done = subprocess.run(
            command, env={**os.environ, **self.variables}, cwd=self.project, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"lorelog {' '.join(words)}: {done.stderr[-2_000:]}")
        return json.loads(done.stdout)


def session_paths(corpus: Path) -> list[str]:
    """Return the recorded sessions of a corpus: one file of JSON lines each. What the manifest does not list is no part of the corpus."""
    listed = (corpus / "manifest.json").read_text("utf-8")
    return sorted(
        path for file in corpus.rglob("*.jsonl") if f'"{(path := file.relative_to(corpus).as_posix())}"' in listed
    )


def session_id(path: str) -> str:
    """Return the id of the session that a file of the corpus becomes."""
    return str(uuid5(NAMESPACE_URL, path))


def transcript_lines(path: str, messages: Iterable[Mapping[str, Any]], directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the messages of a recorded session as lines of a transcript that was recorded in a directory."""
    session, parent = session_id(path), None
    for number, message in enumerate(messages):
        for part, content in enumerate(_contents(message, f"toolu_{number}")):
            name = str(uuid5(NAMESPACE_URL, f"{path} {number} {part}"))
            role = "user" if part else str(message["role"])  # a tool's result comes as the user's
            yield {
                "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": str(directory), "sessionId": session,
                "version": "2.1.221", "gitBranch": "main", "type": role, "message": {"role": role, "content": content}, "uuid": name,
                "timestamp": str(message["ts"]),
            }  # fmt: skip
            parent = name


def _contents(message: Mapping[str, Any], call: str) -> Iterator[str | list[dict[str, Any]]]:
    """Yield the content of a message and, if it calls a tool, that of the tool's result."""
    text, tool = str(message.get("content") or ""), message.get("tool_name")
    if message["role"] == "user":
        yield text
        return
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    if tool:
        given = message.get("tool_input") or {}
        arguments = json.loads(given) if isinstance(given, str) else given
        parts.append({"type": "tool_use", "id": call, "name": tool, "input": arguments})
    yield parts
    if tool:
        yield [{"type": "tool_result", "tool_use_id": call, "content": str(message.get("tool_result") or "")}]


def _read(file: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip())


class LorelogAdapter(MemoryAdapter):
    """The arm `lorelog`: captured by its backfill, asked through its MCP server."""

    name = "lorelog"

    def __init__(self, stores: Path) -> None:
        self._stores = stores

    def ingest(self, corpus: Path, namespace: str) -> dict[str, Any]:
        """Capture the corpus into a new store. No model is asked: embedding costs no token."""
        return {"memories": Store(self._stores / namespace).fill(corpus)}

    def build(self, namespace: str, folder: Path) -> ArmSpec:
        """Write the instruction and the MCP configuration of a session into a folder."""
        store, instruction, servers = Store(self._stores / namespace), folder / "instruction.md", folder / "mcp.json"
        folder.mkdir(parents=True, exist_ok=True)
        instruction.write_text(INSTRUCTION, "utf-8")
        words = ["-m", "lorelog", "mcp", "--project", str(store.project), "--daemon", "off"]
        server = {"command": sys.executable, "args": words, "env": store.variables}
        servers.write_text(json.dumps({"mcpServers": {self.name: server}}, indent=1), "utf-8")
        return ArmSpec(mcp_config=str(servers), append_system_prompt_file=str(instruction))

    def admission_signal(self) -> AdmissionSignal:
        """Prove the treatment: a session counts only if it had the tools."""
        return AdmissionSignal(mcp_tool_prefixes=(TOOL_PREFIX,))

    def describe(self) -> dict[str, Any]:
        """Return what is published beside the figures."""
        return {"package": f"lorelog=={version('lorelog')}", "route": "MCP server, standard input and output"}


class Sidecar:
    """Answers the challenge's requests from a store."""

    def __init__(self, store: Store, corpus: Path) -> None:
        self._paths = {session_id(path): path for path in session_paths(corpus)}
        os.environ.update(store.variables)
        self._memory = Lorelog(project=store.project, daemon="off")

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a request."""
        reply: dict[str, Any] = {"api": API, "id": request.get("id")}
        method, params = request.get("method"), request.get("params") or {}
        if method == "health":
            return {**reply, "result": {"ready": True}}
        if method == "reset":  # nothing is kept between sessions
            return {**reply, "result": {}}
        if method == "search":
            return {**reply, "result": self._search(str(params["query"]), int(params.get("limit") or 10))}
        return {**reply, "error": {"message": f"{method!r} is not health, search or reset"}}

    def _search(self, query: str, limit: int) -> dict[str, Any]:
        arguments = {"query": query, "k": limit, "token_budget": limit * _TOKENS_OF_A_HIT}
        found = self._memory.call("memory.search", arguments)
        hits = [
            {
                "source_id": self._paths.get((hit["anchor"] or {}).get("session", ""), ""),
                "text": f"{hit['date']} {hit['packed']['text']}", "score": hit["score"], "rank": rank,
            }
            for rank, hit in enumerate(found["hits"][:limit], 1)
        ]  # fmt: skip
        return {"hits": hits, "abstained": not hits, "usage": {"input_tokens": 0, "output_tokens": 0}}


def serve(sidecar: Sidecar, socket: Path) -> None:
    """Answer one line of JSON with one line of JSON for each connection, until the process is ended."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                reply = sidecar.answer(json.loads(self.rfile.readline()))
            except (ValueError, KeyError, TypeError) as error:
                reply = {"api": API, "id": None, "error": {"message": f"not a request: {error}"}}
            self.wfile.write(json.dumps(reply).encode() + b"\n")

    with socketserver.UnixStreamServer(str(socket), Handler) as server:
        server.serve_forever()


def main() -> None:
    """Fill a store from the mounted corpus and serve it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    options = parser.parse_args()
    store = Store(options.socket.parent / "lorelog")
    store.fill(options.corpus)
    serve(Sidecar(store, options.corpus), options.socket)


if __name__ == "__main__":
    main()
