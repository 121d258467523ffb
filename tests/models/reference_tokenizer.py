"""The tokenizer of the built-in model as the library `tokenizers` runs it: the reference for ours, and files for other models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorelog.models.embed.builtin import encoder_folder
from lorelog.models.in_process import VOCABULARY_FILE


def make_tokenizer() -> Any:
    """Return the reference tokenizer, without padding and truncation."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

    path = str(encoder_folder() / VOCABULARY_FILE)
    tokenizer = Tokenizer(models.WordPiece.from_file(path, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 101), ("[SEP]", 102)],
    )
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return tokenizer


def write_tokenizer(folder: Path) -> Path:
    """Write tokenizer.json as models on Hugging Face have it: padded and truncated to 512 tokens."""
    tokenizer = make_tokenizer()
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding(length=512, pad_id=0, pad_token="[PAD]")
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path
