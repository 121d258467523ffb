"""The copy of the built-in model that opens faster."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from tests.models.tiny_encoder import OFFSETS, write_encoder

from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import BuiltinEmbedder, encoder_folder


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """Return a folder with a tiny network in the place of the built-in model's."""
    folder = write_encoder(tmp_path / "model", inputs=("input_ids", "attention_mask", "token_type_ids"))
    shutil.copy(encoder_folder() / "vocab.txt", folder)
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Return the folder for copies, which does not exist yet."""
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / ".models"


def vector(model: Path, copies: Path | str = "", text: str = "otters sleep") -> bytes:
    embedder = BuiltinEmbedder(EmbedOptions(threads=1, cache_folder=str(copies)), model)
    try:
        return embedder.embed_query(text)
    finally:
        embedder.close()


def test_the_copy_is_opened_instead_of_the_model(
    tiny_model: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is made at the first use; later no session reads the model's own file, and vectors are the same."""
    plain = vector(tiny_model)
    assert vector(tiny_model, copies) == plain
    assert {path.stat().st_mode & 0o077 for path in (copies, *copies.iterdir())} == {0}
    opened: list[str] = []
    make = onnxruntime.InferenceSession

    def note(path: str, *rest: Any, **options: Any) -> Any:
        opened.append(path)
        return make(path, *rest, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", note)
    assert vector(tiny_model, copies) == plain
    (copy,) = copies.glob("*.onnx")
    assert opened == [str(copy)]


def test_other_weights_of_the_same_size_and_time_get_their_own_copy(tiny_model: Path, copies: Path) -> None:
    """Models of one shape have one size, and installers may give them one time: the content decides."""
    plain = vector(tiny_model, copies)
    weights = tiny_model / "model.onnx"
    status, content = weights.stat(), weights.read_bytes()
    old, new = (struct.pack("<f", value) for value in (OFFSETS[0], OFFSETS[0] + 1))
    weights.write_bytes(content.replace(old, new, 1))
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert weights.stat().st_size == status.st_size
    assert vector(tiny_model, copies) == vector(tiny_model) != plain


@pytest.mark.parametrize("damage", ["changed", "cut", "empty"])
def test_a_damaged_copy_is_made_again(damage: str, tiny_model: Path, copies: Path) -> None:
    """A copy with a wrong byte, cut off or empty is replaced by a good one, and no vector comes from it."""
    plain = vector(tiny_model, copies)
    (copy,) = copies.glob("*.onnx")
    good = copy.read_bytes()
    middle = len(good) // 2
    wrong = {"changed": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :], "cut": good[:middle]}
    copy.write_bytes(wrong.get(damage, b""))

    assert vector(tiny_model, copies) == plain
    assert [path.read_bytes() for path in copies.glob("*.onnx")] == [good]


def test_a_changed_model_gets_a_new_copy(tiny_model: Path, copies: Path) -> None:
    """The copy of a model that was replaced is deleted, and one of the new model is made."""
    vector(tiny_model, copies)
    (old,) = copies.glob("*.onnx")
    os.utime(tiny_model / "model.onnx", ns=(10**18, 10**18))
    vector(tiny_model, copies)

    (new,) = copies.glob("*.onnx")
    assert new.name != old.name


def test_a_folder_that_cannot_be_written_is_done_without(tiny_model: Path, copies: Path) -> None:
    """Vectors come without a copy if its folder cannot be made or written, and nothing else is created."""
    plain = vector(tiny_model)
    assert vector(tiny_model, copies.parent / "missing" / ".models") == plain
    copies.write_text("a file in its place")
    assert vector(tiny_model, copies) == plain
    assert sorted(path.name for path in copies.parent.iterdir()) == [".models"]


@pytest.mark.slow
def test_the_real_models_copy_gives_the_same_bits(copies: Path) -> None:
    """Texts of all lengths have the same vectors, bit by bit, from the model and from its copy."""
    texts = ["otters sleep in the river " * count for count in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)]
    plain = BuiltinEmbedder(EmbedOptions()).embed_documents(texts)
    vector(encoder_folder(), copies)

    assert BuiltinEmbedder(EmbedOptions(cache_folder=str(copies))).embed_documents(texts) == plain
