"""Reads what `exp export` wrote with pandas and TensorBoard, and compares it with what `exp show --json` says.

The folder that is named holds csv/, jsonl/, parquet/, tensorboard/ and want.json, a list of `exp show --json` objects.
"""

import json
import math
import pathlib
import sys

import numpy
import pandas
import pyarrow  # noqa: F401, which pandas reads Parquet with
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

folder = pathlib.Path(sys.argv[1])
want = json.loads((folder / "want.json").read_text())


def same(a, b):
    """Whether two values are equal; nothing and NaN are one to pandas."""
    if isinstance(a, float) and isinstance(b, int):
        b = float(b)  # as pandas has whole numbers of which some are missing
    missing = [x is None or x == "" or (isinstance(x, (float, numpy.floating)) and math.isnan(x)) or x is pandas.NA for x in (a, b)]
    return all(missing) if any(missing) else a == b


def number(x):
    return float(x) if isinstance(x, str) else x


# Before version 3, pandas reads some numbers of CSV to the last bit but one, unless it is told.
exact = {} if int(pandas.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
readers = {
    "csv": lambda path: pandas.read_csv(path, **exact),
    "jsonl": lambda path: pandas.read_json(path, lines=True, precise_float=True),
    "parquet": pandas.read_parquet,
}
for form, read in readers.items():
    runs, metrics = (read(folder / form / f"{table}.{form}") for table in ("runs", "metrics"))
    assert list(runs.id) == [run["id"] for run in want], form
    for row, run in zip(runs.to_dict("records"), want):
        plain = {name: run[name] for name in ("id", "experiment", "state", "why", "step", "best_step", "params", "attempts")}
        losses = {name: number(run[name]) for name in ("best_val_loss", "last_val_loss", "tokens_per_second")}
        for name, value in {**plain, **losses, **run["config"]}.items():
            assert same(number(row[name]) if name in losses else row[name], value), (form, run["id"], name, row[name], value)
        created = pandas.Timestamp(row["created"])
        assert created.tz is not None and created.year > 2000, created
    assert metrics.step.dtype == numpy.int64 and metrics.attempt.dtype == numpy.int64, metrics.dtypes
    if form != "jsonl":  # whose words pandas leaves words where there are some
        assert metrics.value.dtype == numpy.float64, metrics.dtypes
    curves = {key: list(zip(group.step, group.value)) for key, group in metrics.groupby(["run", "name"])}
    assert sum(map(len, curves.values())) == len(metrics)
    assert curves.keys() == {(run["id"], name) for run in want for name in run["metrics"]}, form
    for run in want:
        for name, curve in run["metrics"].items():
            got = curves[run["id"], name]
            assert len(got) == len(curve), (form, name)
            for (step, value), (right_step, right) in zip(got, curve):
                assert step == right_step and same(number(value), number(right)), (form, name, step, value, right)

root = folder / "tensorboard"
began = {run["id"][:16]: run for run in want if run["attempts"]}
paths = {path.name.rsplit(".", 1)[1]: path.parent for path in root.rglob("*tfevents*")}
assert paths.keys() == began.keys(), paths
for name, run in began.items():
    events = event_accumulator.EventAccumulator(str(paths[name]), size_guidance={"scalars": 0})
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(run["metrics"])
    for tag, curve in run["metrics"].items():
        got = events.Scalars(tag)
        assert [event.step for event in got] == [step for step, _ in curve], tag
        for event, (_, value) in zip(got, curve):
            assert same(numpy.float32(event.value), numpy.float32(number(value))), (tag, event, value)

# The page of hyper-parameters, as its server answers.
multiplexer = plugin_event_multiplexer.EventMultiplexer()
multiplexer.AddRunsFromDirectory(str(root))
multiplexer.Reload()
provider = data_provider.MultiplexerDataProvider(multiplexer, str(root))
plugin = backend_context.Context(base_plugin.TBContext(data_provider=provider, multiplexer=multiplexer, logdir=str(root)))
request = context.RequestContext()
experiment = get_experiment.Handler(request, plugin, "", api_pb2.GetExperimentRequest(experiment_name="")).run()
chosen = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=1000, allowed_statuses=[0, 1, 2, 3])
for info in experiment.hparam_infos:
    chosen.col_params.add(hparam=info.name)
for info in experiment.metric_infos:
    chosen.col_params.add(metric=info.name)
groups = list_session_groups.Handler(request, plugin, "", chosen).run().session_groups
assert len(groups) == len(began)
statuses = {"done": api_pb2.STATUS_SUCCESS, "failed": api_pb2.STATUS_FAILURE}
for group in groups:
    (session,) = group.sessions
    run = next(run for name, run in began.items() if str(paths[name]).endswith(session.name))
    assert session.status == statuses.get(run["state"], api_pb2.STATUS_UNKNOWN)
    settings = {name: getattr(value, value.WhichOneof("kind")) for name, value in group.hparams.items()}
    assert settings == {name: value for name, value in run["config"].items() if value is not None}
    last = {value.name.tag: value.value for value in group.metric_values}
    for tag, curve in run["metrics"].items():
        assert same(numpy.float32(last[tag]), numpy.float32(number(curve[-1][1]))), tag
print(len(want), "runs are as they should be")
