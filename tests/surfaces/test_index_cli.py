"""Options of `index` and `search`, each of which goes before the settings; `watch`, and the roots that are added, listed and removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, command_line, write
from tests.surfaces.otter_project import OtterProject, git_init, otters

from lorelog.surfaces.cli.parser import command_parser
from lorelog.surfaces.mcp.calls import render_search

__all__ = ["otters"]


def test_words_only_makes_no_vectors(otters: OtterProject) -> None:
    """A run of words only embeds nothing, says how much waits, is found by words, and a later run makes the vectors."""
    report = otters.shell("index", "notes", "--words-only", "--json").json

    assert (report["changed"], report["embedded"], report["waiting"]) == (7, 0, 7)
    reply = otters.search().json
    assert reply["coverage"] == {"chunks": 7, "with_vectors": 0}
    assert len(reply["hits"]) == 5
    later = otters.shell("index", "--json").json
    assert (later["changed"], later["embedded"], later["waiting"]) == (0, 7, 0)


@pytest.mark.slow
def test_a_model_is_replaced_and_restored(otters: OtterProject) -> None:
    """--reembed says whose vectors are used now, --rollback goes back and says what to set, --drop-old ends that."""
    write(otters.path / "notes" / "a.md", "The warden of the weir counts otters at dawn, and herons at noon.\n")
    otters.shell("index", "notes")
    otters.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "builtin")

    changed = otters.shell("index", "--reembed")
    back = otters.shell("index", "--reembed", "--rollback")

    assert "Now using the vectors of builtin/lorelog-2" in changed.out
    assert back.out.startswith("Searches use the vectors of fake/fake-64 again; set embedding.provider to 'fake'")
    assert otters.search().json["coverage"]["with_vectors"] == 0
    otters.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    assert otters.search().json["coverage"] == {"chunks": 8, "with_vectors": 8}
    told = otters.shell("index", "--reembed", "--rollback", "--json").json["reembedding"]
    assert (told["from"], told["to"], told["swapped"]) == ("fake/fake-64", "builtin/lorelog-2", True)
    otters.shell("index", "--reembed", "--rollback")
    assert (
        otters.shell("index", "--reembed", "--drop-old").out == "Dropped 8 vectors; those of fake/fake-64 are left.\n"
    )
    assert otters.shell("status", "index", "--json").json["other_vectors"] == 0
    assert otters.shell("index", "--reembed", "--rollback", "--json").json["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rollback"], "--rollback requires --reembed"),
        (["--reembed", "--rollback", "--drop-old"], "use either --rollback or --drop-old, not both"),
        (["--reembed", "--rollback", "notes"], "--rollback cannot be combined with paths"),
        (["--reembed", "--drop-old", "--force"], "--drop-old cannot be combined with --force"),
        (["--list", "notes"], "--list cannot be combined with paths"),
        (["--list", "--remove"], "use either --list or --remove, not both"),
        (["--remove"], "--remove requires paths"),
    ],
)
def test_contradictory_options_of_index_are_refused_by_name(
    otters: OtterProject, words: list[str], message: str
) -> None:
    """Options of index that exclude or require each other are refused by their names."""
    refused = otters.shell("index", *words, "--json")

    assert (refused.status, refused.json["error"]["message"]) == (2, message)


@pytest.mark.parametrize(("words", "provider"), [(["--words-only"], "fake"), ([], "none")])
def test_reembed_needs_a_model(otters: OtterProject, words: list[str], provider: str) -> None:
    """--reembed in a run that makes no vectors is a mistake, and takes no vector away."""
    otters.shell("index", "notes")
    otters.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", provider)

    refused = otters.shell("index", "--reembed", *words, "--json")

    assert (refused.status, refused.json["error"]["code"]) == (2, "usage")
    otters.monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    assert otters.search().json["coverage"] == {"chunks": 7, "with_vectors": 7}


def test_ignore_files_can_be_named(otters: OtterProject) -> None:
    """--ignore-file honours files of that name beside the configured ones, each time it is given."""
    write(otters.path / "docs" / ".passover", "drafts/\n")
    write(otters.path / "docs" / ".alsopass", "guide.md\n")
    write(otters.path / "docs" / ".gitignore", "*.tmp.md\n")

    assert otters.index("docs") == {"guide.md", "draft.md"}
    assert otters.index("docs", "--ignore-file", ".passover") == {"guide.md"}
    assert otters.index("docs", "--ignore-file", ".passover", "--ignore-file", ".alsopass") == set()


def test_patterns_can_be_left_out_and_stay_out(otters: OtterProject) -> None:
    """--exclude leaves patterns out of the given paths, each time it is given, and a bare run remembers them."""
    assert otters.index("docs", "--exclude", "*.tmp.md", "--exclude", "drafts/") == {"guide.md"}
    assert otters.index() == {"guide.md"}
    refused = otters.shell("index", "--exclude", "guide.md")
    assert (refused.status, "--exclude" in refused.err) == (2, True)
    assert otters.listed() == {"guide.md"}


def test_project_indexes_for_that_project(otters: OtterProject) -> None:
    """With --project index files paths under that project, and a bare one refreshes what that project knows."""
    git_init(otters.path)
    other = otters.move_elsewhere()
    otters.monkeypatch.chdir(otters.path)

    assert otters.shell("index", "notes", "--project", other).status == 0

    assert otters.search().json["hits"] == []
    hits = otters.search("--project", other).json["hits"]
    assert {hit["project"] for hit in hits} == {str(other)}
    assert otters.shell("index", "--project", other, "--json").json["unchanged"] == 7
    assert otters.shell("index").status == 2


def test_project_reads_the_settings_of_that_project(otters: OtterProject) -> None:
    """--project reads the settings of the project it names, not those of the current directory."""
    other = otters.move_elsewhere()
    write(other / ".lorelog.toml", "[search]\nk = 2\n")
    otters.monkeypatch.chdir(otters.path)
    otters.shell("index", "notes", "--global")

    assert len(otters.search().json["hits"]) == 5
    assert len(otters.search("--project", other).json["hits"]) == 2


def test_flags_go_before_settings(otters: OtterProject) -> None:
    """-k, --lane and --fusion have the last word over what settings say."""
    for variable, value in (("K", "2"), ("LANE", "dense"), ("FUSION", "rrf")):
        otters.monkeypatch.setenv(f"LORELOG_SEARCH_{variable}", value)
    otters.shell("index", "notes")
    settled = otters.search("--explain").json

    assert (len(settled["hits"]), settled["lane"]) == (2, "dense")
    for flag in ("-k", "--top-k", "--limit", "-n"):
        assert len(otters.search(flag, 6).json["hits"]) == 6
    assert otters.search("--lane", "lexical").json["lane"] == "lexical"
    chosen = otters.search("--lane", "hybrid", "--fusion", "convex", "--explain").json["hits"][0]["explanation"]
    lanes = {part["name"]: part["note"] for part in chosen if part["name"] in {"lexical", "dense"}}
    assert list(lanes) == ["lexical", "dense"]
    assert all("weight" in note for note in lanes.values())


def test_options_of_a_command_go_before_settings(otters: OtterProject) -> None:
    """Provider, model, store and chunk sizes can be chosen for one command; a wrong value is reported by its option."""
    otters.monkeypatch.setenv("LORELOG_CHUNKING_MAX_CHUNK_SIZE", "5000")
    write(otters.path / "notes" / "long.md", "# Long\n\n" + "An otter swims in the river all day.\n\n" * 20)
    otters.shell("index", "notes")
    before = otters.shell("status", "index", "--json").json["chunks"]

    cut = otters.shell("index", "--force", "--max-chunk-size", 100, "--overlap-lines", 0, "--batch-size", 2, "--json")

    assert cut.json["chunks"] > before
    assert "fake-9" in otters.search("--model", "fake-9").json["error"]["message"]
    for option, value in (
        ("--max-chunk-size", 5),
        ("--provider", "nobody"),
        ("--milvus-uri", "x"),
        ("--collection", "a-b"),
    ):
        refused = otters.shell("index", option, value)
        assert (refused.status, f"lorelog: {option} is " in refused.err) == (2, True)
    assert "--base-url is not valid: expected" in otters.search("--base-url", "nonsense").json["error"]["message"]
    kept = otters.shell("index", "--milvus-uri", "lite.db", "--collection", "team")
    assert kept.status == 0
    (state,) = (Path(os.environ["LORELOG_HOME"]) / "cache" / "default" / "milvus").glob("*/current.json")
    assert "team_default_" in state.read_text("utf-8")


@pytest.mark.slow
def test_a_move_to_milvus_can_be_tried_and_taken_back(otters: OtterProject) -> None:
    """A command's own address and collection push the index there, every row arrives, and the embedded index answers as before."""
    otters.shell("index", "notes")
    before = [hit["id"] for hit in otters.search().json["hits"]]

    tried = otters.search("--milvus-uri", "lite.db", "--collection", "trial")
    assert {hit["id"] for hit in tried.json["hits"]} == set(before)
    otters.monkeypatch.setenv("LORELOG_STORE_COLLECTION", "trial")
    otters.monkeypatch.setenv("LORELOG_STORE_URI", "lite.db")
    assert "all of them" in otters.shell("doctor", "--store").out
    otters.monkeypatch.delenv("LORELOG_STORE_URI")
    assert "Deleted the rows of this index" in otters.shell("store", "leave", "--at", "lite.db").out
    otters.monkeypatch.delenv("LORELOG_STORE_COLLECTION")

    assert [hit["id"] for hit in otters.search().json["hits"]] == before
    assert "all of them beside the catalog" in otters.shell("doctor", "--store").out


