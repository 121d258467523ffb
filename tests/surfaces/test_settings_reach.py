"""Every setting and every flag reaches what it is for: each has an effect that a person can see."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request, well
from tests.models.fake_docker import FakeDocker
from tests.models.tiny_crossencoder import write_model
from tests.services.traces.stored_errors import store_errors
from tests.services.watch.watching import Watch, eventually
from tests.stores.milvus_server import listening
from tests.surfaces.conftest import Outcome, Shell, write

from lorelog.config.schema import SETTINGS_BY_KEY
from lorelog.config.setting import SettingValue
from lorelog.config.settings import format_toml
from lorelog.retrieval.cache import CacheCounters
from lorelog.surfaces.cli.hook import handle_hook
from lorelog.surfaces.cli.parser import command_parser
from lorelog.wiring import open_engine, resolve_location, settings_at

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Desk:
    """Where one works: a shell and the project it stands in."""

    shell: Shell
    project: Path
    monkeypatch: pytest.MonkeyPatch

    def listed(self) -> set[str]:
        """The names of the indexed files."""
        reply = self.shell("list", "--documents", "--all-projects", "-n", 100, "--json").json
        return {Path(one["source"]).name for one in reply["documents"]}

    def index(self, *words: object) -> set[str]:
        """Index, whatever comes of it, and return the names of the indexed files."""
        self.shell("index", *words)
        return self.listed()

    def elsewhere(self) -> Path:
        """Go to another project, a repository, and return where it is."""
        other = self.project.parent / "other"
        git_init(other)
        self.monkeypatch.chdir(other)
        return other

    def search(self, *words: object) -> Outcome:
        """Search for otters in JSON."""
        return self.shell("search", "otter", "--json", *words)


def git_init(place: Path) -> None:
    place.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "-q", str(place)], check=True)


@pytest.fixture
def desk(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A project with seven short notes about otters, drafts, and pages of many sections and of one, none indexed."""
    for number in range(7):
        write(project / "notes" / f"n{number}.md", f"otter number {number}\n")
    write(project / "docs" / "guide.md", "guide to otters\n")
    write(project / "docs" / "drafts" / "draft.md", "draft about otters\n")
    write(project / "docs" / "scratch.tmp.md", "scratch about otters\n")
    write(project / "many" / "many.md", "".join(f"## Section {n}\n\nbeaver number {n}\n\n" for n in range(33)))
    write(project / "long" / "long.md", "".join(f"line {n:02} tells of otters and of stones\n" for n in range(60)))
    return Desk(shell, project, monkeypatch)


def _by_environment(desk: Desk, home: Path, key: str, value: SettingValue) -> None:
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    desk.monkeypatch.setenv(SETTINGS_BY_KEY[key].variable, text)


def _by_user_file(desk: Desk, home: Path, key: str, value: SettingValue) -> None:
    desk.monkeypatch.delenv(SETTINGS_BY_KEY[key].variable, raising=False)
    setting = SETTINGS_BY_KEY[key]
    write(home / "config.toml", f"[{setting.section}]\n{setting.field} = {format_toml(value)}\n")


def _by_project_file(desk: Desk, home: Path, key: str, value: SettingValue) -> None:
    desk.monkeypatch.delenv(SETTINGS_BY_KEY[key].variable, raising=False)
    setting = SETTINGS_BY_KEY[key]
    write(desk.project / ".lorelog.toml", f"[{setting.section}]\n{setting.field} = {format_toml(value)}\n")


WAYS = {"environment": _by_environment, "user file": _by_user_file, "project file": _by_project_file}


# -- settings that show in what is found ---------------------------------------------------------------------------------


def _hits(desk: Desk) -> object:
    desk.index("notes")
    return len(desk.search().json["hits"])


def _lane(desk: Desk) -> object:
    desk.index("notes")
    reply = desk.search("--explain").json
    return reply["lane"], [part["name"] for part in reply["hits"][0]["explanation"]]


def _likely(desk: Desk) -> object:
    desk.index("notes")
    reply = desk.search().json
    return len(reply["hits"]), any("nothing relevant found" in note for note in reply["notes"])


def _fusion(desk: Desk) -> object:
    desk.index("notes")
    notes = [part["note"] for part in desk.search("--explain").json["hits"][0]["explanation"]]
    return "by rank" if all(note.startswith("rank ") for note in notes) else "by distance"


def _age(desk: Desk) -> object:
    desk.index("notes")
    return "recency" in [part["name"] for part in desk.search("--explain").json["hits"][0]["explanation"]]


def _half_life(desk: Desk) -> object:
    desk.monkeypatch.setenv("LORELOG_SEARCH_RECENCY_WEIGHT", "0.5")
    desk.index("notes")
    parts = {part["name"]: part["note"] for part in desk.search("--explain").json["hits"][0]["explanation"]}
    return parts["recency"].partition("half-life ")[2]


def _fresh(desk: Desk) -> object:
    write(desk.project / "notes" / "named.md", "the otter of docs/guide.md is the best otter\n")
    desk.index("notes")
    return {Path(hit["source"]).name: hit["freshness"]["verdict"] for hit in desk.search("-k", 9).json["hits"]}[
        "named.md"
    ]


def _roles(desk: Desk) -> object:
    write(desk.project / "notes" / "2026-10-02.md", "The otter timeout is 5 s.\n")
    write(desk.project / "notes" / "2026-10-09.md", "The otter timeout is 30 s.\n")
    desk.index("notes")
    return {change["role"] for hit in desk.search("-k", 9).json["hits"] for change in hit["now_was"]}


def _budget(desk: Desk) -> object:
    desk.index("notes", "long")
    packing = desk.search().json["packing"]
    return packing and (packing["budget"], 0 < packing["spent"] <= packing["budget"], bool(packing["dropped"]))


def _sight(desk: Desk) -> object:
    git_init(desk.project)
    desk.index(desk.project / "notes")
    desk.elsewhere()
    return len(desk.search("-k", 50).json["hits"])


def _bare(desk: Desk) -> object:
    return desk.index()


def _host_files(desk: Desk) -> object:
    write(desk.project / "AGENTS.md", "agents know otters\n")
    return desk.index()


def _docs(desk: Desk) -> object:
    return desk.index("docs")


def _docs_with_ignore_files(desk: Desk) -> object:
    write(desk.project / "docs" / ".gitignore", "guide.md\n")
    write(desk.project / "docs" / ".passover", "drafts/\n")
    return desk.index("docs")


def _with_problems(desk: Desk) -> object:
    done = desk.shell("index", "docs", "long", "--json")
    return done.status, {Path(problem["path"]).name for problem in done.json["problems"]}


def _pieces(desk: Desk) -> list[tuple[int, int]]:
    assert desk.shell("index", "long", "--force").status == 0
    # An entry is one hit, so the pieces are read where they are stored.
    location = desk.shell("status", "index", "--json").json["location"]
    with closing(sqlite3.connect(Path(location) / "catalog.db")) as catalog:
        query = "SELECT start_line, end_line FROM chunks JOIN documents ON documents.id = document WHERE chunks.live AND source LIKE ?"
        return sorted(catalog.execute(query, (f"{desk.project}/long/%",)))


