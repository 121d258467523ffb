"""The view Settings, in a browser: each value with its origin, and its effect on the files."""

from __future__ import annotations

import pytest
from tests.page.browser import Tab
from tests.page.conftest import PageWorld

from lorelog.core.errors import ConfigError
from lorelog.wiring import change_setting, resolve_location

pytestmark = pytest.mark.slow


def edit(page: PageWorld, key: str) -> Tab:
    tab = page.open(f"#/settings?q={key}")
    tab.click(f"#setting-{key.replace('.', chr(92) + '.')} button", "Change")
    tab.wait("document.querySelector('.setting-form')")
    return tab


def test_a_value_is_saved_in_the_user_s_file(page: PageWorld) -> None:
    """A new value is in config.toml and effective, and its origin is shown."""
    tab = edit(page, "search.k")
    tab.fill(".setting-form input.mono", "9")
    tab.click(".setting-form button.primary")
    tab.wait("!document.querySelector('.setting-form')")
    tab.wait("document.querySelector('#setting-search\\\\.k .chip').innerText === 'you'")
    assert "k = 9" in (page.home / "config.toml").read_text("utf-8")
    assert len(page.call("memory.search", {"query": "cache"})["hits"]) > 5


def test_a_value_is_saved_for_the_project_and_removed_again(page: PageWorld) -> None:
    """The project's file is chosen by hand; removing the setting from it brings the default back."""
    tab = edit(page, "search.k")
    tab.fill(".setting-form input.mono", "3")
    tab.click(".setting-form label", "for this project")
    tab.click(".setting-form button.primary")
    tab.wait("document.querySelector('#setting-search\\\\.k .chip').innerText === 'project'")
    assert "k = 3" in (page.project / ".lorelog.toml").read_text("utf-8")
    assert not (page.home / "config.toml").exists()
    tab.click(".setting button", "Change")
    tab.click(".setting-form button", "Remove")
    tab.wait("document.querySelector('#setting-search\\\\.k .chip').innerText === 'default'")
    assert "k = 3" not in (page.project / ".lorelog.toml").read_text("utf-8")


@pytest.mark.parametrize(("key", "value"), [("search.k", "0"), ("search.k", "many"), ("embedding.api_key", "sk-abc")])
def test_a_value_is_refused_with_the_message_of_the_shell(page: PageWorld, key: str, value: str) -> None:
    """The page says what `lorelog config set` says, and nothing is written."""
    tab = edit(page, key)
    tab.fill(".setting-form input.mono", value)
    tab.click(".setting-form button.primary")
    tab.wait("document.querySelector('.setting-form .notice.error')")
    with pytest.raises(ConfigError) as refused:
        change_setting(resolve_location(home=page.home, project=page.project), key, value, of_project=False)
    assert refused.value.message in tab.text()
    assert refused.value.hint in tab.text()
    assert not (page.home / "config.toml").exists()


def test_a_value_of_the_environment_is_named(page: PageWorld) -> None:
    """A setting from the environment shows its variable, and a change in the file says that it has no effect."""
    tab = edit(page, "embedding.provider")
    tab.wait_text("LORELOG_EMBEDDING_PROVIDER")
    tab.choose(".setting-form select", "none")
    tab.click(".setting-form button.primary")
    tab.wait("document.querySelector('.setting-form .notice.warn')")
    assert 'provider = "none"' in (page.home / "config.toml").read_text("utf-8")


def test_a_change_in_the_shell_appears(page: PageWorld) -> None:
    """A setting that the command line changes is shown without reloading."""
    tab = page.open("#/settings?q=search.k")
    tab.wait("document.querySelector('#setting-search\\\\.k')")
    change_setting(resolve_location(home=page.home, project=page.project), "search.k", "12", of_project=False)
    tab.wait("document.querySelector('#setting-search\\\\.k .setting-value').innerText === '12'")


def test_settings_are_filtered(page: PageWorld) -> None:
    """Ten are shown first, all others in closed sections; words leave out other settings, the box those with their default."""
    tab = page.open("#/settings")
    tab.wait("document.querySelectorAll('.setting').length > 60")
    assert tab.run("[...document.querySelectorAll('.setting')].filter(e => e.checkVisibility()).length") == 10
    tab.fill(".settings-head input", "debounce")
    tab.wait("document.querySelectorAll('.setting').length === 1")
    tab.fill(".settings-head input", "")
    tab.click(".settings-head label")
    tab.wait("document.querySelectorAll('.setting').length < 10")
    tab.wait_text("LORELOG_EMBEDDING_PROVIDER")
