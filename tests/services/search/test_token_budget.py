"""What hits cost and what fits a budget, over real files that may have changed since they were indexed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.services.sessions.talks import CaptureHome, ClaudeTalk

from lorelog import Lorelog
from lorelog.core.query import FILES_LABEL, HitForm
from lorelog.retrieval.token_estimate import estimate_tokens

NOTES = {
    "cache.md": "# Cache\n\nThe otter cache keeps shipments for five minutes.\n\n"
    "## Why\n\nAn otter saw stale prices, and every customer did.\n\n## How\n\nKeys are dropped when a webhook arrives.\n",
    "queue.md": "# Queue\n\nThe otter queue retries eight times, then gives up.\n",
    "long.md": "# Long\n\n" + "".join(f"The otter of line {n} tells of stones and of rivers.\n" for n in range(120)),
}
LONG = "The clock of the provider is followed, since ours differs by minutes on some machines. " * 3
WORDS_ALONE = {"embedding.provider": "none"}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def memory(tmp_path: Path, notes: Path) -> Iterator[Lorelog]:
    """A memory of three notes about otters: one with subsections, one short, one long enough to be cut."""
    with Lorelog(project=tmp_path, settings=WORDS_ALONE) as opened:
        opened.index([notes])
        yield opened


def test_every_hit_says_what_it_and_its_section_cost(memory: Lorelog) -> None:
    """A hit carries the cost of its snippet, and of exactly the section that expanding it shows."""
    hits = memory.search("otter", k=20).hits

    assert len(hits) >= 5
    assert [hit.tokens for hit in hits] == [estimate_tokens(hit.snippet) for hit in hits]
    assert [hit.expand_tokens for hit in hits] == [memory.expand(hit.id).tokens for hit in hits]


def test_a_large_budget_shows_whole_sections_once(memory: Lorelog) -> None:
    """With room for all, every hit is shown by its section as `expand` gives it, and no text stands there twice."""
    found = memory.search("otter", k=20).hits
    reply = memory.search("otter", k=20, token_budget=20_000)

    assert [hit.id for hit in reply.hits] == [hit.id for hit in found]
    assert {hit.packed.form for hit in reply.hits if hit.packed} == {HitForm.SECTION}
    texts = [hit.packed.text for hit in reply.hits if hit.packed and hit.packed.text]
    assert sorted(texts) == sorted(text.strip() for text in NOTES.values())
    shown = {hit.id for hit in reply.hits if hit.packed and hit.packed.text}
    assert {hit.packed.within for hit in reply.hits if hit.packed} - {""} <= shown
    assert reply.packing is not None
    assert reply.packing.dropped == ()


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(25))
@given(budget=st.integers(1, 3000))
def test_the_budget_holds_for_what_is_shown(memory: Lorelog, budget: int) -> None:
    """Whatever the budget: what is shown is paid for within it, in rank order, and every other hit is named as dropped."""
    found = [hit.id for hit in memory.search("otter", k=20).hits]
    reply = memory.search("otter", k=20, token_budget=budget)
    packing = reply.packing

    assert packing is not None
    assert packing.spent <= budget == packing.budget
    assert packing.spent == sum(hit.packed.tokens for hit in reply.hits if hit.packed)  # no conversation, so no files
    assert sum(estimate_tokens(hit.packed.text) for hit in reply.hits if hit.packed) <= packing.spent
    shown = [hit.id for hit in reply.hits]
    dropped = [item.id for item in packing.dropped]
    assert sorted(shown + dropped) == sorted(found)
    assert shown == [entry for entry in found if entry in shown]
    assert dropped == [element for element in found if element in dropped]
    assert shown or all(member.tokens > budget for member in packing.dropped)


def test_a_budget_that_fits_nothing_says_so(memory: Lorelog) -> None:
    """With room for no snippet there are no hits, each of them is named, and a note says what the shortest needs."""
    reply = memory.search("otter queue", k=3, token_budget=3)

    assert reply.hits == ()
    assert reply.packing is not None
    least = min(item.tokens for item in reply.packing.dropped)
    assert reply.notes[-1] == f"no hit fits into 3 tokens: the shortest needs {least}"
    assert {entry.reason for entry in reply.packing.dropped} == {"it is larger than the budget"}
    assert memory.search("otter queue", k=3, token_budget=least).hits != ()


@pytest.mark.parametrize("fate", ["gone", "rewritten", "a link"])
def test_a_file_that_went_or_changed_is_shown_as_indexed(memory: Lorelog, notes: Path, fate: str) -> None:
    """Where the section cannot be read any more, the indexed chunk is the most that is shown, and what it costs."""
    path = notes / "cache.md"
    path.unlink()
    if fate == "rewritten":
        path.write_text("# Cache\n\nNothing of it is true.\n", "utf-8")
    if fate == "a link":
        path.symlink_to(notes / "queue.md")

    (hit,) = memory.search("shipments", token_budget=5_000).hits

    assert hit.packed is not None
    assert (hit.packed.form, hit.packed.text) == (HitForm.CHUNK, hit.content)
    assert hit.expand_tokens == estimate_tokens(hit.content)


def test_one_hit_leaves_room_for_others(memory: Lorelog) -> None:
    """A long section takes at most half of what is left, so that a budget shows several sources, but also what no other hit could use."""
    (alone,) = memory.search("otter stones rivers", k=10, token_budget=220).hits
    reply = memory.search("otter stones rivers", k=10, token_budget=600)
    first = reply.hits[0]

    assert first.source.endswith("long.md")
    assert first.packed is not None
    assert first.packed.tokens < 400
    assert {"long.md", "queue.md"} <= {Path(hit.source).name for hit in reply.hits}
    assert alone.packed is not None
    assert alone.packed.tokens > 210


@pytest.fixture
def settled(tmp_path: Path) -> ClaudeTalk:
    """A session in which a problem was described, then settled."""
    talk = ClaudeTalk(CaptureHome(tmp_path))
    for asked, answered in (
        (
            "the billing webhook charges some customers twice, find out why",
            "Retries of the provider are not recognised.",
        ),
        ("which key tells retries of the webhook apart?", f"The header Idempotency-Key, kept for 48 hours. {LONG}"),
    ):
        talk.ask(asked)
        talk.write("src/billing.py")
        talk.write("/tmp/plan.md")
        talk.say(answered)
    return talk


def captured(*talks: ClaudeTalk, settings: Mapping[str, str] = WORDS_ALONE) -> Lorelog:
    """Return the memory with all of some sessions."""
    memory = Lorelog(project=talks[0].world.project, settings=settings)
    for talk in talks:
        event = {"host": "claude", "session": talk.session, "transcript": str(talk.path), "everything": True}
        memory.call("session.capture", event)
    memory.index()
    return memory


def test_a_conversation_is_shown_with_its_end(settled: ClaudeTalk) -> None:
    """A budget brings the last turn of a conversation before the turn that was found, the files it changed, and no anchor."""
    with captured(settled) as memory:
        found = memory.search("customers charged twice", k=1)
        reply = memory.search("customers charged twice by the webhook", k=1, token_budget=600)
    texts = [hit.packed.text for hit in reply.hits if hit.packed]

    assert [hit.anchor.turn for hit in found.hits if hit.anchor] != [settled.turn]
    assert ["48 hours" in text for text in texts] == [True, False]
    assert "charges some customers twice" in texts[1]
    assert reply.packing is not None
    assert reply.packing.files == ("src/billing.py",)
    assert reply.packing.spent == sum(hit.packed.tokens for hit in reply.hits if hit.packed) + estimate_tokens(
        FILES_LABEL + "src/billing.py"
    )
    assert not any("<!--" in text for text in texts)


def test_each_conversation_names_its_first_file_before_any_names_a_second(tmp_path: Path) -> None:
    """The files of several conversations take turns, those in a folder first, so that a small budget has one of each."""
    world = CaptureHome(tmp_path)
    talks = [ClaudeTalk(world), ClaudeTalk(world)]
    for talk, name in zip(talks, ("refund", "invoice"), strict=True):
        talk.ask(f"the webhook of the {name} charges customers twice")
        for file in ("try_it.py", f"src/{name}.py", f"src/{name}_test.py"):
            talk.write(file)
        talk.say(f"The {name} is charged once now. {LONG}")
    with captured(*talks) as memory:
        files = [
            memory.search("customers charged twice by the webhook", token_budget=budget).packing.files  # type: ignore[union-attr]
            for budget in (2_000, 135)
        ]

    assert {*files[0][:2]} == {"src/refund.py", "src/invoice.py"}
    assert files[0][-1] == "try_it.py"
    assert len(files[0]) == 5
    assert 2 <= len(files[1]) < 5
    assert files[1] == files[0][: len(files[1])]


def test_what_a_later_conversation_says_of_a_settled_matter_comes_with_it(settled: ClaudeTalk) -> None:
    """It is shown before how the first one ended, because it holds; a later one about something else is not shown."""
    later, other = ClaudeTalk(settled.world), ClaudeTalk(settled.world)
    settled.world.tick(86_400)
    later.exchange(
        "customers are charged twice again after two days: how long is the Idempotency-Key of the webhook kept?",
        f"The header Idempotency-Key, which tells retries of the webhook apart, is kept for 30 days now. {LONG}",
    )
    other.exchange("customers want to see when they were charged", f"Invoices have a day and an hour. {LONG}")
    with captured(settled, later, other, settings={"embedding.provider": "builtin"}) as memory:
        reply = memory.search("customers charged twice by the webhook, retries", k=1, token_budget=600)
        small = memory.search("customers charged twice by the webhook, retries", k=1, token_budget=130)
        least = max(hit.relevance for hit in reply.hits) - 0.01
        strict = memory.search(
            "customers charged twice by the webhook, retries", k=1, token_budget=600, min_relevance=least
        )
    texts = [hit.packed.text for hit in reply.hits if hit.packed]

    assert ["30 days" in texts[0], "48 hours" in texts[1]] == [True, True]
    assert not any("Invoices" in text for text in texts)
    assert ["30 days" in found.hits[0].content for found in (small, strict)] == [True, True]
    assert [hit.packed.form for hit in small.hits if hit.packed] == [HitForm.SNIPPET]


def test_a_later_conversation_about_another_matter_does_not_come_before_the_answer(settled: ClaudeTalk) -> None:
    """What was only said later about the same part of the code does not take the place of what was found."""
    other = ClaudeTalk(settled.world)
    settled.world.tick(86_400)
    other.exchange("the webhook answers 404 to some customers", f"The route was missing; a test has it now. {LONG}")
    with captured(settled, other, settings={"embedding.provider": "builtin"}) as memory:
        reply = memory.search("customers charged twice by the webhook, retries", k=1, token_budget=600)

    assert {hit.anchor.session for hit in reply.hits if hit.anchor} == {settled.session}


@pytest.mark.parametrize("fate", ["deleted", "of somebody else", "about something else", "short"])
def test_the_end_of_a_conversation_is_not_shown_against_its_fate(settled: ClaudeTalk, fate: str) -> None:
    """A last turn that was deleted, that a repository claims to have, without a word of the question, or a few words, does not come along."""
    journals = settled.world.place.journals
    journals.mkdir(parents=True)
    if fate in ("about something else", "short"):
        settled.exchange(
            "thanks a lot for all of this, please commit it",
            f"Committed 48 hours. {LONG}" if fate != "short" else "Committed. The webhook may go live.",
        )
    if fate == "of somebody else":
        end = f"### 15:30\n<!-- session:{settled.session} turn:z memory:zzz type:turn origin:agent -->\n- User asked: the webhook\n- Outcome: 48 hours. {LONG}\n"
        (journals / "2026-03-06.md").write_text(f"# 2026-03-06\n\n{end}", "utf-8")
    with captured(settled) as memory:
        (second,) = memory.search("Idempotency-Key", k=1).hits
        memory.delete(second.id)
        reply = memory.search("customers charged twice by the webhook", k=1, token_budget=600)

    assert [hit.anchor.session for hit in reply.hits if hit.anchor] == [settled.session]
    assert "charges some customers twice" in reply.hits[0].content


def test_a_passage_of_names_takes_the_room_that_there_is(tmp_path: Path, notes: Path) -> None:
    """Text that needs more tokens than prose is cut until it fits, and is longer than a snippet where there is room."""
    names = " ".join(f"otter_{number}.x[{number}];" for number in range(200))
    (notes / "names.md").write_text(f"# Names\n\nkayak {names}\n", "utf-8")
    with Lorelog(project=tmp_path, settings=WORDS_ALONE) as memory:
        memory.index([notes])
        (hit,) = memory.search("kayak", k=1, token_budget=300).hits

    assert hit.packed is not None
    assert hit.packed.form == HitForm.SNIPPET
    assert len(hit.packed.text) > len(hit.snippet)
    assert 200 < hit.packed.tokens <= 300


def test_expand_says_what_the_transcript_would_cost(tmp_path: Path, notes: Path) -> None:
    """The next layer's cost is told by the size of its file, and not at all where there is no such file."""
    talks = Path.home() / ".claude" / "projects" / "otter"
    talks.mkdir(parents=True)
    talk = json.dumps(
        {"type": "user", "uuid": "t", "sessionId": "s", "cwd": str(tmp_path), "message": {"content": "x"}}
    )
    (talks / "talk.jsonl").write_text(talk.ljust(2700), "utf-8")
    entry = "### 14:30\n<!-- session:s turn:t transcript:{} -->\nChose {}\n"
    (notes / "day.md").write_text(
        entry.format(talks / "talk.jsonl", "amber") + "\n" + entry.format(talks / "none.jsonl", "birch"), "utf-8"
    )
    with Lorelog(project=tmp_path, settings=WORDS_ALONE) as memory:
        memory.index([notes])
        there, missing = (memory.expand(memory.search(word).hits[0].id) for word in ("amber", "birch"))

    assert (there.transcript_tokens, missing.transcript_tokens) == (1000, None)
    assert there.tokens == estimate_tokens(there.content)
