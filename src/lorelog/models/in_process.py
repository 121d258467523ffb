"""What models that run in this process share: their files, loading on first use, and threads.

Files come from a folder named in the settings, the Hugging Face cache, or a download. A path begins with `/` or `~`; anything
else is a model id. So a folder inside a cloned repository is never taken for a model that was requested by id. The cache is
read by its documented layout, which needs no package and no network. Only an id that is not cached is downloaded, with
huggingface_hub if it is installed: naming the id in the settings is the consent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from lorelog.core.errors import ModelUnavailable
from lorelog.core.extras import install_hint
from lorelog.core.ids import blake2b

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

VOCABULARY_FILE = "vocab.txt"
WEIGHTS_FILE = "model.onnx"
"""Files of the built-in model."""
REINSTALL_HINT = "reinstall it: python -m pip install --force-reinstall --no-deps lorelog-encoder"
_PIECES, _PIECE_BYTES = 16, 4096
TOKENIZER = "tokenizer.json"
WEIGHTS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
"""Where exporters put the network; the first match is used."""

_CONNECT_TIMEOUT_S = 5.0
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


MAX_DEFAULT_THREADS = 4
"""Default limit, because an editor and an agent share the machine; the `threads` setting may exceed it."""

ModelType = TypeVar("ModelType")
ItemType = TypeVar("ItemType")
ResultType = TypeVar("ResultType")


class LoadedModel(Generic[ModelType]):
    """A model that is loaded on first use, and the threads that run it: all callers share them. Thread-safe.

    With `fails_once` a failure is remembered, because another attempt may use the network.
    """

    def __init__(self, load: Callable[[], ModelType], threads: int = 0, *, fails_once: bool = True) -> None:
        self.threads = threads if threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._load = load
        self._fails_once = fails_once
        self._lock = Lock()
        self._model: ModelType | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._load_error: ModelUnavailable | None = None

    def open(self) -> ModelType:
        with self._lock:
            if self._load_error is not None:
                raise self._load_error
            if self._model is None:
                try:
                    self._model = self._load()
                except ModelUnavailable as error:
                    self._load_error = error if self._fails_once else None
                    raise
            return self._model

    def map(self, function: Callable[[ItemType], ResultType], items: Iterable[ItemType]) -> Iterator[ResultType]:
        """Call a function with each item on the threads; yield the results in order."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-model")
            pool = self._pool
        return pool.map(function, items)

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._model = self._pool, None, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


class ModelFiles(Struct, frozen=True):
    """A model's weights and tokenizer; optional configuration files are next to the tokenizer."""

    weights: Path
    tokenizer: Path


class ModelPurpose(Struct, frozen=True, kw_only=True):
    """Wording of messages about a model, and optional files to download with it."""

    noun: str
    setting: str
    example: str
    fallback_hint: str
    """Suggestion for a model that has no ONNX form."""
    extra_files: tuple[str, ...] = ()


EMBEDDING_PURPOSE = ModelPurpose(
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
RERANK_PURPOSE = ModelPurpose(
    noun="the reranker model",
    setting="rerank.model",
    example="cross-encoder/ms-marco-MiniLM-L6-v2",
    fallback_hint="choose a model with an ONNX export, or set rerank.provider to local",
)


@contextmanager
def onnx_import(noun: str, hint: str) -> Iterator[None]:
    """Switch off the telemetry of onnxruntime before its import; turn ImportError into ModelUnavailable.

    From 1.29 on, onnxruntime sends telemetry and keeps a device id in the home directory unless the variable is set before its
    import. A value that the user has set takes precedence.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        yield
    except ImportError as error:
        raise ModelUnavailable(f"{noun} cannot run: {error}", hint=hint) from error


def check_packages(hint: str, *packages: str) -> None:
    """Raise ModelUnavailable if a package is not installed. Imports none."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ModelUnavailable(f"the package {missing[0]} is not installed", hint=hint)


def load_with_sentence_transformers(kind: str, model: str, purpose: ModelPurpose, **options: Any) -> Any:
    """Return a model of a class of sentence-transformers, by id or folder. Raise ModelUnavailable if it cannot be loaded."""
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(variable, "1")
    try:
        package = import_module("sentence_transformers")
    except ImportError as error:
        raise ModelUnavailable(f"{purpose.noun} {model} cannot run: {error}", hint=install_hint("local")) from error
    try:
        return getattr(package, kind)(str(Path(model).expanduser()) if is_path(model) else model, **options)
    except Exception as error:  # torch, transformers and their HTTP client share no base class
        raise ModelUnavailable(
            f"{purpose.noun} {model} cannot be loaded: {first_line(error)}",
            hint=f"{purpose.setting} is a folder or an id that sentence-transformers' {kind} can load without running its code",
        ) from error


def find_files(model: str, purpose: ModelPurpose) -> ModelFiles:
    """Return a model's files, downloading them if necessary. Raise ModelUnavailable if they cannot be obtained."""
    if is_path(model):
        folder = Path(model).expanduser()
        hint = f"{purpose.setting} is a folder with {TOKENIZER} and {' or '.join(WEIGHTS[:2])}"
        if not folder.is_dir():
            raise ModelUnavailable(f"{purpose.noun} is missing: {folder} is not a folder", hint=hint)
        if (files := _find_in_folder(folder)) is None:
            missing = TOKENIZER if _find_weights(folder) else WEIGHTS[0]
            raise ModelUnavailable(f"{purpose.noun} is incomplete: {folder} has no {missing}", hint=hint)
        return files
    if not _ID.fullmatch(model):
        raise ModelUnavailable(
            f"{purpose.noun} {model!r} is neither a path nor the id of a model",
            hint=f"{purpose.setting} is an absolute path, or an id such as {purpose.example}",
        )
    return _find_in_cache(model) or _download(model, purpose)


def check_files(model: str, purpose: ModelPurpose) -> None:
    """Raise ModelUnavailable if a model's files are neither present nor downloadable. Uses no network."""
    if is_path(model) or not _ID.fullmatch(model):
        find_files(model, purpose)
    elif _find_in_cache(model) is None and find_spec("huggingface_hub") is None:
        raise _not_cached_error(model, purpose)


def is_path(model: str) -> bool:
    """Return True if a model is named by a path rather than by an id."""
    return model.startswith(("/", "~")) or Path(model).is_absolute()


def _find_in_folder(folder: Path) -> ModelFiles | None:
    weights, tokenizer = _find_weights(folder), folder / TOKENIZER
    return ModelFiles(weights, tokenizer) if weights and tokenizer.is_file() else None


def _find_weights(folder: Path) -> Path | None:
    return next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)


