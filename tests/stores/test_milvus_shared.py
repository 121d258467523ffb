"""Several machines over one Milvus: what one shares the others find, of the same tenant and project, and nothing else.

Each "machine" is an index of its own over one server. What a project is called on all of them comes from the end of its path.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.making import ALL, PlainAnalyser, anchored, chunk, update, vector
from tests.stores.milvus_server import LiteServer, tenant

from lorelog.core.document import Anchor, StoredChunk
from lorelog.core.errors import ModelFault, NotFound, UsageError
from lorelog.core.options import DEFAULT_COLLECTION, StoreOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters, Term, VectorCoverage
from lorelog.services.memories.edit import delete_memory
from lorelog.services.memories.listing import expand
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.stores.milvus import MilvusStore, peers
from lorelog.stores.milvus.peers import machine_name
from lorelog.stores.milvus.schema import collection_name, text_row

pytestmark = pytest.mark.slow


def name_of(project: str) -> str:
    """Return the end of a project's path as its shared name; "/private/…" has none."""
    if not project:
        return "global"
    return "" if project.startswith("/private") else f"git:example.org/{project.rpartition('/')[2]}"


class SharingMachines:
    def __init__(self, place: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tenant = tenant()
        self._place = place
        self._uri = uri
        self._monkeypatch = monkeypatch
        self._opened: list[MilvusStore] = []

    def machine(self, name: str, *, of: str = "", model: str = "m", **more: Any) -> MilvusStore:
        """Return the index of a machine, reopened on a second call."""
        self._monkeypatch.setattr(platform, "node", lambda: name)
        store = MilvusStore(
            self._place / (of or self.tenant) / name / "index",
            PlainAnalyser(),
            StoreOptions(self._uri, **({"shared": True} | more)),
            tenant=of or self.tenant,
            provider="test",
            model=model,
            name_of=name_of,
        )
        store._lanes_of(store._space)  # what this machine is called is looked up here
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.reset()
            store.close()


@pytest.fixture
def team(tmp_path: Path, milvus_server: LiteServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharingMachines]:
    """Machines that read the registry before each query."""
    monkeypatch.setattr(peers, "PEERS_TTL_S", 0.0)
    made = SharingMachines(tmp_path, milvus_server.uri, monkeypatch)
    yield made
    made.close()


def fill(store: Store, *texts: Any, source: str = "/a.md", project: str = "/p/app") -> None:
    with store.writer() as writer:
        writer.put([update(source, list(texts), project=project)])


def hits(store: Store, word: str, filters: Filters = ALL) -> list[StoredChunk]:
    keys = [hit.key for hit in store.propose([Term(word)], None, filters, 20)[0]]
    found = store.fetch(keys)
    return [found[key] for key in keys if key in found]


def texts(store: Store, word: str, filters: Filters = ALL) -> list[str]:
    return sorted(hit.chunk.text for hit in hits(store, word, filters))


def give_vectors(store: Store, numbers: dict[str, tuple[float, ...]]) -> None:
    with store.writer() as writer:
        writer.put_vectors({chunk("/a.md", text).vector_key: vector(*many) for text, many in numbers.items()})


# -- finding -----------------------------------------------------------------------------------------------------------


def test_a_machine_finds_what_another_has_of_the_same_project(team: SharingMachines) -> None:
    """A hit of another machine has the machine's name before its path, the local project, and all fields."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    said = chunk(
        "/home/l/app/n.md",
        "alpha there",
        7,
        end_line=9,
        content="## H\nalpha there",
        heading="H",
        heading_level=2,
        heading_path=("Top", "H"),
        context="Top",
        date="2026-03-05T14:30",
        type="decision",
        tags=("x", "y"),
        anchor=anchored("m-1"),
        piece=1,
    )
    fill(laptop, said, source="/home/l/app/n.md", project="/home/l/app")
    fill(desk, "alpha here", project="/srv/app")

    here, there = sorted(hits(desk, "alpha", Filters(projects=("/srv/app", ""))), key=lambda stored: stored.machine)

    assert (here.machine, here.chunk.source) == ("", "/a.md")
    assert (there.machine, there.project) == ("laptop", "/srv/app")
    (known,) = laptop.chunks_of("/home/l/app/n.md")
    assert there.id == known.id
    assert there.chunk.source == "laptop:/home/l/app/n.md"
    for field in ("heading", "heading_level", "heading_path", "context", "start_line", "end_line", "content", "text"):
        assert getattr(there.chunk, field) == getattr(said, field), field
    for field in ("date", "type", "tags", "piece", "content_hash"):
        assert getattr(there.chunk, field) == getattr(said, field), field
    assert there.chunk.anchor is not None  # somebody else's text, whoever wrote it there
    anchor = there.chunk.anchor
    assert (anchor.memory, anchor.session, anchor.transcript, anchor.origin) == ("m-1", "s1", "", "import")
    assert texts(laptop, "alpha") == ["alpha here", "alpha there"]


@pytest.mark.slow
def test_only_the_same_tenant_and_project_are_shared(team: SharingMachines) -> None:
    """Other tenants, other projects, unnamed projects and derived files are not shared."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    stranger = team.machine("desk", of=tenant())
    fill(laptop, "alpha app")
    fill(laptop, "alpha other", source="/b.md", project="/p/other")
    fill(laptop, "alpha private", source="/c.md", project="/private/app")
    fill(laptop, "alpha global", source="/d.md", project="")
    fill(laptop, "alpha record", source=str(laptop._folder / "pages" / "e.md"))
    fill(desk, "beta")
    fill(stranger, "beta")

    assert texts(desk, "alpha", Filters(projects=("/home/d/app",))) == ["alpha app"]
    assert texts(desk, "alpha", Filters(projects=("/home/d/app", ""))) == ["alpha app", "alpha global"]
    assert texts(desk, "alpha") == ["alpha app", "alpha global", "alpha other"]
    assert texts(desk, "alpha", Filters(source_prefix="/a.md")) == []
    assert texts(stranger, "alpha") == []
    assert stranger.lane_coverage(ALL) == VectorCoverage(1, 0)


def test_sharing_is_a_choice_of_both(team: SharingMachines) -> None:
    """Machines find each other only if both share, and not after one stops."""
    private, desk = team.machine("laptop", shared=False), team.machine("desk")
    fill(private, "alpha private")
    fill(desk, "alpha desk")
    assert texts(desk, "alpha") == ["alpha desk"]
    assert texts(private, "alpha") == ["alpha private"]

    shared = team.machine("laptop")
    assert texts(shared, "alpha") == ["alpha desk", "alpha private"]  # a search is enough to begin
    assert texts(desk, "alpha") == ["alpha desk", "alpha private"]

    private = team.machine("laptop", shared=False)
    assert texts(private, "alpha") == ["alpha private"]  # and to end it
    assert texts(desk, "alpha") == ["alpha desk"]
    assert private.compare().is_consistent


def test_what_its_owner_removes_or_changes_is_gone_elsewhere_at_once(team: SharingMachines) -> None:
    """Old versions and deleted chunks are not found by other machines, without a later write."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha one", "alpha two", "alpha three")
    assert texts(desk, "alpha") == ["alpha one", "alpha three", "alpha two"]

    fill(laptop, "alpha one", "alpha new")
    assert texts(desk, "alpha") == ["alpha new", "alpha one"]
    before = [hit.key for hit in hits(desk, "alpha")]
    with laptop.writer() as writer:
        writer.remove(["/a.md"])

    assert texts(desk, "alpha") == []
    assert desk.fetch(before) == {}
    assert desk.lane_coverage(ALL) == VectorCoverage(0, 0)


def test_a_reset_leaves_nothing_for_others(team: SharingMachines) -> None:
    """After a reset an index is not found, and collections are dropped with their last rows."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha")
    fill(desk, "beta")

    laptop.reset()

    assert texts(desk, "alpha") == []
    desk.reset()
    assert not [name for name in desk._remote.call(lambda client: client.list_collections()) if team.tenant in name]


