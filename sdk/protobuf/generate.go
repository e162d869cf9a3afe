package protobuf

//go:generate go -C generate run . -proto ../kubemq.proto -out ../go
