# The two commands: `make demo` shows it, `make test` proves it. Everything they need they install into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-rest test-failed test-all test-page test-local e2e e2e-editors vscode lint fix house docs site picture plugins plugins-check bench bench-all bench-page bench-browser bench-check bench-guard bench-commits bench-trend bench-latency bench-hooks bench-records bench-words bench-quality fit-ranking bench-encoder bench-redaction bench-scale bench-milvus bench-code bench-freshness bench-delivery bench-value bench-safety release-dry-run lock clean

help:  ## show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements/dev.txt pyproject.toml encoder/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lorelog needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@echo "Creating .venv and downloading packages, once. This takes a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable encoder --editable .
	@touch $@

demo: $(VENV)/.ready  ## index a sample memory and ask it three questions
	@$(BIN)/python examples/demo.py

test: $(VENV)/.ready lint  ## the everyday tests: lint, types, import contracts, and every test not marked slow (5 minutes on 2 cores)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-rest: $(VENV)/.ready  ## what `make test` leaves out: slow tests, and property tests with all their examples
	LORELOG_TEST_EXAMPLES=all $(BIN)/python -m pytest -n auto --dist worksteal -m "slow or property"

test-failed: $(VENV)/.ready  ## the tests that failed last time, one after the other
	LORELOG_TEST_EXAMPLES=all $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-all: test test-rest  ## every test

test-page: $(VENV)/.ready  ## the page in Chromium, from the distribution's packages (or LORELOG_TEST_CHROMIUM)
	$(BIN)/python -m pytest -n 2 -rs tests/page

bench-browser: $(VENV)/.ready  ## the page in Chromium with 10,000 memories (make bench-browser ARGS=--quick)
	$(BIN)/python -m bench.page_speed $(ARGS)

vscode:  ## type-check and package the extension of VS Code (npm), as plugins/vscode/lorelog-*.vsix
	cd plugins/vscode && npm install --no-package-lock --no-audit --no-fund --loglevel=error && npm run package

test-local:  ## embedding.provider = local with the real sentence-transformers (installs torch into .bench/local, once)
	test -x .bench/local/bin/python || $(PYTHON) -m venv .bench/local
	.bench/local/bin/python -m pip install --quiet --disable-pip-version-check --editable encoder --editable '.[local,onnx]' pytest hypothesis
	LORELOG_TEST_LOCAL=1 .bench/local/bin/python -m pytest tests/models/test_local_real.py

e2e: $(VENV)/.ready  ## prove it in the real hosts, on loopback (make e2e ARGS='claude --only capture'; installs them once, 1.8 GB)
	$(BIN)/python -m e2e $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m e2e.editors)

e2e-editors: $(VENV)/.ready  ## prove the language server in Neovim and Emacs (apt-get installs them where this is run as root)
	$(BIN)/python -m e2e.editors $(ARGS)

lint: $(VENV)/.ready  ## style, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: $(VENV)/.ready  ## format, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

house: $(VENV)/.ready  ## figures of the code base beside their limits (make house AGAINST=COMMIT adds an earlier commit's)
	@$(BIN)/python scripts/house.py $(if $(AGAINST),--against $(AGAINST))

docs: $(VENV)/.ready  ## write the generated parts of docs/
	$(BIN)/python scripts/generate_reference.py

site:  ## the documentation as a website with offline search, in build/site (installs mkdocs-material into .bench/site, once)
	test -x .bench/site/bin/mkdocs || { $(PYTHON) -m venv .bench/site && .bench/site/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt; }
	NO_MKDOCS_2_WARNING=1 .bench/site/bin/mkdocs build --strict

picture: $(VENV)/.ready  ## record the moving picture of the README again, and draw those of docs/how-it-works.md
	$(BIN)/python scripts/record_terminal.py
	$(BIN)/python scripts/draw_pages.py

plugins: $(VENV)/.ready  ## write plugins/ from src/lorelog/hosts
	$(BIN)/python scripts/generate_plugins.py

plugins-check: $(VENV)/.ready  ## check the plugins' TypeScript against the hosts' own types (npm, cached)
	$(BIN)/python scripts/generate_plugins.py --check
	$(BIN)/python scripts/check_plugins.py

bench: $(VENV)/.ready  ## speed and size beside memsearch (installs it into .bench)
	$(BIN)/python bench/speed.py

bench-all: $(VENV)/.ready  ## every benchmark, about an hour; writes docs/benchmarks.md (make bench-all DATA=DIR VECTORS=DIR ARGS='--only speed,latency', ARGS=--full or ARGS=--quick)
	$(BIN)/python -m bench.all $(if $(DATA),--data $(DATA)) $(if $(VECTORS),--vectors $(VECTORS)) $(ARGS)

bench-page: $(VENV)/.ready  ## write docs/benchmarks.md from stored results, and mark those that are older than their code
	$(BIN)/python -m bench.page

bench-check: $(VENV)/.ready  ## report a docs/benchmarks.md whose results or stale marks are out of date
	$(BIN)/python -m bench.page --check

bench-guard: $(VENV)/.ready  ## fail if a common command has 5 % more instructions than bench/history.jsonl's best (needs valgrind; one minute)
	$(BIN)/python -m bench.trend guard

bench-commits: $(VENV)/.ready  ## fail if a commit of a series does not import or search (make bench-commits ARGS='--since REV'; default: origin/main)
	$(BIN)/python -m bench.trend commits $(ARGS)

bench-trend: $(VENV)/.ready  ## CPU time of common commands by commit, as docs/assets/bench_trend.svg (add a line: python -m bench.trend record)
	$(BIN)/python -m bench.trend draw