def test_a_machine_without_rows_reads_all_the_same(team: SharingMachines) -> None:
    """A machine without an index searches the others' and reports their coverage."""
    laptop, reader = team.machine("laptop"), team.machine("reader")
    fill(laptop, "alpha one", "beta two")
    give_vectors(laptop, {"alpha one": (1, 0), "beta two": (0, 1)})
    only = Filters(projects=("/wherever/app", ""))

    assert reader.lane_coverage(only) == VectorCoverage(2, 2)
    assert reader.coverage(only) == VectorCoverage(0, 0)
    words, near = reader.propose([Term("alpha")], vector(0.1, 1), only, 10)

    assert [stored.chunk.text for stored in reader.fetch([word.key for word in words]).values()] == ["alpha one"]
    found = reader.fetch([hit.key for hit in near])
    assert [found[hit.key].chunk.text for hit in near] == ["beta two", "alpha one"]
    assert near[0].score == pytest.approx(laptop.propose((), vector(0.1, 1), ALL, 1)[1][0].score, abs=1e-6)
    assert reader.rarity(["alpha", "nowhere"])["alpha"] < reader.rarity(["nowhere"])["nowhere"]
    assert not reader._path.exists()  # it has no catalog, and reading made none


@pytest.mark.slow
def test_what_is_here_too_is_shown_from_here(team: SharingMachines) -> None:
    """A text on several machines is returned once, the local one if there is one."""
    laptop, server, desk = team.machine("laptop"), team.machine("server"), team.machine("desk")
    for machine in (laptop, server, desk):
        fill(machine, "alpha everywhere", source=f"/{id(machine)}.md")
    fill(laptop, "alpha twice", source="/b.md")
    fill(server, "alpha twice", source="/c.md")
    for machine in (laptop, server, desk):
        give_vectors(machine, {"alpha everywhere": (1, 0), "alpha twice": (0, 1)})

    by_words = hits(desk, "alpha")
    by_meaning = desk.fetch([hit.key for hit in desk.propose((), vector(1, 1), ALL, 10)[1]]).values()

    for found in (by_words, by_meaning):
        assert sorted((stored.chunk.text, bool(stored.machine)) for stored in found) == [
            ("alpha everywhere", False),
            ("alpha twice", True),
        ]


