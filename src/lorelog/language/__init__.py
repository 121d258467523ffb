"""Words and sentences: the tokenizer, the splitter of sentences and clauses, and the word lists.

Useful for every room that reads prose. Not for meaning: what a sentence says is decided by the room that asks.
"""
