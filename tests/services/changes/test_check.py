"""A change is told what it runs against, by names that both share, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import claude, tool_result, tool_use, write_lines
from tests.services.changes.changed import PRICING, Changed

from lorelog.core.caller import AGENT_MARKERS


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changed:
    for variable in AGENT_MARKERS:
        monkeypatch.delenv(variable, raising=False)
    return Changed(tmp_path).begin()


def test_a_guard_of_a_person_blocks(repository: Changed) -> None:
    """Guards match files, added text and the commands of CI; only one that is set to block blocks."""
    repository.guard("warn", command="npm *")
    repository.edit(".github/workflows/ci.yml", "run: pnpm install", "run: npm ci")
    reply = repository.check()
    assert [(each["kind"], each["line"], each["blocks"]) for each in reply["findings"]] == [("guard", 5, False)]
    assert not reply["blocks"]
    repository.guard(paths=["migrations/**"])
    repository.guard(content="eval(")
    repository.write("migrations/1.bin", "\0binary")
    repository.write("tool.py", "x = 1\ny = eval('1')\n")
    reply = repository.check()
    assert [(each["path"], each["line"], each["blocks"]) for each in reply["findings"]][:2] == [
        ("migrations/1.bin", 1, True),
        ("tool.py", 2, True),
    ]
    assert reply["blocks"]
    assert reply["notes"] == ["left out: 1 file, binary"]


def test_the_text_of_a_patch_is_checked(repository: Changed) -> None:
    """A diff may be given as text, of a file that is not staged too; a patch that does not fit says nothing of definitions."""
    repository.guard(paths=["src/*.py"], content="float(")
    repository.add("`total_price` in src/pricing.py sums up")
    lines = PRICING.split("\n")
    head, tail = "--- a/src/pricing.py\n+++ b/src/pricing.py\n", "-    subtotal = x\n+    subtotal = float(1)\n"
    fitting = f"@@ -7 +7 @@\n{tail}".replace("    subtotal = x", lines[6])
    assert repository.found(text=f"{head}{fitting}") == [
        ("guard", "adds `subtotal = float(1)`", 7),
        ("memory", "changes total_price", 7),
    ]
    assert repository.found(text=f"{head}@@ -7 +7 @@\n{tail}") == [("guard", "adds `subtotal = float(1)`", 7)]


def test_a_guard_log_that_cannot_be_read_blocks_nothing(repository: Changed) -> None:
    """If the log of guards is damaged, none is applied, and the reply says so."""
    repository.guard(paths=["src/**"])
    repository.edit("src/pricing.py", "RATE = 3", "RATE = 4")
    (repository.place / "home" / "data" / "default" / "guards.jsonl").write_text("broken\n" * 3, "utf-8")
    reply = repository.check()
    assert not reply["blocks"]
    assert not reply["findings"]
    assert "guards were not applied" in reply["notes"][0]


def test_a_rule_is_broken_by_a_command_or_a_name(repository: Changed) -> None:
    """Rules and lines of instructions count for commands that CI would run, and names that are forbidden; not for words and comments."""
    repository.add("use pnpm, not npm", "correction")
    repository.add("never call `unsafe_total` in src/", "preference")
    repository.write("AGENTS.md", "- Use `pnpm`, not `npm`.\n- Use `uv`, not `pip`.\n")
    repository.write("run.sh", "uv sync\n")
    repository.edit(".github/workflows/ci.yml", "name: npm tests", "name: npm all tests\n        # npm ci is slow")
    repository.write("notes.md", "unsafe_total, and npm ci\n")
    repository.edit("src/pricing.py", "RATE = 3", "RATE = 3  \n# unsafe_total is not for us\n")
    assert repository.found() == []
    repository.edit(".github/workflows/ci.yml", "          pnpm test", "          npm test")
    repository.edit("src/pricing.py", "return round(", "return unsafe_total(")
    repository.write("run.sh", "set -e\npip install x\n")
    assert repository.found() == [
        ("rule", "adds `npm test`", 8),
        ("rule", "adds `pip install x`", 2),
        ("rule", "adds `return unsafe_total(subtotal * RATE)`", 10),
    ]
    texts = [each["text"] for each in repository.check()["findings"]]
    assert texts == ["use pnpm, not npm", 'quoted: "Use `uv`, not `pip`."', "never call `unsafe_total` in src/"]


def test_lines_that_only_moved_break_nothing(repository: Changed) -> None:
    """A line that the change takes from another place is not new."""
    repository.write("build.sh", "npm ci\n")
    repository.commit("build")
    repository.add("use pnpm, not npm", "correction")
    repository.git("rm", "-q", "build.sh")
    repository.write("tools/build.sh", "set -e\nnpm ci\n")
    assert repository.found() == []


@pytest.mark.parametrize(
    ("before", "after", "why", "line"),
    [
        ("    return round(subtotal * RATE)", "    return subtotal * RATE", "changes total_price", 8),
        (
            "total_price(items)",
            "total_price(items, tax)",
            "gives total_price another signature: def total_price(items, tax)",
            6,
        ),
        ("def total_price(", "def sum_of(", "renames total_price to sum_of", 6),
    ],
)
def test_a_decision_about_a_changed_definition_is_told(
    repository: Changed, before: str, after: str, why: str, line: int
) -> None:
    """A decision that names a definition is told when the change gives it another body, signature or name."""
    repository.add("`total_price` returns cents: the payment provider takes no floats.")
    repository.edit("src/pricing.py", before, after)
    assert repository.found() == [("memory", why, line)]


def test_formatting_and_other_definitions_are_passed_over(repository: Changed) -> None:
    """Nothing is said if a formatter changed the definition, another one changed, or several files define the name."""
    repository.add("`total_price` returns cents, and so does `format_price`.")
    repository.edit("src/pricing.py", '{cents / 100:.2f} EUR"', '{cents / 100:.2f} EUR"  # of a shop')
    repository.edit("src/pricing.py", "return round(subtotal * RATE)", "return round(\n        subtotal * RATE,\n    )")
    repository.edit("src/pricing.py", "RATE = 3", "RATE = 4")
    assert repository.found() == []
    repository.git("reset", "-q", "--hard")
    repository.write("other/pricing.py", PRICING)
    repository.commit("two of them")
    repository.edit("src/pricing.py", "round(", "int(")
    assert repository.found() == []
    repository.add("`total_price` in src/pricing.py is rounded.")
    assert repository.found() == [("memory", "changes total_price", 8)]


def test_what_a_memory_names_may_not_be_there_any_more(repository: Changed) -> None:
    """Memories and lines of instructions that name a file, command or definition that goes are told, unless they name the new one."""
    fact = repository.add("The tests run with `make test`.", "note")
    repository.add("Prices are computed in src/pricing.py by `total_price`.", "note")
    repository.add("`format_price` becomes `show_price`.", "decision")
    repository.write(
        "AGENTS.md",
        "Prices: see `src/pricing.py`.\n\nSettings are ours. Do not commit `other.py`; it is local when built.\n",
    )
    repository.commit("instructions")
    repository.git("rm", "-q", "other.py")
    repository.write("Makefile", "check:\n\tpytest\n")
    repository.edit("src/pricing.py", "def format_price", "def show_price")
    assert repository.found() == [("memory", "removes `make test` from Makefile", 1)]
    assert repository.check()["findings"][0]["id"] == fact
    repository.git("mv", "src/pricing.py", "src/prices.py")
    why = "renames src/pricing.py to src/prices.py"
    assert sorted(why for _, why, _ in repository.found()) == ["removes `make test` from Makefile", why, why]


def test_what_is_not_standing_any_more_is_not_told(repository: Changed) -> None:
    """Superseded memories, and those that were made after the change, do not count."""
    old = repository.add("`total_price` returns cents.")
    repository.call("memory.supersede", {"id": old, "text": "All prices are cents."})
    repository.edit("src/pricing.py", "round(", "int(")
    assert repository.found() == []
    repository.add("`total_price` is rounded.")
    assert len(repository.found()) == 1
    repository.commit_at(30)
    assert repository.found(diff="HEAD~1..HEAD") == []


def test_lines_that_were_reverted_once_are_told(repository: Changed) -> None:
    """A change that adds the lines that a revert took back is told the commit, unless that is a squashed series; other lines are not told."""
    repository.edit(
        "src/pricing.py",
        "    return round(subtotal",
        "    discount = lookup_discount(items)\n    return round(discount * subtotal",
    )
    repository.commit("discounts")
    repository.git("revert", "--no-edit", "HEAD")
    repository.edit("src/pricing.py", "RATE = 3", "RATE = 4")
    assert repository.found() == []
    repository.edit(
        "src/pricing.py",
        "    return round(subtotal",
        "    discount = lookup_discount(items)\n    return round(discount * subtotal",
    )
    (finding,) = repository.check()["findings"]
    assert (finding["kind"], finding["text"]) == ("revert", "commit message: \"Revert 'discounts'\"")
    assert finding["why"] == "adds 2 lines again that this commit had taken back"
    assert finding["id"] == repository.git("rev-parse", "HEAD")
    repository.git(
        "commit",
        "-q",
        "--amend",
        "--only",
        "-m",
        "prices (#5)\n\n* fix\n\n* Revert x\n\nThis reverts commit 0123456789.",
    )
    assert repository.check(staged=True)["findings"] == []
    repository.commit("discounts again")
    repository.git("revert", "--no-edit", "HEAD")
    repository.git("mv", "src/pricing.py", "src/prices.py")
    repository.write("src/pricing.py", "from prices import total_price\n")
    assert repository.found() == []


def test_errors_of_several_sessions_are_told(repository: Changed) -> None:
    """A function in which two sessions saw the same error brings it to mind when it is changed, and others do not."""
    error = "Traceback (most recent call last):\n  File \"src/pricing.py\", line 8, in total_price\n    return 1\nKeyError: 'id'\n"
    for name in ("s1", "s2"):
        more = {"sessionId": name, "timestamp": repository.moment(5), "cwd": str(repository.root)}
        records = [
            claude("user", f"{name}-turn", "run it", **more),
            claude("assistant", f"{name}-a", [tool_use(name, "Bash", command="python run.py")], **more),
            claude("user", f"{name}-r", [tool_result(name, error, is_error=True)], **more),
            claude("assistant", f"{name}-end", [{"type": "text", "text": "It failed."}], **more),
        ]
        path = write_lines(repository.place / f"{name}.jsonl", records)
        about = {"host": "claude", "session": name, "transcript": str(path), "directory": str(repository.root)}
        repository.call("session.capture", about | {"everything": True})
        repository.git("reset", "-q", "--hard")
        repository.edit("src/pricing.py", "round(", "int(")
        why = "changes total_price, where 2 sessions had this error"
        assert repository.found() == ([("failure", why, 8)] if name == "s2" else [])
    repository.git("reset", "-q", "--hard")
    repository.edit("src/pricing.py", "EUR", "USD")
    assert repository.found() == []
