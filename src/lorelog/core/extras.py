"""Optional parts of the installation, and the command that adds one to the way lorelog was installed."""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import MissingExtra

EXTRAS = {
    "code": ("tree_sitter",),
    "signing": ("cryptography",),
    "lsp": ("pygls",),
    "milvus": ("pymilvus", "milvus_lite"),
    "local": ("sentence_transformers",),
    "onnx": ("tokenizers", "huggingface_hub"),
}
"""The packages that each extra of the distribution installs, by import name."""


def require_extra(extra: str, feature: str) -> None:
    """Raise MissingExtra unless the packages of an extra are installed. Imports none of them."""
    if missing := missing_package(extra):
        raise missing_extra(extra, feature, missing)


def missing_extra(extra: str, feature: str, package: str = "") -> MissingExtra:
    """Return the error for a feature whose extra is not installed."""
    package = package or missing_package(extra) or EXTRAS[extra][0]
    return MissingExtra(f"{feature} needs the package {package}, which is not installed", hint=install_hint(extra))


def missing_package(extra: str) -> str:
    """Return the first package of an extra that is not installed, or an empty string."""
    return next((package for package in EXTRAS[extra] if not _is_installed(package)), "")


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, for the installer that this Python environment belongs to.

    uv and pipx make the environment anew, so their commands name the extras that are installed already, too.
    """
    program = installer()
    if program == "pip":
        return f"install it: {_python()} -m pip install 'lorelog[{extra}]'"
    names = ",".join(name for name in EXTRAS if name == extra or not missing_package(name))
    command, beside = ("uv tool install", "--with") if program == "uv" else ("pipx install --force", "--preinstall")
    encoder = _origin("lorelog-encoder")
    model = f" {beside} 'lorelog-encoder{encoder}'" if encoder else ""
    return f"install it: {command} 'lorelog[{names}]{_origin('lorelog')}'{model}"


def _origin(name: str) -> str:
    """Return ` @ URL` for a distribution that was installed from a folder or file: an index may not have it."""
    from importlib.metadata import distribution
    from json import loads

    origin = distribution(name).read_text("direct_url.json")
    return f" @ {loads(origin)['url']}" if origin else ""


def installer() -> str:
    """Return which program this Python environment belongs to: uv, pipx or pip."""
    prefix = sys.prefix.replace("\\", "/")
    return "uv" if "/uv/tools/" in prefix else "pipx" if "/pipx/venvs/" in prefix else "pip"


def _python() -> str:
    """Return `python` if the shell finds this environment's Python by that name, else the path."""
    from shlex import quote
    from shutil import which

    found = which("python")
    if not sys.executable or (found and os.path.dirname(found) == os.path.dirname(sys.executable)):
        return "python"
    return quote(sys.executable)


def _is_installed(package: str) -> bool:
    from importlib.util import find_spec

    if package in sys.modules:
        return sys.modules[package] is not None
    return find_spec(package) is not None