def _piece_count(desk: Desk) -> object:
    return len(_pieces(desk)) > 10


def _shared_lines(desk: Desk) -> object:
    (_, end), (start, _), *_ = _pieces(desk)
    return end - start + 1


def _tenant(desk: Desk) -> object:
    if not desk.listed():
        desk.shell(
            "index", "notes" if "default" in desk.shell("status", "index", "--json").json["location"] else "docs/drafts"
        )
    return len(desk.listed())


def _model(desk: Desk) -> object:
    embedded = desk.shell("index", "notes", "--force", "--json").json["embedded"]
    return desk.shell("status", "index", "--json").json["model"], embedded


@dataclass(frozen=True)
class Row(Generic[Seen]):
    """A setting, a value, and what is seen without and with it."""

    key: str
    value: SettingValue
    look: Callable[[Seen], object]
    without: object
    given: object


READINGS = ["proximity", "part-words"]
"""The parts of a score that a close reading adds."""

ROWS: list[Row[Desk]] = [
    Row("search.k", 2, _hits, 5, 2),
    Row(
        "search.lane", "lexical", _lane, ("hybrid", ["lexical", "dense", "entry", *READINGS]), ("lexical", ["lexical"])
    ),
    Row("search.fusion", "rrf", _fusion, "by distance", "by rank"),
    Row("search.token_budget", 200, _budget, None, (200, True, True)),
    Row("search.all_projects", True, _sight, 0, 7),
    Row("search.min_relevance", 0.99, _likely, (5, False), (0, True)),
    Row("search.recency_weight", 0.3, _age, False, True),
    Row("search.half_life_days", 7.0, _half_life, "30 days", "7 days"),
    Row("search.freshness", False, _fresh, "fresh", "unchecked"),
    Row("search.now_was", False, _roles, {"now", "was"}, set()),
    Row("index.paths", ("docs", "!docs/drafts"), _bare, set(), {"guide.md", "scratch.tmp.md"}),
    Row("index.exclude", ("*.tmp.md",), _docs, {"guide.md", "draft.md", "scratch.tmp.md"}, {"guide.md", "draft.md"}),
    Row(
        "index.ignore_files",
        (".passover",),
        _docs_with_ignore_files,
        {"draft.md", "scratch.tmp.md"},
        {"guide.md", "scratch.tmp.md"},
    ),
    Row("index.auto_memory", False, _host_files, {"AGENTS.md"}, set()),
    Row("index.max_file_bytes", 100, _with_problems, (0, set()), (1, {"long.md"})),
    Row("chunking.max_chunk_size", 100, _piece_count, False, True),
    Row("chunking.overlap_lines", 0, _shared_lines, 2, 0),
    Row("scope.tenant", "another", _tenant, 7, 1),
    Row("embedding.provider", "none", _model, ("fake/fake-64", 7), ("none", 0)),
]


def _writer(desk: Desk) -> object:
    """Who a record is written by, and whether that is proven."""
    desk.shell("identity", "create", "mara")
    task = desk.shell("call", "task.start", "--json", json.dumps({"goal": "count otters"})).json
    shown = desk.shell("call", "artifact.get", "--json", json.dumps({"artifact_id": task["artifact_id"]})).json
    return shown["artifact"].get("writer", ""), shown["artifact"]["trust"]["signed"]


def _kept_in(desk: Desk) -> object:
    """Whether an index is kept in a Milvus, where a setting says so, and what finds it."""
    desk.shell("index", ".")
    found = desk.shell("call", "check_store", "--json", "{}").json
    return (
        Path(found["place"]).name,
        found["here"] == found["there"] > 0,
        bool(desk.shell("search", "otter", "--json").json["hits"]),
    )


def _collections(desk: Desk) -> object:
    """How many collections two projects have."""
    desk.monkeypatch.setenv("LORELOG_STORE_URI", "lite.db")
    desk.shell("index", ".")
    write(desk.elsewhere() / "other.md", "# Other\n\nan otter elsewhere\n")
    desk.shell("index", ".")
    kept = Path(os.environ["LORELOG_HOME"]) / "cache" / "default" / "milvus"
    (state,) = kept.glob("*/current.json")
    return len(set(json.loads(state.read_text("utf-8"))["collections"].values()))


def _collection_prefix(desk: Desk) -> object:
    """What the name of a collection begins with."""
    desk.monkeypatch.setenv("LORELOG_STORE_URI", "lite.db")
    desk.shell("index", ".")
    kept = Path(os.environ["LORELOG_HOME"]) / "cache" / "default" / "milvus"
    (state,) = kept.glob("*/current.json")
    return {name.partition("_")[0] for name in json.loads(state.read_text("utf-8"))["collections"].values()}


def _sharing(desk: Desk) -> object:
    """Whether other machines are told what they may find."""
    desk.monkeypatch.setenv("LORELOG_STORE_URI", "lite.db")
    desk.shell("index", ".")
    kept = Path(os.environ["LORELOG_HOME"]) / "cache" / "default" / "milvus"
    (state,) = kept.glob("*/current.json")
    return bool(json.loads(state.read_text("utf-8"))["registry"])


def _token(desk: Desk) -> object:
    """What a server is told by whoever asks it."""
    seen: list[str] = []
    desk.monkeypatch.setenv("MY_MILVUS_TOKEN", "swordfish")
    with listening(seen) as port:
        desk.monkeypatch.setenv("LORELOG_STORE_URI", f"http://127.0.0.1:{port}")
        desk.shell("index", ".")
    return sorted(set(seen))


ROWS += [
    Row("store.uri", "lite.db", _kept_in, ("", True, True), ("lite.db", True, True)),
    Row("store.per_project", False, _collections, 2, 1),
    Row("store.collection", "team", _collection_prefix, {"lorelog"}, {"team"}),
    Row("store.shared", True, _sharing, False, True),
    Row("store.token", "env:MY_MILVUS_TOKEN", _token, [""], ["swordfish"]),
    Row("records.writer", "otto", _writer, ("", False), ("otto", False)),
    Row("records.identity", "mara", _writer, ("", False), ("mara", True)),
]


def ways_of(rows: list[Row[Any]]) -> list[Any]:
    """Each setting in each way it may be chosen."""
    return [
        pytest.param(row, way, id=f"{row.key} by {way}")
        for row in rows
        for way in WAYS
        if way != "project file" or SETTINGS_BY_KEY[row.key].project_allowed
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "way"), ways_of(ROWS))
def test_every_setting_is_seen_in_what_is_found(desk: Desk, home: Path, row: Row[Desk], way: str) -> None:
    """What a setting changes is as documented without it, and changed with it, whichever way it is chosen."""
    assert row.look(desk) == row.without
    desk.monkeypatch.chdir(desk.project)

    WAYS[way](desk, home, row.key, row.value)

    assert row.look(desk) == row.given


# -- settings that show in what a server is asked ------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """The server that OPENAI_BASE_URL names."""
    opened = EmbeddingServer()
    yield opened
    opened.stop()


@pytest.fixture
def other_server() -> Iterator[EmbeddingServer]:
    opened = EmbeddingServer()
    yield opened
    opened.stop()


