#!/usr/bin/env python3
"""Times calls of packages from PyPI over Tenon and over onnxruntime, and compares their answers.

    bench/python_packages.py [PACKAGE ...] [--seconds 3] [--rounds 3]

The packages are those of tests/python/drive_packages.py that are installed. Each round starts a process for each engine in
turn; a figure is the median of the rounds' medians, in milliseconds for one call of the package (its own work before and
after the model included). `ratio` is onnxruntime's time divided by Tenon's: above 1, Tenon is faster. Threads are the
packages' own choice: OMP_NUM_THREADS and taskset choose for both.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

DRIVER = pathlib.Path(__file__).resolve().parent.parent / "tests/python/drive_packages.py"
sys.path.insert(0, str(DRIVER.parent))


def measured(package, seconds, *before):
    done = subprocess.run([sys.executable, *before, str(DRIVER), package, str(seconds)], capture_output=True, text=True,
                          env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"})
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    from drive_packages import PACKAGES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{'package':12} {'tenon ms':>10} {'onnxruntime ms':>15} {'ratio':>6}  answers")
    for package in arguments.packages:
        ours, theirs = [], []
        try:
            for _ in range(arguments.rounds):
                ours.append(measured(package, arguments.seconds, "-m", "tenon.as_onnxruntime"))
                theirs.append(measured(package, arguments.seconds))
        except RuntimeError as error:
            print(f"{package:12} {error}")
            continue
        left, right = (statistics.median(run["ms"] for run in runs) for runs in (ours, theirs))
        same = "the same" if ours[0]["answer"] == theirs[0]["answer"] else "DIFFERENT"
        print(f"{package:12} {left:10.2f} {right:15.2f} {right / left:6.2f}  {same}", flush=True)


if __name__ == "__main__":
    main()
