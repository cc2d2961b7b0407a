"""Times imports and EP boundaries through the C ABI, in Tenon beside stock onnxruntime with the same plugin, interleaved.

    bench/interop.py --plugin sim=build/release/lib/libtenon_ep_sim.so [--host LIBRARY ...] [--rounds N] [--json FILE]

Each round runs every host once, in a process of its own; the median over the rounds of each figure is printed, with the
smallest and the largest. Stock hosts: the onnxruntime package of this Python, and those given with --host.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"


def stock_host():
    try:
        import onnxruntime
    except ImportError:
        return []
    return [str(path) for path in (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", default=f"sim={BUILD / 'lib/libtenon_ep_sim.so'}")
    parser.add_argument("--host", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--imports", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json")
    options = parser.parse_args()
    hosts = [str(BUILD / "lib/libtenon.so"), *stock_host(), *options.host]
    sizes = ["--imports", str(options.imports), "--runs", str(options.runs)]
    samples = {}
    for _ in range(options.rounds):
        for host in hosts:
            done = subprocess.run([str(BUILD / "bin/tenon_bench_interop"), host, "--plugin", options.plugin, *sizes],
                                  capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                sys.exit(f"{host}: {done.stderr or done.stdout}")
            figures = json.loads(done.stdout)
            for name, value in figures.items():
                for key, number in (value.items() if isinstance(value, dict) else [("", value)]):
                    if isinstance(number, (int, float)):
                        samples.setdefault(figures["host"], {}).setdefault(f"{name} {key}".strip(), []).append(number)
    result = {"machine": platform.processor() or platform.machine(), "rounds": options.rounds, "hosts": {}}
    for host, figures in samples.items():
        result["hosts"][host] = {name: {"median": statistics.median(values), "min": min(values), "max": max(values)}
                                 for name, values in figures.items()}
    names = next(iter(result["hosts"].values()))
    print(f"{'':40}" + "".join(f"{host:>34}" for host in result["hosts"]))
    for name in names:
        cells = [result["hosts"][host][name] for host in result["hosts"]]
        print(f"{name:40}" + "".join(f"{c['median']:>14.2f} ({c['min']:.2f} to {c['max']:.2f})".rjust(34) for c in cells))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
