# The commands of daily work; CMake presets do the building.
.DEFAULT_GOAL := build
BENCHES = http gateway export-ladder growth ladder profile case-study msg services login check export point idle slow bodies burst reload write io resident failing policies list rooms
.PHONY: run build install package test bench $(BENCHES:%=bench-%) bench-programs format bootstrap-build bootstrap-test bootstrap-bench

# How long each fuzz target runs in `make test`.
export FUZZ_SECONDS ?= 10
# How many suites `make test` runs at the same time.
TEST_JOBS ?= 2

bootstrap-build bootstrap-test bootstrap-bench: bootstrap-%:
	@scripts/bootstrap $*

# What is shipped: build/release/sluice.
build: bootstrap-build
	@cmake --preset release >/dev/null
	@ninja -C build/release sluice films_generate

# The program, and the library for C++ programs. PREFIX says where (/usr/local).
install: build
	@ninja -C build/release sluice_services
	cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

# The packages: build/package/packages/. The program in them needs glibc 2.34 alone.
package: bootstrap-build
	@scripts/simdjson-source build/simdjson
	@cmake --preset package >/dev/null
	@ninja -C build/package sluice sluice_services
	@rm -rf build/package/packages && mkdir -p build/package/packages
	@cd build/package && export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && \
	for form in TXZ DEB; do cpack -G $$form >packages.log 2>&1 || { cat packages.log; exit 1; }; done
	@rm -rf build/package/packages/_CPack_Packages; ls -l build/package/packages

# Serves the film database: from SQLite, or DATABASE=postgres://user@host/name; FILMS says how many (20000).
run: build
	@exec examples/films/run

# Every test in one summary. Under ASan and UBSan: unit tests, fuzz targets, the running program; under TSan: unit tests; and
# the layout of the tree.
test: bootstrap-test
	cmake --preset debug >/dev/null && ninja -C build/debug all fuzz_targets
	cmake --preset tsan >/dev/null && ninja -C build/tsan unit_tests
	@$(MAKE) --no-print-directory package
	@printf 'subdirs(%s)\n' debug tsan >build/CTestTestfile.cmake
	ctest --test-dir build --output-on-failure -j$(TEST_JOBS); code=$$?; \
	grep -E '^(SKIPPED|FLAKY)' build/Testing/Temporary/LastTest.log; exit $$code

# All benchmarks, one after the other. QUICK=1: the shortest runs that they can have; PAGE=1: stores the figures.
bench: bench-programs
	@/usr/bin/python3 -B bench/all.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PAGE),--page) $(BENCHES)

$(BENCHES:%=bench-%): bench-%: bench-programs
	@/usr/bin/python3 -B bench/run_$(subst -,_,$*).py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(CASES),--cases $(CASES)) $(if $(PAGE),--page)

bench-programs: bootstrap-bench
	@cmake --preset release -DSLUICE_BENCH=ON >/dev/null
	@ninja -C build/release sluice films_generate benchmarks

format: bootstrap-test
	git ls-files '*.cc' '*.h' | xargs clang-format-19 -i
