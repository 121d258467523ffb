"""The resources of a long-running process stay bounded, and evicted ones reopen."""

from __future__ import annotations

from pathlib import Path

from tests.models.embedding_server import EmbeddingServer

from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.wiring import ResourcePool, resolve_location


def model(number: int) -> dict[str, str]:
    """Return settings for a model that is never called."""
    chosen = {"PROVIDER": "openai", "MODEL": f"model-{number}", "BASE_URL": "http://127.0.0.1:9/v1"}
    return {"OPENAI_API_KEY": "k", **{f"LORELOG_EMBEDDING_{name}": value for name, value in chosen.items()}}


def test_only_the_last_used_are_kept_open(tmp_path: Path, home: Path) -> None:
    """After a hundred tenants and models only the most recently used stay open, and the first one still works."""
    pool = ResourcePool()
    dispatcher = Dispatcher(pool.engine)
    caller = ClientIdentity(str(tmp_path), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake"})
    kept = dispatcher.call("memory.add", {"text": "the okapi hides", "tenant": "t0"}, caller)["memory"]
    for number in range(1, 40):
        environment = {**caller.environment, **model(number)}
        dispatcher.call("memory.stats", {"tenant": f"t{number}"}, ClientIdentity(str(tmp_path), environment))

    assert len(pool._stores) <= 16
    assert len(pool._answers) <= 16
    assert len(pool._embedders) <= 4
    assert dispatcher.call("memory.get", {"id": kept, "tenant": "t0"}, caller)["found"]
    assert dispatcher.call("memory.search", {"query": "okapi", "tenant": "t0"}, caller)["hits"]
    pool.close()


def test_an_engine_outlives_its_place_among_the_held(tmp_path: Path, home: Path) -> None:
    """An engine keeps working after its resources were evicted."""
    pool = ResourcePool()
    environment = {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake"}
    (tmp_path / "note.md").write_text("# Note\n\nthe okapi hides\n", "utf-8")
    Dispatcher(pool.engine).call("memory.index", {"paths": ["note.md"]}, ClientIdentity(str(tmp_path), environment))
    here = resolve_location(home=home, directory=str(tmp_path), environment=environment)
    with pool.engine(here) as engine:
        assert engine.search("okapi").hits
        for number in range(40):
            other = {**environment, **model(number)}
            with pool.engine(resolve_location(home=home, directory=str(tmp_path), environment=other)) as pushing:
                pushing.store.stats()
        assert engine.search("okapi").hits
        assert engine.search("something else altogether", all_projects=True).hits
    pool.close()


def test_keys_are_not_what_things_are_known_by(tmp_path: Path, home: Path) -> None:
    """Two API keys are two embedders, and no cache key contains an API key."""
    server = EmbeddingServer()
    pool = ResourcePool()
    try:
        for key in ("secret-one", "secret-two"):
            environment = {
                "LORELOG_HOME": str(home),
                "LORELOG_EMBEDDING_PROVIDER": "openai",
                "OPENAI_BASE_URL": server.url,
                "OPENAI_API_KEY": key,
            }
            pool.engine(resolve_location(directory=str(tmp_path), environment=environment))
        assert len(pool._embedders) == 2
        names = [options.api_key for options in pool._embedders]
        assert not {"secret-one", "secret-two"} & set(names)
        assert not [key for key in pool._answers if "secret-" in str([getattr(part, "api_key", "") for part in key])]  # type: ignore[attr-defined]
    finally:
        pool.close()
        server.stop()


def test_resources_at_rest_have_no_open_files_and_open_again(tmp_path: Path, home: Path) -> None:
    """After a rest no file of the index is open and no model loaded; the next call works as before."""
    pool = ResourcePool()
    dispatcher = Dispatcher(pool.engine)
    caller = ClientIdentity(str(tmp_path), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake"})
    dispatcher.call("memory.add", {"text": "the okapi hides"}, caller)
    before = dispatcher.call("memory.search", {"query": "okapi"}, caller)["hits"]

    pool.rest()

    files = Path("/proc/self/fd")
    assert not files.exists() or not any(str(home) in str(file.resolve()) for file in files.iterdir())
    assert pool.unload_idle(3600) == 0
    assert dispatcher.call("memory.search", {"query": "okapi"}, caller)["hits"] == before
    pool.close()


def test_a_changed_settings_file_counts_at_once(tmp_path: Path, home: Path) -> None:
    """What settings say is kept for the next request, and a file that was written, changed or deleted since is read."""
    pool = ResourcePool()
    environment = {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"}
    location = resolve_location(directory=str(tmp_path), environment=environment)
    found = [pool.engine(location).defaults.search.k]
    for text in ("[search]\nk = 7\n", "[search]\nk = 8\n", None):
        if text is None:
            (tmp_path / ".lorelog.toml").unlink()
        else:
            (tmp_path / ".lorelog.toml").write_text(text, "utf-8")
        found += [pool.engine(location).defaults.search.k, pool.engine(location).defaults.search.k]

    assert found == [5, 7, 7, 8, 8, 5, 5]
    assert pool._plan(location, {}) is pool._plan(location, {})
    pool.close()
