"""Any encoder in ONNX form, run here: a folder of one's own, or an id of Hugging Face.

As with the built-in model every text is run alone, and as many at a time as there are threads: `builtin` says why. The usual
model, bge-m3 in int8, is a download of 558 MB, and about a tenth as fast as the built-in one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import AUTO, EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models.builtin import MAX_DEFAULT_THREADS
from lorelog.models.dialect import Unreadable
from lorelog.models.families import Forms, chosen_forms, chosen_size, family_of, identity, never
from lorelog.models.vectors import cut

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from lorelog.models.encoder_onnx import TextEncoder
    from lorelog.models.onnx_files import Purpose


class OnnxEmbedder:
    """An encoder in ONNX form, with the words in front that it wants."""

    provider = "onnx"

    def __init__(self, options: EmbedOptions) -> None:
        self._name = options.model
        self._options = options
        self._kept = chosen_size(self._name, options.dimensions, never).kept
        # What is usual is known when the model is loaded, since it may say so itself: whatever settings choose is marked.
        form = "" if options.document_prefix == AUTO else options.document_prefix or " "
        self.model = identity(self._name, form, self._kept)
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._lock = Lock()
        self._encoder: TextEncoder | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._refusal: ModelUnavailable | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        encoder, pool = self._open()
        form = self._forms(encoder).document
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        done = pool.map(encoder.encode, (form + texts[position] for position in longest_first))
        by_position = dict(zip(longest_first, done, strict=True))
        encoded = [by_position[position] for position in range(len(texts))]
        return EmbeddedTexts(
            vectors=tuple(self._cut([one.vector for one in encoded])),
            truncated=sum(one.truncated for one in encoded),
            tokens=sum(one.tokens for one in encoded),
        )

    def embed_query(self, text: str) -> Vector:
        encoder, _ = self._open()
        return self._cut([encoder.encode(self._forms(encoder).query + text).vector])[0]

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._encoder = self._pool, None, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _forms(self, encoder: TextEncoder) -> Forms:
        return chosen_forms(self._options, encoder.forms or family_of(self._name).forms)

    def _cut(self, vectors: list[Vector]) -> list[Vector]:
        try:
            return cut(vectors, self._kept) if self._kept else vectors
        except Unreadable as wrong:
            raise ModelFault(f"{self._name} gave {wrong}", hint="lower embedding.dimensions") from wrong

    def _open(self) -> tuple[TextEncoder, ThreadPoolExecutor]:
        """Load on first use. A model that could not be had is not asked for again: that may mean a network each time."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._encoder is None:
                try:
                    self._encoder = _load(self._name)
                except ModelUnavailable as refusal:
                    self._refusal = refusal
                    raise
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-embed")
            return self._encoder, self._pool


def check_files(model: str) -> None:
    """Raise ModelUnavailable when a model's files cannot be had. Asks no network and loads nothing."""
    from lorelog.models import onnx_files

    onnx_files.check_files(model, _purpose())


def _load(model: str) -> TextEncoder:
    from lorelog.models.onnx_files import find_files

    files = find_files(model, _purpose())
    # As in `builtin`: from 1.29 on, onnxruntime reports to its maker's servers unless this is set before its import.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.encoder_onnx import TextEncoder
    except ImportError as error:
        raise ModelUnavailable(
            f"the model {model} cannot run: {error}",
            hint="install its packages: python -m pip install numpy onnxruntime tokenizers",
        ) from error
    return TextEncoder(files, model)


def _purpose() -> Purpose:
    from lorelog.models.onnx_files import Purpose

    return Purpose(
        "the embedding model",
        "embedding.model",
        "gpahal/bge-m3-onnx-int8",
        "choose a model with an ONNX export, or set embedding.provider to local",
        package="'lorelog[onnx]'",
        also=(
            "config.json",
            "tokenizer_config.json",
            "modules.json",
            "1_Pooling/config.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
        ),
    )
