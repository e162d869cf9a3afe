// Package workers carries orders out: the relay puts accepted orders on the
// queue, the pool takes them off and runs their steps (payment, inventory,
// confirmation), the keeper takes in dead letters, the sweeper looks after what
// time does to orders.
//
// # Life
//
// Each part has a Run method that blocks until its context ends, drains, and
// returns nil. A store or broker that is away is waited for, never a reason to
// return.
//
// # Promises
//
// No step runs without a committed claim, and every outcome names the claim's
// token: a worker that lost its lease changes nothing. A message is acked once
// its outcome is committed, each by itself. A step that fails for the moment is
// tried again with exponential backoff and full jitter; one that fails for good
// ends in a dead letter. What a shutdown cuts off is returned and counts as
// nothing.
//
// # Not promised
//
// A step may run twice for one order, when a worker died in it. The payment
// gateway recognises the repetition by its idempotency key; all else happens in
// one transaction with the confirmation.
package workers
