//! Every bad spec that is refused, as the person who wrote it sees that: line, column, caret, words and hint.

use std::{fs, path::Path};

use exp::base::Exit;

use super::{error_with, load_in, shown, sweep, sweep_with};

/// What it is, the spec, line and column of the caret, words of the message, words of the hint.
type Bad = (&'static str, &'static str, (usize, usize), &'static str, &'static str);

const BAD: &[Bad] = &[
    // Names
    ("a misspelt key", "model:\n  layrs: 4\n", (2, 3), "unknown key `layrs` in `model`", "did you mean `layers`?"),
    ("a misspelt group", "experiment: x\nmodle: {layers: 4}\n", (2, 1), "unknown key `modle`", "`model`"),
    ("nanoGPT's name", "model: {n_layer: 4}\n", (1, 9), "unknown key `n_layer`", "it is `model.layers` here"),
    ("a trainer's name", "learning_rate: 1e-3\n", (1, 1), "unknown key `learning_rate`", "it is `train.lr` here"),
    ("the wrong group", "model:\n  layers: 4\n  lr: 1e-3\n", (3, 3), "unknown key `lr` in `model`", "it is `train.lr`"),
    ("a group in a group", "model:\n  layers: 4\n  train:\n    lr: 1\n", (3, 3), "unknown key `train`", "top level"),
    ("a name like no other", "colour: blue\n", (1, 1), "unknown key `colour`", "a spec has `experiment`, `base`"),
    ("a name like none of a group", "eval: {colour: blue}\n", (1, 8), "unknown key `colour` in `eval`", "`every`"),
    (
        "a misspelt axis",
        "grid:\n  layers: [2]\n  learning_rat: [1]\n",
        (3, 3),
        "unknown axis `learning_rat`",
        "`train.lr`",
    ),
    ("seeds as an axis", "grid:\n  seeds: [1, 2]\n", (2, 3), "unknown axis `seeds`", "top level"),
    (
        "a word of two leaves",
        "every: 50\n",
        (1, 1),
        "ambiguous: `eval.every`, `checkpoint.every` and `sample.every`",
        "write the path",
    ),
    ("a merge key", "train: &t {lr: 1}\n<<: *t\n", (2, 1), "unknown key `<<`", "`base: other.yaml`"),
    ("no space in braces", "train: {lr:1e-3}\n", (1, 9), "unknown key `lr:1e-3`", "`lr: 1e-3`"),
    ("an equals sign", "train: {lr=1e-3}\n", (1, 9), "unknown key `lr=1e-3`", "`lr: 1e-3`"),
    // Twice
    ("a key twice", "train:\n  lr: 1e-3\n  batch: 4\n  lr: 1e-4\n", (4, 3), "the key `lr` is given twice", ""),
    ("a key twice on a line", "train: {lr: 1e-3, lr: 1e-4}\n", (1, 19), "the key `lr` is given twice", ""),
    ("a group twice", "model: {layers: 2}\nmodel: {heads: 2}\n", (2, 1), "the key `model` is given twice", ""),
    ("a leaf twice", "lr: 1e-3\ntrain: {lr: 1e-4}\n", (2, 9), "`train.lr` is given twice", ""),
    ("an axis twice", "grid:\n  layers: [2, 4]\n  model.layers: [8]\n", (3, 3), "`model.layers` is given twice", ""),
    (
        "an axis in grid and zip",
        "grid:\n  layers: [2, 4]\nzip:\n  - {layers: [2, 4], d_model: [64, 128]}\n",
        (4, 6),
        "`model.layers` is given twice",
        "",
    ),
    ("a seed beside seeds", "train: {seed: 4}\nseeds: 3\n", (1, 15), "given twice, here and by `seeds`", "keep one"),
    ("an axis of seeds beside seeds", "seeds: 3\ngrid: {seed: [1]}\n", (2, 8), "here and by `seeds`", "keep one"),
    // Values
    ("a fraction for an integer", "train: {batch: 2.5}\n", (1, 16), "takes an integer of at least 1, not `2.5`", ""),
    ("a word for a number", "train:\n  lr: fast\n", (2, 7), "`train.lr` takes a number above 0, not `fast`", ""),
    ("a quoted number", "train: {lr: \"1e-3\"}\n", (1, 13), "not `\"1e-3\"`", "without the quotes: `1e-3`"),
    ("separators", "data: {corpus_chars: 1_000_000}\n", (1, 22), "not `1_000_000`", "`1000000`"),
    ("out of range", "model: {dropout: 1.0}\n", (1, 18), "takes a number in [0, 1), not `1.0`", ""),
    ("a negative rate", "train: {lr: -1e-3}\n", (1, 13), "takes a number above 0, not `-1e-3`", ""),
    ("too large a number", "model: {layers: 5000000}\n", (1, 17), "an integer of at most 1000000", ""),
    ("an infinite rate", "train: {lr: .inf}\n", (1, 13), "takes a number above 0, not `.inf`", ""),
    ("Python's bool", "model: {bias: True}\n", (1, 15), "takes `true` or `false`, not `True`", "did you mean `true`?"),
    ("a misspelt word", "train: {schedule: cosin}\n", (1, 19), "takes one of `cosine`, `linear`", "`cosine`?"),
    ("nothing", "train:\n  lr:\n  batch: 4\n", (2, 3), "takes a number above 0, not nothing", "`null` is its default"),
    ("a list for a value", "lr: [1e-3, 1e-4]\n", (1, 5), "not a list", "`grid: {lr: […]}`"),
    ("a map for a value", "lr: {a: 1}\n", (1, 5), "not a map", ""),
    ("a bad alias", "grid: {layers: &x [2, many]}\n", (1, 23), "not `many`", ""),
    ("an unknown device", "run: {device: gpu}\n", (1, 15), "not `gpu`", "did you mean `cuda` (NVIDIA)"),
    ("an unknown device of an axis", "grid: {device: [cpu, cude]}\n", (1, 22), "not `cude`", "did you mean `cuda`?"),
    // Shapes
    (
        "a list for a group",
        "model:\n  - layers: 4\n",
        (2, 3),
        "`model` is a group of leaves, not a list",
        "without `-`",
    ),
    ("a value for a group", "model: 4\n", (1, 8), "`model` is a group of leaves, not `4`", ""),
    ("a list for a spec", "- layers: 4\n", (1, 1), "a spec is a map of `key: value`, not a list", ""),
    ("a word for a spec", "layers:4\n", (1, 1), "not `layers:4`", "a space follows each colon"),
    ("a value for an axis", "grid:\n  layers: 4\n", (2, 11), "an axis is a list of values, not `4`", "`layers: [4]`"),
    ("no brackets", "grid:\n  layers: 2, 4\n", (2, 11), "an axis is a list of values", "`layers: [2, 4]`"),
    ("an empty axis", "grid:\n  layers: []\n", (2, 11), "the axis `layers` has no values", ""),
    ("a bad value of an axis", "grid:\n  lr:\n    - 1e-3\n    - 0\n", (4, 7), "takes a number above 0, not `0`", ""),
    ("a list for a grid", "grid: [2, 4]\n", (1, 7), "`grid` is a map of axes, not a list", ""),
    ("a map for a zip", "zip: {layers: [2]}\n", (1, 6), "`zip` is a list of groups of axes, not a map", "`zip: [{"),
    (
        "a zip of unequal length",
        "zip:\n  - layers: [2, 4]\n    d_model: [64, 128, 256]\n",
        (3, 5),
        "`model.layers` has 2 values, `model.d_model` has 3 values",
        "under `grid`",
    ),
    (
        "a map for exclude",
        "exclude: {layers: 2}\n",
        (1, 10),
        "`exclude` is a list of points and conditions, not a map",
        "`exclude: [{",
    ),
    // Sweeps
    (
        "an exclusion of nothing",
        "grid: {layers: [2, 4], lr: [1e-3, 1e-2]}\nexclude:\n  - {layers: 8, lr: 1e-2}\n",
        (3, 14),
        "no point of the grid has `model.layers` 8",
        "it would exclude nothing",
    ),
    (
        "an exclusion of a pair that never meets",
        "zip: [{layers: [2, 4], lr: [1e-3, 1e-2]}]\nexclude: [{layers: 2, lr: 1e-2}]\n",
        (2, 11),
        "no point of the grid has all of these values",
        "it would exclude nothing",
    ),
    (
        "a condition that excludes nothing",
        "grid: {layers: [2, 4]}\nexclude: [layers == 4, layers > 4]\n",
        (2, 24),
        "this holds for no point of the grid",
        "it would exclude nothing",
    ),
    (
        "a misspelt name in a condition",
        "grid: {layers: [2, 4]}\nexclude:\n  - {layers: 4}\n  - layers == 4 and layrs < 3\n",
        (4, 21),
        "unknown name `layrs`",
        "did you mean `layers`?",
    ),
    (
        "a misspelt word in a quoted condition",
        "grid: {layers: [2, 4]}\nexclude: ['norm == rmsnom']\n",
        (2, 20),
        "`rmsnom` is never what this is compared with",
        "did you mean `rmsnorm`?",
    ),
    ("a number for a condition", "exclude: [layers + 1]\n", (1, 11), "a condition is wanted", "layers >= 4"),
    (
        "a condition over two lines",
        "exclude:\n  - layers == 4\n    and layrs < 3\n",
        (2, 5),
        "unknown name `layrs`",
        "",
    ),
    (
        "a list for an exclusion",
        "exclude: [[layers, 4]]\n",
        (1, 11),
        "is a map of leaves or a condition, not a list",
        "",
    ),
    ("a condition for a point", "include: [layers == 4]\n", (1, 11), "a point of `include` is a map of leaves", ""),
    // Spaced values
    ("a step of nothing", "grid: {layers: {range: [1, 9, 0]}}\n", (1, 31), "by steps of 0 never ends", ""),
    ("an empty range", "grid: {layers: {range: [9, 1]}}\n", (1, 24), "no value lies from 9 by 1 before 1", "in Python"),
    (
        "a range that starts too low",
        "grid: {layers: {range: [0, 4]}}\n",
        (1, 25),
        "`range` gives 0",
        "write the values",
    ),
    ("a fraction in a range", "grid: {layers: {range: [1, 4, 0.5]}}\n", (1, 31), "takes integers, and 0.5 is none", ""),
    (
        "one end",
        "grid: {layers: {range: [4]}}\n",
        (1, 24),
        "`range` takes a list of where it starts",
        "{range: [1, 9, 2]}",
    ),
    (
        "no list",
        "grid: {lr: {linspace: 4}}\n",
        (1, 23),
        "`linspace` takes a list of both ends",
        "{linspace: [0, 0.3, 4]}",
    ),
    ("a word for an end", "grid: {lr: {linspace: [0, high, 4]}}\n", (1, 27), "takes numbers, not `high`", ""),
    ("a fraction of a value", "grid: {lr: {linspace: [1, 2, 2.5]}}\n", (1, 30), "not 2.5", "both ends are among them"),
    ("one value between ends", "grid: {lr: {logspace: [1, 2, 1]}}\n", (1, 30), "2 or more, not 1", "both ends"),
    ("no distance", "grid: {lr: {linspace: [1, 1, 3]}}\n", (1, 27), "both ends are the same", "a list of one"),
    (
        "the logarithm of nothing",
        "grid: {lr: {logspace: [0, 1, 3]}}\n",
        (1, 24),
        "0 has no logarithm",
        "the values themselves",
    ),
    (
        "exponents for ends",
        "grid: {lr: {logspace: [-4, -2, 3]}}\n",
        (1, 24),
        "-4 has no logarithm",
        "the values themselves",
    ),
    (
        "a fraction between integers",
        "grid: {layers: {linspace: [1, 8, 3]}}\n",
        (1, 34),
        "`linspace` gives 4.5",
        "how many there are",
    ),
    ("an end out of range", "grid: {dropout: {linspace: [0, 1, 3]}}\n", (1, 32), "`linspace` gives 1", "its ends"),
    ("numbers for words", "grid: {norm: {range: [1, 3]}}\n", (1, 15), "takes one of `layernorm`", "as a list"),
    ("a misspelt spacing", "grid: {lr: {linspce: [1, 2, 3]}}\n", (1, 13), "no way to give an axis", "`linspace`?"),
    (
        "two spacings",
        "grid: {lr: {linspace: [1, 2, 3], range: [1, 2]}}\n",
        (1, 12),
        "one way to give them",
        "there are",
    ),
    ("no end of values", "grid: {lr: {linspace: [1, 2, 1e9]}}\n", (1, 30), "gives 1000000000 values", ""),
    ("a spacing for a value", "lr: {logspace: [1, 2, 3]}\n", (1, 5), "not a map", "`grid: {lr: {logspace: […]}}`"),
    // Random axes
    (
        "a random axis without samples",
        "grid:\n  lr: {log_uniform: [1e-4, 1e-2]}\n",
        (2, 3),
        "`train.lr` is drawn at random, and `samples` does not say how often",
        "`samples: 20`",
    ),
    ("samples of nothing", "samples: 5\ngrid: {lr: [1, 2]}\n", (1, 1), "no axis is random", "log_uniform"),
    ("a seed of nothing", "sample_seed: 5\n", (1, 1), "without `samples` draws nothing", ""),
    ("no samples", "samples: 0\ngrid: {lr: {uniform: [1, 2]}}\n", (1, 10), "from 1 to 1000000, not `0`", ""),
    (
        "a random axis of a zip",
        "samples: 3\nzip: [{lr: {uniform: [1, 2]}, layers: [1, 2, 3]}]\n",
        (2, 8),
        "`train.lr` is drawn at random",
        "under `grid`",
    ),
    ("random seeds", "samples: 3\nseeds: {uniform: [1, 9]}\n", (2, 8), "`seeds` are named, not drawn", "`seeds: 3`"),
    ("ends the wrong way round", "samples: 3\ngrid: {lr: {uniform: [2, 1]}}\n", (2, 26), "1 is not above 2", ""),
    (
        "one end of a range",
        "samples: 3\ngrid: {lr: {uniform: [2]}}\n",
        (2, 22),
        "a list of two ends, not of 1 value",
        "{uniform",
    ),
    (
        "the logarithm of an end",
        "samples: 3\ngrid: {lr: {log_uniform: [0, 1]}}\n",
        (2, 27),
        "0 has no logarithm",
        "the values themselves",
    ),
    ("an end that is no value", "samples: 3\ngrid: {dropout: {uniform: [0, 1]}}\n", (2, 31), "`uniform` gives 1", ""),
    ("a choice of nothing", "samples: 3\ngrid: {lr: {choice: []}}\n", (2, 21), "a list of values, not of none", ""),
    (
        "a choice of a wrong word",
        "samples: 3\ngrid: {norm: {choice: [rmsnom]}}\n",
        (2, 24),
        "not `rmsnom`",
        "`rmsnorm`?",
    ),
    // Blocks
    ("a block for no points", "blocks: [{set: {lr: 1}}]\n", (1, 10), "by `when`", "`blocks: [{when:"),
    ("a block of nothing", "blocks: [{when: {layers: 4}}]\n", (1, 10), "gives its points nothing", "`set`"),
    (
        "a misspelt key of a block",
        "blocks: [{wen: {layers: 4}, set: {lr: 1}}]\n",
        (1, 11),
        "unknown key `wen`",
        "`when`?",
    ),
    ("a list for a block", "blocks: [[1]]\n", (1, 10), "a block is a map", ""),
    (
        "a block that never holds",
        "grid: {layers: [2, 4]}\nblocks:\n  - when: layers > 4\n    set: {lr: 1}\n",
        (3, 11),
        "holds for no point of the grid",
        "correct it or take it out",
    ),
    (
        "two blocks for one leaf",
        "blocks:\n  - {when: layers == 4, set: {lr: 1}}\n  - {when: heads == 4, grid: {lr: [1, 2]}}\n",
        (3, 31),
        "two blocks hold for one point, and both give it `train.lr`",
        "narrow",
    ),
    (
        "a leaf twice in a block",
        "blocks: [{when: layers == 4, set: {lr: 1}, grid: {lr: [2]}}]\n",
        (1, 51),
        "given twice",
        "",
    ),
    (
        "a block that looks at what is derived",
        "derive: {d_ff: 2 * d_model}\nblocks: [{when: d_ff > 4, set: {lr: 1}}]\n",
        (2, 17),
        "`model.d_ff` is worked out after blocks",
        "follows from",
    ),
    (
        "a block's seed",
        "seeds: 2\nblocks: [{when: layers == 4, set: {seed: 3}}]\n",
        (2, 42),
        "and by `seeds`",
        "keep one",
    ),
    // Derivations
    (
        "an unknown name in arithmetic",
        "derive:\n  min_lr: lr / 10\n  d_ff: 4 * d_modl\n",
        (3, 13),
        "unknown name `d_modl`",
        "did you mean `d_model`?",
    ),
    ("an unknown leaf", "derive: {d_fff: 4}\n", (1, 10), "unknown key `d_fff`", "`d_ff`?"),
    (
        "a circle",
        "derive:\n  d_ff: 4 * d_model\n  d_model: d_ff / 4\n",
        (2, 9),
        "goes round in a circle",
        "none of the others",
    ),
    (
        "a circle by a default",
        "derive: {lr: 10 * min_lr}\n",
        (1, 14),
        "`train.lr` follows from `train.min_lr` follows from `train.lr`",
        "",
    ),
    ("a circle of one", "derive: {lr: lr / 2}\n", (1, 14), "goes round in a circle", ""),
    (
        "a result that does not fit",
        "grid: {d_model: [64, 72], lr: [1e-3]}\nderive: {layers: d_model / 16}\n",
        (2, 18),
        "`model.layers` takes an integer of at least 1, and this comes to 4.5 for d_model=72 lr=0.001",
        "floor(…)",
    ),
    ("a division by nothing", "derive: {lr: 1 / (layers - 4)}\n", (1, 14), "this comes to inf", ""),
    (
        "a derived leaf that is set",
        "lr: 1e-3\nderive: {lr: 1e-2 / layers}\n",
        (2, 10),
        "and it is set as well",
        "keep one",
    ),
    ("a derived leaf that is swept", "grid: {lr: [1]}\nderive: {lr: 1 / layers}\n", (2, 10), "set as well", "keep one"),
    ("a derived word", "derive: {norm: layers}\n", (1, 10), "takes one of `layernorm`", "numbers and conditions"),
    (
        "a condition for a number",
        "derive: {lr: layers > 2}\n",
        (1, 14),
        "this is a condition, and a number is wanted",
        "",
    ),
    ("a list for arithmetic", "derive: {lr: [layers, 2]}\n", (1, 14), "by arithmetic, not by a list", "lr / 10"),
    (
        "a budget without a value",
        "derive: {steps: tokens / 10}\n",
        (1, 17),
        "`train.tokens` is named",
        "{tokens: 1e12}",
    ),
    ("a derived budget", "derive: {tokens: 100 * batch}\n", (1, 10), "`train.tokens` is a budget", "derive `steps`"),
    // Budgets
    (
        "steps beside tokens",
        "train: {steps: 500, tokens: 1e6}\n",
        (1, 29),
        "`train.tokens` beside `train.steps`: each says how long is trained",
        "keep one of them",
    ),
    ("tokens beside flops", "tokens: 1e6\ngrid: {flops: [1e12]}\n", (2, 8), "`train.flops` beside `train.tokens`", ""),
    ("half a token", "tokens: 0.5\n", (1, 9), "`train.tokens` takes an integer of at least 1", ""),
    (
        "an exclusion by a budget",
        "grid: {tokens: [1e6, 2e6]}\nexclude: [{tokens: 1e6}]\n",
        (2, 20),
        "`train.tokens` is a budget, and no point has it",
        "`steps` is what comes of it",
    ),
    (
        "a condition over a budget",
        "exclude: [tokens > 5]\n",
        (1, 11),
        "`train.tokens` is a budget",
        "`sample.tokens` is a setting",
    ),
    (
        "an exclusion by what is not known yet",
        "flops: 1e12\ngrid: {layers: [1, 2]}\nexclude: [warmup_steps > 5]\n",
        (3, 11),
        "follows from `train.flops`",
        "`--only` can ask for it",
    ),
    ("a circle by a budget", "flops: 1e12\nderive: {layers: steps / 100}\n", (2, 18), "goes round in a circle", ""),
    ("nothing left", "grid: {layers: [2]}\nexclude: [{layers: 2}]\n", (2, 1), "`exclude` leaves no point of 1", ""),
    ("too many points", "grid: {layers: [1, 2]}\nseeds: 100000\n", (2, 1), "the sweep has 200000 points", "shorten"),
    ("too many seeds", "seeds: 1000000000\n", (1, 8), "`seeds` takes how many, from 1 to 1000000", ""),
    ("no seeds", "seeds: 0\n", (1, 8), "not `0`", "`seeds: 3` repeats every point"),
    ("an empty list of seeds", "seeds: []\n", (1, 8), "the axis `seeds` has no values", ""),
    // Leaves that do not go together
    ("heads", "model: {heads: 3, d_model: 128}\n", (1, 16), "3 does not divide 128", "`heads` could be 2 or 4"),
    (
        "heads of an axis",
        "model: {d_model: 128}\ngrid:\n  heads: [2, 4, 6]\n",
        (3, 17),
        "6 does not divide 128",
        "4 or 8",
    ),
    ("default heads", "grid:\n  d_model: [64, 30]\n", (2, 17), "4 does not divide 30", "`heads` could be 3 or 5"),
    ("heads of keys", "model: {heads: 4, kv_heads: 3}\n", (1, 29), "3 does not divide 4", "could be 2 or 4"),
    (
        "a head that has no pairs",
        "position: rope\nmodel: {heads: 2, d_model: 30}\n",
        (1, 11),
        "`d_model` / `heads` is 15",
        "a head's width is even",
    ),
    ("a rising rate", "min_lr: 1e-4\ngrid: {lr: [1e-3, 1e-5]}\n", (2, 19), "would rise", "a tenth of `lr`"),
    (
        "a text without a path",
        "data: {corpus: text}\n",
        (1, 16),
        "`data.path` does not say which",
        "--set data.path=FILE",
    ),
    ("a playbook with a path", "data: {path: a.txt}\n", (1, 14), "is generated and reads no file", "`corpus: text`"),
    (
        "a tokenizer without a file",
        "data: {tokenizer: file}\n",
        (1, 19),
        "`data.tokenizer_file` does not say which",
        "--set data.tokenizer_file=FILE",
    ),
    (
        "a tokenizer's file without `file`",
        "data: {tokenizer_file: a.json, tokenizer: gpt2}\n",
        (1, 24),
        "the tokenizer `gpt2` reads no file",
        "`tokenizer: file` reads it",
    ),
    ("halves on a CPU", "dtype: bf16\ndevice: cpu\n", (1, 8), "bf16 needs a GPU", "`dtype: f32` on a CPU"),
    (
        "the CPU's engine",
        "run: {engine: cpu, device: cuda:1}\n",
        (1, 15),
        "does not compute on `cuda:1`",
        "`engine: tape`",
    ),
    (
        "what the CPU's engine lacks",
        "run: {engine: cpu}\ndtype: bf16\n",
        (1, 15),
        "has no layers for `train.dtype` bf16",
        "`engine: tape`",
    ),
    ("a giant", "layers: 100000\nd_model: 1000000\n", (2, 10), "needs about 2e19 bytes", ""),
    ("an eternity", "steps: 1000000000000\nbatch: 1000000\n", (1, 8), "trains on 6e19 tokens", ""),
    // The experiment's name
    ("a name that climbs", "experiment: ../../etc\n", (1, 13), "`../../etc` is no name for an experiment", ""),
    ("a hidden name", "experiment: .git\n", (1, 13), "it begins with a dot", ""),
    ("a name with a space", "experiment: my sweep\n", (1, 13), "letters, digits, `_`, `-` and `.`", ""),
    ("no name", "experiment:\n", (1, 1), "`experiment` takes a name, not nothing", ""),
    // YAML
    ("a tab", "model:\n\tlayers: 4\n", (2, 1), "a tab as indentation", "indent with spaces"),
    ("a tab after spaces", "model:\n  heads: 4\n  \tlayers: 4\n", (3, 3), "a tab as indentation", "spaces"),
    ("two documents", "lr: 1e-3\n---\nlr: 1e-4\n", (2, 1), "a second document begins here", ""),
    ("an open bracket", "grid:\n  layers: [2, 4\n", (2, 16), "not YAML: expected `,` or `]`", "closing bracket"),
    (
        "an open brace",
        "model: {layers: 2\ntrain: {lr: 1}\n",
        (2, 6),
        "not YAML: expected `,` or `}`",
        "closing bracket",
    ),
    ("no comma", "model: {layers: 2 heads: 4}\n", (1, 24), "not YAML: expected `,` or `}`", "or a comma"),
    ("an open quote", "experiment: \"x\n", (1, 13), "not YAML: this quote is never closed", ""),
    ("text after a quote", "lr: \"1\" x\n", (1, 9), "not YAML: invalid trailing content", "quote"),
    ("no space", "model:\n  layers:4\n  heads: 4\n", (2, 3), "a key needs a colon and a space", "`layers: 4`"),
    ("no colon", "lr 1e-3\nbatch: 4\n", (1, 1), "a key needs a colon", ""),
    ("no colon at the end", "lr: 1e-3\nbatch\n", (2, 1), "a key needs a colon", ""),
    ("two colons", "model: layers: 4\n", (1, 14), "a second colon on the line", "needs braces"),
    (
        "the wrong column",
        "model:\n  layers: 4\n   heads: 4\n",
        (3, 4),
        "the value of the line before goes on",
        "column",
    ),
    ("too far out", "model:\n    layers: 4\n  heads: 4\n", (3, 3), "no key can begin in this column", "column"),
    ("a list and a map", "- a\nb: 1\n", (2, 1), "this is none of its items", ""),
    ("a sign that YAML keeps", "lr: @x\n", (1, 5), "a value cannot begin with `@`", "quotes"),
    ("an alias of nothing", "grid: {lr: *rates}\n", (1, 12), "this alias has no anchor before it", ""),
    ("an alias in itself", "grid: {lr: &a [*a]}\n", (1, 16), "stands for something that contains it", ""),
    ("a tag", "lr: !!float 1\n", (1, 5), "a spec has no tags", ""),
    ("a list for a key", "? [a, b]\n: 1\n", (1, 3), "a key is a word, not a list or a map", ""),
    (
        "deep nesting",
        "x: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
        (1, 28),
        "nested deeper than 24",
        "",
    ),
    (
        "deeper nesting",
        "- - - - - - - - - - - - - - - - - - - - - - - - - - - - 1\n",
        (1, 51),
        "nested deeper than 24",
        "",
    ),
];