@pytest.fixture
def slow_server() -> Iterator[EmbeddingServer]:
    """A server that answers after a second."""

    def slowly(request: Request) -> Answer:
        return replace(well(request), delay_s=1.0)

    opened = EmbeddingServer(slowly)
    yield opened
    opened.stop()


@pytest.fixture
def asking(desk: Desk, server: EmbeddingServer) -> Desk:
    """The desk, with vectors from the server and a key of one's own at hand."""
    desk.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")
    desk.monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    desk.monkeypatch.setenv("MY_OTTER_SECRET", "swordfish")
    return desk


def _models(requests: list[Request]) -> object:
    return {request.body["model"] for request in requests}


def _batches_of_at_most_four(requests: list[Request]) -> object:
    return max(len(request.body["input"]) for request in requests) <= 4


def _lengths(requests: list[Request]) -> object:
    return {request.body.get("dimensions") for request in requests}


def _prefixed(requests: list[Request]) -> object:
    return {text.startswith("D> ") for request in requests for text in request.body["input"]}


def _keys(requests: list[Request]) -> object:
    return {request.headers.get("authorization") for request in requests}


ASKED: list[Row[list[Request]]] = [
    Row("embedding.model", "otter-3", _models, {"text-embedding-3-small"}, {"otter-3"}),
    Row("embedding.batch_size", 4, _batches_of_at_most_four, False, True),
    Row("embedding.api_key", "env:MY_OTTER_SECRET", _keys, {None}, {"Bearer swordfish"}),
    Row("embedding.dimensions", 3, _lengths, {None}, {3}),
    Row("embedding.document_prefix", "D> ", _prefixed, {False}, {True}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "way"), ways_of(ASKED))
