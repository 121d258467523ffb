"""Settings of language models: inheritance of [summarize] from [llm], and keys of memsearch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog.config import Settings, load_settings
from lorelog.core.options import LanguageOptions, SpendOptions, SummarizeOptions

KEY = "sk-Sesame-0123456789"


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
    assert settings.text("prompts.compact") == ""


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
        ('[summarize]\nprovider = "openai"\nbase_url = "http://notes/v1"\n', ("openai", "big", "http://notes/v1", "")),
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


def test_an_empty_key_chooses_nothing(home: Path) -> None:
    """An empty provider, as memsearch writes it, chooses nothing."""
    assert load(home, '[llm]\nprovider = ""\n').language_options({}) == LanguageOptions()
