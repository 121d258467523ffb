"""Chooses word pieces of other scripts for a vocabulary that hardly has any, so that all other texts are cut as before.

python -m train.vocabulary --texts parallel.jsonl.gz --vocabulary vocab.txt --out vocab.txt

A piece has letters of one script only. Of Greek, single letters stay as they are: English texts have them. Entries that no
text can have (`[unused7]`) are replaced first, so that the model grows less.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SCRIPTS = {
    "han": (r"\u3400-\u9fff", 4600),
    "kana": (r"\u3040-\u30ff", 700),
    "hangul": (r"\u1100-\u11ff", 1100),
    "cyrillic": (r"\u0400-\u052f", 1250),
    "arabic": (r"\u0620-\u06ff", 750),
    "devanagari": (r"\u0900-\u097f", 600),
    "thai": (r"\u0e00-\u0e7f", 350),
    "greek": (r"\u0370-\u03ff", 250),
}
"""The letters of each script, and how many pieces it may have."""
UNUSED = re.compile(r"\[unused\d+\]")


def is_trained(entry: str) -> bool:
    """Return whether the row of an entry is learned anew: pieces of the scripts, but no single Greek letter."""
    letters = entry.removeprefix("##")
    return any(
        re.fullmatch(f"[{of}]+", letters) and not (name == "greek" and len(letters) == 1)
        for name, (of, _) in SCRIPTS.items()
    )


def chosen(counts: Counter[str], known: set[str]) -> list[str]:
    """Return the new pieces for words and their counts."""
    found: list[str] = []
    for name, (letters, most) in SCRIPTS.items():
        whole = Counter({word: count for word, count in counts.items() if re.fullmatch(f"[{letters}]+", word)})
        if name == "han":  # each ideograph is a word
            pieces = [word for word, count in whole.most_common() if len(word) == 1 and count > 1]
        else:
            pieces = _pieces(whole, most)
        if name == "greek":
            pieces = [piece for piece in pieces if len(piece.removeprefix("##")) > 1]
        new = [piece for piece in pieces if piece not in known][:most]
        print(f"{name}: {len(whole)} words, {len(new)} new pieces", flush=True)
        found += new
    return found


def _pieces(words: Counter[str], most: int) -> list[str]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(vocab_size=most + 60, min_frequency=4, special_tokens=["[UNK]"])
    lines = (" ".join([word] * min(count, 300)) for word, count in words.items() if count > 1)
    tokenizer.train_from_iterator(lines, trainer)
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return [piece for piece, _ in by_id if piece != "[UNK]"]


def _words(path: Path) -> Iterator[str]:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            _, question, passage, _, _ = json.loads(line)
            for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(f"{question} {passage}")):
                if not word.isascii():
                    yield word


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.vocabulary", description="Adds pieces of other scripts.")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE", help="what train.parallel wrote")
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    entries = args.vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    new = chosen(Counter(_words(args.texts)), set(entries))
    count = len(new)
    free = iter([place for place, entry in enumerate(entries) if UNUSED.fullmatch(entry)])
    while new and (place := next(free, None)) is not None:
        entries[place] = new.pop(0)
    entries += new
    args.out.write_text("\n".join(entries) + "\n", "utf-8")
    print(f"{count} pieces, {len(entries)} entries, {len(new)} of them more than before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
