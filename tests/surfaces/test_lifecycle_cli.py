"""Supersede, expire, feedback, duplicates, undo and compact in the CLI."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write
from tests.surfaces.test_review import decide, kinds, proposals, write_talk

from lorelog import Lorelog
from lorelog.core.paths import cache_folder, tenant_folder
from lorelog.core.record import DIGEST_MARK


@pytest.fixture
def identity(shell: Shell) -> str:
    """The id of a memory of otters."""
    return str(shell("add", "seven otters in the river", "--type", "count", "--json").json["id"])


def test_supersede_says_how_to_take_it_back(shell: Shell, identity: str) -> None:
    """The new memory is printed with its location; the hint works and restores the old memory."""
    done = shell("supersede", identity, "eight otters in the river")

    assert done.status == 0
    assert done.out.startswith("Remembered in .lorelog/memory/")
    assert "seven" not in shell("search", "otters").out
    hidden = shell("search", "otters", "--include-superseded").out
    words = ("search", "otters", "--include-superseded")
    shown = (hidden, shell("show", identity).out, shell(*words, "--short").out, shell(*words, "--format", "tsv").out)
    for text in shown:
        assert re.search(r"superseded by 01\S+: eight otters in the river", text)
    command = done.err.split("'")[1].split()
    assert shell(*command[1:]).status == 0
    assert "seven" in shell("search", "otters").out


def test_supersede_reads_standard_input_like_add(
    shell: Shell, identity: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`-` reads the text from standard input."""
    piped = tmp_path / "text"
    piped.write_text("nine otters\n", "utf-8")
    with piped.open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert shell("supersede", identity, "-").status == 0

    assert "nine otters" in shell("list").out


def test_expire_takes_a_day_a_span_or_never(shell: Shell, identity: str) -> None:
    """Each change prints one line; a past day hides the memory, and `never` shows it again."""
    assert shell("expire", identity, "2020-01-01").out.endswith(": hidden, expired on 2020-01-01\n")
    assert shell("search", "otters").out == "Nothing found.\n"
    assert "expired on 2020-01-01" in shell("list", "--include-expired").out
    assert "seven" in shell("search", "otters", "--include-expired").out
    assert shell("expire", identity, "never").out.endswith(": never expires\n")
    assert "seven" in shell("search", "otters").out
    assert "review on 2020-01-02" in shell("expire", identity, "--review", "2020-01-02").out
    assert "review due since 2020-01-02" in shell("list", "--due").out
    assert "1 memory is due" in shell("doctor").out
    shell("expire", identity, "--review", "never")
    assert "no memory is due" in shell("list", "--due").err


@pytest.mark.parametrize(
    ("words", "said"), [(("expire", "{}"), "DAY or --review is required"), (("expire", "{}", "someday"), "not a day")]
)
def test_a_day_is_needed(shell: Shell, identity: str, words: tuple[str, ...], said: str) -> None:
    """Neither nothing nor anything is a day."""
    done = shell(*(word.format(identity) for word in words))

    assert done.status == 2
    assert said in done.err


def test_add_tells_what_fades(shell: Shell) -> None:
    """A memory with an expiry is printed with the day and reason; a digest is refused with status 2."""
    done = shell("add", "make", "--type", "trace")
    assert (done.status, "note: shown until" in done.err) == (0, True)
    assert "as requested" in shell("add", "frozen for now", "--expires", "2w").err
    refused = shell("call", "memory.add", "--json", json.dumps({"text": f"{DIGEST_MARK} -->"}))
    assert refused.status == 2
    assert "not remembered" in refused.json["error"]["message"]


def test_feedback_and_eval(shell: Shell, identity: str) -> None:
    """Feedback is confirmed, and `eval --feedback` measures by it."""
    assert "nothing was judged relevant yet" in shell("eval", "--feedback").err
    done = shell("feedback", "Otters?", identity, "relevant")
    assert (done.status, done.out) == (0, f"{identity[:8]} (seven otters in the river) is relevant to 'otters'\n")
    assert "already recorded" in shell("feedback", "otters", identity, "relevant").err
    measured = shell("eval", "--feedback", "--json").json
    assert measured["judged"] == 1
    assert shell("eval").status == 2


