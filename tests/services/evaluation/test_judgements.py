"""Questions and judgements are read, and malformed lines are reported."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import SourceError
from lorelog.services.evaluation.search_quality import JudgedQuestions, read_judged_questions, split_lines

QUESTION, JUDGEMENT = '{"id": "q1", "text": "one"}', "q1\tb.md\t1"


def written(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    return path


def read(folder: Path, questions: tuple[str | bytes, ...], judgements: tuple[str, ...]) -> JudgedQuestions:
    return read_judged_questions(written(folder / "q.jsonl", *questions), written(folder / "r.tsv", *judgements))


def test_questions_are_json_lines(tmp_path: Path) -> None:
    """Each line is a question; blank lines, a byte order mark, CRLF and extra fields are accepted; gzip is known by its content."""
    assert read(tmp_path, (gzip.compress(QUESTION.encode()),), ()).questions == {"q1": "one"}
    lines = ('\ufeff{"id": "a", "text": "why?"}\r', "", '{"id": 7, "text": "when?", "category": "x"}')
    judged = read(tmp_path, lines, ())

    assert (judged.questions, judged.problems) == ({"a": "why?", "7": "when?"}, ())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("why redis?", "malformed"),
        ('["a", "why?"]', "Expected `object`"),
        ('{"text": "why?"}', "`id`"),
        ('{"id": true, "text": "why?"}', "`$.id`"),
        ('{"id": "a", "text": " "}', "`$.text`"),
        ('{"id": "good", "text": "again"}', "duplicate"),
        (b'{"id": "a", "text": "\xff"}', "UTF-8"),
        ("[" * 100_000, "Expected `object`"),
    ],
)
def test_a_bad_question_is_named_by_file_and_line(tmp_path: Path, line: str | bytes, fault: str) -> None:
    """A malformed line is reported with its location, and the other lines count."""
    judged = read(tmp_path, ('{"id": "good", "text": "one"}', line, '{"id": "last", "text": "two"}'), ())

    assert list(judged.questions) == ["good", "last"]
    assert [problem.path for problem in judged.problems] == [f"{tmp_path}/q.jsonl:2"]
    assert fault in judged.problems[0].message


@pytest.mark.parametrize("header", [(), ("query-id\tcorpus-id\tscore",)])
def test_judgements_have_a_header_or_none(tmp_path: Path, header: tuple[str, ...]) -> None:
    """Gains are read by question and document, with or without a header line."""
    judged = read(tmp_path, (QUESTION,), (*header, "q1\tnotes/a b.md\t1", "q1\tb.md#L3\t0.5", "q2\tb.md\t0"))

    assert judged.gains == {"q1": {"notes/a b.md": 1.0, "b.md#L3": 0.5}, "q2": {"b.md": 0.0}}
    assert judged.problems == ()


@pytest.mark.parametrize("line", ["q1 a.md 1", "q1\ta.md", "q1\ta.md\tyes", "q1\t\t1", "\ta.md\t1", "q1\ta.md\tnan"])
def test_a_bad_judgement_is_named_by_file_and_line(tmp_path: Path, line: str) -> None:
    """A line without question, document and finite gain is reported, also on the first line."""
    for place, lines in ((1, (line, JUDGEMENT)), (2, (JUDGEMENT, line))):
        judged = read(tmp_path, (QUESTION,), lines)

        assert judged.gains == {"q1": {"b.md": 1.0}}
        assert [problem.path for problem in judged.problems] == [f"{tmp_path}/r.tsv:{place}"]


def test_judging_twice_differently_is_reported(tmp_path: Path) -> None:
    """The first judgement counts; an identical repetition is not reported."""
    judged = read(tmp_path, (QUESTION,), ("q1\ta\t1", "q1\ta\t1", "q1\ta\t2"))

    assert judged.gains == {"q1": {"a": 1.0}}
    assert [problem.path for problem in judged.problems] == [f"{tmp_path}/r.tsv:3"]


@pytest.mark.parametrize("content", [None, b"\x1f\x8bnot packed", b"\x1f\x8b"])
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, content: bytes | None) -> None:
    """A missing file and a damaged gzip file are errors that name the file."""
    path = tmp_path / "q.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SourceError, match=r"q\.jsonl cannot be read"):
        read_judged_questions(path, path)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("notes/a.md", ("notes/a.md", None)),
        ("notes/a.md#L10", ("notes/a.md", (10, 10))),
        ("notes/a.md#L10-L20", ("notes/a.md", (10, 20))),
        ("notes/a.md#L10-20", ("notes/a.md", (10, 20))),
        ("notes/a.md:10", ("notes/a.md", (10, 10))),
        ("/n/a.md:10-20", ("/n/a.md", (10, 20))),
        ("2be796e120f11f76", ("2be796e120f11f76", None)),
        (":10", (":10", None)),
        ("a.md:ten", ("a.md:ten", None)),
    ],
)
def test_documents_are_named_in_these_ways(text: str, reference: tuple[str, tuple[int, int] | None]) -> None:
    """A document is a path, a path with lines in either notation, or an id."""
    assert split_lines(text) == reference


@given(st.text())
def test_any_name_can_be_taken_apart(text: str) -> None:
    """The name of any reference is its prefix, and lines appear only if they were written."""
    name, lines = split_lines(text)

    assert text.startswith(name)
    assert (lines is None) == (name == text)
