#!/usr/bin/env python3
"""Times a model whose inputs have another size in each run, beside ONNX Runtime, and the memory that both keep.

    bench/sizes.py MODEL.onnx DIM=FIRST:LAST[:STEP] ... [--value INPUT=NUMBER,DIM,...] [--threads 1 2] [--runs 24] [--json FILE]

DIM is a symbolic dimension as the model names it, which grows from FIRST by STEP (1) a run, up to LAST; others are 1. Inputs
are random: floats from 0 to 1, integers from 1 to 19. --value gives an input the numbers that it needs, each a number or the
size of a DIM: a speech model takes `--value input_lengths=phonemes --value scales=0,1,0`.

Of the first round every size is new to the session, of the second none. Both packages run the same inputs in turns in one
process. `new` and `again` are medians of milliseconds; `ratio` is the median of ONNX Runtime's time by Tenon's, run by run:
above 1, Tenon is faster. `MB` is what a process of its own has resident after the first round and at most: Tenon, ONNX Runtime.
Tenon is the package that the interpreter imports: pip install ., or PYTHONPATH=build/test/python.
"""
import argparse
import importlib
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np  # noqa: E402

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_}
TYPES |= {f"tensor({sign}int{bits})": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)}


def session_of(package, model, threads):
    made = importlib.import_module(package).SessionOptions()
    made.intra_op_num_threads, made.log_severity_level = threads, 4
    return importlib.import_module(package).InferenceSession(str(model), made, providers=["CPUExecutionProvider"])


def sizes_at(options, run):
    return {name: min(first + run * step, last) for name, (first, last, step) in options.dims.items()}


def feed_of(inputs, options, run):
    sizes, random, feed = sizes_at(options, run), np.random.default_rng(run), {}
    for each in inputs:
        kind = TYPES[each.type]
        if each.name in options.values:
            feed[each.name] = np.array([sizes[word] if word in sizes else float(word) for word in options.values[each.name]], kind)
            continue
        shape = [dim if isinstance(dim, int) else sizes.get(dim, 1) for dim in each.shape]
        feed[each.name] = random.random(shape).astype(kind) if np.issubdtype(kind, np.floating) else random.integers(1, 20, shape).astype(kind)
    return feed


def megabytes(field):
    return int(re.search(rf"{field}:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) / 1024


def memory(package, options, threads):
    """What a process that runs each size once keeps, and its peak."""
    command = [sys.executable, __file__, *sys.argv[1:], "--memory-of", package, "--threads", str(threads)]
    return [float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2:]]


def measure(options, threads):
    sessions = [session_of(package, options.model, threads) for package in ("tenon", "onnxruntime")]
    feeds = [feed_of(sessions[0].get_inputs(), options, run) for run in range(options.runs + 1)]
    error = 0.0
    for ours, theirs in zip(*(session.run(None, feeds[0]) for session in sessions)):  # loads code and packs weights
        if ours.dtype.kind == "f" and ours.size:
            error = max(error, float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30)))
    rounds = []
    for _ in range(2):
        times = ([], [])
        for feed in feeds[1:]:
            for session, kept in zip(sessions, times):
                begin = time.perf_counter()
                session.run(None, feed)
                kept.append(1e3 * (time.perf_counter() - begin))
        rounds.append({"tenon": statistics.median(times[0]), "onnxruntime": statistics.median(times[1]),
                       "ratio": statistics.median(theirs / ours for ours, theirs in zip(*times))})
    return {"threads": threads, "new": rounds[0], "again": rounds[1], "error": error,
            "memory": {package: memory(package, options, threads) for package in ("tenon", "onnxruntime")}}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", type=pathlib.Path)
    arguments.add_argument("dims", nargs="+")
    arguments.add_argument("--value", action="append", default=[])
    arguments.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    arguments.add_argument("--runs", type=int, default=24)
    arguments.add_argument("--json", type=pathlib.Path)
    arguments.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    bounds = {name: [int(number) for number in text.split(":")] for name, text in (word.rsplit("=", 1) for word in options.dims)}
    options.dims = {name: (*numbers, 1)[:3] if len(numbers) > 1 else (numbers[0], numbers[0], 0) for name, numbers in bounds.items()}
    options.values = {name: text.split(",") for name, text in (word.split("=", 1) for word in options.value)}
    if options.memory_of:
        session = session_of(options.memory_of, options.model, options.threads[0])
        for run in range(options.runs + 1):
            session.run(None, feed_of(session.get_inputs(), options, run))
        print(megabytes("VmRSS"), megabytes("VmHWM"))
        return
    import onnxruntime
    import tenon
    print(f"{platform.processor() or platform.machine()}, onnxruntime {onnxruntime.__version__}, tenon {tenon.__version__}")
    print(f"{'model':20} threads      new      ORT ratio    again      ORT ratio   MB kept/peak   ORT           error")
    rows = []
    for threads in options.threads:
        row = measure(options, threads)
        rows.append(row)
        new, again, (ours, theirs) = row["new"], row["again"], row["memory"].values()
        print(f"{options.model.stem:20} {threads:7} {new['tenon']:8.2f} {new['onnxruntime']:8.2f} {new['ratio']:5.2f} {again['tenon']:8.2f} {again['onnxruntime']:8.2f} {again['ratio']:5.2f}"
              f"   {ours[0]:5.0f}/{ours[1]:<5.0f}   {theirs[0]:5.0f}/{theirs[1]:<5.0f}   {row['error']:.1e}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
