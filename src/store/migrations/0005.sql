-- The index, version 5: files that runs use, and files of reports.

-- The files that runs use and did not make. Each is kept once, however many runs use it.
CREATE TABLE used (
    run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    path   TEXT    NOT NULL,                   -- relative to the root; whole where it lies elsewhere
    kind   TEXT    NOT NULL,                   -- corpus, tokenizer, weights
    bytes  INTEGER NOT NULL,
    blake3 TEXT    NOT NULL,
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- One row per folder under reports/ that has a manifest.
CREATE TABLE reports (
    experiment TEXT PRIMARY KEY,
    stamp      TEXT NOT NULL,                  -- time and size of the manifest that was taken in
    files      TEXT NOT NULL                   -- what it names, as JSON
) STRICT, WITHOUT ROWID;

UPDATE artifacts SET kind = 'import'
WHERE kind = 'checkpoint' AND run IN (SELECT run FROM attempts WHERE ready ->> 'engine' = 'import');

-- Every file with its kind: checkpoint, import, sample; corpus, tokenizer, weights; report. Paths are relative to the root.
DROP VIEW artifact;
CREATE VIEW artifact AS
SELECT runs.id AS run, artifacts.kind, artifacts.step, 'runs/' || substr(runs.id, 1, 16) || '/' || artifacts.path AS path,
       artifacts.bytes, artifacts.blake3, NULL AS experiment
FROM artifacts JOIN runs USING (run)
UNION ALL
SELECT runs.id, used.kind, NULL, used.path, used.bytes, used.blake3, NULL
FROM used JOIN runs USING (run)
UNION ALL
SELECT NULL, 'report', NULL, 'reports/' || reports.experiment || '/' || (file.value ->> 'name'),
       file.value ->> 'bytes', file.value ->> 'blake3', reports.experiment
FROM reports, json_each(reports.files) AS file;
