"""The precedence of the five layers, and the input that each rejects."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import lorelog
from lorelog.config import ChosenValue, Settings, load_settings
from lorelog.config.schema import SECTIONS, SETTINGS, SETTINGS_BY_KEY, Setting, SettingKind
from lorelog.config.settings import format_toml
from lorelog.core.errors import ConfigError
from lorelog.core.options import ChunkOptions, EmbedOptions, ScanOptions, SearchOptions
from lorelog.core.query import Fusion, Lane


class Place:
    """A temporary home and project with helpers to write and load their settings."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.project = base / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.user_file = self.home / "config.toml"
        self.project_file = self.project / ".lorelog.toml"

    def load(self, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None) -> Settings:
        return load_settings(self.home, self.project, environment or {}, flags or {})

    def error(
        self, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
    ) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(environment, flags)
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def test_defaults(place: Place) -> None:
    """Without any layer every setting has its default, and the options are those of core."""
    settings = place.load()

    assert list(settings) == [ChosenValue(setting.key, setting.default, "default") for setting in SETTINGS]
    assert settings.options(ChunkOptions) == ChunkOptions()
    assert settings.scan_options() == ScanOptions()
    assert settings.embed_options({}) == EmbedOptions()
    assert settings.search_options() == SearchOptions()
    assert (settings.tenant(), bool(settings.value("search.all_projects")), settings.roots()) == ("default", False, ())


def test_each_layer_covers_the_one_below(place: Place) -> None:
    """Defaults < user < project < environment < flags, and the origin names the layer."""
    chosen = []

    def note(settings: Settings) -> None:
        chosen.append((settings.value("search.k"), settings.origin("search.k")))

    note(place.load())
    place.user_file.write_text("[search]\nk = 11\n")
    note(place.load())
    place.project_file.write_text("[search]\nk = 12\n")
    note(place.load())
    note(place.load({"LORELOG_SEARCH_K": "13"}))
    note(place.load({"LORELOG_SEARCH_K": "13"}, {"search.k": 14}))

    assert chosen == [
        (5, "default"),
        (11, f"user: {place.user_file}"),
        (12, f"project: {place.project_file}"),
        (13, "environment: LORELOG_SEARCH_K"),
        (14, "flag"),
    ]


def test_layers_mix(place: Place) -> None:
    """A layer overrides only the settings it names."""
    place.user_file.write_text("[search]\nk = 11\nlane = 'dense'\n[embedding]\ntimeout_s = 5\n")
    place.project_file.write_text("[chunking]\nmax_chunk_size = 800\n")

    settings = place.load({"LORELOG_SEARCH_FUSION": "rrf"}, {"search.lane": Lane.LEXICAL, "search.k": None})

    assert settings.search_options() == SearchOptions(k=11, lane=Lane.LEXICAL, fusion=Fusion.RRF)
    assert settings.options(ChunkOptions) == ChunkOptions(max_chunk_size=800)
    assert settings.embed_options({}).timeout_s == 5.0
    assert type(settings.value("search.lane")) is str


def test_a_project_may_ask_to_be_left_out_and_not_to_be_taken_in(place: Place) -> None:
    """A project file may disable capture, but not enable it."""
    place.project_file.write_text("[capture]\nskip = true\n")
    assert not place.load().capture_options().enabled

    place.user_file.write_text("[capture]\nskip = true\n")
    place.project_file.write_text("[capture]\nskip = false\n")
    assert not place.load().capture_options().enabled
    assert place.load({"LORELOG_CAPTURE_SKIP": "false"}).capture_options().enabled

    place.project_file.write_text("[capture]\nenabled = true\n")
    assert "capture.enabled" in place.error().message


def test_no_project(place: Place) -> None:
    """Without a project directory no project file is read."""
    place.project_file.write_text("[search]\nk = 12\n")

    assert load_settings(place.home, None, {}, {}).value("search.k") == 5


def test_paths(place: Place, tmp_path: Path) -> None:
    """Relative paths start at the project, ~ is the user's home, and !path becomes an excluded path."""
    place.user_file.write_text('[index]\npaths = ["notes", "!notes/drafts", "~/journal", "/srv/wiki"]\n')
    (place.project / "real").mkdir()
    (place.project / "notes").symlink_to("real")

    settings = place.load()

    journal = os.path.realpath(Path("~/journal").expanduser())
    assert settings.roots() == (str(place.project / "real"), journal, os.path.realpath("/srv/wiki"))
    assert settings.scan_options().exclude_paths == (str(place.project / "real" / "drafts"),)


