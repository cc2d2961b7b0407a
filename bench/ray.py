#!/usr/bin/env python3
"""Times Ray Data over Tenon and over onnxruntime, beside a plain loop of each engine, in one run.

    ./dev ray bench [MODEL] [--dim NAME=SIZE] [--rows N] [--batch N] [--cpus N] [--rounds N] [--json FILE] [--limits]

The engine onnxruntime is written as Ray's documentation shows batch inference: a class that makes a session of a path in
its constructor, and runs it on a batch of numpy arrays. Tenon is tenon.ray.put_model and tenon.ray.Predictor over Arrow
batches. Both have one actor with `--cpus` CPUs and so many threads, and the same blocks, which lie in the object store
before the clock starts. A plain loop runs the same batches in this process, with so many threads, without Ray.

A round is each of the four in turn. The figures are rows per second, and rows per second of CPU time (of all threads of the
process that runs the session, Ray's among them), which other load on the machine hardly moves: medians of the rounds. For
Ray they count from the end of the actor's first batch to that of its last, so the start of its process is not in them.
`ratio` is Tenon's figure divided by onnxruntime's: above 1, Tenon is faster. `of plain` is Ray's figure divided by that of
the plain loop. With --limits the program fails where Ray's ratio is below 0.95 of the plain loops', or Tenon's `of plain`
below 0.9, in CPU time.

Without MODEL it is a small convolutional network on images of 3x96x96. The inputs of a MODEL have rows in their first
dimension; the others are numbers or given by --dim.
"""
import argparse
import json
import logging
import os
import pathlib
import statistics
import sys
import tempfile
import time

# This file is called ray.py, too.
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if pathlib.Path(folder or ".").resolve() != HERE]
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import pyarrow as pa  # noqa: E402
import ray  # noqa: E402
import ray.data  # noqa: E402
import tenon  # noqa: E402
import tenon.ray  # noqa: E402

NUMPY_TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}


def network():
    """Four convolutions with strides, a mean and a product: 34 million multiplications for an image."""
    from onnx import TensorProto, helper, numpy_helper
    random, nodes, weights, name, channels = np.random.default_rng(0), [], [], "image", 3
    for i, wide in enumerate([32, 64, 128, 256]):
        weights.append(numpy_helper.from_array(random.standard_normal((wide, channels, 3, 3), np.float32) * 0.1, f"w{i}"))
        nodes.append(helper.make_node("Conv", [name, f"w{i}"], [f"c{i}"], strides=[2, 2], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        name, channels = f"r{i}", wide
    weights.append(numpy_helper.from_array(random.standard_normal((channels, 1000), np.float32) * 0.1, "w"))
    nodes += [helper.make_node("GlobalAveragePool", [name], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"]),
              helper.make_node("Gemm", ["flat", "w"], ["scores"])]
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 96, 96])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 1000])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def timed_batch(result):
    """Adds to each row when its batch was ready, by the clock and in CPU time of the process: all that the figures need."""
    count = result.num_rows if isinstance(result, pa.Table) else len(next(iter(result.values())))
    times = {"end": np.full(count, time.monotonic()), "cpu": np.full(count, time.process_time())}
    if isinstance(result, pa.Table):
        for name, column in times.items():
            result = result.append_column(name, pa.array(column))
        return result
    return {**result, **times}


