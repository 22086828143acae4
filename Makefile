.DEFAULT_GOAL := help
.PHONY: help demo test race bench micro fuzz chaos fmt lint check

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Greet a few hundred people around the world, in this terminal
	go run ./examples/birthdayd -demo

test: ## Run every test against a real PostgreSQL
	go test ./...

race: ## Run every test under the race detector
	go test -race ./...

bench: ## Measure Almanac beside its peers; bench/README.md says what and how
	cd bench && go run .

micro: ## Run the micro-benchmarks with allocation counts
	go test -run '^$$' -bench . -benchmem . ./internal/...

fuzz: ## Run each fuzz target for a minute
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime 1m $$package || exit 1; \
		done; \
	done

SEEDS ?= 1

chaos: ## Break everything on purpose and check every promise; SEEDS=20 for more
	cd chaos && go test -count=1 -v -timeout 60m . -seeds $(SEEDS)

fmt: ## Format the code
	gofmt -w .

lint: ## Run the checks that need no database
	test -z "$$(gofmt -l .)"
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

check: lint race ## Run what CI runs, without the container
