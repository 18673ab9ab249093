# Convoy. Two commands need nothing but git and make on a Debian 12: `make demo` and `make test`.
BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export CTEST_OUTPUT_ON_FAILURE = 1

.PHONY: help demo test test-cudnn test-full test-sanitize test-threads build install bench fuzz lint format bundle wheel docs clean

help:
	@echo 'make demo           build, then tune resnet18 on a picture and show what was chosen'
	@echo 'make test           build and run every test'
	@echo 'make test-cudnn     tests that ask a real cuDNN and need no GPU, against three versions of it from PyPI'
	@echo 'make test-full      the long property tests (10,000 problems an engine), result in bench/results'
	@echo 'make test-sanitize  tests and conformance cases under the address and undefined-behaviour sanitizers'
	@echo 'make test-threads   plan cache (64 threads), network sessions (8) and tuning database (8 processes) under the thread sanitizer'
	@echo 'make build          the program, at build/bin/convoy, libconvoy.so, what `convoy exec` needs'
	@echo 'make install        program, library, examples and docs, to PREFIX=/usr/local'
	@echo 'make bench          networks beside ONNX Runtime and OpenVINO, result in bench/results'
	@echo 'make fuzz           a minute of fuzzing for each input format'
	@echo 'make lint           formatter, include directions, clang-tidy'
	@echo 'make docs           pages of the public headers, build/doxygen/html'
	@echo 'make bundle         a relocatable folder, build/bundle'
	@echo 'make wheel          the Python package, build/wheel/convoy_dnn-*.whl'

# What each of these builds: the demo needs the command alone.
build: targets = convoy convoy_shared convoy_interposer convoy_ort
demo: targets = convoy
build demo:
	@scripts/setup build
	@echo '== configuring and building'
	@cmake --preset release >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build --preset release --target $(targets) -j $(JOBS)
	@$(if $(filter demo,$@),$(BUILD)/bin/convoy demo)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX) >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@echo 'installed in $(PREFIX)'

test:
	@scripts/setup test
	@echo '== configuring and building'
	@cmake --preset release >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build --preset release -j $(JOBS)
	@echo '== testing'
	@ctest --preset release || { echo '== again, alone: what failed beside other tests'; \
	  ctest --preset release --rerun-failed --parallel 1; }

test-cudnn:
	@scripts/test-cudnn

test-full: build
	@scripts/test-full

test-sanitize:
	@JOBS=$(JOBS) scripts/test-sanitize

test-threads:
	@JOBS=$(JOBS) scripts/test-threads

bench: build
	@scripts/setup bench
	@$(BUILD)/venv/bin/python bench/networks.py

fuzz:
	@scripts/setup fuzz
	@scripts/fuzz

lint:
	@scripts/setup lint
	@scripts/lint

format:
	@git ls-files '*.cc' '*.h' '*.inc' | xargs clang-format -i

bundle: build
	@scripts/setup bundle
	@scripts/bundle

wheel: build
	@scripts/setup wheel
	@scripts/wheel

docs:
	@scripts/setup docs
	@doxygen docs/Doxyfile
	@echo 'build/doxygen/html/index.html'

clean:
	rm -rf build
