"""The built-in embedder with the real model, which also reads other scripts."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.models.tiny_encoder import write_encoder
from tests.models.vendors import cosine, unpacked

import lorelog_encoder
from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import PROVIDERS, open_embedder
from lorelog.models.embed.builtin import MODEL_NAME, BuiltinEmbedder, encoder_folder, name_weights
from lorelog.models.embed.onnx_encoder import open_session


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
def test_a_text_has_one_vector_in_any_batch(embedder: BuiltinEmbedder) -> None:
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
def test_the_model_gives_a_text_one_vector_in_any_batch() -> None:
    """The model's ranges are constants and padding is masked: alone and padded among seven others, a text has cosine 1.00000."""
    session = open_session(encoder_folder() / "model.onnx", is_exact=False)
    sizes = (3, 8, 20, 50, 100, 150, 200, 256)
    ids = np.random.default_rng(5).integers(1000, 20_000, (len(sizes), max(sizes)))
    mask = (np.arange(max(sizes)) < np.array(sizes)[:, None]).astype(np.int64)
    (together,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    for row, size in enumerate(sizes):
        feed = {"input_ids": ids[row : row + 1, :size], "attention_mask": mask[row : row + 1, :size]}
        (alone,) = session.run(None, feed)
        assert float(alone[0] @ together[row]) >= 0.999995


@pytest.mark.slow
def test_weights_of_seven_bits_need_no_exact_arithmetic() -> None:
    """Sessions with and without the slower, exact arithmetic for x86 give the same bits."""
    ids = np.random.default_rng(6).integers(1000, 20_000, (1, 200))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    file = encoder_folder() / "model.onnx"
    exact, plain = (open_session(file, is_exact=is_exact).run(None, feed)[0] for is_exact in (True, False))
    assert (exact == plain).all()


@pytest.mark.slow
def test_truncation_is_counted(embedder: BuiltinEmbedder) -> None:
    """Texts beyond 512 tokens are counted as truncated and as 512 tokens."""
    reply = embedder.embed_documents(["word " * 505, "word " * 2000, "short"])
    assert reply.truncated == 1
    words_prefix_and_ends = (505 + 2 + 2) + 512 + (1 + 2 + 2)
    assert reply.tokens == words_prefix_and_ends


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "\n\n", "\x00", "a\udcffb", "\ufffe", "🧑‍🚀" * 40, "字" * 700, "x" * 5000),
        *("a", "?", "字", "🦦", "\u0301"),
        pytest.param("otters sleep in the river at noon. " * 30_000, id="1 MB of words"),
        pytest.param("x" * 1_000_000, id="1 MB without a space"),
        "🚀🎉✅🦦🔥",
        "Der Otter schläft, 水獭在睡觉, الثعلب, выдра спит, カワウソ, 수달, ενυδρίδα 🦦 and that is it",
        "the of and to in a is it that for on with as was at by",
    ],
)
def test_odd_texts_have_vectors_of_unit_length(text: str, embedder: BuiltinEmbedder) -> None:
    """Every string has a vector of unit length, even an empty string or invalid Unicode."""
    for vector in (embedder.embed_query(text), embedder.embed_documents([text]).vectors[0]):
        assert len(vector) == 384 * 4
        assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.slow
def test_a_text_of_a_megabyte_is_cut(embedder: BuiltinEmbedder) -> None:
    """A text of a megabyte is read up to 512 tokens and counted as truncated; what comes after does not matter."""
    long = "otters sleep in the river at noon. " * 30_000
    reply = embedder.embed_documents([long, f"{long} and something else"])
    assert (reply.truncated, reply.tokens) == (2, 1024)
    assert reply.vectors[0] == reply.vectors[1]


def test_the_name_is_that_of_the_encoder_package() -> None:
    """Lorelog names the model as lorelog_encoder does, and the package's weights are those of that name."""
    assert (
        MODEL_NAME
        == BuiltinEmbedder(EmbedOptions()).model
        == PROVIDERS["builtin"].default_model
        == lorelog_encoder.NAME
    )
    assert name_weights(lorelog_encoder.FOLDER / lorelog_encoder.WEIGHTS) == lorelog_encoder.NAME


def test_a_copy_of_the_model_has_its_name_and_other_weights_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's weights decide the name under which vectors are kept, by the setting and by LORELOG_ENCODER_DIR."""
    same, other, third = (tmp_path / name for name in ("same", "other", "third"))
    content = (encoder_folder() / "model.onnx").read_bytes()
    for folder, weights in ((same, content), (other, content[:-1]), (third, content[4096:] + content[:4096])):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(weights)
    names = [open_embedder(EmbedOptions(model=str(folder))).model for folder in (same, other, third)]
    assert names[0] == MODEL_NAME
    assert len(set(names)) == 3
    assert all(name.startswith("weights-") for name in names[1:])
    monkeypatch.setenv("LORELOG_ENCODER_DIR", str(other))
    assert BuiltinEmbedder(EmbedOptions()).model == names[1]


def test_weights_that_were_replaced_meanwhile_are_not_used(tmp_path: Path) -> None:
    """A process that began with other weights than it finds (an update under a daemon) makes no vectors under a wrong name."""
    write_encoder(tmp_path, inputs=("input_ids", "attention_mask", "token_type_ids"))
    (tmp_path / "vocab.txt").write_bytes((encoder_folder() / "vocab.txt").read_bytes())
    embedder = BuiltinEmbedder(EmbedOptions(), folder=tmp_path)
    write_encoder(tmp_path, inputs=("input_ids", "attention_mask"))
    with pytest.raises(ModelUnavailable, match="holds the weights of") as caught:
        embedder.embed_query("x")
    assert "daemon restart" in caught.value.hint


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
        seen |= {thread for thread in threading.enumerate() if thread.name.startswith("lorelog-model")}
    for caller in callers:
        caller.join()
    embedder.close()
    assert 1 <= len(seen - before) <= 2


def test_the_default_number_of_threads_leaves_room() -> None:
    """By default at most four threads are used, and never more than there are processors."""
    assert BuiltinEmbedder(EmbedOptions()).threads == min(4, os.cpu_count() or 1)
    assert BuiltinEmbedder(EmbedOptions(threads=7)).threads == 7


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


NOTES = {
    "Chinese": "数据库每天凌晨两点备份，保存三十天。|登录页面的按钮颜色改成了蓝色。|我们什么时候复制数据？",
    "Japanese": "データベースは毎日午前二時にバックアップされる。|ディスクの空きが足りず、デプロイに失敗した。|データベースのバックアップはいつですか。",
    "Korean": "데이터베이스는 매일 새벽 두 시에 백업되고 삼십 일 동안 보관된다.|로그인 화면의 버튼 색을 파란색으로 바꾸었다.|백업은 언제 하나요?",
    "Arabic": "يتم نسخ قاعدة البيانات احتياطيا كل ليلة.|فشل النشر لأن مساحة القرص غير كافية.|متى يتم إنشاء النسخة الاحتياطية؟",
}
"""Two notes in a language, and a question that the first answers."""


@pytest.mark.parametrize("language", NOTES)
def test_a_question_is_nearest_to_its_answer(language: str, embedder: BuiltinEmbedder) -> None:
    """The vector of a question is nearer to the note that answers it than to another in the same language, by a clear margin."""
    *notes, question = NOTES[language].split("|")
    asked = unpacked(embedder.embed_query(question))
    told = [unpacked(vector) for vector in embedder.embed_documents(notes).vectors]
    answer, other = (sum(a * b for a, b in zip(asked, vector, strict=True)) for vector in told)
    assert answer > other + 0.1
