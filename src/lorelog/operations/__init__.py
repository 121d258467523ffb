"""Operations: the verbs of lorelog, each a typed request, a handler over the engine and a typed reply.

Each family is a package with `OPERATIONS` in `__init__`, requests and replies in `schema`, handlers in `handlers`, and
in `serialize` the conversion of core values whose JSON has other names. Not for business logic: that is in `services`.
"""
