#!/usr/bin/env python3
"""Times one generated model for each operator family in Tenon and in ONNX Runtime, and prints the ratios.

    bench/families.py [--only REGEX] [--threads 1 2] [--rounds N] [--build build/release] [--below 0.8] [--json FILE]

The cases are in bench/family_cases.py: a node or a few, the sizes of real models, run-time inputs. Both engines run in
turns in one process on the same bytes with their outputs kept from run to run, and the first results are compared before
anything is timed. With one thread a figure is the CPU time of the thread, which other load on the machine hardly moves;
with more, wall time. Figures are medians in microseconds, or with --least the shortest runs, for a machine that is not
quiet. `ratio` is ONNX Runtime's time divided by Tenon's: above 1, Tenon is faster. `kernel`, with --kernels, is the
longest kernel of Tenon's run. Where ONNX Runtime has no kernel, its column says so.
"""
import argparse
import collections
import ctypes
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import ml_dtypes
import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402
import family_cases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Numbers of onnx.TensorProto for the types of the cases.
NUMBERS = {name: number for name, number in compare.ONNX_TYPE.items()} | {
    "bfloat16": 16, "uint16": 4, "int16": 5, "uint32": 12, "uint64": 13}
DTYPES = {number: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name, number in NUMBERS.items()}


class Tenon:
    """A session with bound inputs in libtenon_bench.so."""

    def __init__(self, library, path, feeds, threads):
        self.library, self.feeds = library, feeds
        self.handle = ctypes.c_void_p(library.tenon_bench_load(str(path).encode(), threads))
        if not self.handle:
            raise RuntimeError(library.tenon_bench_error().decode())
        for name, value in feeds.items():
            dims = (ctypes.c_int64 * max(1, value.ndim))(*value.shape)
            self.check(library.tenon_bench_input(self.handle, name.encode(), NUMBERS[value.dtype.name], dims, value.ndim,
                                                 value.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(value.nbytes)))

    def __del__(self):
        if self.handle:
            self.library.tenon_bench_free(self.handle)

    def check(self, result):
        if result < 0:
            raise RuntimeError(self.library.tenon_bench_error().decode())

    def run(self):
        self.check(self.library.tenon_bench_run(self.handle, 1))

    def outputs(self):
        for index in range(self.library.tenon_bench_output_count(self.handle)):
            kind, data, dims = ctypes.c_int(), ctypes.c_void_p(), (ctypes.c_int64 * 12)()
            rank = self.library.tenon_bench_output(self.handle, index, ctypes.byref(kind), dims, ctypes.byref(data))
            if kind.value not in DTYPES:  # strings, sequences and maps are timed, not compared
                yield None
                continue
            dtype, shape = DTYPES[kind.value], tuple(dims[:rank])
            size = math.prod(shape) * dtype.itemsize
            yield np.frombuffer(ctypes.string_at(data, size) if size else b"", dtype).reshape(shape)


class OnnxRuntime:
    def __init__(self, path, feeds, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # Its default int8 path saturates 16-bit sums on AVX2; the exact one is what Tenon computes too.
        options.add_session_config_entry("session.x64quantprecision", "1")
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.values = []
        for name, value in feeds.items():
            if value.dtype == ml_dtypes.bfloat16:
                tensor = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(value.view(np.uint16), 16)
            else:
                tensor = onnxruntime.OrtValue.ortvalue_from_numpy(value)
            self.values.append(tensor)
            self.binding.bind_ortvalue_input(name, tensor)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name, "cpu")

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        for value in self.binding.get_outputs():
            if not value.is_tensor() or value.data_type() == "tensor(string)":
                yield None
            elif value.element_type() == 16:
                shape = value.shape()
                data = ctypes.string_at(value.data_ptr(), 2 * math.prod(shape))
                yield np.frombuffer(data, ml_dtypes.bfloat16).reshape(shape)
            else:
                yield value.numpy()


def difference(ours, theirs):
    """The largest difference over the largest magnitude; infinite where shapes or types differ."""
    worst = 0.0
    for got, want in zip(ours, theirs):
        if got is None or want is None:
            continue
        if got.shape != want.shape or got.dtype != want.dtype:
            return math.inf
        got, want = got.astype(np.float64), want.astype(np.float64)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        scale = max(float(np.abs(want[np.isfinite(want)]).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(np.where(same, 0, got - want)).max(initial=0)) / scale)
    return worst


def timed(engines, threads, rounds, seconds, least):
    """Microseconds of a run of each engine, in turns."""
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    inner = {}
    for name, engine in engines.items():
        engine.run()
        begin = time.perf_counter()
        engine.run()
        # A clock reads in half a microsecond: short runs are timed by the dozen.
        inner[name] = max(1, min(100, int(3e-4 / max(1e-7, time.perf_counter() - begin))))
    samples = {name: [] for name in engines}
    end = time.perf_counter() + seconds
    for turn in range(rounds):
        for name, engine in engines.items():
            if threads > 1:
                compare.quiet(0.2, 0.002)
            engine.run()  # warms caches that the engine before it filled
            begin = clock()
            for _ in range(inner[name]):
                engine.run()
            samples[name].append((clock() - begin) / inner[name] / 1e3)
        if turn >= 4 and time.perf_counter() > end:
            break
    return {name: min(values) if least else statistics.median(values) for name, values in samples.items()}


