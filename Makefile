# `make quick` first: the whole pipeline at the quick budget, from nothing to tables.
SHELL := /bin/bash
VENV := .venv
PYTHON ?= python3
PIP := $(VENV)/bin/python -m pip install --disable-pip-version-check
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export WANDB_SILENT := true
# else it is below /var/tmp, where others could put something (diskcache unpickles)
export DVC_SITE_CACHE_DIR := $(CURDIR)/.work/dvc/site

.PHONY: help setup clusters quick study check lock test lint audit faults test-clusters bench browse sync clean

help:
	@echo "make setup    the environment, from requirements.lock, into $(VENV)"
	@echo "make quick    the whole pipeline at the quick budget: set-up, then about a quarter of an hour"
	@echo "make study    the full study at the chapter's budget: what results/ lacks; goes on where it stopped"
	@echo "make clusters what launchers slurm and ray need besides; see docs/clusters.md"
	@echo "make check    the chapter's claims, judged on what was trained"
	@echo "make test     linters and tests"
	@echo "make audit    known vulnerabilities in the locks, but those that audit.toml excepts with a reason"
	@echo "make faults   a study under kills, full disks and damage: the same tables in the end"
	@echo "make bench    how fast it is here, against bars: minutes"
	@echo "make browse   wandb's terminal dashboard over all runs, the newest study first"
	@echo "make sync     all runs to your wandb account, each once; DRY=1 lists what that would be"
	@echo "make clean    removes what the quick budget left, and all checkpoints, weights and caches (.work)"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@echo "setting up $(VENV), once: two or three minutes"
	@$(PYTHON) -m venv $(VENV)
	@set -o pipefail; $(PIP) --progress-bar off --requirement requirements.lock | awk -v all=$$(grep -c == requirements.lock) \
		'/^(Collecting|Processing) / && n < all { printf "\r  fetched %d of %d packages", ++n, all; fflush() } \
		/^Installing/ { print "\n  installing them"; fflush() }'
	@$(PIP) --quiet --no-deps --no-build-isolation --editable .
	@$(VENV)/bin/python -m ablations.report.plots_page $(VENV)/plots.html
	@touch $@

clusters: setup
	@echo "installing what launchers slurm and ray need"
	@$(PIP) --quiet --requirement requirements-clusters.lock

# The same stages from `plan` on, under another budget. They lie in an ignored folder and keep their lock there (which
# is why DVC is told not to ask git), so that trying the pipeline out leaves the repository as it was. Every study has
# `seeds` seeds there: what some have beyond them is for intervals, which say little where nothing converges.
quick: setup
	@python -m ablations.data.prepare
	@mkdir -p .work/quick .work/dvc
	@printf '[core]\n    no_scm = true\n' > .work/dvc/config
	@sed -e '/^  corpus:/,/^  plan:/{/^  plan:/!d}' -e 's/budget: chapter/budget: quick/' -e 's|root: \.|root: ../..|' \
		-e 's/"seed=range(.*)"/"seed=range(0,$${seeds})"/' \
		dvc.yaml > .work/quick/dvc.yaml
	@cp params.yaml .work/quick/params.yaml
	@DVC_GLOBAL_CONFIG_DIR="$(CURDIR)/.work/dvc" dvc repro --keep-going .work/quick/dvc.yaml || \
		{ python -m ablations.report.tables budget=quick && cat reports/quick/tables/README.md; exit 1; }
	@cat reports/quick/tables/README.md
	@echo "all of it on one page, with charts: reports/quick/index.html"

study: setup
	@dvc repro --keep-going || \
		{ python -m ablations.report.tables && cat reports/chapter/tables/README.md; exit 1; }
	@cat reports/chapter/tables/README.md
	@echo "all of it on one page, with charts: reports/chapter/index.html"

# Exact versions, from an environment of their own. torch first: its processor build is the one to freeze.
lock:
	@rm -rf .work/lock && $(PYTHON) -m venv .work/lock
	@.work/lock/bin/python -m pip install --quiet torch==2.13.0
	@.work/lock/bin/python -m pip install --quiet --editable .[dev]
	@echo '# Exact versions of everything, made by `make lock` from pyproject.toml.' > requirements.lock
	@.work/lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu//' >> requirements.lock
	@.work/lock/bin/python -m pip install --quiet --editable .[slurm,ray] --constraint requirements.lock
	@echo '# Besides requirements.lock, for launchers `slurm` and `ray`, made by `make lock` from pyproject.toml.' \
		> requirements-clusters.lock
	@.work/lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu//' | grep --invert-match --line-regexp --fixed-strings \
		--file requirements.lock >> requirements-clusters.lock
	@rm -rf .work/lock

check: setup
	@python -m ablations.report.claims

test: setup lint
	@python -m pytest -n 2 --dist loadfile --ignore tests/faults --ignore tests/clusters

lint: setup
	@ruff check
	@ruff format --check
	@mypy
	@hadolint Dockerfile

# `python -m tests.audit`: 0 none but those in audit.toml, 1 some, 3 not audited, since the advisory service does not
# answer, which is no pass. make itself ends with 2 for each of the latter.
audit: setup
	@python -m tests.audit

# Kills, full disks, damage, edits. Fewer than twenty kills: also fewer kinds of damage.
KILLS ?= 20
faults: setup
	@KILLS=$(KILLS) python -m pytest -n 2 tests/faults

# A Slurm and a Ray cluster are started here, by root, from Debian's packages slurm-wlm and munge.
test-clusters: clusters
	@python -m pytest tests/clusters

bench: setup
	@python -m ablations.bench

browse: setup
	@python -m ablations.browse

sync: setup
	@python -m ablations.sync $(if $(DRY),dry=$(patsubst 0,no,$(patsubst 1,yes,$(DRY))))

clean:
	rm -rf .work results/quick plans/quick measurements/quick reports/quick