#[test]
fn every_bad_spec_is_refused_where_it_is_wrong() {
    for (name, spec, (line, column), says, hint) in BAD {
        let error = error_with(spec, &[]);
        let text = shown(&error);
        assert_eq!((error.exit, error.doing.as_str()), (Exit::Spec, "reading the spec a.yaml"), "{name}\n{text}");
        let message = error.why.lines().next().unwrap();
        assert!(message.contains(says), "{name}\n{text}");
        assert!(error.hint.unwrap_or_default().contains(hint), "{name}\n{text}");
        assert!(text.contains(&format!("--> a.yaml:{line}:{column}\n")), "{name}\n{text}");
        caret_is_under(&error.why, *line, *column, spec.lines().nth(line - 1).unwrap());
    }
}

/// The drawn line is that of the spec, and the caret below it stands at the column.
fn caret_is_under(drawing: &str, line: usize, column: usize, text: &str) {
    let rows: Vec<&str> = drawing.lines().collect();
    let head = format!("{line} | ");
    let at = rows.iter().position(|row| row.starts_with(&head)).unwrap_or_else(|| panic!("{drawing}"));
    assert_eq!(rows[at][head.len()..].replace('→', "\t"), text.trim_end(), "{drawing}");
    let caret = rows[at + 1].chars().position(|c| c == '^');
    assert_eq!(caret, Some(head.len() + column - 1), "{drawing}");
}

