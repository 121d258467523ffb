"""Labels as a judge: statements get the label that a reader gave them, so that everything after the judgement is measured.

A label file has lines `digest TAB label TAB second reader TAB subject TAB repository`. The digest is the first 16 hex
digits of SHA-256 of channel, a newline, and the text with its white space squeezed. A statement of lorelog may be
shortened or redacted, so it is found by its beginning among the texts of the transcripts: a long one if it is the same.

`verdicts.tsv` has what a language model answered besides the label when it read the guide, the statement and what stood
before it: cues, a wording (the label's subject if it has none, else the statement's beginning), whether it forbids, and
the digests of those it replaces. What was said again has one subject in `repeated.tsv` (team, subject, digest, time, cues).
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

from lorelog.services.review.filing import BATCH
from lorelog.services.review.judge import LASTING_LABELS, Verdict, check_verdict
from lorelog.services.review.statements import Statement
from lorelog.services.standing.rules import StandingRule

_KEY_CHARS = (800, 60)
_WORDING_CHARS = 240
_VERDICTS, _REPEATED = (Path(__file__).with_name(name) for name in ("verdicts.tsv", "repeated.tsv"))


def digest_of(channel: str, text: str) -> str:
    """Return the digest under which a statement is labelled."""
    return hashlib.sha256(f"{channel}\n{_squeeze(text)}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class RecordedJudge:
    """Answers from a label file. With `error_share`, that share of the statements gets another label, by chance."""

    labels: dict[str, tuple[str, str]]
    answers: dict[str, dict[str, str]]
    error_share: float = 0.0
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    unknown: int = 0
    filed: dict[str, str] = field(default_factory=dict)
    """Digests of the rules that were filed, by wording."""
    repeated: dict[str, tuple[set[str], str]] = field(default_factory=dict)
    """Digests of what was said again, and its cues, by subject."""

    @classmethod
    def read(cls, file: Path, error_share: float = 0.0) -> RecordedJudge:
        """Return the judge of a label file."""
        labels = {row["digest"]: (row["label"], row["subject"]) for row in _read_rows(file)}
        judge = cls(labels, {row["digest"]: row for row in _read_rows(_VERDICTS)}, error_share)
        for row in _read_rows(_REPEATED):
            judge.repeated.setdefault(row["subject"], (set(), row["cues"]))[0].add(row["digest"])
        return judge

    def learn(self, sessions: Sequence[Session]) -> None:
        """Note the digests of what users said in sessions, under the beginnings of the texts."""
        for channel, text in (said for session in sessions for said in session.said):
            for key in _keys(text):
                self.texts.setdefault((channel, key), digest_of(channel, text))

    def take(self, statements: Sequence[Statement], rules: Sequence[StandingRule]) -> Sequence[Statement]:
        """Return the first statements, as many as a model is asked about at once."""
        return statements[:BATCH]

    def judge(self, statements: Sequence[Statement], rules: Sequence[StandingRule] = ()) -> dict[str, Verdict]:
        """Return the verdicts of all statements that are labelled; the others are called `other`."""
        verdicts = {}
        for number, statement in enumerate(statements, 1):
            digest = self._digest(statement)
            label, subject = self.labels.get(digest, ("", ""))
            self.unknown += not label
            label, subject = self._disturb(digest, label or "other", subject)
            verdict = self._answer(number, digest, label, subject, rules)
            checked = check_verdict(verdict, statement, len(rules)) or check_verdict(
                replace(verdict, wording=_squeeze(statement.text)[:_WORDING_CHARS]), statement, len(rules)
            )
            verdicts[statement.id] = checked or Verdict(n=number, label="other")
            if checked is not None and checked.wording:
                self.filed[checked.wording] = digest
        return verdicts

    def compare(
        self, new: Sequence[Statement], earlier: Sequence[Statement], rules: Sequence[StandingRule] = ()
    ) -> Iterator[tuple[Verdict, list[Statement]]]:
        """Yield what was said again under one subject of `repeated.tsv`, as a judge would."""
        digests = {said.id: self._digest(said) for said in (*new, *earlier)}
        for subject, (known, cues) in self.repeated.items():
            members = [said for said in (*new, *earlier) if digests[said.id] in known]
            is_new = any(said.id in {member.id for member in members} for said in new)
            same = [n for n, rule in enumerate(rules, 1) if rule.text == subject or self.filed.get(rule.text) in known]
            is_again = same or len({said.session for said in members}) > 1
            if not is_new or not is_again or _by_chance(subject, self.error_share):
                continue
            members.sort(key=lambda said: said.date)
            verdict = Verdict(
                n=1, label="rule", wording=subject, cues=tuple(cues.split(";")), sure=True, same=tuple(same)
            )
            checked = check_verdict(verdict, members[-1], len(rules), members)
            if checked is not None:
                self.filed.setdefault(checked.wording, digests[members[-1].id])
                yield checked, members

    def _digest(self, statement: Statement) -> str:
        found = (self.texts.get((statement.channel, key), "") for key in _keys(statement.text))
        return next(filter(None, found), "")

    def _answer(self, number: int, digest: str, label: str, subject: str, rules: Sequence[StandingRule]) -> Verdict:
        answer = self.answers.get(digest, {})
        wording = answer.get("wording") or subject
        replaced = [part for part in answer.get("replaces", "").split(";") if part]
        again = {member for members, _ in self.repeated.values() if digest in members for member in members}
        return Verdict(
            n=number,
            label=label,  # type: ignore[arg-type]
            wording=wording,
            cues=tuple(answer.get("cues", "").split(";")),
            forbids=bool(answer.get("forbids")),
            same=tuple(
                place
                for place, rule in enumerate(rules, 1)
                if wording and (rule.text == wording or self.filed.get(rule.text) in again)
            ),
            replaces=tuple(place for place, rule in enumerate(rules, 1) if self.filed.get(rule.text) in replaced),
        )

    def _disturb(self, digest: str, label: str, subject: str) -> tuple[str, str]:
        if not digest or not _by_chance(digest, self.error_share):
            return label, subject
        return ("other", "") if label in LASTING_LABELS else ("rule", subject)


def _by_chance(seed: str, share: float) -> bool:
    return random.Random(seed).random() < share


def _read_rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


def _keys(text: str) -> list[str]:
    """Return the beginnings of a text under which it is found, the longest first. Hosts mark images differently."""
    bare = _squeeze(text.replace("[image]", "").replace(" → ", " -> "))
    return [bare[:length] for length in _KEY_CHARS]


def _squeeze(text: str) -> str:
    return " ".join(text.split())
