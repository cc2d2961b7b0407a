#!/usr/bin/env python3
"""Times models on a CUDA device, side by side and in turns: Tenon's EP in our host and in a stock onnxruntime (the same
bench/gpu_worker.cc drives both), torch.compile (reduce-overhead), and onnxruntime-gpu's CUDA EP without and with CUDA
graphs (exhaustive search) where it is installed. Each is a process of its own; inputs and outputs stay on the device, and
a run ends with a wait for it. An output present.X is bound over the input past_key_values.X. A rival that fails is named
in its row and stops nothing.

    gpu.py MODEL.onnx... --worker build/release/bin/gpu_worker --plugin build/release/lib/libtenon_ep_cuda.so
           --tenon build/release/lib/libtenon.so [--ort LIBONNXRUNTIME] [--ort-gpu-site FOLDER] [--no-torch]
           [--exact] [--runs 60] [--seconds 360] [--out DIR]

Models are those of bench/export_models.py: a file's name says which torch model is the same one, and x_f16_b1.onnx is
checked against x_f32_b1.onnx beside it, both on ONNX Runtime's CPU EP. One JSON line a model (also in DIR/gpu.jsonl), and
a table, DIR/gpu.md, that is written again after each. Times are medians in microseconds with the 10th and 90th
percentile; the lines also have the time of the call alone (`call_us`), before the wait for the device. `ratio` is the
slower of our two hosts over the fastest rival; `limit_us` what the model takes at least on this device
(bench/gpu_roofline.py), with the device's peaks as torch reaches them here. Sessions are timed in new processes, with an
empty and a filled algorithm cache. With --exact everybody computes float32 models without TF32 (use_tf32=0, torch's
"highest"), and there is no limit_us: how many products of which type that takes is a choice.
"""

import argparse
import contextlib
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import ml_dtypes
import numpy as np
import onnxruntime as ort

import gpu_roofline

HERE = pathlib.Path(__file__).parent
TENON_EP = "TenonCudaExecutionProvider"
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}
KINDS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "int4": np.float16}  # by a file's name
TENON = ("tenon", "tenon in onnxruntime")
RIVALS = ("torch.compile", "onnxruntime-gpu", "onnxruntime-gpu graph")
MARK = 0.85  # of the fastest rival
LIMITS = {"f16": 1e-2, "bf16": 6e-2, "int4": 1e-2, "f32": 1e-3}  # errors relative to the largest magnitude; TF32 is on
EXACT_LIMIT = 1e-4


class Failed(Exception):
    pass


def kind_of(path):
    return path.stem.rsplit("_", 2)[1] if path.stem.count("_") >= 2 else "f32"


