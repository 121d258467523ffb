"""Every setting and every flag reaches what it is for: each has an effect that a person can see."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request, well
from tests.surfaces.conftest import Outcome, Shell, write

from recollect.config.schema import BY_KEY, Value
from recollect.config.values import as_toml
from recollect.surfaces.cli.main import command_parser

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


def _by_environment(desk: Desk, home: Path, key: str, value: Value) -> None:
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    desk.monkeypatch.setenv(BY_KEY[key].variable, text)


def _by_user_file(desk: Desk, home: Path, key: str, value: Value) -> None:
    desk.monkeypatch.delenv(BY_KEY[key].variable, raising=False)
    setting = BY_KEY[key]
    write(home / "config.toml", f"[{setting.section}]\n{setting.field} = {as_toml(value)}\n")


def _by_project_file(desk: Desk, home: Path, key: str, value: Value) -> None:
    desk.monkeypatch.delenv(BY_KEY[key].variable, raising=False)
    setting = BY_KEY[key]
    write(desk.project / ".recollect.toml", f"[{setting.section}]\n{setting.field} = {as_toml(value)}\n")


WAYS = {"environment": _by_environment, "user file": _by_user_file, "project file": _by_project_file}


# -- settings that show in what is found ---------------------------------------------------------------------------------


def _hits(desk: Desk) -> object:
    desk.index("notes")
    return len(desk.search().json["hits"])


def _lane(desk: Desk) -> object:
    desk.index("notes")
    reply = desk.search("--explain").json
    return reply["lane"], [part["name"] for part in reply["hits"][0]["explanation"]]


def _fusion(desk: Desk) -> object:
    desk.index("notes")
    notes = [part["note"] for part in desk.search("--explain").json["hits"][0]["explanation"]]
    return "by rank" if all(note.startswith("rank ") for note in notes) else "by distance"


def _sight(desk: Desk) -> object:
    git_init(desk.project)
    desk.index(desk.project / "notes")
    desk.elsewhere()
    return len(desk.search("-k", 50).json["hits"])


def _bare(desk: Desk) -> object:
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
    hits = desk.search("-k", 100, "--lane", "lexical", "--source", "long").json["hits"]
    return sorted((hit["start_line"], hit["end_line"]) for hit in hits)


def _piece_count(desk: Desk) -> object:
    return len(_pieces(desk)) > 10


def _shared_lines(desk: Desk) -> object:
    (_, end), (start, _), *_ = _pieces(desk)
    return end - start + 1


def _tenant(desk: Desk) -> object:
    if not desk.listed():
        desk.shell("index", "notes" if "default" in desk.shell("stats", "--json").json["location"] else "docs/drafts")
    return len(desk.listed())


def _model(desk: Desk) -> object:
    embedded = desk.shell("index", "notes", "--force", "--json").json["embedded"]
    return desk.shell("stats", "--json").json["model"], embedded


@dataclass(frozen=True)
class Row(Generic[Seen]):
    """A setting, a value, and what is seen without and with it."""

    key: str
    value: Value
    look: Callable[[Seen], object]
    without: object
    given: object


ROWS: list[Row[Desk]] = [
    Row("search.k", 2, _hits, 5, 2),
    Row("search.lane", "lexical", _lane, ("hybrid", ["lexical", "dense"]), ("lexical", ["lexical"])),
    Row("search.fusion", "rrf", _fusion, "by distance", "by rank"),
    Row("search.all_projects", True, _sight, 0, 7),
    Row("index.paths", ("docs", "!docs/drafts"), _bare, set(), {"guide.md", "scratch.tmp.md"}),
    Row("index.exclude", ("*.tmp.md",), _docs, {"guide.md", "draft.md", "scratch.tmp.md"}, {"guide.md", "draft.md"}),
    Row(
        "index.ignore_files",
        (".passover",),
        _docs_with_ignore_files,
        {"draft.md", "scratch.tmp.md"},
        {"guide.md", "scratch.tmp.md"},
    ),
    Row("index.max_file_bytes", 100, _with_problems, (0, set()), (1, {"long.md"})),
    Row("chunking.max_chunk_size", 100, _piece_count, False, True),
    Row("chunking.overlap_lines", 0, _shared_lines, 2, 0),
    Row("scope.tenant", "another", _tenant, 7, 1),
    Row("embedding.provider", "none", _model, ("fake/fake-64", 7), ("none", 0)),
]


def ways_of(rows: list[Row[Any]]) -> list[Any]:
    """Each setting in each way it may be chosen."""
    return [
        pytest.param(row, way, id=f"{row.key} by {way}")
        for row in rows
        for way in WAYS
        if way != "project file" or BY_KEY[row.key].project_allowed
    ]


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
    desk.monkeypatch.setenv("RECOLLECT_EMBEDDING_PROVIDER", "openai")
    desk.monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    desk.monkeypatch.setenv("MY_OTTER_SECRET", "swordfish")
    return desk


def _models(requests: list[Request]) -> object:
    return {request.body["model"] for request in requests}


def _batches(requests: list[Request]) -> object:
    return [len(request.body["input"]) for request in requests]


def _keys(requests: list[Request]) -> object:
    return {request.headers.get("authorization") for request in requests}


ASKED: list[Row[list[Request]]] = [
    Row("embedding.model", "otter-3", _models, {"text-embedding-3-small"}, {"otter-3"}),
    Row("embedding.batch_size", 15, _batches, [40], [15, 15, 10]),
    Row("embedding.api_key", "env:MY_OTTER_SECRET", _keys, {None}, {"Bearer swordfish"}),
]


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


def test_no_setting_is_forgotten_here() -> None:
    """Every setting there is has a test of its effect."""
    seen = {row.key for row in ROWS} | {row.key for row in ASKED} | {"embedding.base_url", "embedding.timeout_s"}
    unseen = {"embedding.threads"}  # how many processors work cannot be told from what they did

    assert seen | unseen == set(BY_KEY)


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
    write(other / ".recollect.toml", "[search]\nk = 2\n")
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
        desk.monkeypatch.setenv(f"RECOLLECT_SEARCH_{variable}", value)
    desk.shell("index", "notes")
    settled = desk.search("--explain").json

    assert (len(settled["hits"]), settled["lane"]) == (2, "dense")
    for flag in ("-k", "--top-k"):
        assert len(desk.search(flag, 6).json["hits"]) == 6
    assert desk.search("--lane", "lexical").json["lane"] == "lexical"
    chosen = desk.search("--lane", "hybrid", "--fusion", "convex", "--explain").json["hits"][0]["explanation"]
    assert all("weight" in part["note"] for part in chosen)


def test_explain_shows_the_parts(desk: Desk) -> None:
    """--explain shows the parts of each score and what they come to, and nothing of it is shown without."""
    desk.shell("index", "notes")

    plain, explained = desk.shell("search", "otter"), desk.shell("search", "otter", "--explain")

    assert explained.out.count("together") == explained.out.count("BM25") == 5
    assert "lanes weighed" in explained.err
    assert "together" not in plain.out
    assert "explanation" not in desk.search().json["hits"][0]


def test_no_flag_is_forgotten_here() -> None:
    """Every flag of index and search is one that a test types, here or beside the filters in test_cli_verbs."""
    flags = {
        name: {option for action in command_parser(name)._actions for option in action.option_strings}
        for name in ("index", "search")
    }
    everywhere = {"-h", "--help", "--json", "--project"}
    filters = {"--all-projects", "--source", "--since", "--until", "--type", "--tag"}

    assert flags["index"] == everywhere | {
        "--force",
        "--words-only",
        "--ignore-file",
        "--exclude",
        "--global",
        "--forget",
    }
    assert flags["search"] == everywhere | filters | {"-k", "--top-k", "--lane", "--fusion", "--explain"}
