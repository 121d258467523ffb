"""Made-up turns, one group for each way in which notes lost what mattered, with variants and counter-examples.

Nothing here is from a real session. `shown` must stand in the note, `hidden` must not.
"""

from __future__ import annotations

from dataclasses import dataclass

from lorelog.core.session import ToolAction, TurnDigest

PROJECT = "/home/mara/otters"


@dataclass(frozen=True)
class MadeUpTurn:
    """A turn and what its note must and must not contain."""

    complaint: str
    name: str
    digest: TurnDigest
    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def answer(*texts: str, request: str = "What is wrong with the ferry timetable?") -> TurnDigest:
    """Return a turn with these texts of the agent."""
    return TurnDigest(request, texts)


def reply(request: str, asked: str) -> TurnDigest:
    """Return a turn whose request answers an agent's text."""
    return TurnDigest(request, ("The ferry table now has a column for the tide, and its tests pass.",), asked=asked)


def failure(tool: str, error: str, command: str = "", files: tuple[str, ...] = ()) -> TurnDigest:
    return TurnDigest(
        "Run the ferry checks", ("The checks are done and recorded.",), (ToolAction(tool, files, command, True, error),)
    )


CODE = (
    MadeUpTurn(
        "code",
        "prose between two short blocks",
        answer(
            "Call it like this:\n\n```sh\nferry sync\n```\n\nThe pier must be open first, else the sync waits.\n\n"
            "```sh\nferry pier --open\n```\n\nAfter that it takes a second."
        ),
        ("`ferry sync`", "The pier must be open first", "`ferry pier --open`", "After that it takes a second."),
    ),
    MadeUpTurn(
        "code",
        "short block before a long one",
        answer(
            "Use:\n```\nferry sync\n```\nThe otters sleep at noon.\n```python\na = 1\nb = 2\nc = 3\nd = 4\n```\nSo it waits."
        ),
        ("The otters sleep at noon.", "So it waits."),
        ("b = 2",),
    ),
    MadeUpTurn(
        "code",
        "three blocks of one line",
        answer("\n".join(f"Step {number} is needed.\n~~~\nrun {number}\n~~~" for number in (1, 2, 3))),
        ("Step 1 is needed.", "Step 2 is needed.", "Step 3 is needed.", "`run 3`"),
    ),
    MadeUpTurn(
        "code",
        "a long block is left out",
        answer("Before it.\n\n```\n" + "line of code\n" * 9 + "```\n\nAfter it."),
        ("Before it.", "After it."),
        ("line of code",),
    ),
    MadeUpTurn(
        "code",
        "a block that is never closed is prose",
        answer("See:\n\n```\none\ntwo\nthree\nfour\n\nThe seal was at fault."),
        ("The seal was at fault.",),
    ),
    MadeUpTurn(
        "code",
        "Markdown that contains fences",
        answer(
            "The page:\n\n```markdown\n# Pier\n```sh\nferry\n```\nmore\nlines\nhere\n```\n\nIt says who opens the pier.\n\n"
            "```sh\nferry pier\n```"
        ),
        ("It says who opens the pier.",),
        ("# Pier",),
    ),
    MadeUpTurn(
        "code",
        "names are not emphasis",
        answer("The module `__init__` and __main__.py were **both** read, as were `src/**/a` and `src/**/b`."),
        ("`__init__`", "__main__.py", "were both read", "`src/**/a` and `src/**/b`"),
    ),
)
OPENINGS = (
    MadeUpTurn("openings", "good question with its subject", answer("Good question about tides: the moon decides."), ("Good question about tides",)),
    MadeUpTurn("openings", "done with", answer("Done with the harbour; the lock is left."), ("Outcome: Done with the harbour",)),
    MadeUpTurn("openings", "filler alone is all there is", answer("Done."), ("Outcome: Done.",)),
    MadeUpTurn("openings", "tags in prose", answer("It reads the `<system-reminder>` tag. The rest of the answer stays."), ("The rest of the answer stays.",)),
)  # fmt: skip
LONG = "The tide table is read row by row and compared with the log of the pier. "
CUTS = (
    MadeUpTurn(
        "cuts",
        "one long paragraph",
        answer(f"The cause is the clock. {LONG * 40}So the ferry leaves an hour late."),
        ("The cause is the clock.", "So the ferry leaves an hour late.", "…"),
    ),
    MadeUpTurn(
        "cuts",
        "a long list",
        answer("Checked:\n\n" + "".join(f"- Row {n} of the timetable agrees.\n" for n in range(99)) + "\nOnly row 12 was wrong."),
        ("Checked:", "Row 0 of", "Only row 12 was wrong.", "…"),
        ("Row 50 of",),
    ),
    MadeUpTurn(
        "cuts",
        "an answer beyond every limit",
        answer(f"It began well. {LONG * 3000}\n\nIt ended with a broken oar."),
        ("It began well.", "It ended with a broken oar."),
    ),
    MadeUpTurn(
        "cuts",
        "a long request ends with its question",
        answer("Yes, it is.", request=f"Here is the log. {LONG * 20}Is the pier open on Sunday?"),
        ("User asked: Here is the log.", "Is the pier open on Sunday?"),
    ),
    MadeUpTurn("cuts", "a short answer is whole", answer("- One oar.\n- Two seals.\n\nThree otters."), ("One oar.", "Two seals.", "Three otters."), ("…",)),
)  # fmt: skip
FINDING = "The timetable is read in local time, so the last ferry is missing."
STEPS = (
    *(
        MadeUpTurn("steps", step, answer(FINDING, step), (f"Outcome: {FINDING}",), (step[-15:],))
        for step in (
            "Now let me commit",
            "Let me check the pier log as well:",
            "I'll now update the table.",
            "Good, I have the full picture. Let me write the plan.",
            "Perfect! Now let's run the checks:",
            "Now update the ferry table:",
            "I need to add a column first.",
            "Given the size of this, let me first build it:",
            "I see the issue. Let me fix it.",
        )
    ),
    MadeUpTurn("steps", "the result before a step stays", answer("All 12 tide tests pass. Now let me commit this:"), ("Outcome: All 12 tide tests pass.",), ("commit",)),
    MadeUpTurn("steps", "only steps", answer("Let me look at the pier."), ("User asked",), ("Outcome",)),
    MadeUpTurn("steps", "a question is an outcome", answer(FINDING, "Should I commit this, or do you want to see the table first and then decide?"), ("Should I commit this",)),
    MadeUpTurn("steps", "let me know is not a step", answer("The lock holds. Let me know what the pilot says about it."), ("The lock holds.",)),
    MadeUpTurn("steps", "a decision to wait", answer("The ferry is out. I'll wait until it is back and leave the table as it is."), ("I'll wait until it is back",)),
    MadeUpTurn("steps", "next as a noun", answer("The table is updated. Next run of the ferry shows the new times."), ("Next run of the ferry shows",)),
    MadeUpTurn("steps", "now as a result", answer("Now both piers use the same clock, which was the point."), ("Now both piers use the same clock",)),
    MadeUpTurn("steps", "a step in another language is kept", answer("Jetzt lese ich den Fahrplan."), ("Jetzt lese ich den Fahrplan.",)),
)  # fmt: skip
ERRORS = (
    *(
        MadeUpTurn("errors", error, failure("Edit", error, files=(f"{PROJECT}/pier.py",)), (), ("Errors",))
        for error in (
            "File has not been read yet. Read it first before writing to it.",
            "String to replace not found in file.",
            "<tool_use_error>No changes to make</tool_use_error>",
            "rejected by the user",
            "Sibling tool call errored",
            "Found 2 matches of the string to replace, but replace_all is false.",
            "File has been modified since read, either by the user or by a linter.",
        )
    ),
    *(
        MadeUpTurn("errors", f"command: {error}", failure("Bash", error, "make tide"), (), ("Errors",))
        for error in ("", "Exit code 2", "rejected by the user", "[Request interrupted by user for tool use]", "exit status 1")
    ),
    MadeUpTurn("errors", "a file that is not there", failure("Read", "File does not exist."), (), ("Errors",)),
    MadeUpTurn("errors", "a search that found nothing", failure("Bash", "grep: pier.py: No such file or directory", "grep tide pier.py"), (), ("Errors",)),
    MadeUpTurn("errors", "a line that is no reason", failure("Bash", "tide-check  pass  1m2s", "ferry checks"), (), ("Errors",)),
    MadeUpTurn("errors", "a failed test", failure("Bash", "FAILED test_tide.py::test_noon - KeyError: 'noon'", "make tide"), ("Errors: Bash `make tide`: FAILED test_tide.py::test_noon",)),
    MadeUpTurn("errors", "a full disk", failure("Write", "ENOSPC: no space left on device", files=(f"{PROJECT}/pier.py",)), ("Errors: Write pier.py: ENOSPC",), (PROJECT,)),
    MadeUpTurn("errors", "a service's error", failure("mcp__harbour__query", 'relation "ferries" not found'), ('relation "ferries" not found',)),
    MadeUpTurn("errors", "paths are relative", failure("Bash", f"error: {PROJECT}/src/tide.py:12: undefined name 'moon'", f"cd {PROJECT} && make tide 2>&1 | tail -20"), ("Bash `make tide`: error: src/tide.py:12: undefined",), (PROJECT, "tail")),
    MadeUpTurn("errors", "paths of another project are not", failure("Bash", f"error: {PROJECT}-old/src/tide.py:12: undefined", "make tide"), (f"{PROJECT}-old/src/tide.py",)),
)  # fmt: skip
OPTIONS = "Two ways are open:\n\n1. **Paint** the hull\n2. **Replace** the hull, which takes a week\n\nWhich one?"
LETTERS = "**Option A**: leave the buoy\n\n**Option C**: move the buoy to the pier\n\nI would take A."
REPLIES = (
    MadeUpTurn("replies", "yes", reply("yes", "The lock is open. Should I close the lock?"), ("[The lock is open. Should I close the lock?] yes",)),
    MadeUpTurn("replies", "a number", reply("2", OPTIONS), ("[2. Replace the hull, which takes a week] 2",), ("Paint",)),
    MadeUpTurn("replies", "two numbers", reply("1 and 2", OPTIONS), ("1. Paint the hull; 2. Replace the hull",)),
    MadeUpTurn("replies", "a letter", reply("Option C", LETTERS), ("[Option C: move the buoy to the pier] Option C",)),
    MadeUpTurn("replies", "a table", reply("3", "| # | Task |\n|---|---|\n| 2 | oil the winch |\n| 3 | mend the net |\n\nPick one."), ("mend the net",), ("winch",)),
    MadeUpTurn("replies", "go on without a question", reply("go on", "I propose to tar the boat, then to paint it."), ("[I propose to tar the boat, then to paint it.] go on",)),
    MadeUpTurn("replies", "all of them", reply("do all 2", OPTIONS), ("Which one?] do all 2",)),
    MadeUpTurn("replies", "an order", reply("push the tag", "The buoy is moved."), ("User asked: [The buoy is moved.] push the tag",), ()),
    MadeUpTurn("replies", "a long request", reply("yes, but only the one at the northern pier", OPTIONS), ("User asked: yes, but",), ("[",)),
    MadeUpTurn("replies", "a command of the host", reply("/review", OPTIONS), ("User asked: /review",), ("[",)),
    MadeUpTurn("replies", "no text before", reply("yes", ""), ("User asked: yes",), ("[",)),
    MadeUpTurn("replies", "a secret in the question", reply("yes", "The database password: Zebra-88-lamp is set. Keep it?"), ("Keep it?] yes",), ("Zebra-88",)),
)  # fmt: skip
PUNCTUAL = "The ferry is on time again, and all of the tests pass on both of the piers."
CAUSE = "The root cause is that the tide clock counts in lunar hours."
FAULTS = (
    "The alpha winch never stops because its brake is worn.",
    "The beta pump leaks since somebody removed a seal, and it failed because of that.",
    "The gamma clock runs backwards due to a swapped cable inside the housing.",
    "Turns out that delta lanterns were ordered without bulbs last winter.",
)
FINDINGS = (
    MadeUpTurn("findings", "from the digest", TurnDigest("fix it", (PUNCTUAL,), findings=(CAUSE,)), (f"Found: {CAUSE}",)),
    MadeUpTurn("findings", "from an earlier text", answer(f"I see the issue. {CAUSE} Let me fix it.", PUNCTUAL), (f"Found: {CAUSE}",)),
    MadeUpTurn("findings", "not twice", answer(CAUSE, f"{CAUSE} The ferry is on time again."), (), ("Found",)),
    MadeUpTurn("findings", "steps are not findings", answer("Let me check the tide because it may be wrong. Then I’m reading the chart, because the harbour asks for that.", "Now update the `clock` which is not set:", PUNCTUAL), (), ("Found",)),
    MadeUpTurn("findings", "at most three", TurnDigest("fix it", (PUNCTUAL,), findings=FAULTS), ("gamma", "delta"), ("alpha",)),
)  # fmt: skip
SECRET = "Zebra-88-lamp"
SECRETS = (
    MadeUpTurn(
        "secrets",
        "named once, bare elsewhere",
        TurnDigest(
            f"The db password: {SECRET} please",
            (f"I logged in with {SECRET} and the table is there, as expected.",),
            (
                ToolAction("Bash", command=f"ferry login {SECRET}"),
                ToolAction("Bash", (), f"ferry try {SECRET}", True, f"error: {SECRET} refused"),
                ToolAction("Write", (f"/tmp/{SECRET}",)),
            ),
            findings=(f"The root cause is that {SECRET} was entered twice.",),
        ),
        ("[redacted:password]", "ferry login [redacted:password]", "error: [redacted:password] refused"),
        (SECRET, "Zebra"),
    ),
    MadeUpTurn(
        "secrets",
        "named after its first use",
        answer("Use it.", f"password = {SECRET} was in the file, which is now clean.", request=f"try {SECRET}"),
        ("User asked: try [redacted:",),
        (SECRET,),
    ),
    MadeUpTurn(
        "secrets",
        "a colour inside",
        answer(f"password: Zebra-\x1b[31m88-lamp\x1b[0m works, and {SECRET} is set in the file."),
        ("[redacted:password]",),
        ("88-lamp", "\x1b"),
    ),
    MadeUpTurn(
        "secrets",
        "a placeholder is not a secret",
        answer("Set password=changeme in the example. The word changeme is documented there."),
        ("The word changeme is documented",),
    ),
)
ESCAPES = (
    MadeUpTurn("escapes", "colours", failure("Bash", "\x1b[1;31merror:\x1b[0m the \x1b[4mpier\x1b[24m cannot open", "make tide"), ("error: the pier cannot open",), ("\x1b", "[0m")),
    MadeUpTurn("escapes", "colours without the escape", failure("Bash", "[31merror: the pier cannot open[0m", "make tide"), ("error: the pier cannot open",), ("[31m",)),
    MadeUpTurn("escapes", "a title and a link", answer("\x1b]0;otters\x07The \x1b]8;;http://x\x1b\\pier\x1b]8;;\x1b\\ is open."), ("The pier is open.",), ("\x1b", "otters")),
    MadeUpTurn("escapes", "brackets that are not colours", answer("The model is called `tide[1m]` and takes `args[0]`."), ("`tide[1m]`", "`args[0]`")),
    MadeUpTurn("escapes", "a shell command of the user", TurnDigest("! git status", (), (ToolAction("shell"),)), (), ("git status",)),
    MadeUpTurn("escapes", "a shell command that was answered", TurnDigest("! make tide", ("The tide check fails since the clock moved.",)), ("! make tide", "The tide check fails")),
    MadeUpTurn("escapes", "shell output in a request", answer("Yes.", request="<bash-stdout>12 ferries</bash-stdout>Is that all of the ferries?"), ("User asked: Is that all",), ("12 ferries",)),
)  # fmt: skip
MADE_UP_TURNS = (*CODE, *OPENINGS, *CUTS, *STEPS, *ERRORS, *REPLIES, *FINDINGS, *SECRETS, *ESCAPES)
