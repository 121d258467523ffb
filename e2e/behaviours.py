"""The rows of the table: each is one promise, checked in a real host by what the model was sent and what lies on disk.

Every row has a world of its own and words that occur nowhere else, so that finding them means something. A row raises
`Failed` with what was seen instead. Nothing here looks into the program: what a person could see must be enough.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from e2e.hosts.host import COMPACT, Host
from e2e.model import PLAIN_ANSWER, Step
from e2e.world import Entry, Failed, World, eventually

Row = Callable[[Host], None]


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """A row: its short name, what it promises, and how it is checked."""

    name: str
    promise: str
    check: Row
    bare: bool = False
    """The check brings the plugin in itself."""


BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(name: str, promise: str, *, bare: bool = False) -> Callable[[Row], Row]:
    """Put a check into the table, in the order of this module."""

    def keep(check: Row) -> Row:
        BEHAVIOURS[name] = Behaviour(name, promise, check, bare)
        return check

    return keep


def mark(stem: str) -> str:
    """A word that occurs nowhere else."""
    return f"{stem}{secrets.token_hex(3)}"


def holds(condition: object, otherwise: str) -> None:
    if not condition:
        raise Failed(otherwise)


def of(entries: Iterable[Entry], word: str) -> list[Entry]:
    return [entry for entry in entries if word in entry.text]


def write_journal(world: World, line: str, day: str = "") -> None:
    """A journal as a person may have written it by hand."""
    folder = world.project / ".lorelog" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    name = day or dt.datetime.now().astimezone().date().isoformat()
    with (folder / f"{name}.md").open("a") as file:
        file.write(f"# {name}\n\n### 00:01\n- {line}\n")


def once_each(world: World, *words: str) -> list[Entry]:
    """Each word in exactly one entry, in this order, and still so when all is quiet."""

    def enough(entries: list[Entry]) -> bool:
        return all(of(entries, word) for word in words)

    world.wait_for_entries(enough, f"not every turn of {words} was captured")
    world.settle()
    entries = world.entries()
    counts = {word: len(of(entries, word)) for word in words}
    holds(set(counts.values()) == {1}, f"turns were captured more than once: {counts}")
    order = [word for entry in entries for word in words if word in entry.text]
    holds(order == list(words), f"turns stand in the order {order}, not {list(words)}")
    return entries


def tell(host: Host, word: str, *steps: Step) -> str:
    """A prompt with the word in it, and a script for it. The answer has a word of its own."""
    host.world.model.script(word, *(steps or (Step(f"Settled: {word} goes with answer-{word}."),)))
    return f"Please decide about {word} now."


@behaviour("install", "`lorelog hosts install` is enough, and uninstalling gives every byte back", bare=True)
def installs(host: Host) -> None:
    settings = [host.own_folder / name for name in host.changed]
    before = {path: path.read_bytes() for path in settings if path.exists()}
    host.world.lorelog("hosts", "install", host.name)
    host.world.lorelog("hosts", "uninstall", host.name)
    after = {path: path.read_bytes() for path in settings if path.exists()}
    differ = [path.name for path in {*before, *after} if before.get(path) != after.get(path)]
    holds(not differ, f"uninstalling leaves {differ} changed")
    host.install()
    captures_a_turn(host)
    told = json.loads(host.world.lorelog("hosts", "status", host.name, "--json"))["hosts"][0]
    holds(told["installed"] == "current" and told["last_capture"], f"the status says {told}")
    holds(not told["approve"] and not told["warnings"], f"the status asks for more: {told}")


@behaviour("own installer", "the host's own installer takes the bundle, and it works", bare=True)
def own_installer(host: Host) -> None:
    host.install_natively()
    captures_a_turn(host)


def captures_a_turn(host: Host) -> None:
    word, known = mark("pebble"), mark("harbour")
    write_journal(host.world, f"The release train leaves from {known}")
    outcome = host.turn(tell(host, word))
    holds(known in outcome.asked, "the journal's bullet is in no request")
    once_each(host.world, word)


@behaviour("start", "recent memory reaches the model when a session starts")
def session_start(host: Host) -> None:
    word = mark("harbour")
    write_journal(host.world, f"The release train leaves from {word}")
    outcome = host.turn("What is next?")
    holds(word in outcome.asked, "the journal's bullet is in no request")


@behaviour("capture", "a turn is in the journal, with an anchor that leads to the conversation")
def captured(host: Host) -> None:
    word = mark("lantern")
    outcome = host.turn(tell(host, word))
    entry = once_each(host.world, word)[0]
    holds(f"answer-{word}" in entry.text, f"the answer is not in the entry: {entry.text[:300]}")
    for field, value in {"session": outcome.session, "host": host.name, "branch": "main"}.items():
        holds(entry.fields.get(field) == value, f"the anchor's {field} is not {value}: {entry.fields}")
    holds(entry.fields.get("memory") and entry.fields.get("turn"), f"the anchor names no turn: {entry.fields}")
    told = transcript_of(host.world, word)
    holds(word in told and f"answer-{word}" in told, f"the anchor does not lead to the turn: {told[:300]}")


def transcript_of(world: World, word: str) -> str:
    """What `lorelog transcript` tells of the entry that a search for the word finds."""

    def found() -> bool:
        return any(word in hit["content"] for hit in world.found(word))

    eventually(found, f"a search does not find {word}", 30)
    hit = next(hit for hit in world.found(word) if word in hit["content"])
    return world.lorelog("transcript", hit["id"], "--json")


@behaviour("recall", "a turn is found by search and is there in a new session")
def recalled(host: Host) -> None:
    word = mark("orchard")
    first = host.turn(tell(host, word))
    once_each(host.world, word)
    eventually(lambda: any(word in hit["content"] for hit in host.world.found(word)), f"search does not find {word}")
    second = host.turn("Hello again.")
    holds(second.session != first.session, "the second session is the first one")
    holds(f"answer-{word}" in second.asked, "what the first session settled is in no request of the second")


@behaviour("skill", "the skills are offered, and the recall skill's commands work inside the host")
def skill(host: Host) -> None:
    word, asked = mark("meadow"), mark("asking")
    write_journal(host.world, f"The {word} cache is cleared on Tuesdays", "2026-01-05")
    host.world.lorelog("index")
    search = host.run_shell(f"lorelog search {word}")
    outcome = host.use_skill(asked, f"when is the {word} cache cleared", search)
    offered = [request for request in outcome.requests if request.tools and host.skill_mark in request.text]
    holds(offered, "no request offers the skill")
    holds("lorelog-review" in offered[0].text, "no request offers the skill that files what was said")
    results = [result for request in outcome.requests for result in request.results]
    holds(
        any("cleared on Tuesdays" in result for result in results),
        f"no result that the model got holds the memory: {[result[-200:] for result in results]}",
    )


@behaviour("tools", "the memory tools work inside the host: search, then get, then transcript")
def tools(host: Host) -> None:
    word = mark("glacier")
    host.turn(tell(host, word))
    once_each(host.world, word)
    eventually(lambda: any(word in hit["content"] for hit in host.world.found(word)), f"search does not find {word}")
    identity = next(hit["id"] for hit in host.world.found(word) if word in hit["content"])
    asked = {"search": word, "get": identity, "transcript": identity}
    steps = [host.memory_tool(verb, value) for verb, value in asked.items()]
    outcome = host.turn(tell(host, mark("asking"), *steps, Step("Read it.")))
    for step in steps:
        holds(step.tool in outcome.asked, f"{step.tool} is not offered")
    results = outcome.results[-len(steps) :]
    for step, result in zip(steps, results, strict=False):
        holds(f"answer-{word}" in result, f"{step.tool} did not give the memory: {result[-300:]}")
    holds(len(results) == len(steps), f"there were {len(results)} results")


@behaviour("tool turn", "files written and commands run are in the note")
def tool_turn(host: Host) -> None:
    word, name = mark("bridge"), f"{mark('notes')}.txt"
    path = host.world.project / name
    ran = f"echo built-{word} > built.txt"
    steps = (host.write_file(path, "first line"), host.run_shell(ran), Step(f"All done for {word}."))
    host.turn(tell(host, word, *steps))
    holds(path.exists() and (host.world.project / "built.txt").exists(), "the host did not do what the model asked")
    entry = of(once_each(host.world, word), word)[0]
    holds(name in entry.bullets, f"the file is not in the note: {entry.bullets}")
    holds(f"built-{word}" in entry.bullets, f"the command is not in the note: {entry.bullets}")
    holds(f"All done for {word}" in entry.bullets, f"the conclusion is not in the note: {entry.bullets}")


@behaviour(
    "deliver",
    "a rule stated in one session reaches the model in the next, before the call it is about and again with it",
)
def delivered(host: Host) -> None:
    rule, program = mark("because"), mark("build")
    host.world.model.script(rule, Step("Understood."))
    host.turn(f"From now on, use `pnpm run {program}` instead of `npm run {program}`, {rule}.")
    host.world.wait_for_entries(lambda entries: bool(of(entries, rule)), "the turn was not captured")
    comes_with_call(host, rule, f"npm run {program}")


def comes_with_call(host: Host, rule: str, command: str) -> None:
    """A rule is in a request of the next session before the command that it is about, and again with it."""
    eventually(lambda: bool(cues_naming(host.world, rule)), "the rule has no cue", 45)
    outcome = host.turn(tell(host, mark("asking"), host.run_shell(command), Step("Done.")))
    before = [request for request in outcome.requests if request.tools and not request.results]
    after = [request for request in outcome.requests if request.results]
    holds(any(rule in request.text for request in before), "the rule is in no request before the call")
    holds(after, "the command was not run")
    holds("because you run" in after[0].text, f"the rule did not come with the call: {after[0].text[-600:]}")
    logged = json.loads(host.world.lorelog("deliveries", "--session", outcome.session, "--json"))
    holds("cue" in json.dumps(logged), f"the delivery is not logged: {json.dumps(logged)[:300]}")


def cues_naming(world: World, word: str) -> list[Path]:
    """The files of cues in which a memory with the word stands."""
    return [path for path in world.memory_home.rglob("*.cues") if word.encode() in path.read_bytes()]


@behaviour(
    "judge", "the agent's own program files what was said, asked once and once more about the rule, and leaves nothing"
)
def judged(host: Host) -> None:
    world, rule, program = host.world, mark("because"), mark("build")
    world.model.script(rule, Step("Understood."))
    host.turn(f"We use `pnpm run {program}` here, not `npm run {program}`, {rule}.")
    world.wait_for_entries(lambda entries: bool(of(entries, rule)), "the turn was not captured")
    holds(not cues_naming(world, rule), "the rule stands although nobody judged")
    wording = f"Use `pnpm run {program}`, not `npm run {program}`, {rule}."
    verdict = {"n": 1, "label": "rule", "wording": wording, "cues": [f"command=npm run {program}"], "forbids": True}
    world.model.script('"statements": [', Step(json.dumps([verdict])), toolless=True)
    (world.bin / host.name).symlink_to(host.installed.program)
    captured, written, since = len(world.entries()), len(host.transcripts()), world.model.count
    judge = {**host.environment(), "LORELOG_REVIEW_JUDGE": "host"}
    report = json.loads(world.lorelog("review", "run", "--json", environment=judge))
    asked = world.model.requests(since)
    holds(len(asked) == 2, f"the model was asked {len(asked)} times: {[request.text[:200] for request in asked]}")
    holds(all(rule in request.last_user for request in asked), "the statement is not in every request")
    holds(
        not any(set(request.tools) & {host.shell, host.mcp_prefix + "search_memory"} for request in asked), "with tools"
    )
    holds(report["judge"].startswith(f"{host.name}/"), f"the judge was {report['judge']}")
    holds([entry["wording"] for entry in report["filed"]] == [wording], f"it was not filed: {report}")
    world.settle(1.0)
    holds(len(world.entries()) == captured and len(host.transcripts()) == written, "the judge's session is left behind")
    comes_with_call(host, rule, f"npm run {program}")


@behaviour("file", "asked to, the running agent files what was said: it gets the guide, and the rule says who filed it")
def filed(host: Host) -> None:
    world, rule = host.world, mark("because")
    world.model.script(rule, Step("Understood."))
    host.turn(f"We write dates as day, month, year here, {rule}.")
    world.wait_for_entries(lambda entries: bool(of(entries, rule)), "the turn was not captured")

    def waiting() -> list[str]:
        listed = json.loads(world.lorelog("review", "list", "--kind", "statement", "--json"))
        return [item["id"] for item in listed["items"] if rule in item["text"]]

    eventually(lambda: len(waiting()) == 1, "the statement does not wait")
    verdicts = json.dumps({"verdicts": [{"id": waiting()[0], "label": "rule"}]})
    steps = (
        host.run_shell("lorelog review list --kind statement --json -n 20"),
        host.run_shell(f"lorelog review decide --json <<'VERDICTS'\n{verdicts}\nVERDICTS"),
        Step("Filed."),
    )
    results = host.turn(tell(host, mark("asking"), *steps)).results[-2:]
    holds("You file what a user said" in results[0], f"the agent got no guide: {results[0][-300:]}")
    holds('"filed"' in results[1].replace("\\", ""), f"it was not filed: {results[1][-300:]}")
    told = [entry.text for entry in world.entries(turns_only=False) if "filed by" in entry.text and rule in entry.text]
    holds(told and f"filed by {AGENT_NAMES.get(host.name, host.title)}" in told[0], f"nobody filed it: {told}")
    holds(not waiting(), "the statement still waits")


AGENT_NAMES = {"codex": "Codex"}
"""Names of agents that differ from the titles of their hosts here."""


@behaviour("guard", "a guard stops a command and a write, tells the model why, and leaves other calls alone")
def guarded(host: Host) -> None:
    reason, name = mark("reason"), mark("frozen")
    add_guard(host.world, "--command", f"touch {name}*", "--message", f"no {reason} here")
    add_guard(host.world, "--path", f"{name}.txt", "--message", f"no {reason} there")
    ran, written, free = (host.world.project / stem for stem in (f"{name}.sh", f"{name}.txt", f"{mark('free')}.txt"))
    steps = (
        host.run_shell(f"touch {ran.name}"),
        host.write_file(written, "x"),
        host.write_file(free, "x"),
        Step("Done."),
    )
    outcome = host.turn(tell(host, mark("asking"), *steps))
    holds(not ran.exists() and not written.exists(), "a guarded call was carried out")
    holds(free.exists(), "a call that no guard is about was not carried out")
    results = outcome.results[-3:]
    for result, words in zip(results, (f"no {reason} here", f"no {reason} there", ""), strict=True):
        holds(words in result, f"the model was not told {words!r}: {result[-300:]}")
    holds("guard dismiss" in results[0], f"the way out is not told: {results[0][-300:]}")


def add_guard(world: World, *conditions: str) -> None:
    """A guard that blocks, added and switched on by a person."""
    added = json.loads(world.lorelog("guard", "add", *conditions, "--block", "--json"))
    identity = (added.get("guard") or added)["id"]
    world.lorelog("guard", "enable", identity, "--block", "--json")


@behaviour("failure", "a failing turn leaves no error text, and the others are captured")
def failing(host: Host) -> None:
    before, bad, after = mark("amber"), mark("broken"), mark("cobalt")
    first = host.turn(tell(host, before))
    host.finish(host.start(tell(host, bad, Step(status=400)), first.session))
    host.turn(tell(host, after), first.session)
    once_each(host.world, before, after)
    holds("scripted failure" not in host.world.journals(), "the error became memory")
    holds(len(of(host.world.entries(), bad)) <= 1, "the failed turn is there twice")


@behaviour("interrupt", "an interrupted turn is captured once, with the session's others")
def interrupted(host: Host) -> None:
    cut_off_by(host, signal.SIGINT)


@behaviour("kill", "a turn whose host was killed is captured once, with the next event")
def killed(host: Host) -> None:
    cut_off_by(host, signal.SIGKILL)


def cut_off_by(host: Host, which: signal.Signals) -> None:
    """A turn before, one that ends in the middle of its answer, and one after, in the same session."""
    before, cut, after = mark("walnut"), mark("severed"), mark("juniper")
    first = host.turn(tell(host, before))
    running = host.start(tell(host, cut, Step(f"I begin with {cut} and", hold=True)), first.session)
    holds(host.world.model.wait_for(cut), f"the model was never asked: {running.tail()}")
    eventually(lambda: host.has_written(cut), "the host had not written the prompt down", 20)
    running.send(which)
    try:
        running.process.wait(10)
    except subprocess.TimeoutExpired:
        running.kill()
    host.world.model.release()
    host.turn(tell(host, after), first.session)
    once_each(host.world, before, cut, after)


@behaviour("turns", "three turns of one session are three entries, in order")
def several(host: Host) -> None:
    words = [mark(stem) for stem in ("alpha", "bravo", "charlie")]
    outcome = host.converse(*(tell(host, word) for word in words))
    entries = once_each(host.world, *words)
    sessions = {entry.fields.get("session") for entry in entries}
    holds(sessions == {outcome.session}, f"the entries are of {sessions}, the session was {outcome.session}")


@behaviour("resume", "a resumed session's old turns are not captured again")
def resumed(host: Host) -> None:
    words = [mark(stem) for stem in ("delta", "echo", "foxtrot")]
    session = ""
    for word in words:
        session = host.turn(tell(host, word), session).session
    once_each(host.world, *words)


@behaviour("fork", "a forked session's copied turns are not captured again")
def forked(host: Host) -> None:
    words = [mark(stem) for stem in ("golf", "hotel")]
    first = host.turn(tell(host, words[0]))
    host.world.wait_for_entries(lambda entries: bool(of(entries, words[0])), "the first turn was not captured")
    second = host.fork(tell(host, words[1]), first.session)
    holds(second.session != first.session, "the fork has the session of its origin")
    once_each(host.world, *words)


@behaviour("compact", "compaction makes no memory, and the turns around it are captured once")
def compacted(host: Host) -> None:
    words = [mark(stem) for stem in ("india", "juliet")]
    host.converse(tell(host, words[0]), COMPACT, tell(host, words[1]))
    entries = once_each(host.world, *words)
    holds(len(entries) == 2, f"there are {len(entries)} turns: {[entry.bullets[:120] for entry in entries]}")


@behaviour("parallel", "two sessions at once in one project: every turn once, none interleaved")
def parallel(host: Host) -> None:
    words = [[mark(stem) for stem in pair] for pair in (("kilo", "lima"), ("mike", "november"))]
    host.turn("Good morning.")  # OpenCode's first two starts would both make its database
    faults: list[Exception] = []

    def one(session_words: list[str]) -> None:
        session = ""
        try:
            for word in session_words:
                steps = (host.run_shell(f"echo {word}"), Step(f"Settled: answer-{word}.", wait_s=0.5))
                session = host.turn(tell(host, word, *steps), session).session
        except (Failed, OSError) as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one, args=(session_words,)) for session_words in words]
    with host.together():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    holds(not faults, f"a session failed: {faults}")
    every = [word for session_words in words for word in session_words]
    host.world.wait_for_entries(lambda found: all(of(found, word) for word in every), "not every turn was captured")
    host.world.settle()
    entries = [entry for entry in host.world.entries() if "Good morning" not in entry.text]
    holds(len(entries) == len(every), f"{len(entries)} entries for {len(every)} turns")
    for entry in entries:
        held = [word for word in every if word in entry.text]
        holds(len(held) == 1, f"an entry holds {held}: {entry.text[:300]}")


@behaviour("daemon dies", "the daemon is killed in the middle of turns: nothing lost, nothing twice")
def daemon_dies(host: Host) -> None:
    words = [mark(stem) for stem in ("oscar", "papa", "quebec")]
    first = host.turn(tell(host, words[0]))
    eventually(lambda: bool(host.world.daemon()), "no daemon came up")
    late = Step(f"Settled late: answer-{words[1]}.", wait_s=2.0)
    running = host.start(tell(host, words[1], late), first.session)
    holds(host.world.model.wait_for(words[1]), f"the model was never asked: {running.tail()}")
    holds(host.world.kill_daemon(), "there was no daemon to kill")
    host.finish(running)
    host.world.kill_daemon()  # the one that this turn's end has woken
    host.turn(tell(host, words[2]), first.session)
    once_each(host.world, *words)


@behaviour("no daemon", "with the daemon switched off, turns are captured all the same")
def no_daemon(host: Host) -> None:
    host.world.lorelog("config", "set", "daemon.warm", "off")
    words = [mark(stem) for stem in ("romeo", "tulip")]
    session = ""
    for word in words:
        session = host.turn(tell(host, word), session).session
    once_each(host.world, *words)
    holds(not host.world.daemon(), "there is a daemon nevertheless")


@behaviour("backfill", "a session from before is captured by `lorelog backfill`, once", bare=True)
def backfilled(host: Host) -> None:
    words = [mark(stem) for stem in ("uniform", "victor")]
    first = host.turn(tell(host, words[0]))
    holds(not host.world.entries(), "something was captured although nothing is installed")
    host.world.lorelog("backfill", host.name)
    once_each(host.world, words[0])
    host.world.lorelog("backfill", host.name)
    host.bring_plugin()
    host.turn(tell(host, words[1]), first.session)
    once_each(host.world, *words)


@behaviour("other host", "what one host learned is there in another")
def other_host(host: Host) -> None:
    word = mark("sierra")
    other = host.other()
    other.prepare()
    other.turn(tell(other, word))
    once_each(host.world, word)
    outcome = host.turn("What do we know?")
    holds(f"answer-{word}" in outcome.asked, f"what {other.title} learned is in no request of {host.title}")


@behaviour("secrets", "secrets in a prompt are nowhere in what we write")
def no_secrets(host: Host) -> None:
    word = mark("tango")
    key = "AKIA" + "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(16))
    token = "ghp_" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789") for _ in range(36))
    hidden = mark("unspoken")
    host.world.model.script(word, Step(f"I stored {key} and {token} for {word}."))
    host.turn(f"For {word} use the key {key} and GITHUB_TOKEN={token}. <private>My {hidden} is mine.</private> Thanks.")
    once_each(host.world, word)
    for secret in (key, token, hidden):
        places = [path for path in written_by_us(host.world) if secret.encode() in path.read_bytes()]
        holds(not places, f"{secret[:8]}… is in {[str(path) for path in places]}")


def written_by_us(world: World) -> list[Path]:
    """Every file of ours: the home, and what lies in the project."""
    folders = (world.memory_home, world.project / ".lorelog")
    return [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


@behaviour("absent", "with lorelog gone from the PATH, the host's turn goes on as ever")
def absent(host: Host) -> None:
    host.world.remove_lorelog()
    outcome = host.turn("Are you there?")
    holds(PLAIN_ANSWER in outcome.answer, f"the host answered {outcome.answer!r}")
