"""Editing a settings file changes one setting only."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from lorelog.config import PROJECT_FILE, USER_FILE, load_settings
from lorelog.config.file_editor import render_initial_file, set_value, unset_value, write_initial_file
from lorelog.config.schema import SETTINGS, Setting, SettingKind, SettingValue
from lorelog.core.errors import ConfigError

COMMENTED = """\
# my settings, do not lose this

[search]        # how I search
lane = "dense"  # words fail me
k = 7           # a week

[index]
exclude = [
    "drafts/",  # never these
]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / USER_FILE


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def words(characters: str) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=characters), min_size=1)


def values(setting: Setting) -> st.SearchStrategy[SettingValue]:
    if setting.choices:
        return st.sampled_from(setting.choices)
    special: dict[str, st.SearchStrategy[SettingValue]] = {
        "embedding.model": words(""),
        "index.paths": st.lists(words("!")).map(tuple),
        "index.exclude": st.lists(words("")).map(tuple),
        "index.ignore_files": st.lists(words("/\\.")).map(tuple),
    }
    if setting.key in special:
        return special[setting.key]
    if setting.kind is SettingKind.LIST:
        return st.lists(st.from_regex(setting.pattern, fullmatch=True)).map(tuple)
    if setting.kind is SettingKind.WHOLE:
        return st.integers(int(setting.limits[0]), int(setting.limits[1]))
    if setting.kind is SettingKind.NUMBER:
        return st.floats(*setting.limits)
    return st.booleans() if setting.kind is SettingKind.SWITCH else st.from_regex(setting.pattern, fullmatch=True)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(25))
@given(data=st.data())
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_set_then_get(tmp_path: Path, setting: Setting, data: st.DataObject) -> None:
    """Any valid value is read back as it was set, and everything else is unchanged."""
    value = data.draw(values(setting))
    path = tmp_path / USER_FILE
    path.write_text(COMMENTED)
    raw = value if isinstance(value, str) else json.dumps(value)

    assert set_value(path, setting.key, raw, project=False) == value

    loaded = load_settings(tmp_path, None, {}, {})
    assert (loaded.value(setting.key), loaded.origin(setting.key)) == (value, f"user: {path}")
    before = {"search.lane": "dense", "search.k": 7, "index.exclude": ("drafts/",)}
    assert {key: loaded.value(key) for key in before} == before | (
        {setting.key: value} if setting.key in before else {}
    )


def test_comments_stay(path: Path) -> None:
    """Setting and removing values keeps every comment, the order and the other lines."""
    path.write_text(COMMENTED)

    set_value(path, "search.k", "9", project=False)
    assert path.read_text() == COMMENTED.replace("k = 7 ", "k = 9 ")

    assert unset_value(path, "search.lane", project=False)
    text = path.read_text()
    assert "lane" not in text
    for comment in ("# my settings, do not lose this", "# how I search", "# a week", "# never these"):
        assert comment in text


@pytest.mark.parametrize("text", ["search.k = 7\n", "search = {k = 7}\n", "[search]\r\nk = 7\r\n", "[index]\n", ""])
def test_any_spelling_of_toml(tmp_path: Path, text: str, path: Path) -> None:
    """Dotted keys, inline tables, CRLF lines and missing sections are edited in their own style."""
    path.write_bytes(text.encode())

    set_value(path, "search.k", "9", project=False)
    assert load_settings(tmp_path, None, {}, {}).value("search.k") == 9

    assert unset_value(path, "search.k", project=False)
    assert load_settings(tmp_path, None, {}, {}).origin("search.k") == "default"