class Worker:
    """A process that answers each line with one line of JSON."""

    def __init__(self, command, log, timeout_s, environment=None):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True, env={**os.environ, **(environment or {})})
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.timeout_s = timeout_s
        self.ready = None
        self.failed = None

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def answer(self):
        if self.failed is None:
            try:
                line = self.lines.get(timeout=self.timeout_s)
                result = json.loads(line) if line is not None else {}
                if line is None:
                    self.failed = f"the process ended with {self.process.wait()}"
                elif "error" in result:
                    self.failed = result["error"]
            except queue.Empty:
                self.failed = f"no answer in {self.timeout_s:.0f} s"
                self.end()
            except ValueError:
                self.failed = f"no JSON: {line[:200]!r}"
        if self.failed is not None:
            raise Failed(self.failed)
        return result

    def start(self):
        if self.ready is None:
            self.ready = self.answer()
        return self.ready

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # the answer says why
        return self.answer()

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bench:
    def __init__(self, args):
        self.args = args
        self.out = args.out
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu_bench_"))
        self.log = open(args.out / "gpu.log", "w")
        self.deadline = time.monotonic() + args.seconds
        self.workers = []
        self.torch = {}
        self.peaks = None
        self.rows = []

    def left(self):
        return self.deadline - time.monotonic()

    def worker(self, *command, **environment):
        made = Worker(command, self.log, max(self.left(), 1), environment)
        self.workers.append(made)
        return made

    def close(self):
        for worker in [*self.workers, *self.torch.values()]:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

    # All at once, before anything is timed: compiling takes many seconds of processor time.
    def start_torch(self):
        for path in self.args.models:
            if len(path.stem.rsplit("_", 2)) == 3 and re.search(self.args.torch_for, path.stem):
                command = [sys.executable, HERE / "gpu_worker_torch.py", path.stem, *(["exact"] if self.args.exact else [])]
                self.torch[path] = Worker(command, self.log, self.args.torch_seconds)
        for worker in self.torch.values():
            with contextlib.suppress(Failed):
                worker.start()
                if self.peaks is None and not self.args.exact:
                    self.peaks = worker.ask("peaks")
        if self.peaks is not None:
            self.print({"peaks": {name: f"{value:.4g}" for name, value in self.peaks.items()}})

    def print(self, row):
        line = json.dumps(row)
        print(line, flush=True)
        with open(self.out / "gpu.jsonl", "a") as file:
            file.write(line + "\n")

    def tenon(self, path, host, cache, *more):
        library = self.args.tenon if host == TENON[0] else self.args.ort
        return self.worker(self.args.worker, "--library", library, "--model", path, "--ep", TENON_EP, "--plugin",
                           self.args.plugin, "--option", f"algorithm_cache={cache}", *self.precision(), *more)

    def precision(self):
        return ("--option", "use_tf32=0") if self.args.exact else ()

    def onnxruntime_gpu(self, path, graph):
        found = sorted((self.args.ort_gpu_site / "onnxruntime" / "capi").glob("libonnxruntime.so.*"))
        if not found:
            raise Failed(f"no libonnxruntime.so in {self.args.ort_gpu_site}")
        return self.worker(self.args.worker, "--library", found[0], "--model", path, "--ep", "CUDAExecutionProvider",
                           "--option", "cudnn_conv_algo_search=EXHAUSTIVE", "--option", f"enable_cuda_graph={graph}",
                           *self.precision())

    # Hosts prepare a model differently, and so each has a cache of its own.
    # Seconds to make a session: with nothing cached, then cached, in processes without and with a CUDA context, and once
    # more in the same process. The last worker stays.
    def sessions(self, path, host, cache):
        times = {}
        cache = cache / host.replace(" ", "_") / "algorithms.txt"
        if not cache.exists():
            worker = self.tenon(path, host, cache)
            times["cold"] = worker.start()["session_s"]
            if self.args.quick:
                return worker, times
            worker.end()
        worker = self.tenon(path, host, cache)
        times["warm"] = worker.start()["session_s"]
        worker.end()
        worker = self.tenon(path, host, cache, "--context")
        times["warm_context"] = worker.start()["session_s"]
        times["again"] = min(worker.ask("sessions 2")["session_s"])
        return worker, {name: round(seconds, 3) for name, seconds in times.items()}

    def feeds(self, path, session):
        rng = np.random.default_rng(1)
        folder = self.scratch / "feeds"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        feeds = {}
        for index, value in enumerate(session.get_inputs()):
            dtype = TYPES[value.type]
            if dtype is np.int64:
                array = np.zeros(value.shape, dtype)
                if "mask" in value.name:
                    array[:] = 1
                elif value.name == "input_ids":
                    array = rng.integers(0, 30000, value.shape)
                kept = dtype
            else:
                # What the type has, so that all mean the same input.
                kept = KINDS[kind_of(path)]
                array = rng.standard_normal(value.shape).astype(kept).astype(dtype)
            feeds[value.name] = array
            array.astype(kept).tofile(folder / f"{index}.bin")
        names = {value.name: index for index, value in enumerate(session.get_inputs())}
        (folder / "names.json").write_text(json.dumps(names))
        return folder, feeds

    def error(self, worker, expected, kind):
        folder = self.scratch / "results"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        worker.ask(f"save {folder}")
        worst = 0.0
        for index, want in enumerate(expected):
            if index > 0 and not (folder / f"{index}.bin").exists():
                break  # torch's caches are its inputs
            got = np.fromfile(folder / f"{index}.bin", KINDS[kind]).astype(np.float32)
            if got.size != want.size:
                raise Failed(f"output {index} has {got.size} elements instead of {want.size}")
            difference = np.abs(got - want.astype(np.float32).ravel()).max()
            if not np.isfinite(difference):
                raise Failed(f"output {index} has elements that are no numbers")
            worst = max(worst, float(difference / np.abs(want).max()))
        return worst

    # In turns, so that a change of clocks meets all; the first runs of a turn bring the device back to this process.
    def measure(self, workers):
        times, calls = {name: [] for name in workers}, {name: [] for name in workers}
        while times and min(map(len, times.values())) < self.args.runs:
            for name in list(times):
                try:
                    workers[name].ask("run 3")
                    ran = workers[name].ask("run 10")
                    times[name] += ran["us"]
                    calls[name] += ran.get("call_us", [])
                except Failed as failed:
                    times.pop(name)
                    yield name, {"error": str(failed)}
        for name, values in times.items():
            tenths = statistics.quantiles(values, n=10)
            yield name, {"us": round(statistics.median(values), 1), "p10": round(tenths[0], 1),
                         "p90": round(tenths[-1], 1),
                         **({"call_us": round(statistics.median(calls[name]), 1)} if calls[name] else {})}

    def bench(self, path):
        kind = kind_of(path)
        row = {"model": path.stem + (" exact" if self.args.exact else ""), "results": {}, "session_s": {}}
        # ONNX Runtime's CPU EP has few operators of bfloat16.
        precise = path.with_name(path.name.replace("_f16_", "_f32_").replace("_bf16_", "_f16_"))
        session = ort.InferenceSession(str(precise if precise.exists() else path), providers=["CPUExecutionProvider"])
        row["reference"] = precise.stem if precise.exists() else path.stem
        folder, feeds = self.feeds(path, session)
        expected = session.run(None, feeds)
        row["largest"] = [float(np.abs(want).max()) for want in expected]
        del session
        cache = (self.args.cache or self.scratch) / path.stem
        workers, results = {}, row["results"]

        def join(name, start):
            try:
                worker = start()
                worker.start()
                worker.ask(f"bind {folder}")
                worker.ask("run 10")
                results[name] = {"error_relative": self.error(worker, expected, kind)}
                workers[name] = worker
            except (Failed, OSError) as failed:
                results[name] = {"error": str(failed)}

        def tenon_in(host):
            worker, row["session_s"][host] = self.sessions(path, host, cache)
            return worker

        for host, library in zip(TENON, (self.args.tenon, self.args.ort)):
            if library:
                join(host, lambda host=host: tenon_in(host))
        if path in self.torch:
            join(RIVALS[0], lambda: self.torch[path])
        if self.args.ort_gpu_site:
            for graph, name in enumerate(RIVALS[1:]):
                join(name, lambda graph=graph: self.onnxruntime_gpu(path, graph))
        for name, result in self.measure(workers):
            results[name].update(result)
        for worker in workers.values():
            worker.end()
        if kind == "f32" and self.args.check_exact and not self.args.exact:
            self.check_exact(path, folder, expected, row)
        self.judge(path, row)
        return row

    # Without TF32 only the results are of interest: the first algorithms that fit are used.
    def check_exact(self, path, folder, expected, row):
        try:
            worker = self.tenon(path, TENON[0], "", "--option", "use_tf32=0", "--option",
                                "cudnn_conv_algo_search=HEURISTIC")
            worker.start()
            worker.ask(f"bind {folder}")
            worker.ask("run 1")
            error = self.error(worker, expected, "f32")
            row["exact"] = {"error_relative": error, "good": error <= EXACT_LIMIT}
            worker.end()
        except Failed as failed:
            row["exact"] = {"error": str(failed)}

    def judge(self, path, row):
        kind = kind_of(path)
        results = row["results"]
        ours = [results[name]["us"] for name in TENON if "us" in results.get(name, {})]
        rivals = {name: results[name]["us"] for name in RIVALS if "us" in results.get(name, {})}
        if ours and rivals:
            row["best_rival"] = min(rivals, key=rivals.get)
            row["ratio"] = round(max(ours) / rivals[row["best_rival"]], 3)
            row["fast"] = row["ratio"] <= MARK
        errors = [results[name]["error_relative"] for name in TENON if "error_relative" in results.get(name, {})]
        if errors:
            limit = EXACT_LIMIT if self.args.exact else LIMITS[kind]
            row["good"] = max(errors) <= limit and min(row["largest"]) > 0
        warm = [times["warm"] for times in row["session_s"].values() if "warm" in times]
        if warm:
            row["session_below_1s"] = max(warm) < 1
        with contextlib.suppress(Exception):  # a model whose shapes cannot be inferred has no such column
            found = gpu_roofline.products(path)
            row["gflop"] = round(sum(flops for flops, _ in found) / 1e9, 2)
            row["mbytes"] = round(sum(size for _, size in found) / 1e6, 2)
            flops = "f32_flops" if kind == "f32" else "f16_flops"
            if self.peaks is not None and ours:
                limit = gpu_roofline.limit_us(found, self.peaks[flops],
                                              self.peaks["bytes"])
                row["limit_us"] = round(limit, 1)
                row["share_of_limit"] = round(limit / min(ours), 2)
                row["share_of_flops"] = round(row["gflop"] * 1e15 / min(ours) / self.peaks[flops], 3)
                row["share_of_bandwidth"] = round(row["mbytes"] * 1e12 / min(ours) / self.peaks["bytes"], 3)

    def table(self):
        def cell(row, name):
            result = row["results"].get(name, {})
            if "us" in result:
                return f"{result['us']:.0f} ({result['p10']:.0f}-{result['p90']:.0f})"
            return "failed" if "error" in result else "-"

        def number(value, digits):
            return "-" if value is None else f"{value:.{digits}g}"

        lines = ["| model | Tenon | Tenon in onnxruntime | torch.compile | onnxruntime-gpu | with graph | ratio | error | "
                 "limit us (share) | session s: cold, warm, with context, again |",
                 "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in self.rows:
            errors = [row["results"][name].get("error_relative") for name in TENON if name in row["results"]]
            errors = [error for error in errors if error is not None]
            times = row["session_s"]
            lines.append("| " + " | ".join([
                row["model"], *(cell(row, name) for name in (*TENON, *RIVALS)), number(row.get("ratio"), 3),
                number(max(errors, default=None), 2),
                f"{row['limit_us']:.0f} ({row['share_of_limit']:.2f})" if "limit_us" in row else "-",
                "; ".join(", ".join(str(times[host].get(name, "-")) for name in
                                    ("cold", "warm", "warm_context", "again")) for host in TENON if host in times),
            ]) + " |")
        (self.out / "gpu.md").write_text("\n".join(lines) + "\n")

    def run(self):
        if self.args.torch:
            self.start_torch()
        for path in self.args.models:
            if self.left() < 10:
                self.print({"model": path.stem, "error": "no time is left"})
                continue
            try:
                row = self.bench(path)
            except Exception as error:  # one model does not stop the others
                self.print({"model": path.stem, "error": f"{type(error).__name__}: {error}"})
                continue
            finally:
                for worker in self.workers:
                    if worker.process.poll() is None:
                        worker.process.kill()
                        worker.process.wait()
                self.workers.clear()
            self.rows.append(row)
            self.print(row)
            self.table()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    installed = sorted((pathlib.Path(ort.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--worker", required=True, type=pathlib.Path)
    parser.add_argument("--plugin", required=True, type=pathlib.Path)
    parser.add_argument("--tenon", type=pathlib.Path, help="our host, libtenon.so")
    parser.add_argument("--ort", type=pathlib.Path, default=installed[0] if installed else None,
                        help="the stock host; default: of the onnxruntime package that is installed")
    parser.add_argument("--ort-gpu-site", type=pathlib.Path, help="the folder that has onnxruntime-gpu's onnxruntime/")
    parser.add_argument("--no-ort", dest="ort", action="store_const", const=None, help="the stock host is left out")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--torch-for", default="", help="torch runs the models whose names have this expression")
    parser.add_argument("--quick", action="store_true", help="sessions are made once, with an empty cache")
    parser.add_argument("--exact", action="store_true", help="everybody computes without TF32")
    parser.add_argument("--no-exact", dest="check_exact", action="store_false", help="no results without TF32 are checked")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=360, help="no model is begun after this")
    parser.add_argument("--torch-seconds", type=float, default=150, help="for compiling")
    parser.add_argument("--cache", type=pathlib.Path, help="where algorithms stay between runs; default: nowhere")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    args = parser.parse_args()
    for name in ("worker", "plugin", "tenon", "ort", "ort_gpu_site", "cache"):
        if getattr(args, name):
            setattr(args, name, getattr(args, name).resolve())
    args.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = Bench(args)
    try:
        bench.run()
    finally:
        bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
