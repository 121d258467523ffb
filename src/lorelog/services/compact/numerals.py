"""Numbers in texts, however they are written: in digits, in words, with separators, with units.

Two numbers are compared as they are meant: 1,000 is 1000, `twenty-five` is 25, 六十秒 is 60 s. What looks like numbers but is
none is not taken for some: the parts of a hash, and months and days of a date, of which every source has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

GAPLESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Letters of scripts that write words, or words and their endings, without gaps; for a class of a pattern."""
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
DAY = re.compile(r"\d{4}([-/])\d\d(?:\1\d\d)?(?!\d)")
_NO_NUMBERS = re.compile(
    r"(?<![0-9a-f])(?=[0-9-]{0,40}[a-f])(?=[a-f-]{0,40}\d)[0-9a-f]{7,128}(?:-[0-9a-f]{4,12}){0,4}(?![0-9a-z])"
)
"""Hashes, and numbers that are universally unique."""
_UNITS = {
    "ns": "ns nsec nanosecond nanoseconds 纳秒",
    "us": "us \u03bcs usec microsecond microseconds 微秒",
    "ms": "ms msec millisecond milliseconds 毫秒 ミリ秒 밀리초",
    "s": "s sec secs second seconds 秒 초",
    "min": "m min mins minute minutes 分钟 分鐘 분",
    "h": "h hr hrs hour hours 小时 小時 時間 시간",
    "d": "d day days 天 日間",
    "w": "w week weeks 周 週",
    "mo": "month months 个月 個月 ヶ月 개월",
    "y": "y year years",
    "%": "% percent",
    "b": "b byte bytes 字节 バイト",
    "kb": "kb kib kilobyte kilobytes",
    "mb": "mb mib megabyte megabytes",
    "gb": "gb gib gigabyte gigabytes",
    "tb": "tb tib terabyte terabytes",
    "hz": "hz",
    "khz": "khz",
    "mhz": "mhz",
    "ghz": "ghz",
    "thousand": "k thousand",
    "ten thousand": "万 萬 만",
    "million": "m million millions",
    "hundred million": "亿 億 억",
    "billion": "bn billion billions",
    "times": "x times 次 倍 回 번",
    "px": "px pixel pixels",
    "tokens": "token tokens",
    "qps": "qps rps",
}
_UNITS_BY_WORD: dict[str, frozenset[str]] = {
    word: frozenset(unit for unit, words in _UNITS.items() if word in words.split())
    for words in _UNITS.values()
    for word in words.split()
}
_MEASURED = re.compile(rf"(?<![\w.,:-])({NUMBER.pattern})[ -]?(%|[^\W\d_]+)(?!\w)")
_TOKEN = re.compile(
    rf"[-+~#$\u20ac\u00a3]*{NUMBER.pattern}(?:[-/x\u00d7]{NUMBER.pattern})*-?(%|[^\W\d_]*)\+?", re.IGNORECASE
)
_ORDINALS = frozenset({"", "st", "nd", "rd", "th"})

