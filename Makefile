# make lab    JupyterLab with the tour
# make quick  style, types and the tests nearest to what you changed, in two minutes at most
# make test   all checks; make test ARGS="tests/core -x" passes arguments to pytest
# make test-all  the same with ten times the examples, the tests of devices, and the benchmarks, kept per commit
# make pages  all notebooks with outputs, as static pages for any web server: dist/pages
# make site   the documentation with a reference and search, as a site for any web server: dist/site
# make bench  all benchmarks; docs/performance.md and tests/bench/history.json get the numbers of this machine
# make lint   make wheel   make clean
# make test-gpu    the tests of devices on "cuda", and a page of their results; RFNB_DEVICE=cpu takes another device

PYTHON ?= python3
SETUP = $(PYTHON) .ci/setup.py
IN = . .cache/env &&
AS_ROOT = $(if $(filter 0,$(shell id -u)),--allow-root)

# workers and kernels share compiled modules
export PYTHONDONTWRITEBYTECODE =

.PHONY: lab quick test test-all test-gpu lint bench wheel pages site clean

lab:
	@$(SETUP) lab
	@$(IN) jupyter lab --ip=127.0.0.1 $(AS_ROOT) notebooks/01_tour.ipynb

test:
	@$(SETUP) test
	@$(IN) python .ci/check.py $(ARGS)

quick:
	@$(SETUP) quick
	@$(IN) python .ci/quick.py $(ARGS)

test-all: test-gpu
	@RFNB_PROFILE=nightly $(MAKE) test
	@mkdir -p .cache/bench
	@$(MAKE) bench | tee .cache/bench/$$(git rev-parse --short HEAD).txt

test-gpu:
	@$(SETUP) gpu
	@$(IN) RFNB_DEVICE=$(RFNB_DEVICE) python .ci/gpu.py $(ARGS)

lint:
	@$(SETUP) lint
	@$(IN) python .ci/check.py lint

bench:
	@$(SETUP) bench
	@$(IN) for file in tests/bench/bench_*.py; do echo "$$file"; python "$$file" || exit 1; done
	@$(IN) python tests/bench/performance.py

wheel:
	@$(SETUP) wheel
	@rm -rf dist
	@$(IN) python -m build --wheel --no-isolation --outdir dist

pages:
	@$(SETUP) pages
	@$(IN) python .ci/pages.py $(ARGS)

site:
	@$(SETUP) site
	@$(IN) python .ci/build_site.py $(ARGS)

clean: # all that was built; the environment stays
	rm -rf .cache dist rfnb/labextension rfnb/display/static
	rm -rf extension/node_modules extension/lib extension/tsconfig.tsbuildinfo tests/browser/artifacts
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find rfnb tests notebooks .ci -name __pycache__ -prune -exec rm -rf {} +
