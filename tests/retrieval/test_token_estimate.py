"""Token estimates are near real tokenizers' counts for any text, and never far below."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.reference_tokenizer import make_tokenizer

import lorelog
from lorelog.retrieval.token_estimate import estimate_tokens

PROSE = (
    "The cache was too eager: it kept a shipment for an hour after the carrier had changed it, and customers saw stale "
    "prices. We now keep it for five minutes, and drop it at once when a webhook arrives."
)
COUNTED = {
    "prose": (PROSE, 44, 44),
    "code": (
        (
            "def parse_config(path: Path, *, strict: bool = False) -> dict[str, Any]:\n"
            '    with path.open("rb") as file:\n        loaded = tomllib.load(file)\n'
            "    return {key: value for key, value in loaded.items() if strict or key in KNOWN}\n"
        ),
        68,
        60,
    ),
    "camel case": (
        (
            "const getOrLoadShipment = async (shipmentId) => {\n"
            "  const cachedValue = await redisClient.get(`shipment:${shipmentId}`);\n"
            "  return cachedValue ? JSON.parse(cachedValue) : fetchFromDatabase(shipmentId);\n};\n"
        ),
        59,
        49,
    ),
    "Markdown": (
        (
            "### 14:30\n<!-- session:39cfd2dc-e291-4ad4-ad42-259fc7b7b5c8 turn:41eb5e27-74d4-4aae-abb3-b1ef9d7a8c64 -->\n"
            "- **Decision**: keep `Postgres`; see [the note](docs/store.md#locks).\n- Ran `make test`, 412 passed.\n\n"
            "| lane | nDCG@10 |\n|---|--:|\n| lexical | 0.409 |\n"
        ),
        122,
        113,
    ),
    "German": (
        (
            "Der Zwischenspeicher war zu eifrig: er behielt eine Sendung noch eine Stunde, nachdem der Spediteur sie geändert "
            "hatte, und die Kunden sahen veraltete Preise. Deshalb werden Einträge jetzt nach fünf Minuten verworfen."
        ),
        65,
        62,
    ),
    "Chinese": (
        (
            "缓存过于激进：承运商修改货运信息后，它仍保留了一个小时，客户看到的是过期的价格。"
            "现在我们只保留五分钟，收到回调后立即删除。"
        ),
        60,
        61,
    ),
    "Japanese": (
        "データベースの接続プールを増やすと、デプロイ後のタイムアウトが減りました。設定ファイルは環境変数から読み込まれます。",
        57,
        62,
    ),
    "Russian": (
        "Мы решили увеличить пул соединений базы данных, потому что после развёртывания начались тайм-ауты.",
        50,
        46,
    ),
    "numbers": (
        (
            "2026-03-05 14:30:07.213 0.409132 17 4096 1048576 99.95 3.14159 127.0.0.1:19530 2026-03-06 09:12:44.001 "
            "0.511874 23 8192"
        ),
        60,
        73,
    ),
    "hashes": (
        "d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad 4873ead7ebcdff14 85b3bf46833537de",
        55,
        56,
    ),
    "base64": (
        (
            "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5E"
            "rkJggg=="
        ),
        67,
        67,
    ),
    "emoji": ("🎉 Release done 🚀🚀 all green ✅✅ thanks 🙏 team, ⚠️ watch prod 🔥", 32, 31),
}
"""Texts with the token counts of Claude 2's tokenizer and GPT-4's (cl100k)."""


@pytest.mark.parametrize("kind", list(COUNTED))
def test_it_is_near_what_tokenizers_count(kind: str) -> None:
    """For each kind of text the estimate is between a tenth below and a third above the larger real count."""
    text, *counts = COUNTED[kind]

    assert 0.9 <= estimate_tokens(text) / max(counts) <= 1.34


@pytest.mark.slow
def test_it_is_near_the_built_in_tokenizer_on_our_own_prose_and_code() -> None:
    """Over all modules of this package the estimate is within 15 % of the built-in model's tokenizer."""
    source = Path(lorelog.__file__).parent
    texts = [path.read_text("utf-8") for path in sorted(source.rglob("*.py"))]
    counted = sum(len(encoding.ids) for encoding in make_tokenizer().encode_batch(texts, add_special_tokens=False))

    assert 0.85 <= sum(map(estimate_tokens, texts)) / counted <= 1.15


def test_nothing_costs_nothing() -> None:
    """An empty or blank text costs nothing."""
    assert (estimate_tokens(""), estimate_tokens("   \t ")) == (0, 0)


def test_data_without_spaces_is_not_one_word() -> None:
    """A long run of letters costs a token for every few of them."""
    assert estimate_tokens("qzxjvkwpfmbhgydrtnlscoiaeuyqwzkx" * 10) > 100


@given(st.text())
def test_every_text_has_a_cost(text: str) -> None:
    """Any text, half surrogate pairs included, costs at most three tokens a character."""
    assert 0 <= estimate_tokens(text) <= 3 * len(text) + 1
    assert estimate_tokens(text + "\ud800") >= 0


@given(st.text(min_size=1), st.integers(2, 20))
def test_the_cost_grows_with_the_text(text: str, times: int) -> None:
    """A text repeated on separate lines costs about as many times as much."""
    once = estimate_tokens(f"x\n{text}\nx")

    assert abs(estimate_tokens(f"x\n{text}\nx\n" * times) - times * once) <= 3 * times


def test_paragraphs_add_up() -> None:
    """The parts of a text cost together about what the whole costs."""
    whole = "\n\n".join(text for text, *_ in COUNTED.values())
    parts = sum(estimate_tokens(text) for text, *_ in COUNTED.values())

    assert abs(estimate_tokens(whole) - parts) <= 2 * len(COUNTED)