def test_every_setting_is_seen_by_the_server(
    asking: Desk, server: EmbeddingServer, home: Path, row: Row[list[Request]], way: str
) -> None:
    """The server is asked for the model, in the batches and with the key that the settings choose."""
    assert asking.shell("index", "notes", "many").status == 0
    assert row.look(server.requests) == row.without
    asking.shell("reset", "--yes")
    server.requests.clear()

    WAYS[way](asking, home, row.key, row.value)

    assert asking.shell("index", "notes", "many").status == 0
    assert row.look(server.requests) == row.given


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_base_url_chooses_the_server(
    asking: Desk, server: EmbeddingServer, other_server: EmbeddingServer, home: Path, way: str
) -> None:
    """Texts and questions go to the server of embedding.base_url, before the one that OPENAI_BASE_URL names."""
    assert asking.shell("index", "notes").status == 0
    assert (len(server.requests), len(other_server.requests)) == (1, 0)

    WAYS[way](asking, home, "embedding.base_url", other_server.url)

    assert asking.search().status == 0
    assert asking.shell("index", "docs").status == 0
    assert (len(server.requests), len(other_server.requests)) == (1, 2)
    assert {request.path for request in other_server.requests} == {"/v1/embeddings"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_timeout_ends_the_wait_for_a_server(
    asking: Desk, slow_server: EmbeddingServer, home: Path, way: str
) -> None:
    """A server that is slower than embedding.timeout_s is given up on, and words are indexed without it."""
    asking.monkeypatch.setenv("OPENAI_BASE_URL", slow_server.url)
    assert asking.shell("index", "docs/drafts").status == 0

    WAYS[way](asking, home, "embedding.timeout_s", 0.1)

    done = asking.shell("index", "notes", "--json")
    assert done.status == 1
    assert (done.json["changed"], done.json["embedded"], done.json["waiting"]) == (7, 0, 7)
    assert "no vectors" in done.json["problems"][0]["message"]


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_query_prefix_stands_in_front_of_questions(
    asking: Desk, server: EmbeddingServer, home: Path, way: str
) -> None:
    """embedding.query_prefix is what the server is asked with, and may hold a line's end; texts go without it."""
    asking.shell("index", "notes")
    asking.search()
    assert server.requests[-1].body["input"] == ["otter"]

    WAYS[way](asking, home, "embedding.query_prefix", r"Find:\nQ> ")

    asking.search()
    assert server.requests[-1].body["input"] == ["Find:\nQ> otter"]
    assert asking.search().json["coverage"]["with_vectors"] == 7


# -- settings that show in what Docker is asked --------------------------------------------------------------------------


@pytest.fixture
def docker(desk: Desk, tmp_path: Path) -> Iterator[FakeDocker]:
    """A Docker that notes its calls, and Ollama chosen at an address where nobody is."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    made = FakeDocker.at(tmp_path / "docker")
    desk.monkeypatch.setenv("PATH", f"{made.bin}{os.pathsep}{os.environ['PATH']}")
    desk.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "ollama")
    desk.monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{port}")
    yield made
    made.kill()


DOCKED: list[Row[FakeDocker]] = [
    Row(
        "ollama.image",
        "ollama/ollama:0.5",
        lambda docker: docker.ran()[-1],
        "ollama/ollama:latest",
        "ollama/ollama:0.5",
    ),
    Row("ollama.container", "otter", lambda docker: docker.ran()[3], "lorelog-ollama", "otter"),
    Row("ollama.volume", "den", lambda docker: docker.ran()[5].partition(":")[0], "lorelog-ollama", "den"),
    Row("ollama.idle_s", 0.5, lambda docker: eventually(lambda: not docker.is_running()), None, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "way"), ways_of(DOCKED))
def test_every_setting_is_seen_by_docker(
    desk: Desk, docker: FakeDocker, home: Path, row: Row[FakeDocker], way: str
) -> None:
    """The container is run from the image, under the name, with the volume and for as long as the settings choose."""
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["ollama.manage"].variable, "true")
    WAYS[way](desk, home, row.key, row.value)

    assert desk.shell("index", "notes").status == 0

    assert row.look(docker) == row.given


@pytest.mark.slow
@pytest.mark.parametrize("way", ["environment", "user file"])
def test_nothing_is_started_unless_ollama_is_to_be_managed(
    desk: Desk, docker: FakeDocker, home: Path, way: str
) -> None:
    """Without ollama.manage nobody starts a server and words are indexed; with it one is started and vectors are made."""
    assert desk.shell("index", "notes", "--json").json["waiting"] == 7
    assert docker.calls() == []

    WAYS[way](desk, home, "ollama.manage", value=True)

    assert desk.shell("index", "--json").json["embedded"] == 7
    assert docker.ran()[-1] == "ollama/ollama:latest"


# -- settings that show in what a cross-encoder adds ---------------------------------------------------------------------


@pytest.fixture
def cross_encoder(desk: Desk) -> Path:
    """A model beside the project; the notes are indexed."""
    desk.index("notes")
    return write_model(desk.project.parent / "cross-encoder")


def reranked(desk: Desk) -> tuple[int, list[str]]:
    """How many hits a cross-encoder had a part in, and what is noted of it."""
    reply = desk.search("--explain", "-k", 7).json
    names = [[part["name"] for part in hit["explanation"]] for hit in reply["hits"]]
    return sum("cross-encoder" in name for name in names), [note for note in reply["notes"] if "rerank" in note]


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_a_cross_encoder_takes_part_when_its_model_is_named(
    desk: Desk, home: Path, cross_encoder: Path, way: str
) -> None:
    """Without rerank.model none takes part, and with it every candidate has a part of its score from it."""
    assert reranked(desk) == (0, [])

    WAYS[way](desk, home, "rerank.model", str(cross_encoder))

    assert reranked(desk) == (7, [])


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_a_cross_encoder_that_is_not_there_is_noted(desk: Desk, home: Path, cross_encoder: Path, way: str) -> None:
    """A model that cannot be had takes nothing away: the hits come as without it, and a note says why."""
    before = desk.search().json["hits"]

    WAYS[way](desk, home, "rerank.model", str(cross_encoder / "gone"))

    assert desk.search().json["hits"] == before
    count, (note,) = reranked(desk)
    assert count == 0
    assert f"{cross_encoder / 'gone'} is not a folder" in note


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_provider_chooses_who_runs_the_cross_encoder(desk: Desk, home: Path, cross_encoder: Path, way: str) -> None:
    """With rerank.provider local it is sentence-transformers that is asked; here it is not installed."""
    flags = ("rerank.model", str(cross_encoder)), ("rerank.provider", "local")
    desk.monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["rerank.model"].variable, flags[0][1])
    assert reranked(desk) == (7, [])

    WAYS[way](desk, home, *flags[1])

    count, (note,) = reranked(desk)
    assert count == 0
    assert "sentence_transformers" in note


@pytest.mark.parametrize("way", WAYS)
def test_as_many_candidates_are_reranked_as_were_chosen(desk: Desk, home: Path, cross_encoder: Path, way: str) -> None:
    """rerank.candidates says how many of the best the cross-encoder reads."""
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["rerank.model"].variable, str(cross_encoder))

    WAYS[way](desk, home, "rerank.candidates", 3)

    assert reranked(desk) == (3, [])


@pytest.mark.parametrize("way", WAYS)
def test_the_cross_encoder_stops_when_its_time_is_up(desk: Desk, home: Path, cross_encoder: Path, way: str) -> None:
    """A cross-encoder that is slower than rerank.timeout_s leaves the scores as they are, and a note says so."""
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["rerank.model"].variable, str(cross_encoder))
    # Its clock is a second ahead of the search's, which is a second lost.
    desk.monkeypatch.setattr("lorelog.models.rerank.monotonic", lambda: time.monotonic() + 1.0)
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["rerank.timeout_s"].variable, "60")
    assert reranked(desk) == (7, [])

    WAYS[way](desk, home, "rerank.timeout_s", 0.5)

    count, (note,) = reranked(desk)
    assert count == 0
    assert "read 0 of 7 candidates in 0.5 s" in note


# -- settings that show in what a program that goes on need not do twice --------------------------------------------------


def _counted(desk: Desk, *questions: str) -> CacheCounters:
    """Ask questions in one process, and return what the caches counted."""
    with open_engine(resolve_location()) as engine:
        for question in questions:
            engine.search(question)
        return engine.caches.counters()


def _repeats(desk: Desk) -> object:
    return _counted(desk, "otter", " otter  ", "otter").exact


def _repeats_after_others(desk: Desk) -> object:
    return _counted(desk, "otter", "number", "otter").exact


def _near_repeats(desk: Desk) -> object:
    return _counted(desk, "otter number", "Otter number?").near


def _memories_read_again(desk: Desk) -> object:
    return _counted(desk, "otter", "otter number").hot_hits


KEPT: list[Row[Desk]] = [
    Row("cache.answers", False, _repeats, 2, 0),
    Row("cache.answers_entries", 1, _repeats_after_others, 1, 0),
    Row("cache.answers_ttl_s", 60.0, _repeats, 2, 0),
    Row("cache.similar", 0.9, _near_repeats, 0, 1),
    Row("cache.hot", True, _memories_read_again, 0, 7),
]


@pytest.mark.parametrize(("row", "way"), ways_of(KEPT))
def test_every_setting_is_seen_in_what_is_kept(desk: Desk, home: Path, row: Row[Desk], way: str) -> None:
    """What is kept between questions is as documented without a setting, and changed with it."""
    minutes = itertools.count(step=100)  # between two looks at the clock
    desk.monkeypatch.setattr("lorelog.retrieval.cache.monotonic", lambda: float(next(minutes)))
    desk.index("notes")
    assert row.look(desk) == row.without

    WAYS[way](desk, home, row.key, row.value)

    assert row.look(desk) == row.given


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_memories_are_kept_within_the_bytes_that_are_allowed(desk: Desk, home: Path, way: str) -> None:
    """cache.hot_bytes bounds what cache.hot keeps: in one byte there is room for nothing."""
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["cache.hot"].variable, "true")
    desk.index("notes")
    assert _memories_read_again(desk) == 7

    WAYS[way](desk, home, "cache.hot_bytes", 1)

    assert _memories_read_again(desk) == 0


# -- settings that show in what a watcher does ---------------------------------------------------------------------------


def watcher_of(desk: Desk) -> Watch:
    """A watcher as the settings want it."""
    desk.index("notes")
    return Watch(desk.project, settings_at(resolve_location()).watch_options())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["environment", "user file"])
def test_files_come_to_rest_for_as_long_as_was_chosen(desk: Desk, home: Path, way: str) -> None:
    """Two changes that are further apart than the usual quiet time are one pass with a longer watch.debounce_ms."""
    WAYS[way](desk, home, "watch.debounce_ms", 4000)

    with watcher_of(desk) as watch:
        write(desk.project / "notes" / "n0.md", "otter, edited\n")
        time.sleep(1.8)
        write(desk.project / "notes" / "n1.md", "otter, edited too\n")
        eventually(lambda: bool(watch.passes))
        assert watch.passes[0].report
        assert watch.passes[0].report.changed == 2


@pytest.mark.slow
@pytest.mark.parametrize("way", ["environment", "user file"])
def test_roots_are_compared_as_often_as_was_chosen(desk: Desk, home: Path, way: str) -> None:
    """With nothing to be heard, what changed is found when watch.reconcile_s has passed."""
    desk.monkeypatch.setattr("lorelog.services.watch.events._EventListener._listen", lambda self: self._stopped.wait())
    WAYS[way](desk, home, "watch.reconcile_s", 0.5)

    with watcher_of(desk) as watch:
        write(desk.project / "notes" / "n0.md", "otter, edited\n")
        eventually(lambda: bool(watch.passes))


# -- settings that show in what is kept of an agent's session ------------------------------------------------------------

_SESSIONS = itertools.count()


def spoken(desk: Desk) -> str:
    """Let an agent's session happen, and return what is kept of it."""
    session = str(uuid.uuid4())
    now = datetime.now(UTC)
    moments = [
        (now - timedelta(seconds=ago)).isoformat(timespec="milliseconds").replace("+00:00", "Z") for ago in (2, 1)
    ]
    said = "We take Redis, because it is there already. The word is hunter-otter-77."
    lines = [
        {"type": "user", "message": {"role": "user", "content": f"Which cache, number {next(_SESSIONS)}?"}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": said}]}},
    ]
    told = [
        {"uuid": str(uuid.uuid4()), "sessionId": session, "timestamp": moment, **line}
        for moment, line in zip(moments, lines, strict=True)
    ]
    path = write(desk.project.parent / f"{session}.jsonl", "".join(json.dumps(line) + "\n" for line in told))
    event = {"host": "claude", "session": session, "transcript": str(path), "moment": "turn-end", "at": moments[1]}
    captured = desk.shell("call", "session.capture", "--json", json.dumps(event)).json["captured"]
    if not captured:
        return ""
    journal = Path(captured[0]["source"]).read_text("utf-8").splitlines()
    return "\n".join(journal[captured[0]["start_line"] - 1 :])


def _is_kept(desk: Desk) -> object:
    return "We take Redis" in spoken(desk)


def _says_the_word(desk: Desk) -> object:
    return "hunter-otter-77" in spoken(desk)


def _session_headings(desk: Desk) -> object:
    """How many sessions have a heading in the journal, after two of them."""
    spoken(desk)
    spoken(desk)
    (journal,) = (desk.project / ".lorelog" / "memory").glob("*.md")
    return journal.read_text("utf-8").count("\n## Session ")


SPOKEN: list[Row[Desk]] = [
    Row("capture.enabled", False, _is_kept, True, False),
    Row("capture.skip", True, _is_kept, True, False),
    Row("capture.session_headings", True, _session_headings, 0, 2),
    Row("redact.patterns", (r"hunter-\S+",), _says_the_word, True, False),
]


@pytest.mark.parametrize(("row", "way"), ways_of(SPOKEN))
def test_every_setting_is_seen_in_what_is_kept_of_a_session(desk: Desk, home: Path, row: Row[Desk], way: str) -> None:
    """A session is kept as documented without a setting, and otherwise with it."""
    assert row.look(desk) == row.without

    WAYS[way](desk, home, row.key, row.value)

    assert row.look(desk) == row.given


# -- settings that show in what is traced --------------------------------------------------------------------------------


def _is_traced(desk: Desk) -> object:
    """Whether an operation is noted."""
    before = desk.shell("debug", "calls", "--json").json["total_count"]
    desk.shell("status", "index")
    return desk.shell("debug", "calls", "--json").json["total_count"] > before


def _outlives_two_days(desk: Desk) -> object:
    """Whether an error is still known two days after it was kept."""
    kind = f"Otter{uuid.uuid4().hex}Error"
    store_errors(desk.project, f"{kind}: gone\n")
    with closing(sqlite3.connect(_traces(desk))) as db, db:
        db.execute("UPDATE errors SET kept = kept - 2 * 86400000")
    store_errors(desk.project, f"NewtError: {uuid.uuid4()}\n")
    return bool(desk.shell("debug", "errors", kind, "--json").json["total_count"])


def _grows(desk: Desk) -> object:
    """Whether thousands of errors are all kept."""
    letters = "".join(chr(97 + int(digit, 16)) for digit in uuid.uuid4().hex)
    stack = (
        "Traceback (most recent call last):\n" + 3 * '  File "/a.py", line 3, in {}\n    x = "{}"\n' + "{}Error: gone\n"
    )
    names = ("".join(chr(97 + int(digit)) for digit in f"{number:04}") for number in range(3_000))
    log = "".join(stack.format(*[name, letters * 3] * 3, name) for name in names)
    store_errors(desk.project, log)
    return _traces(desk).stat().st_size > 2_000_000


def _traces(desk: Desk) -> Path:
    return Path(os.environ["LORELOG_HOME"]) / "data" / "default" / "traces.db"


TRACED: list[Row[Desk]] = [
    Row("traces.enabled", False, _is_traced, True, False),
    Row("traces.days", 1, _outlives_two_days, True, False),
    Row("traces.megabytes", 1, _grows, True, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "way"), ways_of(TRACED))
def test_every_setting_is_seen_in_what_is_traced(desk: Desk, home: Path, row: Row[Desk], way: str) -> None:
    """Traces are kept as documented without a setting, and otherwise with it."""
    desk.index("notes")
    assert row.look(desk) == row.without

    WAYS[way](desk, home, row.key, row.value)

    assert row.look(desk) == row.given


# -- settings that show in what a session is shown -----------------------------------------------------------------------


def hooked(desk: Desk, moment: str, **more: str) -> str:
    """Return what a hook of Claude Code tells the model."""
    payload = {"session_id": str(uuid.uuid4()), "cwd": str(desk.project), "source": "startup", **more}
    answer = handle_hook(["claude", moment], json.dumps(payload).encode(), os.environ)
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


def _injected(desk: Desk) -> object:
    desk.shell("add", "we take Redis")
    return "we take Redis" in hooked(desk, "session-start")


def _shown(desk: Desk) -> object:
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["session.hits_relevance"].variable, "0")
    return _recalled(desk)


def _recalled(desk: Desk) -> object:
    desk.index("notes")
    prompt = {"prompt": "otter number", "session": str(uuid.uuid4())}
    return len(desk.shell("call", "session.recall", "--json", json.dumps(prompt)).json["hits"])


def _all_three_shown(desk: Desk) -> object:
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["session.hits"].variable, "3")
    return _recalled(desk) == 3


