"""Several machines over one Milvus: what one shares the others find, of the same tenant and project, and nothing else.

Each "machine" is an index of its own over one server. What a project is called on all of them comes from the end of its path.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.making import PlainAnalyser, anchored, chunk, update, vector
from tests.stores.milvus_server import LiteServer, tenant

from lorelog.core.document import Anchor, StoredChunk
from lorelog.core.errors import ModelFault, NotFound, UsageError
from lorelog.core.options import StoreOptions
from lorelog.core.ports import Store
from lorelog.core.query import Coverage, Filters, Term
from lorelog.services.delete import delete
from lorelog.services.expand import expand
from lorelog.services.tombstones import Tombstones
from lorelog.stores.memory import MemoryStore
from lorelog.stores.milvus import MilvusStore, others
from lorelog.stores.milvus.registry import machine_name
from lorelog.stores.milvus.rows import text_row
from lorelog.stores.milvus.schema import collection_name

ALL = Filters()


def name_of(project: str) -> str:
    """Call projects by the end of their path; "/private/…" has no name beyond its machine."""
    if not project:
        return "global"
    return "" if project.startswith("/private") else f"git:example.org/{project.rpartition('/')[2]}"


class Team:
    """Machines that share one Milvus."""

    def __init__(self, place: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tenant = tenant()
        self._place = place
        self._uri = uri
        self._monkeypatch = monkeypatch
        self._opened: list[MilvusStore] = []

    def machine(self, name: str, *, of: str = "", model: str = "m", **more: Any) -> MilvusStore:
        """Return the index of a machine; opened anew when asked for twice."""
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
def team(tmp_path: Path, milvus_server: LiteServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """Machines that look at each other before each question."""
    monkeypatch.setattr(others, "KNOWN_FOR_S", 0.0)
    made = Team(tmp_path, milvus_server.uri, monkeypatch)
    yield made
    made.close()


def fill(store: Store, *texts: Any, source: str = "/a.md", project: str = "/p/app") -> None:
    with store.writer() as writer:
        writer.put([update(source, list(texts), project=project)])


def hits(store: Store, word: str, filters: Filters = ALL) -> list[StoredChunk]:
    keys = [one.key for one in store.lexical([Term(word)], filters, 20)]
    found = store.fetch(keys)
    return [found[key] for key in keys if key in found]


def texts(store: Store, word: str, filters: Filters = ALL) -> list[str]:
    return sorted(one.chunk.text for one in hits(store, word, filters))


def give_vectors(store: Store, numbers: dict[str, tuple[float, ...]]) -> None:
    with store.writer() as writer:
        writer.put_vectors({chunk("/a.md", text).vector_key: vector(*many) for text, many in numbers.items()})


# -- finding -----------------------------------------------------------------------------------------------------------


def test_a_machine_finds_what_another_has_of_the_same_project(team: Team) -> None:
    """A hit of another machine names it in front of the path, belongs to the project here, and holds all that a hit shows."""
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

    here, there = sorted(hits(desk, "alpha", Filters(projects=("/srv/app", ""))), key=lambda one: one.machine)

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


def test_only_the_same_tenant_and_project_are_shared(team: Team) -> None:
    """Neither another tenant, nor another project, nor a project without a name, nor what is derived is found elsewhere."""
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
    assert stranger.reach(ALL) == Coverage(1, 0)


def test_sharing_is_a_choice_of_both(team: Team) -> None:
    """Nothing is found of a machine that does not share, nothing by one that does not, and whoever stops is not found any more."""
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
    assert private.compare().is_whole


def test_what_its_owner_removes_or_changes_is_gone_elsewhere_at_once(team: Team) -> None:
    """No old version and nothing deleted is found by another machine, without any later write of its owner."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha one", "alpha two", "alpha three")
    assert texts(desk, "alpha") == ["alpha one", "alpha three", "alpha two"]

    fill(laptop, "alpha one", "alpha new")
    assert texts(desk, "alpha") == ["alpha new", "alpha one"]
    before = [one.key for one in hits(desk, "alpha")]
    with laptop.writer() as writer:
        writer.remove(["/a.md"])

    assert texts(desk, "alpha") == []
    assert desk.fetch(before) == {}
    assert desk.reach(ALL) == Coverage(0, 0)


