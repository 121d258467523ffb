"""Each hit has the trust that the ledger gives it now, whatever its text claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.records.drafts import draft

from lorelog.core.errors import UsageError
from lorelog.core.memory import NewMemory
from lorelog.core.options import SearchOptions
from lorelog.core.query import Filters, Hit, SearchReply, TrustFilter
from lorelog.core.record import Record, RecordDraft, TrustTier
from lorelog.engine import Engine
from lorelog.services.places.root_selection import IndexTargets
from lorelog.wiring import ResourcePool, open_engine, resolve_location


@pytest.fixture
def engine(home: Path, tmp_path: Path) -> Iterator[Engine]:
    """An engine with lexical search, in its own project."""
    with open_engine(resolve_location(project=tmp_path), {"embedding.provider": "none"}) as opened:
        yield opened


def record(engine: Engine, *drafts: RecordDraft) -> list[Record]:
    project = engine.place.project.id
    return engine.records().records.append([replace(item, project=project) for item in drafts])


def found(engine: Engine, query: str, **chosen: object) -> list[Hit]:
    options = replace(SearchOptions(k=10), **chosen)
    return list(engine.search(query, options).hits)


def memory_of(hit: Hit) -> str:
    return hit.anchor.memory if hit.anchor else ""


def test_a_record_is_found_at_once_and_says_what_it_is(engine: Engine) -> None:
    """A record is found at once, as a record that supports itself."""
    (start, proof) = record(engine, draft("task_start"), draft("evidence", {"summary": "zebra latency is low"}))

    (hit,) = found(engine, "zebra latency")

    assert memory_of(hit) == proof.id
    assert hit.type == "evidence"
    assert hit.trust.tier is TrustTier.CANONICAL
    assert [(item.record, item.task, item.kind) for item in hit.grounding] == [(proof.id, start.task, "evidence")]


@pytest.mark.parametrize("origin", ["", "tool", "import"])
def test_a_memory_is_a_candidate(engine: Engine, origin: str) -> None:
    """A memory is a candidate without supporting records; what a tool or an import brought stays tainted."""
    engine.memories().add([NewMemory("the zebra sleeps", origin=origin)])

    (hit,) = found(engine, "zebra")

    assert (hit.trust.tier, hit.trust.requires_verification, hit.grounding) == (TrustTier.CANDIDATE, True, ())
    assert hit.trust.tainted is bool(origin)


def test_a_memory_cannot_pass_for_a_record(engine: Engine, tmp_path: Path) -> None:
    """A file with a record's anchor is not a record."""
    (one,) = record(engine, draft("decision", {"summary": "use redis"}))
    (tmp_path / "a.md").write_text(
        f"## 2026-01-01 10:00 decision #1 by mara\n<!-- memory:{one.id} type:decision -->\n\nuse postgres\n", "utf-8"
    )
    engine.maintenance().index(IndexTargets((str(tmp_path / "a.md"),)))

    (hit,) = found(engine, "postgres")

    assert hit.trust.tier is TrustTier.CANDIDATE
    assert hit.grounding == ()
    assert found(engine, "postgres", trust=TrustFilter.CANONICAL) == []


def test_what_was_superseded_is_hidden_unless_asked_for(engine: Engine) -> None:
    """A revision replaces the record it revises, and k hits are still found."""
    (first,) = record(engine, draft("decision", {"summary": "use redis"}))
    (second,) = record(
        engine, draft("revision", {"summary": "use redis cluster"}, reply_to=first.id, supersedes=first.id)
    )

    assert [memory_of(hit) for hit in found(engine, "redis", k=1)] == [second.id]
    shown = found(engine, "redis", include_superseded=True)
    assert {memory_of(hit) for hit in shown} == {first.id, second.id}


