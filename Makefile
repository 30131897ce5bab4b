# Each target installs what it needs, with pinned versions, into the virtual environment .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: setup demo docs studies-small test test-slow test-all test-neighbours check format mutants \
	torture torture-ray bench bench-scale bench-peers clean

# Everything a developer needs.
setup: $(VENV)/.dev

# $(VENV)/.NAME: the extra NAME of pyproject.toml is installed.
$(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet \
		-c constraints.txt torch numpy setuptools
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet \
		-c constraints.txt --no-build-isolation --editable '.[$*]'
	touch $@

demo: $(VENV)/.all
	OMP_NUM_THREADS=1 $(BIN)/tollbox demo --out demo-output --replace

# The site, of docs/ and of the code: build/docs/html/index.html. It runs the notebooks of examples/.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --builder html --nitpicky --fail-on-warning --keep-going --quiet \
		--doctree-dir build/docs/doctrees docs build/docs/html

# The paper's experiments on small stand-ins; what is to be looked at is kept in docs/gallery.
SMALL := build/studies-small
studies-small: $(VENV)/.all
	rm -rf $(SMALL)
	OMP_NUM_THREADS=1 $(BIN)/tollbox paper all --scale small --out $(SMALL)
	mkdir -p docs/gallery
	cp $(SMALL)/*/*.png $(SMALL)/*/*.svg $(SMALL)/*/*.md docs/gallery/
	$(BIN)/python docs/figures/draw.py

# The default tier: every rule, the golden runs, every command, a whole run of every preset.
test: $(VENV)/.test
	$(PYTEST) -m "not slow"

# The rest: known boundaries, killed processes, pages in a browser, documentation that is run.
test-slow: $(VENV)/.test $(VENV)/.browser
	$(PYTEST) -m slow --durations 25

test-all: test test-slow

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutants: $(VENV)/.test
	$(BIN)/python tests/mutants.py

torture: $(VENV)/.test
	$(BIN)/python tests/support/torture.py
	$(BIN)/python tests/support/torture.py --watch
	$(BIN)/python tests/support/torture_parts.py

bench: $(VENV)/.all
	$(BIN)/python benchmarks/throughput.py

bench-scale: $(VENV)/.all
	for what in writer memory simulation; do $(BIN)/python benchmarks/scale.py $$what; done

# Neighbours and peers, each in an environment of its own: ART does not run with NumPy 2, which all
# else is pinned to.
build/%/.installed: pyproject.toml constraints.txt
	test -x build/$*/bin/python || $(PYTHON) -m venv build/$*
	sed 's/^numpy==.*/numpy==1.26.4/' constraints.txt > build/$*/constraints.txt
	PIP_CONSTRAINT=$(CURDIR)/build/$*/constraints.txt build/$*/bin/python -m pip install --quiet \
		torch numpy setuptools
	PIP_CONSTRAINT=$(CURDIR)/build/$*/constraints.txt build/$*/bin/python -m pip install --quiet \
		--no-build-isolation --editable '.[$*]'
	touch $@

# Of the OCR package an example takes the model file alone, so what it needs for reading stays out.
build/neighbours/.ocr: build/neighbours/.installed
	build/neighbours/bin/python -m pip install --quiet --no-deps \
		-c constraints.txt rapidocr-onnxruntime
	touch $@

# Models and attacks of other packages: transformers, timm, torchvision, onnxruntime, Foolbox, ART;
# the examples that need them; and Ray, on two nodes that are both here.
test-neighbours: build/neighbours/.installed build/neighbours/.ocr
	OMP_NUM_THREADS=1 build/neighbours/bin/python -m pytest -n 2 --dist worksteal tests/neighbours

torture-ray: build/neighbours/.installed
	OMP_NUM_THREADS=1 build/neighbours/bin/python tests/support/torture_ray.py

bench-peers: build/peers/.installed
	build/peers/bin/python benchmarks/peers.py --out benchmarks/results/peers-cifar10.json

clean:
	rm -rf $(VENV) demo-output build .mypy_cache .ruff_cache .pytest_cache .hypothesis
