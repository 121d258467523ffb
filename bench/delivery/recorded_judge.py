"""Labels as a judge: statements get the label that a reader gave them, so that everything after the judgement is measured.

A label file has lines `digest TAB label TAB second reader TAB subject TAB repository`. The digest is the first 16 hex
digits of SHA-256 of channel, a newline, and the text with its white space squeezed. A statement of lorelog may be
shortened or redacted, so it is found by its beginning among the texts of the transcripts: a long one if it is the same.
A label has no wording; where its subject is not one either, the beginning of the statement stands for it.
"""

from __future__ import annotations

import csv
import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.delivery.timeline import Session
from msgspec.structs import replace

from lorelog.services.review.judge import LASTING_LABELS, KnownRule, Verdict, check_verdict
from lorelog.services.review.statements import Statement

_KEY_CHARS = (1_000, 60)
_WORDING_CHARS = 240


def digest_of(channel: str, text: str) -> str:
    """Return the digest under which a statement is labelled."""
    return hashlib.sha256(f"{channel}\n{_squeeze(text)}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class RecordedJudge:
    """Answers from a label file. With `error_share`, that share of the statements gets another label, by chance."""

    labels: dict[str, tuple[str, str]]
    error_share: float = 0.0
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    unknown: int = 0

    @classmethod
    def read(cls, file: Path, error_share: float = 0.0) -> RecordedJudge:
        """Return the judge of a label file."""
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
        return cls({row["digest"]: (row["label"], row["subject"]) for row in rows}, error_share)

    def learn(self, sessions: Sequence[Session]) -> None:
        """Note the digests of what users said in sessions, under the beginnings of the texts."""
        for channel, text in (said for session in sessions for said in session.said):
            for key in _keys(text):
                self.texts.setdefault((channel, key), digest_of(channel, text))

    def judge(self, statements: Sequence[Statement], rules: Sequence[KnownRule] = ()) -> Iterator[dict[str, Verdict]]:
        """Yield the verdicts of all statements that are labelled; the others are called `other`."""
        verdicts = {}
        for number, statement in enumerate(statements, 1):
            found = (self.texts.get((statement.channel, key), "") for key in _keys(statement.text))
            digest = next(filter(None, found), "")
            label, subject = self.labels.get(digest, ("", ""))
            self.unknown += not label
            label, subject = self._disturb(digest, label or "other", subject)
            verdict = Verdict(n=number, label=label, wording=subject, same=_same(subject, rules))  # type: ignore[arg-type]
            checked = check_verdict(verdict, statement, len(rules)) or check_verdict(
                replace(verdict, wording=_squeeze(statement.text)[:_WORDING_CHARS]), statement, len(rules)
            )
            verdicts[statement.id] = checked or Verdict(n=number, label="other")
        yield verdicts

    def _disturb(self, digest: str, label: str, subject: str) -> tuple[str, str]:
        chance = random.Random(digest)
        if not digest or chance.random() >= self.error_share:
            return label, subject
        return ("other", "") if label in LASTING_LABELS else ("rule", subject)


def _same(subject: str, rules: Sequence[KnownRule]) -> tuple[int, ...]:
    return tuple(number for number, rule in enumerate(rules, 1) if subject and rule.text == subject)


def _keys(text: str) -> list[str]:
    """Return the beginnings of a text under which it is found, the longest first. Hosts mark images differently."""
    bare = _squeeze(text.replace("[image]", "").replace(" → ", " -> "))
    return [bare[:length] for length in _KEY_CHARS]


def _squeeze(text: str) -> str:
    return " ".join(text.split())
