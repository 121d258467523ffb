"""A missing extra is one line with the command of the installer in use."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from lorelog.core.errors import MissingExtra
from lorelog.core.extras import EXTRAS, install_hint, require_extra

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/ana/.local/share/uv/tools/lorelog", "uv tool install 'lorelog[code]'"),
        ("/home/ana/.local/share/pipx/venvs/lorelog", "pipx install --force 'lorelog[code]'"),
        ("C:\\Users\\ana\\pipx\\venvs\\lorelog", "pipx install --force 'lorelog[code]'"),
        ("/srv/app/.venv", "python -m pip install 'lorelog[code]'"),
    ],
)
@pytest.mark.parametrize("clone", ["", "file:///srv/lorelog"])
def test_the_hint_suits_the_installer(
    clone: str, prefix: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is the command of the tool that made the environment; uv and pipx are told where an installation came from."""
    for name, folder in (("lorelog", ""), ("lorelog_encoder", "/encoder")):
        (place := tmp_path / f"{name}-0.1.0.dist-info").mkdir()
        (place / "METADATA").write_text(f"Name: {name}\n", "utf-8")
        if clone:
            (place / "direct_url.json").write_text(f'{{"url": "{clone}{folder}"}}', "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    if clone and "pip install" not in command:
        beside = "--with" if command.startswith("uv") else "--preinstall"
        command = command[:-1] + f" @ {clone}' {beside} 'lorelog-encoder @ {clone}/encoder'"
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", "/srv/app/.venv/bin/python")
    monkeypatch.setattr("shutil.which", lambda name: "/srv/app/.venv/bin/python")
    monkeypatch.setattr("lorelog.core.extras._is_installed", lambda package: False)
    assert install_hint("code").endswith(command)


def test_an_extra_is_added_to_this_environment_and_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside an activated environment the Python is named; uv and pipx, which start anew, are given all extras."""
    monkeypatch.setattr(sys, "executable", "/srv/my app/.venv/bin/python")
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/python")
    assert install_hint("code").endswith("'/srv/my app/.venv/bin/python' -m pip install 'lorelog[code]'")
    monkeypatch.setattr(sys, "prefix", "/home/ana/.local/share/uv/tools/lorelog")
    monkeypatch.setattr("lorelog.core.extras._is_installed", lambda package: package == "cryptography")
    assert "uv tool install 'lorelog[code,signing]" in install_hint("code")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the feature and the package; an installed extra raises nothing."""
    require_extra("signing", "a signature")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match="a signature needs the package cryptography, which is not installed"):
        require_extra("signing", "a signature")


def test_extras_are_those_of_the_distribution() -> None:
    """Every extra that is hinted at can be installed, and none of its packages is a base dependency."""
    assert EXTRAS.keys() == PROJECT["optional-dependencies"].keys() - {"all", "dev"}
    base = "\n".join(PROJECT["dependencies"]).replace("-", "_").lower()
    assert not [package for packages in EXTRAS.values() for package in packages if package in base]
