PRAGMA user_version = 1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
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
INSERT INTO runs VALUES(1,'71e0a99173564931c0b8acc52d2685a8e39c64dc52e3d02390fdac2a12b155cb',10,'{"model":{"layers":4,"heads":4,"kv_heads":4,"d_model":128,"context":64,"d_ff":512,"norm":"layernorm","position":"learned","mlp":"gelu","bias":true,"tie_embeddings":true,"dropout":0.0},"data":{"corpus":"playbook","path":null,"tokenizer":"char","val_fraction":0.1,"corpus_seed":1,"corpus_chars":1200000},"train":{"steps":500,"batch":12,"grad_accum":1,"lr":0.001,"min_lr":0.0001,"schedule":"cosine","warmup_steps":50,"decay_steps":500,"optimizer":"adamw","beta1":0.9,"beta2":0.99,"eps":1e-8,"weight_decay":0.1,"grad_clip":1.0,"seed":0,"dtype":"f32","on_nan":"stop"},"eval":{"every":100,"batches":20,"batch":12},"checkpoint":{"every":100,"keep_last":2,"keep_best":1},"run":{"device":"auto","engine":"auto","retries":1,"timeout":null,"init_from":null}}',0,2,2,2,3,3,3.25,3.25,1003.0);
INSERT INTO runs VALUES(2,'1a0d12016999e47689dae5744d2b8c1903faf7ca2886a658150083100ef2c8ee',1795971285165,'{"model":{"layers":4,"heads":4,"kv_heads":4,"d_model":128,"context":64,"d_ff":512,"norm":"layernorm","position":"learned","mlp":"gelu","bias":true,"tie_embeddings":true,"dropout":0.0},"data":{"corpus":"playbook","path":null,"tokenizer":"char","val_fraction":0.1,"corpus_seed":1,"corpus_chars":1200000},"train":{"steps":500,"batch":12,"grad_accum":1,"lr":0.001,"min_lr":0.0001,"schedule":"cosine","warmup_steps":50,"decay_steps":500,"optimizer":"adamw","beta1":0.9,"beta2":0.99,"eps":1e-8,"weight_decay":0.1,"grad_clip":1.0,"seed":1,"dtype":"f32","on_nan":"stop"},"eval":{"every":100,"batches":20,"batch":12},"checkpoint":{"every":100,"keep_last":2,"keep_best":1},"run":{"device":"auto","engine":"auto","retries":1,"timeout":null,"init_from":null}}',65,1,1,NULL,0,NULL,NULL,NULL,NULL);
CREATE TABLE leaves (
    run   INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    path  TEXT    NOT NULL,                    -- train.lr
    value ANY,                                 -- a bool is 0 or 1, an unset leaf NULL
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;
INSERT INTO leaves VALUES(1,'checkpoint.every',100);
INSERT INTO leaves VALUES(1,'checkpoint.keep_best',1);
INSERT INTO leaves VALUES(1,'checkpoint.keep_last',2);
INSERT INTO leaves VALUES(1,'data.corpus','playbook');
INSERT INTO leaves VALUES(1,'data.corpus_chars',1200000);
INSERT INTO leaves VALUES(1,'data.corpus_seed',1);
INSERT INTO leaves VALUES(1,'data.path',NULL);
INSERT INTO leaves VALUES(1,'data.tokenizer','char');
INSERT INTO leaves VALUES(1,'data.val_fraction',0.10000000000000000555);
INSERT INTO leaves VALUES(1,'eval.batch',12);
INSERT INTO leaves VALUES(1,'eval.batches',20);
INSERT INTO leaves VALUES(1,'eval.every',100);
INSERT INTO leaves VALUES(1,'model.bias',1);
INSERT INTO leaves VALUES(1,'model.context',64);
INSERT INTO leaves VALUES(1,'model.d_ff',512);
INSERT INTO leaves VALUES(1,'model.d_model',128);
INSERT INTO leaves VALUES(1,'model.dropout',0.0);
INSERT INTO leaves VALUES(1,'model.heads',4);
INSERT INTO leaves VALUES(1,'model.kv_heads',4);
INSERT INTO leaves VALUES(1,'model.layers',4);
INSERT INTO leaves VALUES(1,'model.mlp','gelu');
INSERT INTO leaves VALUES(1,'model.norm','layernorm');
INSERT INTO leaves VALUES(1,'model.position','learned');
INSERT INTO leaves VALUES(1,'model.tie_embeddings',1);
INSERT INTO leaves VALUES(1,'run.device','auto');
INSERT INTO leaves VALUES(1,'run.engine','auto');
INSERT INTO leaves VALUES(1,'run.init_from',NULL);
INSERT INTO leaves VALUES(1,'run.retries',1);
INSERT INTO leaves VALUES(1,'run.timeout',NULL);
INSERT INTO leaves VALUES(1,'train.batch',12);
INSERT INTO leaves VALUES(1,'train.beta1',0.9000000000000000222);
INSERT INTO leaves VALUES(1,'train.beta2',0.98999999999999999111);
INSERT INTO leaves VALUES(1,'train.decay_steps',500);
INSERT INTO leaves VALUES(1,'train.dtype','f32');
INSERT INTO leaves VALUES(1,'train.eps',1.0000000000000000209e-08);
INSERT INTO leaves VALUES(1,'train.grad_accum',1);
INSERT INTO leaves VALUES(1,'train.grad_clip',1.0);
INSERT INTO leaves VALUES(1,'train.lr',0.0010000000000000000208);
INSERT INTO leaves VALUES(1,'train.min_lr',0.00010000000000000000479);
INSERT INTO leaves VALUES(1,'train.on_nan','stop');
INSERT INTO leaves VALUES(1,'train.optimizer','adamw');
INSERT INTO leaves VALUES(1,'train.schedule','cosine');
INSERT INTO leaves VALUES(1,'train.seed',0);
INSERT INTO leaves VALUES(1,'train.steps',500);
INSERT INTO leaves VALUES(1,'train.warmup_steps',50);
INSERT INTO leaves VALUES(1,'train.weight_decay',0.10000000000000000555);
INSERT INTO leaves VALUES(2,'checkpoint.every',100);
INSERT INTO leaves VALUES(2,'checkpoint.keep_best',1);
INSERT INTO leaves VALUES(2,'checkpoint.keep_last',2);
INSERT INTO leaves VALUES(2,'data.corpus','playbook');
INSERT INTO leaves VALUES(2,'data.corpus_chars',1200000);
INSERT INTO leaves VALUES(2,'data.corpus_seed',1);
INSERT INTO leaves VALUES(2,'data.path',NULL);
INSERT INTO leaves VALUES(2,'data.tokenizer','char');
INSERT INTO leaves VALUES(2,'data.val_fraction',0.10000000000000000555);
INSERT INTO leaves VALUES(2,'eval.batch',12);
INSERT INTO leaves VALUES(2,'eval.batches',20);
INSERT INTO leaves VALUES(2,'eval.every',100);
INSERT INTO leaves VALUES(2,'model.bias',1);
INSERT INTO leaves VALUES(2,'model.context',64);
INSERT INTO leaves VALUES(2,'model.d_ff',512);
INSERT INTO leaves VALUES(2,'model.d_model',128);
INSERT INTO leaves VALUES(2,'model.dropout',0.0);
INSERT INTO leaves VALUES(2,'model.heads',4);
INSERT INTO leaves VALUES(2,'model.kv_heads',4);
INSERT INTO leaves VALUES(2,'model.layers',4);
INSERT INTO leaves VALUES(2,'model.mlp','gelu');
INSERT INTO leaves VALUES(2,'model.norm','layernorm');
INSERT INTO leaves VALUES(2,'model.position','learned');
INSERT INTO leaves VALUES(2,'model.tie_embeddings',1);
INSERT INTO leaves VALUES(2,'run.device','auto');
INSERT INTO leaves VALUES(2,'run.engine','auto');
INSERT INTO leaves VALUES(2,'run.init_from',NULL);
INSERT INTO leaves VALUES(2,'run.retries',1);
INSERT INTO leaves VALUES(2,'run.timeout',NULL);
INSERT INTO leaves VALUES(2,'train.batch',12);
INSERT INTO leaves VALUES(2,'train.beta1',0.9000000000000000222);
INSERT INTO leaves VALUES(2,'train.beta2',0.98999999999999999111);
INSERT INTO leaves VALUES(2,'train.decay_steps',500);
INSERT INTO leaves VALUES(2,'train.dtype','f32');
INSERT INTO leaves VALUES(2,'train.eps',1.0000000000000000209e-08);
INSERT INTO leaves VALUES(2,'train.grad_accum',1);
INSERT INTO leaves VALUES(2,'train.grad_clip',1.0);
INSERT INTO leaves VALUES(2,'train.lr',0.0010000000000000000208);
INSERT INTO leaves VALUES(2,'train.min_lr',0.00010000000000000000479);
INSERT INTO leaves VALUES(2,'train.on_nan','stop');
INSERT INTO leaves VALUES(2,'train.optimizer','adamw');
INSERT INTO leaves VALUES(2,'train.schedule','cosine');
INSERT INTO leaves VALUES(2,'train.seed',1);
INSERT INTO leaves VALUES(2,'train.steps',500);
INSERT INTO leaves VALUES(2,'train.warmup_steps',50);
INSERT INTO leaves VALUES(2,'train.weight_decay',0.10000000000000000555);
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
INSERT INTO attempts VALUES(1,1,1302,'{"at":10,"attempt":1,"pid":0,"host":"","device":"cpu","threads":0,"version":""}','{"at":0,"from_step":0,"engine":"tape","simd":"","processor":"","params":7,"flops_per_token":0.0,"peak_flops":null,"vocab_size":0,"corpus_hash":"","chars_per_token":0.0,"corpus_bits_per_char":null}',0,NULL,NULL,NULL);
INSERT INTO attempts VALUES(1,2,1059,'{"at":20,"attempt":2,"pid":0,"host":"","device":"cpu","threads":0,"version":""}','{"at":0,"from_step":2,"engine":"tape","simd":"","processor":"","params":7,"flops_per_token":0.0,"peak_flops":null,"vocab_size":0,"corpus_hash":"","chars_per_token":0.0,"corpus_bits_per_char":null}',2,99,'{"outcome":"done"}',NULL);
INSERT INTO attempts VALUES(2,1,0,NULL,NULL,NULL,NULL,NULL,'killed by signal 9');
CREATE TABLE metric_names (
    name INTEGER PRIMARY KEY,
    text TEXT    NOT NULL UNIQUE               -- train/loss
) STRICT;
INSERT INTO metric_names VALUES(1,'eval/train_loss');
INSERT INTO metric_names VALUES(2,'val/loss');
INSERT INTO metric_names VALUES(3,'val/bits_per_char');
INSERT INTO metric_names VALUES(4,'eval_ms');
INSERT INTO metric_names VALUES(5,'train/loss');
INSERT INTO metric_names VALUES(6,'lr');
INSERT INTO metric_names VALUES(7,'grad_norm');
INSERT INTO metric_names VALUES(8,'step_ms');
INSERT INTO metric_names VALUES(9,'data_ms');
INSERT INTO metric_names VALUES(10,'tokens_per_second');
INSERT INTO metric_names VALUES(11,'memory_bytes');
CREATE TABLE metrics (
    run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    name    INTEGER NOT NULL REFERENCES metric_names,
    step    INTEGER NOT NULL,
    attempt INTEGER NOT NULL,                  -- the one that it comes from
    value   ANY     NOT NULL,
    PRIMARY KEY (run, name, step)
) STRICT, WITHOUT ROWID;
INSERT INTO metrics VALUES(1,1,0,1,3.8999999999999999111);
INSERT INTO metrics VALUES(1,1,2,1,'inf');
INSERT INTO metrics VALUES(1,1,3,2,3.1499999999999999111);
INSERT INTO metrics VALUES(1,2,0,1,4.0);
INSERT INTO metrics VALUES(1,2,2,1,'inf');
INSERT INTO metrics VALUES(1,2,3,2,3.25);
INSERT INTO metrics VALUES(1,3,0,1,5.7142857142857144125);
INSERT INTO metrics VALUES(1,3,2,1,'inf');
INSERT INTO metrics VALUES(1,3,3,2,4.6428571428571432377);
INSERT INTO metrics VALUES(1,4,0,1,1.0);
INSERT INTO metrics VALUES(1,4,2,1,1.0);
INSERT INTO metrics VALUES(1,4,3,2,1.0);
INSERT INTO metrics VALUES(1,5,1,1,4.5);
INSERT INTO metrics VALUES(1,5,2,1,'nan');
INSERT INTO metrics VALUES(1,5,3,2,3.5);
INSERT INTO metrics VALUES(1,6,1,1,0.0010000000000000000208);
INSERT INTO metrics VALUES(1,6,2,1,0.0010000000000000000208);
INSERT INTO metrics VALUES(1,6,3,2,0.0010000000000000000208);
INSERT INTO metrics VALUES(1,7,1,1,2.0);
INSERT INTO metrics VALUES(1,7,2,1,2.0);
INSERT INTO metrics VALUES(1,7,3,2,2.0);
INSERT INTO metrics VALUES(1,8,1,1,5.0);
INSERT INTO metrics VALUES(1,8,2,1,5.0);
INSERT INTO metrics VALUES(1,8,3,2,5.0);
INSERT INTO metrics VALUES(1,9,1,1,0.0);
INSERT INTO metrics VALUES(1,9,2,1,0.0);
INSERT INTO metrics VALUES(1,9,3,2,0.0);
INSERT INTO metrics VALUES(1,10,1,1,1001.0);
INSERT INTO metrics VALUES(1,10,2,1,1002.0);
INSERT INTO metrics VALUES(1,10,3,2,1003.0);
INSERT INTO metrics VALUES(1,11,1,1,0.0);
INSERT INTO metrics VALUES(1,11,2,1,0.0);
INSERT INTO metrics VALUES(1,11,3,2,0.0);
CREATE TABLE warnings (
    run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    offset  INTEGER NOT NULL,                  -- where the line starts in events.jsonl
    message TEXT    NOT NULL,
    PRIMARY KEY (run, attempt, offset)
) STRICT, WITHOUT ROWID;
INSERT INTO warnings VALUES(1,2,566,'it''s slow');
CREATE TABLE artifacts (
    run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    path   TEXT    NOT NULL,                   -- relative to the run's folder
    kind   TEXT    NOT NULL,
    step   INTEGER,
    bytes  INTEGER NOT NULL,
    blake3 TEXT    NOT NULL,
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;
INSERT INTO artifacts VALUES(1,'checkpoints/step-3.attempt-2/model.safetensors','checkpoint',3,103,'0000000000000000000000000000000000000000000000000000000000000003');
INSERT INTO artifacts VALUES(1,'checkpoints/step-3.attempt-2/state.json','checkpoint',3,103,'0000000000000000000000000000000000000000000000000000000000000003');
CREATE TABLE experiments (
    experiment INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    journal    INTEGER NOT NULL DEFAULT 0,     -- bytes of journal.jsonl taken in
    at         INTEGER,                        -- when its spec was last run; NULL before a readable line
    axes       TEXT                            -- the paths of the swept leaves, as JSON
) STRICT;
INSERT INTO experiments VALUES(1,'sweep',198,1000,'["train.seed"]');
CREATE TABLE members (
    experiment INTEGER NOT NULL REFERENCES experiments ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    id         TEXT    NOT NULL,               -- of a run, whose folder may be gone
    PRIMARY KEY (experiment, position)
) STRICT, WITHOUT ROWID;
INSERT INTO members VALUES(1,1,'1a0d12016999e47689dae5744d2b8c1903faf7ca2886a658150083100ef2c8ee');
INSERT INTO members VALUES(1,0,'71e0a99173564931c0b8acc52d2685a8e39c64dc52e3d02390fdac2a12b155cb');
CREATE TABLE damage (
    file   TEXT    NOT NULL,                   -- relative to the root
    offset INTEGER NOT NULL,                   -- of the line
    why    TEXT    NOT NULL,
    PRIMARY KEY (file, offset)
) STRICT, WITHOUT ROWID;
INSERT INTO damage VALUES('runs/71e0a99173564931/attempt-2/events.jsonl',1047,'expected value at line 1 column 1');
CREATE VIEW points AS
SELECT metrics.run, metric_names.text AS name, metrics.step, metrics.attempt, metrics.value
FROM metric_names
JOIN metrics ON metrics.name = metric_names.name;
CREATE INDEX members_by_id ON members (id);
COMMIT;