def _waited(desk: Desk) -> object:
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["session.hits"].variable, "3")
    waited: list[float] = []

    def no_daemon(address: object, wait_s: float, *_: object) -> dict[str, object]:
        waited.append(wait_s)
        return {}

    desk.shell("add", "we take Redis")
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["daemon.warm"].variable, "auto")
    desk.monkeypatch.setattr("lorelog.surfaces.cli.hook._wake_daemon", lambda *_: None)
    desk.monkeypatch.setattr("lorelog.surfaces.cli.hook.recall.ask_within", no_daemon)
    hooked(desk, "prompt", prompt="which otter was number three?")
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["daemon.warm"].variable, "off")
    return waited


def _waits(desk: Desk) -> object:
    waited = _waited(desk)
    assert isinstance(waited, list)
    return len(waited)


def _told_with_a_call(desk: Desk) -> object:
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["session.hold_calls"].variable, "off")
    return _before_npm(desk) == ["additionalContext"]


def _held(desk: Desk) -> object:
    return "permissionDecision" in _before_npm(desk)


def _before_npm(desk: Desk) -> list[str]:
    """Return the kinds of answer to a command that a correction is about."""
    desk.shell("add", "Use pnpm, not npm", "--type", "correction")
    payload = {"session_id": "s", "cwd": str(desk.project), "tool_name": "Bash", "tool_input": {"command": "npm i"}}
    answer = handle_hook(["claude", "tool-before"], json.dumps(payload).encode(), os.environ)
    return [name for name in answer.get("hookSpecificOutput", {}) if name != "hookEventName"]


SHOWN: list[Row[Desk]] = [
    Row("session.tool_hooks", False, _told_with_a_call, True, False),
    Row("session.hold_calls", "off", _held, True, False),
    Row("session.budget", 0, _injected, True, False),
    Row("session.prompt_budget", 0, _waits, 1, 0),
    Row("session.hits", 3, _shown, 2, 3),
    Row("session.hits_relevance", 0.99, _all_three_shown, True, False),
    Row("session.hits_wait_ms", 300, _waited, [0.05], [0.3]),
]


