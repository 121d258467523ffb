"""A signature proves a writer only if it is valid and its key is trusted under the writer's name."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.examples import examples
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.errors import ConfigError, LorelogError, NotFound, UsageError
from lorelog.core.record import SIGNED_FIELDS, Promotion, Record, RecordDraft, TrustTier
from lorelog.records.ledger import Ledger
from lorelog.records.trust import assess_records
from lorelog.services.records.keyring import (
    Keyring,
    SignatureState,
    encode_base64url,
    parse_public_key,
    sign_bytes,
    verify_bytes,
)
from lorelog.services.records.store import RecordStore

SOURCE = Path(__file__).resolve().parents[4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The key folder of a home, with keys of mara and otto."""
    files = Keyring(tmp_path / "identities")
    files.create("mara")
    files.create("otto")
    return files.folder


def written(tmp_path: Path, *some: RecordDraft) -> list[Record]:
    """Append drafts to a ledger and read them back."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.append(some)
    return list(ledger.read())


def signed_by(folder: Path, name: str, one: RecordDraft | None = None, **said: Any) -> RecordDraft:
    return Keyring(folder, name).sign(replace(one or draft(), agent=name, **said))


def test_what_was_signed_is_proven_after_it_was_written(folder: Path, tmp_path: Path) -> None:
    """A record from the ledger has the fingerprint of its signing key, different for each writer."""
    mara, otto = written(tmp_path, signed_by(folder, "mara"), signed_by(folder, "otto"))
    known = Keyring(folder)

    assert known.signature_status(mara)[0] is SignatureState.VALID
    assert known.signing_key(mara)
    assert known.signing_key(mara) != known.signing_key(otto)
    assert known.signing_key(mara) == Keyring(folder).get("mara").keys[0].fingerprint


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(one=drafts())
def test_anything_that_can_be_written_can_be_signed(tmp_path_factory: pytest.TempPathFactory, one: RecordDraft) -> None:
    """A signature is valid after reading the ledger and the tables, whatever the record contains."""
    place = tmp_path_factory.mktemp("any")
    Keyring(place / "k").create("mara")
    book = RecordStore(place / "data" / "t")
    (record,) = book.append([signed_by(place / "k", "mara", one)])

    assert Keyring(place / "k").signing_key(record)
    assert Keyring(place / "k").signing_key(next(iter(book.ledger.read())))
    book.close()


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=200), bit=st.integers(0, 511))
def test_signatures_without_the_extra_are_those_of_ed25519(seed: bytes, message: bytes, bit: int) -> None:
    """The signature in plain Python is that of the library, byte for byte, and any changed bit of it or of the text is refused."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, signature = sign_bytes(seed, message)
    library = Ed25519PrivateKey.from_private_bytes(seed)
    raw = library.sign(message)
    assert (key, signature) == tuple(map(encode_base64url, (library.public_key().public_bytes_raw(), raw)))
    assert verify_bytes(key, message, signature)
    changed = encode_base64url((int.from_bytes(raw, "little") ^ 1 << bit).to_bytes(64, "little"))
    assert not any((verify_bytes(key, message, changed), verify_bytes(key, message + b"x", signature)))


def test_a_record_under_another_name_is_not_signed(folder: Path) -> None:
    """A record under another name is not signed, however similar; case and padding do not matter."""
    for other in ("otto", "", "mara2", "m\u0430ra"):
        with pytest.raises(UsageError, match="cannot sign"):
            Keyring(folder, "mara").sign(draft(agent=other))

    assert Keyring(folder).signing_key(Keyring(folder, "mara").sign(draft(agent=" MARA ")))


CHANGED: dict[str, Any] = {
    "agent": "otto",
    "at": "2020-01-01T00:00:00.000Z",
    "fields": {"summary": "another"},
    "id": "another",
    "kind": "review",
    "origin": "user",
    "project": "/elsewhere",
    "relation": "verifies",
    "reply_to": "r-9",
    "session": "s-9",
    "status": "final",
    "supersedes": "r-8",
    "supports_claim": True,
    "task": "task-9",
    "thread": "thread-9",
}


