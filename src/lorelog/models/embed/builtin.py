"""The built-in embedder (lorelog-2, int8 ONNX, run in this process, without a network) and its token counter.

Texts are run one at a time, on as many threads as configured. The ranges of the model's activations are constants, so a text
has the same vector in any batch, bit by bit, and batches could be used. They pay for very short texts only. Measured on one
x86 core, CPU ms per text, all texts of a batch equally long:

    texts of           16     32     64    128    256 tokens
    one at a time     4.8    6.4   13.0   27.9   64.3
    batches of 4      3.6    6.3   12.5   26.7   67.6
    batches of 16     3.1    6.6   13.8   29.7   65.9

Chunks are longer than that. Other models that this module runs, of a folder, may take the scales of their activations from the whole
batch, so that vectors would depend on it. The longest texts run first, so that the session's memory grows once and no thread runs the longest text alone at the end.

Vectors of different weights must never be in one index, so the name of the model is that of its weights: see `name_weights`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models import in_process

if TYPE_CHECKING:
    from lorelog.models.embed.onnx_encoder import BuiltinEncoder, EncodedText
    from lorelog.models.embed.wordpiece import WordPieceTokenizer


MODEL_NAME = "lorelog-2"
"""That of lorelog_encoder; not imported, because commands that embed nothing need the name."""
_FINGERPRINT = "62f5e2403ea494af"
FOLDER_VARIABLE = "LORELOG_ENCODER_DIR"
_PACKAGES_HINT = "install its packages: python -m pip install numpy onnxruntime"


class BuiltinEmbedder:
    """Embeds with lorelog-2, which needs a prefix that marks a text as query or passage, or with the weights of a folder."""

    provider = "builtin"

    def __init__(self, options: EmbedOptions, folder: Path | None = None) -> None:
        self._folder = folder or (Path(options.model) if Path(options.model).is_absolute() else None)
        given = self._folder or os.environ.get(FOLDER_VARIABLE)
        self.model = name_weights(Path(given) / in_process.WEIGHTS_FILE) if given else MODEL_NAME
        self._cache_folder = Path(options.cache_folder) if options.cache_folder else None
        self._encoder = in_process.LoadedModel(self._load, options.threads, fails_once=False)
        self.threads = self._encoder.threads
        self._queries = BoundedSemaphore(self.threads)
        """More at a time would only need more memory: each run has its own activations."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        encoder = self._encoder.open()
        return encode_longest_first(
            self._encoder, texts, lambda text, is_last: encoder.encode(f"passage: {text}", release=is_last)
        )

    def embed_query(self, text: str) -> Vector:
        encoder = self._encoder.open()
        with self._queries:
            return encoder.encode(f"query: {text}", release=True).vector

    def check(self) -> str:
        """Compare the model's files with their SHA-256, as far as the encoder package is there to name it."""
        import hashlib

        in_process.check_packages(_PACKAGES_HINT, "numpy", "onnxruntime")
        folder = self._folder or encoder_folder()
        digests: Mapping[str, str] = {}
        with suppress(ImportError):  # a packager may leave the package out and set the folder
            import lorelog_encoder

            digests = lorelog_encoder.SHA256
        for name in (in_process.VOCABULARY_FILE, in_process.WEIGHTS_FILE):
            try:
                with (folder / name).open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise ModelUnavailable(
                    f"the built-in model is not installed: {folder / name}: {error.strerror}",
                    hint=in_process.REINSTALL_HINT,
                ) from error
            if digests.get(name, found) != found:
                raise ModelUnavailable(
                    f"{folder / name} is not the file that belongs to lorelog-encoder: its SHA-256 is {found}",
                    hint=f"{in_process.REINSTALL_HINT}; for another model set embedding.provider to onnx",
                )
        return ""

    def close(self) -> None:
        self._encoder.close()

    def _load(self) -> BuiltinEncoder:
        """Load the encoder. Raise ModelUnavailable if the weights are not those whose name the index has."""
        folder = self._folder or encoder_folder()
        if (found := name_weights(folder / in_process.WEIGHTS_FILE)) != self.model:
            raise ModelUnavailable(
                f"{folder / in_process.WEIGHTS_FILE} holds the weights of {found}, not of {self.model}",
                hint=f"{in_process.REINSTALL_HINT}, and restart the daemon: lorelog daemon restart",
            )
        with in_process.onnx_import("the built-in model", _PACKAGES_HINT):
            from lorelog.models.embed.onnx_encoder import BuiltinEncoder

            return BuiltinEncoder(folder, self._cache_folder, is_exact=self.model != MODEL_NAME)


def encode_longest_first(
    model: in_process.LoadedModel[in_process.ModelType],
    texts: Sequence[str],
    encode: Callable[[str, bool], EncodedText],
) -> EmbeddedTexts:
    """Encode each text alone on the threads of a model; the second argument is True for the last one to start."""
    longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
    last = longest_first[-1]
    results = model.map(lambda position: encode(texts[position], position == last), longest_first)
    by_position = dict(zip(longest_first, results, strict=True))
    encoded = [by_position[position] for position in range(len(texts))]
    return EmbeddedTexts(
        vectors=tuple(text.vector for text in encoded),
        truncated=sum(text.truncated for text in encoded),
        tokens=sum(text.tokens for text in encoded),
    )


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
        fingerprint = in_process.fingerprint_weights(file)
    except OSError:
        return MODEL_NAME  # embedding will fail, and say why
    return MODEL_NAME if fingerprint == _FINGERPRINT else f"weights-{fingerprint}"


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
        self._tokenizer = in_process.LoadedModel(self._load, fails_once=False)

    def __call__(self, text: str) -> int:
        """Return the number of tokens in a text. Raise ModelUnavailable if the vocabulary is not installed."""
        tokenizer = self._tokenizer.open()
        unknown = (tokenizer.unknown,)
        return sum(
            len(ids) + (len(word) // _LETTERS_PER_TOKEN if ids == unknown else 0) for word, ids in tokenizer.words(text)
        )

    def _load(self) -> WordPieceTokenizer:
        from lorelog.models.embed.wordpiece import WordPieceTokenizer

        try:
            return WordPieceTokenizer.from_file((self._folder or encoder_folder()) / in_process.VOCABULARY_FILE)
        except (OSError, ValueError) as error:
            raise ModelUnavailable(f"tokens cannot be counted: {error}", hint=in_process.REINSTALL_HINT) from error