class OnnxRuntime:
    def __init__(self, path, inputs, outputs, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs, self.outputs = inputs, outputs

    def __call__(self, batch):
        results = self.session.run(self.outputs, {name: batch[name] for name in self.inputs})
        return timed_batch(dict(zip(self.outputs, results)))


class Tenon(tenon.ray.Predictor):
    def __call__(self, batch):
        result = super().__call__(batch)
        if self.counters.bytes_copied:
            raise RuntimeError(f"{self.counters.bytes_copied} bytes of inputs were copied.")
        return timed_batch(result)


def steady(tables, rows):
    """Rows per second, and per second of CPU time, between the end of the actor's first batch and the end of its last one."""
    end, cpu = (np.concatenate([np.asarray(table[name]) for table in tables]) for name in ("end", "cpu"))
    if len(end) != rows:
        raise RuntimeError(f"{len(end)} rows came back of {rows}.")
    counted = (end > end.min()).sum()
    return counted / np.ptp(end), counted / np.ptp(cpu)


def through_ray(data, engine, arguments, path, model, inputs, outputs):
    options = {"batch_size": arguments.batch, "compute": ray.data.ActorPoolStrategy(size=1), "num_cpus": arguments.cpus}
    if engine == "tenon":
        done = data.map_batches(Tenon, fn_constructor_args=[model], batch_format="pyarrow", zero_copy_batch=True,
                                fn_constructor_kwargs={"outputs": outputs, "warm_up": 0}, **options)
    else:
        done = data.map_batches(OnnxRuntime, fn_constructor_args=[path, inputs, outputs, arguments.cpus], batch_format="numpy",
                                zero_copy_batch=True, **options)
    return steady([ray.get(ref) for bundle in done.iter_internal_ref_bundles() for ref in bundle.block_refs], arguments.rows)


def plain_loop(session, batches, outputs, rows):
    begin, cpu = time.monotonic(), time.process_time()
    for batch in batches:
        session.run(outputs, batch)
    return rows / (time.monotonic() - begin), rows / (time.process_time() - cpu)


def made_session(package, path, threads):
    options = package.SessionOptions()
    options.intra_op_num_threads = threads
    return package.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", type=int, default=2048, help="MiB of the object store")
    parser.add_argument("--json")
    parser.add_argument("--limits", action="store_true")
    return parser.parse_args()


def made_batches(session, arguments):
    """Numbers that fit the model's inputs, in batches."""
    dims = dict(entry.split("=", 1) for entry in arguments.dim)
    random, columns = np.random.default_rng(0), {}
    for info in session.get_inputs():
        shape = [arguments.rows, *(dim if isinstance(dim, int) else int(dims[dim]) for dim in info.shape[1:])]
        dtype = NUMPY_TYPES[info.type]
        columns[info.name] = (random.standard_normal(shape, np.float32) if dtype == np.float32
                              else random.integers(0, 2, shape).astype(dtype))
    return [{name: np.ascontiguousarray(column[at:at + arguments.batch]) for name, column in columns.items()}
            for at in range(0, arguments.rows, arguments.batch)]


def table_of(batches):
    from ray.data.extensions import ArrowTensorArray
    return pa.table({name: pa.chunked_array([ArrowTensorArray.from_numpy(batch[name]) for batch in batches]).combine_chunks()
                     for name in batches[0]})


def main():
    arguments = parsed()
    arguments.rows = max(2, arguments.rows // arguments.batch) * arguments.batch
    folder = tempfile.TemporaryDirectory()
    path = arguments.model
    if path is None:
        path = str(pathlib.Path(folder.name) / "network.onnx")
        pathlib.Path(path).write_bytes(network())
    path = str(pathlib.Path(path).resolve())
    sessions = {"tenon": made_session(tenon, path, arguments.cpus), "onnxruntime": made_session(onnxruntime, path, arguments.cpus)}
    batches = made_batches(sessions["tenon"], arguments)
    inputs, outputs = ([info.name for info in infos] for infos in (sessions["tenon"].get_inputs(), sessions["tenon"].get_outputs()))
    results = [session.run(outputs, batches[0]) for session in sessions.values()]
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)

    # One CPU more than the actor has: Ray Data plans its reads and splits there.
    ray.init(num_cpus=arguments.cpus + 1, object_store_memory=arguments.store << 20, log_to_driver=False,
             include_dashboard=False, logging_level="warning")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    size = max(1, len(batches) // 4)  # batches of a block: by default 113 MB, about what Ray aims at
    blocks = [ray.put(table_of(batches[at:at + size])) for at in range(0, len(batches), size)]
    data = ray.data.from_arrow_refs(blocks).materialize()
    model = tenon.ray.put_model(path)

    print(f"{pathlib.Path(path).name}, {arguments.rows} rows in batches of {arguments.batch}, {arguments.cpus} CPUs; ray "
          f"{ray.__version__}, tenon {tenon.__version__}, onnxruntime {onnxruntime.__version__}", flush=True)
    figures = {(kind, engine): [] for kind in ("plain", "ray") for engine in sessions}
    for _ in range(arguments.rounds):
        for engine, session in sessions.items():
            figures["plain", engine].append(plain_loop(session, batches, outputs, arguments.rows))
        for engine in sessions:
            figures["ray", engine].append(through_ray(data, engine, arguments, path, model, inputs, outputs))
    bad = False
    for which, label in enumerate(["second", "CPU second"]):
        medians = {key: statistics.median(value[which] for value in values) for key, values in figures.items()}
        ratios = {kind: medians[kind, "tenon"] / medians[kind, "onnxruntime"] for kind in ("plain", "ray")}
        of_plain = {engine: medians["ray", engine] / medians["plain", engine] for engine in sessions}
        print(f"rows per {label:12} {'tenon':>8} {'onnxruntime':>12} {'ratio':>6}")
        for kind in ("plain", "ray"):
            print(f"{kind:21} {medians[kind, 'tenon']:8.0f} {medians[kind, 'onnxruntime']:12.0f} {ratios[kind]:6.2f}")
        print(f"{'of plain':21} {of_plain['tenon']:8.2f} {of_plain['onnxruntime']:12.2f} {ratios['ray'] / ratios['plain']:6.2f}")
        bad = ratios["ray"] < 0.95 * ratios["plain"] or of_plain["tenon"] < 0.9
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({
            "model": pathlib.Path(path).name, "rows": arguments.rows, "batch": arguments.batch, "cpus": arguments.cpus,
            "rows_per_second": {f"{kind} {engine}": values for (kind, engine), values in figures.items()}}, indent=1))
    ray.shutdown()
    return 1 if arguments.limits and bad else 0


if __name__ == "__main__":
    sys.exit(main())
