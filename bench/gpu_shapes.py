#!/usr/bin/env python3
"""Measures input shapes that are new to a model on a CUDA device: the first run of each of many sizes, and
later ones, by Tenon's EP in a stock onnxruntime (choices by measurement, then without) and by onnxruntime-gpu's CUDA
EP (exhaustive and heuristic search) where it is installed. Each is a process of its own with empty caches; they go through
the sizes in turns.

    gpu_shapes.py MODEL.onnx --plugin build/release/lib/libtenon_ep_cuda.so [--ort-gpu-site FOLDER] [--sizes 16] [--seed 3]

MODEL has one image [N,3,H,W] as its input, as ppocr_v6_det: sizes are random multiples of 32 from 160 to 928. Inputs and
outputs stay on the device. Prints a table; milliseconds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

RIVALS = {"Tenon's EP": {}, "Tenon's EP, HEURISTIC": {"cudnn_conv_algo_search": "HEURISTIC"},
          "onnxruntime-gpu": {"cudnn_conv_algo_search": "EXHAUSTIVE"},
          "onnxruntime-gpu, HEURISTIC": {"cudnn_conv_algo_search": "HEURISTIC"}}
LATER = 12


def work(model, plugin, options):
    """Answers each size on stdin with its first and its later milliseconds."""
    import numpy
    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    chosen = onnxruntime.SessionOptions()
    if plugin:
        onnxruntime.register_execution_provider_library("tenon_cuda", plugin)
        devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == "TenonCudaExecutionProvider"][:1]
        chosen.add_provider_for_devices(devices, options)
        session = onnxruntime.InferenceSession(model, chosen)
    else:
        session = onnxruntime.InferenceSession(model, chosen, providers=[("CUDAExecutionProvider", options)])
        assert session.get_providers()[0] == "CUDAExecutionProvider", "the CUDA EP did not load"
    print("ready", flush=True)
    for line in sys.stdin:
        image = onnxruntime.OrtValue.ortvalue_from_numpy(
            numpy.random.default_rng(0).random((1, 3, *json.loads(line)), numpy.float32), "cuda", 0)
        binding = session.io_binding()
        binding.bind_ortvalue_input(session.get_inputs()[0].name, image)
        binding.bind_output(session.get_outputs()[0].name, "cuda", 0)
        times = []
        for _ in range(1 + LATER):
            begin = time.perf_counter()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            times.append((time.perf_counter() - begin) * 1e3)
        print(json.dumps(times), flush=True)


def start(name, arguments):
    tenon = name.startswith("Tenon")
    environment = dict(os.environ)
    if not tenon:
        environment["PYTHONPATH"] = f"{arguments.ort_gpu_site}:{environment.get('PYTHONPATH', '')}"
    command = [sys.executable, __file__, str(arguments.model), "--work", json.dumps(RIVALS[name])]
    process = subprocess.Popen([*command, "--plugin", str(arguments.plugin)] if tenon else command, env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process if process.stdout.readline() == "ready\n" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--plugin", type=pathlib.Path)
    parser.add_argument("--ort-gpu-site", type=pathlib.Path, help="the folder that has onnxruntime-gpu's onnxruntime/")
    parser.add_argument("--sizes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is not None:
        work(str(arguments.model), str(arguments.plugin.resolve()) if arguments.plugin else None, arguments.work)
        return
    import numpy
    sizes = numpy.random.default_rng(arguments.seed).integers(5, 30, (arguments.sizes, 2)) * 32
    names = [name for name in RIVALS if name.startswith("Tenon") or arguments.ort_gpu_site]
    running = {name: start(name, arguments) for name in names}
    rows = {name: [] for name in names}
    for size in dict.fromkeys(tuple(map(int, size)) for size in sizes):  # each once
        for name, process in running.items():
            if process is None:
                continue
            process.stdin.write(json.dumps(size) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if line:
                rows[name].append(json.loads(line))
            else:
                running[name] = None
    print("| EP | first size | first run of others, median | longest | later runs, median |\n| --- | --- | --- | --- | --- |")
    for name in names:
        if running[name] is None:
            print(f"| {name} | failed | | | |")
            continue
        first, *others = [times[0] for times in rows[name]]
        later = statistics.median(statistics.median(times[2:]) for times in rows[name])
        print(f"| {name} | {first:.0f} | {statistics.median(others):.0f} | {max(others):.0f} | {later:.2f} |")
    for process in filter(None, running.values()):
        process.stdin.close()
        process.wait(30)


if __name__ == "__main__":
    main()