@pytest.mark.parametrize(("row", "way"), ways_of(SHOWN))
def test_every_setting_is_seen_in_what_a_session_is_shown(desk: Desk, home: Path, row: Row[Desk], way: str) -> None:
    """A session is shown as much as documented without a setting, and otherwise with it."""
    assert row.look(desk) == row.without

    WAYS[way](desk, home, row.key, row.value)

    assert row.look(desk) == row.given


# -- settings that show in who words the notes of a session --------------------------------------------------------------


def wording(request: Request) -> Answer:
    """Answer as a language model does, for ten thousand tokens."""
    message = {"role": "assistant", "content": f"- User asked {request.body['model']} for a cache"}
    return Answer(body={"choices": [{"message": message}], "usage": {"prompt_tokens": 10_000, "completion_tokens": 1}})


@pytest.fixture
def language(desk: Desk) -> Iterator[EmbeddingServer]:
    """A language model that words the notes of sessions, and a key of one's own at hand."""
    opened = EmbeddingServer(wording)
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["summarize.provider"].variable, "openai")
    desk.monkeypatch.setenv("OPENAI_BASE_URL", opened.url)
    desk.monkeypatch.setenv("MY_OTTER_SECRET", "swordfish")
    yield opened
    opened.stop()


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_provider_chooses_who_words_notes(desk: Desk, language: EmbeddingServer, home: Path, way: str) -> None:
    """By default nobody is asked and sentences are taken out; with a provider its model words the note."""
    desk.monkeypatch.delenv(SETTINGS_BY_KEY["summarize.provider"].variable)
    assert "- User asked: Which cache" in spoken(desk)
    assert language.requests == []

    WAYS[way](desk, home, "summarize.provider", "openai")

    note = spoken(desk)
    assert "- User asked gpt-4.1-mini for a cache" in note
    assert "User asked: Which cache" not in note
    assert desk.shell("call", "session.status").json["tokens_today"] == 10_001


def test_the_hosts_own_program_words_notes(desk: Desk) -> None:
    """With summarize.provider host a turn of Claude Code is worded by `claude`, and without that program as by default."""
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["summarize.provider"].variable, "host")
    desk.monkeypatch.setenv("PATH", "/nowhere")
    assert "- User asked: Which cache" in spoken(desk)

    answer = {"type": "result", "is_error": False, "result": "- User asked Claude for a cache", "usage": {}}
    program = write(desk.project.parent / "bin" / "claude", f"#!/bin/sh\nread line\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    desk.monkeypatch.setenv("PATH", str(program.parent))

    assert "- User asked Claude for a cache" in spoken(desk)


WORDED: list[Row[list[Request]]] = [
    Row("summarize.model", "otter-3", _models, {"gpt-4.1-mini"}, {"otter-3"}),
    Row("summarize.models", ("codex=newt-1", "claude=otter-3"), _models, {"gpt-4.1-mini"}, {"otter-3"}),
    Row("summarize.models", ("codex=newt-1",), _models, {"gpt-4.1-mini"}, {"gpt-4.1-mini"}),
    Row("summarize.api_key", "env:MY_OTTER_SECRET", _keys, {None}, {"Bearer swordfish"}),
    Row("summarize.daily_tokens", 20_000, len, 3, 2),
    Row("summarize.daily_tokens", 0, len, 3, 0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "way"), ways_of(WORDED))
def test_every_setting_is_seen_by_the_language_model(
    desk: Desk, language: EmbeddingServer, home: Path, row: Row[list[Request]], way: str
) -> None:
    """The model and the key are those that the settings choose, and it is asked until the day's tokens are spent."""
    spent = home / "data" / "default" / "receipts.jsonl"
    for _ in range(3):
        assert spoken(desk)
    assert row.look(language.requests) == row.without
    language.requests.clear()
    spent.unlink()

    WAYS[way](desk, home, row.key, row.value)

    for _ in range(3):
        assert spoken(desk)
    assert row.look(language.requests) == row.given


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_address_chooses_the_language_model(desk: Desk, language: EmbeddingServer, home: Path, way: str) -> None:
    """summarize.base_url goes before OPENAI_BASE_URL."""
    other = EmbeddingServer(wording)
    try:
        WAYS[way](desk, home, "summarize.base_url", other.url)
        assert "for a cache" in spoken(desk)
    finally:
        other.stop()

    assert (len(language.requests), len(other.requests)) == (0, 1)
    assert other.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("way", ["environment", "user file"])
def test_a_file_tells_how_to_word_notes(desk: Desk, language: EmbeddingServer, home: Path, way: str) -> None:
    """summarize.prompt is a file whose text the model is told in the place of the built-in one."""
    WAYS[way](desk, home, "summarize.prompt", str(write(desk.project.parent / "prompt.md", "Reime, {agent}!")))

    spoken(desk)

    assert language.requests[0].body["messages"][0] == {"role": "system", "content": "Reime, Claude Code!"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["environment", "user file"])
def test_the_timeout_ends_the_wait_for_a_note(desk: Desk, home: Path, way: str) -> None:
    """A model that is slower than summarize.timeout_s is given up on, and sentences are taken out."""
    slow = EmbeddingServer(lambda request: replace(wording(request), delay_s=3.0))
    desk.monkeypatch.setenv(SETTINGS_BY_KEY["summarize.provider"].variable, "openai")
    desk.monkeypatch.setenv("OPENAI_BASE_URL", slow.url)
    try:
        WAYS[way](desk, home, "summarize.timeout_s", 1.0)
        assert "- User asked: Which cache" in spoken(desk)
    finally:
        slow.stop()

    outcomes = (home / "data" / "default" / "receipts.jsonl").read_text("utf-8")
    assert '"outcome": "timeout"' in outcomes


def test_no_setting_is_forgotten_here() -> None:
    """Every setting there is has a test of its effect."""
    seen = {row.key for row in ROWS} | {row.key for row in ASKED} | {"embedding.base_url", "embedding.timeout_s"}
    seen |= {"embedding.query_prefix", "ollama.manage"} | {row.key for row in DOCKED}
    seen |= {"rerank.model", "rerank.provider", "rerank.candidates", "rerank.timeout_s"}
    seen |= {row.key for row in KEPT} | {"cache.hot_bytes"}
    seen |= {"watch.debounce_ms", "watch.reconcile_s"}
    seen |= {row.key for row in (*SPOKEN, *SHOWN, *TRACED)} | {row.key for row in WORDED}
    seen |= {f"summarize.{name}" for name in ("provider", "base_url", "prompt", "timeout_s")}
    # Who writes is tested in tests/surfaces/test_language_reach.py and tests/config/test_language_settings.py.
    seen |= {one for one in SETTINGS_BY_KEY if one.startswith(("llm.", "prompts."))}
    # Those of processes that stay are tested where these are: daemon/, http/, and tests/services/places/test_scope_file.py.
    seen |= {one for one in SETTINGS_BY_KEY if one.startswith(("daemon.", "http."))} | {
        "watch.enabled",
        "scope.tenants",
        "index.remote_projects",
    }
    unseen = {"embedding.threads"}  # how many processors work cannot be told from what they did

    assert seen | unseen == set(SETTINGS_BY_KEY)


# -- flags of index ------------------------------------------------------------------------------------------------------


def test_force_chunks_again(desk: Desk) -> None:
    """A second run changes nothing, and a forced one chunks every file again."""
    desk.shell("index", "notes")

    again = desk.shell("index", "notes", "--json").json
    forced = desk.shell("index", "notes", "--force", "--json").json

    assert (again["changed"], again["unchanged"], again["chunks"]) == (0, 7, 0)
    assert (forced["changed"], forced["unchanged"], forced["chunks"]) == (7, 0, 7)


def test_words_only_makes_no_vectors(desk: Desk) -> None:
    """A run of words only embeds nothing, says how much waits, is found by words, and a later run makes the vectors."""
    report = desk.shell("index", "notes", "--words-only", "--json").json

    assert (report["changed"], report["embedded"], report["waiting"]) == (7, 0, 7)
    reply = desk.search().json
    assert reply["coverage"] == {"chunks": 7, "with_vectors": 0}
    assert len(reply["hits"]) == 5
    later = desk.shell("index", "--json").json
    assert (later["changed"], later["embedded"], later["waiting"]) == (0, 7, 0)


def test_reembed_makes_every_vector_anew(desk: Desk) -> None:
    """--reembed embeds every text again though no file changed; a plain run embeds nothing."""
    desk.shell("index", "notes")
    again = desk.shell("index", "--json").json
    anew = desk.shell("index", "--reembed", "--json").json

    assert (again["changed"], again["embedded"]) == (0, 0)
    assert (anew["changed"], anew["unchanged"], anew["embedded"], anew["waiting"]) == (0, 7, 7, 0)
    assert desk.search().json["coverage"] == {"chunks": 7, "with_vectors": 7}


@pytest.mark.slow
def test_another_model_and_back(desk: Desk) -> None:
    """--reembed tells what both models find, --rollback goes back and says what to set, --drop-old ends that."""
    write(desk.project / "notes" / "a.md", "The warden of the weir counts otters at dawn, and herons at noon.\n")
    desk.shell("index", "notes")
    desk.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "builtin")

    changed = desk.shell("index", "--reembed")
    back = desk.shell("index", "--reembed", "--rollback")

    assert "before  hit@5" in changed.out
    assert "fake/fake-64" in changed.out
    assert "Now using the vectors of builtin/lorelog-1" in changed.out
    assert back.out.startswith("Searches use the vectors of fake/fake-64 again; set embedding.provider to 'fake'")
    assert desk.search().json["coverage"]["with_vectors"] == 0
    desk.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    assert desk.search().json["coverage"] == {"chunks": 8, "with_vectors": 8}
    told = desk.shell("index", "--reembed", "--rollback", "--json").json["reembedding"]
    assert (told["from"], told["to"], told["swapped"]) == ("fake/fake-64", "builtin/lorelog-1", True)
    desk.shell("index", "--reembed", "--rollback")
    assert desk.shell("index", "--reembed", "--drop-old").out == "Dropped 8 vectors; those of fake/fake-64 are left.\n"
    assert desk.shell("status", "index", "--json").json["other_vectors"] == 0
    assert desk.shell("index", "--reembed", "--rollback", "--json").json["error"]["code"] == "not_found"


