// Package notify is about status events: the publisher puts them on KubeMQ, the
// hub hands them to live listeners of this process, and three subscribers act
// on them: email, push and analytics.
//
// # Life
//
// Each part has a Run method that blocks until its context ends, drains, and
// returns nil. A store or broker that is away is waited for.
//
// # Promises
//
// The event log in the store is the truth. The publisher numbers it without
// gaps and publishes in that order; numbering does not wait for the broker. A
// subscriber handles each event once, in one transaction with what it leads to.
// KubeMQ only rings the bell: what was not heard is found in the log two
// seconds later. Mails and pushes of one order leave one at a time and in order,
// across processes.
//
// # Not promised
//
// A mail or push whose sender died in the middle goes out a second time, with
// the same Message-ID or Idempotency-Key. Status events that other programs
// publish are acted on at most once and are not in the log: analytics leaves
// them out.
package notify
