"""Secrets are referenced, never stored, shown or quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog.config import load_settings
from lorelog.config.file_editor import set_value
from lorelog.core.errors import ConfigError

KEY = "sk-live-4f9a77c2e1"


def write(path: Path, line: str) -> None:
    path.write_text(f"[embedding]\n{line}\n")


def test_reference_is_resolved(tmp_path: Path) -> None:
    """env:NAME is resolved to the variable's value in the options only."""
    write(tmp_path / "config.toml", 'api_key = "env:TEAM_KEY"')
    environment = {"TEAM_KEY": KEY}

    settings = load_settings(tmp_path, None, environment, {})

    assert settings.embed_options(environment).api_key == KEY
    assert settings.value("embedding.api_key") == "env:TEAM_KEY"
    assert KEY not in repr(settings)
    assert KEY not in repr(list(settings))
    assert KEY not in repr(settings.embed_options(environment))


@pytest.mark.parametrize("environment", [{}, {"TEAM_KEY": ""}, {"OPENAI_API_KEY": KEY}])
def test_missing_variable(tmp_path: Path, environment: dict[str, str]) -> None:
    """A reference to a missing variable is an error only when the key is needed, and the error names the variable."""
    write(tmp_path / "config.toml", 'api_key = "env:TEAM_KEY"')

    options = load_settings(tmp_path, None, environment, {}).embed_options(environment)

    assert (options.api_key, options.key_variable) == ("", "TEAM_KEY")


@pytest.mark.parametrize("written", [KEY, f"env:{KEY}", f"env: {KEY}", f"{KEY}\n"])
def test_literal_key_is_refused(tmp_path: Path, written: str) -> None:
    """A literal key is rejected by every layer with a hint, and is not quoted."""
    environment = {"LORELOG_EMBEDDING_API_KEY": written}
    user = tmp_path / "config.toml"
    errors = []
    for load in (
        lambda: load_settings(tmp_path, None, environment, {}),
        lambda: load_settings(tmp_path, None, {}, {"embedding.api_key": written}),
        lambda: set_value(user, "embedding.api_key", written, project=False),
    ):
        with pytest.raises(ConfigError) as caught:
            load()
        errors.append(caught.value)
    write(user, f"api_key = '''{written}'''")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, None, {}, {})
    errors.append(caught.value)

    for error in errors:
        assert "env:" in error.hint
        assert KEY not in error.message + error.hint + repr(error)
        assert error.__cause__ is None


@pytest.mark.parametrize("address", ["http://localhost:8080", "https://example.org/v1/", "http://[::1]:9000/v1"])
def test_plain_address(tmp_path: Path, address: str) -> None:
    """A plain URL is accepted."""
    write(tmp_path / "config.toml", f'base_url = "{address}"')

    assert load_settings(tmp_path, None, {}, {}).embed_options({}).base_url == address


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (".lorelog.toml", f'api_key = "{KEY}"', "may not set"),
        ("config.toml", f'api_key = "{KEY}', "not valid TOML"),
        ("config.toml", f'base_url = "https://me:{KEY}@example.org/v1"', "base_url is not valid"),
        ("config.toml", f'base_url = "https://example.org/v1?key={KEY}"', "base_url is not valid"),
        ("config.toml", f'base_url = "https://example.org/#{KEY}"', "base_url is not valid"),
    ],
)
def test_the_files_text_is_not_repeated(tmp_path: Path, name: str, line: str, message: str) -> None:
    """A key in a project file, in a malformed one or in a URL's password, query or fragment is rejected and not quoted."""
    write(tmp_path / name, line)

    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(tmp_path, tmp_path, {}, {})
    assert KEY not in caught.value.message + caught.value.hint
