GO ?= go

# Tools are run, not required: they stay out of go.mod. golangci-lint brings gofumpt v0.12 as its formatter.
GOLANGCI_LINT = $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

GOVULNCHECK = $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0
FUZZTIME ?= 30s

.PHONY: help deps test lint vuln fuzz demo sabotage bench build model proof torture reliability
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# The tests start private servers of their own. So deps wants the programs and no services: while packages are installed
# here, none may start, PostgreSQL makes no default cluster, and a Redis that came with them is not started at boot.
define DEPS
set -eu

lacking=
command -v redis-server >/dev/null || lacking="$$lacking redis-server"

postgres=
for dir in /usr/lib/postgresql/*/bin "$$(pg_config --bindir 2>/dev/null || true)" "$$(dirname "$$(command -v postgres || true)")"; do
	if [ -x "$$dir/postgres" ] && [ -x "$$dir/initdb" ]; then postgres=$$dir; fi
done
[ -n "$$postgres" ] || lacking="$$lacking postgresql"

command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || lacking="$$lacking pgbouncer"

# Clients without Go: curl, Python and Node as they come.
command -v curl >/dev/null || lacking="$$lacking curl"
command -v python3 >/dev/null || lacking="$$lacking python3"
command -v node >/dev/null || lacking="$$lacking nodejs"

# The browser in which the lab is tried.
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || lacking="$$lacking chromium"

# Packets that the kernel drops, for the fault machine; other systems go without.
[ "$$(uname -s)" != Linux ] || command -v nft >/dev/null || [ -x /usr/sbin/nft ] || lacking="$$lacking nftables"

# psycopg2 for the tables of one's own; psql comes with the server.
{ python3 -c 'import psycopg2' || /usr/bin/python3 -c 'import psycopg2'; } >/dev/null 2>&1 || lacking="$$lacking python3-psycopg2"

command -v ps >/dev/null || lacking="$$lacking procps"

# The race detector needs cgo. A compiler without the C library's headers is no use, so one small program is compiled.
set -- $$($(GO) env CC)
echo '#include <stdlib.h>' | "$$@" -x c -fsyntax-only - >/dev/null 2>&1 || lacking="$$lacking gcc libc6-dev"

# An outside lock service. Only its program is wanted, not a service and a user: see below.
etcd=
command -v etcd >/dev/null || etcd=etcd-server

if [ -z "$$lacking$$etcd" ]; then
	echo "deps: everything is there, nothing to do"
	exit 0
fi

root=
if [ "$$(id -u)" != 0 ]; then root="sudo -n"; fi
if ! command -v apt-get >/dev/null || ! $$root true 2>/dev/null; then
	echo "deps: not found:$$lacking $$etcd. Please run" >&2
	if command -v apt-get >/dev/null; then
		echo "  sudo apt-get install$$lacking $$etcd" >&2
	elif command -v dnf >/dev/null; then
		echo "  sudo dnf install redis postgresql-server pgbouncer python3-psycopg2 nodejs curl gcc chromium etcd" >&2
	elif command -v brew >/dev/null; then
		echo "  brew install redis postgresql@17 pgbouncer node etcd && brew install --cask chromium && brew link postgresql@17 && pip3 install psycopg2-binary   (and xcode-select --install for the compiler)" >&2
	else
		echo "  your package manager for: a Redis server, a PostgreSQL server, pgbouncer, Python 3 with psycopg2, Node, curl, Chromium, etcd, a C compiler" >&2
	fi
	exit 1
fi

policy=/usr/sbin/policy-rc.d
cluster=/etc/postgresql-common/createcluster.d/fencegate-deps.conf
ours=
cleanup() {
	$$root rm -f "$$cluster"
	if [ -n "$$ours" ]; then $$root rm -f "$$policy"; fi
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
if [ ! -e "$$policy" ]; then
	ours=yes
	printf '#!/bin/sh\nexit 101\n' | $$root tee "$$policy" >/dev/null
	$$root chmod 755 "$$policy"
fi
$$root mkdir -p "$${cluster%/*}"
echo 'create_main_cluster = false' | $$root tee "$$cluster" >/dev/null

apt="$$root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -o DPkg::Lock::Timeout=300"
$$apt update || echo "deps: apt-get update failed, trying with the lists that are there" >&2
if [ -n "$$lacking" ]; then $$apt install -y --no-install-recommends $$lacking </dev/null; fi
if [ -n "$$etcd" ]; then
	unpacked=$$(mktemp -d)
	chmod 777 "$$unpacked" # apt fetches as a user of its own
	(cd "$$unpacked" && $$apt download etcd-server && dpkg-deb -x etcd-server_*.deb .)
	$$root install -m 755 "$$unpacked/usr/bin/etcd" /usr/local/bin/etcd
	rm -rf "$$unpacked"
fi

case "$$lacking" in *redis-server*)
	if command -v systemctl >/dev/null; then $$root systemctl disable --quiet redis-server; fi
	if [ -d /run/systemd/system ]; then $$root systemctl stop redis-server; fi
esac
endef
export DEPS

deps: ## install what the tests need: Redis, PostgreSQL, pgbouncer, etcd, Python, Node, curl, Chromium, a C compiler
	@sh -c "$$DEPS"

test: ## run all tests with the race detector; a missing server fails them
	FENCEGATE_TEST_REQUIRE=1 $(GO) test -race -timeout 30m ./...
	cd internal/bench && $(GO) test -timeout 30m ./...
	cd internal/lab/browsertest && $(GO) test -timeout 30m ./...
	node --test internal/lab/pagetest/

lint: ## vet for three systems, check format and import directions
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GOLANGCI_LINT) run
	for dir in internal/bench internal/lab/browsertest; do (cd $$dir && $(GO) mod tidy -diff && $(GO) vet ./... && $(GOLANGCI_LINT) run) || exit 1; done
	@$(MAKE) --no-print-directory vuln

# Where the database cannot be reached nothing was checked: that is said, and fails if VULN_REQUIRE is set. VULNDB names
# another one, such as a file: URL of a copy.
vuln: ## look for known vulnerabilities in what the programs call
	@out=$$($(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1) && { echo "$$out"; exit 0; }; \
	echo "$$out" >&2; \
	case "$$out" in *"fetching vulnerabilities"*) \
		echo "vuln: NOT CHECKED: the database of vulnerabilities cannot be reached" >&2; [ -z "$(VULN_REQUIRE)" ];; \
	*) exit 1;; esac

fuzz: ## fuzz every parser for FUZZTIME each
	@set -e; $(GO) list ./... | while read -r pkg; do \
		for f in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null; \
		done; done

demo: ## watch a stale write being refused
	$(GO) run ./cmd/fencegate demo

build: ## compile the server and the fault machine into bin/
	$(GO) build -buildvcs=auto -o bin/ ./cmd/fencegate ./cmd/fencegate-torture

model: ## explore every schedule of the rule and of redlock, and check docs/models.md; LARGE=1 the large ones, too
	$(GO) test -count=1 ./internal/model $(if $(LARGE),-large -timeout 60m)

# An earlier build beside the new one: until there are releases, the commit before the fault machine. A checkout that
# does not have it goes without: that cell is void then.
OLD ?= 6afb280
RECORD ?= docs/reliability.jsonl
SEEDS ?= 10000

bin/old-$(OLD)/fencegate:
	@rm -rf bin/old-$(OLD) && mkdir -p bin/old-$(OLD)/tree
	-git archive $(OLD) | tar -x -C bin/old-$(OLD)/tree && cd bin/old-$(OLD)/tree && $(GO) build -buildvcs=false -o ../fencegate ./cmd/fencegate
	@rm -rf bin/old-$(OLD)/tree

# The servers' files are in memory where that can be: no fault here is a power failure, and a disk that is slow for
# everybody hides the faults that are made.
MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "TMPDIR=/dev/shm" }')

.PHONY: cells
cells: build | bin/old-$(OLD)/fencegate
	old=bin/old-$(OLD)/fencegate; [ -x $$old ] || old=; \
	$(MEMORY) FENCEGATE_TEST_REQUIRE=1 bin/fencegate-torture proof --server bin/fencegate --old-server "$$old" \
		--record $(RECORD) --reports bin/reports $(CELLS)

proof: model ## real faults, checked histories, planted bugs, simulation: the short form (25 minutes)
	$(GO) test -count=1 ./internal/sim -seeds $(SEEDS)
	@$(MAKE) --no-print-directory cells CELLS="--per-fault 2 --parallel 2"
	$(MEMORY) FENCEGATE_TEST_REQUIRE=1 $(GO) run ./internal/sabotage -only torture

torture: ## every fault on every lock and store, for DURATION each (30s): hours
	@$(MAKE) --no-print-directory cells CELLS="--duration $(or $(DURATION),30s)"

reliability: ## sum the recorded runs into docs/reliability.md, and check them against the goals
	$(GO) run ./cmd/fencegate-torture reliability --goals

sabotage: ## break the rule on purpose, and see a test fail each time; ONLY=storage runs one group
	$(GO) run ./internal/sabotage -only '$(ONLY)'

bench: ## measure against goals and peers; ONLY=locks runs one group
	cd internal/bench && $(GO) run . -only '$(ONLY)'
