"""Detect secrets that are words or codes behind a phrase: passphrases, seed phrases, recovery codes, foreign names.

The words of a passphrase are ordinary words, so only the phrase before them tells them from a sentence: at least four
words, none of which a sentence about passphrases needs. A seed phrase has twelve words or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorelog.ingest.redaction.detectors import SecretSpan, present_words, word_matches
from lorelog.ingest.redaction.values import is_human_password, is_name_like, is_placeholder, looks_random

_JOINT = r"\\{0,2}[\"'`*]{0,2}[ \t]{0,4}(?:(?:[:=：]|is|was|are|ist|lautet)[ \t]{0,8}|[:=][ \t]{0,4}\\?n?\s{1,40}[>+-]?[ \t]{0,8})"
_PASSPHRASE = re.compile(
    rf"pass[ _-]?phrase{_JOINT}\\{{0,2}}[\"'`]?([a-z]{{3,14}}+(?:[ -][a-z]{{3,14}}+){{3,11}}+)(?![\w(:=/]| [\w(])",
    re.IGNORECASE,
)
_SEED_PHRASE = re.compile(
    r"(?:mnemonic|(?:seed|recovery|backup|secret|wallet)[ _-]?(?:phrase|words?))"
    rf"{_JOINT}\\{{0,2}}[\"'`]?([a-z]{{3,8}}+(?:[ \t]{{1,2}}[a-z]{{3,8}}+){{11,23}}+)(?![\w(:=/])",
    re.IGNORECASE,
)
# Words of sentences about passphrases and keys.
_SENTENCE_WORDS = frozenset(
    """
    the and for with are was were has have had not but from your you our their his her its this that these those when
    where which while who why how what will would can could should must may might does did been being into onto than then
    there here also only just very such any all some each both either none one two same other another more most less least
    use used uses using user users set sets setting given gives provided required needed optional default string value
    bytes key keys file files private public password passwords passphrase phrase secret secrets encrypt encrypted
    encrypts encryption decrypt decrypted decryption enter entered prompt stored wrong correctly incorrect invalid empty
    missing null none changed change example word words text line command option argument protect protected protects
    unlock unlocks generate generated create created random length characters letters numbers contains contain
    """.split()  # noqa: SIM905
)

_CODE = r"[a-zA-Z0-9]{4,10}+(?:-[a-zA-Z0-9]{4,10}+){0,3}+"
_CODE_JOINT = r"(?:[ \t]|,|\r?\n|\\[nrt]|[0-9]{1,2}[.)][ \t]|[>+*-][ \t]?){1,24}"
_RECOVERY_CODES = re.compile(
    r"(?:recovery|backup|scratch|2fa|rescue|one-time|emergency)[ _-]?codes?(?:[ \t][\w ]{0,30}+)?[\"'`*]{0,2}[:=]"
    rf"{_CODE_JOINT}({_CODE}(?:{_CODE_JOINT}{_CODE}){{1,31}})",
    re.IGNORECASE | re.ASCII,
)
_CODE_WITH_DIGIT = re.compile(r"(?=[a-zA-Z-]{0,20}[0-9])[a-zA-Z0-9-]{6,}")

_ASCII_PASSWORD_NAMES = {
    "wort": ("passwort", "kennwort"),
    "passe": ("mot de passe", "mot_de_passe", "motdepasse"),
    "parola": ("parola d'ordine", "parola chiave"),
    **{name: (name,) for name in ("contrasena", "clave", "senha", "wachtwoord", "adgangskode", "salasana")},
}
_OTHER_PASSWORD_NAMES = (
    *("contraseña", "密码", "密碼", "口令", "パスワード", "пароль", "비밀번호", "암호", "hasło", "lösenord", "şifre"),
)
_PASSWORD_NAMES = (*(name for names in _ASCII_PASSWORD_NAMES.values() for name in names), *_OTHER_PASSWORD_NAMES)
_FOREIGN_NAME = re.compile(
    rf"(?:{'|'.join(_PASSWORD_NAMES)})"
    r"[\"'`*]{0,2}(?:[ \t\xa0]{0,4}(?:=>|[:=：])[ \t]{0,8}|[ \t]{0,4}(?:是|为|為|は|が|는|은)[ \t:：]{0,4}"
    r"|[ \t]{1,4}(?:lautet|ist|war|est|es|era|é|è|jest|är|это|is|était)[ \t:]{1,8}|[ \t]{0,4}[-–—>]{1,2}[ \t]{1,4})"
    r"(?:([\"'`「『«])[ \t]?([^\s\"'`」』»]{4,128}+)(?=[ \t]?[\"'`」』»])|([^\s\"'`<>，。；、\\]{6,160}+))",
    re.IGNORECASE,
)


# In a message: "pwd for the vpn is …", "here is the pw -> …", "login: mara / …".
_TOLD_PASSWORD = re.compile(
    r"\b(?:password|passwd|passcode|pwd|pw)(?:[ \t]{1,2}(?:for|of|to|on|at)(?:[ \t]{1,2}[\w'.-]{1,24}+){1,4}?)?"
    r"[ \t]{1,4}(?:is|was|->|→|=>)[ \t]{1,4}([!-~]{6,64}+)",
    re.IGNORECASE | re.ASCII,
)
_LOGIN_PAIR = re.compile(
    r"\b(?:login|creds?|credentials)[ \t]{0,4}(?::|are|is|=)[ \t]{0,4}[\w.@+-]{2,40}+(?:[ \t]{1,4}/[ \t]{0,4}|/[ \t]{1,4}|:)([!-~]{6,64}+)",
    re.IGNORECASE | re.ASCII,
)


_PASSPHRASE_NAMES = ("passphrase", "pass phrase", "pass_phrase", "pass-phrase")
_SEED_NAMES = ("mnemonic", "seed", "recovery", "backup", "secret", "wallet")
_CODE_NAMES = ("recovery", "backup", "scratch", "2fa", "rescue", "one-time", "emergency")


def phrase_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find passphrases, seed phrases, recovery codes, and passwords whose name is not English."""
    if "phrase" in lowered:
        for match in word_matches(text, lowered, _PASSPHRASE_NAMES, _PASSPHRASE):
            words = set(re.split("[ -]", match[1].lower()))
            if len(words) >= 4 and not words & _SENTENCE_WORDS:
                yield match.start(1), match.end(1), "passphrase"
    if "phrase" in lowered or "mnemonic" in lowered or " word" in lowered:
        for match in word_matches(text, lowered, _SEED_NAMES, _SEED_PHRASE):
            words = set(match[1].lower().split())
            if len(words) >= 9 and not words & _SENTENCE_WORDS:
                yield match.start(1), match.end(1), "seed-phrase"
    if "code" in lowered:
        for match in word_matches(text, lowered, _CODE_NAMES, _RECOVERY_CODES):
            codes = re.findall(_CODE, match[1])
            if 2 * len(_CODE_WITH_DIGIT.findall(match[1])) >= len(codes):
                yield match.start(1), match.end(1), "recovery-code"
    yield from _foreign_spans(text, lowered)


