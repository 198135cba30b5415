# Two commands do all the set-up on a fresh Debian or Ubuntu machine: `make demo` and `make test`. scripts/need installs
# what is missing where it may; SELVEDGE_NO_INSTALL=1 forbids that.

PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO := scripts/cargo
SELVEDGE := $(TARGET)/release/selvedge

.PHONY: help demo test loom test-kernel test-kernels test-kernels-short tutorial python fuzz build dev lint fmt-check clippy licences check-scripts bench peers packages test-packages test-same-bytes test-upgrade test-cnitool test-containers test-manifests test-image book install clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ': ?[^#]*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build, then simulate Presto against ECMP and, as root, limit real traffic, with a report (under two minutes)
	@scripts/need demo
	@$(MAKE) --no-print-directory build
	@$(SELVEDGE) demo

build: ## build the release binary
	@scripts/need build
	$(CARGO) build --release --locked --package selvedge $$(scripts/features)

dev: ## build while you work: target/debug/selvedge, a quarter of the time, slower
	@scripts/need build
	$(CARGO) build --locked --package selvedge $$(scripts/features)

# Tests run in the dev profile: opt-level 1 at most, overflow and debug assertions on. What the simulator computes
# with is built once more, optimised as for a release: its results must equal those of the dev profile byte for byte.
test: ## run all tests
	@scripts/need test
	$(CARGO) build --profile optimised --locked --package selvedge
	scripts/test
	@scripts/tests/profiles.sh $(TARGET)/debug/selvedge $(TARGET)/optimised/selvedge

loom: ## every interleaving, within a bound, of the threads that share one run
	LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test --locked -p sim --lib loom

test-kernel: ## only the tests of the kernel edge: root, clang, headers of libbpf, libelf and zlib
	@[ -n "$$(scripts/features)" ]
	scripts/test --package kernel --package agent --features kernel/libbpf,agent/libbpf

test-kernels: ## the kernel tests on Debian's kernels in QEMU, hours: KERNELS="6.12" TESTS="guests limits" picks (docs/kernels.md)
	@scripts/need test
	@scripts/kernels/test

test-kernels-short: ## the same, only whether they load every program and pass limited traffic (minutes)
	@scripts/need test
	@scripts/kernels/test short

tutorial: ## follow docs/your-scheme.md in a copy of this tree: files, changes and commands
	@scripts/need test
	@scripts/tests/tutorial.py

python: ## build the Python wheel, install it into a fresh environment and test it there; downloads packages (docs/sweeps.md)
	@scripts/need build
	@scripts/python

fuzz: ## 10 million hostile frames through the parser and, as root, twice through the kernel programs; a million flows to reorder (half an hour)
	SELVEDGE_FRAMES=10000000 scripts/test --package fuzz-drivers --test frames --test notifications --test drop_reports
	SELVEDGE_SEQUENCES=1000000 scripts/test --package fuzz-drivers --test sequences
	@[ -n "$$(scripts/features)" ]
	SELVEDGE_FRAMES=10000000 scripts/test --package kernel --features kernel/libbpf --test hostile --test crossing

lint: fmt-check clippy licences check-scripts ## formatting, clippy, licences, the scripts' own tests

fmt-check: ## rustfmt, without changing anything
	@scripts/need lint
	$(CARGO) fmt --all --check

clippy: ## clippy on all targets, with and without the kernel edge; warnings are errors
	@scripts/need lint
	$(CARGO) clippy --workspace --all-targets --locked $$(scripts/features) -- -D warnings
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

licences: ## licences of crates, datapath and vendored files, and docs/dependencies.md; offline once crates are here
	@scripts/need lint
	@scripts/licences --fetch

