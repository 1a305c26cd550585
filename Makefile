# What a user types. `./check` is what a developer types; both need only Rust (rustup.rs) and a C compiler.
.PHONY: help run cluster test test-long bench bench-flames pgo install deb build tools

PREFIX ?= /usr/local
# A point belongs to one suite; without SUITE it is one of the first.
SUITE ?= $(if $(POINT),performance,performance available cluster large both-cores arakoon growth garbage coupons queries)
BINARY := target/release/credenza

help:
	@echo "make run         build, then serve on 127.0.0.1:7711 with data in ./data (ARGS='--name a' adds settings)"
	@echo "make cluster     build, then run three nodes on this machine with data in ./dev (ARGS='--nodes 5' adds options)"
	@echo "make test        every check and test (what CI runs)"
	@echo "make test-long   the same for hours: all seeds, all fault injections; goes on where it was stopped (NAMES=cluster:: some)"
	@echo "make bench       measure beside etcd, Redis, RocksDB, Arakoon and PouchDB, write docs/performance.md and docs/performance/"
	@echo "                 (QUICK=1: a short look; SUITE=growth: one suite; POINT=redis-sync: one point; RESUME=1: go on"
	@echo "                 where the last run of this commit stopped; SIZES=1,4,16: these sizes of growth, in million rows)"
	@echo "make bench-flames  flame graphs of what falls short, by the last results (needs perf, as root)"
	@echo "make pgo         record the profile of the shipped program: packaging/credenza.profdata (needs llvm-tools)"
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

# Without protoc the driver of etcd, and its points, are left out.
define build-bench
cargo build --release --locked -p credenza -p bench \
  $$(protoc -o /dev/null google/protobuf/descriptor.proto 2>/dev/null && echo --features bench/etcd)
endef

# The peers are set up here and nowhere else. A suite with failed runs does not keep the next one from
# its turn.
bench: tools
	crates/bench/suites/peers.sh target/peers $(SUITE)
	$(build-bench)
	failed=; for suite in $(SUITE); do \
	  $(BINARY) bench suite $$suite -d target/bench --documents docs $(if $(QUICK),--quick) \
	    $(if $(RESUME),--resume) $(if $(SIZES),--sizes $(SIZES)) $(if $(POINT),--only "$(POINT)") $(ARGS) \
	    || failed="$$failed $$suite"; done; \
	[ -z "$$failed" ] || { echo "suites with failed runs:$$failed" >&2; exit 1; }

bench-flames: tools
	crates/bench/suites/peers.sh target/peers flames
	$(build-bench)
	$(BINARY) bench flames docs -d target/bench $(ARGS)

pgo: tools
	packaging/pgo

install: build
	install -D -s -m 0755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/credenza
	install -D -s -m 0755 $(BINARY)-bench $(DESTDIR)$(PREFIX)/bin/credenza-bench

deb: tools
	packaging/deb "$$(packaging/build)" target/deb
