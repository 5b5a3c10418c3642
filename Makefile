# The two commands are `make run` and `make test`; on a fresh machine they do all the set-up.

CARGO ?= cargo
# Engines that leak on purpose. The whole workspace is selected, so that dependencies have the
# features that they have in other builds, and are not built again.
CANARIES = --workspace --locked --features fogbank-sim/canaries
CANARY_TESTS = $(addprefix --test ,scenes canaries audit lives tao partition)
# Those of programs whose other tests have nothing to do with what leaks, by parts of their names.
LEAKS = leak a_nonce_by_place a_copy_that_is_served without_a_time_out
DATA ?= fogbank-data

.PHONY: run build test test-canaries test-long test-dynamodb check format lints audit departures bench fuzz sim setup setup-tests

run: setup ## build and serve a store on the local disk under $(DATA)
	@./scripts/check-port.sh $(ARGS)
	@[ -e target/release/fogbank ] || echo "The first build compiles some 200 crates: 5 to 20 minutes on two cores." >&2
	$(CARGO) build --release --locked --bin fogbank
	@command -v redis-cli >/dev/null || echo "To talk to it you need a Redis client, such as redis-cli: on Debian or Ubuntu, sudo apt-get install redis-tools" >&2
	exec ./target/release/fogbank serve --data $(DATA) $(ARGS)

build: setup ## both programs: fogbank, and fogbank-lab, which measures, tunes and audits for it
	$(CARGO) build --release --locked --bin fogbank --bin fogbank-lab

test: setup format ## everything CI runs
	MAKE="$(MAKE)" CARGO="$(CARGO)" ./scripts/test.sh

test-canaries: setup
	$(CARGO) test $(CANARIES) $(CANARY_TESTS) --no-fail-fast
	$(CARGO) test $(CANARIES) --test immediate --test site --no-fail-fast -- $(LEAKS)

test-long: test test-dynamodb ## what takes too long for every change; run before an issue is closed
	FOGBANK_SIM_SCALE=10 FOGBANK_FUZZ_SECONDS=120 FOGBANK_KILLS=200 FOGBANK_KILL_SECONDS=600 FOGBANK_PLUGS=50 \
		FOGBANK_RESP_COMMANDS=100000 FOGBANK_TEST_RECORDED=200000 $(CARGO) test --workspace --locked
	FOGBANK_SIM_SCALE=10 $(CARGO) test $(CANARIES) --test lives
	$(CARGO) test $(CANARIES) --lib --test partition --test immediate --test site -- --include-ignored exhaustive hierarchy multicloud thousand

# Building the library and running the server would lengthen `make test` by minutes. The server listens on
# all interfaces, so it runs where there is none but loopback: in a network namespace of its own.
test-dynamodb: setup-tests ## DynamoDB as a store, which is off by default: lints and tests
	./scripts/setup-dynamodb.sh
	$(CARGO) clippy -p fogbank-objects -p fogbank-cli --features dynamodb --all-targets --locked -- -D warnings
	$(CARGO) test -p fogbank-objects -p fogbank-cli --features dynamodb --lib --test tables --test clients --locked --no-run
	unshare --map-root-user --net sh -c 'ip link set lo up && \
		$(CARGO) test -p fogbank-objects --features dynamodb --lib --test tables --locked --offline && \
		$(CARGO) test -p fogbank-cli --features dynamodb --test clients --locked --offline -- table'

check: format lints ## format, lints, crate edges, columns

format: setup
	$(CARGO) fmt --check

lints: setup
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy $(CANARIES) $(CANARY_TESTS) $(addprefix --test ,batched checker fuzz immediate serializable site) \
		$(addprefix --example ,audit_speed crashes departures digests long_audit scene) -- -D warnings
	./scripts/check-edges.sh
	./scripts/check-columns.sh

audit: setup ## can any two workloads be told apart? 20 minutes, or ARGS="ACCESSES RUNS CRASHES" (too short: Error 3)
	$(CARGO) run --release --locked -p fogbank-sim --features canaries --example long_audit -- $(ARGS)

departures: setup setup-tests ## do clients move messages? BINARY=another build, ARGS="--windows 3 --only get,del"; half an hour, quiet
	$(CARGO) build --release --locked --bin fogbank
	$(CARGO) run --locked -p fogbank-sim --example departures -- $(or $(BINARY),target/release/fogbank) $(ARGS)

bench: setup ## the engine's figures on this machine
	./scripts/bench-engine.sh
	./scripts/bench-recovery.sh

fuzz: setup ## fuzz for FOGBANK_FUZZ_SECONDS (default 600) a target
	FOGBANK_FUZZ_SECONDS=$${FOGBANK_FUZZ_SECONDS:-600} $(CARGO) test -p fogbank-sim --release --test fuzz

sim: setup ## crash, tamper and overtake until Ctrl-C; FOGBANK_SIM_SEED=N plays one story again
	@$(CARGO) build --release --locked -p fogbank-sim --features canaries --example crashes
	@exec ./target/release/examples/crashes

setup:
	@./scripts/setup.sh

setup-tests: setup
	@./scripts/setup-tests.sh
