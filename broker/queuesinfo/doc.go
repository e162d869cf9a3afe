// Package queuesinfo has the messages of the call QueuesInfo, generated. It has
// no life of its own; package broker serves the call.
package queuesinfo

//go:generate go -C ../../sdk/protobuf/generate run . -proto ../../../broker/queuesinfo/queuesinfo.proto -out ../../../broker/queuesinfo
