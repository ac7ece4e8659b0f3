# Every target creates .venv and installs the dependencies in it, if they are missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
OPTIONS := -n 3 --dist loadscope --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest $(OPTIONS)
DEMO := .venv/.demo
MYPY_TREE := build/mypy/keras_norm

# The folder of real data for tests, examples and experiments, if it exists.
ifneq ($(wildcard ../shared/data),)
export KERAS_NORM_DATA ?= $(abspath ../shared/data)
endif

# The tests of the other backends, and the environment with PyTorch. TORCH is the requirement of pip.
BACKEND_TESTS := tests/test_backends.py tests/distributed tests/recalibration/test_processes.py
TORCH ?= torch
TORCH_BIN := build/torch/bin
TORCH_STAMP := build/torch/.installed

# Rows of the table of versions in pyproject.toml, each with an environment, and the tests to run there.
VERSIONS ?= $(shell $(PYTHON) tests/versions.py)
VERSIONS_TESTS ?= tests
VERSIONS_BIN = build/versions/$*/bin

# The environment with the libraries whose weights keras_norm.compat loads.
COMPAT_BIN := build/compat/bin
COMPAT_STAMP := build/compat/.installed
HASTE := 0.5.5

# The environment with TensorFlow and JAX for a GPU.
GPU_BIN := build/gpu/bin
GPU_STAMP := build/gpu/.installed

.PHONY: demo test test-all test-jax test-torch test-compat test-versions dist dist-test docs lint stubs fuzz bench bench-jax bench-torch bench-gpu bench-quick report-picture axes-picture experiments clean

demo: $(DEMO)
	@$(BIN)/python -m examples.digits

# test leaves out the tests that are marked slow: whole programs, studies, servers, other backends and
# libraries. test-all runs them too.
test: $(STAMP)
	$(PYTEST) -m "not slow"

test-all: $(STAMP)
	$(PYTEST)

# Compare JAX or PyTorch with TensorFlow. `make test-all` contains test-jax, if JAX is installed.
test-jax: $(STAMP)
	$(BIN)/python -m pytest -k jax $(BACKEND_TESTS)

test-torch: $(TORCH_STAMP)
	$(TORCH_BIN)/python -m pytest -k torch $(BACKEND_TESTS)

# Compute outputs with the real libraries, write them to tests/data, and compare.
test-compat: $(COMPAT_STAMP)
	$(COMPAT_BIN)/python -m tests.compat.record_torch
	$(COMPAT_BIN)/python -m tests.compat.record_sheeprl
	$(COMPAT_BIN)/python -m tests.compat.record_flax
	$(COMPAT_BIN)/python -m tests.compat.record_addons
	$(COMPAT_BIN)/python -m pytest tests/compat tests/examples/test_from_torch.py

# Run the tests with the lowest, the newest and other supported versions of TensorFlow, Keras and Python.
# VERSIONS=lowest tests one row of the table, VERSIONS_TESTS=tests/rnn a part of the tests.
# The commands python3.11, python3.12 and python3.13 must exist.
test-versions: $(VERSIONS:%=test-versions-%)

test-versions-%: build/versions/%/.installed
	$(VERSIONS_BIN)/python -m pytest $(OPTIONS) -m "not slow" $(VERSIONS_TESTS)

# The wheel and the sdist. dist-test installs each in an empty environment, and uses it.
dist: $(STAMP)
	rm -rf build/dist
	$(BIN)/python -m build --outdir build/dist

dist-test: dist
	$(BIN)/python -m tests.distributions build/dist

