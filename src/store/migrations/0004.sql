-- The index, version 4: tags, which people give to runs.

CREATE TABLE tags (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    tag TEXT    NOT NULL,
    PRIMARY KEY (run, tag)
) STRICT, WITHOUT ROWID;

CREATE VIEW tag AS
SELECT runs.id AS run, tags.tag
FROM tags JOIN runs USING (run);

-- A version that knew no tags may have passed over some: journals are read again.
UPDATE runs SET journal = 0;