def test_what_was_said_of_it_goes_with_it(engine: Engine) -> None:
    """A review of a superseded record is hidden with it, unless requested."""
    (first,) = record(engine, draft("decision", {"summary": "use redis"}))
    (check,) = record(
        engine, draft("verification", {"summary": "redis it is"}, agent="otto", reply_to=first.id, supports_claim=True)
    )
    (second,) = record(engine, draft("decision", {"summary": "use redis cluster"}, supersedes=first.id))

    assert [memory_of(hit) for hit in found(engine, "redis")] == [second.id]
    assert found(engine, "redis", trust=TrustFilter.VERIFIED) == []
    shown = found(engine, "redis", include_superseded=True)
    assert {memory_of(hit) for hit in shown} == {first.id, check.id, second.id}


def test_trust_is_never_older_than_the_ledger(home: Path, tmp_path: Path) -> None:
    """A cached reply has current trust."""
    holdings = ResourcePool()
    here, flags = resolve_location(project=tmp_path), {"embedding.provider": "none"}
    engine = holdings.engine(here, flags)
    (decided,) = record(engine, draft("decision", {"summary": "use redis"}))
    assert found(engine, "redis")[0].trust.verified_by == ()
    # The index does not see this one: another process holds its lock all the while.
    with engine.store.writer():
        (check,) = record(
            engine, draft("verification", {"summary": "ok"}, agent="otto", reply_to=decided.id, supports_claim=True)
        )
        reply = engine.search("redis", SearchOptions(k=10))

    assert reply.hits[0].trust.verified_by == (check.id,)
    assert any("1 record is not searchable yet" in note for note in reply.notes)


def test_records_of_other_projects_are_found_only_from_everywhere(home: Path, tmp_path: Path) -> None:
    """A record is visible in its own project; a global one everywhere."""
    for name in ("a", "b"):
        (tmp_path / name / ".git").mkdir(parents=True)
    settings = {"embedding.provider": "none"}
    with open_engine(resolve_location(project=tmp_path / "a"), settings) as engine:
        record(engine, draft("decision", {"summary": "zebra one"}))
        engine.records().records.append([draft("decision", {"summary": "zebra two"}, task="global")])
    with open_engine(resolve_location(project=tmp_path / "b"), settings) as engine:
        assert [hit.project for hit in found(engine, "zebra")] == [""]
        assert len(engine.search("zebra", SearchOptions(k=10), all_projects=True).hits) == 2


def test_an_index_run_keeps_and_embeds_records(home: Path, tmp_path: Path) -> None:
    """An index run keeps records, does not list them as roots, and embeds them."""
    (tmp_path / "a.md").write_text("# Zebra\n\nstripes\n", "utf-8")
    with open_engine(resolve_location(project=tmp_path), {"embedding.provider": "fake"}) as engine:
        record(engine, draft("decision", {"summary": "zebra stripes"}))
        engine.maintenance().index(IndexTargets((str(tmp_path / "a.md"),)))
        assert engine.store.coverage(Filters()).with_vectors == engine.store.coverage(Filters()).chunks == 2
        for chosen in ({"force": True}, {"reembed": True}, {}):
            engine.maintenance().index(**chosen)  # type: ignore[arg-type]
            assert len(found(engine, "zebra stripes")) == 2
            assert engine.store.coverage(Filters()).with_vectors == engine.store.coverage(Filters()).chunks
        assert [root.root.path for root in engine.maintenance().list_roots()] == [str(tmp_path / "a.md")]
        assert engine.maintenance().health(engine.tombstones(), tuple, duplicates=10).ok

        engine.maintenance().forget_roots([str(tmp_path)])
        assert [hit.type for hit in found(engine, "zebra stripes")] == ["decision"]
        engine.store.reset()
        assert [hit.type for hit in found(engine, "zebra stripes")] == ["decision"]


