"""Measures the times of single runs in real time, beside stock ONNX Runtime, in one process (bench/latency.cc).

    bench/latency.py [--build build/release] [--stock LIBONNXRUNTIME] [--runs N] [--json FILE]

silero_vad hears chunks of 32 ms and keeps its state, nsnet2 gets one frame a run. One thread each; blocks of 500 runs in
turns. p50, p99, p99.9 and the maximum are of all runs but those that warm the caches at a block's begin.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import abi_call

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = {
    "silero_vad": ["input:f32:1x576", "sr:i64:", "--", "stateN=state:2x1x128"],
    "nsnet2": ["input:f32:1x1x161"],
}
COLUMNS = (("p50_us", "p50"), ("p99_us", "p99"), ("p999_us", "p99.9"), ("max_us", "max"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--stock", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    library = arguments.stock or abi_call.stock_library()
    models = ROOT / "build/models"
    subprocess.run([sys.executable, ROOT / "tools/fetch_models.py", "--output", models, *JOBS], check=True)
    rows = {"stock": library.name}
    print(f"us a run, {arguments.runs} runs of each; {library.name}")
    print(f"{'':28}" + "".join(f"{title:>10}" for _, title in COLUMNS))
    for model, job in JOBS.items():
        done = subprocess.run([arguments.build / "bin/latency", models / f"{model}.onnx", library, str(arguments.runs),
                               *job], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr or done.stdout)
        rows[model] = json.loads(done.stdout)
        for engine in ("tenon", "onnxruntime"):
            row = rows[model][engine]
            print(f"{model + ', ' + engine:28}" + "".join(f"{row[key]:10.1f}" for key, _ in COLUMNS))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
