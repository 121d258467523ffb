"""Readiness check of an embedding provider: its key, packages and files. Opens no connection and loads no model.

For diagnostics: it raises the error of the first call as far as that can be determined locally.
"""

from __future__ import annotations

from importlib.util import find_spec

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.models.embed import PROVIDERS, open_embedder

_ONNX_PACKAGES = ("numpy", "onnxruntime", "tokenizers")


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
        _check_packages("numpy onnxruntime tokenizers", *_ONNX_PACKAGES)
    if options.provider == "builtin":
        _check_builtin()
    if options.provider == "onnx":
        from lorelog.models.embed.onnx import check_model_files

        check_model_files(options.model or PROVIDERS["onnx"].default_model)
    if options.provider == "local":
        _check_packages("'lorelog[local]'", "sentence_transformers")
    return ""


def _check_packages(to_install: str, *packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ModelUnavailable(
            f"the package {missing[0]} is not installed", hint=f"install it: python -m pip install {to_install}"
        )


def _check_builtin() -> None:
    from lorelog.models.embed.builtin import MODEL_FOLDER

    if not (MODEL_FOLDER / "model.onnx").is_file():
        raise ModelUnavailable(
            f"the built-in model is not installed: {MODEL_FOLDER} has no model.onnx",
            hint="reinstall lorelog; in a source checkout run: python scripts/fetch_model.py",
        )
