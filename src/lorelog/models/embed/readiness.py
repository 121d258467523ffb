"""Readiness check of an embedding provider: its key, packages and files. Opens no connection and loads no model.

For diagnostics: it raises the error of the first call as far as that can be determined locally.
"""

from __future__ import annotations

from importlib.util import find_spec

from lorelog.core.errors import ModelUnavailable
from lorelog.core.extras import install_hint
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.models.embed import PROVIDERS, open_embedder

_RUNTIME_PACKAGES = ("numpy", "onnxruntime")


def check_ready(options: EmbedOptions) -> str:
    """Return a description of the embedder. Raise ConfigError or ModelUnavailable if something is missing."""
    embedder = open_embedder(options)
    try:
        location = _check(embedder, options)
    finally:
        embedder.close()
    return f"{embedder.provider}/{embedder.model}{location}"


def _check(embedder: Embedder, options: EmbedOptions) -> str:
    from lorelog.models.embed.remote import RemoteEmbedder

    if isinstance(embedder, RemoteEmbedder):
        return f" at {embedder.describe_server()}"
    if options.provider in {"builtin", "onnx"}:
        _check_packages("install it: python -m pip install numpy onnxruntime", *_RUNTIME_PACKAGES)
    if options.provider == "builtin":
        _check_builtin(options)
    if options.provider == "onnx":
        from lorelog.models.embed.onnx import check_model_files

        _check_packages(install_hint("onnx"), "tokenizers")
        check_model_files(options.model or PROVIDERS["onnx"].default_model)
    if options.provider == "local":
        _check_packages(install_hint("local"), "sentence_transformers")
    return ""


def _check_packages(hint: str, *packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ModelUnavailable(f"the package {missing[0]} is not installed", hint=hint)


def _check_builtin(options: EmbedOptions) -> None:
    """Compare the model's files with their SHA-256, as far as the encoder package is there to name it."""
    import hashlib
    from pathlib import Path

    from lorelog.models.embed.builtin import encoder_folder
    from lorelog.models.onnx_files import REINSTALL_HINT, VOCABULARY_FILE, WEIGHTS_FILE

    folder = Path(options.model) if Path(options.model).is_absolute() else encoder_folder()
    try:
        from lorelog_encoder import SHA256
    except ImportError:
        SHA256 = {}  # noqa: N806  # a packager may leave the package out and set the folder
    for name in (VOCABULARY_FILE, WEIGHTS_FILE):
        try:
            with (folder / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelUnavailable(
                f"the built-in model is not installed: {folder / name}: {error.strerror}", hint=REINSTALL_HINT
            ) from error
        if SHA256.get(name, found) != found:
            raise ModelUnavailable(
                f"{folder / name} is not the file that belongs to lorelog-encoder: its SHA-256 is {found}",
                hint=f"{REINSTALL_HINT}; for another model set embedding.provider to onnx",
            )