def _find_in_cache(model: str) -> ModelFiles | None:
    """Search the cache shared by all Hugging Face libraries, the revision `main` first."""
    repository = _cache_folder() / f"models--{model.replace('/', '--')}"
    snapshots = repository / "snapshots"
    try:
        revisions = sorted(path for path in snapshots.iterdir() if path.is_dir())
    except OSError:
        return None
    try:
        main = snapshots / (repository / "refs" / "main").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = snapshots
    revisions.sort(key=lambda path: path != main)
    return next(filter(None, map(_find_in_folder, revisions)), None)


def _cache_folder() -> Path:
    variables = os.environ
    if folder := variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE"):
        return Path(folder).expanduser()
    base = variables.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(variables.get("HF_HOME") or f"{base}/huggingface").expanduser() / "hub"


def _download(model: str, purpose: ModelPurpose) -> ModelFiles:
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(variable, "1")
    try:
        from huggingface_hub import hf_hub_download, list_repo_files
    except ImportError:
        raise _not_cached_error(model, purpose) from None
    _check_reachable(model, purpose)
    try:
        offered = list_repo_files(model)
        name = next((name for name in WEIGHTS if name in offered), "")
        if name and TOKENIZER in offered:
            # Weights beyond two gigabytes are in a second file, which the first refers to by name.
            beside = [other for other in offered if other.startswith(f"{name}_") or other == f"{name}.data"]
            beside += [other for other in purpose.extra_files if other in offered]
            tokenizer, weights, *_ = [Path(hf_hub_download(model, file)) for file in (TOKENIZER, name, *beside)]
            return ModelFiles(weights, tokenizer)
    except Exception as error:  # its HTTP client's errors share no base class
        raise ModelUnavailable(
            f"{purpose.noun} {model} could not be downloaded: {first_line(error)}",
            hint=f"check the id and the network, or set {purpose.setting} to a folder that holds the model",
        ) from error
    raise ModelUnavailable(
        f"{model} on Hugging Face has no {TOKENIZER} with {' or '.join(WEIGHTS[:2])}", hint=purpose.fallback_hint
    )


def _check_reachable(model: str, purpose: ModelPurpose) -> None:
    """Raise ModelUnavailable at once without a network: huggingface_hub would retry for half a minute."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    address = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    if getproxies() or not address.hostname:  # a proxy resolves the name
        return
    try:
        socket.create_connection((address.hostname, address.port or 443), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError:
        raise ModelUnavailable(
            f"{purpose.noun} {model} could not be downloaded: {address.hostname} cannot be reached",
            hint=f"connect to the network, or set {purpose.setting} to a folder that holds the model",
        ) from None


def _not_cached_error(model: str, purpose: ModelPurpose) -> ModelUnavailable:
    downloader = "the package huggingface_hub, which downloads it, is not installed"
    return ModelUnavailable(
        f"{purpose.noun} {model} is not in the Hugging Face cache {_cache_folder()}, and {downloader}",
        hint=f"{install_hint('onnx')}, or set {purpose.setting} to a folder that holds the model",
    )


def first_line(error: Exception) -> str:
    """Return the first non-empty line of an error's text, or the name of its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def fingerprint_weights(file: Path) -> str:
    """Return a hash of a file's size and of pieces from all over it. A hash of all bytes would take 30 ms."""
    with file.open("rb") as weights:
        size = os.fstat(weights.fileno()).st_size
        digest = blake2b(str(size).encode(), digest_size=8)
        for number in range(_PIECES):
            weights.seek(max(size - _PIECE_BYTES, 0) * number // (_PIECES - 1))
            digest.update(weights.read(_PIECE_BYTES))
    return digest.hexdigest()
