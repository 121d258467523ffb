"""What a process that goes on keeps open stays bounded, and what leaves is missed by nobody."""

from __future__ import annotations

from pathlib import Path

from tests.models.embedding_server import EmbeddingServer

from lorelog.operations.dispatch import Caller, Dispatcher
from lorelog.wiring import Holdings, standpoint


def model(number: int) -> dict[str, str]:
    """Return what chooses a model that is never asked anything."""
    chosen = {"PROVIDER": "openai", "MODEL": f"model-{number}", "BASE_URL": "http://127.0.0.1:9/v1"}
    return {"OPENAI_API_KEY": "k", **{f"LORELOG_EMBEDDING_{name}": value for name, value in chosen.items()}}


def test_only_the_last_used_are_kept_open(tmp_path: Path, home: Path) -> None:
    """A hundred tenants, models and caches do not stay; the one that was asked first is answered again."""
    holdings = Holdings()
    dispatcher = Dispatcher(holdings.engine)
    caller = Caller(str(tmp_path), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake"})
    kept = dispatcher.call("memory.add", {"text": "the okapi hides", "tenant": "t0"}, caller)["memory"]
    for number in range(1, 40):
        environment = {**caller.environment, **model(number)}
        dispatcher.call("memory.stats", {"tenant": f"t{number}"}, Caller(str(tmp_path), environment))

    assert len(holdings._stores) <= 16
    assert len(holdings._caches) <= 16
    assert len(holdings._embedders) <= 4
    assert dispatcher.call("memory.get", {"id": kept, "tenant": "t0"}, caller)["found"]
    assert dispatcher.call("memory.search", {"query": "okapi", "tenant": "t0"}, caller)["hits"]
    holdings.close()


def test_an_engine_outlives_its_place_among_the_held(tmp_path: Path, home: Path) -> None:
    """Whoever is at work while others push out what they use goes on."""
    holdings = Holdings()
    environment = {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake"}
    (tmp_path / "note.md").write_text("# Note\n\nthe okapi hides\n", "utf-8")
    Dispatcher(holdings.engine).call("memory.index", {"paths": ["note.md"]}, Caller(str(tmp_path), environment))
    here = standpoint(home=home, directory=str(tmp_path), environment=environment)
    with holdings.engine(here) as engine:
        assert engine.search("okapi").hits
        for number in range(40):
            other = {**environment, **model(number)}
            with holdings.engine(standpoint(home=home, directory=str(tmp_path), environment=other)) as pushing:
                pushing.stats()
        assert engine.search("okapi").hits
        assert engine.search("something else altogether", all_projects=True).hits
    holdings.close()


def test_keys_are_not_what_things_are_known_by(tmp_path: Path, home: Path) -> None:
    """Two keys are two embedders, and neither key can be read off what is held."""
    server = EmbeddingServer()
    holdings = Holdings()
    try:
        for key in ("secret-one", "secret-two"):
            environment = {
                "LORELOG_HOME": str(home),
                "LORELOG_EMBEDDING_PROVIDER": "openai",
                "OPENAI_BASE_URL": server.url,
                "OPENAI_API_KEY": key,
            }
            holdings.engine(standpoint(directory=str(tmp_path), environment=environment))
        assert len(holdings._embedders) == 2
        names = [options.api_key for options in holdings._embedders]
        assert not {"secret-one", "secret-two"} & set(names)
        assert not [key for key in holdings._caches if "secret-" in str([getattr(one, "api_key", "") for one in key])]  # type: ignore[attr-defined]
    finally:
        holdings.close()
        server.stop()
