"""docs/providers.md describes each provider as the code does."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import read, rows
from tests.models.vendors import VENDORS, Rig

from lorelog.core.options import EmbedOptions
from lorelog.models.embed import PROVIDERS, open_embedder
from lorelog.models.embed.families import find_family
from lorelog.models.embed.remote import ADAPTERS

PAGE = "docs/providers.md"
TESTS = Path(__file__).parents[1]
TABLE = {row[0].strip("`"): row[1:] for row in rows(read(PAGE)) if len(row) == 10 and row[0].startswith("`")}


def test_the_table_names_every_provider() -> None:
    """Each provider has a row, and each row a provider."""
    assert list(TABLE) == list(PROVIDERS)


def test_the_table_has_every_default() -> None:
    """Default model, batch size, key and address variable are those of the registry."""
    for name, provider in PROVIDERS.items():
        model, _, batch, key, address, *_ = TABLE[name]
        assert model == f"`{provider.default_model}`", name
        assert batch == str(provider.batch_size), name
        assert (f"`{provider.key_variable}`" in key) if provider.key_variable else (key == "none"), name
        assert not provider.url_variable or address == f"`{provider.url_variable}`", name


def test_the_table_marks_providers_that_take_dimensions() -> None:
    """`asked for` marks adapters that can request dimensions, `cut` those that truncate here."""
    for name, provider in PROVIDERS.items():
        said = TABLE[name][6]
        if not provider.accepts_any_model:
            assert said == "no", name
        elif name in {"local", "onnx", "ollama"}:
            assert said == "cut", name
        else:
            models = {"voyage": "voyage-3.5", "mistral": "codestral-embed"}
            adapter = ADAPTERS[name]
            assert adapter.takes_dimensions(models.get(name, provider.default_model)), name
            assert said.startswith("asked for"), name


def test_the_table_tells_where_texts_are_sent() -> None:
    """The listed address of each vendor is the adapter's base URL."""
    for name, provider in PROVIDERS.items():
        if provider.key_variable and not provider.url_variable:
            base_url = ADAPTERS[name].base_url
            assert base_url.startswith(f"https://{TABLE[name][4]}/"), name


def test_every_promise_names_tests_that_there_are() -> None:
    """Each row about errors names its tests, and every named test exists."""
    written = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    manners = [row for row in rows(read(PAGE)) if len(row) == 3 and "`test_" in row[2]]
    assert len(manners) >= 12
    named = set(re.findall(r"`(test_\w+)`", read(PAGE)))
    assert len(named) >= 20
    for name in named:
        assert f"def {name}(" in written, name


def test_the_table_marks_providers_that_distinguish_queries(rig: Rig) -> None:
    """A vendor whose models do not distinguish queries gets the same request for both; the others differ."""
    for vendor in VENDORS.values():
        server = rig.serve(vendor.well)
        embedder = rig.open(vendor, server)
        embedder.embed_documents(["same"])
        embedder.embed_query("same")
        document, query = (request.body for request in server.requests)
        said = TABLE[vendor.name][5]
        if "no difference" in said or (vendor.name == "openai" and said == "by the model's name"):
            assert document == query, vendor.name
        else:
            assert document != query, vendor.name


def test_the_table_marks_providers_that_report_tokens(rig: Rig) -> None:
    """`yes` marks vendors whose replies report tokens."""
    for vendor in VENDORS.values():
        reply = rig.open(vendor, rig.serve(vendor.well)).embed_documents(["a"])
        assert TABLE[vendor.name][7] == ("yes" if reply.tokens else "no"), vendor.name
    assert open_embedder(EmbedOptions(provider="fake")).embed_documents(["a b"]).tokens


def test_googles_usual_length_is_told() -> None:
    """The default dimensions of Google are those in the table."""
    embedder = open_embedder(EmbedOptions(provider="google"))
    assert TABLE["google"][1] == str(embedder._requested)  # type: ignore[attr-defined]


def test_the_families_are_told_with_their_words() -> None:
    """The prefixes in the table of families are those that are sent."""
    told = {
        row[0]: row[1:]
        for row in rows(read(PAGE))
        if len(row) == 3 and row[0].startswith("`") and "test_" not in row[2]
    }
    for name in ("nomic-embed-text", "embeddinggemma"):
        query, document = (cell.strip("`").replace("\\|", "|") for cell in told[f"`{name}`"])
        forms = find_family(name).prefixes
        assert (query.strip(), document.strip()) == (forms.query.strip(), forms.document.strip())
