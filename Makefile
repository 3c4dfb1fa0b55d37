# The commands of daily work; CMake presets do the building.
.DEFAULT_GOAL := build
.PHONY: run build install package test bench bench-http bench-export bench-export-ladder bench-point bench-ladder bench-slow bench-bodies bench-burst bench-reload bench-idle bench-profile bench-write bench-io bench-case-study bench-resident bench-gateway bench-failing bench-policies bench-msg bench-list format bootstrap-build bootstrap-test bootstrap-bench

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

bench: bench-http bench-export bench-export-ladder bench-point bench-idle bench-slow bench-bodies bench-burst bench-reload bench-ladder bench-profile bench-write bench-io bench-case-study bench-resident bench-gateway bench-failing bench-policies bench-msg bench-list

bench-http bench-export bench-export-ladder bench-point bench-idle bench-slow bench-bodies bench-burst bench-reload bench-ladder bench-profile bench-write bench-io bench-case-study bench-resident bench-gateway bench-failing bench-policies bench-msg bench-list: bench-%: bootstrap-bench
	@cmake --preset release $(if $(filter bench-msg,$@),-DSLUICE_BENCH=ON) >/dev/null
	@ninja -C build/release sluice floor_epoll drain ladder $(if $(filter bench-export,$@),films_generate naive_export) $(if $(filter bench-export-ladder,$@),films_generate exports) $(if $(filter bench-case-study bench-resident,$@),case_study latency) $(if $(filter bench-write,$@),slow_sync) $(if $(filter bench-gateway,$@),ws_echo) $(if $(filter bench-msg,$@),example_echo example_broadcast floor_frames frames_load bench_base bench_core bench_msg)
	@/usr/bin/python3 -B bench/run_$(subst -,_,$*).py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(CASES),--cases $(CASES))

format: bootstrap-test
	git ls-files '*.cc' '*.h' | xargs clang-format-19 -i
