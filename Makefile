# The things one does with this tree. `make help` lists them; CMakePresets.json has the builds.
# Every target first installs what it needs and is missing (tools/setup.sh; Debian 12).

JOBS ?= $(shell nproc)
# GPUs to build for, such as 90 (H100, H200) or "80;90"; empty: as before, at first A100, H100/H200 and B200.
CUDA_ARCHITECTURES ?=
# CUDA's usual place is often not on the PATH.
export CUDACXX ?= $(shell PATH="$$PATH:/usr/local/cuda/bin" command -v nvcc)

# Where `make install` puts the program, the libraries and the headers.
PREFIX ?= /usr/local

.PHONY: build install demo test lint bench test-full cuda gpu-test gpu-bench clean help

build: ## build everything for the CPU (the default)
	@tools/setup.sh build
	cmake --preset cpu
	cmake --build --preset cpu -j $(JOBS)

install: build ## install the program, and what find_package(tessera) finds, to PREFIX=/usr/local
	cmake --install build/cpu --prefix $(PREFIX)

demo: ## train a tokenizer and a small model on this repository's text, and let it write
	@tools/setup.sh build
	cmake --preset cpu
	cmake --build --preset cpu -j $(JOBS) --target tessera
	examples/demo.sh

test: build ## all tests, with a quick subset of every extended test suite
	@tools/setup.sh test
	ctest --test-dir build/cpu -j $$(($(JOBS) + 2)) --output-on-failure --no-tests=error  # some mostly sleep

lint: ## format, layers, local names, size limits, scripts, clang-tidy
	@tools/setup.sh build lint
	@tools/lint.sh

bench: build ## measure against PyTorch, where there is one (bench/run.py --help)
	cmake --build --preset cpu -j $(JOBS) --target benches
	bench/run.py

test-full: ## the extended test suites at full count; hours, and resumes where it was stopped
	@tools/setup.sh build test lint
	tools/extended_tests.py

cuda: ## build everything with the CUDA backend (needs nvcc, no GPU); CUDA_ARCHITECTURES=90 for one GPU alone
	@tools/setup.sh build cuda
	cmake --preset cuda $(if $(CUDA_ARCHITECTURES),-DCMAKE_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)")
	cmake --build --preset cuda -j $(JOBS)

gpu-test: cuda ## all tests that need an NVIDIA GPU, then our kernels under compute-sanitizer
	tools/gpu_test.sh
	tools/gpu_test.sh --sanitize

gpu-bench: cuda ## measure training steps on an NVIDIA GPU against PyTorch, where there is one
	cmake --build --preset cuda -j $(JOBS) --target benches
	bench/run.py --device cuda

clean: ## remove all builds
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
