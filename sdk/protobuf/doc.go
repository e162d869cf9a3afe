// Package protobuf holds the wire contract of KubeMQ, kubemq.proto, and checks
// it. The Go code made of it is in folder go, import path
// github.com/kubemq-io/protobuf/go, package kubemq.
//
// The contract is what a KubeMQ server of release 2.4 and its public clients
// say to each other: the messages, field numbers and calls were measured on a
// live server. It covers the fourteen calls of release v1.5.0 of the public
// stubs, whose import path this module takes, so that a program compiles
// against either. QueuesInfo, which servers offer but those stubs lack, is not
// in it.
//
// go generate makes the Go code again, with pinned tools and no protoc.
package protobuf