@pytest.mark.slow
def test_copies_do_not_crowd_out_what_is_new(team: SharingMachines) -> None:
    """Copies of a file on many machines do not use up the limit."""
    machines = [team.machine(f"m{number}") for number in range(4)]
    for machine in machines:
        fill(machine, *(f"alpha alpha {number}" for number in range(5)))
    fill(machines[0], "alpha and a few other words that make it longer than the rest of them all", source="/b.md")

    found = machines[3].propose([Term("alpha")], None, ALL, 6)[0]

    assert len({stored.chunk.text for stored in machines[3].fetch([hit.key for hit in found]).values()}) == 6


def test_words_are_scored_alike_here_and_there(team: SharingMachines) -> None:
    """In one collection, chunks of this and of other machines are ranked by the same statistics, Milvus' own."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha beta " * 20, "gamma gamma gamma", "delta beta")
    fill(desk, "alpha beta gamma", "beta " * 50, "delta alpha")

    found = desk.propose([Term("gamma")], None, ALL, 20)[0]

    known = desk.fetch([hit.key for hit in found])
    assert [known[hit.key].chunk.text for hit in found] == ["gamma gamma gamma", "alpha beta gamma"]
    assert found[0].score > found[1].score
    assert desk.rarity(["gamma"])["gamma"] > desk.rarity(["beta"])["beta"]


@pytest.mark.slow
def test_vectors_of_another_model_are_never_compared(team: SharingMachines) -> None:
    """Rows of another model are not found, and a vector of another dimension is rejected."""
    laptop, other = team.machine("laptop"), team.machine("other", model="n")
    desk = team.machine("desk")
    for machine in (laptop, other):
        fill(machine, "alpha")
    give_vectors(laptop, {"alpha": (1, 0, 0)})
    give_vectors(other, {"alpha": (1, 0)})

    assert [hit.machine for hit in hits(desk, "alpha")] == ["laptop"]
    assert len(desk.propose((), vector(1, 0, 0), ALL, 5)[1]) == 1
    assert desk.propose((), vector(1, 0), ALL, 5)[1] == []
    with pytest.raises(ModelFault):
        laptop.propose([Term("alpha")], vector(1, 0), ALL, 5)


def test_one_collection_for_all_projects_keeps_them_apart(team: SharingMachines) -> None:
    """With per_project off, projects are still separate for other machines."""
    laptop, desk = team.machine("laptop", per_project=False), team.machine("desk", per_project=True)
    fill(laptop, "alpha app")
    fill(laptop, "alpha other", source="/b.md", project="/p/other")
    fill(laptop, "alpha private", source="/c.md", project="/private/x")

    assert texts(desk, "alpha", Filters(projects=("/x/app",))) == ["alpha app"]
    assert texts(desk, "alpha") == ["alpha app", "alpha other"]


def test_a_project_that_gets_a_name_is_shared_from_then_on(
    team: SharingMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that gets a shared name is shared with the next write; a missing folder changes nothing."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha", project="/private/app")
    assert texts(desk, "alpha") == []

    monkeypatch.setattr(laptop, "_name_of", lambda project: "git:example.org/app")
    laptop._lanes.clear()
    fill(laptop, "beta", source="/b.md", project="/private/app")
    assert texts(desk, "alpha", Filters(projects=("/x/app",))) == ["alpha"]
    (state,) = [lane._state() for lane in laptop._lanes.values()]

    monkeypatch.setattr(laptop, "_name_of", lambda project: "")
    laptop._lanes.clear()
    fill(laptop, "gamma", source="/c.md", project="/private/app")
    (after,) = [lane._state() for lane in laptop._lanes.values()]
    assert state is not None
    assert after is not None
    assert after.mark == state.mark  # nothing was pushed anew
    assert laptop.compare().is_consistent


# -- what is told of memories ------------------------------------------------------------------------------------------


def superseding(new: str, old: str) -> Any:
    return chunk("/a.md", f"alpha {new}", 1, anchor=Anchor(memory=new, supersedes=old))


def test_what_is_superseded_elsewhere_is_told_of_there_alone(team: SharingMachines) -> None:
    """Supersessions of other machines apply to their chunks and never to local ones."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, superseding("m-2", "m-1"))
    fill(desk, superseding("m-4", "m-3"), project="/srv/app")
    desk.propose([Term("alpha")], None, Filters(projects=("/srv/app",)), 1)[0]

    told = desk.supersessions()

    assert [(link.old, link.new, link.project, link.remote) for link in told] == [
        ("m-1", "m-2", "/srv/app", True),
        ("m-3", "m-4", "/srv/app", False),
    ]
    assert desk.supersessions() is told