def test_a_token_budget_goes_before_the_setting(otters: OtterProject) -> None:
    """--token-budget has the last word over the setting, and 0 packs nothing."""
    otters.monkeypatch.setenv("LORELOG_SEARCH_TOKEN_BUDGET", "300")
    otters.shell("index", "notes")

    assert otters.search().json["packing"]["budget"] == 300
    assert otters.search("--token-budget", 9000).json["packing"]["budget"] == 9000
    assert otters.search("--token-budget", 0).json["packing"] is None
    refused = otters.search("--token-budget", "-5")
    assert (refused.status, refused.json["error"]["code"]) == (2, "usage")


def test_the_least_relevance_goes_before_the_setting(otters: OtterProject) -> None:
    """--min-relevance has the last word over the setting, 0 leaves nothing out, and what is no probability is refused."""
    otters.monkeypatch.setenv("LORELOG_SEARCH_MIN_RELEVANCE", "1")
    otters.shell("index", "notes")

    likely = sorted((hit["relevance"] for hit in otters.search("--min-relevance", 0).json["hits"]), reverse=True)

    assert otters.search().json["hits"] == []
    assert len(likely) == 5
    assert likely[0] > likely[-1]
    kept = [hit["relevance"] for hit in otters.search("--min-relevance", likely[0]).json["hits"]]
    assert set(kept) == {likely[0]}
    refused = otters.search("--min-relevance", 1.5)
    assert (refused.status, refused.json["error"]["code"]) == (2, "usage")