#[test]
fn the_gallery_of_errors() {
    let mut gallery = String::new();
    for (name, spec, ..) in BAD {
        gallery += &format!("# {name}\n\n{}\n\n\n", shown(&error_with(spec, &[])));
    }
    insta::assert_snapshot!(gallery);
}

#[test]
fn a_bad_argument_is_shown_as_it_was_given() {
    let mut gallery = String::new();
    for set in [
        "lr=fast",
        "lrr=1",
        "layers=[2,many]",
        "layers=[]",
        "layers=[2",
        "grid=1",
        "train=1",
        "lr=",
        "lr",
        "=3",
        "lr=a: b",
        "every=3",
        "seeds=0",
        "device=gpu",
        "heads=3",
        "experiment=a/b",
        "lr=*x",
        "é=1",
        "lr=1e-3,fast",
        "lr=1e-3, ,3e-4",
        "layers={range: [2, 9, 0]}",
        "seeds=1,x",
    ] {
        let error = error_with("layers: 2\n", &[set]);
        let exit = if matches!(set, "lr" | "=3") { Exit::Usage } else { Exit::Spec };
        assert_eq!(error.exit, exit, "{set}");
        gallery += &format!("{}\n\n\n", shown(&error));
    }
    insta::assert_snapshot!(gallery);
}

