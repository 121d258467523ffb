"""The built-in embedder (e5-small-v2 as int8 ONNX, run in this process, without a network) and its token counter.

Texts are run one at a time, on as many threads as configured. Batches would be wrong: the int8 model takes its activation
scales from the whole input tensor, so in a batch each vector depends on its neighbours. The same text alone and among
seven others differs by cosine .994-.998, even if all are equally long and nothing is padded, and the contract is: same
text, same vector. Running texts alone is not slower. Measured on two Neoverse-N1 cores, wall ms per text (CPU ms):

    texts of                                     31 tokens       247 tokens    same vector?
    one at a time, session with 2 threads      14.5 (23.2)       109 (199)     yes
    batches of 4 by length, 2 threads          11.0 (19.5)        99 (195)     no
    batches of 8 by length, 2 threads          10.1 (19.0)       101 (199)     no
    batches of 32 by length, 2 threads          9.8 (19.0)       113 (222)     no
    one at a time, 2 callers of one session    10.2 (20.2)    95-102 (190)     yes   <- this

A single query costs little more: 9.9 ms instead of 8.3 with two threads inside the session. The longest texts run first,
so that the session's memory grows once and no thread runs the longest text alone at the end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from lorelog.models.embed.onnx_encoder import E5Encoder, EncodedText
    from lorelog.models.embed.wordpiece import WordPieceTokenizer


VOCABULARY_FILE = "vocab.txt"
WEIGHTS_FILE = "model.onnx"
FOLDER_VARIABLE = "LORELOG_ENCODER_DIR"
REINSTALL_HINT = "reinstall it: python -m pip install --force-reinstall --no-deps lorelog-encoder"
MAX_DEFAULT_THREADS = 4
"""Default limit, because an editor and an agent share the machine; the `threads` setting may exceed it."""


class BuiltinEmbedder:
    """Embeds with e5-small-v2, which needs a prefix that marks a text as query or passage."""

    provider = "builtin"
    model = "e5-small-v2"

    def __init__(self, options: EmbedOptions, folder: Path | None = None) -> None:
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._folder = folder or (Path(options.model) if Path(options.model).is_absolute() else None)
        self._cache_folder = Path(options.cache_folder) if options.cache_folder else None
        self._lock = Lock()
        self._queries = BoundedSemaphore(self.threads)
        """More at a time would only need more memory: each run has its own activations."""
        self._encoder: E5Encoder | None = None
        self._pool: ThreadPoolExecutor | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        encoder, pool = self._open(), self._open_pool()
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))

        def encode(position: int) -> EncodedText:
            return encoder.encode(f"passage: {texts[position]}", release=position == longest_first[-1])

        by_position = dict(zip(longest_first, pool.map(encode, longest_first), strict=True))
        encoded = [by_position[position] for position in range(len(texts))]
        return EmbeddedTexts(
            vectors=tuple(text.vector for text in encoded),
            truncated=sum(text.truncated for text in encoded),
            tokens=sum(text.tokens for text in encoded),
        )

    def embed_query(self, text: str) -> Vector:
        encoder = self._open()
        with self._queries:
            return encoder.encode(f"query: {text}", release=True).vector

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._encoder = self._pool, None, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _open(self) -> E5Encoder:
        """Load on first use."""
        with self._lock:
            if self._encoder is None:
                self._encoder = _load_encoder(self._folder or encoder_folder(), self._cache_folder)
            return self._encoder

    def _open_pool(self) -> ThreadPoolExecutor:
        """Return the pool that all callers share, so that the limit on threads holds for the process."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-embed")
            return self._pool


def encoder_folder() -> Path:
    """Return the folder of the model's files: the packager's by LORELOG_ENCODER_DIR, else that of `lorelog_encoder`."""
    if folder := os.environ.get(FOLDER_VARIABLE, ""):
        return Path(folder)
    try:
        from lorelog_encoder import FOLDER
    except ImportError as error:
        raise ModelUnavailable(
            "the built-in model is not installed: the package lorelog-encoder is missing",
            hint=f"python -m pip install lorelog-encoder, or set {FOLDER_VARIABLE} to a folder with its files",
        ) from error
    return FOLDER


def _load_encoder(folder: Path, cache_folder: Path | None) -> E5Encoder:
    # From 1.29 on, onnxruntime sends telemetry and keeps a device id in the home directory unless this is set before its
    # import. A value that the user has set takes precedence.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.embed.onnx_encoder import E5Encoder
    except ImportError as error:
        raise ModelUnavailable(
            f"the built-in model cannot run: {error}",
            hint="install its packages: python -m pip install numpy onnxruntime",
        ) from error
    return E5Encoder(folder, cache_folder)


_LETTERS_PER_TOKEN = 2
"""For words unknown to the tokenizer. Random letters and digits cost other tokenizers about as much."""


class TokenCounter:
    """Counts tokens with the built-in model's tokenizer. Thread-safe.

    The tokenizer reads a word of more than a hundred letters as one unknown token, but such a word costs other models many
    tokens. Unknown words are counted by length, so a count is never lower than the tokenizer's. The tokenizer is loaded with
    the first count.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = Lock()
        self._tokenizer: WordPieceTokenizer | None = None

    def __call__(self, text: str) -> int:
        """Return the number of tokens in a text. Raise ModelUnavailable if the vocabulary is not installed."""
        tokenizer = self._open()
        unknown = (tokenizer.unknown,)
        return sum(
            len(ids) + (len(word) // _LETTERS_PER_TOKEN if ids == unknown else 0) for word, ids in tokenizer.words(text)
        )

    def _open(self) -> WordPieceTokenizer:
        from lorelog.models.embed.wordpiece import WordPieceTokenizer

        with self._lock:
            if self._tokenizer is None:
                folder = self._folder or encoder_folder()
                try:
                    self._tokenizer = WordPieceTokenizer.from_file(folder / VOCABULARY_FILE)
                except (OSError, ValueError) as error:
                    raise ModelUnavailable(f"tokens cannot be counted: {error}", hint=REINSTALL_HINT) from error
            return self._tokenizer
