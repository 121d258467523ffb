"""Embedder that runs any ONNX encoder in this process, from a folder or a Hugging Face id.

Texts are run one at a time on several threads, for the reason given in `builtin`. The default model, bge-m3 in int8, is a
download of 558 MB and about a tenth as fast as the built-in one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.extras import install_hint
from lorelog.core.options import AUTO_PROVIDER, EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models.embed.adapter import truncate_vectors
from lorelog.models.embed.builtin import MAX_DEFAULT_THREADS
from lorelog.models.embed.families import (
    PromptPrefixes,
    find_family,
    resolve_dimensions,
    resolve_prefixes,
    takes_no_dimensions,
    vector_model_name,
)
from lorelog.models.http import MalformedReply

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from lorelog.models.embed.onnx_encoder import OnnxTextEncoder
    from lorelog.models.onnx_files import ModelPurpose


class OnnxEmbedder:
    """An ONNX encoder with the prefixes of its model."""

    provider = "onnx"

    def __init__(self, options: EmbedOptions) -> None:
        self._name = options.model
        self._options = options
        self._kept = resolve_dimensions(self._name, options.dimensions, takes_no_dimensions).kept
        # The default prefix is known only after loading, since the model may define one: any configured prefix is marked.
        prefix = "" if options.document_prefix == AUTO_PROVIDER else options.document_prefix or " "
        self.model = vector_model_name(self._name, prefix, self._kept)
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._lock = Lock()
        self._encoder: OnnxTextEncoder | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._load_error: ModelUnavailable | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        encoder, pool = self._open()
        prefix = self._prefixes(encoder).document
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        results = pool.map(encoder.encode, (prefix + texts[position] for position in longest_first))
        by_position = dict(zip(longest_first, results, strict=True))
        encoded = [by_position[position] for position in range(len(texts))]
        return EmbeddedTexts(
            vectors=tuple(self._truncate([text.vector for text in encoded])),
            truncated=sum(text.truncated for text in encoded),
            tokens=sum(text.tokens for text in encoded),
        )

    def embed_query(self, text: str) -> Vector:
        encoder, _ = self._open()
        return self._truncate([encoder.encode(self._prefixes(encoder).query + text).vector])[0]

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._encoder = self._pool, None, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _prefixes(self, encoder: OnnxTextEncoder) -> PromptPrefixes:
        return resolve_prefixes(self._options, encoder.prefixes or find_family(self._name).prefixes)

    def _truncate(self, vectors: list[Vector]) -> list[Vector]:
        try:
            return truncate_vectors(vectors, self._kept) if self._kept else vectors
        except MalformedReply as error:
            raise ModelFault(f"{self._name} returned {error}", hint="lower embedding.dimensions") from error

    def _open(self) -> tuple[OnnxTextEncoder, ThreadPoolExecutor]:
        """Load on first use. A failure is remembered: another attempt may use the network."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._load_error is not None:
                raise self._load_error
            if self._encoder is None:
                try:
                    self._encoder = _load(self._name)
                except ModelUnavailable as error:
                    self._load_error = error
                    raise
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-embed")
            return self._encoder, self._pool


def check_model_files(model: str) -> None:
    """Raise ModelUnavailable if a model's files are missing and cannot be downloaded. Uses no network, loads nothing."""
    from lorelog.models.onnx_files import check_files

    check_files(model, _embedding_purpose())


def _load(model: str) -> OnnxTextEncoder:
    from lorelog.models.onnx_files import find_files

    files = find_files(model, _embedding_purpose())
    # Switches off telemetry, as in `builtin`.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.embed.onnx_encoder import OnnxTextEncoder

        return OnnxTextEncoder(files, model)
    except ImportError as error:
        raise ModelUnavailable(f"the model {model} cannot run: {error}", hint=install_hint("onnx")) from error


def _embedding_purpose() -> ModelPurpose:
    from lorelog.models.onnx_files import ModelPurpose

    return ModelPurpose(
        noun="the embedding model",
        setting="embedding.model",
        example="gpahal/bge-m3-onnx-int8",
        fallback_hint="choose a model with an ONNX export, or set embedding.provider to local",
        extra_files=(
            "config.json",
            "tokenizer_config.json",
            "modules.json",
            "1_Pooling/config.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
        ),
    )
