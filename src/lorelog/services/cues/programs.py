"""Names of programs that developers run, for the derivation of cues: "not npm" names a program, "not inheritance" none."""

from __future__ import annotations

from lorelog.services.delivery.shell_command import word_set

TOOL_FAMILIES: tuple[frozenset[str], ...] = tuple(
    frozenset(line.split())
    for line in (
        "npm yarn pnpm bun",
        "pip pip3 uv poetry pipenv conda",
        "jest vitest mocha",
        "docker podman",
        "webpack vite parcel",
        "eslint biome",
        "mvn gradle",
        "grep rg ag",
        "flake8 pylint ruff",
    )
)
"""Programs that are used in place of each other."""
PROGRAMS = word_set(
    """
    clear cp ln mkdir ls tee touch npm-run-all standard-version systemd-run yt-dlp kotlin rscript jupyter-lab mongoimport
    ab ack act adb aider air alembic allure amplify ansible ansible-galaxy ansible-playbook ant antora apk apt apt-get ar
    argocd artisan asciidoctor asdf ash astro autoconf autoflake autopep8 ava awk aws az babel bandit basedpyright bash
    bats bazel bazelisk behave biome black blender bower brew browserify browserslist buck buck2 buf buildah buildctl
    buildkite-agent bun bundle bundler bunx busted cabal caddy capistrano cargo cargo-make cat cdk celery certbot cfn-lint
    changeset chef chezmoi chmod chown chpasswd circleci clang clang++ clang-format clang-tidy clippy clj clojure cmake
    cocoapods codecov codex codesign coffee colima commitizen commitlint composer conan conda coverage cpack cpanm crane
    createdb cron crontab cross crystal ctags ctest cucumber curl cypress cz dagger dart dbmate dbt dd deno deptry detox
    devbox devenv dig direnv django-admin dlx dnf docker docker-compose dockerd doctl dotenv dotnet doxygen dpkg drizzle-kit
    dropdb drush dune dvc earthly eas eb ecs-cli electron electron-builder elixir elm emacs esbuild eslint expo fabric
    fastlane fd ffmpeg find firebase flake8 flask flit flutter fly flyctl flyway forge fvm g++ gatsby gcc gcloud gdb gem gh
    ghc ghcup git git-lfs gitlab-runner gitleaks glab gleam go godot gofmt gofumpt goimports golangci-lint golint goose
    gopls goreleaser gotestsum gpg gradle gradlew graphql-codegen grep grunt gsutil guard gulp gunicorn gzip hadolint hardhat
    hatch haxe helm helmfile helix heroku hg hugo husky hypercorn iex inv invoke ionic isort istioctl java javac jekyll
    jenkins jest jetpack jib journalctl jq julia jupyter just k3d k3s k6 k9s karma kill killall kind knex ko kompose
    kotlinc ktfmt ktlint kubeadm kubectl kubectx kubens kustomize lefthook lein lerna less lftp liquibase lint-staged
    lorelog lsof lua luarocks lune magick make mago mamba mariadb markdownlint maturin mdbook melos mercurial meson micro
    micromamba migrate minikube mintlify mise mix mkdocs mocha molecule mongo mongodump mongorestore mongosh moon mv mvn
    mvnw mycli mypy mysql mysqladmin mysqldump nano nc nerdctl netlify newman next nextest ng nginx nightwatch nim nimble
    ninja nix nix-build nix-env nix-shell nmap nodemon nodenv node nohup nomad nose2 nosetests nox npm npm-check-updates npx
    nrwl nuget nuxt nvim nvm nx nyc ocaml oh-my-posh opam openssl orval oxlint pack packer pandoc pants parcel patch pdm pdm
    perl pest pg_dump pg_restore php php-cs-fixer phpcs phpstan phpunit pip pip-compile pip-sync pip3 pipenv pipx pixi
    pkill plantuml playwright pm2 pnpm pnpx pod podman podman-compose poe poetry powershell pre-commit prettier prisma
    procs protoc ps psalm psql pulumi puppet pwsh py.test pycodestyle pydocstyle pyenv pyinstaller pylint pyre pyright
    pytest python python3 pyupgrade quarto quasar rails rake rbenv rclone react-native rebar3 rector redis-cli redis-server
    remix renovate restic rg rm rmdir rollup rome rsbuild rspec rspack rsync rubocop ruby ruff runhaskell rush rust-analyzer
    rustc rustfmt rustup rye sam sbt scala scala-cli scalafmt schemathesis scons scp screen sed semantic-release semgrep
    sentry-cli sequelize serverless service sh shellcheck shfmt shred sidekiq skaffold slidev snakemake snyk sops sourcery
    sphinx-build spotless sqlc sqlfluff sqlite3 sqlx ssh ssh-keygen stack standard stern storybook strace stylelint
    su sudo supabase supervisorctl svelte-kit svn swc swift swift-format swiftformat swiftlint syft systemctl tailwindcss tar
    task taskfile tauri tcpdump telepresence templ terraform terraform-docs terragrunt terser tflint tilt tmux tofu tox tox-uv
    trash trivy trufflehog truncate ts-node tsc tslint tsup tsx turbo turbopack twine ty typeorm typst ufw umount uncrustify
    unittest unzip uv uvicorn uvx vagrant valgrind vault vcpkg velero vercel vi vim vite vitest vue-cli vulture vuepress
    wasm-pack watch watchexec watchman webpack wget wine wp wrangler xargs xcodebuild xcodegen xcrun xmake xvfb-run yalc
    yamllint yapf yarn yay youtube-dl yq yum zellij zig zip zsh
    """
)
"""Programs that a bare word names where a text says to avoid it."""
LANGUAGES = word_set("go java ruby python python3 php swift node dart julia lua perl scala elixir crystal nim zig haxe")
"""Programs that are also languages: "never use python for scripts" is about code, too."""
EVERYDAY_WORDS = word_set(
    """
    ab act air ant ash astro ava babel black blender buck cat caddy chef clippy coffee colima composer cross cucumber dagger
    dune expo fabric find flask fly flash forge gem gleam goose guard gulp grunt hatch helm helix ionic istio jetpack just
    karma kill kind ko less lint make mago melos micro migrate mintlify mise mix mocha mold moon next nightwatch nomad pack
    packer pants parcel patch pest pod poetry prettier procs puppet quasar rails rake remix restic rollup rome rush rye sam
    screen service shred sourcery spotless stack standard stern storybook task templ tilt trash truncate turbo ty vault
    velero watch wine touch clear coverage invoke dig changeset jenkins husky cron electron zip taskfile allure ack
    """
)
"""Programs whose names are also words: outside of code they need a program to compare with, or a verb of running."""
