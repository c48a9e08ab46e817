# Two commands to know: `make demo` runs the main job, `make test` passes the tests.
# Both create their own environment in .venv and need nothing but Python 3.11+ and make.

PYTHON ?= python3
RUN = .venv/bin/python
# The tests that run kernels most: in plain Python an index out of range raises IndexError.
OF_KERNELS = $(addprefix tests/,kernels methods lstsq partition problem engine estimate parallel \
	test_bounds.py test_finite.py test_limits.py test_many.py test_solve.py)

.PHONY: demo test lint docs paper bench bench-files bench-steps bench-greedy bench-kmeans bench-limits bench-prices bench-wild honesty frozen tables clean

demo: .venv/ready
	$(RUN) -m rowsolve demo

test: .venv/ready-test
	$(RUN) -m pytest -n auto
	NUMBA_DISABLE_JIT=1 $(RUN) -m pytest -n auto -m "not compiled" $(OF_KERNELS)

lint: .venv/ready-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

docs: .venv/ready
	$(RUN) docs/make.py
	$(RUN) docs/choosing.py
	$(RUN) docs/architecture.py

paper: .venv/ready
	$(RUN) -m rowsolve reproduce --out docs/paper
	$(RUN) docs/paper.py

# make bench ARGS="--quick", ARGS="--case clustered", ARGS="--list"
bench: .venv/ready-bench
	$(RUN) benchmarks/race.py $(ARGS)

bench-files: .venv/ready-all .venv/ready-bench
	$(RUN) benchmarks/files.py $(ARGS)

bench-steps: .venv/ready-bench
	$(RUN) benchmarks/steps.py

bench-greedy: .venv/ready
	$(RUN) benchmarks/greedy.py

bench-prices: .venv/ready
	$(RUN) benchmarks/prices.py

bench-limits: .venv/ready-bench
	$(RUN) benchmarks/limits.py

bench-kmeans: .venv/ready-bench
	$(RUN) benchmarks/kmeans.py

# make bench-wild ARGS="--seed 1 --count 200", ARGS="--only one-hot --count 10", ARGS="--seed 1 --index 17", ARGS="--list"
bench-wild: .venv/ready-tables .venv/ready-bench
	$(RUN) benchmarks/wild.py $(ARGS)

# make honesty ARGS="--seed 2 --count 500", ARGS="--only 1234", ARGS="--bounds"
honesty: .venv/ready
	$(RUN) benchmarks/honesty.py $(ARGS)

# make frozen ARGS="--save before.json", then ARGS="--compare before.json" after a change that must not change results
frozen: .venv/ready-all
	$(RUN) benchmarks/frozen.py $(ARGS)

# make tables ARGS="--sample 1", ARGS="--one-hot", ARGS="--bounds", ARGS="--sample 1 --only wooldridge/wage1"
tables: .venv/ready-tables
	$(RUN) benchmarks/tables.py $(ARGS)

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rowsolve needs Python 3.11 or later: set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[cli,plot]"
	@touch $@

.venv/ready-%: .venv/ready
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	@touch $@

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