#[test]
fn what_is_no_spec_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("empty.yaml", b"");
    write("comments.yaml", b"# nothing here\n\n---\n");
    write("latin.yaml", b"experiment: x\ntrain: {lr: 1} # caf\xe9\n");
    write("large.yaml", &b"# 34567\n".repeat(130_000));
    write("my sweep.yaml", b"lr: 1\n");
    fs::create_dir(folder.path().join("more")).unwrap();
    fs::create_dir(folder.path().join("none")).unwrap();
    write("more/b.yaml", b"lr: 1\n");
    write("more/a.yml", b"lr: 1\n");
    let mut gallery = String::new();
    for name in [
        "empty.yaml",
        "comments.yaml",
        "latin.yaml",
        "large.yaml",
        "my sweep.yaml",
        "more",
        "none",
        "emty.yaml",
        "empty",
        "other.yaml",
        "nowhere/a.yaml",
    ] {
        let error = load_in(folder.path(), name, &[]).unwrap_err();
        assert_eq!(error.exit, Exit::Spec);
        gallery += &format!("{}\n\n\n", shown(&error));
    }
    insta::assert_snapshot!(gallery);
    assert!(exp::spec::load(Path::new("/dev/zero"), &[]).unwrap_err().why.contains("larger than 1 MB"));
}

