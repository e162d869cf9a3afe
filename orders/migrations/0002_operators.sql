-- What people do with dead letters. One text for SQLite and PostgreSQL.

-- +goose Up

-- The audit's rows get ids, so that they can be paged. Both databases number
-- the old rows only into a new table.
CREATE TABLE audit_log (
    id     TEXT   NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL,
    actor  TEXT   NOT NULL,
    action TEXT   NOT NULL,
    target TEXT   NOT NULL,
    detail TEXT   NOT NULL
);
INSERT INTO audit_log (id, at, actor, action, target, detail)
    SELECT '0-' || CAST(ROW_NUMBER() OVER (ORDER BY at) AS TEXT), at, actor, action, target, detail FROM audit;
DROP TABLE audit;
ALTER TABLE audit_log RENAME TO audit;
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_target ON audit (target, at, id);

ALTER TABLE dead_letters ADD COLUMN done_at BIGINT NOT NULL DEFAULT 0; -- redriven or discarded
CREATE INDEX dead_letters_raw ON dead_letters (done_at) WHERE round = 0 AND status = 'discarded';

-- What orders were before a person edited them: messages of that text may
-- still be on their way.
CREATE TABLE order_edits (
    order_id TEXT   NOT NULL,
    hash     BYTEA  NOT NULL,
    body     BYTEA  NOT NULL,
    at       BIGINT NOT NULL,
    actor    TEXT   NOT NULL,
    PRIMARY KEY (order_id, hash)
);

-- Redrives of many dead letters. failed_at and letter say how far one is.
CREATE TABLE redrives (
    id         TEXT   NOT NULL PRIMARY KEY,
    status     TEXT   NOT NULL, -- running, done or cancelled
    actor      TEXT   NOT NULL,
    class      TEXT   NOT NULL,
    customer   TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    before_at  BIGINT NOT NULL,
    after_at   BIGINT NOT NULL,
    force      BIGINT NOT NULL, -- 1: past the most redrives too
    rate       TEXT   NOT NULL, -- as 20/s
    matched    BIGINT NOT NULL, -- when it began
    redriven   BIGINT NOT NULL,
    refused    BIGINT NOT NULL,
    failed_at  BIGINT NOT NULL,
    letter     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    due_us     BIGINT NOT NULL, -- of the next dead letter, in microseconds
    done_at    BIGINT NOT NULL
);
CREATE INDEX redrives_created ON redrives (created_at, id);
CREATE INDEX redrives_running ON redrives (due_us) WHERE status = 'running';

CREATE INDEX voids_done ON voids (due_at) WHERE status = 'done';

-- Sums that no table can be asked for.
CREATE TABLE counters (
    name TEXT   NOT NULL PRIMARY KEY,
    n    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE counters;
DROP INDEX voids_done;
DROP TABLE redrives;
DROP TABLE order_edits;
DROP INDEX dead_letters_raw;
ALTER TABLE dead_letters DROP COLUMN done_at;
CREATE TABLE audit_old (
    at     BIGINT NOT NULL,
    actor  TEXT   NOT NULL,
    action TEXT   NOT NULL,
    target TEXT   NOT NULL,
    detail TEXT   NOT NULL
);
INSERT INTO audit_old (at, actor, action, target, detail) SELECT at, actor, action, target, detail FROM audit;
DROP TABLE audit;
ALTER TABLE audit_old RENAME TO audit;
CREATE INDEX audit_at ON audit (at);