_ONES = dict(
    zip(
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),  # noqa: SIM905
        range(2, 20),
        strict=True,
    )
)
_TENS = dict(
    zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True)  # noqa: SIM905
)
_DIGITS = "|".join(list(_ONES)[:8])
_SMALL = rf"(?:{'|'.join(_TENS)})(?:[ -](?:one|{_DIGITS}))?|{'|'.join(sorted(_ONES, key=len, reverse=True))}"
_IN_WORDS = re.compile(
    rf"\b(?:(?P<twice>twice)|(?P<dozen>(?:a|one) dozen|dozen)"
    rf"|(?P<hundreds>(?:(?:a|one|{_DIGITS}) )?hundred)(?: and)?(?: (?P<rest>{_SMALL}))?|(?P<small>{_SMALL}))\b",
    re.IGNORECASE,
)
_HAN_DIGITS = {letter: value for value, letter in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_HAN_TENS = {"十": 10, "百": 100, "千": 1000}
_HAN = "零〇一二两兩三四五六七八九十百千"
_HAN_NUMBER = f"(?<![{_HAN}])[{_HAN}]{{1,12}}"
_IN_HAN = re.compile(
    rf"百分之(?P<percent>[{_HAN}]{{1,12}})|(?P<count>{_HAN_NUMBER})"
    r"(?=\s?(?:毫秒|微秒|纳秒|秒|分钟|分鐘|小时|小時|時間|天|周|週|个|個|次|倍|回|条|條|台|位|人|种|種|行|名|项|項|万|萬|亿|億|字节|%))"
)


def in_words(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the numbers that a text has in words, and what each is in digits. One is none: it is said of anything."""
    for found in _IN_WORDS.finditer(text):
        yield found, _in_digits(found)
    for found in _IN_HAN.finditer(text):
        value = _of_han(found["percent"] or found["count"])
        if found["percent"] or value > 1:
            yield found, f" {value}% " if found["percent"] else f" {value} "


def all_in_digits(text: str) -> str:
    """Return a text with its numbers in digits."""
    for found, number in sorted(in_words(text), key=lambda one: -one[0].start()):
        text = f"{text[: found.start()]}{number}{text[found.end() :]}"
    return text


def numbers_of(text: str) -> set[str]:
    """Return the numbers of a text, as they are compared."""
    text = DAY.sub(lambda found: f" {found[0][:4]} ", _NO_NUMBERS.sub(" ", all_in_digits(text)))
    return {even(found[0]) for found in NUMBER.finditer(text)}


def measures_of(text: str) -> list[tuple[str, str, frozenset[str]]]:
    """Return the numbers with a unit that a text has: as they stand, the number, and which units the word may mean."""
    found = ((one[0], even(one[1]), _units(one[2])) for one in _MEASURED.finditer(all_in_digits(text)))
    return [one for one in found if one[2]]


def number_with_unit(token: str) -> list[str]:
    """Return the numbers of a token that is nothing but some with a unit that is known; empty for any other."""
    found = _TOKEN.fullmatch(token)
    if found is None or token[:2].casefold() == "0x" or DAY.match(token):
        return []
    known = found[1].casefold() in _ORDINALS or bool(_units(found[1]))
    return [even(one) for one in NUMBER.findall(token)] if known else []


def even(number: str) -> str:
    """Return a number as it is compared: 1,000 is 1000, and zeros at the end of a fraction do not count."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", number):
        number = number.replace(",", "")
    if re.fullmatch(r"\d+\.\d+", number):
        number = number.rstrip("0").rstrip(".")
    return number


def _units(word: str) -> frozenset[str]:
    """Return what a word may mean as a unit. Where there are no gaps it is how the word begins: 秒 of 秒后重试."""
    known = _UNITS_BY_WORD.get(word.casefold())
    if known is not None:
        return known
    if not re.match(f"[{GAPLESS}]", word):
        return frozenset()
    begins = (_UNITS_BY_WORD[word[:length]] for length in (3, 2, 1) if word[:length] in _UNITS_BY_WORD)
    return next(begins, frozenset())


def _in_digits(found: re.Match[str]) -> str:
    if found["twice"]:
        return "2 times"
    if found["dozen"]:
        return "12"
    if found["small"]:
        return str(_small(found["small"]))
    first = found["hundreds"].casefold().split()[0]
    return str(100 * _ONES.get(first, 1) + (_small(found["rest"]) if found["rest"] else 0))


def _small(words: str) -> int:
    return sum(_TENS.get(one) or _ONES.get(one, 1) for one in re.split("[ -]", words.casefold()))


def _of_han(letters: str) -> int:
    """Return what a number is that is written in Chinese: 三十五 and 三五 are both 35."""
    if not set(letters) & set(_HAN_TENS):
        return int("".join(str(_HAN_DIGITS[one]) for one in letters))
    value, digit = 0, 0
    for one in letters:
        if one in _HAN_TENS:
            value += (digit or 1) * _HAN_TENS[one]
            digit = 0
        else:
            digit = _HAN_DIGITS[one]
    return value + digit
