"""Word patterns of corrections and preferences, for `statements.py`. Each alternative begins a sentence.

Verbs decide where a product could be meant: "don't commit yet" is said to an agent, "don't show the banner to guests" is a
requirement. The lists hold only verbs of an agent's own work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FLAGS = re.IGNORECASE


def _starts(alternatives: Iterable[str]) -> re.Pattern[str]:
    return re.compile("(?:" + "|".join(alternatives) + ")", FLAGS)


_AGENT_VERBS = (
    "add|amend|answer|apologi[sz]e|apply|ask|assume|break|bother|build|bump|call|catch|change|check|clean|comment|commit|copy|create|"
    "deploy|disable|do|document|downgrade|drop|duplicate|edit|embed|ever|explain|export|fix|follow|force|format|generate|give|go|guess|"
    "hard-?code|ignore|implement|import|include|inline|install|introduce|invent|keep|leave|link|log|make|merge|mock|modify|move|name|open|"
    "over\\w+|pass|pin|prefer|print|publish|push|put|quote|read|reformat|refactor|regenerate|release|remove|rename|repeat|replace|reply|"
    "respond|restart|return any|revert|rewrite|run|skip|split|squash|stage|start|stash|stop|summari[sz]e|swallow|test|touch|trust|try|"
    "update|upgrade|use|verify|wait|wire|wrap|write|show me|tell me|close the file"
)
_VERB = rf"(?:{_AGENT_VERBS})\b"
_AFTER_MARKER = (
    rf"(?:{_VERB}|please\b|you\b|always\b|never\b|don'?t\b|do not\b|no\b|only\b|all new\b|every\b|keep\b|when\b|i want\b|i'd like\b|"
    r"we (?:use|always|never|don'?t|only|prefer)\b)"
)
_THING = (
    r"(?:file|branch|folder|directory|repo|table|one|port|version|place|way|test|database|package|module|function|line)"
)

OPENING = _starts(
    (
        (
            r"(?:no|nope|nah)(?:[, ]+no)*(?:[,.!:;]|\s*[—–-])+\s*+(?!(?:problem|worries|thanks|thank|need|rush|idea|(?:it'?s|this is|that is|looks) (?:fine|ok|good)|but|there|"
            r"that'?s (?:fine|ok|all|it)|go ahead|all good|i'?m (?:good|fine)|nothing|none|not yet|not really|leave it|same|still)\b)\w"
        ),
        (
            r"(?:no|nope|nah) (?:let'?s|don'?t|do not|use|i (?:meant|mean|want|said)|it'?s|that'?s (?:not|wrong)|not(?! yet)|you|we (?:use|don'?t|want)|keep|"
            r"leave|put|just|stop|never|always|please|revert|undo|wait)\b"
        ),
        r"(?:wait|stop|hold on|hang on|whoa)(?:[,.!;]|\s*[—–-])+\s*+(?!for\b)\w{2}",
        r"wait (?:no|we|you|that'?s|this|it'?s|don'?t|i (?:meant|said|want)|not)\b",
        r"that(?:'s| is|s) (?:wrong|incorrect|not (?:right|correct|what|it\b|how|the (?:right|correct|one)))",
        r"(?:this|it)(?:'s| is|s) not (?:right|correct|what|how (?:we|i|it))\b",
        rf"wrong {_THING}\b|not (?:there|here|like (?:that|this)|(?:that|this) one)[,.;]|not the [\w.]+, (?:the|but|use)\b",
        r"you (?:didn'?t|did not) (?:update|add|run|read|use|follow|fix|do|test|check|remove|listen|commit)\b",
        rf"you (?:don'?t|do not) (?:need|have) to {_VERB}",
        r"i (?:need|want) (?:it|them|that|this) [^;\n]{1,40}, not \w",
        r"(?:that|this)(?:'s| is| was) not what (?:i|we)\b|not what i (?:meant|asked|want|said)",
        (
            r"you(?:'re| are)? (?:forgot (?!nothing)|misunderst\w+|misread|ignored (?:the|my|what)|missed the point|broke (?:the|it|this|that|our)\b|"
            r"shouldn'?t|should not|should have (?:been|run|read|told|\w+ed)\b|weren'?t supposed|were supposed|keep \w+ing|"
            r"(?:used|using) the wrong|were told)"
        ),
        r"you (?:removed|deleted|changed|renamed|overwrote|reverted) [^;\n]{1,60}[,.] (?:restore|put|undo|revert|bring)\b",
        r"(?:undo|revert|roll back) (?:that|this|it|those|these|your|what you|the last (?:change|edit))\b",
        r"instead,? (?!of)\w",
        r"(?:keep|bear) in mind[,:]? (?:that|we|you|our)\b",
        r"not [\w./-]+[,;]? (?:but|use|it'?s|i meant)\b(?! also)",
        r"i (?:asked for|told you|said (?:the|to|not|no|that|use|don'?t|only|we|you|in|a|option))\b",
    )
)
"""Beginnings of a prompt that reject what the agent did."""

CORRECTION = _starts(
    (
        rf"(?:don'?t|do not|dont) {_VERB}(?! any library)",
        r"(?:i|that'?s what i|what i) (?:actually |really )?mean[t]?\b(?! by| to\b|,)",
        r"i (?:(?:didn'?t|did not) (?:mean|ask|say|want|tell)|never (?:meant|asked|said|wanted|told))\b",
        r"stop (?!(?:the|this|all|any|it|that|a|when|if|at|and|here|processing)\b)\w+ing\b",
        rf"let'?s not {_VERB}|no more \w+(?:[,.!]|\Z)",
        r"(?:leave|keep) [^;\n]{1,40} (?:as (?:is|it is|they are)|where (?:it is|they are)|alone|unchanged|untouched)\b",
        r"(?:it|this|that|we|they) (?:should|shall|must) (?:be|use|have|go|live|stay)\b[^;\n]{1,80}(?:, not \w|\binstead\b|\brather than\b)",
        r"i (?:don'?t|do not) want (?:you to|any|that|this|the|a|to see)\b",
        rf"you (?:must not|mustn'?t|may not|are not allowed to|aren'?t allowed to) {_VERB}",
        r"avoid (?:using|running|calling|\u00b7)|skip (?:the |all )?(?:[\w-]+ )?tests?\b",
        r"[^;\n]{1,80}[,;:] leave (?:it|them|that|those) (?:alone|as (?:is|it is|they are)|unchanged|untouched)\b",
        rf"[\w./\u00b7-]+ (?:is|are) [\w -]{{1,30}}[:,;] (?:never|always|don'?t|do not) {_VERB}",
        r"[^;,\n]{1,60} must (?:stay|remain|be left) (?:unchanged|untouched|as (?:is|it is|they are)|alone)\W*\Z",
        # German, French, Spanish, Chinese
        r"nein,? (?!danke)\w+|ich meinte\b|h[öo]r auf\b|lass das\b|(?:nimm|verwende|benutze?|nutze?) [^;\n]{1,60}\b(?:statt|anstatt|anstelle|nicht)\b",
        r"(?:du )?(?:darfst|sollst) (?:du )?(?:nicht|nie|niemals|keine?n?)\b|[^;\n]{1,60} (?:darfst|sollst) du (?:nicht|nie|niemals)\b",
        r"keine?n? [^;,\n]{1,40} (?:starten|ausführen|anlegen|schreiben|ändern|benutzen|verwenden|hinzufügen|löschen)\b",
        r"non,? (?!merci)\w+|je voulais dire\b|arrête(?:z)? d[e']|n(?:e |')\w+ (?:\w+ )?(?:pas|plus)\b",
        r"utilise[zr]? [^;\n]{1,60}\b(?:au lieu|plutôt|pas)\b",
        r"no (?:uses|hagas|pongas|toques|cambies|borres|añadas|ejecutes|crees|escribas|modifiques)\b|(?:quise|quería) decir\b|deja de\b",
        r"usa [^;\n]{1,60}\ben (?:vez|lugar) de\b",
        r"(?:不要|别|不对|不是这|请不要|停止|我的意思是|我是说|应该用|用[^，。\n]{1,20}(?:不要用|而不是|，不要))",
    )
)
"""Beginnings of a sentence that correct, at the start of a prompt."""

SHORT_CORRECTION = _starts(
    (
        r"(?:use|run|put|call it|name it|write it in|do it in|go with|keep|take|try) [^,;\n]{1,60}(?:,| and) not \w",
        r"(?:use|call it|name it|go with|take|put it in|do it with) [^;\n]{1,80}\binstead\b",
        r"it(?:'s| is) [^,;\n]{1,40}, not \S",
        r"(?:use|take|go with|you should use) [^;\n]{1,60}\b(?:in place of|rather than|and not) \S",
        r"[\w./\u00b7-]+ (?:instead of|rather than|statt|anstatt|anstelle von) [\w./\u00b7-]+(?: (?:please|here|bitte|verwenden|benutzen|nutzen|nehmen))?\W*\Z",
        r"[\w./\u00b7-]+, not [\w./\u00b7-]+[.!]*\Z",
    )
)
"""As above, in a prompt that says nothing else: a longer one describes a task."""

PREFERENCE = _starts(
    (
        rf"(?:from now on|from here on|going forward|in (?:the )?future|moving forward|next time)\b[,:\s]*+{_AFTER_MARKER}",
        rf"(?:always|never|only ever) {_VERB}",
        rf"(?:whenever|every time|each time) you (?:(?:see|get|hit)\b|(?!open\b){_VERB})",
        rf"ask (?:me )?(?:first )?before (?:you )?{_VERB}",
        rf"(?:when|before|after|whenever) (?:you |\w+ing\b)[^,;\n]{{0,60}}, (?:please )?(?:always|never|{_VERB})",
        (
            r"(?:remember|make a note|note for (?:the future|later|next time))[,:]? "
            r"(?:that\b|to (?!me\b)|we\b|you\b|our\b|never\b|always\b|this\b|i\b|not\b|the (?:rule|convention)\b|[\w-]+ (?:is|are|goes|lives)\b)"
        ),
        r"remember[:,] \w",
        (
            r"i(?:'d| would)? (?:really |strongly |generally |much |always )?prefer\b(?! (?:option|number|the (?:\w+st|\w+nd|\w+rd|\w+th|other|latter|"
            r"former)|that|this one|your|[a-d1-9])\b)"
        ),
        r"i(?:'d| would) (?:much )?rather (?:you\b|have [^;\n]{1,60} than\b)",
        (
            r"i (?:really )?(?:hate|dislike|don'?t like|do not like)\b(?! (?:this|that|these|the) (?:error|bug|issue|crash|failure|warning|problem|"
            r"message|flicker))"
        ),
        r"i (?:really )?(?:like it when|always want|never want|want you to (?:always|never))\b",
        r"(?:my|our) (?:preference|convention|policy|rule|style|standard|team rule) (?:is:? (?!in\b|outdated)|here is)",
        rf"(?:we|in this (?:repo|project|codebase|package),? we) (?:always|never|only|don'?t|do not|prefer to) (?:ship|{_VERB})",
        r"(?:we|in this (?:repo|project|codebase|package),? we) prefer\b",
        r"you (?:should|must|need to|have to) (?:always|never)\b|make sure (?:to|you) always\b|as a rule\b",
        # German, French, Spanish, Chinese
        (
            r"(?:immer|niemals|nie (?:wieder|mehr)|ab jetzt|ab sofort|von jetzt an|künftig|in zukunft|merke? dir|ich bevorzuge|ich mag (?:kein|es nicht)|"
            r"ich möchte (?:keine?|nicht|lieber))\b"
        ),
        r"(?:toujours|jamais|désormais|dorénavant|à partir de maintenant|je préfère|je n'aime pas|souviens-toi|retiens|n(?:e |')\w+ (?:\w+ )?jamais)\b",
        r"(?:siempre|nunca|a partir de ahora|de ahora en adelante|prefiero|no me gusta|recuerda que|recuerda:)\b",
        r"(?:从现在开始|从现在起|以后|今后|始终|总是|永远不要|永远别|每次|记住|请记住|记得|我更喜欢|我喜欢|我不喜欢|务必)",
    )
)
"""Beginnings of a sentence that state a rule for the future."""

STANDING = re.compile(
    r"\b(?:from now on|going forward|in (?:the )?future|in mind|every time|next time|always|(?<!i )never|ever again|whenever|i (?:really )?prefer|"
    r"ab jetzt|künftig|immer|niemals|désormais|dorénavant|toujours|jamais|siempre|nunca|a partir de ahora)\b|从现在开始|以后|永远|总是|始终",
    FLAGS,
)
"""Words that make a correction a rule for the future."""
STRONG = _starts(
    (
        rf"(?:from now on|going forward)\b[,:\s]*+{_AFTER_MARKER}|for (?:all )?future (?:sessions|changes|tasks|work)",
        r"(?:please )?remember (?:that|to|this)\b|as a rule\b",
        r"ab jetzt|künftig|à partir de maintenant|désormais|a partir de ahora|从现在开始|请记住",
    )
)
"""Words that announce a rule for the future even within a long task."""
RULE_END = re.compile(r"\b(?:from now on|going forward|in (?:the )?future|next time|ab jetzt|désormais)[.!]*\Z", FLAGS)
OUTDATED = re.compile(r"\b(?:any ?more|any longer)\b", FLAGS)
"""Words about a past rule: "we don't use this module anymore"."""
IMPERATIVE = re.compile(
    r"(?:(?:no|nope|nah|nein|stop|wait)\W+)?(?:please )?(?:don'?t|do not|dont|never|stop \w+ing)\b", FLAGS
)
"""A prohibition, which is a rule whatever else it says: "don't call it any more"."""
TASK_START = re.compile(r"(?:write|create|build|implement|develop|design|generate)\b", FLAGS)
RESUME = re.compile(
    r"\A\W*(?:continue|go on|go ahead|proceed|carry on|resume|keep going|try again|retry|again|yes|yep|ok(?:ay)?|sure|weiter|continuez?|"
    r"sigue|继续|please continue|continue please|where were we|you can continue|never ?mind|nvm)\b\W*(?:\w+\W*){0,4}\Z",
    FLAGS,
)
"""A prompt that lets an interrupted agent go on."""
QUESTION_START = re.compile(
    r"(?:why|what(?! i mean)|how|when(?! you\b| \w+ing\b)|where|who|which|is|are|can|could|would|should|do(?! not\b)|does|did|have|has|will|"
    r"shall|may|was|were|isn'?t|aren'?t|warum|wieso|was|wie|pourquoi|comment|por qué|qué|cómo|为什么|怎么)\b",
    FLAGS,
)
