"""Read questions (JSON lines) and relevance judgements (tab-separated lines), the usual formats of retrieval test sets.

A malformed line becomes a problem that names the file and the line; all other lines count. A gzip file is recognised by
its first bytes, not by its name. Document names are parsed here but resolved by the index.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from pathlib import Path

from msgspec import Struct, field

from lorelog.core.errors import SourceError
from lorelog.core.memory import FileProblem
from lorelog.ingest.files import os_error_text, printable_path

_GZIP_MAGIC = b"\x1f\x8b"
_LINE_SUFFIX = re.compile(r"(?:#L(\d+)(?:-L?(\d+))?|:(\d+)(?:-(\d+))?)\Z")
_MAX_SHOWN_CHARS = 60


class JudgedQuestion(Struct, frozen=True):
    """A question and the id by which judgements refer to it."""

    id: str
    text: str


class QuestionSet(Struct, frozen=True):
    """The questions of a file, and its malformed lines."""

    questions: tuple[JudgedQuestion, ...]
    problems: tuple[FileProblem, ...] = ()


class JudgementSet(Struct, frozen=True):
    """Gains by question id and document name, both as written in the file."""

    gains: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    problems: tuple[FileProblem, ...] = ()


class DocumentReference(Struct, frozen=True):
    """A document's path or id, optionally with a line range (1-based, inclusive)."""

    name: str
    lines: tuple[int, int] | None = None


def parse_reference(text: str) -> DocumentReference:
    """Parse `notes/a.md`, `notes/a.md#L10`, `notes/a.md#L10-L20`, `notes/a.md:10`, `notes/a.md:10-20` or an id."""
    match = _LINE_SUFFIX.search(text)
    if match is None or not text[: match.start()]:
        return DocumentReference(text)
    first, last = match[1] or match[3], match[2] or match[4]
    return DocumentReference(text[: match.start()], (int(first), int(last or first)))


def read_questions(path: Path) -> QuestionSet:
    """Read lines of `{"id": …, "text": …}`. Raise SourceError if the file cannot be read."""
    questions: dict[str, JudgedQuestion] = {}
    problems: list[FileProblem] = []
    for location, line in _read_lines(path, problems):
        question = _parse_question(line)
        if isinstance(question, str):
            problems.append(FileProblem(location, question, 'write lines such as {"id": "q1", "text": "why redis?"}'))
        elif question.id in questions:
            problems.append(FileProblem(location, f"duplicate id {_format_excerpt(question.id)}; the first one counts"))
        else:
            questions[question.id] = question
    return QuestionSet(tuple(questions.values()), tuple(problems))


def read_judgements(path: Path, questions: Collection[str]) -> JudgementSet:
    """Read tab-separated question, document and gain, with or without a header. Raise SourceError if that fails.

    A first line without a number is a header, unless it begins with one of the `questions`.
    """
    gains: dict[str, dict[str, float]] = {}
    problems: list[FileProblem] = []
    for number, (location, line) in enumerate(_read_lines(path, problems)):
        cells = [cell.strip() for cell in line.split("\t")]
        gain = _parse_gain(cells)
        if gain is None:
            if number or cells[0] in questions or len(cells) < 3:
                message = f"expected question, document and gain, got {_format_excerpt(line)}"
                problems.append(FileProblem(location, message, "separate three columns by tabs"))
            continue
        document_gains = gains.setdefault(cells[0], {})
        if document_gains.get(cells[1], gain) != gain:
            problems.append(
                FileProblem(location, f"{_format_excerpt(cells[1])} has two different gains; the first one counts")
            )
        document_gains.setdefault(cells[1], gain)
    return JudgementSet(gains, tuple(problems))


def _parse_question(line: str) -> JudgedQuestion | str:
    """Return a question, or an error message."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return f"not JSON: {_format_excerpt(line)}"
    if not isinstance(row, dict):
        return f"not an object: {_format_excerpt(line)}"
    name, text = row.get("id"), row.get("text")
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        return f"no id: {_format_excerpt(line)}"
    if not isinstance(text, str) or not text.strip():
        return f"no text: {_format_excerpt(line)}"
    return JudgedQuestion(str(name).strip(), text)


def _parse_gain(cells: list[str]) -> float | None:
    try:
        question, document, gain = cells[0], cells[1], float(cells[2])
    except (IndexError, ValueError):
        return None
    return gain if question and document and isfinite(gain) else None


def _read_lines(path: Path, problems: list[FileProblem]) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank with its location; a line that is not UTF-8 is a problem."""
    for number, raw in enumerate(_read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        location = f"{printable_path(str(path))}:{number}"
        try:
            line = raw.decode().rstrip("\r")
        except UnicodeDecodeError:
            problems.append(
                FileProblem(location, "not valid UTF-8", "convert the file to UTF-8, for example with iconv")
            )
            continue
        if line.strip():
            yield location, line


def _read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
    except (OSError, ValueError, EOFError, zlib.error) as error:
        why = os_error_text(error) if isinstance(error, OSError | ValueError) else str(error)
        raise SourceError(
            f"{printable_path(str(path))} cannot be read: {why}", hint="give a text file, plain or gzip"
        ) from error


def _format_excerpt(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…")
