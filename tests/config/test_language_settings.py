"""Settings of language models: inheritance of [summarize] from [llm], and keys of memsearch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog.config import Settings, load_settings
from lorelog.config.file_editor import set_value, unset_value
from lorelog.config.schema import RENAMED_KEYS, SECTIONS, SETTINGS_BY_KEY
from lorelog.core.errors import ConfigError
from lorelog.core.options import LanguageOptions, SpendOptions, SummarizeOptions

KEY = "sk-Sesame-0123456789"
OLD = """\
[compact]
llm_provider = "anthropic"
llm_model = "claude-x"
base_url = "https://proxy.example/v1"
api_key = "env:TEAM_KEY"
prompt_file = "~/compact.txt"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path


def load(home: Path, text: str = "", **flags: object) -> Settings:
    (home / "config.toml").write_text(text, "utf-8")
    return load_settings(home, home / "project", {}, {key.replace("__", "."): value for key, value in flags.items()})


def test_no_model_is_called_by_default(home: Path) -> None:
    """By default no language model is used, and the limits are those of core."""
    settings = load(home)

    assert settings.language_options({}) == LanguageOptions()
    assert settings.summarize_options({}) == SummarizeOptions()
    assert settings.spend_options() == SpendOptions()
    assert (settings.text("prompts.compact"), settings.warnings) == ("", ())


def test_what_is_chosen_is_what_is_opened(home: Path) -> None:
    """Every setting of [llm] reaches the options; the key comes from its variable and is hidden in the repr."""
    settings = load(
        home,
        '[llm]\nprovider = "gemini"\nmodel = "m"\nbase_url = "http://h/v1"\napi_key = "env:MINE"\ncommand = "x y"\n'
        'timeout_s = 7\ndaily_tokens = 8\nwindow_tokens = 9\n[prompts]\ncompact = "c.md"\nsummarize = "s.md"\n'
        "[ollama]\nmanage = true\n",
    )

    options = settings.language_options({"MINE": KEY})
    assert options == LanguageOptions("gemini", "m", "http://h/v1", KEY, "MINE", "x y", 7.0, 8, 9, options.ollama)
    assert options.ollama.manage
    assert KEY not in repr(options)
    assert settings.spend_options() == SpendOptions(200_000, 8)
    assert (settings.text("prompts.compact"), settings.summarize_options({}).prompt) == ("c.md", "s.md")


CHOSEN = (
    '[llm]\nprovider = "openai"\nmodel = "big"\nbase_url = "http://llm/v1"\napi_key = "env:LLM"\nwindow_tokens = 9\n'
)
ENVIRONMENT = {"LLM": "of-llm", "NOTES": "of-notes"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("none", "", "", "")),
        ('[summarize]\nprovider = "llm"\n', ("openai", "big", "http://llm/v1", "of-llm")),
        ('[summarize]\nprovider = "openai"\n', ("openai", "big", "http://llm/v1", "of-llm")),
        ('[summarize]\nprovider = "llm"\nmodel = "small"\n', ("openai", "small", "http://llm/v1", "of-llm")),
        (
            '[summarize]\nprovider = "openai"\nbase_url = "http://notes/v1"\n',
            ("openai", "big", "http://notes/v1", ""),
        ),
        (
            '[summarize]\nprovider = "openai"\nbase_url = "http://notes/v1"\napi_key = "env:NOTES"\n',
            ("openai", "big", "http://notes/v1", "of-notes"),
        ),
        ('[summarize]\nprovider = "anthropic"\n', ("anthropic", "", "", "")),
        ('[summarize]\nprovider = "host"\nmodel = "opus"\n', ("host", "opus", "", "")),
    ],
)
def test_notes_take_over_what_is_not_said_of_them(home: Path, text: str, expected: tuple[str, str, str, str]) -> None:
    """[summarize] inherits from [llm] for the same provider only, and a key is used only for its own URL."""
    options = load(home, CHOSEN + text).summarize_options(ENVIRONMENT)

    assert (options.provider, options.model, options.base_url, options.api_key) == expected
    assert (options.timeout_s, options.daily_tokens) == (60.0, 200_000)


def test_notes_use_the_address_of_a_section_that_names_no_provider(home: Path) -> None:
    """With summarize.provider set and llm.provider not, notes go to llm.base_url rather than to the vendor."""
    text = CHOSEN.replace('provider = "openai"\n', "") + '[summarize]\nprovider = "openai"\n'
    options = load(home, text).summarize_options(ENVIRONMENT)

    assert (options.provider, options.base_url, options.api_key) == ("openai", "http://llm/v1", "of-llm")


