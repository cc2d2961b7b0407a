#!/usr/bin/env python3
"""Times models on a CUDA device: Tenon's EP in the onnxruntime that is installed, torch.compile (reduce-overhead), and
ONNX Runtime's own CUDA EP where it is installed. Inputs and outputs stay on the device, a run ends with a wait for it,
and the rivals take turns, so that a change of clocks meets all of them.

    gpu.py MODEL.onnx... --plugin build/release/lib/libtenon_ep_cuda.so [--runs 60] [--cache FILE] [--no-torch]

One JSON line a model: medians and spreads in microseconds, how long Tenon's session took to make, and the largest
difference of its outputs from those of ONNX Runtime's CPU EP, relative to the largest magnitude. torch.compile runs the
torchvision or transformers model that a file's name says (bench/export_models.py), with random weights of its own.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime as ort

import export_models

NVIDIA = 0x10DE
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}


def make_feeds(session):
    rng = np.random.default_rng(1)
    feeds = {}
    for value in session.get_inputs():
        dtype = TYPES[value.type]
        if dtype is np.int64:
            feeds[value.name] = np.ones(value.shape, dtype) if "mask" in value.name else np.zeros(value.shape, dtype)
            if value.name == "input_ids":
                feeds[value.name] = rng.integers(0, 30000, value.shape)
        else:
            feeds[value.name] = rng.standard_normal(value.shape).astype(dtype)
    return feeds


def bound_run(session, feeds, outputs, place):
    """A function that runs once, on values that stay on the device."""
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, *place))
    for value, reference in zip(session.get_outputs(), outputs):
        result = ort.OrtValue.ortvalue_from_shape_and_type(list(reference.shape), reference.dtype.type, *place)
        binding.bind_ortvalue_output(value.name, result)

    def run():
        session.run_with_iobinding(binding)

    return run


def tenon_session(path, args):
    devices = [d for d in ort.get_ep_devices() if d.ep_name == "TenonCudaExecutionProvider"]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    settings = {"algorithm_cache": args.cache} if args.cache else {}
    options.add_provider_for_devices(devices[:1], settings)
    start = time.perf_counter()
    return ort.InferenceSession(str(path), options), time.perf_counter() - start


def torch_run(path):
    import torch

    name, kind, batch = path.stem.rsplit("_", 2)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    model, inputs, _ = export_models.build(name, int(batch[1:]))
    model, inputs = model.cuda(), [x.cuda() for x in inputs]
    if kind == "f16":
        model, inputs = model.half(), [x.half() if x.is_floating_point() else x for x in inputs]
    compiled = torch.compile(model, mode="reduce-overhead")

    def run():
        with torch.no_grad():
            compiled(*inputs)
        torch.cuda.synchronize()

    return run


def measure(runs, count):
    """Median and spread (10th to 90th percentile) of each, in turns of ten."""
    times = {name: [] for name in runs}
    for name, run in runs.items():
        for _ in range(10):
            run()
    while min(map(len, times.values())) < count:
        for name, run in runs.items():
            for _ in range(10):
                start = time.perf_counter()
                run()
                times[name].append((time.perf_counter() - start) * 1e6)
    result = {}
    for name, values in times.items():
        tenths = statistics.quantiles(values, n=10)
        result[name] = {"median_us": round(statistics.median(values), 1), "p10_us": round(tenths[0], 1),
                        "p90_us": round(tenths[-1], 1)}
    return result


def bench(path, args):
    reference = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = make_feeds(reference)
    expected = reference.run(None, feeds)
    session, created = tenon_session(path, args)
    runs = {}
    error = max(
        float(np.abs(got.astype(np.float32) - want.astype(np.float32)).max() / max(np.abs(want).max(), 1e-30))
        for got, want in zip(session.run(None, feeds), expected))
    runs["tenon"] = bound_run(session, feeds, expected, ("gpu", 0, NVIDIA))
    if "CUDAExecutionProvider" in ort.get_available_providers():
        rival = ort.InferenceSession(str(path), providers=["CUDAExecutionProvider"])
        runs["onnxruntime_cuda"] = bound_run(rival, feeds, expected, ("cuda", 0))
    if args.torch:
        runs["torch_compile"] = torch_run(path)
    times = measure(runs, args.runs)
    return {"model": path.stem, "session_s": round(created, 2), "relative_error": error, **times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--cache", default="", help="where Tenon keeps the algorithms that it has measured")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    args = parser.parse_args()
    ort.register_execution_provider_library("TenonCuda", args.plugin)
    for path in args.models:
        print(json.dumps(bench(path, args)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
