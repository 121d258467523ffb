"""More rows of the table: what happens when a person sits at the host's terminal program, types, and changes their
mind.

One-shot turns and servers do not show these: there, nobody presses Escape, nobody types the next prompt while the last
one is still being answered, and a session lives as long as its process does.
"""

from __future__ import annotations

import json

from e2e.behaviours import behaviour, holds, mark, of, once_each, tell, write_journal
from e2e.hosts.host import Host
from e2e.model import Step
from e2e.terminal import DOWN, ENTER, TAB, Terminal
from e2e.world import Entry, eventually


def approvals(host: Host) -> list[str]:
    """What `lorelog hosts status` says the person has still to approve."""
    told = json.loads(host.world.lorelog("hosts", "status", host.name, "--json"))["hosts"][0]
    found: list[str] = told["approve"]
    return found


def ask(host: Host, terminal: Terminal, word: str) -> None:
    """A whole turn: a prompt typed, its answer seen."""
    terminal.say(tell(host, word))
    terminal.wait_for(f"answer-{word}", f"the answer about {word}", 120)


@behaviour(
    "terminal", "in the terminal program: memory is there, and each typed turn is captured while it runs", bare=True
)
def typed(host: Host) -> None:
    known, *words = (mark(stem) for stem in ("harbour", "xray", "yankee"))
    write_journal(host.world, f"The release train leaves from {known}")
    host.install_unasked()
    asked = approvals(host)
    holds(bool(asked) == host.asks_leave, f"before the first start, the status asks to approve {asked}")
    with host.sit_down() as terminal:
        holds(not approvals(host), f"after the dialog, the status asks to approve {approvals(host)}")
        ask(host, terminal, words[0])
        once_each(host.world, words[0])
        ask(host, terminal, words[1])
        once_each(host.world, *words)
        terminal.leave(*host.leave_keys)
    holds(
        any(known in request.text for request in host.world.model.requests()), "the journal's bullet is in no request"
    )
    once_each(host.world, *words)


@behaviour("escape", "a turn stopped with Escape is captured once, as interrupted, and the next one too")
def escaped(host: Host) -> None:
    before, cut, after = mark("walnut"), mark("severed"), mark("juniper")
    with host.sit_down() as terminal:
        ask(host, terminal, before)
        once_each(host.world, before)  # Codex takes what is typed before its hooks are done into the same turn
        terminal.say(tell(host, cut, Step(f"I begin with {cut} and", hold=True)))
        holds(host.world.model.wait_for(cut), f"the model was never asked: {terminal.shown}")
        eventually(lambda: host.has_written(cut), "the host had not written the prompt down", 20)
        terminal.choose(*host.interrupt_keys)
        host.world.model.release()
        ask(host, terminal, after)
        once_each(host.world, before, cut, after)
        terminal.leave(*host.leave_keys)
    entry = of(once_each(host.world, before, cut, after), cut)[0]
    holds("interrupted" in entry.bullets, f"the entry does not say that it was interrupted: {entry.bullets}")


@behaviour("typed clear", "/clear typed in the terminal: the turns before and after are captured once, in two sessions")
def cleared(host: Host) -> None:
    words = [mark(stem) for stem in ("india", "juliet")]
    with host.sit_down() as terminal:
        ask(host, terminal, words[0])
        once_each(host.world, words[0])
        terminal.say("/clear")
        terminal.wait_until_gone(f"answer-{words[0]}", "/clear to be done")
        ask(host, terminal, words[1])
        terminal.leave(*host.leave_keys)
    sessions = {entry.fields.get("session") for entry in exactly(host, words)}
    holds(len(sessions) == len(words), f"the entries are of {sessions}")


@behaviour("typed compact", "/compact typed in the terminal: it makes no memory, the turns around it are captured once")
def compacted_by_hand(host: Host) -> None:
    words = [mark(stem) for stem in ("kilo", "lima")]
    with host.sit_down() as terminal:
        ask(host, terminal, words[0])
        once_each(host.world, words[0])
        terminal.say("/compact")
        terminal.wait_for("Compacted", "/compact to be done")
        ask(host, terminal, words[1])
        terminal.leave(*host.leave_keys)
    exactly(host, words)


def exactly(host: Host, words: list[str]) -> list[Entry]:
    """The entries of these turns, and there are no others."""
    entries = once_each(host.world, *words)
    holds(len(entries) == len(words), f"there are {len(entries)} turns: {[entry.bullets[:120] for entry in entries]}")
    return entries


@behaviour("queued", "a prompt typed while another is being answered: each is captured once")
def queued(host: Host) -> None:
    first, second = mark("mango"), mark("papaya")
    with host.sit_down() as terminal:
        terminal.say(tell(host, first, Step(f"Settled: {first} goes with answer-{first}.", wait_s=6.0)))
        ask(host, terminal, second)
        terminal.leave(*host.leave_keys)
    entries = once_each(host.world, first, second)
    answers = [of(entries, word)[0].bullets.count(f"answer-{word}") for word in (first, second)]
    holds(answers == [1, 1], f"the answers are not with their prompts: {[entry.bullets for entry in entries]}")


@behaviour("reject", "words typed when rejecting a tool call are in the journal, as a correction")
def rejected(host: Host) -> None:
    asked, words = mark("asking"), mark("never")
    path = host.world.project / f"{mark('wrong')}.txt"
    with host.sit_down(asks_first=True) as terminal:
        terminal.say(tell(host, asked, host.write_file(path, "x"), Step(f"Settled: answer-{asked}.")))
        terminal.wait_for("3. No", "Claude Code to ask")
        terminal.choose(DOWN, DOWN, TAB)
        terminal.wait_for("tell Claude what to do differently", "room for the reason")
        terminal.press(f"write to other.txt, {words}")
        terminal.wait_for(words, "the reason to be typed")
        terminal.press(ENTER)
        terminal.wait_for(f"answer-{asked}", "the answer")
        terminal.leave(*host.leave_keys)
    holds(not path.exists(), "the rejected file was written")
    once_each(host.world, asked)

    def corrections() -> list[Entry]:
        found = host.world.entries(turns_only=False)
        return [entry for entry in of(found, words) if entry.fields.get("type") == "correction"]

    eventually(lambda: bool(corrections()), f"no correction holds the words: {host.world.journals()[-600:]}")
