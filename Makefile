# Commands to rehearse busbar on this machine: `make up` ... `make down`. A real account needs only Pulumi (README).
SHELL := /bin/bash
STACK ?= dev
RUN   := . tools/env && tools/in-stack $(STACK)

.PHONY: help kubernetes on-demand rehearsal setup up measure status replace exclude unlock release config monitoring logs clear preview down ssh outputs test pure golden check figures compare older

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: ## install what this machine lacks: engine, Python packages, the rehearsal's Debian packages
	@tools/setup engine python rehearsal

up: setup ## build and measure the cluster of STACK (default dev), rehearsed on this machine
	@$(RUN) up --yes --skip-preview --suppress-outputs

measure: setup ## measure again now, even if nothing changed
	@. tools/env && "$$BUSBAR_PYTHON" -m tools.run_number raise $(STACK) && $(RUN) up --yes --skip-preview --suppress-outputs

status: setup ## show verdict, busbw, nodes, ssh command, report and cost on one screen
	@set -o pipefail; $(RUN) stack output --json | .busbar/venv/bin/python -m tools.status

replace: setup ## replace node NODE, and measure
	@$(RUN) replace "$(NODE)"

exclude: setup ## leave node NODE out, remove it from the stack file, and measure the others
	@$(RUN) exclude "$(NODE)"

unlock: setup ## remove the lock of a killed update; a running update keeps its lock
	@. tools/env && "$$BUSBAR_PYTHON" -m tools.unlock $(STACK)

release: setup ## list what a destroy left, such as protected data; DATA=delete deletes it
	@$(RUN) release $(DATA)

config: setup ## ask a few questions about TARGET (oci, aws, hosts or kubernetes) and write Pulumi.STACK.yaml
	@. tools/env && "$$BUSBAR_PYTHON" -m tools.config "$(TARGET)" $(STACK)

monitoring: setup ## write Prometheus's configuration and the Grafana dashboard into .busbar/monitoring
	@set -o pipefail; $(RUN) stack output --json | .busbar/venv/bin/python -m tools.monitoring .busbar/monitoring

logs: setup ## pack outputs, first-boot logs and the runs kept on the head node into .busbar/logs, without secrets
	@$(RUN) logs

clear: ## remove what rehearsals left: hosts, networks, planted faults, state and records; records of real machines stay
	@python3 -m tools.clear_records

preview: setup ## show the expected bandwidth and what `up` would do; JSON=1 prints JSON
	@$(RUN) preview $(if $(JSON),--json,--suppress-outputs)

down: setup ## destroy everything that `up` created
	@$(RUN) destroy --yes --skip-preview

outputs: setup ## print the stack's outputs as JSON
	@$(RUN) stack output --json

ssh: setup ## open a shell on the head node
	@$(RUN) shell

test: setup ## run the checks, and all tests except those of rehearsal, on-demand and kubernetes; needs root, 10 minutes on 2 cores
	@tools/setup checks
	@tools/test

rehearsal: setup ## run the tests of the rehearsal itself: its networks, hosts, clouds and test programs; 4 minutes
	@tools/setup checks
	@tools/test rehearsal

on-demand: setup ## run the tests of clusters whose nodes Slurm starts, on OCI and on AWS; 8 minutes
	@tools/setup checks
	@tools/test on-demand

kubernetes: setup ## run the tests on a rehearsed Kubernetes cluster; builds Kubernetes once, which takes about 15 minutes
	@tools/setup checks kubernetes
	@tools/test kubernetes

pure: ## run the tests that need neither root nor network and that start few other programs; about a minute
	@tools/setup tests
	@tools/test pure

golden: ## rewrite the reviewed texts of tests/golden and show what changed
	@[ -z "$$CI" ] || { echo "golden: reviewed texts are written by a person, not by CI" >&2; exit 1; }
	@tools/setup tests
	@. tools/env && "$$BUSBAR_PYTHON" -m pytest -q --no-header --write-golden tests/unit tests/program
	@git diff --stat -- tests/golden

check: ## run the checks (style, types, shell, workflows)
	@tools/setup checks
	@tools/check

figures: setup ## measure the figures of README, one line each; PARTS=kills takes half an hour, PARTS=busy 45 minutes
	@. tools/env && "$$BUSBAR_PYTHON" tools/figures.py $(PARTS)

compare: setup ## time how long busbar, an Ansible playbook and an ssh loop each take from 8 running hosts to a verdict
	@tools/setup compare
	@. tools/env && "$$BUSBAR_PYTHON" -m tools.compare.rounds

older: ## time preview, up and an unchanged up, here and at older commits in turn, such as COMMITS="8471989 d7aa662"
	@python3 -m tools.older_commits $(COMMITS)
