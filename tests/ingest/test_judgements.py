"""Questions and judgements are read, and malformed lines are reported."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import SourceError
from lorelog.ingest.judgements import (
    DocumentReference,
    JudgedQuestion,
    parse_reference,
    read_judgements,
    read_questions,
)


def written(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    return path


def test_questions_are_json_lines(tmp_path: Path) -> None:
    """Each line is a question; blank lines, a byte order mark, CRLF and extra fields are accepted."""
    path = written(
        tmp_path / "q.jsonl", '\ufeff{"id": "a", "text": "why?"}\r', "", '{"id": 7, "text": "when?", "category": "x"}'
    )

    assert read_questions(path).questions == (JudgedQuestion("a", "why?"), JudgedQuestion("7", "when?"))
    assert read_questions(path).problems == ()


def test_packed_files_are_recognised_by_content(tmp_path: Path) -> None:
    """A gzip file is recognised by its content."""
    path = tmp_path / "q.jsonl"
    path.write_bytes(gzip.compress(b'{"id": "a", "text": "why?"}\n'))

    assert read_questions(path).questions == (JudgedQuestion("a", "why?"),)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("why redis?", "not JSON"),
        ('["a", "why?"]', "not an object"),
        ('{"text": "why?"}', "no id"),
        ('{"id": true, "text": "why?"}', "no id"),
        ('{"id": "a", "text": " "}', "no text"),
        ('{"id": "good", "text": "again"}', "duplicate"),
        (b'{"id": "a", "text": "\xff"}', "UTF-8"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_question_is_named_by_file_and_line(tmp_path: Path, line: str | bytes, fault: str) -> None:
    """A malformed line is reported with its location, and the other lines count."""
    path = written(tmp_path / "q.jsonl", '{"id": "good", "text": "one"}', line, '{"id": "last", "text": "two"}')
    question_set = read_questions(path)

    assert [question.id for question in question_set.questions] == ["good", "last"]
    assert [problem.path for problem in question_set.problems] == [f"{path}:2"]
    assert fault in question_set.problems[0].message


@pytest.mark.parametrize("header", [[], ["query-id\tcorpus-id\tscore"]])
def test_judgements_have_a_header_or_none(tmp_path: Path, header: list[str]) -> None:
    """Gains are read by question and document, with or without a header line."""
    path = written(tmp_path / "r.tsv", *header, "q1\tnotes/a b.md\t1", "q1\tb.md#L3\t0.5", "q2\tb.md\t0")
    judgements = read_judgements(path, {"q1", "q2"})

    assert judgements.gains == {"q1": {"notes/a b.md": 1.0, "b.md#L3": 0.5}, "q2": {"b.md": 0.0}}
    assert judgements.problems == ()


@pytest.mark.parametrize("line", ["q1 a.md 1", "q1\ta.md", "q1\ta.md\tyes", "q1\t\t1", "\ta.md\t1", "q1\ta.md\tnan"])
def test_a_bad_judgement_is_named_by_file_and_line(tmp_path: Path, line: str) -> None:
    """A line without question, document and finite gain is reported, also on the first line."""
    for place, lines in ((1, [line, "q1\tb.md\t1"]), (2, ["q1\tb.md\t1", line])):
        path = written(tmp_path / "r.tsv", *lines)
        judgements = read_judgements(path, {"q1", ""})

        assert judgements.gains == {"q1": {"b.md": 1.0}}
        assert [problem.path for problem in judgements.problems] == [f"{path}:{place}"]


def test_judging_twice_differently_is_reported(tmp_path: Path) -> None:
    """The first judgement counts; an identical repetition is not reported."""
    path = written(tmp_path / "r.tsv", "q\ta\t1", "q\ta\t1", "q\ta\t2")
    judgements = read_judgements(path, {"q"})

    assert judgements.gains == {"q": {"a": 1.0}}
    assert [problem.path for problem in judgements.problems] == [f"{path}:3"]


@pytest.mark.parametrize("content", [None, b"\x1f\x8bnot packed", b"\x1f\x8b"])
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, content: bytes | None) -> None:
    """A missing file and a damaged gzip file are errors that name the file."""
    path = tmp_path / "q.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SourceError, match=r"q\.jsonl cannot be read"):
        read_questions(path)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("notes/a.md", DocumentReference("notes/a.md")),
        ("notes/a.md#L10", DocumentReference("notes/a.md", (10, 10))),
        ("notes/a.md#L10-L20", DocumentReference("notes/a.md", (10, 20))),
        ("notes/a.md#L10-20", DocumentReference("notes/a.md", (10, 20))),
        ("notes/a.md:10", DocumentReference("notes/a.md", (10, 10))),
        ("/n/a.md:10-20", DocumentReference("/n/a.md", (10, 20))),
        ("2be796e120f11f76", DocumentReference("2be796e120f11f76")),
        (":10", DocumentReference(":10")),
        ("a.md:ten", DocumentReference("a.md:ten")),
    ],
)
def test_documents_are_named_in_these_ways(text: str, reference: DocumentReference) -> None:
    """A document is a path, a path with lines in either notation, or an id."""
    assert parse_reference(text) == reference


@given(st.text())
def test_any_name_can_be_taken_apart(text: str) -> None:
    """The name of any reference is its prefix, and lines appear only if they were written."""
    reference = parse_reference(text)

    assert text.startswith(reference.name)
    assert (reference.lines is None) == (reference.name == text)
