# What a user types. `./check` is what a developer types; both need only Rust (rustup.rs) and a C compiler.
.PHONY: help run cluster test test-long bench install deb build tools

PREFIX ?= /usr/local
# A point belongs to one suite; without SUITE it is one of the first.
SUITE ?= $(if $(POINT),performance,performance growth)
BINARY := target/release/credenza

help:
	@echo "make run         build, then serve on 127.0.0.1:7711 with data in ./data (ARGS='--name a' adds settings)"
	@echo "make cluster     build, then run three nodes on this machine with data in ./dev (ARGS='--nodes 5' adds options)"
	@echo "make test        every check and test (what CI runs)"
	@echo "make test-long   the same for hours: all seeds, all fault injections; goes on where it was stopped (NAMES=cluster:: some)"
	@echo "make bench       measure beside etcd and Redis, write docs/performance.md and docs/performance/growth.md"
	@echo "                 (QUICK=1: 20 minutes; SUITE=growth: one of the two; POINT=redis-sync: one point)"
	@echo "make deb         build what is shipped, and the Debian package of it: target/deb/credenza_*.deb"
	@echo "make install     put the server and the load tool into $(PREFIX)/bin, stripped (PREFIX=... elsewhere)"

# The allocator brings C code; without root the missing package is named.
tools:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get install -qy gcc libc6-dev; \
	  else echo "a C compiler is missing: sudo apt-get install -y gcc libc6-dev"; exit 1; fi; }

build: tools
	cargo build --release --locked -p credenza -p bench

run: build
	$(BINARY) serve $(ARGS)

cluster: build
	$(BINARY) dev --nodes 3 $(ARGS)

test: tools
	./check all

test-long: tools
	./check long $(NAMES)

# The peers are set up here and nowhere else; without protoc the driver of etcd, and its points, are left out.
bench: tools
	crates/bench/suites/peers.sh target/peers
	cargo build --release --locked -p credenza -p bench \
	  $$(protoc -o /dev/null google/protobuf/descriptor.proto 2>/dev/null && echo --features bench/etcd)
	set -e; for suite in $(SUITE); do \
	  $(BINARY) bench suite $$suite -d target/bench --documents docs $(if $(QUICK),--quick) \
	    $(if $(POINT),--only "$(POINT)") $(ARGS); done

install: build
	install -D -s -m 0755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/credenza
	install -D -s -m 0755 $(BINARY)-bench $(DESTDIR)$(PREFIX)/bin/credenza-bench

# With the profile for shipping, under names that are the same on every machine (packaging/reproduce).
deb: tools
	RUSTFLAGS="--remap-path-prefix=$(CURDIR)=/credenza --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=/cargo --remap-path-prefix=$$(rustc --print sysroot)=/rust" \
	  CFLAGS="-ffile-prefix-map=$(CURDIR)=/credenza -ffile-prefix-map=$${CARGO_HOME:-$$HOME/.cargo}=/cargo" \
	  cargo build --profile dist --locked -p credenza
	packaging/deb target/dist/credenza target/deb
