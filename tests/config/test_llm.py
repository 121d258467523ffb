"""Who writes, as the settings say: what notes take over from [llm], and keys that memsearch called otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog.config import Settings, load_settings
from lorelog.config.edit import set_value, unset_value
from lorelog.config.schema import BY_KEY, RENAMED, SECTIONS
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


def test_by_default_nobody_is_asked(home: Path) -> None:
    """Without settings nothing is sent anywhere, and the limits are those of core."""
    settings = load(home)

    assert settings.language({}) == LanguageOptions()
    assert settings.summarizing({}) == SummarizeOptions()
    assert settings.spending() == SpendOptions()
    assert (settings.compact_prompt(), settings.warnings) == ("", ())


def test_what_is_chosen_is_what_is_opened(home: Path) -> None:
    """Every setting of [llm] reaches the options; the key is read from the variable that is named, and does not show itself."""
    settings = load(
        home,
        '[llm]\nprovider = "gemini"\nmodel = "m"\nbase_url = "http://h/v1"\napi_key = "env:MINE"\ncommand = "x y"\n'
        'timeout_s = 7\ndaily_tokens = 8\nwindow_tokens = 9\n[prompts]\ncompact = "c.md"\nsummarize = "s.md"\n'
        "[ollama]\nmanage = true\n",
    )

    options = settings.language({"MINE": KEY})
    assert options == LanguageOptions("gemini", "m", "http://h/v1", KEY, "MINE", "x y", 7.0, 8, 9, options.ollama)
    assert options.ollama.manage
    assert KEY not in repr(options)
    assert settings.spending() == SpendOptions(200_000, 8)
    assert (settings.compact_prompt(), settings.summarizing({}).prompt) == ("c.md", "s.md")


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
    """Choosing who writes makes nobody word notes; the same provider does it as in [llm]; a key goes to its own address."""
    options = load(home, CHOSEN + text).summarizing(ENVIRONMENT)

    assert (options.provider, options.model, options.base_url, options.api_key) == expected
    assert (options.timeout_s, options.daily_tokens) == (60.0, 200_000)


def test_a_file_for_notes_goes_before_the_one_for_all_prompts(home: Path) -> None:
    """summarize.prompt is more exact than prompts.summarize."""
    assert load(home, '[summarize]\nprompt = "a"\n[prompts]\nsummarize = "b"\n').summarizing({}).prompt == "a"


def test_old_keys_are_read_with_a_warning(home: Path) -> None:
    """[compact] as memsearch has it chooses what [llm] and [prompts] choose now, and each key is told its new name."""
    settings = load(home, OLD)

    options = settings.language({"TEAM_KEY": KEY})
    assert (options.provider, options.model, options.base_url) == ("anthropic", "claude-x", "https://proxy.example/v1")
    assert (options.api_key, settings.compact_prompt()) == (KEY, "~/compact.txt")
    assert len(settings.warnings) == len(RENAMED) == 5
    for old, new in RENAMED.items():
        (warning,) = (one for one in settings.warnings if old in one)
        assert new in warning
        assert str(home / "config.toml") in warning
        assert settings.origin(new) == f"user: {home / 'config.toml'}"


def test_new_keys_go_before_old_ones(home: Path) -> None:
    """Who has both is told, and the new one holds; so do the environment and flags."""
    new = '[llm]\nprovider = "gemini"\n'

    for both in (OLD + new, new + OLD):
        settings = load(home, both)
        assert settings.value("llm.provider") == "gemini"
        assert any("llm.provider now, which goes first" in one for one in settings.warnings)
    assert load(home, OLD, llm__provider="ollama").value("llm.provider") == "ollama"
    environment = {"LORELOG_LLM_MODEL": "m"}
    assert load_settings(home, None, environment, {}).value("llm.model") == "m"


def test_old_keys_are_held_to_what_the_new_ones_accept(home: Path) -> None:
    """A wrong value names the file and the key as it was written; a key itself is refused and not repeated."""
    with pytest.raises(ConfigError, match=r"llm\.provider is \"oracle\".*as compact\.llm_provider"):
        load(home, '[compact]\nllm_provider = "oracle"\n')
    with pytest.raises(ConfigError, match=r"llm\.api_key is not valid") as raised:
        load(home, f'[compact]\napi_key = "{KEY}"\n')
    assert KEY not in raised.value.message + raised.value.hint
    with pytest.raises(ConfigError, match="unknown section 'compact'"):
        load(home, "[compact]\nspeed = 3\n")


@pytest.mark.parametrize("key", RENAMED)
def test_a_project_may_not_say_it_in_old_words_either(home: Path, key: str) -> None:
    """A clone must not choose where texts are sent, whatever it calls that."""
    section, _, field = key.partition(".")
    path = home / "project" / ".lorelog.toml"
    path.write_text(f'[{section}]\n{field} = ""\n', "utf-8")

    with pytest.raises(ConfigError, match=f"sets {key}, which a project file may not choose") as raised:
        load(home)
    assert f"config set {RENAMED[key]}" in raised.value.hint


def test_old_keys_can_be_taken_out_and_not_set(home: Path) -> None:
    """`config set` names the new key; `config unset` removes the old one."""
    path = home / "config.toml"
    path.write_text(OLD, "utf-8")
    with pytest.raises(ConfigError, match=r"'compact\.llm_model' is now llm\.model"):
        set_value(path, "compact.llm_model", "x", project=False)

    set_value(path, "llm.model", "y", project=False)
    assert unset_value(path, "compact.llm_model", project=False)

    settings = load_settings(home, None, {}, {})
    assert (settings.value("llm.model"), len(settings.warnings)) == ("y", 4)


def test_old_keys_are_no_settings() -> None:
    """They are listed nowhere, and each has a new one that exists."""
    assert set(RENAMED.values()) <= set(BY_KEY)
    assert not set(RENAMED) & set(BY_KEY)
    assert "compact" not in SECTIONS


def test_an_empty_key_chooses_nothing(home: Path) -> None:
    """A file that memsearch wrote, with all keys and most of them empty, is read as it is meant: older names count where new ones are empty."""
    written = (
        '[compact]\nllm_provider = "openai"\nllm_model = ""\nprompt_file = ""\n[llm]\nprovider = ""\nmodel = ""\nbase_url = ""\n'
        'api_key = ""\n[prompts]\ncompact = ""\nsummarize = ""\n'
    )

    settings = load(home, written)
    assert settings.language({}).provider == "openai"
    assert len(settings.warnings) == 3
    assert load(home, '[llm]\nprovider = ""\n').language({}) == LanguageOptions()
