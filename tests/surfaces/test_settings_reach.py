"""Every setting has an effect that a user can see. That each layer can choose it is tested in tests/config."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.models.embedding_server import EmbeddingServer, Request, well
from tests.models.fake_docker import FakeDocker
from tests.models.tiny_crossencoder import write_model
from tests.services.watch.watching import eventually
from tests.stores.milvus_server import listening
from tests.surfaces.conftest import write
from tests.surfaces.otter_project import OtterProject, git_init, otters, write_note

from lorelog.config.schema import SETTINGS_BY_KEY, SettingValue
from lorelog.retrieval.cache import CacheCounters
from lorelog.surfaces.hook import handle_hook
from lorelog.wiring import open_engine, resolve_location

__all__ = ["otters"]


@dataclass(frozen=True)
class SettingEffect:
    """A setting, a value, and what is seen without and with it."""

    key: str
    value: SettingValue
    look: Callable[[OtterProject], object]
    without: object
    given: object
    needs: dict[str, SettingValue] = field(default_factory=dict)
    """Other settings without which it has no effect."""


# -- what is found -------------------------------------------------------------------------------------------------------


def _fusion(otters: OtterProject) -> object:
    otters.index("notes")
    return all(note.startswith("rank ") for note in otters.explanation().values())


def _verdict(otters: OtterProject) -> object:
    write(otters.path / "notes" / "named.md", "the otter of docs/guide.md is the best otter\n")
    otters.index("notes")
    hits = otters.search("-k", 9).json["hits"]
    return {Path(hit["source"]).name: hit["freshness"]["verdict"] for hit in hits}["named.md"]


def _seen_from_elsewhere(otters: OtterProject) -> object:
    git_init(otters.path)
    otters.index(otters.path / "notes")
    otters.move_elsewhere()
    return len(otters.search("-k", 50).json["hits"])


def _documents(*paths: str, **files: str) -> Callable[[OtterProject], object]:
    def look(otters: OtterProject) -> object:
        for name, text in files.items():
            write(otters.path / name, text)
        return otters.index(*paths)

    return look


def _problems(otters: OtterProject) -> object:
    done = otters.shell("index", "docs", "long", "--json")
    return done.status, {Path(problem["path"]).name for problem in done.json["problems"]}


def _pieces(otters: OtterProject) -> list[tuple[int, int]]:
    """Return the lines of each chunk: an entry is one hit, so the chunks are read where they are stored."""
    assert otters.shell("index", "long", "--force").status == 0
    location = otters.shell("status", "index", "--json").json["location"]
    with closing(sqlite3.connect(Path(location) / "catalog.db")) as catalog:
        query = "SELECT start_line, end_line FROM chunks JOIN documents ON documents.id = document WHERE chunks.live AND source LIKE ?"
        return sorted(catalog.execute(query, (f"{otters.path}/long/%",)))


def _shared_lines(otters: OtterProject) -> object:
    pieces = _pieces(otters)
    return pieces[0][1] - pieces[1][0] + 1


def _tenant(otters: OtterProject) -> object:
    if not otters.listed():
        in_default = "default" in otters.shell("status", "index", "--json").json["location"]
        otters.shell("index", "notes" if in_default else "docs/drafts")
    return len(otters.listed())


def _model(otters: OtterProject) -> object:
    embedded = otters.shell("index", "notes", "--force", "--json").json["embedded"]
    return otters.shell("status", "index", "--json").json["model"], embedded


def _writer(otters: OtterProject) -> object:
    """Return the writer of a record, and whether that is proven."""
    otters.shell("identity", "create", "mara")
    task = otters.call("task.start", goal="count otters")
    artifact = otters.call("artifact.get", artifact_id=task["artifact_id"])["artifact"]
    return artifact.get("writer", ""), artifact["trust"]["signed"]


def _store(otters: OtterProject) -> object:
    """Return where the index is kept, whether both sides agree, and whether a search finds anything."""
    otters.shell("index", ".")
    found = otters.call("check_store")
    return Path(found["place"]).name, found["here"] == found["there"] > 0, bool(otters.search().json["hits"])


def _milvus_state(otters: OtterProject) -> dict[str, dict[str, str]]:
    otters.shell("index", ".")
    (state,) = (otters.home / "cache" / "default" / "milvus").glob("*/current.json")
    read: dict[str, dict[str, str]] = json.loads(state.read_text("utf-8"))
    return read


def _collections(otters: OtterProject) -> object:
    otters.shell("index", ".")
    write(otters.move_elsewhere() / "other.md", "# Other\n\nan otter elsewhere\n")
    return len(set(_milvus_state(otters)["collections"].values()))


def _collection_prefixes(otters: OtterProject) -> object:
    return {name.partition("_")[0] for name in _milvus_state(otters)["collections"].values()}


def _token(otters: OtterProject) -> object:
    seen: list[str] = []
    otters.monkeypatch.setenv("MY_MILVUS_TOKEN", "swordfish")
    with listening(seen) as port:
        otters.configure("store.uri", f"http://127.0.0.1:{port}")
        otters.shell("index", ".")
    return sorted(set(seen))


_LITE: dict[str, SettingValue] = {"store.uri": "lite.db"}
FOUND = [
    SettingEffect("search.fusion", "rrf", _fusion, without=False, given=True),
    SettingEffect("search.all_projects", True, _seen_from_elsewhere, 0, 7),
    SettingEffect("search.freshness", False, _verdict, "fresh", "unchecked"),
    SettingEffect("index.paths", ("docs", "!docs/drafts"), _documents(), set(), {"guide.md", "scratch.tmp.md"}),
    SettingEffect(
        *("index.exclude", ("*.tmp.md",), _documents("docs")),
        *({"guide.md", "draft.md", "scratch.tmp.md"}, {"guide.md", "draft.md"}),
    ),
    SettingEffect(
        *("index.extensions", (".txt",), _documents("more", **{"more/a.txt": "otters\n", "more/b.md": "otters\n"})),
        *({"b.md"}, {"a.txt", "b.md"}),
    ),
    SettingEffect(
        *("index.ignore_files", (".passover",)),
        _documents("docs", **{"docs/.gitignore": "guide.md\n", "docs/.passover": "drafts/\n"}),
        *({"draft.md", "scratch.tmp.md"}, {"guide.md", "scratch.tmp.md"}),
    ),
    SettingEffect("index.auto_memory", False, _documents(**{"AGENTS.md": "otters\n"}), {"AGENTS.md"}, set()),
    SettingEffect("index.max_file_bytes", 100, _problems, (0, set()), (1, {"long.md"})),
    SettingEffect("chunking.max_chunk_size", 100, lambda otters: len(_pieces(otters)) > 10, without=False, given=True),
    SettingEffect("chunking.overlap_lines", 0, _shared_lines, 2, 0),
    SettingEffect("scope.tenant", "another", _tenant, 7, 1),
    SettingEffect("embedding.provider", "none", _model, ("fake/fake-64", 7), ("none", 0)),
    SettingEffect("store.uri", "lite.db", _store, ("", True, True), ("lite.db", True, True)),
    SettingEffect("store.per_project", False, _collections, 2, 1, _LITE),
    SettingEffect("store.collection", "team", _collection_prefixes, {"lorelog"}, {"team"}, _LITE),
    SettingEffect("store.shared", True, lambda otters: bool(_milvus_state(otters)["registry"]), False, True, _LITE),
    SettingEffect("store.token", "env:MY_MILVUS_TOKEN", _token, [""], ["swordfish"]),
    SettingEffect("records.writer", "otto", _writer, ("", False), ("otto", False)),
    SettingEffect("records.identity", "mara", _writer, ("", False), ("mara", True)),
]


# -- what a server is sent -----------------------------------------------------------------------------------------------


def _embedding(look: Callable[[list[Request]], object]) -> Callable[[OtterProject], object]:
    """Return what a look at the requests of an index run sees."""

    def see(otters: OtterProject) -> object:
        server = otters.serve()
        otters.shell("reset", "--yes")
        assert otters.shell("index", "notes", "many").status == 0
        return look(server.requests)

    return see


def _writing(look: Callable[[list[Request]], object]) -> Callable[[OtterProject], object]:
    """Return what a look at the requests for the notes of three sessions sees."""

    def see(otters: OtterProject) -> object:
        server = otters.serve(write_note)
        (otters.home / "data" / "default" / "receipts.jsonl").unlink(missing_ok=True)
        for _ in range(3):
            assert otters.capture()
        return look(server.requests)

    return see


def _models(requests: list[Request]) -> object:
    return {request.body["model"] for request in requests}


def _keys(requests: list[Request]) -> object:
    return {request.headers.get("authorization") for request in requests}


def _in_small_batches(requests: list[Request]) -> object:
    return max(len(request.body["input"]) for request in requests) <= 4


def _lengths(requests: list[Request]) -> object:
    return {request.body.get("dimensions") for request in requests}


def _prefixed(requests: list[Request]) -> object:
    return {text.startswith("D> ") for request in requests for text in request.body["input"]}


_OPENAI: dict[str, SettingValue] = {"embedding.provider": "openai"}
_NOTES: dict[str, SettingValue] = {"summarize.provider": "openai"}
_GPT, _OTTER, _SECRET = {"gpt-4.1-mini"}, {"otter-3"}, {"Bearer swordfish"}
SENT = [
    SettingEffect("embedding.model", "otter-3", _embedding(_models), {"text-embedding-3-small"}, _OTTER, _OPENAI),
    SettingEffect("embedding.batch_size", 4, _embedding(_in_small_batches), False, True, _OPENAI),
    SettingEffect("embedding.api_key", "env:MY_OTTER_SECRET", _embedding(_keys), {None}, _SECRET, _OPENAI),
    SettingEffect("embedding.dimensions", 3, _embedding(_lengths), {None}, {3}, _OPENAI),
    SettingEffect("embedding.document_prefix", "D> ", _embedding(_prefixed), {False}, {True}, _OPENAI),
    SettingEffect("summarize.model", "otter-3", _writing(_models), _GPT, _OTTER, _NOTES),
    SettingEffect("summarize.models", ("codex=newt-1", "claude=otter-3"), _writing(_models), _GPT, _OTTER, _NOTES),
    SettingEffect("summarize.api_key", "env:MY_OTTER_SECRET", _writing(_keys), {None}, _SECRET, _NOTES),
    SettingEffect("summarize.daily_tokens", 20_000, _writing(len), 3, 2, _NOTES),
    SettingEffect("summarize.daily_tokens", 0, _writing(len), 3, 0, _NOTES),
]


# -- what is traced ------------------------------------------------------------------------------------------------------


def _traced_calls(otters: OtterProject) -> object:
    otters.index("notes")
    before = otters.shell("debug", "calls", "--json").json["total_count"]
    otters.shell("status", "index")
    return otters.shell("debug", "calls", "--json").json["total_count"] > before


def _kept_calls(otters: OtterProject) -> object:
    """Make 3 MB of calls of two days ago, and return whether they outlive the next one."""
    otters.index("notes")
    otters.shell("status", "index")
    otters.shell("debug", "calls")
    with closing(sqlite3.connect(otters.home / "data" / "default" / "traces.db")) as db, db:
        columns = [name for _, name, *_ in db.execute("PRAGMA table_info(calls)")]
        same = ", ".join(name for name in columns if name not in {"id", "mark", "output", "kept"})
        db.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000)"
            f" INSERT INTO calls (mark, output, kept, {same}) SELECT ? || n, ?, kept - 2 * 86400000, {same}"
            " FROM numbers, (SELECT * FROM calls ORDER BY id DESC LIMIT 1)",
            (uuid.uuid4().hex, "x" * 1000),
        )
    otters.shell("status", "index")
    return otters.shell("debug", "calls", "--json").json["total_count"] > 2500


TRACED = [
    SettingEffect("traces.enabled", False, _traced_calls, without=True, given=False),
    SettingEffect("traces.days", 1, _kept_calls, without=True, given=False),
    SettingEffect("traces.megabytes", 1, _kept_calls, without=True, given=False),
]


# -- what is cached, captured and shown to agents ------------------------------------------------------------------------


def _cached(*questions: str) -> CacheCounters:
    """Search in one process, and return the counters of the caches."""
    with open_engine(resolve_location()) as engine:
        for question in questions:
            engine.search(question)
        return engine.answers.counters()


def _repeats(otters: OtterProject) -> object:
    otters.index("notes")
    return _cached("otter", " otter  ", "otter").exact


def _session_headings(otters: OtterProject) -> object:
    """Return how many sessions have a heading in the journal, after two of them."""
    otters.capture()
    otters.capture()
    (journal,) = (otters.path / ".lorelog" / "memory").glob("*.md")
    return journal.read_text("utf-8").count("\n## Session ")


def _hook(otters: OtterProject, moment: str, **more: object) -> dict[str, str]:
    payload = {"session_id": str(uuid.uuid4()), "cwd": str(otters.path), "source": "startup", **more}
    answer = handle_hook(["claude", moment], json.dumps(payload).encode(), os.environ)
    return dict(answer.get("hookSpecificOutput", {}))


def _shown_at_start(otters: OtterProject) -> object:
    otters.shell("add", "we take Redis")
    return "we take Redis" in _hook(otters, "session-start").get("additionalContext", "")


def _shown_to_a_subagent(otters: OtterProject) -> object:
    otters.shell("add", "use pnpm", "--type", "preference")
    return "use pnpm" in _hook(otters, "subagent-start").get("additionalContext", "")


def _recalled(otters: OtterProject) -> object:
    otters.index("notes")
    return len(otters.call("session.recall", prompt="otter number", session=str(uuid.uuid4()))["hits"])


def _waits(otters: OtterProject) -> object:
    """Return for how long a hook waits for the daemon before a prompt."""
    waits: list[float] = []

    def no_daemon(address: object, wait_s: float, *_: object) -> dict[str, object]:
        waits.append(wait_s)
        return {}

    otters.shell("add", "we take Redis")
    otters.configure("daemon.warm", "auto")
    otters.monkeypatch.setattr("lorelog.surfaces.hook._wake_daemon", lambda *_: None)
    otters.monkeypatch.setattr("lorelog.light.daemon_connection.ask_within", no_daemon)
    _hook(otters, "prompt", prompt="which otter was number three?")
    otters.configure("daemon.warm", "off")
    return waits


def _answers_to_npm(otters: OtterProject) -> object:
    """Return the kinds of answer to a command that a correction is about."""
    otters.shell("add", "Use pnpm, not npm", "--type", "correction")
    return set(_hook(otters, "tool-before", tool_name="Bash", tool_input={"command": "npm i"})) - {"hookEventName"}


_THREE: dict[str, SettingValue] = {"session.hits": 3}
SHOWN = [
    SettingEffect("cache.answers", False, _repeats, 2, 0),
    SettingEffect("capture.enabled", False, lambda otters: "We take Redis" in otters.capture(), True, False),
    SettingEffect("capture.skip", True, lambda otters: "We take Redis" in otters.capture(), True, False),
    SettingEffect("capture.session_headings", True, _session_headings, 0, 2),
    SettingEffect("redact.patterns", (r"hunter-\S+",), lambda otters: "hunter-" in otters.capture(), True, False),
    SettingEffect(
        *("session.tool_hooks", False, _answers_to_npm, {"additionalContext"}, set()), {"session.hold_calls": "off"}
    ),
    SettingEffect(
        *("session.hold_calls", "off", _answers_to_npm),
        *({"permissionDecision", "permissionDecisionReason"}, {"additionalContext"}),
    ),
    SettingEffect("session.budget", 0, _shown_at_start, without=True, given=False),
    SettingEffect("session.subagents", "none", _shown_to_a_subagent, without=True, given=False),
    SettingEffect("session.prompt_budget", 0, _waits, [0.15], [], _THREE),
    SettingEffect("session.hits", 3, _recalled, 2, 3, {"session.hits_relevance": 0.0}),
    SettingEffect("session.hits_relevance", 0.0, lambda otters: _recalled(otters) == 3, False, True, _THREE),
]


EFFECTS = [
    pytest.param(effect, id=f"{effect.key}={effect.value}", marks=() if effect in SHOWN else pytest.mark.slow)
    for effect in (*FOUND, *SENT, *TRACED, *SHOWN)
]


@pytest.mark.parametrize("effect", EFFECTS)
def test_every_setting_has_its_effect(otters: OtterProject, effect: SettingEffect) -> None:
    """What a setting changes is as documented without it, and changed with it."""
    for key, value in effect.needs.items():
        otters.configure(key, value)
    assert effect.look(otters) == effect.without
    otters.monkeypatch.chdir(otters.path)

    otters.configure(effect.key, effect.value)

    assert effect.look(otters) == effect.given


def test_an_address_chooses_the_embedding_server(otters: OtterProject) -> None:
    """Texts and questions go to embedding.base_url before OPENAI_BASE_URL, questions with embedding.query_prefix."""
    other, server = otters.serve(), otters.serve()
    otters.configure("embedding.provider", "openai")
    assert otters.shell("index", "notes").status == 0
    assert (len(server.requests), len(other.requests)) == (1, 0)
    otters.configure("embedding.base_url", other.url)
    otters.configure("embedding.query_prefix", r"Find:\nQ> ")

    assert otters.search().json["coverage"]["with_vectors"] == 7
    assert otters.shell("index", "docs/drafts").status == 0

    assert len(server.requests) == 1
    assert [request.body["input"] for request in other.requests] == [["Find:\nQ> otter"], ["draft about otters"]]
    assert {request.path for request in other.requests} == {"/v1/embeddings"}


@pytest.mark.slow
def test_a_timeout_ends_the_wait_for_the_embedding_server(otters: OtterProject) -> None:
    """A server slower than embedding.timeout_s is given up on, and words are indexed without it."""
    otters.serve(lambda request: replace(well(request), delay_s=1.0))
    otters.configure("embedding.provider", "openai")
    assert otters.shell("index", "docs/drafts").status == 0

    otters.configure("embedding.timeout_s", 0.1)

    done = otters.shell("index", "notes", "--json")
    assert (done.status, done.json["changed"], done.json["embedded"], done.json["waiting"]) == (1, 7, 0, 7)
    assert "no vectors" in done.json["problems"][0]["message"]


@pytest.fixture
def docker(otters: OtterProject, tmp_path: Path) -> Iterator[FakeDocker]:
    """A Docker that records its calls; Ollama is chosen at an address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    made = FakeDocker.at(tmp_path / "docker")
    otters.monkeypatch.setenv("PATH", f"{made.bin}{os.pathsep}{os.environ['PATH']}")
    otters.configure("embedding.provider", "ollama")
    otters.monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{port}")
    yield made
    made.kill()