@pytest.mark.parametrize("command", ["index", "search"])
def test_every_option_is_typed_by_a_test(command: str) -> None:
    """Every option of index and search is used in a test of this folder."""
    texts = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py"))
    options = {option for action in command_parser(command)._actions for option in action.option_strings}

    assert {option for option in options if f'"{option}"' not in texts} <= {"-h"}


def test_that_nothing_is_relevant_is_said_everywhere(otters: OtterProject) -> None:
    """Weak matches are folded behind one line in the shell and for agents, JSON has the sentence, and a limit leaves none."""
    otters.index("notes")
    words = ("search", "otter marmalade giraffes juggle purple quantum sourdough", "--lane", "lexical", "-k", "2")
    said = "Probably nothing relevant."

    shown, reply = otters.shell(*words), otters.shell(*words, "--json").json

    assert [hit["confidence"] for hit in reply["hits"]] == ["weak", "weak"]
    assert (reply["nothing_relevant"], otters.search().json["nothing_relevant"]) == (said, "")
    assert shown.out.startswith(f"{said} Weak matches:\n   notes/")
    assert len(shown.out.splitlines()) == 4
    assert otters.shell(*words, "--short").out.startswith(f"{said}\n")
    assert render_search(reply).text.startswith(f"{said}\n")
    assert otters.shell(*words, "--format", "tsv").err == f"note: {said}\n"
    assert "●○○ weak" in otters.shell(*words, "--min-relevance", "0").out
    limited = otters.shell(*words, "--min-relevance", "0.2", "--format", "tsv")
    assert (limited.status, limited.out) == (0, "")


@pytest.fixture
def notes(project: Path) -> Path:
    write(project / "notes" / "a.md", "otter\n")
    return project / "notes"


