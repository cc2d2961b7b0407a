"""Times imports and EP boundaries through the C ABI, in Tenon beside stock onnxruntime with the same plugin, interleaved.

    bench/interop.py [--build build/release] [--stock LIBONNXRUNTIME ...] [--plugin NAME=LIBRARY] [--rounds N] [--json FILE]

Each round runs every host once, in a process of its own; the median over the rounds of each figure is printed, with the
smallest and the largest. Needs no package; without --stock, the library of this Python's onnxruntime package is taken
where there is one. A round takes about a second a host.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LABELS = {
    "import_memory": "import 64 KiB, tensor, release both",
    "import_semaphore": "import a shared timeline, release",
    "run_9_nodes_of_the_ep": "run, 9 nodes of the EP",
    "run_1_node_of_the_ep": "run, 1 node of the EP",
    "run_1_node_of_the_cpu": "run, 1 node of the CPU EP",
    "run_9_nodes_8_boundaries": "run, 9 nodes, 8 boundaries",
    "boundary_us": "one boundary between the EPs",
}
UNITS = {"p50_us": "p50, us", "p99_us": "p99, us", "fds_left": "fds left", "kib_left": "KiB left", "": "us"}


def stock_hosts():
    try:
        import onnxruntime
    except ImportError:
        return []
    return list((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))


def samples_of(program, hosts, arguments):
    """By host as it names itself: a list of values for each figure."""
    samples = {}
    for _ in range(arguments.rounds):
        for host in hosts:
            done = subprocess.run([program, host, "--plugin", arguments.plugin, "--imports", str(arguments.imports),
                                   "--runs", str(arguments.runs)], capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                sys.exit(f"{host}: {done.stderr or done.stdout}")
            figures = json.loads(done.stdout)
            of_host = samples.setdefault(figures["host"], {})
            for name, value in figures.items():
                for key, number in value.items() if isinstance(value, dict) else [("", value)]:
                    if isinstance(number, (int, float)):
                        of_host.setdefault((name, key), []).append(number)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--stock", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--plugin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--imports", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.plugin = arguments.plugin or f"sim={arguments.build / 'lib/libtenon_ep_sim.so'}"
    hosts = [arguments.build / "lib/libtenon.so", *(arguments.stock or stock_hosts())]
    samples = samples_of(arguments.build / "bin/tenon_bench_interop", hosts, arguments)
    result = {"cpus": os.cpu_count(), "rounds": arguments.rounds, "imports": arguments.imports, "hosts": {}}
    for host, figures in samples.items():
        result["hosts"][host] = {
            f"{name} {key}".strip(): {"median": statistics.median(values), "min": min(values), "max": max(values)}
            for (name, key), values in figures.items()}
    print(f"median of {arguments.rounds} rounds (smallest to largest); {arguments.imports} imports, {arguments.runs} runs")
    print(f"{'':50}" + "".join(f"{host:>34}" for host in result["hosts"]))
    for name, key in next(iter(samples.values())):
        if name.startswith("run") and key in ("fds_left", "kib_left"):
            continue
        cells = [result["hosts"][host][f"{name} {key}".strip()] for host in samples]
        label = f"{LABELS.get(name, name)}; {UNITS[key]}"
        print(f"{label:50}" + "".join(f"{c['median']:.2f} ({c['min']:.2f} to {c['max']:.2f})".rjust(34) for c in cells))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
