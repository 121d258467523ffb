"""The ledger of records, the tables derived from it, and the trust computed from it.

The ledger is the source of truth and append-only. The tables follow it and can be deleted at any time. Trust is a pure
function of records. Besides core, this package imports only the standard library.
"""