def longest_kernel(build, path, threads):
    """The kernel in which Tenon spends most of the time, by `tenon bench --profile`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as profile:
        done = subprocess.run([str(build / "bin/tenon"), "bench", str(path), "--threads", str(threads), "--profile",
                               profile.name], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1][:60]
        times = collections.Counter()
        trace = json.loads(pathlib.Path(profile.name).read_text())
        for event in trace if isinstance(trace, list) else trace["traceEvents"]:
            kernel = event.get("args", {}).get("kernel")
            if kernel:
                times[kernel] += event.get("dur", 0)
        return times.most_common(1)[0][0] if times else ""


def measure(case, library, folder, threads, arguments):
    row = {"family": case.family, "case": case.name, "type": case.type, "threads": threads}
    path = folder / "model.onnx"
    feeds = case.save(path)
    engines = {}
    for name, make in (("tenon", lambda: Tenon(library, path, feeds, threads)),
                       ("ort", lambda: OnnxRuntime(path, feeds, threads))):
        try:
            engine = make()
            engine.run()
            engines[name] = engine
        except Exception as error:  # noqa: BLE001 - an engine's answer is its row
            row[f"{name}_error"] = str(error).strip().splitlines()[0][:300]
    if len(engines) == 2 and not case.random:
        row["error"] = difference(engines["tenon"].outputs(), engines["ort"].outputs())
    row |= {f"{name}_us": value for name, value in
            timed(engines, threads, arguments.rounds, arguments.seconds, arguments.least).items()}
    if len(engines) == 2:
        row["ratio"] = row["ort_us"] / row["tenon_us"]
    if arguments.kernels and "tenon" in engines:
        row["kernel"] = longest_kernel(arguments.build, path, threads)
    return row


def cell(row, engine):
    if f"{engine}_us" in row:
        return f"{row[f'{engine}_us']:.1f}"
    missing = re.search(r"NOT_IMPLEMENTED|not implemented|Could not find an implementation|not a registered|"
                        r"INVALID_GRAPH|not supported", row.get(f"{engine}_error", ""))
    return "no kernel" if missing else "fails"


def line(row):
    ratio = f"{row['ratio']:.2f}" if "ratio" in row else "-"
    error = f"{row['error']:.0e}" if "error" in row else "-"
    kernel = f" {row['kernel']} |" if "kernel" in row else ""
    return (f"| {row['family']} | {row['case']} | {row['type']} | {row['threads']} | {cell(row, 'tenon')} | "
            f"{cell(row, 'ort')} | {ratio} | {error} |{kernel}")


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def family_table(rows):
    """One row for each family: the mean of its cases and the slowest one, for each number of threads."""
    threads = sorted({row["threads"] for row in rows})
    print("\n| family | cases |" + "".join(f" ratio, {count} thread(s) | slowest case |" for count in threads))
    print("|" + " --- |" * (2 + 2 * len(threads)))
    for family in dict.fromkeys(row["family"] for row in rows):
        cells, cases = [], 0
        for count in threads:
            both = [row for row in rows if row["family"] == family and row["threads"] == count and "ratio" in row]
            cases = len(both)
            if both:
                worst = min(both, key=lambda row: row["ratio"])
                cells += [f"{geometric_mean([row['ratio'] for row in both]):.2f}",
                          f"{worst['ratio']:.2f} {worst['case']} {worst['type']}"]
            else:
                cells += ["-", "-"]
        print(f"| {family} | {cases} | " + " | ".join(cells) + " |")
    print()


def summary(rows, mark):
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["threads"] == threads and "ratio" in row]
        if not ratios:
            continue
        mean = geometric_mean(ratios)
        alone = sum("tenon_us" in row and "ort_us" not in row for row in rows if row["threads"] == threads)
        print(f"{threads} thread(s): {len(ratios)} cases in both, geometric mean {mean:.2f}, "
              f"{sum(ratio < mark for ratio in ratios)} below {mark}; {alone} in Tenon alone")


def load_library(build):
    library = ctypes.CDLL(str(build / "lib/libtenon_bench.so"))
    library.tenon_bench_error.restype = ctypes.c_char_p
    library.tenon_bench_load.restype = ctypes.c_void_p
    library.tenon_bench_run.restype = ctypes.c_double
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--only", default="", help="regular expression that family, case and type must match")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one case at most, after five rounds")
    parser.add_argument("--least", action="store_true", help="shortest runs instead of medians")
    parser.add_argument("--kernels", action="store_true", help="name Tenon's longest kernel")
    parser.add_argument("--below", type=float, help="print only the rows whose ratio is below this one")
    parser.add_argument("--list", action="store_true", help="print the cases and run none")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows there")
    arguments = parser.parse_args()
    cases = [case for case in family_cases.cases()
             if re.search(arguments.only, f"{case.family} {case.name} {case.type}")]
    if not cases:
        parser.error(f"no case matches {arguments.only}")
    if arguments.list:
        for case in cases:
            print(f"{case.family}: {case.name} {case.type}")
        return
    library = load_library(arguments.build)
    rows = []
    print("| family | case | type | threads | Tenon us | ORT us | ratio | error |" + (" kernel |" if arguments.kernels else ""))
    print("|" + " --- |" * (9 if arguments.kernels else 8))
    with tempfile.TemporaryDirectory() as folder:
        for threads in arguments.threads:
            for case in cases:
                row = measure(case, library, pathlib.Path(folder), threads, arguments)
                rows.append(row)
                if arguments.below is None or row.get("ratio", 0 if "tenon_us" not in row else 1) < arguments.below:
                    print(line(row), flush=True)
    family_table(rows)
    summary(rows, arguments.below or 0.8)
    for row in rows:
        if "tenon_error" in row:
            print(f"{row['case']} {row['type']}, Tenon: {row['tenon_error']}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpus": os.cpu_count(), "onnx": onnx.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
