# The whole installation: docker build -t orderd . && docker run -p 8080:8080 orderd
FROM golang:1.26 AS build
WORKDIR /src
# Modules first: a change of code does not fetch them again.
COPY go.mod go.sum ./
COPY sdk/kubemq-go/go.mod sdk/kubemq-go/go.sum sdk/kubemq-go/
COPY sdk/protobuf/go.mod sdk/protobuf/go.sum sdk/protobuf/
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/orderd . \
 && mkdir -p /out/data

FROM scratch
# Payment, push and mail servers are reached over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/orderd /orderd
# Numbers, since scratch has no /etc/passwd; 65532 is what "nonroot" is elsewhere.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV DATA_DIR=/data
VOLUME /data
EXPOSE 8080 50000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/orderd", "-healthcheck"]
ENTRYPOINT ["/orderd"]