@pytest.mark.parametrize(
    ("text", "about", "hint"),
    [
        ("[search]\nkk = 5", "unknown setting 'search.kk'", "search.k"),
        ("[search]\nlame = 'dense'", "unknown setting 'search.lame'", "search.lane"),
        ("[serch]\nk = 5", "unknown section 'serch'", "search"),
        ("[indexing]\nexclude = []", "unknown section 'indexing'", "index"),
        ("[xyzzy]\nk = 5", "unknown section 'xyzzy'", ", ".join(SECTIONS)),
        ("k = 5", "unknown setting 'k'", "search.k"),
        ("search = 5", "search in", "[search]"),
        ("[search.deep]\nk = 5", "unknown setting 'search.deep'", ""),
    ],
)
def test_unknown_names(place: Place, text: str, about: str, hint: str) -> None:
    """An unknown key or section is an error that names it, the file and the nearest valid name."""
    place.user_file.write_text(text)

    error = place.error()
    assert about in error.message
    assert str(place.user_file) in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *(
            (f"k = {value}", "a whole number from 1 to 1000")
            for value in ("'5'", "5.0", "true", "[5]", "{a = 1}", "2026-03-02", "0", "-1", "1001", "9" * 26)
        ),
        ("lane = 'dens'", "one of hybrid, lexical, dense"),
        ("lane = 3", "one of hybrid, lexical, dense"),
        ("all_projects = 1", "true or false"),
        ("all_projects = 'yes'", "true or false"),
    ],
)
def test_bad_values(place: Place, line: str, expected: str) -> None:
    """A wrong type or a value out of range names the setting, the file and what was expected."""
    place.user_file.write_text(f"[search]\n{line}\n")

    error = place.error()
    assert f"search.{line.partition(' =')[0]} is " in error.message
    assert str(place.user_file) in error.message
    assert error.message.endswith(f"expected {expected}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key, values in {
            "index.ignore_files": ('["a/b"]', '[".."]', '"x"'),
            "index.exclude": ("[1]", '[""]', '["a\\nb"]'),
            "index.paths": ('["!"]', '["!!a"]'),
            "scope.tenant": ('"../other"', '"Team"', '""'),
            "embedding.timeout_s": ("nan", "inf", "0"),
            "embedding.provider": ('""',),
            "embedding.base_url": ('"ftp://example.org"',),
            "chunking.max_chunk_size": ("99",),
            "chunking.overlap_lines": ("51",),
        }.items()
        for value in values
    ],
)
def test_more_bad_values(place: Place, key: str, value: str) -> None:
    """Values that would fail later are rejected when they are loaded."""
    section, _, field = key.partition(".")
    place.user_file.write_text(f"[{section}]\n{field} = {value}\n")

    assert place.error().message.startswith(key)


def test_covered_errors_are_found(place: Place) -> None:
    """A bad value is an error even if a higher layer overrides it."""
    place.user_file.write_text("[search]\nk = 'many'\n")

    assert str(place.user_file) in place.error(flags={"search.k": 3}).message


@pytest.mark.parametrize(
    ("text", "where"),
    [
        *(("[search\nk = 5", ""), ("[search]\nk == 5\n", "line 2, column 4"), ("a = 1\na = 2", "")),
        *(("\x00", ""), ("x = " + "[" * 50_000, "")),
    ],
)
def test_malformed_file(place: Place, text: str, where: str) -> None:
    """A malformed file is an error that names it, with line and column, not a traceback."""
    place.user_file.write_text(text)

    assert f"{place.user_file} is not valid TOML" in place.error().message
    assert where in place.error().message


