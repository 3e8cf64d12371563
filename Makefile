# Thin verbs over the CMake presets. `make help` lists them.
#
# Each verb first runs scripts/setup.sh, which installs what is missing with apt and costs some
# milliseconds when nothing is. ROLLCALL_SKIP_SETUP=1 skips it.

PRESET ?= release
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# A job that hangs on purpose is mostly waited for: twice as many tests as processors.
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS))))
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
# A compiler newer than ours may warn about something new: that is an error for us, not for a user.
WERROR ?= $(if $(CI),ON,OFF)
# A folder as one source compiles sooner, once. Whoever changes a file compiles it alone.
BY_FOLDER ?= $(if $(CI),ON,OFF)

BUILD := build/$(PRESET)
launcher := $(shell command -v ccache 2>/dev/null)
# Said in both cases: a build that was configured with a ccache which is gone could not go on.
configure_flags := -DROLLCALL_WERROR=$(WERROR) -DROLLCALL_BY_FOLDER=$(BY_FOLDER) \
  $(if $(launcher)$(CMAKE_CXX_COMPILER_LAUNCHER),,\
  -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_CXX_COMPILER_LAUNCHER= \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=OFF) $(if $(launcher),\
  -DCMAKE_C_COMPILER_LAUNCHER=$(launcher) -DCMAKE_CXX_COMPILER_LAUNCHER=$(launcher) \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON)

.DEFAULT_GOAL := help
.PHONY: help hang test attack test-clients bench sim slow build install check check-api format \
        fuzz asan tsan clean sanitized sanitized-built sanitizers-built setup setup-attack \
        setup-browser setup-lint setup-api setup-packages setup-slurm wheel packages \
        test-packages test-slurm test-nvrx release portable FORCE

help: ## this list
	@echo "Rollcall. Verbs:"
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) | \
	  awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'
	@echo "Settings: PRESET=release|dev|asan-ubsan|tsan  JOBS=N  PREFIX=DIR  WERROR=ON|OFF"
	@echo "          BY_FOLDER=ON|OFF"

# Only what the demonstration needs, so that a newcomer waits for no test program.
HANG_TARGETS := rollcall rollcall_shim mini_train rollcall_emu_nccl rollcall_emu_nvml \
  rollcall_emu_cudart11 rollcall_emu_cudart12 rollcall_emu_cudart13

hang: setup $(BUILD)/build.ninja ## watch a job hang on emulated GPUs, and Rollcall say why
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $(HANG_TARGETS)
	@scripts/hang.sh $(BUILD)

test: setup-attack setup-browser build ## build everything and run every test
	@ctest --preset $(PRESET) -j $(TEST_JOBS)

attack: setup-attack $(BUILD)/build.ninja ## tests on slow disks, with little memory, in sandboxes
	@cmake --build --preset $(PRESET) -j $(JOBS) --target rollcall_attack_programs
	@status=0; ctest --preset $(PRESET) -j $(TEST_JOBS) -L '^attack$$' || status=$$?; \
	  grep '^skipped (' $(BUILD)/Testing/Temporary/LastTest.log; exit $$status

# What these programs need; none of the test programs.
CLIENT_TARGETS := $(HANG_TARGETS) rollcall_other_host $(foreach release,11 12 13,\
  rollcall_emu_libcublas$(release) rollcall_emu_libcublasLt$(release))

test-clients: setup-api $(BUILD)/build.ninja ## PyTorch and others of PyPI on emulated GPUs (16 GB)
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $(CLIENT_TARGETS)
	@scripts/test_clients.sh $(BUILD)

bench: build ## measure what recording and judging cost; prints tables (SCALE=full: 16,384 ranks)
	@scripts/bench.sh $(BUILD)
	@scripts/bench_scale.py $(BUILD) $(if $(SCALE),--full) --json $(BUILD)/bench_scale.json
	@scripts/bench_logs.py $(BUILD) --json $(BUILD)/bench_logs.json

SEEDS ?= 2000
sim: build ## judge SEEDS random faulty jobs; prints the table of docs/ACCURACY.md
	@ROLLCALL_SIM_SEEDS=$(SEEDS) ROLLCALL_SIM_TABLE=$(BUILD)/accuracy.md \
	  ROLLCALL_SIM_WORKLOADS=$(BUILD)/accuracy_workloads.md $(BUILD)/tests/sim/sim_test; \
	  status=$$?; cat $(BUILD)/accuracy.md $(BUILD)/accuracy_workloads.md; exit $$status

SLOW_SEEDS ?= 25
slow: build ## judge SLOW_SEEDS random slow jobs of each family; prints the tables of docs/SLOW.md
	@$(BUILD)/tests/slow/slow_accuracy 1000000 $(SLOW_SEEDS)

build: setup $(BUILD)/build.ninja ## build everything
	@cmake --build --preset $(PRESET) -j $(JOBS)

install: build ## install the command and the libraries under PREFIX
	@cmake --install $(BUILD) --prefix $(PREFIX)

# x86_64 or aarch64. The first build of one compiles zig's C++ library and everything else with it:
# half an hour on two cores.
ARCH ?= x86_64
portable: setup-packages
	@nice scripts/build_portable.sh $(ARCH)