def test_a_reset_leaves_nothing_for_others(team: Team) -> None:
    """Whoever resets is not found any more, and the collections go with the last who has rows in them."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha")
    fill(desk, "beta")

    laptop.reset()

    assert texts(desk, "alpha") == []
    desk.reset()
    assert not [name for name in desk._remote.ask(lambda client: client.list_collections()) if team.tenant in name]


def test_a_machine_without_rows_reads_all_the_same(team: Team) -> None:
    """A home that has indexed nothing finds by words and by meaning, and says how much there is to find."""
    laptop, reader = team.machine("laptop"), team.machine("reader")
    fill(laptop, "alpha one", "beta two")
    give_vectors(laptop, {"alpha one": (1, 0), "beta two": (0, 1)})
    only = Filters(projects=("/wherever/app", ""))

    assert reader.reach(only) == Coverage(2, 2)
    assert reader.coverage(only) == Coverage(0, 0)
    words, near = reader.propose([Term("alpha")], vector(0.1, 1), only, 10)

    assert [one.chunk.text for one in reader.fetch([one.key for one in words]).values()] == ["alpha one"]
    found = reader.fetch([one.key for one in near])
    assert [found[one.key].chunk.text for one in near] == ["beta two", "alpha one"]
    assert near[0].score == pytest.approx(laptop.dense(vector(0.1, 1), ALL, 1)[0].score, abs=1e-6)
    assert reader.rarity(["alpha", "nowhere"])["alpha"] < reader.rarity(["nowhere"])["nowhere"]
    assert not reader._path.exists()  # it has no catalog, and reading made none


def test_what_is_here_too_is_shown_from_here(team: Team) -> None:
    """A text that stands on several machines comes up once, and from this one where it is here."""
    laptop, server, desk = team.machine("laptop"), team.machine("server"), team.machine("desk")
    for one in (laptop, server, desk):
        fill(one, "alpha everywhere", source=f"/{id(one)}.md")
    fill(laptop, "alpha twice", source="/b.md")
    fill(server, "alpha twice", source="/c.md")
    for one in (laptop, server, desk):
        give_vectors(one, {"alpha everywhere": (1, 0), "alpha twice": (0, 1)})

    by_words = hits(desk, "alpha")
    by_meaning = desk.fetch([one.key for one in desk.dense(vector(1, 1), ALL, 10)]).values()

    for found in (by_words, by_meaning):
        assert sorted((one.chunk.text, bool(one.machine)) for one in found) == [
            ("alpha everywhere", False),
            ("alpha twice", True),
        ]


def test_copies_do_not_crowd_out_what_is_new(team: Team) -> None:
    """However many machines have the same files, a limit is spent on different texts."""
    machines = [team.machine(f"m{number}") for number in range(4)]
    for one in machines:
        fill(one, *(f"alpha alpha {number}" for number in range(5)))
    fill(machines[0], "alpha and a few other words that make it longer than the rest of them all", source="/b.md")

    found = machines[3].lexical([Term("alpha")], ALL, 6)

    assert len({one.chunk.text for one in machines[3].fetch([one.key for one in found]).values()}) == 6


def test_words_are_scored_as_if_all_were_in_one_place(team: Team) -> None:
    """Rarity and length count over all machines, so that what is here and what is elsewhere is ranked by the same numbers."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    there = ["alpha beta " * 20, "alpha " * 40 + "gamma", "gamma delta", "delta beta"]
    here = ["alpha beta gamma", "beta " * 50, "delta alpha"]
    whole = MemoryStore(PlainAnalyser(), provider="test", model="m")
    fill(laptop, *there)
    fill(desk, *here)
    fill(whole, *there, source="/there.md")
    fill(whole, *here, source="/here.md")
    terms = [Term("alpha"), Term("gamma", 2.0), Term("delta")]

    def scores(store: Store) -> list[tuple[float, str]]:
        found = store.lexical(terms, ALL, 20)
        known = store.fetch([one.key for one in found])
        return [(round(one.score, 9), known[one.key].chunk.text) for one in found]

    assert scores(desk) == scores(whole)
    assert desk.rarity(["alpha", "gamma"]) == pytest.approx(whole.rarity(["alpha", "gamma"]))


