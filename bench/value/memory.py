"""A kept memory: sessions captured by `lorelog backfill`, vectors by `lorelog index`, and the real hooks in this process."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import time_machine
from bench.delivery.hook_calls import Bench, shown_text
from bench.quality.rivals import CUT, PlainBM25, memsearch
from msgspec.structs import replace

from lorelog import Lorelog
from lorelog.core.query import Filters
from lorelog.core.vectors import unit_vector
from lorelog.engine import Engine
from lorelog.language.analyser import WordAnalyser
from lorelog.light import daemon_connection
from lorelog.light.delivery_log import estimate_tokens
from lorelog.stores.embedded import EmbeddedStore
from lorelog.surfaces.hook import handle_hook

_CANDIDATES, _RANKED = 60, 20
_BUILT = "built.json"
_QUOTED_CHARS = 35
"""So many characters of a note are no coincidence."""


@dataclass(frozen=True)
class Shown:
    """What an agent was shown at a moment."""

    moment: str
    text: str
    spent: int = 0
    """Tokens with what is shown around the text, where that is known."""

    @property
    def tokens(self) -> int:
        return self.spent or (estimate_tokens(self.text) if self.text else 0)


@dataclass
class Memory:
    """A project with captured sessions. Use `open_memory`."""

    bench: Bench
    root: Path
    api: Lorelog
    now: datetime
    _lanes: _Lanes | None = None
    _settings: dict[str, str] = field(default_factory=dict)

    def run_session(
        self,
        name: str,
        prompt: str,
        calls: Sequence[tuple[str, dict[str, Any]]] = (),
        *,
        start: int = 600,
        budget: int = 200,
    ) -> list[Shown]:
        """Run the hooks of a session: its start, its prompt, and before each tool call; return what they showed."""
        os.environ |= {"LORELOG_SESSION_BUDGET": str(start), "LORELOG_SESSION_PROMPT_BUDGET": str(budget)}
        shown = [self._hook(name, "session-start", "SessionStart", {"source": "startup"})]
        shown.append(self._hook(name, "prompt", "UserPromptSubmit", {"prompt": prompt}))
        for number, (tool, arguments) in enumerate(calls):
            more = {"tool_name": tool, "tool_input": arguments, "tool_use_id": f"call-{number}"}
            shown.append(self._hook(name, "tool-before", "PreToolUse", more))
        return [part for part in shown if part.text]

    def _hook(self, session: str, moment: str, event: str, more: Mapping[str, Any]) -> Shown:
        payload = {
            "session_id": session,
            "cwd": str(self.root),
            "transcript_path": "",
            "hook_event_name": event,
            **more,
        }
        answer = handle_hook(["claude", moment], json.dumps(payload).encode(), os.environ)
        return Shown(moment, shown_text(answer) or str(answer.get("additionalContext") or ""))

    def search(self, query: str, budget: int) -> Shown:
        """Return what `lorelog search` answers within a budget of tokens, which pays for places and ids, too."""
        reply = self.api.call("memory.search", {"query": query[:4_000], "token_budget": budget})
        texts = [f"- {hit['date']} {hit['packed']['text']}" for hit in reply["hits"]]
        packing = reply["packing"]
        return Shown("search", "\n".join([*packing["files"], *texts]), packing["spent"])

    def ranked(self, query: str) -> list[str]:
        """Return the memories that a search finds, whole, without what is shown around them."""
        options = replace(self.engine.defaults.search, k=_RANKED, token_budget=0)
        return [hit.content for hit in self.engine.search(query[:4_000], options).hits]

    def found_sessions(self, query: str) -> list[str]:
        """Return the ids of the sessions of the memories that a search finds, best first."""
        options = replace(self.engine.defaults.search, k=_RANKED, token_budget=0)
        anchors = (hit.anchor for hit in self.engine.search(query[:4_000], options).hits)
        return list(dict.fromkeys(anchor.session for anchor in anchors if anchor is not None and anchor.session))

    def recall(self, prompt: str, session: str = "") -> list[str]:
        """Return the memories that the daemon would recall for a prompt, whatever its length."""
        reply = self.api.call("session.recall", {"prompt": prompt, "session": session, "k": 2})
        return [str(hit["text"]) for hit in reply["hits"]]

    @property
    def lanes(self) -> _Lanes:
        """Return the simpler rankings over the chunks and vectors of this memory."""
        if self._lanes is None:
            self._lanes = _Lanes(self.engine)
        return self._lanes

    @property
    def engine(self) -> Engine:
        self.api.call("memory.stats")
        engine: Engine = self.api._caller.engine  # noqa: SLF001
        return engine

    def notes(self) -> str:
        """Return the text of all journals."""
        return "\n".join(path.read_text("utf-8") for path in sorted((self.root / ".lorelog" / "memory").rglob("*.md")))


class _Lanes:
    """BM25 and memsearch's ranking over the chunks of a memory."""

    def __init__(self, engine: Engine) -> None:
        embedder = engine.embedder
        assert embedder is not None
        self._embedder = embedder
        store = EmbeddedStore(
            engine.place.cache_folder, WordAnalyser(), provider=embedder.provider, model=embedder.model
        )
        self._store = store
        self._texts = {
            stored.key: stored.chunk.text
            for document in store.documents()
            for stored in store.chunks_of(document.source)
        }
        self._plain = PlainBM25(self._texts)
        self.chunks = len(self._texts)

    def bm25(self, query: str) -> list[str]:
        """Return chunks by BM25 over plain words."""
        return [self._texts[key] for key in self._plain.rank(query, _CANDIDATES)]

    def memsearch(self, query: str) -> list[str]:
        """Return chunks as memsearch ranks them, with our vectors."""
        vector = unit_vector(self._embedder.embed_query(query[:4_000]))
        dense = [item.key for item in self._store.propose((), vector, Filters(), CUT)[1]]
        ranked = memsearch(self._plain.rank(query, CUT), dense)
        return [self._texts[key] for key in ranked if key in self._texts]

    def close(self) -> None:
        self._store.close()