check-scripts: ## tests of the scripts themselves; shellcheck where it is installed
	@scripts/need lint
	scripts/tests/need.sh
	python3 scripts/tests/licences.py
	python3 scripts/tests/structure.py
	python3 scripts/tests/prose.py
	python3 scripts/tests/groups.py
	python3 scripts/tests/kernels.py
	python3 scripts/tests/tenants.py
	python3 scripts/tests/flood.py
	python3 scripts/tests/manifests.py
	python3 scripts/tests/speed.py
	python3 scripts/tests/benches.py
	python3 scripts/tests/tutorial.py --no-run
	@if command -v shellcheck >/dev/null; then \
		echo shellcheck; \
		shellcheck -x .ci/run scripts/need scripts/cargo scripts/features scripts/test scripts/toolchain.sh scripts/tests/*.sh \
			scripts/packages scripts/container-networks scripts/test-packages scripts/test-manifests scripts/test-same-bytes scripts/book scripts/python \
			scripts/kernels/boot scripts/kernels/common.sh scripts/kernels/fetch scripts/kernels/image scripts/kernels/init scripts/kernels/test scripts/kernels/requests scripts/kernels/requests-inside; \
	else echo "shellcheck is not installed: skipped"; fi

packages: ## what can be installed: .deb, static simulator, container image and checksums, in target/packages (docs/install.md)
	@scripts/need package
	@scripts/packages

test-packages: ## the .deb in a fresh Debian 12: installed, upgraded under a connection, removed, purged; root, debootstrap
	@scripts/test-packages

test-same-bytes: ## the packages twice, from two clones with different paths: the same bytes? (half an hour)
	@scripts/need package
	@scripts/test-same-bytes

test-upgrade: ## from a recorded version to this one under traffic, all versions of state raised; root, builds both (ten minutes)
	@scripts/need test
	@scripts/test-upgrade

test-cnitool: ## CNI's cnitool calls bridge, portmap and our plugin; root, go (once), the reference plugins
	@scripts/need test
	$(CARGO) build --quiet --locked --package selvedge $$(scripts/features)
	@scripts/test-cnitool

test-containers: ## limits of real containers and virtual machines: podman, flannel, calico, cilium, docker, libvirt, as far as they are installed; root
	@scripts/need test
	$(CARGO) build --quiet --locked --package selvedge $$(scripts/features)
	@scripts/test-containers

test-manifests: ## the Kubernetes manifests against the API's schemas; kustomize or kubectl, a Python package
	@scripts/test-manifests

test-image: ## the container image of make packages, unpacked: its programs run, and no library is missing
	@scripts/test-image

book: ## the documents as pages that can be searched, in target/book
	@scripts/need build
	@scripts/book

bench: build ## event queues, reordering, then packet-hops per second of a 128-host fat-tree
	$(CARGO) bench --locked --package sim --package edge
	$(SELVEDGE) bench sim

peers: build ## the same fat-tree in ns-3 and, with HTSIM=DIR, in csg-htsim beside ours (bench/peers/README.md)
	$(MAKE) -C bench/peers
	bench/peers/run

install: ## copy the binary, its manual, completions, systemd unit and licences below PREFIX (default /usr/local)
	@[ -x $(SELVEDGE) ] || $(MAKE) build
	install -D -m 755 $(SELVEDGE) $(DESTDIR)$(PREFIX)/bin/selvedge
	$(SELVEDGE) man $(DESTDIR)$(PREFIX)/share/man/man1
	@mkdir -p $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d $(DESTDIR)$(PREFIX)/lib/systemd/system
	$(SELVEDGE) completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/selvedge
	$(SELVEDGE) completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_selvedge
	$(SELVEDGE) completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/selvedge.fish
	for unit in selvedge selvedge-controller; do \
		sed 's#/usr/local/bin#$(PREFIX)/bin#' packaging/$$unit.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service; \
	done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/selvedge packaging/agent.toml packaging/controller.toml
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/selvedge LICENSE NOTICE CHANGELOG.md SECURITY.md
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/selvedge/docs docs/*.md docs/*.png
	install -D -m 644 datapath/LICENSE $(DESTDIR)$(PREFIX)/share/doc/selvedge/LICENSE.datapath

clean: ## remove everything that was built
	rm -rf $(TARGET) fuzz/target