def test_a_file_for_notes_goes_before_the_one_for_all_prompts(home: Path) -> None:
    """summarize.prompt takes precedence over prompts.summarize."""
    assert load(home, '[summarize]\nprompt = "a"\n[prompts]\nsummarize = "b"\n').summarize_options({}).prompt == "a"


def test_old_keys_are_read_with_a_warning(home: Path) -> None:
    """Keys of memsearch's [compact] set the new keys, with a warning that names each."""
    settings = load(home, OLD)

    options = settings.language_options({"TEAM_KEY": KEY})
    assert (options.provider, options.model, options.base_url) == ("anthropic", "claude-x", "https://proxy.example/v1")
    assert (options.api_key, settings.text("prompts.compact")) == (KEY, "~/compact.txt")
    assert len(settings.warnings) == len(RENAMED_KEYS) == 5
    for old, new in RENAMED_KEYS.items():
        (warning,) = (warning for warning in settings.warnings if old in warning)
        assert new in warning
        assert str(home / "config.toml") in warning
        assert settings.origin(new) == f"user: {home / 'config.toml'}"


def test_new_keys_go_before_old_ones(home: Path) -> None:
    """A new key takes precedence over an old one, with a warning; so do the environment and flags."""
    new = '[llm]\nprovider = "gemini"\n'

    for both in (OLD + new, new + OLD):
        settings = load(home, both)
        assert settings.value("llm.provider") == "gemini"
        assert any("use llm.provider, which takes precedence" in warning for warning in settings.warnings)
    assert load(home, OLD, llm__provider="ollama").value("llm.provider") == "ollama"
    environment = {"LORELOG_LLM_MODEL": "m"}
    assert load_settings(home, None, environment, {}).value("llm.model") == "m"


def test_old_keys_are_held_to_what_the_new_ones_accept(home: Path) -> None:
    """An invalid value of an old key names the file and the key as written; a literal secret is rejected and not
    quoted.
    """
    with pytest.raises(ConfigError, match=r"llm\.provider is \"oracle\".*as compact\.llm_provider"):
        load(home, '[compact]\nllm_provider = "oracle"\n')
    with pytest.raises(ConfigError, match=r"llm\.api_key is not valid") as raised:
        load(home, f'[compact]\napi_key = "{KEY}"\n')
    assert KEY not in raised.value.message + raised.value.hint
    with pytest.raises(ConfigError, match="unknown section 'compact'"):
        load(home, "[compact]\nspeed = 3\n")


@pytest.mark.parametrize("key", RENAMED_KEYS)
def test_a_project_may_not_say_it_in_old_words_either(home: Path, key: str) -> None:
    """A project file may not set these keys under their old names either."""
    section, _, field = key.partition(".")
    path = home / "project" / ".lorelog.toml"
    path.write_text(f'[{section}]\n{field} = ""\n', "utf-8")

    with pytest.raises(ConfigError, match=f"sets {key}, which a project file may not set") as raised:
        load(home)
    assert f"config set {RENAMED_KEYS[key]}" in raised.value.hint


def test_old_keys_can_be_taken_out_and_not_set(home: Path) -> None:
    """`config set` suggests the new key; `config unset` removes the old one."""
    path = home / "config.toml"
    path.write_text(OLD, "utf-8")
    with pytest.raises(ConfigError, match=r"'compact\.llm_model' is now llm\.model"):
        set_value(path, "compact.llm_model", "x", project=False)

    set_value(path, "llm.model", "y", project=False)
    assert unset_value(path, "compact.llm_model", project=False)

    settings = load_settings(home, None, {}, {})
    assert (settings.value("llm.model"), len(settings.warnings)) == ("y", 4)


def test_old_keys_are_not_listed() -> None:
    """Old keys are not listed, and each maps to an existing setting."""
    assert set(RENAMED_KEYS.values()) <= set(SETTINGS_BY_KEY)
    assert not set(RENAMED_KEYS) & set(SETTINGS_BY_KEY)
    assert "compact" not in SECTIONS


def test_an_empty_key_chooses_nothing(home: Path) -> None:
    """In a file that memsearch wrote, empty keys choose nothing, and older names apply."""
    written = (
        '[compact]\nllm_provider = "openai"\nllm_model = ""\nprompt_file = ""\n[llm]\nprovider = ""\nmodel = ""\nbase_url = ""\n'
        'api_key = ""\n[prompts]\ncompact = ""\nsummarize = ""\n'
    )

    settings = load(home, written)
    assert settings.language_options({}).provider == "openai"
    assert len(settings.warnings) == 3
    assert load(home, '[llm]\nprovider = ""\n').language_options({}) == LanguageOptions()