#[test]
fn a_bomb_of_aliases_does_not_go_off() {
    let mut bomb = String::from("a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    for (name, of) in "bcdefghijk".chars().zip("abcdefghij".chars()) {
        bomb += &format!("{name}: &{name} [{}]\n", vec![format!("*{of}"); 10].join(", "));
    }
    let error = error_with(&bomb, &[]);
    assert!(error.why.contains("more than 250000 values, aliases written out"), "{error}");
    assert_eq!(sweep("grid: {lr: &rates [1e-3, 1e-2], min_lr: [1e-4]}\n").points.len(), 2);
    assert_eq!(sweep("layers: &n 2\nheads: *n\n").points[0].model.heads, 2);
    let error = error_with("experiment: &n x\nlayers: *n\n", &[]);
    assert!(error.why.contains("not `x`\n --> a.yaml:2:9"), "{error}");
}

#[test]
fn the_planner_points_at_what_set_a_leaf() {
    let spec = "model: {context: 64}\ngrid:\n  layers: [2, 4]\n  context: [8, 32]\ninclude:\n  - {layers: 8, context: 99}\nseeds: 2\n";
    let sweep = sweep_with(spec, &["batch=7"]);
    assert_eq!(sweep.points.len(), 2 * 2 * 2 + 2);
    let place = |point: usize, leaf: &str| {
        let error = sweep.error_at(point, leaf, "the corpus is too short", Some("shorten the context"));
        assert_eq!((error.exit, error.hint.as_deref()), (Exit::Spec, Some("shorten the context")));
        error.why.lines().nth(1).map(|line| line.rsplit_once("a.yaml:").map_or(line.into(), |(_, at)| at.to_owned()))
    };
    assert_eq!(place(0, "model.context").as_deref(), Some("4:13"));
    assert_eq!(place(2, "model.context").as_deref(), Some("4:16"));
    assert_eq!(place(7, "model.layers").as_deref(), Some("3:15"));
    assert_eq!(place(8, "context").as_deref(), Some("6:26"));
    assert_eq!(place(9, "train.seed").as_deref(), Some("7:8"));
    assert_eq!(place(0, "train.batch").as_deref(), Some(" --> command line"));
    assert_eq!(place(0, "train.lr"), None, "it has its default");
}

#[test]
fn a_point_is_checked_again_with_its_device() {
    let sweep = sweep("device: auto\ndtype: bf16\n");
    let mut point = sweep.points[0].clone();
    point.run.device = "cuda".into();
    assert!(sweep.check(0, &point).is_ok());
    point.run.device = "cpu".into();
    let error = sweep.check(0, &point).unwrap_err();
    assert!(error.why.contains("a.yaml:2:8") && error.why.contains("bf16 needs a GPU"), "{error}");
}
