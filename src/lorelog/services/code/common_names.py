"""Names of members that things of every program have: of texts, lists, mappings, files, errors, threads, paths.

Where nothing says what stands before the dot, `x.get(…)` is hardly ever the one class of ours that has a `get`.
"""

from __future__ import annotations

import builtins
import io

_KINDS: tuple[type, ...] = (
    *(
        str,
        bytes,
        bytearray,
        list,
        tuple,
        dict,
        set,
        frozenset,
        int,
        float,
        complex,
        object,
        memoryview,
        range,
        slice,
        property,
    ),
    *(BaseException, OSError, UnicodeError, ImportError, StopIteration, SystemExit),
    *(io.TextIOWrapper, io.BytesIO, io.StringIO, io.BufferedReader),
)
_OTHERS = """
absolute acquire add_argument apply args as_posix await basename bind body call callback cancel catch chmod clone code command
config connect contains content context cookies count create current cursor cwd data date debug default delete description detach
dirname disable dispatch done each emit enable end environ error event exception execute exit exists expanduser fetch fetchall
fetchone fileno filter finally find first fire flags float forEach from get_name getvalue group groups handle handler has head
headers height host id includes info init input is_alive is_dir is_file iterdir join json key keys kind kwargs label last length
level line lines listen load loads location lock log logger loop main map match message method mkdir mode model move msg name
names new next notify number ok on once open options output owner params parent parse parts password patch path pid poll port
position post prefix print process push query queue raise_for_status reader reason recv reduce release render replace request
reset resolve response result results returncode root run samefile save schedule search send session set setdefault shape shift
shutdown size sleep slice some source span splice sql start stat state status status_code stderr stdin stdout stem stop stream
sub submit success suffix symlink_to target task template terminate test text then time timeout timestamp title toString token
total touch trace trigger type unlink unwrap update url user username validate value values version view visit wait warn warning
choice choices randint sample seed shuffle uniform width with_suffix write_bytes write_text read_bytes read_text
"""

COMMON: frozenset[str] = frozenset(
    {name for kind in _KINDS for name in dir(kind)} | set(_OTHERS.split()) | (set(dir(builtins)) & {"id", "type"})
)
