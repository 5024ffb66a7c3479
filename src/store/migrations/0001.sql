-- The index, version 1. It holds nothing that the folders of runs do not hold (see base/folders.rs).
--
-- A number that may not be finite stands in an ANY column: a REAL, or one of the words 'nan', 'inf' and '-inf'.
-- Times are in ms since the Unix epoch. Columns that hold JSON say so.

-- One row per folder of a run.
CREATE TABLE runs (
    run      INTEGER PRIMARY KEY,              -- the short number by which the other tables know it
    id       TEXT    NOT NULL UNIQUE,          -- 64 hex digits
    created  INTEGER NOT NULL,
    config   TEXT    NOT NULL,                 -- the resolved config, as JSON
    journal  INTEGER NOT NULL DEFAULT 0,       -- bytes of journal.jsonl taken in

    -- What a list of runs shows, kept here so that it reads no metric. Follows from the tables below.
    attempts          INTEGER NOT NULL DEFAULT 0,
    last_attempt      INTEGER,                 -- the number of the latest
    ready_attempt     INTEGER,                 -- the number of the latest that got ready
    step              INTEGER NOT NULL DEFAULT 0,
    best_step         INTEGER,
    best_val_loss     REAL,                    -- the lowest finite one
    last_val_loss     ANY,
    tokens_per_second REAL                     -- NULL while the latest attempt goes on
) STRICT;

-- The leaves of each config, to ask questions of.
CREATE TABLE leaves (
    run   INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    path  TEXT    NOT NULL,                    -- train.lr
    value ANY,                                 -- a bool is 0 or 1, an unset leaf NULL
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- One row per attempt at a run.
CREATE TABLE attempts (
    run       INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    attempt   INTEGER NOT NULL,
    events    INTEGER NOT NULL DEFAULT 0,      -- bytes of events.jsonl taken in
    started   TEXT,                            -- who and where, as JSON
    ready     TEXT,                            -- what it found, as JSON
    from_step INTEGER,                         -- the step it continues from; what earlier attempts did beyond it is void
    ended     INTEGER,
    outcome   TEXT,                            -- how it ended, as JSON; NULL where it did not say
    gave_up   TEXT,                            -- why nobody tried again after it died without a word
    PRIMARY KEY (run, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric_names (
    name INTEGER PRIMARY KEY,
    text TEXT    NOT NULL UNIQUE               -- train/loss
) STRICT;

-- One value per step of a metric, whatever number of attempts passed that step. In the order that curves are read in.
CREATE TABLE metrics (
    run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    name    INTEGER NOT NULL REFERENCES metric_names,
    step    INTEGER NOT NULL,
    attempt INTEGER NOT NULL,                  -- the one that it comes from
    value   ANY     NOT NULL,
    PRIMARY KEY (run, name, step)
) STRICT, WITHOUT ROWID;

-- The metrics under their names.
CREATE VIEW points AS
SELECT metrics.run, metric_names.text AS name, metrics.step, metrics.attempt, metrics.value
FROM metric_names
JOIN metrics ON metrics.name = metric_names.name;

-- What attempts warned of.
CREATE TABLE warnings (
    run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    offset  INTEGER NOT NULL,                  -- where the line starts in events.jsonl
    message TEXT    NOT NULL,
    PRIMARY KEY (run, attempt, offset)
) STRICT, WITHOUT ROWID;

-- The files of the checkpoints that are kept.
CREATE TABLE artifacts (
    run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    path   TEXT    NOT NULL,                   -- relative to the run's folder
    kind   TEXT    NOT NULL,
    step   INTEGER,
    bytes  INTEGER NOT NULL,
    blake3 TEXT    NOT NULL,
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- One row per folder of an experiment.
CREATE TABLE experiments (
    experiment INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    journal    INTEGER NOT NULL DEFAULT 0,     -- bytes of journal.jsonl taken in
    at         INTEGER,                        -- when its spec was last run; NULL before a readable line
    axes       TEXT                            -- the paths of the swept leaves, as JSON
) STRICT;

-- The runs of the last spec run under an experiment's name, in the grid's order.
CREATE TABLE members (
    experiment INTEGER NOT NULL REFERENCES experiments ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    id         TEXT    NOT NULL,               -- of a run, whose folder may be gone
    PRIMARY KEY (experiment, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX members_by_id ON members (id);

-- What could not be read of the folders.
CREATE TABLE damage (
    file   TEXT    NOT NULL,                   -- relative to the root
    offset INTEGER NOT NULL,                   -- of the line
    why    TEXT    NOT NULL,
    PRIMARY KEY (file, offset)
) STRICT, WITHOUT ROWID;