def test_duplicates_names_the_one_to_keep(shell: Shell, identity: str) -> None:
    """The newest of a group comes first, the others with their similarity; no group prints a message."""
    assert shell("duplicates").out == "No near-duplicate memories.\n"
    shell("add", "seven otters in the river!")

    lines = shell("duplicates").out.splitlines()

    assert lines[0] == "1. 2 memories"
    assert lines[1].split()[0] == "keep"
    assert lines[3].split()[0] == "1.00"
    assert identity[:8] in lines[3]


def listed(shell: Shell) -> list[str]:
    """Return the first lines of the memories that are shown."""
    return [memory["content"].splitlines()[-1] for memory in shell("list", "--json").json["memories"]]


def test_one_change_after_the_other_is_taken_back(shell: Shell, project: Path) -> None:
    """Additions are hidden, deletions shown again and replaced memories back; --dry-run lists them, and takes nothing back."""
    first = shell("add", "seven otters", "--json").json["id"]
    states = [listed(shell)]
    shell("supersede", first, "eight otters")
    states.append(listed(shell))
    heron = shell("add", "a heron", "--json").json["id"]
    shell("add", "a heron")  # is there already
    for verb in ("delete", "restore"):
        states.append(listed(shell))
        shell(verb, heron)
    done = shell("undo", "--dry-run").out.splitlines()
    assert [re.split(r" [0-9a-f]{8}", line.split("  ")[1])[0] for line in done] == [
        "showed again",
        "hid",
        "added",
        "replaced a memory by",
        "added",
    ]
    assert f"{heron[:8]} (a heron)" in done[0]  # the id that `add` printed
    for state in reversed(states):
        assert shell("undo").out.startswith("Took back: ")
        assert listed(shell) == state
    assert "(seven otters)" in shell("undo").out
    assert shell("undo").status == 1
    assert listed(shell) == []


@pytest.mark.parametrize("secret", ["", " ghp_" + "a1B2c3D4e5F6" * 3])
def test_an_edit_is_taken_back_unless_a_secret_was_in_it(secret: str, shell: Shell, project: Path) -> None:
    """The section gets its earlier text; a text with a secret is not kept a second time, and the change before it comes next."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.")
        section = memory.expand(added.memory).content
        memory.edit(added.memory, section, section.replace("weir.", f"mill.{secret}"))
    done = shell("undo")
    assert done.status == (1 if secret else 0)
    assert ("its earlier state is not kept" in done.err) == bool(secret)
    assert ("at the weir" in Path(added.source).read_text("utf-8")) == (not secret)
    assert shell("undo").status == 0
    assert listed(shell) == []


def test_decisions_in_the_inbox_are_taken_back(shell: Shell, project: Path, tmp_path: Path) -> None:
    """What was approved, refused, filed or closed is as before: it waits again, or the rule that was written is hidden."""
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(write_talk(tmp_path)), everything=True)
        rule = proposals(memory)["rule"]
        said = {item.text: item.id for item in memory.review.list(kind="statement").items}
        before = kinds(memory)
        steps = [(rule, "rule", "approve"), (rule, "rule", "refuse"), (said["the other nest"], "statement", "other")]
        for number, (identity, kind, label) in enumerate(steps, 3):
            decide(memory, identity, kind, label)
            assert kinds(memory) != before
            assert shell("undo").status == 0, number
            assert kinds(memory) == before
        decide(memory, said["willow for nests"], "statement", "rule")
        assert memory.call("session.status", {})["rules"] == 1
        assert "willow" in shell("undo").out
        assert memory.call("session.status", {})["rules"] == 0


def test_an_import_is_taken_back(shell: Shell, project: Path) -> None:
    """`undo` removes the entries of the last import, as `import --undo` does."""
    (project / "r.md").write_text("# Rules\n- Always use tabs.\n", "utf-8")
    assert shell("import", "rules", "r.md", "--yes").status == 0
    assert "1 entry removed" in shell("undo").out
    assert listed(shell) == []


def test_agents_have_no_undo(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's shell is refused, and what it did is not the user's to take back with `undo`."""
    shell("add", "seven otters")
    monkeypatch.setenv("CLAUDECODE", "1")
    shell("add", "a heron")
    assert "Claude Code cannot take back" in shell("undo").err
    monkeypatch.delenv("CLAUDECODE")
    assert "(seven otters)" in shell("undo").out
    assert listed(shell) == ["a heron"]