bench-latency: $(VENV)/.ready  ## what a warm answer costs, beside memsearch (make bench-latency ARGS='--rounds 5')
	$(BIN)/python bench/latency.py $(ARGS)

bench-hooks: $(VENV)/.ready  ## what a hook costs an agent whatever is broken, beside memsearch's (make bench-hooks ARGS='--runs 200')
	$(BIN)/python bench/hooks.py $(ARGS)

bench-records: $(VENV)/.ready  ## how well and how fast tasks and records are found, and what a write costs (make bench-records ARGS='--details')
	$(BIN)/python bench/records.py $(ARGS)

bench-words: $(VENV)/.ready  ## seconds until a large corpus is found by words (make bench-words DATA=DIR)
	@test -n "$(DATA)" || { echo "DATA=DIR must hold corpora/kubernetes_en.tar.gz"; exit 2; }
	$(BIN)/python bench/words.py --data $(DATA)

bench-quality: $(VENV)/.ready  ## how well judged sets are answered, beside simple rankings (make bench-quality DATA=DIR VECTORS=DIR)
	@test -n "$(DATA)" || { echo "DATA=DIR must hold retrieval/SET/corpus.jsonl.gz"; exit 2; }
	$(BIN)/python -m bench.quality --data $(DATA) $(if $(VECTORS),--vectors $(VECTORS)) $(ARGS)

fit-ranking: $(VENV)/.ready  ## learn ranking and relevance for the built-in encoder (make fit-ranking DATA=DIR KEEP=DIR)
	@test -n "$(DATA)" -a -n "$(KEEP)" || { echo "DATA=DIR must hold retrieval/SET/corpus.jsonl.gz; KEEP=DIR keeps vectors and examples"; exit 2; }
	$(BIN)/python -m bench.quality.fit --data $(DATA) --keep $(KEEP) --unmeasured --write src/lorelog/retrieval/calibrations.json $(ARGS)

bench-encoder: $(VENV)/.ready  ## texts per second, loading and memory of the built-in encoder (make bench-encoder ARGS='--candidate model.onnx')
	$(BIN)/python -m bench.encoder $(ARGS)

bench-redaction: $(VENV)/.ready  ## what redaction takes out of real sessions (make bench-redaction DATA=DIR ARGS='--show FILE')
	@test -n "$(DATA)" || { echo "DATA=DIR must hold transcripts/claude_code/*.jsonl.gz, transcripts/opencode/*.json.gz"; exit 2; }
	$(BIN)/python bench/redaction.py --data $(DATA) $(ARGS)

bench-scale: $(VENV)/.ready  ## our store beside other embedded stores at 100,000 rows (make bench-scale ARGS='--size 20000')
	$(BIN)/python -m bench.scale $(ARGS)

bench-milvus: $(VENV)/.ready  ## our store in Milvus beside the embedded one and Milvus' own hybrid search (make bench-milvus ARGS='--size 20000')
	$(BIN)/python -m bench.milvus $(ARGS)

bench-code: $(VENV)/.ready  ## how well and how fast code is known, against each language's own tooling (fetches it into .bench; make bench-code ARGS='--each 30')
	$(BIN)/python -m bench.code.fetch .bench/code
	$(BIN)/python -m bench.code --tools .bench/code $(ARGS)
	$(BIN)/python -m bench.code_speed

bench-freshness: $(VENV)/.ready  ## what memories know of refactored code (make bench-freshness ARGS='REPOSITORY …' or ARGS='--history GIT@OLD..NEW …'; default: two packages that are installed)
	$(BIN)/python -m bench.freshness $(or $(ARGS),$(shell $(BIN)/python -c 'import sysconfig; p = sysconfig.get_path("purelib"); print(p + "/rich", p + "/hypothesis")'))

bench-delivery: $(VENV)/.ready  ## what agents are shown, and when on real sessions (make bench-delivery ARGS='TEAM_FOLDER... --labels FILE')
	$(BIN)/python -m bench.delivery $(ARGS)

bench-value: $(VENV)/.ready  ## does an agent with lorelog do better: public tasks without a model as judge (make bench-value ARGS='--only value-c'; first: python -m bench.value.fetch)
	$(BIN)/python -m bench.all $(or $(ARGS),--only value)

bench-safety: $(VENV)/.ready  ## secrets, hostile inputs and kills (make bench-safety ARGS='--cycles 100')
	$(BIN)/python -m bench.safety.secrets
	$(BIN)/python -m bench.safety.hostile
	$(BIN)/python -m bench.safety.kills $(ARGS)

# The encoder is installed from this repository, not from an index, and has no dependencies.
LOCK := --universal --generate-hashes --no-header --quiet --no-emit-package lorelog-encoder --no-emit-package lorelog --find-links .bench/encoder
lock:  ## pin every dependency anew, by name and hash
	$(PYTHON) -m venv .bench/uv
	.bench/uv/bin/python -m pip install --quiet uv
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir .bench/encoder ./encoder
	.bench/uv/bin/uv pip compile pyproject.toml $(LOCK) -o requirements/run.txt
	.bench/uv/bin/uv pip compile pyproject.toml --extra dev $(LOCK) -c requirements/run.txt -o requirements/dev.txt
	.bench/uv/bin/uv pip compile requirements/docs.in $(LOCK) -o requirements/docs.txt
	.bench/uv/bin/uv pip compile requirements/release.in $(LOCK) -c requirements/dev.txt -o requirements/release.txt

release-dry-run:  ## what the release workflow does, without publishing: build twice, compare, check, install
	test -x .bench/release/bin/twine || { $(PYTHON) -m venv .bench/release && .bench/release/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/release.txt && .bench/release/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt; }
	.bench/release/bin/python scripts/release.py --dry-run

clean:  ## remove what was built
	rm -rf $(VENV) .bench dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
