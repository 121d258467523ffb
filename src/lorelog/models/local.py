"""Encoders that sentence-transformers runs: any model id or folder that it can load, on whatever device it finds.

Its packages weigh gigabytes and load for seconds, so this is a choice for a process that stays, not for single commands.
Code that a model brings along is not run. The words in front of texts are the model's own prompts where it has them, and
those of its family otherwise.
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
from lorelog.core.options import AUTO, EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models.dialect import Unreadable
from lorelog.models.families import Forms, chosen_forms, chosen_size, family_of, forms_of_prompts, identity, never
from lorelog.models.vectors import cut

PACKAGE = "install it: python -m pip install 'lorelog[local]'"
_AT_ONCE = 32


class LocalEmbedder:
    """An encoder by sentence-transformers."""

    provider = "local"

    def __init__(self, options: EmbedOptions) -> None:
        self._name = options.model
        self._options = options
        self._kept = chosen_size(self._name, options.dimensions, never).kept
        # What is usual is known when the model is loaded, since it may say so itself: whatever settings choose is marked.
        form = "" if options.document_prefix == AUTO else options.document_prefix or " "
        self.model = identity(self._name, form, self._kept)
        self._lock = Lock()
        self._encoder: Any = None
        self._refusal: ModelUnavailable | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        sound = [text.encode("utf-8", "replace").decode() for text in texts]
        with self._lock:  # torch uses all cores for one call, and a second caller would only slow both down
            encoder = self._open()
            form = self._forms(encoder).document
            vectors = self._encode(encoder, sound, form)
            tokens, truncated = _count(encoder, [form + text for text in sound])
        return EmbeddedTexts(tuple(vectors), truncated, tokens)

    def embed_query(self, text: str) -> Vector:
        with self._lock:
            encoder = self._open()
            sound = text.encode("utf-8", "replace").decode()
            return self._encode(encoder, [sound], self._forms(encoder).query)[0]

    def close(self) -> None:
        with self._lock:
            self._encoder = None

    def _forms(self, encoder: Any) -> Forms:
        own = forms_of_prompts(getattr(encoder, "prompts", None))
        return chosen_forms(self._options, own or family_of(self._name).forms)

    def _encode(self, encoder: Any, texts: list[str], form: str) -> list[Vector]:
        try:
            rows = encoder.encode(
                texts,
                prompt=form,
                batch_size=_AT_ONCE,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
            vectors = [_packed(row) for row in rows]
        except Exception as error:  # torch, transformers and numpy share no base class
            raise ModelFault(f"the model {self._name} failed on {len(texts)} texts: {_first_line(error)}") from error
        if len(vectors) != len(texts):
            raise ModelFault(f"the model {self._name} gave {len(vectors)} vectors for {len(texts)} texts")
        try:
            return cut(vectors, self._kept) if self._kept else vectors
        except Unreadable as wrong:
            raise ModelFault(f"{self._name} gave {wrong}", hint="lower embedding.dimensions") from wrong

    def _open(self) -> Any:
        """Load on first use; what could not be had is not asked for again, since that may mean a network each time."""
        if self._refusal is not None:
            raise self._refusal
        if self._encoder is None:
            try:
                self._encoder = _load(self._name)
            except ModelUnavailable as refusal:
                self._refusal = refusal
                raise
        return self._encoder


def _load(model: str) -> Any:
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(variable, "1")
    try:
        package = import_module("sentence_transformers")
    except ImportError as error:
        raise ModelUnavailable(f"the model {model} cannot run: {error}", hint=PACKAGE) from error
    try:
        return package.SentenceTransformer(os.path.expanduser(model), trust_remote_code=False)  # noqa: PTH111
    except Exception as error:  # see _encode
        raise ModelUnavailable(
            f"the embedding model {model} cannot be loaded: {_first_line(error)}",
            hint="embedding.model is a folder or an id that sentence-transformers can load without running its code",
        ) from error


def _packed(row: Any) -> Vector:
    numbers = array.array("f", row.tolist())
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _count(encoder: Any, texts: list[str]) -> tuple[int, int]:
    """Return how many tokens were read and how many texts were longer than that; nothing where nobody can tell."""
    longest = encoder.max_seq_length or sys.maxsize
    try:
        rows = encoder.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    except Exception:  # noqa: BLE001  # a count is not worth a failure, and tokenizers are of many kinds
        return 0, 0
    sizes = [len(row) for row in rows]
    return sum(min(size, longest) for size in sizes), sum(size > longest for size in sizes)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