def test_an_id_of_another_machine_can_be_expanded_and_not_deleted(team: SharingMachines, tmp_path: Path) -> None:
    """`expand` shows another machine's chunk and where its file is; `delete` says where to delete it."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    said = chunk("/a.md", "alpha", 3, anchor=anchored("m-1"), content="### H\nalpha")
    fill(laptop, said)
    (known,) = laptop.chunks_of("/a.md")

    for identity in (known.id, known.id[:8], "m-1"):
        shown = expand(identity, desk)
        assert (shown.content, shown.start_line, shown.chunk.machine) == ("### H\nalpha", 3, "laptop")
        assert "on another machine (laptop)" in shown.notes[0]
    assert desk.find(known.id) == []
    with pytest.raises(UsageError, match="another machine"):
        delete_memory("m-1", desk, Tombstones(tmp_path / "tombstones"))
    with pytest.raises(NotFound):
        expand("feedfeed", desk)
    assert desk.find_remote("%") == []


def test_answers_are_told_apart_by_what_others_write(team: SharingMachines) -> None:
    """A cached result expires with a write of any machine."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(desk, "alpha")
    seen = {desk.revision()}

    for number in range(3):
        fill(laptop, f"alpha {number}", source=f"/{number}.md")
        seen.add(desk.revision())

    assert len(seen) == 4
    assert desk.revision() in seen