# The site, in build/docs: open build/docs/index.html. The notebooks run, if they have changed.
docs: $(STAMP)
	TF_CPP_MIN_LOG_LEVEL=2 $(BIN)/python -m sphinx --fail-on-warning --keep-going -q docs build/docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/mypy && mkdir -p $(MYPY_TREE)
	ln -s $(CURDIR)/keras_norm/* $(CURDIR)/export $(MYPY_TREE)/
	ln -s $(CURDIR)/keras_norm_cli $(CURDIR)/keras_norm_verify build/mypy/
	cd build/mypy && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/setup.cfg -p keras_norm -p keras_norm_cli -p keras_norm_verify

# Writes keras_norm/__init__.pyi from the signatures of the public classes.
stubs: $(STAMP)
	$(BIN)/python -m tests.stubs

# Exports and checks random models; fails if a model fails, or if the time is too short for all models.
# Change the options with, for example, FUZZ="--seed 300 --models 50".
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --models 300 --seed 0 --minutes 60 $(FUZZ)

# Writes benchmarks/results.json and docs/pictures/benchmark.png, and prints the tables of docs/guides/benchmarks.md.
bench: $(STAMP)
	$(BIN)/python -m benchmarks run
	$(BIN)/python -m benchmarks plot
	$(BIN)/python -m benchmarks table

# Measure the recurrent layers beside Keras' layers on JAX or PyTorch, and print a table of docs/guides/benchmarks.md.
bench-jax: $(STAMP)
	KERAS_BACKEND=jax $(BIN)/python -m benchmarks.backends

bench-torch: $(TORCH_STAMP)
	KERAS_BACKEND=torch $(TORCH_BIN)/python -m benchmarks.backends

# Measure the layers beside cuDNN on a machine with an NVIDIA GPU, in under eight minutes after the
# installation of the CUDA libraries.
bench-gpu: $(GPU_STAMP)
	KERAS_BACKEND=tensorflow $(GPU_BIN)/python -m benchmarks.gpu measure
	KERAS_BACKEND=jax $(GPU_BIN)/python -m benchmarks.gpu measure
	$(GPU_BIN)/python -m benchmarks.gpu table

bench-quick: $(STAMP)
	$(BIN)/python -m benchmarks run --quick

# Trains a character model for two minutes and writes docs/pictures/report.png; needs a Chromium.
report-picture: $(STAMP)
	$(BIN)/python -m docs.report_picture

# Writes docs/pictures/axes_*.png, which show the axes that each norm reduces.
axes-picture: $(STAMP)
	$(BIN)/python docs/axes_picture.py

# Runs the missing runs of the studies and writes docs/experiments/index.md and docs/experiments/NAME.md.
# STUDY=NAME runs one study. Takes hours.
experiments: $(STAMP)
	$(BIN)/python -m experiments $(if $(STUDY),--study $(STUDY))

clean:
	rm -rf build .venv

# The demo needs fewer packages than the other targets.
$(DEMO): EXTRA = demo
$(STAMP): EXTRA = dev
$(DEMO) $(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "keras_norm needs Python 3.11 or newer; set PYTHON=python3.11, say")'
	@echo "Installing the dependencies in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --quiet --editable '.[$(EXTRA)]'
	@touch $@

# PyTorch has an environment of its own: it is large, and only these targets need it. Triton is removed: it
# crashes in a process that has loaded TensorFlow, and torch.optim loads it.
$(TORCH_STAMP): pyproject.toml
	test -x $(TORCH_BIN)/python || $(PYTHON) -m venv build/torch
	$(TORCH_BIN)/python -m pip install --quiet --editable '.[torch]' '$(TORCH)'
	$(TORCH_BIN)/python -m pip uninstall --quiet --yes triton
	touch $@

$(GPU_STAMP): pyproject.toml
	test -x $(GPU_BIN)/python || $(PYTHON) -m venv build/gpu
	$(GPU_BIN)/python -m pip install --quiet --editable . 'tensorflow[and-cuda]' 'jax[cuda12]'
	touch $@

# The libraries of keras_norm.compat have an environment of their own for the same reason. The
# recurrent layers of NeMo, sheeprl and haste need only PyTorch. haste's compiled part, for GPUs, is
# left out. sheeprl's files run on any Python, though its metadata names older versions.
# Triton is removed as above.
$(COMPAT_STAMP): pyproject.toml
	test -x $(COMPAT_BIN)/python || $(PYTHON) -m venv build/compat
	$(COMPAT_BIN)/python -m pip install --quiet --editable '.[compat-tests]' '$(TORCH)'
	$(COMPAT_BIN)/python -m pip uninstall --quiet --yes triton
	$(COMPAT_BIN)/python -m pip install --quiet --no-deps nemo_toolkit
	$(COMPAT_BIN)/python -m pip install --quiet --no-deps --ignore-requires-python 'sheeprl>=0.5'
	$(COMPAT_BIN)/python -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: \
		--dest build/compat haste-pytorch-cpu==$(HASTE)
	tar xzf build/compat/haste_pytorch_cpu-$(HASTE).tar.gz -C build/compat
	touch $@

build/versions/%/.installed: pyproject.toml
	test -x $(VERSIONS_BIN)/python || $$($(PYTHON) tests/versions.py $* python) -m venv build/versions/$*
	$(VERSIONS_BIN)/python -m pip install --quiet --editable $$($(PYTHON) tests/versions.py $* pip)
	touch $@