def fit(texts: Sequence[str], budget: int) -> str:
    """Return the first texts that fit into a budget of tokens; the first that does not fit is cut."""
    shown: list[str] = []
    for text in texts:
        room = budget - estimate_tokens("\n".join(shown)) - 1
        line = f"- {' '.join(text.split())}"
        if estimate_tokens(line) <= room:
            shown.append(line)
            continue
        if room > 20:
            shown.append(line.encode()[: 4 * room].decode("utf-8", "ignore"))
        break
    return "\n".join(shown)


def is_quoted(shown: str, notes: str, others: str) -> bool:
    """Return whether a shown text quotes something of these notes that the other notes do not have."""
    plain, elsewhere = " ".join(notes.split()), " ".join(others.split())
    pieces = (" ".join(piece.split()) for piece in re.split(r"…|\"|\n|: ", shown))
    found = {piece[:_QUOTED_CHARS] for piece in pieces if len(piece) >= _QUOTED_CHARS}
    return any(piece in plain and piece not in elsewhere for piece in found)


@contextmanager
def open_memory(
    keep: Path, name: str, now: datetime, write_sessions: Callable[[Path, Path], object], *, vectors: bool = True
) -> Iterator[Memory]:
    """Open a kept memory, and build it first if it is new: `write_sessions` writes transcripts for a project's directory."""
    folder = (keep / name).resolve()
    is_new = not (folder / _BUILT).exists()
    if is_new and folder.exists():
        shutil.rmtree(folder)
    with ExitStack() as stack:
        bench = Bench(folder)
        bench.environment |= {"LORELOG_DAEMON_WARM": "off", "TZ": "UTC", "LORELOG_EMBEDDING_PROVIDER": "builtin"}
        bench.environment |= {} if vectors else {"LORELOG_EMBEDDING_PROVIDER": "fake"}
        root = folder / "projects" / "project"
        if is_new:
            root = bench.make_project("project")
            write_sessions(folder / "user" / ".claude" / "projects" / "project", root)
        stack.enter_context(bench.active())
        if is_new:
            _build(bench, root)
            (folder / _BUILT).write_text("{}\n", "utf-8")
        _forget_deliveries(folder)
        os.environ["LORELOG_DAEMON_WARM"] = "auto"
        stack.enter_context(_stopped_at(now))
        api = stack.enter_context(Lorelog(project=root, daemon="off"))

        def ask(
            address: object, timeout_s: float, op: str, arguments: Mapping[str, Any], directory: str
        ) -> dict[str, Any]:
            return api.call(op, arguments)

        stack.enter_context(mock.patch.object(daemon_connection, "ask_within", ask))
        stack.enter_context(mock.patch.object(daemon_connection, "wake", return_value=True))
        memory = Memory(bench, root, api, now)
        try:
            yield memory
        finally:
            if memory._lanes is not None:  # noqa: SLF001
                memory._lanes.close()  # noqa: SLF001


def _build(bench: Bench, root: Path) -> None:
    before = Path.cwd()
    os.chdir(root)
    try:
        print(f"building {bench.root.name}", file=sys.stderr, flush=True)
        bench.run_command("backfill", "claude")
        bench.run_command("index")
    finally:
        os.chdir(before)


def _forget_deliveries(folder: Path) -> None:
    """Remove what an earlier run was shown: otherwise a second run would be shown less."""
    shutil.rmtree(folder / "home" / "spool", ignore_errors=True)
    for place in (folder / "home" / "data").glob("*/deliveries"):
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _stopped_at(now: datetime) -> Iterator[None]:
    with time_machine.travel(now, tick=True):
        yield
