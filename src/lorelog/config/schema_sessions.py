"""The settings about agents' sessions: what is captured of them, what they are shown, who words the notes.

Apart from leaving a project out, all of it is the person's choice: a clone must not decide that conversations are kept, sent
to a model, or shown to one.
"""

from __future__ import annotations

from lorelog.config.setting import ADDRESS, Kind, Setting
from lorelog.core.options import SUMMARIZERS

SESSION_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "capture.enabled",
        Kind.SWITCH,
        True,
        "Whether turns of agents whose plugin is installed are written to journals.",
    ),
    Setting(
        "capture.skip",
        Kind.SWITCH,
        False,
        "Leave this project out: nothing of its sessions is kept.",
        project_allowed=True,
    ),
    Setting(
        "session.inject_bytes",
        Kind.WHOLE,
        2000,
        "Bytes of recent memory that a session is shown when it starts; 0 shows none.",
        minimum=0,
        maximum=100_000,
    ),
    Setting(
        "session.hits",
        Kind.WHOLE,
        0,
        "Memories that a prompt is shown unasked, at most; 0 shows none, and the agent asks when it needs any.",
        minimum=0,
        maximum=20,
    ),
    Setting(
        "session.hits_relevance",
        Kind.NUMBER,
        0.5,
        "Only memories that are at least so likely to be relevant are shown unasked.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "session.hits_wait_ms",
        Kind.WHOLE,
        80,
        "Milliseconds that a prompt waits for them; later ones are not shown.",
        minimum=1,
        maximum=10_000,
    ),
    Setting(
        "summarize.provider",
        Kind.TEXT,
        "none",
        "Who words the notes of a session: `none` takes sentences out of it and costs nothing, `host` asks the agent's own "
        "model, `llm` whom `llm.provider` names, the others as there. Where it is the same provider, what is not chosen "
        "here is taken from `llm`.",
        choices=SUMMARIZERS,
    ),
    Setting(
        "summarize.model",
        Kind.TEXT,
        "",
        "The model that words notes; empty takes a small one of the provider.",
    ),
    Setting(
        "summarize.base_url",
        Kind.TEXT,
        "",
        "Address of a compatible server for notes; empty takes the provider's own.",
        pattern=ADDRESS,
        expected="an http:// or https:// address without user, password or query",
        repeatable=False,
    ),
    Setting(
        "summarize.api_key",
        Kind.TEXT,
        "",
        "`env:NAME` reads that server's key from the variable NAME; empty takes the provider's own, such as OPENAI_API_KEY.",
        pattern=r"(env:[A-Za-z_][A-Za-z0-9_]*)?",
        expected="a reference such as env:OPENAI_API_KEY, never the key itself",
        secret=True,
        repeatable=False,
    ),
    Setting(
        "summarize.timeout_s",
        Kind.NUMBER,
        60.0,
        "Seconds that a model may take for a note; after them sentences are taken out.",
        minimum=1,
        maximum=600,
    ),
    Setting(
        "summarize.daily_tokens",
        Kind.WHOLE,
        200_000,
        "Tokens a day that notes may cost; when they are spent, sentences are taken out until tomorrow.",
        minimum=0,
        maximum=1_000_000_000,
    ),
    Setting(
        "summarize.prompt",
        Kind.TEXT,
        "",
        "A file whose text tells the model how to write notes, in the place of the built-in one.",
    ),
    Setting(
        "redact.patterns",
        Kind.LIST,
        (),
        "Regular expressions of further texts that no note may hold, beside keys, tokens and passwords.",
    ),
)
