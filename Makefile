.DEFAULT_GOAL := help
.PHONY: help demo test race stress bench pictures browser micro fuzz chaos checks mutations fmt lint check vulncheck notes release-check version

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Every package of the workspace. chaos, bench and checks, which break things, measure them, and test
# the repository itself, are modules outside of it.
PACKAGES := work

demo: ## Greet a few hundred people around the world, in this terminal
	go run ./examples/birthdayd -demo

test: ## Run every test against a real PostgreSQL
	go test $(PACKAGES)

race: ## Run every test under the race detector, the long ones too
	go test -race -tags long -timeout 30m $(PACKAGES)

PKG ?= .

stress: ## Find tests that fail by chance; PKG=./httpapi, COUNT=100, FLAGS=-test.run=TestX
	.ci/stress $(PKG) $(FLAGS)

bench: ## Measure Almanac beside its peers; bench/README.md says what and how
	cd bench && GOWORK=off go run .

pictures: ## Draw docs/pictures from what the last make bench measured, and from the dashboard
	cd bench && GOWORK=off go run . -from bench.json -pictures ../docs/pictures
	cd checks/browsertest && $(BROWSER) go test -count=1 -run TestPictures . -pictures ../../docs/pictures/dashboard

AXE := 4.14.1
BROWSER = dir=$$(mktemp -d) && npm pack --silent --pack-destination $$dir axe-core@$(AXE) >/dev/null && \
	tar -xzf $$dir/axe-core-$(AXE).tgz -C $$dir && ALMANAC_TEST_AXE=$$dir/package/axe.min.js GOWORK=off

OPEN ?= 0s

browser: ## Test the dashboard in Chromium; OPEN=10m leaves a page open for that long
	cd checks/browsertest && $(BROWSER) go test -count=1 -parallel 3 -timeout 25m . -open $(OPEN)

checks: ## Test the repository itself: its rules, documents, files of deployment, and exports
	cd checks && GOWORK=off go test -count=1 $$(cd checks && GOWORK=off go list ./... | grep -v browsertest)

micro: ## Run the micro-benchmarks with allocation counts
	go test -run '^$$' -bench . -benchmem . ./calendar ./internal/...

FUZZTIME ?= 60s

# Minimizing what is only interesting, for a minute each, would take the time that
# is for finding something.
fuzz: ## Run each fuzz target of each module; FUZZTIME=10s for less than a minute
	@set -e; export GOWORK=off; for module in . chaos bench; do \
		cd $(CURDIR)/$$module; \
		for package in $$(go list ./...); do \
			targets=$$(go test -list '^Fuzz' $$package); \
			for target in $$(echo "$$targets" | grep '^Fuzz'); do \
				echo "$$package $$target"; \
				go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$package; \
			done; \
		done; \
	done

SEEDS ?= 1

chaos: ## Break everything on purpose and check every promise; SEEDS=20 for more
	cd chaos && GOWORK=off go test -count=1 -v -timeout 60m . -seeds $(SEEDS)

RUN ?= .

mutations: ## Remove one safeguard after another, and see its test fail; RUN=claim for some of them
	cd checks && GOWORK=off go test -timeout 0 -v ./mutations -mutate -run 'TestEachMutation/$(RUN)'

fmt: ## Format the code
	gofmt -w .

lint: ## Run the checks that need no database
	test -z "$$(gofmt -l .)"
	go vet -tags long $(PACKAGES)
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags long $(PACKAGES)

# Without the workspace, as for a program that requires the module.
vulncheck: ## Look for known vulnerabilities in what each module calls
	@set -e; for module in $$(git ls-files '*go.mod' | xargs -n 1 dirname); do \
		echo "$$module"; \
		(cd $$module && GOWORK=off go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...); \
	done

check: lint race ## Run lint and race; CI runs .ci/run, which does more

notes: ## Print the notes of a release from the changelog; V=v0.2.0
	@awk -v heading='## [$(V:v%=%)]' 'index($$0, "## ") == 1 { on = index($$0, heading) == 1; next } on { print; found = 1 } \
		END { if (!found) { print "CHANGELOG.md has no section for $(V)" >"/dev/stderr"; exit 1 } }' CHANGELOG.md

# Not in .ci/run: goreleaser takes longer to build than all other checks together.
release-check: ## Check the configuration of goreleaser
	cd cmd && GOWORK=off go run github.com/goreleaser/goreleaser/v2@v2.14.0 check -f ../.goreleaser.yaml

version: ## Set the version that our modules require of each other; V=v0.2.0
	@echo '$(V)' | grep -Eqx 'v[0-9]+\.[0-9]+\.[0-9]+' || { echo 'say which: make version V=v0.2.0'; exit 1; }
	find . -name go.mod | xargs sed -i -E 's#^(\s+github.com/almanac-go/almanac(/\S+)? )v\S+#\1$(V)#'
