# make run   a first release, from a million made-up users, in out/release
# make test  the tests;  make test-thorough  further ones, and further cases;  make test-long  all, with slow ones
# make test-laws  10,000 releases of each of 67 lists at three rates, and of other mechanisms; some 20 minutes
# make test-oldest  transforms and jobs with the oldest version of Beam that is supported
# make flink-up, flink-down  a Flink cluster on this machine;  make test-flink  the jobs on it
# make spark-up, spark-down, test-spark  the same for Spark
# make test-dataflow  a dry run for Dataflow
# make proof  checks the theorems of proofs/ with Coq, in less than a minute
# make mutants  plants bugs in a copy of the tree, and tells which test catches each
# make kills  kills each job at 20 random moments, and looks at what it leaves; ten minutes of CPU time
# make replays  runs each job on thousands of pairs of neighbouring records under one secret; an hour or so
# make stress-ledger  kills jobs that share a ledger at random moments, for half an hour: a file, then PostgreSQL
# make fuzz  tens of thousands of damaged files and made-up arguments, an hour or so
# make coverage  branches of the mechanisms that the tests do not take
# make bench  all benchmarks, peers beside, into benchmarks/RESULTS.md; about an hour on two quiet cores
# make bench-large  jobs of hundreds of millions of records; half an hour, and 15 GB of disk
# make dist  builds the packages into out/dist, and tries the wheel with PYTHONS="python3.10 python3.13"
# make lint  formatting, style and types;  make docs  the documentation as a site, in out/docs
# make notebook  runs the notebook of the documentation, and stores its outputs in it

PYTHON ?= python3
BIN := .venv/bin
# Where this is set, as in many images, each process that a test starts would compile Beam again.
unexport PYTHONDONTWRITEBYTECODE

SAMPLE := out/sample/records.csv
RELEASE := out/release

# A virtual environment that could not be made must not look made.
.DELETE_ON_ERROR:

.PHONY: run test test-thorough test-long test-slow test-laws mutants kills stress-ledger fuzz bench bench-large coverage test-oldest test-flink test-spark test-dataflow flink-up flink-down spark-up spark-down proof replays dist lint docs notebook clean

run: .venv/installed
	$(BIN)/python -m pipelines.sample_records --users=1000000 --output=$(SAMPLE) --overwrite
	$(BIN)/python -m pipelines.release_frequency_list --config=runner_configs/direct/in_process.yaml \
	  --input=$(SAMPLE) --user_column=user --partition_column=password_id \
	  --epsilon=1 --max_partitions_per_user=1 --output=$(RELEASE) --overwrite --progress
	@echo
	@echo "$(RELEASE)/released_frequencies.csv begins with:"
	@head -n 6 $(RELEASE)/released_frequencies.csv
	@echo "$(RELEASE)/privacy.json states the guarantee."

# Tests that make test or make test-thorough runs.
NOT_LONG := not slow and not law and not coq and not flink and not spark

# Each worker has a core. Threads of its linear algebra would only take CPU from the others.
test: .venv/installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist=worksteal

test-thorough: .venv/installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist=worksteal -m "thorough and $(NOT_LONG)"

test-long: .venv/installed-test
	PIPELINE_EXAMPLES=25 $(BIN)/python -m pytest -q --fresh -n auto --dist=worksteal --timeout=1800 -m "not law and not coq and not flink and not spark"

# PART=K/N, here and for the laws: the K-th of N parts;  FRESH= : the same draws each time
FRESH := --fresh
test-slow: .venv/installed-test
	PIPELINE_EXAMPLES=25 $(BIN)/python -m pytest -q $(FRESH) -n auto --dist=worksteal --timeout=1800 -m "slow and not law and not flink and not spark" $(if $(PART),--part=$(PART))

# LAW_RELEASES=N: so many of each list
test-laws: .venv/installed-test
	$(BIN)/python -m pytest -q --fresh -n auto --dist=worksteal --timeout=0 -m law $(if $(PART),--part=$(PART))

test-oldest: .venv-oldest/installed
	.venv-oldest/bin/python -m pytest -q -n auto --dist=worksteal -m "$(NOT_LONG)" \
	  tests/beam tests/runtime tests/frames tests/pipelines

# First without Python's packages: the proofs need Coq alone.
proof:
	@command -v coqc coqchk >/dev/null || { \
	  echo "error: make proof needs Coq, 8.16 or later: apt-get install coq, or brew install coq" >&2; exit 1; }
	$(PYTHON) proofs/check.py out/proofs
	@$(MAKE) --no-print-directory .venv/installed-test
	$(BIN)/python -m pytest -q -m coq tests/proofs

