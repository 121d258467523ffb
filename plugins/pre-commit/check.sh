#!/bin/sh
# Shows what a commit runs against, and fails only for a guard that blocks. Git itself writes the patch: in `git commit -a` the index is
# another file, which only Git's own variables name.
patch=$(mktemp) || exit 0
trap 'rm -f "$patch"' EXIT
git diff --cached --no-ext-diff --no-textconv --no-color --full-index -U0 -M --src-prefix=a/ --dst-prefix=b/ >"$patch" || exit 0
lorelog check "$patch"
test $? -ne 1