@pytest.mark.slow
def test_the_container_of_ollama_is_as_chosen(otters: OtterProject, docker: FakeDocker) -> None:
    """Without ollama.manage nothing is started; with it the image, the container, the volume and the idle time are those chosen."""
    assert otters.shell("index", "notes", "--json").json["waiting"] == 7
    assert docker.calls() == []
    chosen: dict[str, SettingValue] = {
        "image": "ollama/ollama:0.5",
        "container": "otter",
        "volume": "den",
        "idle_s": 0.5,
        "manage": True,
    }
    for name, value in chosen.items():
        otters.configure(f"ollama.{name}", value)

    assert otters.shell("index", "--json").json["embedded"] == 7

    started = docker.ran()
    assert (started[-1], started[3], started[5].partition(":")[0]) == ("ollama/ollama:0.5", "otter", "den")
    eventually(lambda: not docker.is_running())


def reranked(otters: OtterProject) -> tuple[int, str]:
    """Return how many hits a cross-encoder had a part in, and the note about it."""
    reply = otters.search("--explain", "-k", 7).json
    names = [[part["name"] for part in hit["explanation"]] for hit in reply["hits"]]
    notes = " ".join(note for note in reply["notes"] if "rerank" in note)
    return sum("cross-encoder" in name for name in names), notes


