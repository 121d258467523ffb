"""Embedders that run an encoder of the user's choice in this process, by its folder or Hugging Face id.

`onnx` runs any ONNX export. Texts are run one at a time on several threads, for the reason given in `builtin`. The default
model, bge-m3 in int8, is a download of 558 MB and about a tenth as fast as the built-in one.

`local` runs any sentence-transformers model on the device that the library selects. Its packages weigh gigabytes and take
seconds to load: this suits a long-running process, not single commands. Code shipped with a model is not executed.

Prefixes are the model's own if it defines any, otherwise those of its family.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lorelog.core.errors import ModelFault
from lorelog.core.extras import install_hint
from lorelog.core.options import AUTO_PROVIDER, EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models import in_process
from lorelog.models.embed import families
from lorelog.models.embed.builtin import encode_longest_first
from lorelog.models.embed.remote import pack_floats, truncate_vectors
from lorelog.models.http import MalformedReply

if TYPE_CHECKING:
    from lorelog.models.embed.onnx_encoder import OnnxTextEncoder

_BATCH_SIZE = 32


class _CustomEmbedder:
    """The prefixes of a configured model, and the name and length of its vectors."""

    def __init__(self, options: EmbedOptions) -> None:
        self._name = options.model
        self._options = options
        families.requested_dimensions(self._name, options.dimensions)  # they cannot be requested, only truncated
        # The default prefix is known only after loading, since the model may define one: any configured prefix is marked.
        prefix = "" if options.document_prefix == AUTO_PROVIDER else options.document_prefix or " "
        self.model = families.vector_model_name(self._name, prefix, options.dimensions)

    def _prefixes(self, own: families.PromptPrefixes | None) -> families.PromptPrefixes:
        return families.resolve_prefixes(self._options, own or families.find_family(self._name).prefixes)

    def _truncate(self, vectors: Sequence[Vector]) -> Sequence[Vector]:
        try:
            return truncate_vectors(vectors, self._options.dimensions) if self._options.dimensions else vectors
        except MalformedReply as error:
            raise ModelFault(f"{self._name} returned {error}", hint="lower embedding.dimensions") from error


class OnnxEmbedder(_CustomEmbedder):
    """An ONNX encoder with the prefixes of its model."""

    provider = "onnx"

    def __init__(self, options: EmbedOptions) -> None:
        super().__init__(options)
        self._encoder = in_process.LoadedModel(self._load, options.threads)
        self.threads = self._encoder.threads

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        encoder = self._encoder.open()
        prefix = self._prefixes(encoder.prefixes).document
        embedded = encode_longest_first(self._encoder, texts, lambda text, _: encoder.encode(prefix + text))
        return replace(embedded, vectors=tuple(self._truncate(embedded.vectors)))

    def embed_query(self, text: str) -> Vector:
        encoder = self._encoder.open()
        return self._truncate([encoder.encode(self._prefixes(encoder.prefixes).query + text).vector])[0]

    def check(self) -> str:
        """Raise ModelUnavailable if a package or a file is missing and cannot be downloaded. Uses no network, loads nothing."""
        in_process.check_packages(install_hint("onnx"), "numpy", "onnxruntime", "tokenizers")
        in_process.check_files(self._name, in_process.EMBEDDING_PURPOSE)
        return ""

    def close(self) -> None:
        self._encoder.close()

    def _load(self) -> OnnxTextEncoder:
        files = in_process.find_files(self._name, in_process.EMBEDDING_PURPOSE)
        with in_process.onnx_import(f"the model {self._name}", install_hint("onnx")):
            from lorelog.models.embed.onnx_encoder import OnnxTextEncoder

            return OnnxTextEncoder(files, self._name)


class LocalEmbedder(_CustomEmbedder):
    """A sentence-transformers encoder."""

    provider = "local"

    def __init__(self, options: EmbedOptions) -> None:
        super().__init__(options)
        self._lock = Lock()
        self._encoder = in_process.LoadedModel[Any](
            lambda: in_process.load_with_sentence_transformers(
                "SentenceTransformer", self._name, in_process.EMBEDDING_PURPOSE, trust_remote_code=False
            )
        )

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        with self._lock:  # torch uses all cores for one call; a second caller would slow both down
            encoder = self._encoder.open()
            prefix = self._prefixes(families.prefixes_from_prompts(getattr(encoder, "prompts", None))).document
            vectors = self._encode(encoder, clean, prefix)
            tokens, truncated = _count_tokens(encoder, [prefix + text for text in clean])
        return EmbeddedTexts(tuple(vectors), truncated, tokens)

    def embed_query(self, text: str) -> Vector:
        with self._lock:
            encoder = self._encoder.open()
            prefix = self._prefixes(families.prefixes_from_prompts(getattr(encoder, "prompts", None))).query
            return self._encode(encoder, [text.encode("utf-8", "replace").decode()], prefix)[0]

    def check(self) -> str:
        """Raise ModelUnavailable if the package is missing. Imports nothing."""
        in_process.check_packages(install_hint("local"), "sentence_transformers")
        return ""

    def close(self) -> None:
        self._encoder.close()

    def _encode(self, encoder: Any, texts: list[str], prefix: str) -> Sequence[Vector]:
        try:
            rows = encoder.encode(
                texts,
                prompt=prefix,
                batch_size=_BATCH_SIZE,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
            vectors = [pack_floats(array.array("f", row.tolist())) for row in rows]
        except Exception as error:  # torch, transformers and numpy share no base class
            raise ModelFault(
                f"the model {self._name} failed on {len(texts)} texts: {in_process.first_line(error)}"
            ) from error
        if len(vectors) != len(texts):
            raise ModelFault(f"the model {self._name} gave {len(vectors)} vectors for {len(texts)} texts")
        return self._truncate(vectors)


def _count_tokens(encoder: Any, texts: list[str]) -> tuple[int, int]:
    """Return the number of tokens read and of truncated texts, or zeros if the tokenizer cannot count them."""
    max_tokens = encoder.max_seq_length or sys.maxsize
    try:
        rows = encoder.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    except Exception:  # noqa: BLE001  # tokenizers vary, and a missing count must not fail the call
        return 0, 0
    sizes = [len(row) for row in rows]
    return sum(min(size, max_tokens) for size in sizes), sum(size > max_tokens for size in sizes)
