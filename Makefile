# Tenon. `make` alone lists the targets.

CARGO := scripts/cargo.sh
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tenon
PLUGINS := eth net web3 rpc txpool debug admin consensus personal miner
PLUGIN_CRATES := $(PLUGINS:%=-p tenon-plugin-%)
TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CACHE)/target)

.PHONY: help dev build test mutants abuse conformance conformance-rpc fuzz bench modules-bench soak lint format docs deny setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: build ## install what is missing, build, start the development network
	dist/tenon dev

build: setup ## install what is missing, build the release program and its plugins into dist/
	$(CARGO) build --release -p tenon-node $(PLUGIN_CRATES)
	@mkdir -p dist/plugins dist/include
	@cp $(TARGET_DIR)/release/tenon dist/tenon.new && mv dist/tenon.new dist/tenon
	@for name in $(PLUGINS); do \
	    cp $(TARGET_DIR)/release/libtenon_plugin_$$name.so dist/plugins/.$$name.new && \
	    mv dist/plugins/.$$name.new dist/plugins/libtenon_plugin_$$name.so || exit 1; done
	@scripts/list-plugins.sh dist/plugins
	@cp plugins/sdk/include/tenon_plugin.h dist/include/
	@printf 'built: dist/tenon, %s plugins in dist/plugins, dist/include/tenon_plugin.h\n' $(words $(PLUGINS))

test: ## install what is missing, run all tests
	@scripts/setup.sh test
	scripts/test.sh

conformance: build conformance-rpc ## run every case of the public suites; ARGS="--filter TEXT" selects cases, "--data DIR" uses other files
	$(CARGO) run --release -q -p tenon-ethereum-tests -- $(ARGS)

conformance-rpc: build ## run the public JSON-RPC cases over every transport; RPC_ARGS="--filter TEXT" or "--data DIR"
	@scripts/setup.sh test
	$(CACHE)/python/bin/python tests/conformance/run.py $(RPC_ARGS)

mutants: setup ## break rules of the chain on purpose and check that their tests fail (half an hour); ARGS="prague reward" for some
	tests/mutants/run.py $(ARGS)

# Deliberate panics need a debug build, time limits a release build, so both are built.
abuse: build ## run the long abuse tests: kills, full disks, damaged files, hostile clients, panics (half an hour); ARGS="kills clients" for some
	@scripts/setup.sh test
	$(CARGO) build -p tenon-node $(PLUGIN_CRATES) -p tenon-test-misbehaving -p tenon-test-intruder
	@scripts/list-plugins.sh $(TARGET_DIR)/debug
	scripts/abuse.sh $(ARGS)

fuzz: setup ## fuzz every parser of external bytes; FUZZ_SECONDS=3600 in all, ARGS="TARGET…" for some
	scripts/fuzz.sh $(ARGS)

bench: build ## compare the node with a minimal server, anvil and the reference client (an hour); ARGS="--parts requests" for a part
	@scripts/setup.sh test
	$(CARGO) build --release -p tenon-bench -p tenon-bench-import -p tenon-bench-network
	$(CARGO) bench --no-run -p tenon-modules --bench plugin_hop -p tenon-native-consensus --bench native_headers \
	    -p tenon-signing-policy --bench decide
	benches/run.py $(ARGS)

soak: build ## run full load for SECONDS (3600) or a million blocks; memory and open files must stay flat; ARGS=--peers loads a masternode with 25 peers
	$(CARGO) build --release -p tenon-bench -p tenon-bench-network
	benches/run.py --soak $(or $(SECONDS),3600) $(ARGS)

# Checks every figure against its limit. `make test` runs a short form that only counts answers.
modules-bench: setup ## run 1,000 life-cycle operations and 1,000 replacements under full load, and check every answer; ARGS="--seed N" repeats a run
	$(CARGO) build --release -p tenon-node $(PLUGIN_CRATES) -p tenon-example-hello -p tenon-test-counter \
	    -p tenon-test-misbehaving -p tenon-modules-bench
	@scripts/list-plugins.sh $(TARGET_DIR)/release
	$(TARGET_DIR)/release/tenon-modules-bench --timed --tenon $(TARGET_DIR)/release/tenon \
	    --libraries $(TARGET_DIR)/release $(ARGS)
	$(CARGO) bench -p tenon-modules --bench plugin_hop --bench process_hop

lint: setup ## run clippy with warnings as errors, and the checks of unsafe code, citations of docs/spec, chain families, JSON dependencies, overflow checks and mutants
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	scripts/check-unsafe.sh
	scripts/check-citations.py
	scripts/check-family.py
	scripts/check-json.py
	scripts/check-overflow.py
	tests/mutants/run.py --check
	@$(CARGO) tree --locked --manifest-path fuzz/Cargo.toml >/dev/null || { echo "fuzz/Cargo.lock is out of date: run scripts/fuzz.sh lock"; exit 1; }

format: ## format the code
	$(CARGO) fmt --all

# `--examples` enables the features of development dependencies, as `make lint` does, so that dependencies are checked once.
docs: setup ## build the API documentation with warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --lib --bins --examples

deny: setup ## check licences, sources and advisories of the dependencies
	scripts/deny.sh

setup: ## install what is missing for a build
	@scripts/setup.sh build

clean: ## remove dist/ and the build caches
	rm -rf dist $(CACHE)/target
