# SPDX-License-Identifier: Apache-2.0
# What people and CI type. The build itself is meson's; what a target does beyond one line is in tools/.
#
#   make            packages that are missing, then build/cay and the programs that it starts
#   make run        the server in the foreground      DATA=./data LISTEN=127.0.0.1:3000
#   make test       every test; the last line is `N passed, N failed`      SUITES="unit e2e"
#   make power      200 power cuts at random moments      CUTS=200 SEED=17
#   make slow       clients that are slow on purpose, in numbers: four minutes
#   make docker     every end-to-end test that a Docker Engine can pass too, on one of their own
#   make v2         what depends on the kernel, on Debian's with cgroup v2 alone, in QEMU      GUESTS="debian-12 debian-13"
#   make bench      figures side by side with other systems, and build/bench.json      ROWS="create fork"
#   make bench-2000 only that of many live sandboxes      COUNT=5000
#   make check      format, layers, sizes, headers, words
#   make asan tsan  unit tests under the sanitizers
#   make fuzz       every fuzzer for FUZZ_SECONDS=60
#   make abuse      bad requests out of the OpenAPI document, under the sanitizers      REQUESTS=20000 SEED=17
#   make images     the two that tests need; make images-all those of every recipe
#   make install    PREFIX=/usr/local DESTDIR=

DATA ?= $(CURDIR)/data
LISTEN ?= 127.0.0.1:3000
SERVE ?=
# Shared by all test runs on this machine, so that the images are made once.
TEST_IMAGES := $(or $(CAY_IMAGES),/var/cache/cay-images)
SUITES ?=
ROWS ?=
COUNT ?= 2000
CUTS ?= 200
SEED ?= 17
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
DESTDIR ?=

# Of these alone: `make run` keeps its images with its data.
test power slow docker v2 bench bench-2000: export CAY_IMAGES := $(TEST_IMAGES)

share = $(DESTDIR)$(PREFIX)/share/cay

.PHONY: build packages run test power slow docker v2 images images-all bench bench-2000 check format asan tsan fuzz install clean
.DEFAULT_GOAL := build
# Two of these at once would only fight for the same build directory.
.NOTPARALLEL:

build: packages build/build.ninja
	@ninja -C build --quiet

packages:
	@tools/packages build

build/build.ninja:
	@tools/setup build

run: build
	@tools/packages image
	@tools/run $(DATA) $(LISTEN) $(SERVE)

# All that have a recipe: half an hour, and 3 GB.
images-all: images
	@for recipe in recipes/*; do tools/image-build $$recipe $(TEST_IMAGES) || exit 1; done

images:
	@tools/packages image
	@for recipe in busybox node-20-bookworm; do \
	    tools/image-build recipes/$$recipe $(TEST_IMAGES) || exit 1; done

test: build images
	@tools/packages test
	@tools/test build $(SUITES)

power: build images
	@tools/packages test
	@CUTS=$(CUTS) SEED=$(SEED) tools/test build fault/test_power.py

slow: build images
	@tools/packages test
	@CAY_SLOW=1 PYTEST="-m slow" tools/test build fault/test_slow.py
	@CAY_FILES=1000000 PYTEST="-k many_files" tools/test build e2e/test_limits.py

docker: build images
	@tools/packages test
	@tools/test build docker-all

v2: build images
	@tools/packages v2
	@tools/v2 build $(SUITES)

bench: build images
	@bench/run $(ROWS)

bench-2000: build images
	@COUNT=$(COUNT) bench/run density

# Of the programs only cay-init is built, and without sanitizer: it is static, and the tests drive it.
asan: packages
	@tools/sanitize address,undefined build-asan

tsan: packages
	@tools/sanitize thread build-tsan

fuzz: packages
	@tools/packages fuzz
	@CC=clang tools/setup build-fuzz -Dfuzz=true -Db_lundef=false -Db_sanitize=address,undefined \
	    -Dc_args=-fsanitize=fuzzer-no-link
	@ninja -C build-fuzz --quiet $$(find src -name '*_fuzz.c' -printf '%f\n' | sed 's/\.c$$//')
	@tools/fuzz build-fuzz $(FUZZ_SECONDS)

# With the kernel's full address randomisation the sanitizers' shadow memory may be taken.
REQUESTS ?= 20000
.PHONY: abuse
abuse: export CAY_IMAGES := $(TEST_IMAGES)
abuse: packages images
	@tools/packages test
	@tools/setup build-asan -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-asan --quiet cay cay-init cay-file cay-berth
	@ABUSE_COUNT=$(REQUESTS) ABUSE_SEED=$(SEED) PYTEST=-s setarch -R tools/test build-asan abuse

check:
	@tools/packages build check
	@tools/check

format:
	@tools/packages check
	@git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r clang-format -i

install: build
	install -D -m 0755 build/cay $(DESTDIR)$(PREFIX)/bin/cay
	install -D -m 0755 build/cay-init $(DESTDIR)$(PREFIX)/libexec/cay/cay-init
	install -D -m 0755 build/cay-file $(DESTDIR)$(PREFIX)/libexec/cay/cay-file
	install -D -m 0755 build/cay-berth $(DESTDIR)$(PREFIX)/libexec/cay/cay-berth
	install -D -m 0755 tools/image-build $(share)/tools/image-build
	install -d $(share)/recipes
	install -m 0644 recipes/* $(share)/recipes/

clean:
	rm -rf build build-asan build-tsan build-fuzz
