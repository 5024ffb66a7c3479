-- The index, version 2: runs that are left out on purpose.

ALTER TABLE runs ADD COLUMN skipped TEXT;            -- why; NULL where it never was
ALTER TABLE runs ADD COLUMN skipped_attempt INTEGER; -- its last attempt then, 0 where there was none: a later one lifts it