wheel: portable ## pack rollcall-nccl for pip, from glibc 2.28 on (ARCH: the processor)
	@scripts/pack.py wheel $(ARCH)

packages: wheel ## the same, and as tar.gz, OCI image, deb and rpm
	@scripts/pack.py archive $(ARCH)
	@scripts/pack.py image $(ARCH)
	@scripts/pack.py system $(ARCH)

test-packages: packages ## install them where nothing of Rollcall is, use and remove them
	@JOBS=$(JOBS) scripts/build_portable.sh $(ARCH) mini_train
	@scripts/test_packages.py $(ARCH)

test-slurm: setup-slurm $(BUILD)/build.ninja ## jobs under a real Slurm of one node, as root
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $(HANG_TARGETS) dlopen_user
	@scripts/test_slurm.py $(BUILD)

test-nvrx: setup $(BUILD)/build.ninja ## NVIDIA's fault-tolerant launcher asks whether to restart
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $(HANG_TARGETS)
	@scripts/test_nvrx.py $(BUILD)

release: ## packages of both architectures, tested, with SBOM and checksums, in build/packages
	@test -z "$$(git status --porcelain)" || { echo "release: there are uncommitted changes" >&2; \
	  exit 1; }
	@rm -rf build/packages
	@$(MAKE) --no-print-directory test-packages ARCH=x86_64
	@$(MAKE) --no-print-directory test-packages ARCH=aarch64
	@scripts/pack.py recipes x86_64 aarch64
	@scripts/pack.py sbom
	@scripts/pack.py checksums x86_64 aarch64

check: setup-lint ## layering, style, format, links: everything that needs no build
	@scripts/check.sh

check-api: setup-api ## hold the NCCL declarations against NVIDIA's wheels (ALL=1: every release)
	@scripts/check_api.py
	@scripts/nccl_variables.py --check

format: setup-lint ## lay out the C and C++ sources with clang-format 14
	@scripts/format.sh

fuzz: setup-lint ## fuzz the file readers and the analysis for FUZZ_SECONDS each
	@$(MAKE) --no-print-directory sanitized-built PRESET=asan-ubsan WERROR=$(WERROR) \
	  TESTS=rollcall_fuzzers
	@scripts/fuzz.sh build/asan-ubsan $(FUZZ_SECONDS)

# The programs that the sanitizers run: what parses files, and what threads share.
ASAN_TESTS := core_test setting_files_test format_test format_golden_test capture_test \
  capture_crash_test trace_test import_test analysis_test sim_test slow_test shim_test plugin_test \
  test_report
# (A process waits 100 ms at its end for races with its own threads, where a second is usual:
# hundreds are started.)
TSAN_TESTS := core_test format_test capture_test capture_crash_test trace_test shim_test \
  plugin_test emulator_device

asan: setup-lint ## unit tests under address and undefined behaviour sanitizers
	@$(MAKE) --no-print-directory sanitized PRESET=asan-ubsan WERROR=$(WERROR) TESTS="$(ASAN_TESTS)"

tsan: ## unit tests under the thread sanitizer
	@$(MAKE) --no-print-directory sanitized PRESET=tsan WERROR=$(WERROR) TESTS="$(TSAN_TESTS)"

# Their programs and those of `make fuzz`, built when nothing else wants the processors.
sanitizers-built: setup-lint
	@nice -n 19 $(MAKE) --no-print-directory sanitized-built PRESET=asan-ubsan WERROR=$(WERROR) \
	  TESTS="$(ASAN_TESTS) rollcall_fuzzers"
	@nice -n 19 $(MAKE) --no-print-directory sanitized-built PRESET=tsan WERROR=$(WERROR) \
	  TESTS="$(TSAN_TESTS)"

sanitized-built: setup $(BUILD)/build.ninja
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $(TESTS)

sanitized: sanitized-built
	@ctest --preset $(PRESET) -j $(JOBS) -R "^($$(echo $(TESTS) | tr ' ' '|'))$$"

clean: ## remove build/
	rm -rf build

setup:
	@scripts/setup.sh $(if $(filter asan-ubsan,$(PRESET)),--lint)

setup-attack:
	@scripts/setup.sh --attack

setup-browser:
	@scripts/setup.sh --browser

setup-lint:
	@scripts/setup.sh --lint

setup-api:
	@scripts/setup.sh --api

setup-slurm:
	@scripts/setup.sh --slurm

setup-packages:
	@scripts/setup.sh --packages

# Configures once; afterwards ninja reconfigures by itself when a CMakeLists.txt changes. A change
# of a setting or of the compiler launcher reconfigures here, one of the presets from nothing:
# another compiler in an old cache would lose what else the preset says.
$(BUILD)/build.ninja: $(BUILD)/.configure-flags CMakePresets.json | setup
	@[ ! CMakePresets.json -nt $@ ] || rm -rf $(BUILD)/CMakeCache.txt $(BUILD)/CMakeFiles
	@cmake --preset $(PRESET) $(configure_flags)

$(BUILD)/.configure-flags: FORCE | setup
	@mkdir -p $(BUILD)
	@echo '$(configure_flags)' | cmp -s - $@ || echo '$(configure_flags)' > $@
FORCE:
