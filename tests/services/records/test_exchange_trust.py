"""No file and no single key reaches a verification that is not deserved, whatever it brings and in whatever order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.drafts import draft

from lorelog.core.record import Draft, Record, Tier
from lorelog.records.trust import COUNTERSIGNING, tiers
from lorelog.services.records.book import Book
from lorelog.services.records.exchange import Choices, Importer
from lorelog.services.records.exchange_lines import Incoming
from lorelog.services.records.keys import Keyring
from lorelog.services.records.keys_folder import KeyFolder

NAMES = ("mara", "otto", " Mara", "")
ANY = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
IDS = [f"r-{number}" for number in range(6)]


@st.composite
def spoken(draw: st.DrawFn) -> list[Draft]:
    """Records that speak for each other in all ways, forwards and backwards."""
    said = []
    for identity in IDS[: draw(st.integers(2, 6))]:
        kind = draw(st.sampled_from(["decision", "evidence", *sorted(COUNTERSIGNING)]))
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


def take(book: Book, keyring: Keyring, drafts: list[Draft]) -> None:
    """Take drafts in as a file that somebody has sent."""
    Importer(book, keyring, Choices(), lambda some: None).take(
        lambda: (Incoming(place, one) for place, one in enumerate(drafts, 1))
    )


def judged(book: Book, keyring: Keyring) -> list[tuple[Tier, bool]]:
    worth = tiers(book.ledger.read(), keyring.key_of)
    return [(one.tier, one.signed) for one in worth.values()]


@ANY
@given(files=st.lists(spoken(), min_size=1, max_size=3))
def test_files_without_signatures_verify_nothing(files: list[list[Draft]]) -> None:
    """Any files, one after the other: nothing in them is verified, nor is what was written here before."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        keyring = Keyring(folder / "keys")
        book = Book(folder / "tenant", keyring.key_of)
        (own,) = book.append([draft(id="own", agent="greta")])
        for number, file in enumerate(files):
            take(
                book, keyring, [replace(one, id=f"{number}-{one.id}", reply_to=one.reply_to and own.id) for one in file]
            )
            take(book, keyring, file)

        assert all(tier is Tier.CANONICAL for tier, _ in judged(book, keyring))
        book.close()


@ANY
@given(said=spoken(), signed=st.lists(st.booleans(), min_size=6, max_size=6), brought=st.booleans())
def test_one_key_never_makes_a_signed_verification(*, said: list[Draft], signed: list[bool], brought: bool) -> None:
    """Whatever the holder of one key writes, signs and sends, under whatever names: no verification is a signed one."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        KeyFolder(folder / "keys").create("mara")
        keyring, signer = Keyring(folder / "keys"), Keyring(folder / "keys", "mara")
        book = Book(folder / "tenant", keyring.key_of)
        drafts = []
        for one, signs in zip(said, signed, strict=False):
            sealed = signer.sign(replace(one, agent="mara"))
            # Its own name as it is, and every other name with the signature that it made for its own.
            drafts.append(replace(one, signature=sealed.signature) if signs else one)
            if signs and one.agent.strip().lower() == "mara":
                drafts[-1] = signer.sign(one)
        if brought:
            take(book, keyring, drafts)
        else:
            book.append(drafts)

        assert not [one for one in judged(book, keyring) if one == (Tier.VERIFIED, True)]
        book.close()


def test_two_keys_do(tmp_path: Path) -> None:
    """What the others never reach can be reached: two holders of known keys, sent in one file."""
    for name in ("mara", "otto"):
        KeyFolder(tmp_path / "keys").create(name)
    keyring = Keyring(tmp_path / "keys")
    book = Book(tmp_path / "tenant", keyring.key_of)
    claim = Keyring(tmp_path / "keys", "mara").sign(draft(agent="mara"))
    check = draft("verification", agent="otto", reply_to=claim.id, supports_claim=True)
    take(book, keyring, [claim, Keyring(tmp_path / "keys", "otto").sign(check)])

    written: list[Record] = list(book.ledger.read())
    assert [one.origin for one in written] == ["agent", "agent"]
    assert judged(book, keyring) == [(Tier.CANONICAL, True), (Tier.VERIFIED, True)]