def test_a_cross_encoder_reads_as_settings_choose(otters: OtterProject) -> None:
    """rerank.model brings it in, candidates and timeout_s bound it, provider chooses who runs it; a missing one is noted."""
    otters.index("notes")
    model = write_model(otters.path.parent / "cross-encoder")
    otters.monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    otters.configure("rerank.timeout_s", 60.0)
    assert reranked(otters) == (0, "")
    before = otters.search().json["hits"]

    otters.configure("rerank.model", str(model))
    assert reranked(otters) == (7, "")
    otters.configure("rerank.candidates", 3)
    assert reranked(otters) == (3, "")
    otters.configure("rerank.provider", "local")
    assert reranked(otters)[0] == 0
    assert "sentence_transformers" in reranked(otters)[1]
    otters.monkeypatch.delenv(SETTINGS_BY_KEY["rerank.provider"].variable)
    # Its clock is a second ahead of the search's, which is a second lost.
    otters.monkeypatch.setattr("lorelog.models.rerank.monotonic", lambda: time.monotonic() + 1.0)
    otters.configure("rerank.timeout_s", 0.5)
    assert "read 0 of 3 candidates in 0.5 s" in reranked(otters)[1]
    otters.configure("rerank.model", str(model / "gone"))
    assert otters.search().json["hits"] == before
    assert f"{model / 'gone'} is not a folder" in reranked(otters)[1]