@contextmanager
def watching(project: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Run `lorelog watch` as a process that ends with the test."""
    process = subprocess.Popen(
        command_line("watch", *words), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def next_event(process: subprocess.Popen[str]) -> Any:
    return json.loads(next_line(process))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_tells_each_pass_until_it_is_ended(
    project: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell, number: signal.Signals
) -> None:
    """It prints the watched roots and one line per pass, and Ctrl-C ends it with status 0."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    with watching(project, "notes") as process:
        assert next_line(process) == "Watching 1 root: notes. Press Ctrl-C to stop.\n"
        write(notes / "b.md", "beaver\n")
        assert "1 changed, 1 text embedded" in next_line(process)
        assert [hit["content"] for hit in shell("search", "beaver", "-k", 1, "--json").json["hits"]] == ["beaver"]
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.slow
def test_watch_without_paths_follows_what_the_project_knows(
    project: Path, notes: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without paths it watches what `lorelog index` would refresh."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    assert shell("index", "notes").status == 0
    assert shell("add", "a first memory").status == 0
    with watching(project, "--json") as process:
        assert next_event(process)["roots"] == [str(project / ".lorelog" / "memory"), str(notes)]
        write(notes / "a.md", "otter, edited\n")
        assert next_event(process)["changed"] == 1


def test_watch_without_anything_to_watch_says_so(shell: Shell) -> None:
    """In an empty project it fails with a hint instead of watching nothing."""
    outcome = shell("watch")

    assert outcome.status == 2
    assert "nothing to index yet" in outcome.err


def test_roots_are_added_listed_and_removed(project: Path, notes: Path, shell: Shell) -> None:
    """Indexed paths are listed with their documents; removed ones leave the index, not the disk."""
    assert shell("index", "--list").out.startswith("Nothing is indexed yet;")

    added = shell("index", "notes", "--exclude", "*.tmp.md", "--json")
    assert (added.status, added.json["changed"]) == (0, 1)
    (root,) = shell("index", "--list", "--json").json["roots"]
    assert (root["path"], root["documents"], root["exists"], root["patterns"]) == (str(notes), 1, True, ["*.tmp.md"])
    listed = shell("index", "--list").out
    assert listed == f"notes  1 document  project {root['project']}  without *.tmp.md\n"

    removed = shell("index", "--remove", "notes")
    assert removed.out == "Removed 1 root: 1 document removed from the index. Your files are unchanged.\n"
    assert (notes / "a.md").exists()
    assert shell("index", "--list", "--json").json == {"roots": []}
    again = shell("index", "--remove", "notes")
    assert (again.status, "is not an indexed path" in again.err, "index --list" in again.err) == (1, True, True)


def test_an_empty_directory_is_not_remembered(project: Path, notes: Path, shell: Shell) -> None:
    """A directory without Markdown does not become a root, which a note says, and another what was passed over; one that lost its files stays."""
    write(project / "empty" / "a.txt", "text")
    shell("index", "notes")

    done = shell("index", "empty/")
    (notes / "a.md").unlink()
    shell("index", "notes")

    assert (done.status, done.out) == (0, "")
    assert done.err.splitlines() == [
        "note: no Markdown below empty/; it is not remembered",
        "note: passed over: 1 .txt file; to index them: lorelog config set index.extensions '[\".txt\"]', and index again",
    ]
    assert [root["path"] for root in shell("index", "--list", "--json").json["roots"]] == [str(notes)]


def test_a_misspelt_path_is_refused_before_the_run(project: Path, notes: Path, shell: Shell) -> None:
    """A path that does not exist is one line with the nearest name, while another process holds the index."""
    shell("index", "notes")
    holder = _hold_index(project)
    try:
        done = shell("index", "nots", "notes")
    finally:
        holder.kill()
        holder.communicate()

    assert (done.status, done.out) == (1, "")
    assert done.err == "lorelog: nots does not exist\n  hint: did you mean notes?\n"


def _hold_index(project: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock of index runs until it is killed."""
    script = (
        "import time\nfrom lorelog.wiring import open_engine, resolve_location\n"
        "with open_engine(resolve_location()) as engine, engine.store.run(wait_s=0):\n"
        "    print('held', flush=True)\n    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], cwd=project, stdout=subprocess.PIPE, text=True)
    assert next_line(holder) == "held\n"
    return holder


@pytest.mark.slow
def test_an_empty_directory_can_be_watched(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lorelog watch` waits for the first file of a directory; with --json each line is one object."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    (project / "empty").mkdir()
    with watching(project, "empty", "--json") as process:
        assert next_event(process) == {"event": "watching", "roots": [str(project / "empty")]}
        write(project / "empty" / "a.md", "otter\n")
        done = next_event(process)

    assert (done["event"], done["changed"], done["removed"], done["problems"]) == ("pass", 1, 0, [])
