-- The index, version 6: runs that pause since they fell behind the others of their sweep.

ALTER TABLE runs ADD COLUMN paused TEXT;             -- how it stood; NULL where it never was
ALTER TABLE runs ADD COLUMN paused_step INTEGER;     -- what it goes on from
ALTER TABLE runs ADD COLUMN paused_attempt INTEGER;  -- its last attempt then: a later one lifts it

-- A version that knew no pauses may have passed over some: journals are read again.
UPDATE runs SET journal = 0;

DROP VIEW run;
CREATE VIEW run AS
SELECT runs.id,
       (SELECT name FROM members JOIN experiments USING (experiment) WHERE members.id = runs.id ORDER BY at DESC LIMIT 1)
           AS experiment,
       last.outcome ->> 'outcome' AS outcome,          -- done, failed, interrupted; NULL while it runs, and if it was killed
       last.outcome ->> 'why'     AS why,
       skipped,
       iif(paused_attempt >= last_attempt, paused, NULL) AS paused,
       step, best_step, best_val_loss, last_val_loss, tokens_per_second,
       ready.ready ->> 'params'          AS params,
       ready.ready ->> 'vocab_size'      AS vocab_size,
       ready.ready ->> 'chars_per_token' AS chars_per_token,
       ready.ready ->> 'flops_per_token' AS flops_per_token,
       attempts, created, config
FROM runs
LEFT JOIN attempts AS last  ON last.run  = runs.run AND last.attempt  = last_attempt
LEFT JOIN attempts AS ready ON ready.run = runs.run AND ready.attempt = ready_attempt;