mutants: .venv/installed-test
	$(BIN)/python -m tests.mutants

kills: .venv/installed-test
	$(BIN)/python -m tests.clusters.kills --output=benchmarks/results/kills.md

replays: .venv/installed-test
	REPLAYS=700 $(BIN)/python -m pytest -q --fresh -n auto --dist=worksteal --timeout=0 tests/replays

# MINUTES=N: so long for each kind of ledger;  STORE=file or postgresql: only this one
stress-ledger: .venv/installed-test
	$(BIN)/python -m tests.budget.ledger_kills $(if $(MINUTES),--minutes=$(MINUTES)) $(if $(STORE),--store=$(STORE))

fuzz: .venv/installed-test
	FUZZ_EXAMPLES=20000 $(BIN)/python -m pytest -q --fresh --timeout=0 tests/fuzzing

# LISTS=DIR: more frequency lists, as CSV files;  EDGES=DIR: graphs, as .csv.gz files of edges;
# PAIRS=DIR: pairs of users and items, as CSV files;  RESUME=1: only pages that are not of this commit;
# DRAWS=1: other draws than those that are the same each time;  DRAWS=fresh: new ones each time
bench: .venv-bench/installed .venv-peers/installed
	.venv-bench/bin/python -m benchmarks --peers_python=.venv-peers/bin/python \
	  $(if $(LISTS),--lists=$(LISTS)) $(if $(EDGES),--edges=$(EDGES)) $(if $(PAIRS),--pairs=$(PAIRS)) \
	  $(if $(RESUME),--resume) $(if $(DRAWS),--draws=$(DRAWS))

bench-large: .venv-bench/installed
	.venv-bench/bin/python -m benchmarks.large

# Beam has wheels for Python 3.13 from 2.69 on.
.venv-oldest/installed: setup.py
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --editable ".[test,report,yaml,database,ledger]" \
	  "apache-beam==2.65.0; python_version < '3.13'" "apache-beam==2.69.0; python_version >= '3.13'"
	@touch $@

.venv-bench/installed: setup.py
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --editable ".[report]" duckdb networkx "polars>=1"
	@touch $@

.venv-peers/installed:
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet pipeline-dp==0.3.1 python-dp apache-beam opendp
	@touch $@

dist: .venv/installed-test
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m tests.try_package $(if $(PYTHONS),--pythons $(PYTHONS))

coverage: .venv/installed-test
	$(BIN)/python -m pytest -q -m "$(NOT_LONG)" tests/mechanisms tests/statistical tests/test_evaluation.py \
	  dp_transforms/mechanisms --cov --cov-report=term-missing:skip-covered

test-flink: .venv/installed-test
	$(BIN)/python -m pytest -q -rs --timeout=900 -m flink tests/clusters

test-spark: .venv/installed-test
	$(BIN)/python -m pytest -q -rs --timeout=600 -m spark tests/clusters

test-dataflow: .venv/installed-gcp
	$(BIN)/python -m pytest -q -rs --timeout=900 -m "not law" tests/clusters/test_dataflow.py

flink-up: .venv/installed
	$(BIN)/python -m runner_configs.flink up

flink-down: .venv/installed
	$(BIN)/python -m runner_configs.flink down

spark-up: .venv/installed
	$(BIN)/python -m runner_configs.spark up

spark-down: .venv/installed
	$(BIN)/python -m runner_configs.spark down

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy dp_transforms pipelines

# Without the times at which cells ran, which would make each run differ.
notebook: .venv/installed-test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -c 'import nbclient, nbformat; \
	  path = "docs/first-hour-notebook.ipynb"; notebook = nbformat.read(path, 4); \
	  nbclient.NotebookClient(notebook, record_timing=False, coalesce_streams=True).execute(); \
	  nbformat.write(notebook, path)'

# The site has its pages where the repository has them, so that links hold in both.
docs: .venv/installed-docs
	@mkdir -p out/website
	@for page in *.md docs benchmarks runner_configs; do ln -sfn ../../$$page out/website/$$page; done
	@# Not --quiet, with which no warning counts.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf .venv .venv-bench .venv-oldest .venv-peers out build dist *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: setup.py pyproject.toml | .venv/bin/python
	@echo "installing the package and what it needs into .venv; the first time this takes a minute"
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	@touch $@

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

.venv/installed-gcp: .venv/installed-test
	$(BIN)/python -m pip install --quiet --editable ".[gcp,test]"
	@touch $@
