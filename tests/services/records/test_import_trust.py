"""No file and no single key can produce an undeserved verification."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.examples import examples
from tests.records.drafts import draft

from lorelog.core.record import RecordDraft, TrustTier
from lorelog.records.trust import COUNTERSIGNING_KINDS, assess_records
from lorelog.services.records.exports import ImportItem
from lorelog.services.records.keyring import Keyring
from lorelog.services.records.record_importer import ImportOptions, RecordImporter
from lorelog.services.records.store import RecordStore

NAMES = ("mara", "otto", " Mara", "")
ANY = settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
IDS = [f"r-{number}" for number in range(6)]


@st.composite
def spoken(draw: st.DrawFn) -> list[RecordDraft]:
    """Records that support each other in all ways, forwards and backwards."""
    said = []
    for identity in IDS[: draw(st.integers(2, 6))]:
        kind = draw(st.sampled_from(["decision", "evidence", *sorted(COUNTERSIGNING_KINDS)]))
        said.append(
            draft(
                kind,
                id=identity,
                at="2026-03-05T14:30:00.000Z",
                agent=draw(st.sampled_from(NAMES)),
                reply_to=draw(st.sampled_from(["", *IDS])),
                supersedes="",
                supports_claim=draw(st.sampled_from([True, True, None, False])),
                origin=draw(st.sampled_from(["user", "agent", "tool", "import"])),
            )
        )
    return said


def take(book: RecordStore, keyring: Keyring, drafts: list[RecordDraft]) -> None:
    """Import drafts as a file from someone else."""
    RecordImporter(book, keyring, ImportOptions(), lambda some: None).run(
        lambda: (ImportItem(place=place, draft=item) for place, item in enumerate(drafts, 1))
    )


def judged(book: RecordStore, keyring: Keyring) -> list[tuple[TrustTier, bool]]:
    worth = assess_records(book.ledger.read(), keyring.signing_key)
    return [(value.tier, value.signed) for value in worth.values()]


@pytest.mark.slow
@ANY
@given(files=st.lists(spoken(), min_size=1, max_size=3))
def test_files_without_signatures_verify_nothing(files: list[list[RecordDraft]]) -> None:
    """Any sequence of imported files verifies nothing, neither in the files nor here."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        keyring = Keyring(folder / "keys")
        book = RecordStore(folder / "data" / "t", keyring.signing_key)
        (own,) = book.append([draft(id="own", agent="greta")])
        for number, file in enumerate(files):
            take(
                book,
                keyring,
                [replace(item, id=f"{number}-{item.id}", reply_to=item.reply_to and own.id) for item in file],
            )
            take(book, keyring, file)

        assert all(tier is TrustTier.CANONICAL for tier, _ in judged(book, keyring))
        book.close()


@pytest.mark.slow
@ANY
@given(said=spoken(), signed=st.lists(st.booleans(), min_size=6, max_size=6), brought=st.booleans())
def test_one_key_never_makes_a_signed_verification(
    *, said: list[RecordDraft], signed: list[bool], brought: bool
) -> None:
    """A single key cannot produce a signed verification, whatever names it uses."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        Keyring(folder / "keys").create("mara")
        keyring, signer = Keyring(folder / "keys"), Keyring(folder / "keys", "mara")
        book = RecordStore(folder / "data" / "t", keyring.signing_key)
        drafts = []
        for item, signs in zip(said, signed, strict=False):
            sealed = signer.sign(replace(item, agent="mara"))
            # Its own name as it is, and every other name with the signature that it made for its own.
            drafts.append(replace(item, signature=sealed.signature) if signs else item)
            if signs and item.agent.strip().lower() == "mara":
                drafts[-1] = signer.sign(item)
        if brought:
            take(book, keyring, drafts)
        else:
            book.append(drafts)

        assert not [item for item in judged(book, keyring) if item == (TrustTier.VERIFIED, True)]
        book.close()
