"""The search for forgotten text: every form and every kind of file, and nothing where nothing is."""

from __future__ import annotations

import bz2
import gzip
import html
import io
import json
import lzma
import os
import sqlite3
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.language.analyser import WordAnalyser
from lorelog.services.forget.residues import Canaries, ResidueReport, find_repetitions, find_residues, make_canaries

TEXT = (
    'The Walrus «sleeps» under the harbour bridge at Łódź, and\n  nobody\'s "alarm" <wakes> it before noon.\n'
    "Its keeper, Zoë Ångström, feeds it 14 herrings per day & writes it down."
)
OTHER = "A heron stands in the canal near the old mill. " * 200


def forms(report: ResidueReport) -> set[str]:
    return {residue.form for residue in report.residues}


def search(place: Path, canaries: Canaries | None = None) -> ResidueReport:
    return find_residues(canaries or make_canaries([TEXT]), [place])


def read_back(canaries: Canaries, key: str = "") -> Canaries:
    """Return the canaries as a receipt has them, with their key or another one."""
    read = msgspec.json.decode(msgspec.json.encode(canaries.without_text(with_key=False)), type=Canaries)
    return msgspec.structs.replace(read, key=key or canaries.key)


def _sqlite(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement, values in statements:
            db.execute(statement, values)


def freed_page(path: Path) -> None:
    """Write the text into a database and delete it, without erasing it."""
    _sqlite(
        path,
        ("PRAGMA secure_delete = OFF", ()),
        ("CREATE TABLE t (x TEXT)", ()),
        ("INSERT INTO t VALUES (?)", (TEXT,)),
        ("DELETE FROM t", ()),
    )


def tar_gz(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("notes.md")
        info.size = len(TEXT.encode())
        archive.addfile(info, io.BytesIO(TEXT.encode()))


def zip_of_gzip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.gz", gzip.compress(TEXT.encode()))


PLANTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "bytes": (lambda path: path.write_text(OTHER + TEXT + OTHER), "bytes"),
    "utf-16": (lambda path: path.write_text(TEXT, "utf-16"), "utf-16"),
    "json": (lambda path: path.write_text(json.dumps({"text": TEXT})), "json-escaped"),
    "json in json": (lambda path: path.write_text(json.dumps(json.dumps([TEXT]))), "json-escaped"),
    "html": (lambda path: path.write_text(html.escape(TEXT)), "html-escaped"),
    "lower": (lambda path: path.write_text(TEXT.lower()), "lower-case"),
    "joined": (lambda path: path.write_text(" ".join(TEXT.split())), "bytes"),
    "nfd": (lambda path: path.write_text(unicodedata.normalize("NFD", TEXT)), "bytes"),
    "sqlite row": (
        lambda path: _sqlite(path, ("CREATE TABLE t (x TEXT)", ()), ("INSERT INTO t VALUES (?)", (OTHER + TEXT,))),
        "sqlite row",
    ),
    "freed page": (freed_page, "sqlite page"),
    "gzip": (lambda path: path.write_bytes(gzip.compress(TEXT.encode())), "gzip"),
    "bzip2": (lambda path: path.write_bytes(bz2.compress(TEXT.encode())), "bzip2"),
    "xz": (lambda path: path.write_bytes(lzma.compress(TEXT.encode())), "xz"),
    "zlib": (lambda path: path.write_bytes(zlib.compress(TEXT.encode())), "zlib"),
    "tar.gz": (tar_gz, "tar"),
    "zip": (zip_of_gzip, "gzip"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_the_text_is_found_in_every_form(tmp_path: Path, name: str) -> None:
    """Text in any form and kind of file is found, by the fresh canaries and by those read back from JSON."""
    plant, form = PLANTS[name]
    plant(tmp_path / "file.bin")
    canaries = make_canaries([TEXT], kept=[OTHER])
    again = read_back(canaries)
    for each in (canaries, again):
        report = search(tmp_path, each)
        assert form in forms(report), report
        assert not report.unreadable
    assert not search(tmp_path, make_canaries(["an unrelated sentence about a lighthouse on an island"])).residues


def test_a_value_across_pages_is_found_in_its_row(tmp_path: Path) -> None:
    """A short text that lies on the border of two overflow pages is found although no page holds all of it."""
    short = "walrus-under-the-bridge-4711"
    found = []
    for shift in range(4060, 4100):
        path = tmp_path / f"{shift}.db"
        _sqlite(path, ("CREATE TABLE t (x TEXT)", ()), ("INSERT INTO t VALUES (?)", ("x " * (shift * 2) + short,)))
        found.append(search(path, make_canaries([short])))
    assert all("sqlite row" in forms(report) for report in found)


@pytest.mark.parametrize("shift", [-40, -12, -1, 0, 1])
def test_text_across_two_blocks_is_found(tmp_path: Path, shift: int) -> None:
    """A text that begins in one block of a file and ends in the next is found, in the file and in its unpacked form."""
    data = b"x" * ((1 << 20) + shift) + TEXT.encode() + b"y" * 100
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data))

    report = search(tmp_path)

    assert {(Path(residue.path).name, residue.form) for residue in report.residues} >= {
        ("plain", "bytes"),
        ("packed.gz", "gzip"),
    }


def test_a_name_and_a_deep_archive_count(tmp_path: Path) -> None:
    """A file name that quotes the text is a residue; archives nested too deep are named as not searched."""
    (tmp_path / "walrus-under-the-bridge-4711.txt").write_text("empty")
    nested = TEXT.encode()
    for _ in range(5):
        nested = gzip.compress(nested)
    (tmp_path / "deep.gz").write_bytes(nested)

    report = search(tmp_path, make_canaries(["walrus-under-the-bridge-4711", TEXT]))

    assert forms(report) == {"file name"}
    assert ["archives in archives" in line for line in report.unreadable] == [True]


def test_each_file_is_searched_once(tmp_path: Path) -> None:
    """A file with two names, or below two of the places, is read and counted once; one that is left out is not read."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text(TEXT)
    os.link(tmp_path / "a" / "one", tmp_path / "two")
    (tmp_path / "model.bin").write_text(TEXT)

    canaries = make_canaries([TEXT])
    report = find_residues(canaries, [tmp_path, tmp_path / "a"], keep=lambda path: path.suffix != ".bin")

    assert report.files == 1
    assert len({residue.path for residue in report.residues}) == 1


@pytest.mark.parametrize(
    ("text", "other", "repeats"),
    [
        ("Launch the red balloon at dawn with care", "they Launch the RED balloon, at noon", True),
        ("Launch the red balloon at dawn with care", "the red balloon at noon", False),
        ("token sk-9f8e7d6c5b4a", "export KEY=sk-9f8e7d6c5b4a", True),
        ("red balloon", "the red balloon", True),
        ("气球在黎明时分从港口升起然后飞过大海和群山", "昨天气球在黎明时分从港口升起然后飞过大海和群山了", True),
    ],
)
def test_a_repetition_is_recognized(text: str, other: str, repeats: bool) -> None:  # noqa: FBT001
    """Five words in a row, a word like a key, a whole short text or a fragment are a repetition; four common words are not."""
    assert find_repetitions([text])(other) is repeats


def test_the_log_of_a_database_is_searched(tmp_path: Path) -> None:
    """Text that is only in the write-ahead log is found."""
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (x TEXT)")
    db.execute("INSERT INTO t VALUES (?)", (TEXT,))
    report = search(tmp_path)
    db.close()
    assert any(residue.path.endswith("x.db-wal") for residue in report.residues)


def test_words_of_a_deleted_document_are_found_in_tantivy(tmp_path: Path) -> None:
    """A word that only a deleted document has is a residue until segments are merged; one in a visible document is not."""
    import tantivy

    analyser = WordAnalyser()
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", indexed=True)
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    schema = builder.build()
    (old := tmp_path / "old").mkdir()
    writer = tantivy.Index(schema, str(old)).writer(15_000_000, 1)
    for row, text in enumerate([TEXT, OTHER]):
        writer.add_document(tantivy.Document.from_dict({"row": row, "body": " ".join(analyser.words(text))}, schema))
    writer.commit()
    canaries = make_canaries([TEXT], analyse=analyser.words)
    assert "tantivy word" not in forms(search(old, canaries))  # visible: the catalog's text is the residue
    writer.delete_documents_by_query(tantivy.Query.term_query(schema, "row", 0))
    writer.commit()
    assert "tantivy word" in forms(search(old, canaries))
    (new := tmp_path / "new").mkdir()
    rebuilt = tantivy.Index(schema, str(new)).writer(15_000_000, 1)
    rebuilt.add_document(tantivy.Document.from_dict({"row": 1, "body": " ".join(analyser.words(OTHER))}, schema))
    rebuilt.commit()
    assert search(new, canaries).ok


def test_vectors_are_found_by_key_and_by_value(tmp_path: Path) -> None:
    """The content key of a vector, and the bytes of the vector, are residues."""
    key, vector = "3f" * 32, os.urandom(1536)
    (tmp_path / "m.f32").write_bytes(bytes(1536) + vector)
    _sqlite(tmp_path / "c.db", ("CREATE TABLE v (key TEXT)", ()), ("INSERT INTO v VALUES (?)", (key,)))
    report = search(tmp_path, make_canaries([], [key], vectors=[vector]))
    assert forms(report) == {"vector key", "vector"}


def test_a_text_that_others_share_is_not_a_residue(tmp_path: Path) -> None:
    """A sentence that a kept text has as well is left out; the rest of the forgotten text is still found."""
    shared = "Deploy with the blue script and watch the error budget closely. "
    (tmp_path / "kept.md").write_text(shared)
    canaries = make_canaries([shared + TEXT], kept=[shared + "Then go home."])
    assert search(tmp_path, canaries).ok
    (tmp_path / "left.md").write_text(shared + TEXT)
    assert search(tmp_path, canaries).residues


def test_short_texts_are_found_as_whole_words(tmp_path: Path) -> None:
    """A short text is found as a word of its own, and its canaries are never part of a receipt."""
    (tmp_path / "a").write_text("the passphrase is hunter2-x9, said he")
    canaries = make_canaries(["hunter2-x9"])
    assert search(tmp_path, canaries).residues
    assert msgspec.json.encode(canaries.without_text(with_key=False)) == b'{"texts":1,"short":1}'
    (tmp_path / "a").write_text("thunter2-x9b")
    assert search(tmp_path, canaries).ok


def test_nothing_tells_the_text(tmp_path: Path) -> None:
    """Neither the JSON of the canaries nor their repr holds a word of the text, and another key finds nothing."""
    canaries = make_canaries([TEXT])
    shown = msgspec.json.encode(canaries.without_text(with_key=False)).decode() + repr(canaries)
    assert not any(word in shown for word in TEXT.split() if len(word) > 3)
    assert canaries.key not in shown
    (tmp_path / "a").write_text(TEXT)
    assert search(tmp_path, read_back(canaries, "00" * 32)).ok


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A broken archive and a broken database are named; links and pipes are passed over."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    (tmp_path / "b.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    (tmp_path / "c.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    (tmp_path / "link").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    report = search(tmp_path)
    assert [Path(line.split(":")[0]).name for line in report.unreadable] == ["a.gz", "b.db", "c.zst"]
    assert report.files == 3
    assert not report.ok


ENCODERS: list[Callable[[str], bytes]] = [
    lambda text: text.encode(),
    lambda text: text.encode("utf-16-le"),
    lambda text: text.encode("utf-16-be"),
    lambda text: json.dumps(text).encode(),
    lambda text: json.dumps(text, ensure_ascii=False).encode(),
    lambda text: json.dumps(json.dumps(text)).encode(),
    lambda text: html.escape(text).encode(),
    lambda text: " ".join(text.split()).encode(),
    lambda text: text.lower().encode(),
    lambda text: " ".join(text.split()).casefold().encode(),
    lambda text: unicodedata.normalize("NFC", text).encode(),
    lambda text: unicodedata.normalize("NFD", text).encode(),
    lambda text: gzip.compress(text.encode()),
]


@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", categories=("L", "N", "M")), min_size=4, max_size=12),
        min_size=30,
        max_size=60,
    ),
    encode=st.sampled_from(ENCODERS),
    before=st.binary(max_size=40),
    space=st.sampled_from([" ", "\n", "  ", "\t"]),
)
def test_any_text_is_found_in_any_form(
    tmp_path_factory: pytest.TempPathFactory,
    words: list[str],
    encode: Callable[[str], bytes],
    before: bytes,
    space: str,
) -> None:
    """Any text of some length is found wherever it begins, in every form."""
    text = "memory of " + space.join(words) + " ends"
    path = tmp_path_factory.mktemp("any") / "file"
    data = encode(text)
    path.write_bytes(data if data.startswith(b"\x1f\x8b") else b"\xff" + before + data)
    assert search(path, make_canaries([text])).residues