def test_vectors_of_another_model_are_never_compared(team: Team) -> None:
    """Another model's rows are not found at all, of equal dimension or not, and a vector of another dimension is told as ever."""
    laptop, other = team.machine("laptop"), team.machine("other", model="n")
    desk = team.machine("desk")
    for one in (laptop, other):
        fill(one, "alpha")
    give_vectors(laptop, {"alpha": (1, 0, 0)})
    give_vectors(other, {"alpha": (1, 0)})

    assert [one.machine for one in hits(desk, "alpha")] == ["laptop"]
    assert len(desk.dense(vector(1, 0, 0), ALL, 5)) == 1
    assert desk.dense(vector(1, 0), ALL, 5) == []
    with pytest.raises(ModelFault):
        laptop.propose([Term("alpha")], vector(1, 0), ALL, 5)


def test_one_collection_for_all_projects_keeps_them_apart(team: Team) -> None:
    """With per_project off, projects are told apart for others, too."""
    laptop, desk = team.machine("laptop", per_project=False), team.machine("desk", per_project=True)
    fill(laptop, "alpha app")
    fill(laptop, "alpha other", source="/b.md", project="/p/other")
    fill(laptop, "alpha private", source="/c.md", project="/private/x")

    assert texts(desk, "alpha", Filters(projects=("/x/app",))) == ["alpha app"]
    assert texts(desk, "alpha") == ["alpha app", "alpha other"]


