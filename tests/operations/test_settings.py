"""`settings.list` and `settings.set`: the settings files, with the checks of `lorelog config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import ConfigError
from lorelog.operations.dispatch import ClientIdentity, Dispatcher


@pytest.fixture
def person(tmp_path: Path, home: Path) -> ClientIdentity:
    """A person in an empty project."""
    (tmp_path / "p").mkdir()
    return ClientIdentity(str(tmp_path / "p"), {"LORELOG_EMBEDDING_PROVIDER": "fake"}, str(home))


def call(person: ClientIdentity, op: str, **arguments: Any) -> dict[str, Any]:
    return Dispatcher().call(op, arguments, person)


def find(reply: dict[str, Any], key: str) -> dict[str, Any]:
    found: dict[str, Any] = next(setting for setting in reply["settings"] if setting["key"] == key)
    return found


def test_each_setting_has_its_value_origin_and_accepted_values(person: ClientIdentity) -> None:
    """A default, a value of the environment and one of the user's file are told apart."""
    call(person, "settings.set", key="search.k", value="9")
    listed = call(person, "settings.list")
    assert (find(listed, "search.k")["value"], find(listed, "search.k")["layer"]) == (9, "user")
    assert find(listed, "search.k")["origin"] == f"user: {listed['user_file']}"
    assert find(listed, "embedding.provider")["origin"] == "environment: LORELOG_EMBEDDING_PROVIDER"
    assert find(listed, "search.lane")["layer"] == "default"
    assert "hybrid" in find(listed, "search.lane")["choices"]


def test_a_setting_is_removed_and_a_project_s_own_is_kept(person: ClientIdentity) -> None:
    """Without a value the setting is taken out of the one file; the other layer applies then."""
    call(person, "settings.set", key="search.k", value="9")
    assert call(person, "settings.set", key="search.k", value="3", local=True)["setting"]["value"] == 3
    assert Path(person.directory, ".lorelog.toml").read_text("utf-8").strip().endswith("k = 3")
    assert call(person, "settings.set", key="search.k", local=True)["setting"]["value"] == 9
    assert not call(person, "settings.set", key="search.k", local=True)["changed"]


def test_a_value_that_another_layer_overrides_is_said_to_have_no_effect(person: ClientIdentity) -> None:
    """A value is written although the environment overrides it, and the reply says so."""
    reply = call(person, "settings.set", key="embedding.provider", value="none")
    assert reply["setting"]["value"] == "fake"
    assert reply["notes"][0].startswith("environment: LORELOG_EMBEDDING_PROVIDER takes precedence")


@pytest.mark.parametrize(
    ("key", "value", "local"), [("search.k", "0", False), ("no.such", "1", False), ("llm.provider", "openai", True)]
)
def test_a_value_that_the_shell_refuses_is_refused(
    person: ClientIdentity, key: str, value: str, *, local: bool
) -> None:
    """Limits, unknown names and keys that a project must not set are errors, and no file is written."""
    with pytest.raises(ConfigError):
        call(person, "settings.set", key=key, value=value, local=local)
    assert not Path(person.home or "", "config.toml").exists()
    assert not Path(person.directory, ".lorelog.toml").exists()
