"""docs/providers.md says of each provider what the code does."""

from __future__ import annotations

from importlib import import_module

from tests.docs.pages import read, rows

from recollect.core.options import EmbedOptions
from recollect.models import PROVIDERS, open_embedder
from recollect.models.families import family_of

PAGE = "docs/providers.md"
TABLE = {row[0].strip("`"): row[1:] for row in rows(read(PAGE)) if len(row) == 10 and row[0].startswith("`")}


def test_the_table_names_every_provider() -> None:
    """Each provider has a row, and each row a provider."""
    assert list(TABLE) == list(PROVIDERS)


def test_the_table_has_every_default() -> None:
    """Usual model, batch size, key and address variable are those of the register."""
    for name, provider in PROVIDERS.items():
        model, _, batch, key, address, *_ = TABLE[name]
        assert model == f"`{provider.default_model}`", name
        assert batch == str(provider.batch_size), name
        assert (f"`{provider.key_variable}`" in key) if provider.key_variable else (key == "none"), name
        assert not provider.url_variable or address == f"`{provider.url_variable}`", name


def test_the_table_tells_who_can_be_asked_for_fewer_dimensions() -> None:
    """`asked for` stands with dialects that can be asked with some model, `cut` with those that cut here."""
    for name, provider in PROVIDERS.items():
        said = TABLE[name][6]
        if not provider.any_model:
            assert said == "no", name
        elif name in {"local", "onnx", "ollama"}:
            assert said == "cut", name
        else:
            models = {"voyage": "voyage-3.5", "mistral": "codestral-embed"}
            dialect = import_module(f"recollect.models.{name}").DIALECT
            assert dialect.takes_dimensions(models.get(name, provider.default_model)), name
            assert said.startswith("asked for"), name


def test_googles_usual_length_is_told() -> None:
    """The length that is asked for unasked is the one in the table."""
    embedder = open_embedder(EmbedOptions(provider="google"))
    assert TABLE["google"][1] == str(embedder._size.asked)  # type: ignore[attr-defined]


def test_the_families_are_told_with_their_words() -> None:
    """The words in the table of families are those that are sent."""
    told = {row[0]: row[1:] for row in rows(read(PAGE)) if len(row) == 3 and row[0].startswith("`")}
    for name in ("nomic-embed-text", "embeddinggemma"):
        query, document = (cell.strip("`").replace("\\|", "|") for cell in told[f"`{name}`"])
        forms = family_of(name).forms
        assert (query.strip(), document.strip()) == (forms.query.strip(), forms.document.strip())
