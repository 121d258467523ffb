"""Embedder that runs any sentence-transformers model, by id or folder, on the device that the library selects.

Its packages weigh gigabytes and take seconds to load: this suits a long-running process, not single commands. Code shipped
with a model is not executed. Prefixes are the model's own prompts if it has any, otherwise those of its family.
"""

from __future__ import annotations

import array
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.extras import install_hint
from lorelog.core.options import AUTO_PROVIDER, EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models.embed.adapter import truncate_vectors
from lorelog.models.embed.families import (
    PromptPrefixes,
    find_family,
    prefixes_from_prompts,
    resolve_dimensions,
    resolve_prefixes,
    takes_no_dimensions,
    vector_model_name,
)
from lorelog.models.http import MalformedReply
from lorelog.models.onnx_files import first_line

_BATCH_SIZE = 32


class LocalEmbedder:
    """A sentence-transformers encoder."""

    provider = "local"

    def __init__(self, options: EmbedOptions) -> None:
        self._name = options.model
        self._options = options
        self._kept = resolve_dimensions(self._name, options.dimensions, takes_no_dimensions).kept
        # The default prefix is known only after loading, since the model may define one: any configured prefix is marked.
        prefix = "" if options.document_prefix == AUTO_PROVIDER else options.document_prefix or " "
        self.model = vector_model_name(self._name, prefix, self._kept)
        self._lock = Lock()
        self._encoder: Any = None
        self._load_error: ModelUnavailable | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        with self._lock:  # torch uses all cores for one call; a second caller would slow both down
            encoder = self._open()
            prefix = self._prefixes(encoder).document
            vectors = self._encode(encoder, clean, prefix)
            tokens, truncated = _count_tokens(encoder, [prefix + text for text in clean])
        return EmbeddedTexts(tuple(vectors), truncated, tokens)

    def embed_query(self, text: str) -> Vector:
        with self._lock:
            encoder = self._open()
            clean = text.encode("utf-8", "replace").decode()
            return self._encode(encoder, [clean], self._prefixes(encoder).query)[0]

    def close(self) -> None:
        with self._lock:
            self._encoder = None

    def _prefixes(self, encoder: Any) -> PromptPrefixes:
        own = prefixes_from_prompts(getattr(encoder, "prompts", None))
        return resolve_prefixes(self._options, own or find_family(self._name).prefixes)

    def _encode(self, encoder: Any, texts: list[str], prefix: str) -> list[Vector]:
        try:
            rows = encoder.encode(
                texts,
                prompt=prefix,
                batch_size=_BATCH_SIZE,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
            vectors = [_pack_vector(row) for row in rows]
        except Exception as error:  # torch, transformers and numpy share no base class
            raise ModelFault(f"the model {self._name} failed on {len(texts)} texts: {first_line(error)}") from error
        if len(vectors) != len(texts):
            raise ModelFault(f"the model {self._name} gave {len(vectors)} vectors for {len(texts)} texts")
        try:
            return truncate_vectors(vectors, self._kept) if self._kept else vectors
        except MalformedReply as error:
            raise ModelFault(f"{self._name} returned {error}", hint="lower embedding.dimensions") from error

    def _open(self) -> Any:
        """Load on first use. A failure is remembered: another attempt may use the network."""
        if self._load_error is not None:
            raise self._load_error
        if self._encoder is None:
            try:
                self._encoder = _load(self._name)
            except ModelUnavailable as error:
                self._load_error = error
                raise
        return self._encoder


def _load(model: str) -> Any:
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(variable, "1")
    try:
        package = import_module("sentence_transformers")
    except ImportError as error:
        raise ModelUnavailable(f"the model {model} cannot run: {error}", hint=install_hint("local")) from error
    try:
        return package.SentenceTransformer(os.path.expanduser(model), trust_remote_code=False)  # noqa: PTH111
    except Exception as error:  # see _encode
        raise ModelUnavailable(
            f"the embedding model {model} cannot be loaded: {first_line(error)}",
            hint="embedding.model is a folder or an id that sentence-transformers can load without running its code",
        ) from error


def _pack_vector(row: Any) -> Vector:
    numbers = array.array("f", row.tolist())
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _count_tokens(encoder: Any, texts: list[str]) -> tuple[int, int]:
    """Return the number of tokens read and of truncated texts, or zeros if the tokenizer cannot count them."""
    max_tokens = encoder.max_seq_length or sys.maxsize
    try:
        rows = encoder.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    except Exception:  # noqa: BLE001  # tokenizers vary, and a missing count must not fail the call
        return 0, 0
    sizes = [len(row) for row in rows]
    return sum(min(size, max_tokens) for size in sizes), sum(size > max_tokens for size in sizes)
