"""The few forms of a typed sentence that certainly state a rule for later sessions.

Whether a sentence is meant to last needs understanding, which words do not give. So only an explicit request to remember, or an
explicit rule for the future, at the beginning of a sentence counts ("remember that …", "from now on …"), and only if nothing in it
points at the conversation. Everything else waits for a person. English, German, French, Spanish, Chinese;
docs/decisions/delivery.md has what was measured.
"""

from __future__ import annotations

import re

MAX_PROMPT_CHARS = 700
"""A longer prompt describes a task."""
_MIN_RULE_CHARS = 6
_NOT_PROSE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t]*\1[ \t]*$|\Z)|^(?:[ \t]*[>|$#<+]|\t| {4})[^\n]*$"
    r'|`[^`\n]*`|"[^"\n]*"|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」',
    re.MULTILINE,
)
"""Code, quotes and lines of logs."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]+)*[.!?。！？]*")
_FORM = re.compile(
    r"\s*(?:please,? |bitte |s'il te plaît,? |por favor,? |请)?(?:"
    r"remember(?: that|,? to|:)|(?:from (?:now|here) on|going forward)[,:]?(?= )|"
    r"(?=(?:always|never|don't|do not|use)\b[^\n]*\bfrom now on[.!]*\Z)|"
    r"merke? dir(?:,? dass|:)|(?:ab (?:jetzt|sofort)|von (?:jetzt|nun) an)[,:]?(?= )|"
    r"(?:souviens-toi|rappelle-toi|retiens)(?: que| de| qu'|:)|(?:à partir de maintenant|désormais|dorénavant)[,:]?(?= )|"
    r"recuerda(?: que|:)|(?:a partir de ahora|de ahora en adelante)[,:]?(?= )|"
    r"记住[，：:]?|从现在(?:开始|起)[，：:]?)(?P<rule>[^\n]*)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\bin this (?:repo|repository|project|codebase)\b", re.IGNORECASE)
_POINTING = re.compile(
    r"\b(?:th(?:is|at|ese|ose|em|ey|ere)|it|its|here|he|she|above|below|yet|again|same|other|another|previous|last|next|earlier|"
    r"diese[rsmn]?|das|hier|oben|cela|ceci|cette?|ces|ça|ici|esto|eso|est[ae]s?|es[ae]s?|aquí)\b|这|那|上面|它",
    re.IGNORECASE,
)


def certain_rules(text: str) -> tuple[str, ...]:
    """Return the sentences of a typed text that certainly state a rule for later sessions."""
    text = text.strip("\n").removeprefix("- ").replace("\u2019", "'")
    if len(text) > MAX_PROMPT_CHARS:
        return ()
    # Of the same length, so that the words are taken from the text itself.
    prose = _NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), text)
    return tuple(
        " ".join(text[match.start() : match.end()].split()) for match in _SENTENCE.finditer(prose) if _is_rule(match[0])
    )


def _is_rule(sentence: str) -> bool:
    form = _FORM.match(sentence)
    if (
        not form
        or sentence.rstrip().endswith(("?", "？", "吗"))
        or len(form["rule"].strip(" .!。！")) < _MIN_RULE_CHARS
    ):
        return False
    return not _POINTING.search(_PLACE.sub("", form["rule"]))
