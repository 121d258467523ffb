"""Judged sets as they lie on disk: a corpus, questions, and which documents answer which.

A set is a folder with `corpus.jsonl.gz` (`id`, `text`, and perhaps `title`, `group`, `date`, `session`, `role`),
`queries.jsonl.gz` (`id`, `text`, and perhaps `group`, `category`, `abstention`) and `qrels.tsv` (query, document, gain;
with or without a header). Any folder of that shape can be measured, whatever its name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ADVERSARIAL = "5"
"""LoCoMo's category of queries that the conversation does not answer, although a passage looks as if it did."""
UNANSWERABLE = ("abstention", "none", ADVERSARIAL)
"""Categories of queries without an answer, by their first word."""


FAMILIES = {
    "people talking": ("locomo_turn", "locomo_session"),
    "assistant": ("longmemeval_turn",),
    "long assistant": ("beam_100k",),
    "issues": ("issue_to_file", "issue_to_commit", "issue_to_session"),
    "commits": ("commit_to_agent_session", "commit_to_session_2"),
    "other languages": ("cmrc2018_zh", "xquad_zh", "xquad_de", "xquad_more", "jaquad_ja", "piaf_fr"),
    "code": ("cosqa", "memd_codesearchnet"),
    "memd": ("memd_hybrid", "memd_true_semantic"),
    "personal": ("companion_memory", "project_memory", "phone_memory"),
}
"""Sets with the same source or the same kind of questions and texts: what is learned from one must not be measured on another."""


def family_of(name: str) -> str:
    """Return the family of a set; a set that nobody named is one of its own."""
    return next((family for family, names in FAMILIES.items() if name in names), name)


class BadSet(Exception):
    """A set's folder is incomplete."""


@dataclass(frozen=True)
class Text:
    """A document of a corpus."""

    id: str
    text: str
    title: str = ""
    group: str = ""
    date: str = ""
    session: str | None = None
    role: str | None = None

    @property
    def is_turn(self) -> bool:
        """Whether it is a turn of a conversation."""
        return self.session is not None or self.role is not None


@dataclass(frozen=True)
class Question:
    """A query and the group of documents to search."""

    id: str
    text: str
    group: str = ""
    category: str = ""
    has_no_answer: bool = False


@dataclass(frozen=True)
class JudgedSet:
    """A corpus, its queries, and the gains of judged documents by query."""

    name: str
    texts: tuple[Text, ...]
    questions: tuple[Question, ...]
    gains: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def judged(self) -> tuple[Question, ...]:
        """Return the queries that count: those with a relevant document, unless they are meant to have no answer."""
        return tuple(
            question for question in self.questions if not question.has_no_answer and self._is_answered(question)
        )

    @property
    def unanswerable(self) -> tuple[Question, ...]:
        """Return the queries without an answer in the corpus."""
        return tuple(question for question in self.questions if question.has_no_answer)

    def _is_answered(self, question: Question) -> bool:
        return any(gain > 0 for gain in self.gains.get(question.id, {}).values())


def names_in(data: Path) -> list[str]:
    """Return the sets of a data folder, by name."""
    found = sorted(path.parent.name for path in (data / "retrieval").glob("*/corpus.jsonl.gz"))
    if not found:
        raise BadSet(f"{data} holds no retrieval/SET/corpus.jsonl.gz")
    return found


def load(data: Path, name: str) -> JudgedSet:
    """Read one set."""
    folder = data / "retrieval" / name
    texts = tuple(_text(row) for row in _rows(folder / "corpus.jsonl.gz"))
    return JudgedSet(name, texts, load_questions(data, name), _gains(folder / "qrels.tsv"))


def load_questions(data: Path, name: str) -> tuple[Question, ...]:
    """Read only the queries of a set. Two of cmrc2018_zh have no text: a search refuses them, so they are left out."""
    rows = _rows(data / "retrieval" / name / "queries.jsonl.gz")
    return tuple(_question(row) for row in rows if str(row["text"]).strip())


def _text(row: Mapping[str, Any]) -> Text:
    return Text(
        id=str(row["id"]),
        text=str(row.get("text") or ""),
        title=str(row.get("title") or ""),
        group=str(row.get("group") or ""),
        date=str(row.get("date") or ""),
        session=str(row["session"]) if row.get("session") is not None else None,
        role=str(row["role"]) if row.get("role") is not None else None,
    )


def _question(row: Mapping[str, Any]) -> Question:
    category = str(row.get("category") or "")
    return Question(
        id=str(row["id"]),
        text=str(row["text"]),
        group=str(row.get("group") or ""),
        category=category,
        has_no_answer=bool(row.get("abstention")) or category.split(" ", maxsplit=1)[0] in UNANSWERABLE,
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise BadSet(f"{path}:{number}: not JSON: {error}") from error
                if not isinstance(row, dict) or "id" not in row:
                    raise BadSet(f"{path}:{number}: not an object with an id")
                yield row
    except OSError as error:
        raise BadSet(f"{path} cannot be read: {error}") from error


def _gains(path: Path) -> dict[str, dict[str, float]]:
    gains: dict[str, dict[str, float]] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        cells = line.split("\t")
        if not line.strip():
            continue
        try:
            question, document, gain = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError) as error:
            if number == 1:  # a header
                continue
            raise BadSet(f"{path}:{number}: not query, document, gain") from error
        gains.setdefault(question, {})[document] = gain
    return gains
