-- One text for SQLite and PostgreSQL. Times are Unix milliseconds, 0 means none;
-- amounts are minor units; empty text means none.

-- +goose Up
CREATE TABLE orders (
    id              TEXT   NOT NULL PRIMARY KEY,
    customer        TEXT   NOT NULL,
    items           BIGINT NOT NULL,
    amount          BIGINT NOT NULL,
    currency        TEXT   NOT NULL,
    lines           TEXT   NOT NULL, -- JSON, empty if the order has none
    language        TEXT   NOT NULL,
    hash            BYTEA  NOT NULL,
    created_at      BIGINT NOT NULL,
    accepted_at     BIGINT NOT NULL,
    status          TEXT   NOT NULL,
    updated_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    round           BIGINT NOT NULL,
    attempts        BIGINT NOT NULL,
    deaths          BIGINT NOT NULL,
    events          BIGINT NOT NULL, -- rows in events
    owner           BIGINT NOT NULL, -- process that works on it, 0 if none
    token           BIGINT NOT NULL, -- fencing token: one more for each claim
    step            TEXT   NOT NULL, -- begun by the claim
    claimed_at      BIGINT NOT NULL,
    payment         TEXT   NOT NULL,
    payment_n       BIGINT NOT NULL,
    payment_fresh   BIGINT NOT NULL, -- 1: the key in use was never sent before this claim
    dispatch        BIGINT NOT NULL, -- 0 nothing to send, 1 to ORDERS_CHANNEL, 2 to RETRY_CHANNEL
    due_at          BIGINT NOT NULL, -- of the dispatch
    relay           BIGINT NOT NULL, -- process that sends it
    sent_at         BIGINT NOT NULL,
    resends         BIGINT NOT NULL,
    waiting_since   BIGINT NOT NULL, -- for stock
    stock           TEXT   NOT NULL, -- JSON: what confirming took, to be given back
    cancel_at       BIGINT NOT NULL,
    cancel_by       TEXT   NOT NULL,
    cancel_reason   TEXT   NOT NULL,
    carrier         TEXT   NOT NULL,
    tracking        TEXT   NOT NULL
);
CREATE INDEX orders_accepted ON orders (accepted_at, id);
CREATE INDEX orders_customer ON orders (customer, accepted_at, id);
CREATE INDEX orders_status ON orders (status, accepted_at, id);
CREATE INDEX orders_open ON orders (expires_at) WHERE status IN ('created', 'processing');
CREATE INDEX orders_dispatch ON orders (relay, due_at) WHERE dispatch <> 0;
CREATE INDEX orders_owner ON orders (owner) WHERE owner <> 0;

-- History, outbox and log at once.
CREATE TABLE events (
    order_id    TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    number      BIGINT,          -- NULL until numbered
    status      TEXT   NOT NULL,
    customer    TEXT   NOT NULL,
    amount      BIGINT NOT NULL,
    currency    TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    numbered_at BIGINT NOT NULL,
    actor       TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    round       BIGINT NOT NULL,
    runs        TEXT   NOT NULL, -- JSON: the steps that led here, empty if none
    PRIMARY KEY (order_id, seq)
);
CREATE UNIQUE INDEX events_number ON events (number);
CREATE INDEX events_unnumbered ON events (at, order_id, seq) WHERE number IS NULL;

-- Steps of claims that did not end in a change of status.
CREATE TABLE runs (
    order_id TEXT   NOT NULL,
    token    BIGINT NOT NULL,
    runs     TEXT   NOT NULL, -- JSON
    PRIMARY KEY (order_id, token)
);

CREATE TABLE dead_letters (
    id        TEXT   NOT NULL PRIMARY KEY,
    order_id  TEXT   NOT NULL,
    round     BIGINT NOT NULL,
    status    TEXT   NOT NULL,
    reason    TEXT   NOT NULL,
    class     TEXT   NOT NULL,
    step      TEXT   NOT NULL,
    failed_at BIGINT NOT NULL,
    customer  TEXT   NOT NULL,
    raw       BYTEA,
    note      TEXT   NOT NULL, -- why it was discarded
    copy      BIGINT NOT NULL, -- 1: a copy has to be put on DLQ_CHANNEL
    relay     BIGINT NOT NULL
);
CREATE UNIQUE INDEX dead_letters_order ON dead_letters (order_id, round) WHERE round > 0;
CREATE INDEX dead_letters_status ON dead_letters (status, failed_at, id);
CREATE INDEX dead_letters_failed ON dead_letters (failed_at, id);
CREATE INDEX dead_letters_copy ON dead_letters (relay) WHERE copy <> 0;

CREATE TABLE inventory (
    sku        TEXT   NOT NULL PRIMARY KEY,
    on_hand    BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE idempotency (
    idempotency_key TEXT   NOT NULL PRIMARY KEY,
    hash            BYTEA  NOT NULL,
    order_id        TEXT   NOT NULL,
    body            BYTEA  NOT NULL,
    at              BIGINT NOT NULL
);
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE processes (
    id          BIGINT NOT NULL PRIMARY KEY,
    instance    TEXT   NOT NULL,
    lease_until BIGINT NOT NULL
);

CREATE TABLE leases (
    name    TEXT   NOT NULL PRIMARY KEY,
    process BIGINT NOT NULL,
    until   BIGINT NOT NULL
);

CREATE TABLE positions (
    name   TEXT   NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL
);

-- One row for each event a subscriber handled; also the mail or push it led to.
CREATE TABLE deliveries (
    subscriber TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    order_id   TEXT   NOT NULL,
    seq        BIGINT NOT NULL,
    status     TEXT   NOT NULL,
    addressee  TEXT   NOT NULL,
    answer     TEXT   NOT NULL,
    tries      BIGINT NOT NULL,
    owner      BIGINT NOT NULL,
    token      BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    done_at    BIGINT NOT NULL,
    PRIMARY KEY (subscriber, number)
);
CREATE INDEX deliveries_due ON deliveries (subscriber, due_at) WHERE status IN ('pending', 'sending');
CREATE INDEX deliveries_order ON deliveries (order_id, subscriber, seq);

CREATE TABLE stats (
    minute   BIGINT NOT NULL,
    status   TEXT   NOT NULL,
    currency TEXT   NOT NULL,
    orders   BIGINT NOT NULL,
    redrives BIGINT NOT NULL,
    amount   BIGINT NOT NULL,
    PRIMARY KEY (minute, status, currency)
);

CREATE TABLE voids (
    payment_key TEXT   NOT NULL PRIMARY KEY,
    order_id    TEXT   NOT NULL,
    status      TEXT   NOT NULL, -- due or done
    tries       BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    owner       BIGINT NOT NULL,
    note        TEXT   NOT NULL
);
CREATE INDEX voids_due ON voids (due_at) WHERE status = 'due';

-- What people did. Rows are only added.
CREATE TABLE audit (
    at     BIGINT NOT NULL,
    actor  TEXT   NOT NULL,
    action TEXT   NOT NULL,
    target TEXT   NOT NULL,
    detail TEXT   NOT NULL
);
CREATE INDEX audit_at ON audit (at);

-- +goose Down
DROP TABLE audit;
DROP TABLE voids;
DROP TABLE stats;
DROP TABLE deliveries;
DROP TABLE positions;
DROP TABLE leases;
DROP TABLE processes;
DROP TABLE idempotency;
DROP TABLE inventory;
DROP TABLE dead_letters;
DROP TABLE runs;
DROP TABLE events;
DROP TABLE orders;