def test_user_file_is_private(tmp_path: Path) -> None:
    """The user file and its new directories become private, even if the file was not."""
    path = tmp_path / "new" / "home" / USER_FILE

    set_value(path, "search.k", "9", project=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    path.chmod(0o644)
    set_value(path, "search.k", "8", project=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(path.parent) == [USER_FILE]


def test_project_file_keeps_its_mode(tmp_path: Path) -> None:
    """A project file keeps its permissions."""
    path = tmp_path / PROJECT_FILE
    path.write_text("")
    path.chmod(0o640)

    set_value(path, "search.k", "9", project=True)

    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_link_stays_a_link(tmp_path: Path) -> None:
    """A settings file that is a symbolic link stays one, and its target is changed."""
    kept = tmp_path / "dotfiles" / "lorelog.toml"
    kept.parent.mkdir()
    kept.write_text("[search]\nk = 7\n")
    path = tmp_path / USER_FILE
    path.symlink_to(kept)

    set_value(path, "search.k", "9", project=False)

    assert path.is_symlink()
    assert kept.read_text() == "[search]\nk = 9\n"


@pytest.mark.parametrize(
    ("key", "raw"),
    [("search.k", "0"), ("search.k", "many"), ("search.kk", "5"), ("search", "5"), ("embedding.model", "a\udcffb")],
)
def test_bad_value_changes_nothing(tmp_path: Path, key: str, raw: str, path: Path) -> None:
    """An invalid value leaves the file, or its absence, unchanged."""
    with pytest.raises(ConfigError):
        set_value(path, key, raw, project=False)
    assert names(tmp_path) == []

    path.write_text(COMMENTED)
    with pytest.raises(ConfigError):
        set_value(path, key, raw, project=False)
    assert path.read_text() == COMMENTED
    assert names(tmp_path) == [USER_FILE]


@pytest.mark.parametrize("text", ["[search\nk = 7\n", "search = 5\n", "[[search]]\nk = 7\n"])
def test_malformed_file_is_refused_untouched(path: Path, text: str) -> None:
    """A malformed file, or one whose section is not a table, is rejected and left unchanged."""
    path.write_text(text)

    with pytest.raises(ConfigError, match=USER_FILE):
        set_value(path, "search.k", "9", project=False)
    assert path.read_text() == text


def test_project_restrictions(tmp_path: Path) -> None:
    """Keys that a project file may not contain cannot be set there."""
    path = tmp_path / PROJECT_FILE

    for key, raw in (("embedding.base_url", "https://example.org"), ("index.paths", "../other")):
        with pytest.raises(ConfigError, match=key):
            set_value(path, key, raw, project=True)
    assert not path.exists()
    assert set_value(path, "index.paths", "docs, !docs/old", project=True) == ("docs", "!docs/old")


def test_unset(path: Path) -> None:
    """Removing reports whether the key was there; a stray key can be removed, an unknown one is an error."""
    assert unset_value(path, "search.k", project=False) is False
    assert not path.exists()

    path.write_text("[serch]\nkk = 5\n")
    assert unset_value(path, "serch.kk", project=False) is True
    with pytest.raises(ConfigError, match="unknown section 'serch'"):
        unset_value(path, "serch.kk", project=False)


def test_unwritable(tmp_path: Path) -> None:
    """An unwritable path is an error that names it."""
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(ConfigError, match=r"cannot (read|write) settings"):
        set_value(blocked / USER_FILE, "search.k", "9", project=False)
    with pytest.raises(ConfigError, match="cannot write settings"):
        write_initial_file(blocked / USER_FILE, project=False)


@pytest.mark.slow
@pytest.mark.parametrize("project", [False, True])
def test_initial_text(tmp_path: Path, project: bool) -> None:  # noqa: FBT001
    """The initial file sets nothing; with its # removed it contains every allowed default."""
    (tmp_path / (PROJECT_FILE if project else USER_FILE)).write_text(render_initial_file(project=project))
    loaded = load_settings(tmp_path, tmp_path, {}, {})
    assert all(chosen.origin == "default" for chosen in loaded)

    shown = [setting for setting in SETTINGS if setting.project_allowed or not project]
    lines = [line.removeprefix("# ") for line in render_initial_file(project=project).splitlines()]
    fields = {f"{setting.field} =" for setting in shown}
    active = "\n".join(line for line in lines if line.startswith("[") or any(map(line.startswith, fields)))
    table = tomllib.loads(active)
    assert sum(map(len, table.values())) == len(shown)
    for setting in shown:
        value = table[setting.section][setting.field]
        assert (tuple(value) if isinstance(value, list) else value) == setting.default
        assert setting.meaning.split(".")[0][:40] in render_initial_file(project=project)


def test_initial_file_never_overwrites(path: Path) -> None:
    """`config init` does not overwrite a file."""
    path.write_text("[search]\nk = 7\n")

    with pytest.raises(ConfigError, match="already exists"):
        write_initial_file(path, project=False)
    assert path.read_text() == "[search]\nk = 7\n"


def test_setting_after_init(path: Path) -> None:
    """A value set in an initial file goes into its section."""
    write_initial_file(path, project=False)

    set_value(path, "search.k", "9", project=False)

    text = path.read_text()
    assert text.count("[search]") == 1
    assert len(text) == len(render_initial_file(project=False)) + len("k = 9\n")