# -- strangers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_foreign_rows_are_ignored(team: SharingMachines) -> None:
    """Invalid rows, and collections of another tenant, are neither hits nor errors."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    victim = team.machine("victim", of=tenant())
    fill(victim, "alpha secret")
    fill(laptop, "alpha honest")
    registry = desk._peers()._registry.name  # type: ignore[union-attr]
    (stolen,) = {*victim._lanes_of(victim._space)[0]._state().collections.values()}  # type: ignore[union-attr]
    owner = victim._home()
    forged = (
        '{"machine":"x","analyser":"plain 1","width":2,"count":1,"total":1,"pages":0,"words":"","supersedes":[],'
        f'"projects":{{"git:example.org/app":["{stolen}",1,1]}}}}'
    )
    nonsense = ["", "{", "[]", '{"projects":[]}', forged]
    told = [
        {**text_row(owner if text == forged else f"h{number}", 0, text, 2), "heading": "r", "heading_level": 1}
        for number, text in enumerate(nonsense)
    ]
    desk._remote.call(lambda client: client.upsert(registry, told))

    assert texts(desk, "alpha") == ["alpha honest"]
    name = collection_name(DEFAULT_COLLECTION, team.tenant, "git:example.org/app", "test/m", 2)
    torn = {**text_row(laptop._home(), 999, "alpha torn", 2), "content": "alpha", "shared": "git:example.org/app"}
    for change in (
        {"about": "[1"},
        {"about": '{"anchor":7}'},
        {"chunk_hash": "\x1b[31m"},
        {"about": '{"tags":{}}', "memory": "x"},
    ):
        changed = [{**torn, **change}]
        desk._remote.call(lambda client: client.upsert(name, changed))  # noqa: B023
        assert texts(desk, "alpha") == ["alpha honest"]
    odd = {
        **torn,
        "chunk_hash": "0123456789abcdef",
        "about": "{}",
        "source": "/a\0b",
        "start_line": -4,
        "text": "alpha odd",
    }
    desk._remote.call(lambda client: client.upsert(name, [odd]))
    (shown,) = [hit for hit in hits(desk, "alpha") if hit.chunk.text == "alpha odd"]
    assert (shown.chunk.source, shown.chunk.start_line) == ("laptop:/a?b", 1)


@pytest.mark.parametrize("given", ["", "../../etc", "a b:c", "x" * 500, "\x1b[31m", "büro.local"])
def test_a_machine_is_named_in_one_word(given: str) -> None:
    """Every machine name becomes one short word before a path."""
    named = machine_name(given)

    assert 0 < len(named) <= 64
    assert not set(named) & set(" :/\x1b\n")
    assert not named.startswith(".")


@pytest.mark.slow
def test_a_server_that_is_gone_is_told_and_cached_answers_stay_valid(
    team: SharingMachines, milvus_server: LiteServer
) -> None:
    """Reading the registry never fails by itself; a search that cannot be answered does."""
    desk = team.machine("desk")
    fill(desk, "alpha")
    before = desk.revision()
    reader = MilvusStore(
        desk._folder.parent / "nobody",
        PlainAnalyser(),
        StoreOptions("http://127.0.0.1:9", shared=True, retry_s=0.2),
        tenant=team.tenant,
        provider="test",
        model="m",
    )

    assert reader.revision().strip() == ""
    assert reader.supersessions() == ()
    with pytest.raises(Exception, match="cannot be reached"):
        reader.propose([Term("alpha")], None, ALL, 1)[0]
    assert desk.revision() == before
    reader.close()


@pytest.mark.slow
def test_a_lost_registry_is_told_and_mended(team: SharingMachines) -> None:
    """A lost registry is reported as waiting, and restored by a repair or a write."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha beta", "alpha")
    before = desk.propose([Term("alpha"), Term("beta")], None, ALL, 5)[0]

    for again in ("repair", "write"):
        laptop._remote.call(lambda client: client.drop_collection(laptop._lanes_of(laptop._space)[0]._registry.name))
        assert texts(desk, "alpha") == []
        told = laptop.compare()
        assert (told.is_consistent, told.waiting) == (True, 1)
        if again == "repair":
            laptop.compare(repair=True)
        else:
            fill(laptop, "alpha beta", "alpha", "gamma")
            fill(laptop, "alpha beta", "alpha")
        assert desk.propose([Term("alpha"), Term("beta")], None, ALL, 5)[0] == before
        assert laptop.compare().waiting == 0


@pytest.mark.slow
def test_a_lost_collection_of_another_is_passed_over(team: SharingMachines) -> None:
    """A lost collection of another machine does not affect other results."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha there", source="/b.md", project="/p/other")
    fill(desk, "alpha here")
    (name,) = set(laptop._lanes_of(laptop._space)[0]._state().collections.values())  # type: ignore[union-attr]
    laptop._remote.call(lambda client: client.drop_collection(name))

    assert texts(desk, "alpha") == ["alpha here"]
    assert texts(laptop, "alpha") == ["alpha here", "alpha there"]  # its owner pushes it anew
    assert texts(desk, "alpha") == ["alpha here", "alpha there"]