def test_a_provider_writes_the_notes_of_sessions(otters: OtterProject) -> None:
    """By default no model is called; with summarize.provider one writes the note, at summarize.base_url, with prompts.summarize."""
    server = otters.serve(write_note)
    assert "- User asked: Which cache" in otters.capture()
    assert server.requests == []
    otters.configure("summarize.provider", "openai")
    otters.configure("prompts.summarize", str(write(otters.path.parent / "prompt.md", "Reime, {agent}!")))

    note = otters.capture()

    assert "- User asked gpt-4.1-mini for a cache" in note
    assert "User asked: Which cache" not in note
    assert otters.call("session.status")["tokens_today"] == 10_001
    assert server.requests[0].body["messages"][0] == {"role": "system", "content": "Reime, Claude Code!"}
    other = EmbeddingServer(write_note)
    otters.servers.append(other)
    otters.configure("summarize.base_url", other.url)
    assert "for a cache" in otters.capture()
    assert (len(server.requests), [request.path for request in other.requests]) == (1, ["/v1/chat/completions"])


def test_the_hosts_own_program_writes_notes(otters: OtterProject) -> None:
    """With summarize.provider host `claude` writes the note of its turn; without that program it is extracted."""
    otters.configure("summarize.provider", "host")
    otters.monkeypatch.setenv("PATH", "/nowhere")
    assert "- User asked: Which cache" in otters.capture()
    answer = {"type": "result", "is_error": False, "result": "- User asked Claude for a cache", "usage": {}}
    program = write(otters.path.parent / "bin" / "claude", f"#!/bin/sh\nread line\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    otters.monkeypatch.setenv("PATH", str(program.parent))

    assert "- User asked Claude for a cache" in otters.capture()


@pytest.mark.slow
def test_a_timeout_ends_the_wait_for_a_note(otters: OtterProject) -> None:
    """A model slower than summarize.timeout_s is given up on, and the note is extracted."""
    otters.serve(lambda request: replace(write_note(request), delay_s=3.0))
    otters.configure("summarize.provider", "openai")
    otters.configure("summarize.timeout_s", 1.0)

    assert "- User asked: Which cache" in otters.capture()
    assert '"outcome": "timeout"' in (otters.home / "data" / "default" / "receipts.jsonl").read_text("utf-8")


def test_every_setting_has_a_test() -> None:
    """Every setting has a test of its effect: here, or where the process that it is for is tested."""
    seen = {effect.key for effect in (*FOUND, *SENT, *TRACED, *SHOWN)}
    seen |= {f"embedding.{name}" for name in ("base_url", "timeout_s", "query_prefix")}
    seen |= {f"summarize.{name}" for name in ("provider", "base_url", "timeout_s")}
    # llm and prompts: test_language_reach.py; review: test_review.py; watch: test_index_cli.py and tests/services/watch; daemon, http: their own folders;
    # scope: tests/services/places; options of search that go before settings: test_index_cli.py.
    families = ("ollama.", "rerank.", "watch.", "llm.", "prompts.", "daemon.", "http.", "review.")
    seen |= {key for key in SETTINGS_BY_KEY if key.startswith(families)} | {"scope.tenants", "index.remote_projects"}
    seen |= {f"search.{name}" for name in ("k", "lane", "token_budget", "min_relevance")}

    # How many processors work is not visible in the result.
    assert seen | {"embedding.threads"} == set(SETTINGS_BY_KEY)
