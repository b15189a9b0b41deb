# Everything runs in a virtual environment that these targets make for themselves.
PYTHON ?= python3
BIN := .venv/bin
PEERS := .venv-bench/bin
# make test DEPENDENCIES=lowest, in a new clone: the oldest versions that pyproject.toml allows.
DEPENDENCIES ?= newest
INSTALL = $(INSTALL_$(DEPENDENCIES))
INSTALL_newest = $(BIN)/python -m pip install --quiet
INSTALL_lowest = $(BIN)/python -m pip install --quiet uv && \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct

# Tests start hundreds of processes: without files of bytecode each would compile its imports anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup java redis node browser promtool kernels test test-fast coverage soak interleavings lint bench bench-core bench-inputs bench-sketches bench-batch bench-plan \
	bench-online bench-redis bench-review bench-spark bench-vectors bench-clients demo docs release pictures clean

setup: .venv/ready java redis node browser promtool

# The package alone is all that the demo needs.
.venv/package: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[jit]"
	touch $@

.venv/ready: .venv/package
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(INSTALL) --editable ".[dev]"
	touch $@

# The tests of the Spark engine need Java 17 or later, those of clients/java also its compiler. Newer
# Debians have another version by default.
java:
	@if [ -x "$$JAVA_HOME/bin/javac" ] || command -v javac >/dev/null; then \
		true; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && \
		{ apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless || \
		  apt-get install -y -qq --no-install-recommends default-jdk-headless; } >/dev/null; \
	else \
		echo "no JDK: make test needs javac 17 or later (Debian: apt-get install openjdk-17-jdk-headless)"; \
	fi

# The tests of the index on Redis start servers of their own: the package's service need not run.
# After Java, because apt-get runs once at a time.
redis: java
	@if [ -n "$$NEARDUP_REDIS_SERVER" ] || command -v redis-server >/dev/null || \
	    command -v valkey-server >/dev/null; then \
		true; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 && \
		apt-get install -y -qq --no-install-recommends redis-server >/dev/null; \
	else \
		echo "no Redis: make test needs Redis 7 or later (Debian: apt-get install redis-server)"; \
	fi

# The tests of clients/js need Node 18 or later, as Debian has it since 2023. The check of its types is
# TypeScript, of npm: without it that check is skipped, and says so.
TSC := .venv/typescript/package/lib/tsc.js

node: redis $(TSC)
	@if command -v node >/dev/null; then \
		true; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && \
		apt-get install -y -qq --no-install-recommends nodejs >/dev/null; \
	else \
		echo "no Node: make test needs Node 18 or later (Debian: apt-get install nodejs)"; \
	fi

# The tests of pages look at them in Chromium, or Chrome. Their check of accessibility is axe-core,
# of npm: a file that is no part of the package. Without them these tests are skipped, and say so.
AXE := .venv/axe/package/axe.min.js

browser: node $(AXE)
	@if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then \
		true; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && \
		apt-get install -y -qq --no-install-recommends chromium fonts-noto-core >/dev/null; \
	else \
		echo "no Chromium: tests of pages are skipped (Debian: apt-get install chromium)"; \
	fi

# Rules of alerts are tested by Prometheus's own tool, out of its package: no daemon is installed.
PROMTOOL := .venv/promtool/usr/bin/promtool

promtool: browser .venv/package
	@if command -v promtool >/dev/null || test -x $(PROMTOOL); then \
		true; \
	elif command -v apt-get >/dev/null; then \
		(mkdir -p .venv/promtool && cd .venv/promtool && apt-get download -qq prometheus && \
			dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool && \
			rm -f prometheus_*.deb) 2>/dev/null; \
	fi; \
	command -v promtool >/dev/null || test -x $(PROMTOOL) || \
		echo "no promtool: the tests of alerts are skipped (Debian: apt-get install prometheus)"

$(TSC): .venv/package
	@mkdir -p .venv/typescript
	@cd .venv/typescript && npm pack --silent typescript@5 2>/dev/null | xargs --no-run-if-empty tar -xzmf; \
		test -e package/lib/tsc.js || echo "no TypeScript of npm: the check of types is skipped"

$(AXE): .venv/package
	@mkdir -p .venv/axe
	@cd .venv/axe && npm pack --silent axe-core@4 2>/dev/null | xargs --no-run-if-empty tar -xzmf; \
		test -e package/axe.min.js || echo "no axe-core of npm: the check of accessibility is skipped"

.venv-bench/ready: benches/peers/requirements.txt
	$(PYTHON) -m venv .venv-bench
	$(PEERS)/python -m pip install --quiet --upgrade pip
	$(PEERS)/python -m pip install --quiet --requirement benches/peers/requirements.txt
	touch $@

# The oldest versions have other types and the oldest tools other rules.
lint: setup
ifeq ($(DEPENDENCIES),newest)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
endif

# Two cores, three workers: the one with the tests of Spark, in one session, waits for Java most of
# the time. Kernels are compiled before, once.
PYTEST := $(BIN)/python -m pytest --numprocesses 3 --dist loadgroup
COMPILE := $(BIN)/neardup warm-up

# The tests of kernels run twice, the second time with bounds checks; those of their cache compile
# in processes and with settings of their own.
CHECKED := $(if $(filter-out kernels,$(ROOM)),,NUMBA_BOUNDSCHECK=1)

kernels: setup
	$(COMPILE)
	$(if $(CHECKED),$(CHECKED) $(COMPILE))

