"""Where the files of a model in ONNX form are: a folder that was named, the Hugging Face cache, or their servers.

A path begins with `/` or `~`; everything else is the id of a model. So a folder that comes with a clone never passes for
a model that was asked for by its id. The cache is read by its documented layout, which needs no package and no network.
Only an id that is not there is downloaded: naming it was the asking, and huggingface_hub has to be installed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lorelog.core.errors import ModelUnavailable

TOKENIZER = "tokenizer.json"
WEIGHTS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
"""Where exporters put the network; the first that is there is taken."""

_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files that a model is made of; what else is known of it lies beside the tokenizer."""

    weights: Path
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a model is looked for, in the words of messages, and which other files go with it where they are offered."""

    noun: str
    setting: str
    example: str
    instead: str
    """What to do when a model has no ONNX form."""
    package: str = "huggingface_hub"
    also: tuple[str, ...] = ()


RERANKING = Purpose(
    "the reranker model",
    "rerank.model",
    "cross-encoder/ms-marco-MiniLM-L6-v2",
    "choose a model with an ONNX export, or set rerank.provider to local",
)


def find_files(model: str, purpose: Purpose = RERANKING) -> ModelFiles:
    """Return the files of a model, wherever they are. Raise ModelUnavailable when they cannot be had."""
    if is_path(model):
        return _in_named_folder(Path(model).expanduser(), purpose)
    if not _ID.fullmatch(model):
        raise ModelUnavailable(
            f"{purpose.noun} {model!r} is neither a path nor the id of a model",
            hint=f"{purpose.setting} is an absolute path, or an id such as {purpose.example}",
        )
    return _in_cache(model) or _download(model, purpose)


def check_files(model: str, purpose: Purpose = RERANKING) -> None:
    """Raise ModelUnavailable when the files of a model are neither here nor to be downloaded. Asks no network."""
    from importlib.util import find_spec

    if is_path(model) or not _ID.fullmatch(model):
        find_files(model, purpose)
    elif _in_cache(model) is None and find_spec("huggingface_hub") is None:
        raise _not_cached(model, purpose)


def is_path(model: str) -> bool:
    """Say whether a model is named by its place, not by its id."""
    return model.startswith(("/", "~")) or Path(model).is_absolute()


def _in_named_folder(folder: Path, purpose: Purpose) -> ModelFiles:
    hint = f"{purpose.setting} is a folder with {TOKENIZER} and {' or '.join(WEIGHTS[:2])}"
    if not folder.is_dir():
        raise ModelUnavailable(f"{purpose.noun} is not there: {folder} is no folder", hint=hint)
    found = _in_folder(folder)
    if found is None:
        missing = TOKENIZER if _weights(folder) else WEIGHTS[0]
        raise ModelUnavailable(f"{purpose.noun} is not complete: {folder} holds no {missing}", hint=hint)
    return found


def _in_folder(folder: Path) -> ModelFiles | None:
    weights, tokenizer = _weights(folder), folder / TOKENIZER
    return ModelFiles(weights, tokenizer) if weights and tokenizer.is_file() else None


def _weights(folder: Path) -> Path | None:
    return next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)


def _in_cache(model: str) -> ModelFiles | None:
    """Look into the cache that every Hugging Face library shares; the revision named `main` first."""
    repository = _cache() / f"models--{model.replace('/', '--')}"
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
    return next(filter(None, map(_in_folder, revisions)), None)


def _cache() -> Path:
    said = os.environ
    if place := said.get("HF_HUB_CACHE") or said.get("HUGGINGFACE_HUB_CACHE"):
        return Path(place).expanduser()
    base = said.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(said.get("HF_HOME") or f"{base}/huggingface").expanduser() / "hub"


def _download(model: str, purpose: Purpose) -> ModelFiles:
    for variable in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(variable, "1")
    try:
        from huggingface_hub import hf_hub_download, list_repo_files
    except ImportError:
        raise _not_cached(model, purpose) from None
    try:
        offered = list_repo_files(model)
        name = next((name for name in WEIGHTS if name in offered), "")
        if name and TOKENIZER in offered:
            # Weights beyond two gigabytes lie in a second file, which the first one refers to by its name.
            beside = [other for other in offered if other.startswith(f"{name}_") or other == f"{name}.data"]
            beside += [other for other in purpose.also if other in offered]
            tokenizer, weights, *_ = [Path(hf_hub_download(model, file)) for file in (TOKENIZER, name, *beside)]
            return ModelFiles(weights, tokenizer)
    except Exception as error:  # its HTTP client's errors share no base, and none may end a search
        raise ModelUnavailable(
            f"{purpose.noun} {model} could not be downloaded: {_first_line(error)}",
            hint=f"check the id and the network, or set {purpose.setting} to a folder that holds the model",
        ) from error
    raise ModelUnavailable(
        f"{model} on Hugging Face holds no {TOKENIZER} with {' or '.join(WEIGHTS[:2])}",
        hint=purpose.instead,
    )


def _not_cached(model: str, purpose: Purpose) -> ModelUnavailable:
    return ModelUnavailable(
        f"{purpose.noun} {model} is not in the Hugging Face cache {_cache()}",
        hint=f"name a folder that holds it, or let it be downloaded: python -m pip install {purpose.package}",
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