def test_unreadable_files(place: Place) -> None:
    """A file that is not text, not a regular file or too large is an error that names it; a home that is a file has the system's reason."""
    place.user_file.write_bytes(b"[search]\nk = 5 # caf\xe9\n")
    assert place.error().message == f"{place.user_file} is not UTF-8 text (line 2)"

    place.user_file.write_bytes(b"#" * 1_000_001)
    assert "larger than 1,000,000 bytes" in place.error().message

    place.user_file.unlink()
    place.user_file.mkdir()
    assert f"cannot read settings from {place.user_file}: it is not a regular file" in place.error().message

    os.mkfifo(place.project_file)
    place.user_file.rmdir()
    assert str(place.project_file) in place.error().message

    place.home.rmdir()
    place.home.write_text("")
    assert "Not a directory" in place.error().message


@pytest.mark.parametrize(
    "setting", [setting for setting in SETTINGS if not setting.project_allowed], ids=lambda setting: setting.key
)
def test_project_may_not(place: Place, setting: Setting) -> None:
    """A project file with a key that could redirect data or credentials is rejected for any value."""
    place.project_file.write_text(f"[{setting.section}]\n{setting.field} = {format_toml(setting.default)}\n")

    error = place.error()
    assert error.message.startswith(f"{place.project_file} sets {setting.key}")
    assert "config.toml" in error.hint
    assert setting.variable in error.hint


def test_a_section_of_memsearch_names_the_import(tmp_path: Path) -> None:
    """Settings copied from memsearch are refused with the command that translates them."""
    for section in ("milvus", "plugins.claude-code.summarize"):
        (tmp_path / "config.toml").write_text(f'[{section}]\nuri = "x"\n', "utf-8")
        with pytest.raises(ConfigError) as refused:
            load_settings(tmp_path, None, {}, {})
        assert "lorelog import memsearch --settings" in refused.value.hint


def test_a_project_may_set_nothing_else() -> None:
    """A project file sets how its text is cut, scanned and ranked, and that it is not captured; all else is the user's."""
    opened = {setting.key for setting in SETTINGS if setting.project_allowed}

    assert {setting for setting in opened if not setting.startswith(("chunking.", "search."))} == {
        *("index.paths", "index.exclude", "index.extensions", "index.ignore_files", "index.max_file_bytes"),
        *("embedding.batch_size", "rerank.candidates", "rerank.timeout_s", "capture.skip", "capture.session_headings"),
    }
    assert "search.all_projects" not in opened


@pytest.mark.parametrize("entry", ["..", "/etc", "~", "!..", "docs/../..", "away", "!away/deep"])
def test_project_paths_stay_inside(place: Place, entry: str) -> None:
    """A project file's index.paths cannot leave the project, not even through a symbolic link."""
    (place.project / "away").symlink_to("/etc")
    place.project_file.write_text(f'[index]\npaths = ["docs", "{entry}"]\n')

    error = place.error()
    assert f"{entry!r}, which is outside the project" in error.message


