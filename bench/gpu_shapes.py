#!/usr/bin/env python3
"""Measures input shapes that are new to a session on a CUDA device: the first run of each of many sizes, and later ones, by
Tenon's EP in our host and in a stock onnxruntime (choices by measurement, then without), and by onnxruntime-gpu's CUDA EP
(exhaustive and heuristic search) where it is installed. Each is a process of its own (bench/gpu_worker.cc) with empty caches;
they go through the sizes in turns. At the end the sizes come again: a session's results have the same bits each time.

    gpu_shapes.py MODEL.onnx --symbols H=160:928:32,W=160:928:32 --worker build/release/bin/gpu_worker
                  --plugin build/release/lib/libtenon_ep_cuda.so [--tenon build/release/lib/libtenon.so]
                  [--ort LIBONNXRUNTIME] [--ort-gpu-site FOLDER] [--sizes 12] [--seed 3]

--symbols has the range and the step of each symbolic size of the model's inputs. Prints a table, in milliseconds.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess

TENON = "TenonCudaExecutionProvider"
LATER = 12
AGAIN = 4  # first runs of sizes that come again beyond what a region keeps


def rivals(args):
    hosts = []
    for name, library in (("Tenon", args.tenon), ("Tenon's EP in onnxruntime", args.ort)):
        if library:
            hosts += [(name + more, library, TENON, option) for more, option in
                      (("", None), (", HEURISTIC", "cudnn_conv_algo_search=HEURISTIC"))]
    if args.ort_gpu_site:
        library = next(iter(sorted(args.ort_gpu_site.glob("onnxruntime/capi/libonnxruntime.so.*"))))
        hosts += [("onnxruntime-gpu" + more, library, "CUDAExecutionProvider", "cudnn_conv_algo_search=" + option)
                  for more, option in (("", "EXHAUSTIVE"), (", HEURISTIC", "HEURISTIC"))]
    return hosts


def start(args, library, ep, option):
    command = [args.worker, "--library", library, "--model", args.model, "--ep", ep]
    command += ["--plugin", args.plugin] if ep == TENON else []
    command += ["--option", option] if option else []
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process if "ready" in json.loads(process.stdout.readline()) else None


def ask(process, runs, sizes):
    process.stdin.write(f"sizes {runs} " + " ".join(f"{name}={size}" for name, size in sizes.items()) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline() or '{"error": "the process ended"}')
    return answer if "error" not in answer else print(answer["error"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--symbols", required=True)
    for name in ("worker", "plugin", "tenon", "ort", "ort-gpu-site"):
        parser.add_argument("--" + name, type=pathlib.Path, required=name in ("worker", "plugin"))
    parser.add_argument("--sizes", type=int, default=12)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    ranges = {}
    for text in args.symbols.split(","):
        name, numbers = text.split("=")
        low, high, step = map(int, numbers.split(":"))
        ranges[name] = range(low, high + 1, step)
    chosen = random.Random(args.seed)
    sizes = []
    while len(sizes) < args.sizes:
        size = {name: chosen.choice(values) for name, values in ranges.items()}
        if size not in sizes:
            sizes.append(size)
    hosts = rivals(args)
    running = {name: start(args, *host) for name, *host in hosts}
    rows, changed = {name: [] for name in running}, {name: 0 for name in running}
    sums = {}
    for turn, size in enumerate(sizes + sizes[:AGAIN]):
        for name, process in running.items():
            answer = ask(process, 1 + LATER, size) if process else None
            if answer is None:
                running[name] = None
                continue
            known = sums.setdefault((name, str(size)), answer["checksum"])
            changed[name] += known != answer["checksum"]
            if turn < len(sizes):
                rows[name].append([us / 1e3 for us in answer["us"]])
    print(f"{args.model.name}, {args.symbols}\n\n| EP | first size | first run of others, median | longest | later runs, "
          "median | sizes whose bits changed |\n| --- | --- | --- | --- | --- | --- |")
    for name, process in running.items():
        if process is None:
            print(f"| {name} | failed | | | | |")
            continue
        first, *others = [times[0] for times in rows[name]]
        later = statistics.median(statistics.median(times[2:]) for times in rows[name])
        print(f"| {name} | {first:.0f} | {statistics.median(others):.0f} | {max(others):.0f} | {later:.2f} "
              f"| {changed[name]} |")
        print("  each: " + " ".join(f"{one:.0f}" for one in others))
        process.stdin.close()
        process.wait(30)


if __name__ == "__main__":
    main()
