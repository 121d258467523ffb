"""A scope file keeps memories apart, asks and never takes, and fails closed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lorelog.core.errors import ConfigError
from lorelog.services.places.workspace import find_scope_file
from lorelog.wiring import resolve_location, settings_at


def scope(directory: Path, **entry: object) -> Path:
    file = directory / ".lorelog" / "scope.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(entry), "utf-8")
    return file


def allow(home: Path, *tenants: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(f"[scope]\ntenants = {json.dumps(tenants)}\n", "utf-8")


def test_an_allowed_tenant_is_used(tmp_path: Path, home: Path) -> None:
    """From the directory and from below it, the tenant that the file names holds."""
    scope(tmp_path, tenant="work")
    allow(home, "work")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    for start in (tmp_path, below):
        assert settings_at(resolve_location(project=start)).tenant() == "work"


def test_a_tenant_must_be_allowed(tmp_path: Path) -> None:
    """A clone cannot open another tenant's memories by itself."""
    scope(tmp_path, tenant="work")

    with pytest.raises(ConfigError, match="not allowed") as raised:
        settings_at(resolve_location(project=tmp_path))
    assert "scope.tenants" in raised.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"work"', '{"tenant": 3}', '{"tenant": ""}', '{"tenant": "a", "x": 1}', '{"project": "/etc"}'],
)
def test_a_malformed_file_is_an_error(tmp_path: Path, text: str) -> None:
    """Nothing falls back to the default tenant because of a typing error."""
    scope(tmp_path).write_text(text, "utf-8")

    with pytest.raises(ConfigError, match=r"scope\.json"):
        resolve_location(project=tmp_path)


def test_a_directory_or_link_is_not_a_scope_file(tmp_path: Path) -> None:
    """Neither a directory nor a link to somewhere else is taken for a scope file."""
    file = scope(tmp_path)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="regular file"):
        find_scope_file(str(tmp_path))
    file.rmdir()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="regular file"):
        find_scope_file(str(tmp_path))
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="regular file"):
        find_scope_file(str(tmp_path))


def test_an_explicit_tenant_leaves_the_file_out(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names a tenant gets neither the file's tenant nor its project, not even its error."""
    scope(tmp_path, tenant="work", project=".")
    below = tmp_path / "sub"
    below.mkdir()
    allow(home, "work")
    borrowed = resolve_location(project=below)
    own = resolve_location(project=below, tenant="other")

    assert borrowed.project.id == str(tmp_path)
    assert own.project.id == str(below)
    assert settings_at(own, {"scope.tenant": "other"}).tenant() == "other"
    monkeypatch.setenv("LORELOG_SCOPE_TENANT", "third")
    assert settings_at(resolve_location(project=below)).tenant() == "third"
    (tmp_path / ".lorelog" / "scope.json").write_text("broken", "utf-8")
    assert settings_at(resolve_location(project=below)).tenant() == "third"


def test_the_nearest_file_counts(tmp_path: Path, home: Path) -> None:
    """An inner scope file takes the place of an outer one."""
    scope(tmp_path, tenant="outer")
    inner = tmp_path / "inner"
    scope(inner, tenant="inner")
    allow(home, "outer", "inner")

    assert settings_at(resolve_location(project=inner)).tenant() == "inner"


def test_a_scope_file_in_the_home_is_ignored(home: Path) -> None:
    """What lies in the home directory itself speaks for nobody: every directory is below it."""
    scope(home.parent, tenant="work")
    below = home.parent / "projects"
    below.mkdir()

    assert find_scope_file(str(below)) is None
