"""Questions and judgements from files: JSON lines and tab-separated lines, as retrieval sets have them everywhere.

A line that cannot be read is a problem with the file and the line named; the lines around it count. A packed file is told by
its first bytes, not by its name. The document of a judgement is only taken apart here: what it names is the index's to say.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from lorelog.core.errors import SourceError
from lorelog.core.memory import Problem
from lorelog.ingest.scan_read import printable, reason

_PACKED = b"\x1f\x8b"
_LINES = re.compile(r"(?:#L(\d+)(?:-L?(\d+))?|:(\d+)(?:-(\d+))?)\Z")
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask, by the name that judgements know it by."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Questions:
    """What a file of questions holds."""

    questions: tuple[Question, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgements:
    """Gains of documents by question, both as they are named in the file."""

    gains: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A name for a document: a path or an id, and perhaps the lines that are meant (1-based, inclusive)."""

    name: str
    lines: tuple[int, int] | None = None


def parse_reference(text: str) -> Reference:
    """Take `notes/a.md`, `notes/a.md#L10`, `notes/a.md#L10-L20`, `notes/a.md:10`, `notes/a.md:10-20` or an id apart."""
    found = _LINES.search(text)
    if found is None or not text[: found.start()]:
        return Reference(text)
    first, last = found[1] or found[3], found[2] or found[4]
    return Reference(text[: found.start()], (int(first), int(last or first)))


def read_questions(path: Path) -> Questions:
    """Read `{"id": …, "text": …}`, a line each. Raise SourceError when the file cannot be read at all."""
    questions: dict[str, Question] = {}
    problems: list[Problem] = []
    for place, line in _lines(path, problems):
        found = _question(line)
        if isinstance(found, str):
            problems.append(Problem(place, found, 'a line is {"id": "q1", "text": "why redis?"}'))
        elif found.id in questions:
            problems.append(Problem(place, f"the id {_shown(found.id)} is there twice; the first counts"))
        else:
            questions[found.id] = found
    return Questions(tuple(questions.values()), tuple(problems))


def read_judgements(path: Path, questions: Collection[str]) -> Judgements:
    """Read question, document and gain, tab-separated, with or without a header. Raise SourceError as above.

    A first line without a number is a header, unless it begins with one of the `questions`.
    """
    gains: dict[str, dict[str, float]] = {}
    problems: list[Problem] = []
    for number, (place, line) in enumerate(_lines(path, problems)):
        cells = [cell.strip() for cell in line.split("\t")]
        gain = _gain(cells)
        if gain is None:
            if number or cells[0] in questions or len(cells) < 3:
                message = f"not a question, a document and a gain: {_shown(line)}"
                problems.append(Problem(place, message, "three columns, separated by tabs"))
            continue
        known = gains.setdefault(cells[0], {})
        if known.get(cells[1], gain) != gain:
            problems.append(Problem(place, f"{_shown(cells[1])} is judged twice, differently; the first counts"))
        known.setdefault(cells[1], gain)
    return Judgements(gains, tuple(problems))


def _question(line: str) -> Question | str:
    """Return a question, or what is wrong with its line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return f"not JSON: {_shown(line)}"
    if not isinstance(row, dict):
        return f"not an object: {_shown(line)}"
    name, text = row.get("id"), row.get("text")
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        return f"no id: {_shown(line)}"
    if not isinstance(text, str) or not text.strip():
        return f"no text: {_shown(line)}"
    return Question(str(name).strip(), text)


def _gain(cells: list[str]) -> float | None:
    try:
        question, document, gain = cells[0], cells[1], float(cells[2])
    except (IndexError, ValueError):
        return None
    return gain if question and document and isfinite(gain) else None


def _lines(path: Path, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """Yield the lines that say something, each with its place; what is no UTF-8 is a problem."""
    for number, raw in enumerate(_read(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        place = f"{printable(str(path))}:{number}"
        try:
            line = raw.decode().rstrip("\r")
        except UnicodeDecodeError:
            problems.append(Problem(place, "not valid UTF-8", "convert the file to UTF-8, for example with iconv"))
            continue
        if line.strip():
            yield place, line


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_PACKED) else data
    except (OSError, ValueError, EOFError, zlib.error) as error:
        why = reason(error) if isinstance(error, OSError | ValueError) else str(error)
        raise SourceError(
            f"{printable(str(path))} cannot be read: {why}", hint="name a file of lines, plain or gzip"
        ) from error


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…")
