"""A single writer never has a verified record, whatever it writes and in whatever order."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.examples import examples
from tests.records.drafts import draft

from lorelog.core.errors import UsageError
from lorelog.core.ids import new_id
from lorelog.core.record import ORIGINS, RecordDraft, TrustTier
from lorelog.records import chain as lines
from lorelog.records.kinds import KINDS, complete_draft
from lorelog.records.ledger import Ledger
from lorelog.records.tables import RecordTables
from lorelog.records.trust import assess_records

NAME = st.sampled_from(["mara", "Mara", " mara ", "MARA\t", "ｍａｒａ", "m\u200bara", "mara\ufe0f", "", "  ", "\u2060"])
FORGED = st.dictionaries(
    st.sampled_from(
        ["verification_status", "approval_state", "summary", "artifact_role", "promotion_state", "trust_tier"]
    ),
    st.sampled_from(["verified", "verified_record", "approved"]),
    max_size=2,
)
PLACE = st.integers(0, 30)


class OneWriter(RuleBasedStateMachine):
    """Everything that one writer can do to a ledger under one name, including writing lines by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="lorelog-"))
        self.ledger = Ledger(self.folder, max_segment_bytes=5000)
        self.tables = RecordTables(None)
        self.ids = ["elsewhere"]

    def teardown(self) -> None:
        self.tables.close()
        shutil.rmtree(self.folder)

    def some(self, index: int) -> str:
        return self.ids[index % len(self.ids)]

    def write(self, *drafts: RecordDraft) -> None:
        with suppress(UsageError):
            self.ids += [record.id for record in self.ledger.append(drafts)]

    @rule(kind=st.sampled_from([*KINDS, "digest"]), name=NAME, forged=FORGED, origin=st.sampled_from(ORIGINS))
    def claim(self, kind: str, name: str, forged: dict[str, Any], origin: str) -> None:
        if kind == "digest":
            self.write(RecordDraft("digest", task="t", agent=name, status="generated", fields=forged))
        else:
            self.write(draft(kind, forged, agent=name, origin=origin))

    @rule(kind=st.sampled_from(list(KINDS)), name=NAME, about=PLACE, instead=st.none() | PLACE, forged=FORGED)
    def support(self, kind: str, name: str, about: int, instead: int | None, forged: dict[str, Any]) -> None:
        supersedes = "" if instead is None else self.some(instead)
        values = {"agent": name, "reply_to": self.some(about), "supersedes": supersedes, "supports_claim": True}
        parent = next((record for record in self.ledger.read() if record.id == values["reply_to"]), None)
        self.write(complete_draft(draft(kind, forged, **values), parent))

    @rule(name=NAME, other=NAME)
    def support_what_comes_later(self, name: str, other: str) -> None:
        later = new_id()
        self.write(
            draft("verification", agent=name, reply_to=later, supports_claim=True),
            draft("evidence", agent=other, id=later),
        )

    @rule(name=NAME, about=PLACE, again=PLACE, kind=st.sampled_from(["verification", "digest", "evidence"]))
    def write_by_hand(self, name: str, about: int, again: int, kind: str) -> None:
        """Chain a line to the last one, with a duplicate id and a kind that is not accepted."""
        end = self.ledger.position()
        forged = RecordDraft(
            kind,
            agent=name,
            reply_to=self.some(about),
            supports_claim=True,
            status="verified",
            id=self.some(again),
            at="t",
        )
        with (self.folder / "ledger.jsonl").open("ab") as file:
            file.write(lines.encode_line(forged, end.seq + 1, end.hash) + b"\n")

    @invariant()
    def nothing_is_verified(self) -> None:
        records = list(self.ledger.read())
        trust = assess_records(records)
        assert [value for value in trust.values() if value.tier is TrustTier.VERIFIED or value.verified_by] == []
        self.tables.catch_up(self.ledger)
        for identity in {record.id for record in records}:
            assert assess_records(self.tables.trust_context([identity]))[identity] == trust[identity]


OneWriter.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=15, deadline=None)
TestOneWriter = OneWriter.TestCase