# make test ROOM=index: the tests and the examples of one room.
test: setup
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint kernels
	$(PYTEST) $(if $(ROOM),$(wildcard tests/$(ROOM) src/neardup/$(ROOM)))
	$(if $(CHECKED),$(CHECKED) $(PYTEST) tests/kernels --ignore tests/kernels/test_cache.py)

# A minute or so: without Spark, Redis, kills, processes of their own and what takes long. Without Spark no
# worker waits: one a core.
test-fast: setup
	$(COMPILE)
	$(PYTEST) --numprocesses 2 --hypothesis-profile fast -m "not slow and not spark and not redis and not process and not kill and not heavy"

# Lines that the tests run; those of compiled kernels can't be counted. htmlcov/ shows them.
coverage: setup
	$(COMPILE)
	$(PYTEST) --cov --cov-report term:skip-covered --cov-report html

# Kills, corruption and random settings in full size, ten times the examples of each property; kernels
# by the JIT and for the oldest processors: an hour or more.
soak: setup
	$(PYTEST) tests --hypothesis-profile soak -m "slow or hypothesis or sized"
	NEARDUP_KERNELS=jit $(PYTEST) tests/kernels
	NEARDUP_CPU_LEVEL=x86-64-v2 $(PYTEST) tests/kernels

# A million histories of writers of one index on Redis, in random interleavings: a day on two cores.
interleavings: setup
	$(PYTEST) tests/index/redis_store/test_interleavings.py --hypothesis-profile interleavings

# The corpora are not part of the repository: make bench DATA=folder, see benches/README.md.
bench: bench-core bench-inputs bench-sketches bench-batch bench-plan bench-online bench-redis bench-review bench-spark bench-vectors bench-clients

bench-core: setup .venv-bench/ready
	$(BIN)/python benches/core.py --data "$(DATA)" --peers-python $(PEERS)/python

bench-inputs: setup
	$(BIN)/python benches/inputs.py --data "$(DATA)"

bench-sketches: setup .venv-bench/ready
	$(BIN)/python benches/sketches.py --data "$(DATA)" --peers-python $(PEERS)/python
	$(BIN)/python benches/fingerprints.py --data "$(DATA)" --peers-python $(PEERS)/python
	$(BIN)/python benches/filters.py --data "$(DATA)" --peers-python $(PEERS)/python
	$(BIN)/python benches/hash_table.py

# WORK=folder is where the large corpora are made and kept: 25 GB.
bench-batch: setup .venv-bench/ready
	$(BIN)/python benches/batch.py --data "$(DATA)" --peers-python $(PEERS)/python \
		$(if $(WORK),--work "$(WORK)")
	$(BIN)/python benches/scale.py

bench-plan: setup .venv-bench/ready
	$(BIN)/python benches/truth.py --data "$(DATA)" --peers-python $(PEERS)/python
	$(BIN)/python benches/predicted.py --data "$(DATA)"
	$(BIN)/python benches/tuned.py --data "$(DATA)"
	$(BIN)/python benches/quality.py --data "$(DATA)"
	$(BIN)/python benches/labels.py --data "$(DATA)"
	$(BIN)/python benches/tweets_sweep.py --data "$(DATA)" $(if $(WORK),--work "$(WORK)")

# WORK=folder is where the index of a million documents is made and kept: 10 GB with what is written.
bench-online: setup .venv-bench/ready
	$(BIN)/python benches/online.py --data "$(DATA)" --peers-python $(PEERS)/python \
		$(if $(WORK),--work "$(WORK)")
	$(BIN)/python benches/serving.py --data "$(DATA)" $(if $(WORK),--work "$(WORK)")

# It starts Redis servers on 127.0.0.1 and ends them.
bench-redis: setup .venv-bench/ready
	$(BIN)/python benches/redis_index.py --data "$(DATA)" --peers-python $(PEERS)/python \
		$(if $(WORK),--work "$(WORK)")
	$(BIN)/python benches/redis_faults.py --data "$(DATA)" $(if $(WORK),--work "$(WORK)")

# WORK=folder is where the run with a million removals is made and kept: 1 GB.
bench-review: setup
	$(BIN)/python benches/review.py --work "$(or $(WORK),/tmp)"

# WORK=folder is where the vectors are made and kept: 4 GB.
bench-vectors: setup .venv-bench/ready
	$(BIN)/python benches/vectors.py --data "$(DATA)" --peers-python $(PEERS)/python \
		$(if $(WORK),--work "$(WORK)")

bench-spark: setup .venv-bench/ready
	$(BIN)/python benches/spark.py --data "$(DATA)" --peers-python $(PEERS)/python \
		$(if $(WORK),--work "$(WORK)")
	$(BIN)/python benches/spark_cluster.py --data "$(DATA)" $(if $(WORK),--work "$(WORK)")

bench-clients: setup
	$(BIN)/python benches/clients.py --data "$(DATA)"

demo: .venv/package
	$(BIN)/neardup demo

.venv/docs: .venv/package
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# The documentation site, in site/; a broken link or a docstring that can't be read fails.
docs: .venv/docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env \
		--conf-dir docs --doctree-dir .venv/doctrees . site
	@echo "site/index.html"

.venv/release: .venv/package
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	touch $@

# Build, check and try what would be published, in dist/. It uploads nothing.
release: .venv/release
	$(BIN)/python scripts/check_release.py

# The pictures of README.md and the guides, in docs/pictures; screenshots need Chromium.
pictures: .venv/ready
	$(BIN)/python scripts/make_pictures.py

clean:
	rm -rf .venv .venv-bench dist site