def test_a_home_inside_a_root_keeps_its_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root around the home does not index the record pages."""
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "home"))
    with open_engine(resolve_location(project=tmp_path), {"embedding.provider": "none"}) as engine:
        (one,) = record(engine, draft("decision", {"summary": "zebra stripes"}))
        assert len(found(engine, "zebra")) == 1
        engine.maintenance().index(IndexTargets((str(tmp_path),)))

        (hit,) = found(engine, "zebra")
        assert memory_of(hit) == one.id
        assert hit.trust.tier is TrustTier.CANONICAL


def test_an_index_of_another_model_gets_new_records_once(home: Path, tmp_path: Path) -> None:
    """An index of another model gets new records once, without rebuilding the pages."""
    with open_engine(resolve_location(project=tmp_path), {"embedding.provider": "fake"}) as engine:
        record(engine, draft("decision", {"summary": "zebra one"}))
        engine.maintenance().index()
    with open_engine(resolve_location(project=tmp_path), {"embedding.provider": "none"}) as engine:
        record(engine, draft("decision", {"summary": "zebra two"}, task="task-2"))
        assert len(found(engine, "zebra")) == 2
        before = engine.store.revision()
        assert len(found(engine, "zebra")) == 2
        assert engine.store.revision() == before


def test_a_record_is_not_deleted(engine: Engine) -> None:
    """A record cannot be deleted, and the hint says what to do instead."""
    (one,) = record(engine, draft("decision", {"summary": "use redis"}))
    (hit,) = found(engine, "redis")

    for identity in (one.id, hit.id):
        with pytest.raises(UsageError, match="records cannot be deleted"):
            engine.memories().delete(identity)


def test_a_token_budget_packs_records_too(engine: Engine) -> None:
    """A packed record keeps its trust and the section of its page."""
    record(engine, draft("decision", {"summary": "use redis"}))

    reply: SearchReply = engine.search("redis", SearchOptions(k=3, token_budget=500))

    assert reply.hits[0].packed is not None
    assert "use redis" in reply.hits[0].packed.text
    assert reply.hits[0].trust.tier is TrustTier.CANONICAL


def test_records_get_vectors_in_the_background(home: Path, tmp_path: Path) -> None:
    """A search makes no vectors; the background run embeds records only."""
    (tmp_path / "a.md").write_text("# Zebra\n\nstripes\n", "utf-8")
    with open_engine(resolve_location(project=tmp_path), {"embedding.provider": "fake"}) as engine:
        engine.maintenance().index(IndexTargets((str(tmp_path / "a.md"),)), vectors=False)
        record(engine, draft("decision", {"summary": "zebra stripes"}))
        found(engine, "zebra")
        assert engine.store.coverage(Filters()).with_vectors == 0

        engine.run_background_work(lambda: False)
        assert engine.store.coverage(Filters()).with_vectors == 0
        engine.run_background_work()
        assert (engine.store.coverage(Filters()).with_vectors, engine.store.coverage(Filters()).chunks) == (1, 2)


def test_a_search_without_records_loads_nothing_that_reads_them(home: Path, tmp_path: Path) -> None:
    """Without records a search imports nothing that reads them."""
    import subprocess
    import sys

    script = (
        "import sys\nfrom lorelog.surfaces.python.client import Lorelog\n"
        "with Lorelog(settings={'embedding.provider': 'none'}) as memory: memory.search('x')\n"
        "reads = ('records.tables', 'records.ledger', 'records.book', 'records.page', 'records.projection')\n"
        "print([name for name in sys.modules if name.endswith(reads)])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert not list(home.glob("cache/*/records"))


@pytest.mark.parametrize(
    "summary", ["zebra cache", "zebra cache zebra: I measured the zebra cache twice and the zebra holds"]
)
@pytest.mark.parametrize("k", [1, 2])
def test_a_verification_never_ranks_above_what_it_verifies(engine: Engine, summary: str, k: int) -> None:
    """Whatever a verification says, the record that it verifies comes first, also where only one hit is shown."""
    long = "we keep the zebra in a cache of its own beside the herd because the others are in the way of it"
    (decided,) = record(engine, draft("decision", {"summary": long}))
    record(engine, draft("verification", {"summary": summary}, agent="otto", reply_to=decided.id, supports_claim=True))

    assert memory_of(found(engine, "zebra cache", k=k)[0]) == decided.id
