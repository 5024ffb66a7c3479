-- The index, version 3: views for people's own questions (`exp sql`). What they are called and have stays; the tables
-- below them may change.

CREATE VIEW run AS
SELECT runs.id,
       (SELECT name FROM members JOIN experiments USING (experiment) WHERE members.id = runs.id ORDER BY at DESC LIMIT 1)
           AS experiment,
       last.outcome ->> 'outcome' AS outcome,          -- done, failed, interrupted; NULL while it runs, and if it was killed
       last.outcome ->> 'why'     AS why,
       skipped,
       step, best_step, best_val_loss, last_val_loss, tokens_per_second,
       ready.ready ->> 'params'          AS params,
       ready.ready ->> 'vocab_size'      AS vocab_size,
       ready.ready ->> 'chars_per_token' AS chars_per_token,
       ready.ready ->> 'flops_per_token' AS flops_per_token,
       attempts, created, config
FROM runs
LEFT JOIN attempts AS last  ON last.run  = runs.run AND last.attempt  = last_attempt
LEFT JOIN attempts AS ready ON ready.run = runs.run AND ready.attempt = ready_attempt;

CREATE VIEW setting AS
SELECT runs.id AS run, leaves.path AS name, leaves.value
FROM leaves JOIN runs USING (run);

CREATE VIEW metric AS
SELECT runs.id AS run, metric_names.text AS name, metrics.step, metrics.value, metrics.attempt
FROM metrics JOIN runs USING (run) JOIN metric_names ON metric_names.name = metrics.name;

CREATE VIEW attempt AS
SELECT runs.id AS run, attempt,
       started ->> 'at' AS started, ended,
       attempts.outcome ->> 'outcome' AS outcome,
       started ->> 'host' AS host, started ->> 'device' AS device, started ->> 'threads' AS threads,
       started ->> 'version' AS version,
       ready ->> 'engine' AS engine, ready ->> 'simd' AS simd, ready ->> 'processor' AS processor,
       ready ->> 'corpus_hash' AS corpus_hash, from_step
FROM attempts JOIN runs USING (run);

CREATE VIEW member AS
SELECT experiments.name AS experiment, members.position, members.id AS run
FROM members JOIN experiments USING (experiment);

CREATE VIEW artifact AS
SELECT runs.id AS run, artifacts.kind, artifacts.step, artifacts.path, artifacts.bytes, artifacts.blake3
FROM artifacts JOIN runs USING (run);