def message_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find passwords that a message tells."""
    if " is " in lowered or " was " in lowered or "->" in text or "=>" in text or "→" in text:
        yield from _told_spans(word_matches(text, lowered, ("passw", "passc", "pw"), _TOLD_PASSWORD))
    if "login" in lowered or "cred" in lowered:
        yield from _told_spans(word_matches(text, lowered, ("login", "cred"), _LOGIN_PAIR))


def _told_spans(matches: Iterator[re.Match[str]]) -> Iterator[SecretSpan]:
    for match in matches:
        value = match[1].split('"', 1)[0].split("\\", 1)[0].rstrip(".,;:)]}\"'`")
        if is_human_password(value) and not is_placeholder(value):
            yield match.start(1), match.start(1) + len(value), "password"


def _foreign_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    names = [*present_words(lowered, _ASCII_PASSWORD_NAMES), *(() if text.isascii() else _OTHER_PASSWORD_NAMES)]
    for match in word_matches(text, lowered, names, _FOREIGN_NAME):
        index = 2 if match[1] else 3
        value = match[index] if match[1] else match[index].rstrip(".,;:)]}")
        is_secret = is_human_password(value) or (looks_random(value, 10) and not is_name_like(value))
        if is_secret and not is_placeholder(value):
            yield match.start(index), match.start(index) + len(value), "password"
