#!/usr/bin/env python3
"""Memory and start of several processes that have the same model: packed weights shared, not shared, and onnxruntime.

    bench/packed_weights.py MODEL [--dim NAME=SIZE] [--processes N] [--threads N] [--rounds N] [--json FILE] [--ray]

A round starts N processes of each kind in turn. Each makes a session, runs it once, and says so; then the next one starts.
`shared` names one folder in /dev/shm (tenon.packed_weights_folder), `apart` none. Memory is the proportional set size
(PSS: pages that K processes map count 1/K in each) that a process has more than before it made its session, measured when
all have run, in MiB: that of all processes, and that of each. The first start and the median of the others are the
milliseconds of a session's creation and first run. Figures are medians of the rounds; `ratio` is a figure of `shared`
divided by that of onnxruntime: below 1, Tenon is better.

With --ray (./dev ray memory MODEL) the processes are actors on one node: `shared` is tenon.ray.put_model with
tenon.ray.Predictor, `apart` the same with "" for the folder, and onnxruntime makes its session of the path. The inputs of
the model have rows in their first dimension then. Tenon is the package that the interpreter imports: pip install ., or
PYTHONPATH=build/test/python.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

# Ray is beside a file called ray.py here.
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if pathlib.Path(folder or ".").resolve() != HERE]
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np  # noqa: E402

KINDS = ("shared", "apart", "onnxruntime")
FOLDER_KEY = "tenon.packed_weights_folder"
NUMPY_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
               "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}


def own_bytes():
    return 1024 * int(re.search(r"^Pss: +(\d+) kB", pathlib.Path("/proc/self/smaps_rollup").read_text(), re.M)[1])


def feeds_of(session, dims):
    """Small numbers for each input; a dimension without a number is that of --dim, else 1."""
    random, feeds = np.random.default_rng(0), {}
    for info in session.get_inputs():
        shape = [dim if isinstance(dim, int) else int(dims.get(dim, 1)) for dim in info.shape]
        dtype = NUMPY_TYPES[info.type]
        feeds[info.name] = random.integers(0, 2, shape).astype(dtype)
    return feeds


class Worker:
    """A process that has the model: measured before its session, and when it is asked."""

    def __init__(self, kind, model, dims, threads, folder):
        if kind == "onnxruntime":
            import onnxruntime as package
        else:
            import tenon as package
        self.before, begin = own_bytes(), time.perf_counter()
        options = package.SessionOptions()
        options.intra_op_num_threads = threads
        if kind == "shared":
            options.add_session_config_entry(FOLDER_KEY, folder)
        self.session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.session.run(None, feeds_of(self.session, dims))
        self.started = 1e3 * (time.perf_counter() - begin)

    def start_ms(self):
        return self.started

    def memory(self):
        return own_bytes() - self.before

    def release(self):
        """The last session that ends removes the folder; a killed process would leave it."""
        self.session = None


class StoredWorker(Worker):
    """The same in an actor, over a model in Ray's object store."""

    def __init__(self, kind, model, dims, threads, _):
        import tenon.ray
        self.before, begin = own_bytes(), time.perf_counter()
        options = tenon.SessionOptions()
        if kind == "apart":
            options.add_session_config_entry(FOLDER_KEY, "")
        self.predictor = tenon.ray.Predictor(model, sess_options=options, threads=threads, warm_up=0, metrics=False)
        self.predictor(feeds_of(self.predictor.session, dims))
        self.started = 1e3 * (time.perf_counter() - begin)

    def release(self):
        self.predictor = None


def serve():
    """What a started process does: its worker's answers to the lines of standard input, until that ends."""
    worker = Worker(**json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(getattr(worker, line.strip())()), flush=True)


class Process:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        print(json.dumps(dict(zip(("kind", "model", "dims", "threads", "folder"), arguments))), file=self.process.stdin)

    def ask(self, what):
        print(what, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"A process ended with {self.process.wait()}.")
        return json.loads(line)

    def end(self):
        self.process.communicate()


class Actor:
    def __init__(self, *arguments):
        import ray
        stored = not isinstance(arguments[1], str)
        self.actor = ray.remote(num_cpus=0)(StoredWorker if stored else Worker).remote(*arguments)

    def ask(self, what):
        import ray
        return ray.get(getattr(self.actor, what).remote())

    def end(self):
        import ray
        ray.get(self.actor.release.remote())
        ray.kill(self.actor)


def measured(start, kind, model, arguments, folder):
    """The starts of the workers in ms, and the bytes that each has."""
    workers, starts = [], []
    for _ in range(arguments.processes):
        workers.append(start(kind, model, arguments.dims, arguments.threads, folder))
        starts.append(workers[-1].ask("start_ms"))
    memory = [worker.ask("memory") for worker in workers]
    for worker in workers:
        worker.end()
    return starts, memory


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--ray", action="store_true")
    arguments = parser.parse_args()
    arguments.dims = dict(entry.split("=", 1) for entry in arguments.dim)
    arguments.model = str(pathlib.Path(arguments.model).resolve())
    if arguments.processes < 2:
        parser.error("--processes is at least 2: one alone shares with nobody")
    return arguments


def main():
    if sys.argv[1:] == ["--serve"]:
        return serve()
    arguments = parsed()
    start, models = Process, dict.fromkeys(KINDS, arguments.model)
    if arguments.ray:
        import ray
        import tenon.ray
        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False, logging_level="warning")
        stored = tenon.ray.put_model(arguments.model)
        start, models = Actor, {"shared": stored, "apart": stored, "onnxruntime": arguments.model}
    names = ("first start, ms", "next starts, ms", "memory of all, MiB", "memory of each, MiB")
    figures = {kind: {name: [] for name in names} for kind in KINDS}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for _ in range(arguments.rounds):
            for kind in KINDS:
                starts, memory = measured(start, kind, models[kind], arguments, os.path.join(folder, "packed"))
                values = (starts[0], statistics.median(starts[1:]), sum(memory) / 2**20, statistics.median(memory) / 2**20)
                for figure, value in zip(figures[kind].values(), values):
                    figure.append(value)
    where = "actors of Ray" if arguments.ray else "processes"
    print(f"{pathlib.Path(arguments.model).name}: {arguments.processes} {where}, {arguments.threads} threads each, medians of "
          f"{arguments.rounds} rounds")
    print(f"{'':20}" + "".join(f"{kind:>12}" for kind in KINDS) + f"{'ratio':>8}")
    for name in names:
        medians = [statistics.median(figures[kind][name]) for kind in KINDS]
        print(f"{name:20}" + "".join(f"{median:12.1f}" for median in medians) + f"{medians[0] / medians[-1]:8.2f}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