@pytest.mark.parametrize("field", SIGNED_FIELDS)
def test_a_changed_field_breaks_a_signature(folder: Path, field: str) -> None:
    """Changing anything the writer stated breaks the signature."""
    one = signed_by(folder, "mara")
    changed = replace(one, **{field: CHANGED[field]})

    assert getattr(one, field) != CHANGED[field]
    assert Keyring(folder).signature_status(changed)[0] is SignatureState.BROKEN
    assert Keyring(folder).signing_key(changed) == ""


def test_a_key_counts_under_its_own_name_only(folder: Path, tmp_path: Path) -> None:
    """An unknown key under a known name proves nothing, nor does a known key under another name."""
    Keyring(tmp_path / "eve").create("mara")
    forged = signed_by(tmp_path / "eve", "mara")
    assert Keyring(folder).signature_status(forged)[0] is SignatureState.UNKNOWN_KEY
    assert Keyring(folder).signing_key(forged) == ""

    stolen = tmp_path / "stolen"
    Keyring(stolen).create("otto")
    for suffix in (".key", ".pub"):
        (stolen / f"otto{suffix}").write_bytes((folder / f"mara{suffix}").read_bytes())
    Keyring(stolen).forget("otto")
    Keyring(stolen).trust("otto", (stolen / "otto.pub").read_text())
    as_otto = signed_by(stolen, "otto")
    assert Keyring(folder).signature_status(as_otto)[0] is SignatureState.WRONG_NAME
    assert Keyring(folder).signing_key(as_otto) == ""


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(max_size=200) | st.text("abcdef0123456789:-_=", max_size=200).map("ed25519:{}".format))
def test_garbage_is_not_a_signature(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Any text in place of a signature proves nothing and raises nothing."""
    folder = tmp_path_factory.getbasetemp() / "garbage"
    if not folder.exists():
        Keyring(folder).create("mara")
    one = draft(agent="mara", id="r", at="2026-01-01T00:00:00.000Z", signature=text)

    assert Keyring(folder).signing_key(one) == ""


def test_one_spelling_of_a_signature_holds(folder: Path) -> None:
    """Only the canonical encoding of a signature is valid, and only with its own key."""
    one = signed_by(folder, "mara")
    scheme, key, proof = one.signature.split(":")
    others = [
        f"{scheme}:{signed_by(folder, 'otto').signature.split(':')[1]}:{proof}",
        f"{scheme}:{key}=:{proof}",
        f"{scheme}:{key}:{proof}==",
        f"{scheme.upper()}:{key}:{proof}",
        f"{scheme}:{key}:{proof}:",
        f" {one.signature}",
        f"{scheme}:{key}:{proof[:-1]}{chr(ord(proof[-1]) + 1)}",
    ]

    assert [Keyring(folder).signing_key(replace(one, signature=other)) for other in others] == [""] * len(others)


def test_two_names_for_one_key_are_one_writer(folder: Path, tmp_path: Path) -> None:
    """A key cannot be trusted under two names; if the file says so anyway, it verifies nothing of its own."""
    line = (folder / "mara.pub").read_text()
    with pytest.raises(UsageError, match="the key of 'mara'"):
        Keyring(folder).trust("otto", line, also=True)
    with pytest.raises(UsageError, match="the key of 'mara'"):
        Keyring(folder).trust("greta", line)

    known = folder / "known.json"
    otto = Keyring(folder).get("otto").keys[0].key
    known.write_text(known.read_text().replace(otto, parse_public_key(line)))
    (folder / "otto.key").write_bytes((folder / "mara.key").read_bytes())
    (claim,) = written(tmp_path, signed_by(folder, "mara"))
    _, check = written(
        tmp_path, signed_by(folder, "otto", draft("verification"), reply_to=claim.id, supports_claim=True)
    )[:2]
    keyring = Keyring(folder)
    judged = assess_records([claim, check], keyring.signing_key)

    assert keyring.signing_key(claim) == keyring.signing_key(check) != ""
    assert judged[check.id].tier is TrustTier.CANONICAL
    assert judged[check.id].promotion is Promotion.REFUSED
    assert "same key" in judged[check.id].promotion_reason


def test_signed_and_declared_verification_are_told_apart(folder: Path, tmp_path: Path) -> None:
    """Two writers with keys make a signed verification; with one unsigned, it is verified but not signed."""
    claim = signed_by(folder, "mara", id="claim")
    check = draft("verification", agent="otto", reply_to="claim", supports_claim=True)
    records = written(tmp_path, claim, signed_by(folder, "otto", check), check)
    judged = assess_records(records, Keyring(folder).signing_key)

    assert [(judged[record.id].tier, judged[record.id].signed) for record in records] == [
        (TrustTier.CANONICAL, True),
        (TrustTier.VERIFIED, True),
        (TrustTier.VERIFIED, False),
    ]


def test_a_forgotten_name_proves_nothing_any_more(folder: Path, tmp_path: Path) -> None:
    """Forgetting a key invalidates its signatures at once, keeps the records, and can be undone."""
    (record,) = written(tmp_path, signed_by(folder, "mara"))
    keyring = Keyring(folder)
    line = (folder / "mara.pub").read_text()
    assert keyring.signing_key(record)

    (gone,) = Keyring(folder).forget("mara")
    assert keyring.signing_key(record) == ""
    assert keyring.signature_status(record) == (SignatureState.UNKNOWN_KEY, gone.fingerprint)
    with pytest.raises(ConfigError, match="not trusted"):
        signed_by(folder, "mara")

    Keyring(folder).trust("mara", line)
    assert keyring.signing_key(record) == gone.fingerprint
    assert signed_by(folder, "mara").signature


def test_another_key_for_a_known_name_is_questioned(folder: Path, tmp_path: Path) -> None:
    """A second key of a name must be requested; then both count."""
    other = Keyring(tmp_path / "other").create("mara")
    with pytest.raises(UsageError, match="another key"):
        Keyring(folder).trust("Mara", f"ed25519:{other.public}")

    Keyring(folder).trust("Mara", f"ed25519:{other.public}", also=True)
    assert Keyring(folder).signing_key(signed_by(tmp_path / "other", "mara"))
    assert Keyring(folder).signing_key(signed_by(folder, "mara"))
    assert [identity.name for identity in Keyring(folder).identities()] == ["mara", "otto"]
    with pytest.raises(UsageError, match="already"):
        Keyring(folder).create("MARA ".strip())


WEAK = [
    bytes(32),
    b"\x01" + bytes(31),
    b"\xec" + b"\xff" * 30 + b"\x7f",
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    b"\xed" + b"\xff" * 30 + b"\x7f",
    b"\xff" * 32,
]


NO_KEYS = ["", "ed25519:", "rsa:" + "A" * 43, "A" * 42, "A" * 44, "é" * 43, "ed25519:" + "*" * 43]


@pytest.mark.parametrize(
    ("text", "reason"),
    [*((encode_base64url(raw), "is weak") for raw in WEAK), *((text, "not a public key") for text in NO_KEYS)],
)
def test_only_strong_public_keys_are_trusted(folder: Path, text: str, reason: str) -> None:
    """Anything but a public key is refused, and so are low-order points and non-canonical encodings of one."""
    with pytest.raises(UsageError, match=reason):
        Keyring(folder).trust("eve", text)


@pytest.mark.parametrize("name", ["", "  ", "\u200b", "a\nb", " padded", "x" * 101])
def test_names_are_those_of_agents(folder: Path, name: str) -> None:
    """An invisible or ambiguous name is refused."""
    with pytest.raises(UsageError, match="not a valid name"):
        Keyring(folder).create(name)


@pytest.mark.parametrize("name", ["claude/reviewer", "../../etc", "Ärmel zwei", ".", "a%2Fb"])
def test_any_name_stays_in_the_folder(folder: Path, name: str) -> None:
    """Any agent name gets its own key file inside the folder."""
    made = Keyring(folder).create(name)

    assert Path(made.path).parent == folder
    assert Path(made.path).is_file()
    assert Keyring(folder).get(name).name == name
    assert Keyring(folder).signing_key(signed_by(folder, name))


def test_keys_are_for_their_owner_alone(folder: Path) -> None:
    """Folder and files are private, and a key readable by others is not used."""
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}

    (folder / "mara.key").chmod(0o640)
    with pytest.raises(ConfigError, match="readable by others"):
        signed_by(folder, "mara")


def test_a_key_behind_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    """Symbolic links are not followed for keys and the list of trusted keys."""
    elsewhere = tmp_path / "elsewhere"
    for name in ("mara.key", "known.json"):
        elsewhere.write_bytes((folder / name).read_bytes())
        elsewhere.chmod(0o600)
        (folder / name).unlink()
        (folder / name).symlink_to(elsewhere)
        with pytest.raises(ConfigError, match="cannot be read"):
            signed_by(folder, "mara")
        (folder / name).unlink()
        (folder / name).write_bytes(elsewhere.read_bytes())
        (folder / name).chmod(0o600)


def test_a_passphrase_locks_a_key(tmp_path: Path) -> None:
    """Without the right passphrase nothing is signed, messages contain no secret, and signatures are still checked."""
    folder = tmp_path / "identities"
    Keyring(folder).create("mara", "open sesame")
    text = (folder / "mara.key").read_text()
    assert "ENCRYPTED" in text

    for wrong in ("", "closed sesame"):
        with pytest.raises(ConfigError) as caught:
            Keyring(folder, "mara", wrong).sign(draft())
        said = f"{caught.value.message} {caught.value.hint}"
        assert "sesame" not in said
        assert not any(line in said for line in text.splitlines()[1:-1])
        assert caught.value.__cause__ is None
    assert Keyring(folder).signing_key(Keyring(folder, "mara", "open sesame").sign(draft()))


def test_an_identity_that_is_not_there_is_named(folder: Path) -> None:
    """Signing as an unknown identity is an error with a hint."""
    with pytest.raises(ConfigError, match="'eve'"):
        signed_by(folder, "eve")
    with pytest.raises(NotFound):
        Keyring(folder).get("eve")
    with pytest.raises(NotFound):
        Keyring(folder).forget("eve")


def test_a_damaged_list_of_keys_proves_nothing_and_stops_no_search(folder: Path) -> None:
    """With a damaged key list records count as unsigned, and commands about keys report it."""
    one = signed_by(folder, "mara")
    (folder / "known.json").write_text('{"version": 1, "keys": [{"name": "mara"}]}')

    assert Keyring(folder).signing_key(one) == ""
    with pytest.raises(ConfigError, match="damaged"):
        Keyring(folder).trusted_keys()


def test_nothing_is_loaded_for_records_without_a_signature(tmp_path: Path) -> None:
    """Rating unsigned records imports no cryptography."""
    folder = tmp_path / "data" / "t"
    Ledger(folder).append([draft(), draft()])
    script = (
        "import sys; from pathlib import Path\n"
        "from lorelog.services.records.store import RecordStore; from lorelog.services.records.keyring import Keyring\n"
        f"store = RecordStore(Path({str(folder)!r}), Keyring(Path({str(tmp_path)!r})).signing_key)\n"
        "ids = [record.id for record in store.ledger.read()]; assert len(store.trust(ids)) == 2\n"
        "assert not [name for name in sys.modules if name.startswith('cryptography')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": str(SOURCE / "src")})


def test_a_damaged_key_file_is_reported_without_its_content(folder: Path) -> None:
    """The content of a damaged key file is not repeated in messages."""
    (folder / "mara.key").write_text("hunter2")
    with pytest.raises(LorelogError) as caught:
        signed_by(folder, "mara")
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