def test_what_is_forgotten_is_not_kept_for_undo(shell: Shell, project: Path, home: Path) -> None:
    """`forget` erases the notes about an edit with the text."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.")
        section = memory.expand(added.memory).content
        memory.edit(added.memory, section, section.replace("weir", "mill"))
    notes = Path(cache_folder(tenant_folder(str(home), "default")), "delivery", "own.changes")
    assert "heron" in notes.read_text("utf-8")
    assert shell("forget", added.memory, "--yes").status == 0
    assert not notes.exists() or "heron" not in notes.read_text("utf-8")


WRITER = r"""
import re, sys
text = sys.stdin.read()
found = re.findall(r'<source-(\w+) id="(\w+)"[^>]*>\n(.*?)\n</source-\1>', text, re.DOTALL)
for _, one, body in found:
    print(f"- {body.splitlines()[-1]} [{one}]")
print("- It took 99 days [%s]" % found[0][1])
"""
NOTES = "# Cache\n\nThe Redis TTL is 60 seconds.\n\n## Importer\n\nThe importer retries 3 times.\n"


@pytest.fixture
def written(project: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Indexed notes, and a program that summarizes them."""
    write(project / "notes" / "2026-03-01.md", NOTES)
    program = write(tmp_path / "writer.py", WRITER)
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "command")
    monkeypatch.setenv("LORELOG_LLM_COMMAND", f"{sys.executable} {program}")
    assert shell("index", "notes").status == 0
    return project


def test_a_program_sums_up_and_its_inventions_are_shown(written: Path, shell: Shell) -> None:
    """The summary is printed and in today's journal, dropped lines are on standard error, and the receipt has the purpose."""
    done = shell("compact")

    assert done.status == 0
    assert "- The Redis TTL is 60 seconds. [" in done.out
    assert "Summarized 2 chunks in .lorelog/memory/" in done.out
    assert "99" not in done.out.partition("Summed up")[0]
    assert "its sources do not contain 99 days: It took 99 days" in done.err
    (journal,) = (written / ".lorelog" / "memory").glob("*.md")
    assert "memory:compact-" in journal.read_text("utf-8")
    hits = shell("search", "redis importer retries ttl", "--json").json["hits"]
    assert [hit["anchor"]["covers"] for hit in hits if hit["type"] == "summary"] == [2]
    assert [line["purpose"] for line in shell("status", "cost", "--json", "--by", "purpose").json["lines"]] == [
        "compact"
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--llm", "nobody"), "unknown provider 'nobody'"),
        (("--since", "soon"), "is not a day"),
        (("--prompt-file", "none.txt"), "none.txt cannot be read"),
    ],
)
def test_what_cannot_be_asked_for_is_said(written: Path, shell: Shell, words: tuple[str, ...], said: str) -> None:
    """An unknown provider, an invalid day and a missing file are errors."""
    done = shell("compact", *words)

    assert done.status in (1, 2)
    assert said in done.err


def test_another_provider_does_not_get_the_key_of_the_chosen_one(
    written: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider given on the command line is used with its own key, and named in errors about it."""
    for name, value in {"PROVIDER": "openai", "API_KEY": "env:TEAM_API_KEY"}.items():
        monkeypatch.setenv(f"LORELOG_LLM_{name}", value)
    monkeypatch.setenv("TEAM_API_KEY", "k-1234567890")
    done = shell("compact", "--llm", "anthropic")

    assert done.status == 1
    assert "ANTHROPIC_API_KEY" in done.err
    assert "k-1234567890" not in done.err
