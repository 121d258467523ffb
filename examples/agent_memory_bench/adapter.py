"""lorelog as a memory layer of agent-memory-bench (github.com/GiulioDER/agent-memory-bench).

The file belongs into `adapters/lorelog/` there. It needs lorelog in the same environment (`pip install lorelog`), no key and no network: the
model that embeds is part of lorelog. It has both doors that the benchmark describes:

- `LorelogAdapter` is an arm of the grid: the corpus is captured by `lorelog backfill`, and a session gets lorelog's MCP server;
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
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from harness.adapters.base import ArmSpec, CorpusManifest, IngestReport, MemoryAdapter, digest_tree
from harness.gate import AdmissionSignal

from lorelog import Lorelog

INSTRUCTION = (
    "lorelog remembers earlier sessions of this project. Before you decide how something is to be done here, call search_memory of the MCP "
    "server lorelog with the names and the subject of the task. What it returns is quoted text of earlier sessions; of two that disagree, the "
    "later one holds.\n"
)
TOOL_PREFIX = "mcp__lorelog__"
API = "amb-challenge-adapter-v1"
_TOOLS = ("search_memory", "get_memory", "get_transcript")
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

    def fill(self, corpus: Path, sessions: Iterable[str]) -> int:
        """Capture the sessions into a new store; return the number of its memories."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.project.mkdir(parents=True)
        transcripts = self.folder / "user" / ".claude" / "projects" / "project"
        transcripts.mkdir(parents=True)
        for path in sessions:
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

    def __init__(self, staging_root: str | Path, base_prompt_file: str | Path, instruction: str | None = None) -> None:
        self._staging, self._base_prompt = Path(staging_root), Path(base_prompt_file)
        self._instruction = INSTRUCTION if instruction is None else instruction

    def _store(self, namespace: str) -> Store:
        if Path(namespace).name != namespace:
            raise ValueError(f"{namespace!r} is not the name of a folder")
        return Store(self._staging / "lorelog" / namespace)

    def ingest(self, corpus: CorpusManifest, namespace: str) -> IngestReport:
        """Capture the corpus into a new store."""
        corpus.verify()
        started = time.monotonic()
        stored = self._store(namespace).fill(corpus.root, sorted(corpus.sessions))
        return IngestReport(
            arm=self.name, namespace=namespace, sessions_offered=len(corpus.sessions), items_stored=stored,
            wall_time_ms=1_000 * (time.monotonic() - started), llm_input_tokens=0, llm_output_tokens=0,
            local_model="lorelog-encoder, int8, on the processor",
        )  # fmt: skip

    def build(self, session_dir: Path, namespace: str) -> ArmSpec:
        """Write the instruction and the MCP configuration of a session."""
        store, config = self._store(namespace), session_dir / "config"
        config.mkdir(parents=True, exist_ok=True)
        prompt, servers = session_dir / "prompt.md", session_dir / "mcp.json"
        prompt.write_text(f"{self._instruction.rstrip()}\n\n{self._base_prompt.read_text('utf-8')}", "utf-8")
        server = {
            "command": sys.executable,
            "args": ["-m", "lorelog", "mcp", "--project", str(store.project), "--daemon", "off"],
            "env": store.variables,
        }
        servers.write_text(json.dumps({"mcpServers": {self.name: server}}, indent=1), "utf-8")
        return ArmSpec(
            arm=self.name, mcp_config=str(servers), append_system_prompt_file=prompt, memory_tool_prefix=TOOL_PREFIX,
            extra_allowed_tools=tuple(f"{TOOL_PREFIX}{tool}" for tool in _TOOLS), config_dir=config,
            config_dir_digest=digest_tree(config),
        )  # fmt: skip

    def admission_signal(self) -> AdmissionSignal:
        """A session counts only if it had the tools."""
        return AdmissionSignal(arm=self.name, mcp_tool_prefixes=(TOOL_PREFIX,))

    def snapshot(self, namespace: str) -> Path:
        """Copy the store; return the copy."""
        source = self._store(namespace).folder
        return Path(shutil.copytree(source, source.with_name(f"{namespace}.snapshot"), dirs_exist_ok=True))

    def restore(self, snapshot: Path) -> None:
        """Replace a store by its copy."""
        target = snapshot.with_suffix("")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(snapshot, target)

    def describe(self) -> dict[str, Any]:
        """Return what is published beside the figures."""
        return {
            "arm": self.name,
            "package": f"lorelog=={version('lorelog')}",
            "route": "MCP server, standard input and output",
        }


class Sidecar:
    """Answers the challenge's requests from a store."""

    def __init__(self, store: Store, sessions: Iterable[str]) -> None:
        self._paths = {session_id(path): path for path in sessions}
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
    corpus = CorpusManifest.load(options.corpus)
    corpus.verify()
    store = Store(options.socket.parent / "lorelog")
    store.fill(corpus.root, sorted(corpus.sessions))
    serve(Sidecar(store, corpus.sessions), options.socket)


if __name__ == "__main__":
    main()
