"""Logs so many steps of seven metrics with a tracker, and prints the microseconds that a value took."""

import os
import sys
import time

tracker, steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.chdir(folder)
names = ["train/loss", "lr", "grad_norm", "step_ms", "data_ms", "tokens_per_second", "memory_bytes"]


def values(step):
    return {name: 1.0 / (step + 1) + i for i, name in enumerate(names)}


if tracker == "mlflow":
    import mlflow

    mlflow.set_tracking_uri("sqlite:///" + os.path.join(folder, "mlflow.db"))
    with mlflow.start_run():
        begin = time.perf_counter()
        for step in range(steps):
            mlflow.log_metrics(values(step), step=step)
        spent = time.perf_counter() - begin
elif tracker == "aim":
    import aim

    run = aim.Run(repo=folder, system_tracking_interval=None, capture_terminal_logs=False)
    begin = time.perf_counter()
    for step in range(steps):
        run.track(values(step), step=step)
    run.close()
    spent = time.perf_counter() - begin
elif tracker == "trackio":
    os.environ["TRACKIO_DIR"] = folder
    import trackio

    trackio.init(project="scale")
    begin = time.perf_counter()
    for step in range(steps):
        trackio.log(values(step), step=step)
    trackio.finish()
    spent = time.perf_counter() - begin
print("microseconds", spent / (steps * len(names)) * 1e6)