def test_project_paths_inside(place: Place) -> None:
    """A project file's index.paths may be any path inside the project."""
    place.project_file.write_text('[index]\npaths = [".", "docs", "!docs/old", "a/../b"]\n')

    settings = place.load()

    assert settings.roots() == (str(place.project), str(place.project / "docs"), str(place.project / "b"))
    assert settings.scan_options().exclude_paths == (str(place.project / "docs" / "old"),)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("LORELOG_SEARCH_K", " 7 ", 7),
        ("LORELOG_SEARCH_ALL_PROJECTS", "TRUE", True),
        ("LORELOG_SEARCH_ALL_PROJECTS", "off", False),
        ("LORELOG_EMBEDDING_TIMEOUT_S", "2.5", 2.5),
        ("LORELOG_EMBEDDING_MODEL", "team/model-1", "team/model-1"),
        ("LORELOG_INDEX_EXCLUDE", "drafts/, *.tmp.md,", ("drafts/", "*.tmp.md")),
        ("LORELOG_INDEX_EXCLUDE", '["a,b", "c"]', ("a,b", "c")),
        ("LORELOG_INDEX_IGNORE_FILES", "[]", ()),
        ("LORELOG_SEARCH_K", "", 5),
    ],
)
def test_environment(place: Place, name: str, text: str, value: object) -> None:
    """Variables are parsed by the setting's type; lists are JSON or comma-separated; an empty one is ignored."""
    key = next(setting.key for setting in SETTINGS if setting.variable == name)

    assert place.load({name: text}).value(key) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LORELOG_SEARCH_K", "five"),
        ("LORELOG_SEARCH_K", "1_0"),
        ("LORELOG_SEARCH_K", "5.0"),
        ("LORELOG_SEARCH_K", "9" * 5000),
        ("LORELOG_SEARCH_ALL_PROJECTS", "maybe"),
        ("LORELOG_EMBEDDING_TIMEOUT_S", "nan"),
        ("LORELOG_EMBEDDING_TIMEOUT_S", "soon"),
        ("LORELOG_INDEX_EXCLUDE", "[drafts]"),
        ("LORELOG_INDEX_EXCLUDE", "[" * 50_000),
        ("LORELOG_INDEX_EXCLUDE", "[1]"),
    ],
)
def test_bad_environment(place: Place, name: str, text: str) -> None:
    """A bad variable is an error that names the variable and stays short."""
    message = place.error({name: text}).message

    assert f"in the environment variable {name}: expected" in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LORELOG_SEARCH_LANES", "LORELOG_SEARCH_LANE"),
        ("LORELOG_INDEX_EXCLUDES", "LORELOG_INDEX_EXCLUDE"),
        ("LORELOG_SERACH_K", "LORELOG_SEARCH_K"),
        ("LORELOG_EMBED_PROVIDER", "LORELOG_EMBEDDING_PROVIDER"),
        ("LORELOG_SCOPE_ZZZZZZZZZ", "lorelog docs configuration"),
        ("LORELOG_SEARCH_LANE", "did you mean lexical?"),
    ],
)
def test_unknown_variable(place: Place, name: str, hint: str) -> None:
    """An unknown variable that resembles a setting is an error with the nearest name, a misspelt choice with the nearest one."""
    error = place.error({name: "lexcal"})

    assert name in error.message
    assert hint in error.hint


def test_other_variables(place: Place) -> None:
    """Other programs' variables are ignored."""
    others = {"LORELOG_HOME": "/x", "LORELOG_PROJECT": "/y", "LORELOG_HOOK_DEBUG": "1", "SEARCH_K": "no"}

    assert place.load(others).origin("search.k") == "default"


def test_variables_that_the_program_reads_itself(place: Place) -> None:
    """Whatever variable the source names is a setting's or is accepted: a hook starts the capture with LORELOG_HOOKS=off."""
    source = Path(lorelog.__file__).parent
    names = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'"(LORELOG_[A-Z_]*[A-Z])"', path.read_text("utf-8"))
    }
    assert {"LORELOG_HOOKS", "LORELOG_DEBUG", "LORELOG_HOOK_TIMEOUT_S"} <= names
    known = {setting.variable for setting in SETTINGS}

    assert place.load(dict.fromkeys(names - known, "x")).origin("search.k") == "default"


def test_flags(place: Place) -> None:
    """Flags take typed values or text, and an unknown one is an error with the nearest key."""
    settings = place.load(flags={"search.k": "9", "index.exclude": ["a"], "search.all_projects": True})

    assert (settings.value("search.k"), settings.value("index.exclude")) == (9, ("a",))
    assert bool(settings.value("search.all_projects"))
    assert place.error(flags={"search.kay": 3}).hint == "did you mean search.k?"


def test_unknown_key_asked(place: Place) -> None:
    """An unknown key is an error that suggests the nearest one."""
    settings = place.load()

    for ask in (settings.value, settings.origin):
        with pytest.raises(ConfigError, match="unknown setting") as caught:
            ask("embedding.modle")
        assert caught.value.hint == "did you mean embedding.model?"
    with pytest.raises(ConfigError, match="'search' is a section") as caught:
        settings.value("search")
    assert "search.k" in caught.value.hint


def test_every_setting_is_declared_soundly() -> None:
    """Keys are section.field, unique and described, and every default is valid."""
    from lorelog.config.settings import coerce_value

    assert len(SETTINGS_BY_KEY) == len(SETTINGS) == len({setting.variable for setting in SETTINGS})
    for setting in SETTINGS:
        assert setting.section in SECTIONS
        assert setting.field
        assert setting.meaning.endswith(".")
        assert coerce_value(setting, setting.default, "its own declaration") == setting.default
        assert (setting.kind is SettingKind.LIST) == isinstance(setting.default, tuple)