def test_a_project_that_gets_a_name_is_shared_from_then_on(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote that is added later makes a project known to the others with the next write; a folder that is gone changes nothing."""
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
    assert laptop.compare().is_whole


# -- what is told of memories ------------------------------------------------------------------------------------------


def superseding(new: str, old: str) -> Any:
    return chunk("/a.md", f"alpha {new}", 1, anchor=Anchor(memory=new, supersedes=old))


def test_what_is_superseded_elsewhere_is_told_of_there_alone(team: Team) -> None:
    """Others say what they superseded; that counts for what they have, and never for what is here."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, superseding("m-2", "m-1"))
    fill(desk, superseding("m-4", "m-3"), project="/srv/app")
    desk.lexical([Term("alpha")], Filters(projects=("/srv/app",)), 1)

    told = desk.supersessions()

    assert [(one.old, one.new, one.project, one.elsewhere) for one in told] == [
        ("m-1", "m-2", "/srv/app", True),
        ("m-3", "m-4", "/srv/app", False),
    ]
    assert desk.supersessions() is told


def test_an_id_of_another_machine_can_be_expanded_and_not_deleted(team: Team, tmp_path: Path) -> None:
    """`expand` shows what the row holds and says where the file is; `delete` says where it can be done."""
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
        delete("m-1", desk, Tombstones(tmp_path / "tombstones"))
    with pytest.raises(NotFound):
        expand("feedfeed", desk)
    assert desk.find_elsewhere("%") == []


def test_answers_are_told_apart_by_what_others_write(team: Team) -> None:
    """A cached answer ends with any other machine's write, as with one's own."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(desk, "alpha")
    seen = {desk.revision()}

    for number in range(3):
        fill(laptop, f"alpha {number}", source=f"/{number}.md")
        seen.add(desk.revision())

    assert len(seen) == 4
    assert desk.revision() in seen


# -- strangers ---------------------------------------------------------------------------------------------------------


def test_what_nobody_of_us_wrote_is_passed_over(team: Team) -> None:
    """Nonsense in the collections, or another tenant's collection named as one's own, is no hit and no error."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    victim = team.machine("victim", of=tenant())
    fill(victim, "alpha secret")
    fill(laptop, "alpha honest")
    registry = desk._others()._registry.name  # type: ignore[union-attr]
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
    desk._remote.ask(lambda client: client.upsert(registry, told))

    assert texts(desk, "alpha") == ["alpha honest"]
    name = collection_name(team.tenant, "git:example.org/app", "test/m", 2)
    torn = {**text_row(laptop._home(), 999, "alpha torn", 2), "content": "alpha", "shared": "git:example.org/app"}
    for change in (
        {"about": "[1"},
        {"about": '{"anchor":7}'},
        {"chunk_hash": "\x1b[31m"},
        {"about": '{"tags":{}}', "memory": "x"},
    ):
        changed = [{**torn, **change}]
        desk._remote.ask(lambda client: client.upsert(name, changed))  # noqa: B023
        assert texts(desk, "alpha") == ["alpha honest"]
    odd = {
        **torn,
        "chunk_hash": "0123456789abcdef",
        "about": "{}",
        "source": "/a\0b",
        "start_line": -4,
        "text": "alpha odd",
    }
    desk._remote.ask(lambda client: client.upsert(name, [odd]))
    (shown,) = [one for one in hits(desk, "alpha") if one.chunk.text == "alpha odd"]
    assert (shown.chunk.source, shown.chunk.start_line) == ("laptop:/a?b", 1)


@pytest.mark.parametrize("given", ["", "../../etc", "a b:c", "x" * 500, "\x1b[31m", "büro.local"])
def test_a_machine_is_named_in_one_word(given: str) -> None:
    """Whatever a machine calls itself, it is one short word before a path."""
    named = machine_name(given)

    assert 0 < len(named) <= 64
    assert not set(named) & set(" :/\x1b\n")
    assert not named.startswith(".")


def test_a_server_that_is_gone_is_told_and_cached_answers_stay_valid(team: Team, milvus_server: LiteServer) -> None:
    """Looking who else is there never fails by itself; a search that cannot be answered does."""
    desk = team.machine("desk")
    fill(desk, "alpha")
    before = desk.revision()
    reader = MilvusStore(
        desk._folder.parent / "nobody",
        PlainAnalyser(),
        StoreOptions("http://127.0.0.1:9", shared=True, patience_s=0.2),
        tenant=team.tenant,
        provider="test",
        model="m",
    )

    assert reader.revision().strip() == ""
    assert reader.supersessions() == ()
    with pytest.raises(Exception, match="cannot be reached"):
        reader.lexical([Term("alpha")], ALL, 1)
    assert desk.revision() == before
    reader.close()


def test_a_lost_registry_is_told_and_mended(team: Team) -> None:
    """When what machines tell each other is lost, a comparison says that something waits, and mending or writing brings it back."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha beta", "alpha")
    before = desk.lexical([Term("alpha"), Term("beta")], ALL, 5)

    for again in ("repair", "write"):
        laptop._remote.ask(lambda client: client.drop_collection(laptop._lanes_of(laptop._space)[0]._registry.name))
        assert texts(desk, "alpha") == []
        told = laptop.compare()
        assert (told.is_whole, told.waiting) == (True, 1)
        if again == "repair":
            laptop.compare(repair=True)
        else:
            fill(laptop, "alpha beta", "alpha", "gamma")
            fill(laptop, "alpha beta", "alpha")
        assert desk.lexical([Term("alpha"), Term("beta")], ALL, 5) == before
        assert laptop.compare().waiting == 0


def test_a_lost_collection_of_another_is_passed_over(team: Team) -> None:
    """What another machine has lost is not found, and does not keep anything else from being found."""
    laptop, desk = team.machine("laptop"), team.machine("desk")
    fill(laptop, "alpha there", source="/b.md", project="/p/other")
    fill(desk, "alpha here")
    (name,) = set(laptop._lanes_of(laptop._space)[0]._state().collections.values())  # type: ignore[union-attr]
    laptop._remote.ask(lambda client: client.drop_collection(name))

    assert texts(desk, "alpha") == ["alpha here"]
    assert texts(laptop, "alpha") == ["alpha here", "alpha there"]  # its owner pushes it anew
    assert texts(desk, "alpha") == ["alpha here", "alpha there"]