@pytest.mark.slow
def test_anyway_takes_a_worse_model(asking: Desk) -> None:
    """A model that finds clearly less stays out, and --reembed --anyway takes it."""
    asking.monkeypatch.setenv("OPENAI_API_KEY", "swordfish")
    asking.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    for number in range(20):
        write(asking.project / "many" / f"{number}.md", f"The {number}th warden saw otter number {number} by a weir.\n")
    asking.shell("index", "many")
    asking.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")

    kept = asking.shell("index", "--reembed")
    refused = asking.shell("index", "--reembed", "--json").json["reembedding"]
    taken = asking.shell("index", "--reembed", "--anyway", "--json").json["reembedding"]

    assert "They find clearly less, so the vectors of fake/fake-64 are still used." in kept.out
    assert (refused["worse"], refused["swapped"]) == (True, False)
    assert refused["after"]["mrr"] < refused["before"]["mrr"]
    assert (taken["worse"], taken["swapped"]) == (True, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--anyway"], "--anyway requires --reembed"),
        (["--rollback"], "--rollback requires --reembed"),
        (["--reembed", "--rollback", "--drop-old"], "use either --rollback or --drop-old, not both"),
        (["--reembed", "--rollback", "notes"], "--rollback cannot be combined with paths"),
        (["--reembed", "--drop-old", "--force"], "--drop-old cannot be combined with --force"),
        (["--list", "notes"], "--list cannot be combined with paths"),
        (["--list", "--remove"], "use either --list or --remove, not both"),
        (["--remove"], "--remove requires paths"),
    ],
)
def test_contradictory_options_of_index_are_refused_by_name(desk: Desk, words: list[str], message: str) -> None:
    """Options of index that exclude or require each other are refused by their names."""
    refused = desk.shell("index", *words, "--json")

    assert (refused.status, refused.json["error"]["message"]) == (2, message)


@pytest.mark.parametrize(("words", "provider"), [(["--words-only"], "fake"), ([], "none")])
def test_reembed_needs_a_model(desk: Desk, words: list[str], provider: str) -> None:
    """--reembed in a run that makes no vectors is a mistake, and takes no vector away."""
    desk.shell("index", "notes")
    desk.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", provider)

    refused = desk.shell("index", "--reembed", *words, "--json")

    assert (refused.status, refused.json["error"]["code"]) == (2, "usage")
    desk.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    assert desk.search().json["coverage"] == {"chunks": 7, "with_vectors": 7}


def test_ignore_files_can_be_named(desk: Desk) -> None:
    """--ignore-file honours files of that name beside the configured ones, each time it is given."""
    write(desk.project / "docs" / ".passover", "drafts/\n")
    write(desk.project / "docs" / ".alsopass", "guide.md\n")
    write(desk.project / "docs" / ".gitignore", "*.tmp.md\n")

    assert desk.index("docs") == {"guide.md", "draft.md"}
    assert desk.index("docs", "--ignore-file", ".passover") == {"guide.md"}
    assert desk.index("docs", "--ignore-file", ".passover", "--ignore-file", ".alsopass") == set()


def test_patterns_can_be_left_out_and_stay_out(desk: Desk) -> None:
    """--exclude leaves patterns out of the given paths, each time it is given, and a bare run remembers them."""
    assert desk.index("docs", "--exclude", "*.tmp.md", "--exclude", "drafts/") == {"guide.md"}
    assert desk.index() == {"guide.md"}
    refused = desk.shell("index", "--exclude", "guide.md")
    assert (refused.status, "--exclude" in refused.err) == (2, True)
    assert desk.listed() == {"guide.md"}


@pytest.mark.parametrize(("words", "hits"), [([], 0), (["--global"], 7)])
def test_global_paths_are_seen_from_another_project(desk: Desk, words: list[str], hits: int) -> None:
    """What is indexed with --global in one repository is found from another, and what is not is not."""
    git_init(desk.project)
    desk.shell("index", "notes", *words)
    desk.elsewhere()

    assert len(desk.search("-k", 50).json["hits"]) == hits


