"""`lorelog eval`: from the files with queries to the measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, write
from tests.surfaces.otter_project import git_init

MEMORY = "01a1dd23-0000-7000-8000-000000000001"


@pytest.fixture
def notes(project: Path, shell: Shell) -> Path:
    """Notes about animals, one in two sections, one a memory, indexed."""
    write(
        project / "notes" / "otter.md", "# Otters\n\nOtters swim in rivers.\n\n# Food\n\nThey eat trout and crayfish.\n"
    )
    write(project / "notes" / "badger.md", "# Badgers\n\nBadgers dig setts.\n")
    write(project / "notes" / "2026-03-05.md", f"### 14:30\n<!-- memory:{MEMORY} -->\nHedgehogs sleep in winter\n")
    assert shell("index", "notes").status == 0
    return project / "notes"


def files(project: Path, questions: dict[str, str], judged: list[tuple[str, str, float]]) -> list[object]:
    """Write queries and judgements, and return the arguments that name them."""
    lines = [json.dumps({"id": name, "text": text}) for name, text in questions.items()]
    queries = write(project / "q.jsonl", "\n".join(lines) + "\n")
    qrels = write(project / "r.tsv", "".join(f"{name}\t{document}\t{gain}\n" for name, document, gain in judged))
    return ["--queries", queries, "--qrels", qrels]


def mean(reply: dict[str, Any], ranking: str, measure: str) -> float:
    (found,) = (item for item in reply["rankings"] if item["name"] == ranking)
    return next(float(entry["mean"]) for entry in found["measures"] if entry["name"] == measure)


@pytest.mark.parametrize(
    ("document", "recall"),
    [
        ("notes/otter.md", 1.0),
        ("otter.md", 1.0),
        ("./notes/otter.md", 1.0),
        ("notes/otter.md:7", 1.0),
        ("otter.md#L5-L7", 1.0),
        ("{project}/notes/otter.md", 1.0),
        ("otter.md:1-3", 0.0),
    ],
)
def test_documents_are_found_by_path_and_lines(
    shell: Shell, project: Path, notes: Path, document: str, recall: float
) -> None:
    """A document is an absolute or relative path or its end, with or without lines; a hit on other lines does not count."""
    words = files(project, {"q": "trout crayfish"}, [("q", document.format(project=project), 1)])
    done = shell("eval", *words, "--json")

    assert (done.status, done.json["unknown"]) == (0, [])
    assert mean(done.json, "words", "R@1") == recall


def test_chunks_and_memories_are_found_by_id(shell: Shell, project: Path, notes: Path) -> None:
    """A chunk's id and a memory's id, or the beginning of it, name a document."""
    chunk = shell("search", "badgers", "--json").json["hits"][0]["id"]
    words = files(
        project,
        {"a": "badgers setts", "b": "hedgehogs winter", "c": "hedgehogs sleep"},
        [("a", chunk, 1), ("b", MEMORY, 1), ("c", MEMORY[:12], 1)],
    )
    reply = shell("eval", *words, "--json").json

    assert (reply["judged"], reply["unknown"]) == (3, [])
    assert mean(reply, "words", "R@1") == 1.0


def test_the_rankings_are_compared(shell: Shell, project: Path, notes: Path) -> None:
    """All four rankings are measured, ours is compared with the others, and --lane selects."""
    words = files(project, {"q": "badgers"}, [("q", "badger.md", 1)])
    by_lane = {
        lane: [item["name"] for item in shell("eval", *words, "--lane", lane, "--json").json["rankings"]]
        for lane in ("all", "lexical", "dense", "hybrid")
    }

    assert by_lane == {
        "all": ["words", "vectors", "rrf", "ours"],
        "lexical": ["words"],
        "dense": ["vectors"],
        "hybrid": ["rrf", "ours"],
    }
    rankings = shell("eval", *words, "--json").json["rankings"]
    assert [ranking["ours_ahead"] is None for ranking in rankings] == [False, False, False, True]


def test_people_get_a_table(shell: Shell, project: Path, notes: Path) -> None:
    """The table has a line per ranking with every measure, below the number of queries."""
    words = files(project, {"q": "badgers", "w": "otters"}, [("q", "badger.md", 1)])
    lines = shell("eval", *words).out.split("\n")

    assert lines[0] == "1 judged query of 2, 1 relevant document, 0 of them unknown."
    assert lines[2].split()[:6] == ["R@1", "R@5", "R@10", "all@10", "nDCG@10", "MRR"]
    assert [line.split()[0] for line in lines[3:7]] == ["words", "vectors", "rrf", "ours"]


def test_filters_hold_as_in_a_search(shell: Shell, project: Path, notes: Path) -> None:
    """Documents excluded by a filter are not found, and count against the ranking."""
    words = files(project, {"q": "badgers"}, [("q", "badger.md", 1)])

    assert mean(shell("eval", *words, "--json").json, "ours", "R@10") == 1.0
    assert mean(shell("eval", *words, "--source", notes / "otter.md", "--json").json, "ours", "R@10") == 0.0
    assert mean(shell("eval", *words, "--until", "2001-01-01", "--json").json, "ours", "R@10") == 0.0


def test_unknown_documents_are_named_and_count_as_not_found(shell: Shell, project: Path, notes: Path) -> None:
    """A missing document is named, halves the recall, and is not a failure."""
    words = files(project, {"q": "badgers"}, [("q", "badger.md", 1), ("q", "wolf.md", 1)])
    done = shell("eval", *words, "--json")

    assert done.status == 0
    assert done.json["unknown"] == [{"document": "wolf.md", "reason": "is not in the index"}]
    assert mean(done.json, "ours", "R@10") == 0.5
    assert "wolf.md is not in the index" in shell("eval", *words).err


def test_a_name_of_several_files_is_not_guessed(shell: Shell, project: Path, notes: Path) -> None:
    """An ambiguous file name is unknown until more of the path is given."""
    write(project / "notes" / "old" / "badger.md", "# Badgers\n\nold badgers\n")
    shell("index", "notes")
    words = files(project, {"q": "badgers"}, [("q", "badger.md", 1), ("q", "old/badger.md", 1)])
    unknown = shell("eval", *words, "--json").json["unknown"]

    assert [item["document"] for item in unknown] == ["badger.md"]
    assert "names 2 files" in unknown[0]["reason"]


def test_repeats_count_as_if_they_were_not_folded(shell: Shell, project: Path, notes: Path) -> None:
    """A document whose text is duplicated is found, whichever copy is shown."""
    write(project / "notes" / "copy.md", "# Badgers\n\nBadgers dig setts.\n")
    shell("index", "notes")
    words = files(project, {"q": "badgers setts"}, [("q", "badger.md", 1), ("q", "copy.md", 1)])

    assert mean(shell("eval", *words, "--json").json, "ours", "R@5") == 1.0


def test_bad_lines_are_reported_and_fail(shell: Shell, project: Path, notes: Path) -> None:
    """Each invalid line is reported with file and line, the others are measured, and the exit status is 1."""
    words = files(project, {"q": "badgers"}, [("q", "badger.md", 1)])
    with (project / "q.jsonl").open("a") as file:
        file.write("not a question\n")
    with (project / "r.tsv").open("a") as file:
        file.write("q badger.md 1\n")
    done = shell("eval", *words, "--json")

    assert done.status == 1
    assert [problem["path"].rpartition("/")[2] for problem in done.json["problems"]] == ["q.jsonl:2", "r.tsv:2"]
    assert done.json["failed"] == 2
    assert mean(done.json, "ours", "R@1") == 1.0
    shown = shell("eval", *words)
    assert "q.jsonl:2" in shown.err
    assert "2 lines could not be read" in shown.out


@pytest.mark.parametrize(
    ("judged", "status", "told"),
    [
        ([], 2, "r.tsv"),
        ([("q", "badger.md", 0.0)], 2, "q.jsonl"),
        ([("other", "badger.md", 1.0)], 2, "q.jsonl"),
        ([("q", "wolf.md", 1.0)], 1, "index"),
    ],
)
def test_nothing_judged_or_known_is_an_error(
    shell: Shell, project: Path, notes: Path, judged: list[tuple[str, str, float]], status: int, told: str
) -> None:
    """If no query has a relevant document, or none of them is indexed, the error says so instead of printing zeros."""
    done = shell("eval", *files(project, {"q": "badgers"}, judged))

    assert (done.status, done.out, told in done.err) == (status, "", True)


def test_without_a_model_words_are_measured_alone(
    shell: Shell, project: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With provider none there is one ranking and a note; the dense lane is rejected."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    words = files(project, {"q": "badgers"}, [("q", "badger.md", 1)])
    done = shell("eval", *words, "--json")

    assert [ranking["name"] for ranking in done.json["rankings"]] == ["words"]
    assert "only keyword search" in done.json["notes"][0]
    assert shell("eval", *words, "--lane", "dense").status == 2


def test_documents_of_another_project_are_told_apart(
    shell: Shell, project: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents of other projects are named with the option --all-projects, which finds them."""
    words = files(project, {"q": "badgers", "w": "wolves"}, [("q", "badger.md", 1), ("w", "wolf.md", 1)])
    for name in ("app", "other"):
        git_init(project.parent / name)
    monkeypatch.chdir(project.parent / "other")
    write(project.parent / "other" / "wolf.md", "# Wolves\n\nWolves howl.\n")
    assert shell("index", ".").status == 0
    here = shell("eval", *words, "--json").json

    assert here["unknown"] == [{"document": "badger.md", "reason": "belongs to another project (--all-projects)"}]
    assert mean(here, "ours", "R@1") == 0.5
    assert shell("eval", *words, "--all-projects", "--json").json["unknown"] == []
