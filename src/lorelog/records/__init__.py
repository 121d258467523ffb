"""What is known: the ledger of records, the tables derived from it, and what each record is worth.

The ledger is the truth and is only ever appended to. Tables follow it and can be thrown away. Trust is a pure function over
records. The room imports core only, and of Python only the standard library.
"""