def test_index_stands_in_the_named_project(desk: Desk) -> None:
    """With --project index files paths under that project, and a bare one refreshes what that project knows."""
    git_init(desk.project)
    other = desk.elsewhere()
    desk.monkeypatch.chdir(desk.project)

    assert desk.shell("index", "notes", "--project", other).status == 0

    assert desk.search().json["hits"] == []
    hits = desk.search("--project", other).json["hits"]
    assert {hit["project"] for hit in hits} == {str(other)}
    assert desk.shell("index", "--project", other, "--json").json["unchanged"] == 7
    assert desk.shell("index").status == 2


def test_a_project_brings_its_settings(desk: Desk) -> None:
    """--project reads the settings of the project it names, not those of the current directory."""
    other = desk.elsewhere()
    write(other / ".lorelog.toml", "[search]\nk = 2\n")
    desk.monkeypatch.chdir(desk.project)
    desk.shell("index", "notes", "--global")

    assert len(desk.search().json["hits"]) == 5
    assert len(desk.search("--project", other).json["hits"]) == 2


# -- flags of search -----------------------------------------------------------------------------------------------------


def test_search_stands_in_the_named_project(desk: Desk) -> None:
    """With --project search finds what that project remembers, from wherever it is typed."""
    git_init(desk.project)
    desk.shell("index", "notes")
    desk.elsewhere()

    assert desk.search().json["hits"] == []
    assert len(desk.search("--project", desk.project).json["hits"]) == 5
    assert desk.search("--project", desk.project / "nowhere").status == 1


def test_flags_go_before_settings(desk: Desk) -> None:
    """-k, --lane and --fusion have the last word over what settings say."""
    for variable, value in (("K", "2"), ("LANE", "dense"), ("FUSION", "rrf")):
        desk.monkeypatch.setenv(f"LORELOG_SEARCH_{variable}", value)
    desk.shell("index", "notes")
    settled = desk.search("--explain").json

    assert (len(settled["hits"]), settled["lane"]) == (2, "dense")
    for flag in ("-k", "--top-k"):
        assert len(desk.search(flag, 6).json["hits"]) == 6
    assert desk.search("--lane", "lexical").json["lane"] == "lexical"
    chosen = desk.search("--lane", "hybrid", "--fusion", "convex", "--explain").json["hits"][0]["explanation"]
    lanes = {part["name"]: part["note"] for part in chosen if part["name"] not in {*READINGS, "entry"}}
    assert list(lanes) == ["lexical", "dense"]
    assert all("weight" in note for note in lanes.values())


def test_options_of_a_command_go_before_settings(desk: Desk) -> None:
    """Provider, model, store and chunk sizes can be chosen for one command; a wrong value is reported by its option."""
    desk.monkeypatch.setenv("LORELOG_CHUNKING_MAX_CHUNK_SIZE", "5000")
    write(desk.project / "notes" / "long.md", "# Long\n\n" + "An otter swims in the river all day.\n\n" * 20)
    desk.shell("index", "notes")
    before = desk.shell("status", "index", "--json").json["chunks"]

    cut = desk.shell("index", "--force", "--max-chunk-size", 100, "--overlap-lines", 0, "--batch-size", 2, "--json")

    assert cut.json["chunks"] > before
    assert "fake-9" in desk.search("--model", "fake-9").json["error"]["message"]
    for option, value in (
        ("--max-chunk-size", 5),
        ("--provider", "nobody"),
        ("--milvus-uri", "x"),
        ("--collection", "a-b"),
    ):
        refused = desk.shell("index", option, value)
        assert (refused.status, f"lorelog: {option} is " in refused.err) == (2, True)
    assert "--base-url is not valid: expected" in desk.search("--base-url", "nonsense").json["error"]["message"]
    kept = desk.shell("index", "--milvus-uri", "lite.db", "--collection", "team")
    assert kept.status == 0
    (state,) = (Path(os.environ["LORELOG_HOME"]) / "cache" / "default" / "milvus").glob("*/current.json")
    assert "team_default_" in state.read_text("utf-8")


def test_a_token_budget_goes_before_the_setting(desk: Desk) -> None:
    """--token-budget has the last word over the setting, and 0 packs nothing."""
    desk.monkeypatch.setenv("LORELOG_SEARCH_TOKEN_BUDGET", "300")
    desk.shell("index", "notes")

    assert desk.search().json["packing"]["budget"] == 300
    assert desk.search("--token-budget", 9000).json["packing"]["budget"] == 9000
    assert desk.search("--token-budget", 0).json["packing"] is None
    refused = desk.search("--token-budget", "-5")
    assert (refused.status, refused.json["error"]["code"]) == (2, "usage")


def test_the_least_relevance_goes_before_the_setting(desk: Desk) -> None:
    """--min-relevance has the last word over the setting, 0 leaves nothing out, and what is no probability is refused."""
    desk.monkeypatch.setenv("LORELOG_SEARCH_MIN_RELEVANCE", "1")
    desk.shell("index", "notes")

    likely = sorted((hit["relevance"] for hit in desk.search("--min-relevance", 0).json["hits"]), reverse=True)

    assert desk.search().json["hits"] == []
    assert len(likely) == 5
    assert likely[0] > likely[-1]
    kept = [hit["relevance"] for hit in desk.search("--min-relevance", likely[0]).json["hits"]]
    assert set(kept) == {likely[0]}
    refused = desk.search("--min-relevance", 1.5)
    assert (refused.status, refused.json["error"]["code"]) == (2, "usage")


def test_explain_shows_the_parts(desk: Desk) -> None:
    """--explain shows the parts of each score and what they come to, and nothing of it is shown without."""
    desk.shell("index", "notes")

    plain, explained = desk.shell("search", "otter"), desk.shell("search", "otter", "--explain")

    assert explained.out.count("  total\n") == explained.out.count("BM25") == 5
    assert "lane weights" in explained.err
    assert "  total\n" not in plain.out
    assert "explanation" not in desk.search().json["hits"][0]


def test_no_flag_is_forgotten_here() -> None:
    """Every flag of index and search is one that a test types: here, beside the filters in test_cli_verbs, or where it belongs.

    What is worth enough is in test_search_trust, what is superseded or expired in test_lifecycle_cli.
    """
    flags = {
        name: {option for action in command_parser(name)._actions for option in action.option_strings}
        for name in ("index", "search")
    }
    everywhere = {"-h", "--help", "--json", "--project", "--tenant", "--daemon"}
    filters = {"--all-projects", "--source", "--since", "--until", "--type", "--tag"}
    settings = {"--provider", "--model", "--base-url", "--batch-size", "--milvus-uri", "--collection"}

    assert flags["index"] == everywhere | settings | {
        "--max-chunk-size",
        "--overlap-lines",
        "--force",
        "--words-only",
        "--reembed",
        "--anyway",
        "--rollback",
        "--drop-old",
        "--ignore-file",
        "--exclude",
        "--global",
        "--list",
        "--remove",
    }
    own = {
        "-k",
        "--top-k",
        "--lane",
        "--fusion",
        "--token-budget",
        "--min-relevance",
        "--explain",
        "--short",
        "--format",
    }
    worth = {"--trust", "--include-superseded", "--include-expired"}
    assert flags["search"] == everywhere | settings | filters | own | worth
