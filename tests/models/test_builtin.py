"""The built-in embedder with the real model."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import BuiltinEmbedder, encoder_folder

SOURCE = Path(__file__).parents[2] / "src"


def unpacked(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(unpacked(one), unpacked(other), strict=True))


@pytest.mark.slow
def test_related_texts_are_nearer_than_others(embedder: BuiltinEmbedder) -> None:
    """A question is nearer to the passage that answers it than to passages about other things."""
    passages = [
        "Sessions moved from Redis to SQLite because the extra server kept running out of memory.",
        "The logo is now dark green on white, as the designers asked.",
        "Lunch on Thursdays is at noon in the big kitchen.",
    ]
    vectors = embedder.embed_documents(passages).vectors
    query = embedder.embed_query("why did we stop using redis for sessions?")
    ranked = sorted(range(3), key=lambda position: -cosine(query, vectors[position]))
    assert ranked[0] == 0


def test_vectors_come_back_in_the_order_of_their_texts(embedder: BuiltinEmbedder) -> None:
    """Vectors keep the order of the texts."""
    texts = ["short", "a much longer text about the build server and its disks " * 4, "of middling length, this one"]
    together = embedder.embed_documents(texts).vectors
    assert list(together) == [embedder.embed_documents([text]).vectors[0] for text in texts]


@pytest.mark.slow
def test_a_text_has_one_vector_whatever_its_company(embedder: BuiltinEmbedder) -> None:
    """The same text gives the same bytes alone, among others of any length, twice in a call, and with more threads."""
    text = "The nightly job writes its report to the journal."
    alone = embedder.embed_documents([text]).vectors[0]
    company = [f"Neighbour number {number}. " * (1 + 7 * number) for number in range(7)]
    among = embedder.embed_documents([*company, text, text]).vectors
    assert among[-1] == among[-2] == alone
    single = BuiltinEmbedder(EmbedOptions(threads=1))
    assert single.embed_documents([text]).vectors[0] == alone
    single.close()


@pytest.mark.slow
def test_truncation_is_counted(embedder: BuiltinEmbedder) -> None:
    """Texts beyond 512 tokens are counted as truncated and as 512 tokens."""
    reply = embedder.embed_documents(["word " * 505, "word " * 2000, "short"])
    assert reply.truncated == 1
    words_prefix_and_ends = (505 + 2 + 2) + 512 + (1 + 2 + 2)
    assert reply.tokens == words_prefix_and_ends


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", " ", "\n\n", "\x00", "a\udcffb", "\ufffe", "🧑‍🚀" * 40, "字" * 700, "x" * 5000])
def test_odd_texts_have_vectors_of_unit_length(text: str, embedder: BuiltinEmbedder) -> None:
    """Every string has a vector of unit length, even an empty string or invalid Unicode."""
    for vector in (embedder.embed_query(text), embedder.embed_documents([text]).vectors[0]):
        assert len(vector) == 384 * 4
        assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-5)


def test_no_texts_need_no_model(tmp_path: Path) -> None:
    """Embedding an empty list returns nothing and loads nothing."""
    reply = BuiltinEmbedder(EmbedOptions(), folder=tmp_path).embed_documents([])
    assert reply.vectors == ()


@pytest.mark.slow
def test_threads_are_bounded() -> None:
    """The number of threads is limited for any number of callers."""
    seen: set[threading.Thread] = set()
    embedder = BuiltinEmbedder(EmbedOptions(threads=2))
    before = set(threading.enumerate())
    callers = [
        threading.Thread(target=lambda: embedder.embed_documents([f"text {number}" for number in range(12)]))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    while any(caller.is_alive() for caller in callers):
        seen |= {thread for thread in threading.enumerate() if thread.name.startswith("lorelog-embed")}
    for caller in callers:
        caller.join()
    embedder.close()
    assert 1 <= len(seen - before) <= 2


EMBED_ONCE = """
from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import BuiltinEmbedder
embedder = BuiltinEmbedder(EmbedOptions(threads=8))
embedder.embed_query("x")
"""


@pytest.mark.slow
def test_the_session_starts_no_threads_of_its_own(tmp_path: Path) -> None:
    """A process that has answered a query has one thread according to the operating system."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to count threads")
    count = "print([line for line in open('/proc/self/status') if line.startswith('Threads')][0].split()[1])\n"
    # numpy's BLAS keeps threads for itself when it is imported; they are not the session's.
    environment = {"PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1", "HOME": str(tmp_path)}
    program = EMBED_ONCE + count
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "1"


@pytest.mark.slow
def test_nothing_is_reported_to_anyone(tmp_path: Path) -> None:
    """Embedding leaves no device id and no cache of events for onnxruntime's telemetry in the home directory."""
    # A bare environment: telemetry holds itself back when it sees that it runs in someone's CI.
    environment = {"PYTHONPATH": str(SOURCE), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EMBED_ONCE], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []


def test_the_default_number_of_threads_leaves_room() -> None:
    """By default at most four threads are used, and never more than there are processors."""
    assert BuiltinEmbedder(EmbedOptions()).threads == min(4, os.cpu_count() or 1)
    assert BuiltinEmbedder(EmbedOptions(threads=7)).threads == 7


@pytest.mark.slow
def test_closing_twice_is_fine_and_reopening_works() -> None:
    """A closed embedder may be closed again, and opens itself when it is used again."""
    embedder = BuiltinEmbedder(EmbedOptions())
    first = embedder.embed_query("again")
    embedder.close()
    embedder.close()
    assert embedder.embed_query("again") == first
    embedder.close()


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    """Without its files the model is unavailable; the message names the file and the hint the package."""
    embedder = BuiltinEmbedder(EmbedOptions(), folder=tmp_path)
    with pytest.raises(ModelUnavailable, match=r"vocab\.txt is missing") as caught:
        embedder.embed_query("x")
    assert "lorelog-encoder" in caught.value.hint
    (tmp_path / "vocab.txt").write_bytes((encoder_folder() / "vocab.txt").read_bytes())
    with pytest.raises(ModelUnavailable, match=r"model\.onnx is missing"):
        embedder.embed_documents(["x"])


@pytest.mark.parametrize("damaged", ["vocab.txt", "model.onnx"])
@pytest.mark.parametrize("content", [b"", b"not this", b"{}"])
def test_a_damaged_model_is_unavailable(damaged: str, content: bytes, tmp_path: Path) -> None:
    """A damaged file raises our error, which names the file."""
    (tmp_path / "vocab.txt").write_bytes((encoder_folder() / "vocab.txt").read_bytes())
    (tmp_path / damaged).write_bytes(content)
    with pytest.raises(ModelUnavailable, match=damaged.replace(".", r"\.")):
        BuiltinEmbedder(EmbedOptions(), folder=tmp_path).embed_query("x")


@pytest.mark.parametrize("package", ["onnxruntime", "numpy"])
def test_a_missing_package_says_what_to_install(package: str, tmp_path: Path) -> None:
    """Without one of its packages the model can be opened but is unavailable, with a hint what to install."""
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('No module named {package}')")
    program = (
        "from lorelog.core.errors import ModelUnavailable\n"
        "from lorelog.core.options import EmbedOptions\n"
        "from lorelog.models.embed import open_embedder\n"
        "embedder = open_embedder(EmbedOptions())\n"
        "try:\n    embedder.embed_query('x')\n"
        "except ModelUnavailable as error:\n    print(error.message, '|', error.hint)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    message, _, hint = done.stdout.partition("|")
    assert package in message
    assert package in hint
