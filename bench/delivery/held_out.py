"""Rules with other tools, languages and phrases than `made_up`, which the derivation of cues was not written for.

`held-out` was written before the derivation was changed for `made_up`, and its misses were at hand then. `unseen` was
written after that change, and no phrase was added for it. Both are reported apart. Do not change the derivation for a case of
`unseen`: a case that is looked at moves to `held-out`, and another takes its place. Each project also has statements that
are no rule about a call; they must never be shown before one.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.delivery.hook_calls import ToolUse
from bench.delivery.made_up import MadeUpProject, Rule, Stack, edit, run

_UNUSED = ("", "", "", "", "")

_STACKS = {
    "beam": Stack("beam", "ex", *_UNUSED, "mix test", "", "", "", "lib", ("mix compile", "mix deps.tree")),
    "phone": Stack("phone", "swift", *_UNUSED, "swift test", "", "", "", "Sources", ("swift build", "xcrun simctl list")),
    "desk": Stack("desk", "cpp", *_UNUSED, "ctest", "", "", "", "src", ("cmake --build build", "ninja -C build")),
    "notebook": Stack("notebook", "R", *_UNUSED, "Rscript run.R", "", "", "", "R", ("Rscript -e 'sessionInfo()'", "quarto check")),
    "edge": Stack("edge", "zig", *_UNUSED, "zig build test", "", "", "", "src", ("zig build", "zig fmt src")),
    "amt": Stack("amt", "kt", *_UNUSED, "./gradlew test", "", "", "", "src", ("./gradlew assemble", "kotlinc -version")),
}  # fmt: skip

# project: (text, call it is about, call that comes close); a call `edit PATH: TEXT` edits, others run
_RULES: dict[str, list[tuple[str, str, str]]] = {
    "beam": [
        ("please don't ever run `mix ecto.drop` on this machine.", "mix ecto.drop", "mix ecto.migrations"),
        ("we switched from yarn to bun, so stick with bun.", "yarn add left-pad", "bun add left-pad"),
        ("stop using `mix phx.server`, start it with `iex -S mix phx.server`.", "mix phx.server", "mix phx.routes"),
        ("run `mix format` rather than `prettier`.", "prettier --write lib", "mix format"),
        ("you must not touch priv/repo/structure.sql.", "edit priv/repo/structure.sql: x", "edit priv/repo/seeds.exs: x"),
        ("Repo.delete_all/1 is banned in this code base.", "edit lib/a.ex: Repo.delete_all(User)", "edit lib/a.ex: Repo.all(User)"),
        ("skip the integration tests, they need the VPN.", "mix test test/integration", "ls test/integration"),
        ("before committing always run `mix credo --strict`.", "git commit -am wip", "git stash list"),
    ],
    "phone": [
        ("use xcodebuild instead of fastlane for builds.", "fastlane beta", "xcodebuild -list"),
        ("do not use CocoaPods' pod install, we are on SPM.", "pod install", "swift package resolve"),
        ("avoid `git rebase -i`, it hangs in your terminal.", "git rebase -i HEAD~3", "git rebase main"),
        ("Never push to origin directly, open a merge request.", "git push origin main", "git fetch origin"),
        ("files under Sources/Generated are written by sourcery, leave them alone.", "edit Sources/Generated/Api.swift: x", "edit Sources/Api.swift: x"),
        ("don't use NSKeyedUnarchiver.unarchiveObject, use the secure variant", "edit Sources/A.swift: NSKeyedUnarchiver.unarchiveObject(d)", "edit Sources/A.swift: NSKeyedArchiver.archive(d)"),
        ("when the build says `errSecInternalComponent`, unlock the keychain first.", "xcodebuild archive !! CodeSign failed: errSecInternalComponent", "xcodebuild build !! error: no such module"),
        ("always run swiftlint before you commit", "git commit -m 'Fix layout'", "git log -1"),
    ],
    "desk": [
        ("conan instead of vcpkg please", "vcpkg install fmt", "conan install ."),
        ("never call `rm -rf build`, use `cmake --build build --target clean`.", "rm -rf build", "rm build.log"),
        ("I told you: ninja, not make!", "make -j8", "ninja -C build"),
        ("we don't use `clang-format -i` here, run `scripts/fmt.sh`", "clang-format -i src/main.cpp", "clang-tidy src/main.cpp"),
        ("third_party/ is vendored: never modify anything there.", "edit third_party/fmt/core.h: x", "edit src/core.h: x"),
        ("std::auto_ptr must not be used.", "edit src/a.cpp: std::auto_ptr<T> p;", "edit src/a.cpp: std::unique_ptr<T> p;"),
        ("whenever you see SEGV_MAPERR run it under the address sanitizer build.", "./build/app !! signal 11 (SEGV_MAPERR)", "./build/app !! usage: app FILE"),
        ("run tests only with ctest --output-on-failure", "ctest -j4", "cmake -S . -B build"),
    ],
    "notebook": [
        ("use renv::restore() instead of install.packages().", "edit R/setup.R: install.packages('dplyr')", "edit R/setup.R: library(dplyr)"),
        ("mamba, not conda, for environments", "conda install r-base", "mamba install r-base"),
        ("never run `snakemake --unlock` while the cluster job runs.", "snakemake --unlock", "snakemake -n"),
        ("don't knit report.Rmd, it takes an hour.", "edit report.Rmd: x", "edit notes.Rmd: x"),
        ("the files in data/raw/ must stay unchanged.", "edit data/raw/2020.csv: x", "edit data/clean/2020.csv: x"),
        ("replace `Rscript tests.R` with `Rscript -e 'devtools::test()'`.", "Rscript tests.R", "Rscript plots.R"),
        ("please use pixi in place of poetry.", "poetry install", "pixi install"),
    ],
    "edge": [
        ("don't use npm here, bun is the package manager.", "npm install", "bun install"),
        ("no `wrangler deploy` without my OK.", "wrangler deploy", "wrangler tail"),
        ("You should use `zig build test` and not `zig test src/main.zig`.", "zig test src/main.zig", "zig build"),
        ("it's podman-compose, not docker-compose.", "docker-compose up -d", "podman-compose up -d"),
        ("never commit to the release branch without a changelog line.", "git commit -m release", "git branch -a"),
        ("acceptance tests are off limits unless I say so.", "make acceptance-tests", "ls acceptance"),
        ("ask before you edit `.github/workflows/release.yml`.", "edit .github/workflows/release.yml: x", "edit .github/workflows/ci.yml: x"),
    ],
    "amt": [
        ("bitte pnpm statt npm verwenden.", "npm ci", "pnpm install"),
        ("niemals `flutter clean` ausführen.", "flutter clean", "flutter doctor"),
        ("immer vor dem Commit `ktlint` laufen lassen.", "git commit -m 'Formular'", "git status -sb"),
        ("die Datei config/prod.yaml darfst du nicht ändern.", "edit config/prod.yaml: x", "edit config/dev.yaml: x"),
        ("nimm podman, nicht docker.", "docker ps", "podman ps"),
        ("keine e2e-Tests starten, die dauern ewig.", "./gradlew e2eTest", "ls e2e"),
        ("nie wieder `git push --force`!", "git push --force", "git push"),
        ("verwende `just db` anstelle von `make db`.", "make db", "just db"),
    ],
}  # fmt: skip

_UNSEEN: dict[str, list[tuple[str, str, str]]] = {
    "beam": [
        ("leave the `rebar3 dialyzer` run to CI.", "rebar3 dialyzer", "rebar3 compile"),
        ("we have banned lodash: no `_.cloneDeep` in new code.", "edit assets/a.js: _.cloneDeep(x)", "edit assets/a.js: structuredClone(x)"),
        ("for formatting it has to be dprint instead of prettier.", "npx prettier -w .", "dprint fmt"),
        ("quit running `docker system prune`, it deletes my images.", "docker system prune -f", "docker system df"),
    ],
    "phone": [
        ("do not bump the version in Config/App.xcconfig yourself", "edit Config/App.xcconfig: x", "edit Config/Dev.xcconfig: x"),
        ("Use tuist generate; xcodegen is not used here.", "xcodegen", "tuist generate"),
        ("UI tests only on my request.", "xcodebuild test -scheme UITests", "xcodebuild -list"),
        ("instead of UserDefaults.standard inject the store.", "edit Sources/B.swift: UserDefaults.standard.set(1)", "edit Sources/B.swift: store.set(1)"),
    ],
    "desk": [
        ("gdb is not installed, use lldb", "gdb ./build/app", "lldb ./build/app"),
        ("please never run `git clean -fdx`, my models live there.", "git clean -fdx", "git clean -n"),
        ("If you run into LNK2019, rebuild the import library first.", "cmake --build b !! error LNK2019: unresolved", "cmake --build b !! error C2065"),
        ("the headers in include/public/ are frozen, don't edit them.", "edit include/public/api.h: x", "edit include/private/api.h: x"),
    ],
    "notebook": [
        ("never write to s3 with `aws s3 sync --delete`.", "aws s3 sync out s3://b --delete", "aws s3 ls"),
        ("don't pip install anything, add it to pixi.toml.", "pip install scipy", "pixi add scipy"),
        ("the slow integration suite is for nightly only", "pytest -m integration", "pytest --collect-only"),
        ("setwd() is forbidden in scripts, use here::here().", "edit R/a.R: setwd('x')", "edit R/a.R: here('x')"),
    ],
    "edge": [
        ("deploys go through CI, so don't run `flyctl deploy` yourself", "flyctl deploy", "flyctl logs"),
        ("prefer `rg` to `grep`.", "grep -rn x src", "rg x src"),
        ("commits need a ticket number in the subject", "git commit -m x", "git show HEAD"),
        ("we use bun test, so no more vitest", "npx vitest run", "bun run dev"),
    ],
    "amt": [
        ("ab sofort nur noch uv, kein pip mehr.", "pip install x", "uv add x"),
        ("bitte nicht in src/gen/ editieren, das wird generiert.", "edit src/gen/A.kt: x", "edit src/A.kt: x"),
        ("statt `docker compose up` bitte `make up` benutzen.", "docker compose up -d", "make up"),
        ("vor dem Committen immer `./gradlew ktlintCheck`.", "git commit -m y", "git diff"),
    ],
}  # fmt: skip

_PROSE: dict[str, tuple[str, ...]] = {
    "beam": ("use composition, not inheritance.", "prefer small modules instead of large ones."),
    "phone": ("write comments in English, not German.", "make the login screen blue, not green."),
    "desk": ("use clear names instead of short ones.", "keep answers brief, don't explain every step."),
    "notebook": ("show medians, not means.", "never guess numbers; say that they are missing."),
    "edge": ("I want plain text rather than tables.", "switch from long to short sentences."),
    "amt": ("bitte kurze Antworten statt langer Texte.", "niemals raten, immer nachfragen."),
}


def make_held_out_projects(*, unseen: bool) -> list[MadeUpProject]:
    """Return the held-out projects; every second rule is typed, as it is written here."""
    rules = _UNSEEN if unseen else _RULES
    return [
        MadeUpProject(
            f"held-{name}",
            stack,
            tuple(_rules(name, rules[name])),
            frozenset({"test"}) if name == "desk" else frozenset(),
            _PROSE[name],
        )
        for name, stack in _STACKS.items()
    ]


def _rules(name: str, rules: list[tuple[str, str, str]]) -> Iterator[Rule]:
    root = f"{{root}}/held-{name}"
    for number, (text, call, near) in enumerate(rules):
        yield Rule(
            text,
            frozenset(),
            _tool_use(call, root),
            (_tool_use(near, root),),
            is_typed=number % 2 == 0,
            opening="",
        )


def _tool_use(text: str, root: str) -> ToolUse:
    if text.startswith("edit "):
        path, _, content = text[5:].partition(": ")
        return edit(f"{root}/{path}", content)
    command, _, output = text.partition(" !! ")
    return run(command, output)
