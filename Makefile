# orderd: every way to build and check it. `make` lists them.
.DEFAULT_GOAL := help
GO ?= go
PACKAGES = ./... github.com/kubemq-io/kubemq-go/v2/... github.com/kubemq-io/protobuf/...
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help build run test race full vet vuln generate docs docker
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## bin/orderd, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/orderd .

run: ## start everything, data in ./data
	$(GO) run .

test: ## what the README says: all tests, needs only Go
	$(GO) test $(PACKAGES)

race: ## the same with the race detector
	$(GO) test -race -timeout 20m $(PACKAGES)

full: ## the same with the sizes as the issues state them; takes long
	ORDERD_TEST_SIZE=full $(GO) test -count=1 -timeout 120m $(PACKAGES)

vet: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) vet $(PACKAGES)
	$(GO) run $(STATICCHECK) $(PACKAGES)

vuln: ## known vulnerabilities in what we use
	$(GO) run $(GOVULNCHECK) ./...

generate: ## the wire contract's Go code, from the .proto files
	cd sdk/protobuf && $(GO) generate ./...
	$(GO) generate ./broker/...

docs: ## the tables in docs/ that are made from the code
	ORDERD_UPDATE_DOCS=1 $(GO) test -count=1 ./config ./api .

docker: ## the image orderd
	docker build -t orderd .
