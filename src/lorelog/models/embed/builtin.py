"""The built-in embedder (lorelog-1, int8 ONNX, run in this process, without a network) and its token counter.

Texts are run one at a time, on as many threads as configured. The ranges of the model's activations are constants, so a text
has the same vector in any batch, bit by bit, and batches could be used. They pay for very short texts only. Measured on one
x86 core, CPU ms per text, all texts of a batch equally long:

    texts of           16     32     64    128    256 tokens
    one at a time     4.8    6.4   13.0   27.9   64.3
    batches of 4      3.6    6.3   12.5   26.7   67.6
    batches of 16     3.1    6.6   13.8   29.7   65.9

Chunks are longer than that. Other models that this module runs (a folder with the weights of e5-small-v2, the built-in model
until lorelog-encoder 2.0) take the scales of their activations from the whole batch, so that vectors would depend on it. The
longest texts run first, so that the session's memory grows once and no thread runs the longest text alone at the end.

Vectors of different weights must never be in one index, so the name of the model is that of its weights: see `name_weights`.
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
from lorelog.models.onnx_files import REINSTALL_HINT, VOCABULARY_FILE, WEIGHTS_FILE, fingerprint_weights

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from lorelog.models.embed.onnx_encoder import BuiltinEncoder, EncodedText
    from lorelog.models.embed.wordpiece import WordPieceTokenizer


MODEL_NAME = "lorelog-1"
"""That of lorelog_encoder; not imported, because commands that embed nothing need the name."""
_FINGERPRINTS = {"e3ed49b2c9b0f42b": MODEL_NAME, "017d39bbfa65f40f": "e5-small-v2"}
FOLDER_VARIABLE = "LORELOG_ENCODER_DIR"
MAX_DEFAULT_THREADS = 4
"""Default limit, because an editor and an agent share the machine; the `threads` setting may exceed it."""


class BuiltinEmbedder:
    """Embeds with lorelog-1, which needs a prefix that marks a text as query or passage, or with the weights of a folder."""

    provider = "builtin"

    def __init__(self, options: EmbedOptions, folder: Path | None = None) -> None:
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._folder = folder or (Path(options.model) if Path(options.model).is_absolute() else None)
        given = self._folder or os.environ.get(FOLDER_VARIABLE)
        self.model = name_weights(Path(given) / WEIGHTS_FILE) if given else MODEL_NAME
        self._cache_folder = Path(options.cache_folder) if options.cache_folder else None
        self._lock = Lock()
        self._queries = BoundedSemaphore(self.threads)
        """More at a time would only need more memory: each run has its own activations."""
        self._encoder: BuiltinEncoder | None = None
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

    def _open(self) -> BuiltinEncoder:
        """Load on first use."""
        with self._lock:
            if self._encoder is None:
                folder = self._folder or encoder_folder()
                self._check_weights(folder / WEIGHTS_FILE)
                self._encoder = _load_encoder(folder, self._cache_folder, is_exact=self.model != MODEL_NAME)
            return self._encoder

    def _check_weights(self, file: Path) -> None:
        """Raise ModelUnavailable if the weights are not those whose name the index has."""
        if (found := name_weights(file)) != self.model:
            raise ModelUnavailable(
                f"{file} holds the weights of {found}, not of {self.model}",
                hint=f"{REINSTALL_HINT}, and restart the daemon: lorelog daemon restart",
            )

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


def name_weights(file: Path) -> str:
    """Return the model's name by its weights: `weights-` and a fingerprint if they are unknown, our own name without a file."""
    try:
        fingerprint = fingerprint_weights(file)
    except OSError:
        return MODEL_NAME  # embedding will fail, and say why
    return _FINGERPRINTS.get(fingerprint, f"weights-{fingerprint}")


def _load_encoder(folder: Path, cache_folder: Path | None, *, is_exact: bool) -> BuiltinEncoder:
    # From 1.29 on, onnxruntime sends telemetry and keeps a device id in the home directory unless this is set before its
    # import. A value that the user has set takes precedence.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.embed.onnx_encoder import BuiltinEncoder
    except ImportError as error:
        raise ModelUnavailable(
            f"the built-in model cannot run: {error}",
            hint="install its packages: python -m pip install numpy onnxruntime",
        ) from error
    return BuiltinEncoder(folder, cache_folder, is_exact=is_exact)


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
