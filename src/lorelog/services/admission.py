"""Is this worth remembering, and for how long? One pure function, asked before anything is written.

Agents are eager to note that they are still at work, and every such note is found again later in the place of something that
was learned. So words of mere acknowledgement are refused to agents and tools, and kept two weeks for people, who are not
told what is worth remembering. What was compiled from records is never taken for something that was said, whoever brings it.
Only whole texts are judged, by closed lists: a text with a single word of content is none of these.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from lorelog.core.memory import Admission, Decision, NewMemory
from lorelog.core.record import DIGEST_MARK, is_compiled

SHORT_DAYS = 14
TRACE_DAYS = 30
_URGENT = 8
_LEAST_ACTION = 24
_PROGRAMS = frozenset({"agent", "tool"})
_TRACES = frozenset({"kind:trace", "kind:run"})
_TALK = frozenset({"conversation", "message", "chat", "turn"})
_LONGEST_CHATTER = 200
"""Characters: nobody acknowledges at greater length."""

_GENERATED = "task:status:generated"
_WRAPPED = ("task:role:", "task:digest:")
_WRAPPER = re.compile(
    r"^\W{0,4}Artifact role:\W{0,4}(?:project_brief|task_resume|resume|failure_library|decision_library|evidence_library"
    r"|highlight_library|highlights?|digest)\W{0,4}$",
    re.MULTILINE,
)
_PRIORITY = re.compile(r"(?:priority|importance):(\d{1,3})")
_ACTION = re.compile(r"\bAgent action:\s*([^\n]+)", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:add|always|apply|ask|avoid|build|call|check|choose|clean|commit|confirm|convert|copy|create|delete|"
    r"disable|document|do not|don['\u2019]t|enable|ensure|escalate|export|fix|follow|import|include|index|inspect|install|"
    r"keep|limit|log|migrate|never|notify|open|pass|pin|prefer|preserve|query|raise|read|rebuild|record|refuse|reject|"
    r"remove|rename|replace|report|require|rerun|reset|restart|restore|retry|return|review|rotate|run|search|send|set|skip|"
    r"start|stop|store|test|treat|update|upgrade|use|validate|verify|wait|warn|write)\b",
    re.IGNORECASE,
)

_BREAKS = re.compile(
    r"[.!?;:,\u2026\u3002\uff01\uff0c\uff1f\u3001\n]+|\s[-\u2013\u2014]+\s|\s(?:and|then|so|und|y|et)\s"
)
_EDGES = re.compile(r"^\W+|\W+$")
_ACKNOWLEDGED = frozenset(
    """
    ok|okay|k|kk|yes|yep|yeah|no|nope|sure|sure thing|fine|good|great|nice|cool|perfect|excellent|awesome|right|alright|all right
    all good|all set|looks good|looks good to me|lgtm|sounds good|got it|i see|understood|noted|ack|acknowledged|roger|copy that
    thanks|thank you|thx|ty|you are welcome|no problem|np|will do|on it|i am on it|i'm on it|done|all done|finished|complete
    completed|task complete|task completed|task done|that is done|that's done|it is done|ready|ready to go|let's go|go ahead|go
    continue|continuing|continuing now|i will continue|i'll continue|let me continue|going on|moving on|proceeding|proceed
    next|next step|on to the next step|moving to the next step|working|working on it|still working|still working on it|i am working on it
    i'm working on it|in progress|work in progress|wip|starting|starting now|started|getting started|beginning|here we go
    one moment|one second|just a moment|just a second|hold on|wait|please wait|checking|let me check|let me see|looking
    looking into it|i will look into it|i'll look into it|thinking|hmm|hm|ah|oh|update|status update|progress update|no change
    no changes|no update|no updates|nothing new|nothing to report|nothing to add|same as before|see above|tbd|todo|n/a|na|test|testing
    hello|hi|hey|good morning|bye|sorry|oops|never mind|nvm|please|continue please|please continue|keep going|carry on
    fertig|erledigt|alles klar|verstanden|weiter|mach weiter|ja|nein|gut|danke|passt|in arbeit|bin dran
    listo|hecho|vale|de acuerdo|entendido|gracias|sigue|continuar|trabajando en ello|en progreso
    fait|c'est fait|d'accord|compris|merci|oui|non|terminé|en cours|je continue
    fatto|va bene|capito|grazie|feito|pronto|certo|obrigado|entendi
    готово|хорошо|ок|спасибо|понял|продолжаю|да|нет
    好的|好|可以|完成|已完成|继续|收到|明白|了解|谢谢|正在处理|没问题
    はい|了解です|完了|完了しました|わかりました|ありがとう|완료|네|알겠습니다
    """.replace("\n", "|").split("|")
)
_SAID = frozenset(" ".join(one.split()) for one in _ACKNOWLEDGED if one.strip())
_OPENERS = frozenset(
    {
        "ok",
        "okay",
        "yes",
        "yep",
        "yeah",
        "great",
        "good",
        "perfect",
        "nice",
        "cool",
        "alright",
        "thanks",
        "done",
        "sure",
    }
)
"""Words that others may follow without a stop between them."""
_EMPTY = """
a about after again all already also am an and any are as at be been being begin beginning begun bit by can carrying chore come complete completed
completing continue continued continues continuing current currently day did do does doing done end ended ending far few final finally
finish finished finishing first for from further get getting go goes going gone good got had has have having here hour i if in into is it item items
iteration its just keep keeping last later let lets little look looking made make making me minute moment more most moving much my near nearly
next no not note nothing now of off ok okay on once one only onto other our out over part phase please point proceed proceeding progress
progressing ready round same second set short so some something soon stage start started starting status step steps still stuff such sure take
taking task tasks than that the them then there these they thing things this those through time to today together too two under until up update
updated updates updating us was way we well were what when where which while will wip with work worked working works yet you your
"""
_EMPTY_WORDS = frozenset(_EMPTY.split())
_WORD = re.compile(r"[^\W_]+(?:['\u2019_][^\W_]+)*")


def admit(memory: NewMemory, today: date) -> Admission:
    """Say whether a memory is kept, for how long, and why."""
    refusal = _refusal(memory)
    if refusal:
        return Admission(Decision.REFUSED, refusal)
    if memory.expires:
        return Admission(Decision.EPHEMERAL, "as asked for", memory.expires)
    if _priority(memory.tags) is not None:
        return Admission(Decision.DURABLE, "someone gave it a priority")
    if _is_chatter(memory.text) or (_is_progress(memory) and not _has_content(memory.text)):
        refused = memory.origin in _PROGRAMS and not _is_talk(memory)
        decision, until = (Decision.REFUSED, "") if refused else (Decision.EPHEMERAL, _in_days(today, SHORT_DAYS))
        return Admission(decision, "it acknowledges something and says nothing that could be looked for", until)
    if memory.type == "trace" or _TRACES & set(memory.tags):
        return Admission(Decision.EPHEMERAL, "a trace of what was run", _in_days(today, TRACE_DAYS))
    return Admission(Decision.DURABLE, "it says something")


def _refusal(memory: NewMemory) -> str:
    """Return why a memory is refused whatever else it says; empty where it is not."""
    if not memory.text.strip():
        return "the text is empty"
    generated = _GENERATED in memory.tags and any(tag.startswith(_WRAPPED) for tag in memory.tags)
    if generated or _WRAPPER.search(memory.text) or _is_compiled(memory):
        return "it was compiled from records, and is no memory of its own; the records it cites are"
    urgent = (_priority(memory.tags) or 0) >= _URGENT
    if urgent and memory.origin in _PROGRAMS and not _tells_action(memory.text):
        return (
            f"a priority of {_URGENT} and more needs a sentence that says what to do: 'Agent action: …', "
            f"at least {_LEAST_ACTION} characters with a verb"
        )
    return ""


def _is_compiled(memory: NewMemory) -> bool:
    """Say whether a text is a digest; of a program, also whether it holds one. People may speak about digests."""
    held = memory.origin != "user" and any(
        line.lstrip(" >").startswith(DIGEST_MARK) for line in memory.text.split("\n")
    )
    return held or is_compiled(memory.text)


def _priority(tags: tuple[str, ...]) -> int | None:
    found = [int(match[1]) for tag in tags if (match := _PRIORITY.fullmatch(tag))]
    return max(found, default=None)


def _tells_action(text: str) -> bool:
    told = (match[1].strip() for match in _ACTION.finditer(text))
    return any(len(one) >= _LEAST_ACTION and _VERB.search(one) for one in told)


def _is_talk(memory: NewMemory) -> bool:
    return memory.type in _TALK or any(f"kind:{kind}" in memory.tags for kind in _TALK)


def _is_progress(memory: NewMemory) -> bool:
    return memory.type == "progress" or "kind:progress" in memory.tags


def _is_chatter(text: str) -> bool:
    """Say whether a text is made of nothing but acknowledgements."""
    if len(text) > _LONGEST_CHATTER:
        return False
    whole = _EDGES.sub("", " ".join(text.casefold().replace("\u2019", "'").split()))
    if whole in _SAID:
        return True
    said = [_EDGES.sub("", one) for one in _BREAKS.split(text.casefold().replace("\u2019", "'"))]
    said = [" ".join(one.split()) for one in said if one]
    return bool(said) and all(map(_is_said, said))


def _is_said(part: str) -> bool:
    """Say whether a part is an acknowledgement, or one after another as in `ok thanks`."""
    while part not in _SAID:
        first, _, part = part.partition(" ")
        if first not in _OPENERS or not part:
            return False
    return True


def _has_content(text: str) -> bool:
    """Say whether a text has a word that tells one note of progress from another; whatever is no plain word does."""
    words = _WORD.findall(text.casefold())
    return any(word not in _EMPTY_WORDS and not word.isdigit() for word in words)


def _in_days(today: date, days: int) -> str:
    return (today + timedelta(days=days)).isoformat()
