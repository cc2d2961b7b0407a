"""Times Tenon beside ONNX Runtime and OpenVINO on the real models of tests/golden/models.json, or on any files, in one run.

    ./dev bench [MODEL | FILE.onnx ...] [--threads 1 2] [--rounds N] [--size N] [--json FILE]

A file's inputs are random numbers (seed 0), ones for masks, positions in order; dimensions without a number are 1 where they
come first, --size elsewhere. bench/export_models.py writes files of models of torchvision, transformers and timm.

Steady runs are interleaved, engine after engine in every round, in one process with the same input bytes; the first
result of each engine is checked against ONNX Runtime's before anything is timed. With one thread the thread's CPU time is
taken, which other load on the machine hardly moves; with more, wall time, and each engine starts only when the process
is quiet again (ONNX Runtime's idle workers spin for tens of milliseconds after a run). Creation, creation plus first run,
and peak memory come from fresh processes, one an engine and repetition, interleaved too; memory is what the process
gained over its imports. Medians throughout. A ratio above 1 means that Tenon is faster (or smaller).
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import model_inputs  # noqa: E402

ENGINES = ("tenon", "onnxruntime", "openvino")
ONNX_TYPE = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}
FILE_TYPES = {f"tensor({name})": name for name in ("uint8", "int8", "int32", "int64", "bool", "float16")} | {
    "tensor(float)": "float32", "tensor(double)": "float64"}
NUMPY_TYPE = {number: name for name, number in ONNX_TYPE.items()}


class Tenon:
    def __init__(self, path, feeds, threads):
        library = ctypes.CDLL(str(ROOT / "build/release/lib/libtenon_bench.so"))
        library.tenon_bench_error.restype = ctypes.c_char_p
        library.tenon_bench_load.restype = ctypes.c_void_p
        library.tenon_bench_run.restype = ctypes.c_double
        self.library = library
        self.handle = None
        self.feeds = {name: np.ascontiguousarray(value) for name, value in feeds.items()}
        handle = library.tenon_bench_load(str(path).encode(), threads)
        if not handle:
            raise RuntimeError(library.tenon_bench_error().decode())
        self.handle = ctypes.c_void_p(handle)
        for name, value in self.feeds.items():
            dims = (ctypes.c_int64 * max(1, value.ndim))(*value.shape)
            if library.tenon_bench_input(self.handle, name.encode(), ONNX_TYPE[str(value.dtype)], dims, value.ndim,
                                         value.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(value.nbytes)):
                raise RuntimeError(library.tenon_bench_error().decode())

    def __del__(self):
        if self.handle:
            self.library.tenon_bench_free(self.handle)

    def run(self):
        if self.library.tenon_bench_run(self.handle, 1) < 0:
            raise RuntimeError(self.library.tenon_bench_error().decode())

    def outputs(self):
        result = []
        for index in range(self.library.tenon_bench_output_count(self.handle)):
            kind, data, dims = ctypes.c_int(), ctypes.c_void_p(), (ctypes.c_int64 * 12)()
            rank = self.library.tenon_bench_output(self.handle, index, ctypes.byref(kind), dims, ctypes.byref(data))
            shape = tuple(dims[:rank])
            dtype = np.dtype(NUMPY_TYPE[kind.value])
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            result.append(np.frombuffer(ctypes.string_at(data, size) if size else b"", dtype).reshape(shape))
        return result


class OnnxRuntime:
    def __init__(self, path, feeds, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Its default int8 path saturates 16-bit sums on AVX2; the exact one is what Tenon computes too.
        options.add_session_config_entry("session.x64quantprecision", "1")
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in feeds.values()]
        for name, value in zip(feeds, self.values):
            self.binding.bind_ortvalue_input(name, value)
        self.bind_outputs()
        self.rebind = False

    def bind_outputs(self):
        self.binding.clear_binding_outputs()
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name, "cpu")

    def run(self):
        if self.rebind:
            self.bind_outputs()
        try:
            self.session.run_with_iobinding(self.binding)
        except RuntimeError:
            # It keeps the last run's output, and refuses it where the model declares another rank than it makes.
            if self.rebind:
                raise
            self.rebind = True
            self.run()

    def outputs(self):
        return [np.array(value) for value in self.binding.copy_outputs_to_cpu()]


class OpenVino:
    def __init__(self, path, feeds, threads):
        import openvino
        model = openvino.Core().read_model(str(path))
        model.reshape({name: list(value.shape) for name, value in feeds.items()})
        config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
                  "INFERENCE_PRECISION_HINT": "f32"}
        self.request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()
        self.tensors = [openvino.Tensor(value, shared_memory=True) for value in feeds.values()]
        for name, tensor in zip(feeds, self.tensors):
            self.request.set_tensor(name, tensor)
        self.count = len(model.outputs)

    def run(self):
        self.request.infer()

    def outputs(self):
        return [np.array(self.request.get_output_tensor(index).data) for index in range(self.count)]


CLASSES = {"tenon": Tenon, "onnxruntime": OnnxRuntime, "openvino": OpenVino}


def memory_kib(field):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


def child(engine, path, feeds_file, threads):
    """A fresh process: creation, first run, peak memory over the imports."""
    feeds = dict(np.load(feeds_file))
    if engine == "onnxruntime":
        import onnxruntime  # noqa: F401
    elif engine == "openvino":
        import openvino
        openvino.Core().available_devices
    else:
        ctypes.CDLL(str(ROOT / "build/release/lib/libtenon_bench.so"))
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory_kib("VmRSS")
    start = time.perf_counter()
    instance = CLASSES[engine](path, feeds, threads)
    created = time.perf_counter()
    instance.run()
    first = time.perf_counter()
    instance.run()
    print(json.dumps({"create_ms": (created - start) * 1e3, "first_ms": (first - start) * 1e3,
                      "peak_mb": (memory_kib("VmHWM") - before) / 1024}))


def fresh(engine, path, feeds_file, threads):
    command = [sys.executable, __file__, "--child", engine, str(path), str(feeds_file), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def quiet(limit=0.4, step=0.01):
    """Waits until this process's other threads have stopped burning CPU."""
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(step)
        if time.process_time() - before < step * 0.05:
            return


def steady(instances, threads, rounds):
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = {engine: [] for engine in instances}
    for instance in instances.values():
        instance.run()
    for _ in range(rounds):
        for engine, instance in instances.items():
            if threads > 1:
                quiet()
            instance.run()  # warms caches that the engine before it filled
            start = clock()
            instance.run()
            times[engine].append((clock() - start) * 1e3)
    return {engine: statistics.median(values) for engine, values in times.items()}


def compare(model, path, feeds, threads, rounds, fresh_rounds):
    row = {"model": model["id"], "threads": threads, "notes": []}
    feeds_file = ROOT / "build/bench" / f"{model['id']}.npz"
    feeds_file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(feeds_file, **feeds)
    instances = {}
    for engine in ENGINES:
        try:
            instances[engine] = CLASSES[engine](path, feeds, threads)
            instances[engine].run()
        except Exception as error:  # noqa: BLE001 - whatever an engine answers is its row
            instances.pop(engine, None)
            row["notes"].append(f"{engine}: {str(error).strip().splitlines()[0][:200]}")
    if "tenon" in instances and "onnxruntime" in instances:
        for got, want in zip(instances["tenon"].outputs(), instances["onnxruntime"].outputs()):
            scale = max(float(np.abs(want.astype(np.float64)).max(initial=0)), 1e-30)
            error = float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)) / scale
            row["error"] = max(row.get("error", 0.0), error)
    for engine, value in steady(instances, threads, rounds).items():
        row[f"{engine}_ms"] = value
    samples = {engine: [] for engine in instances}
    instances.clear()
    for _ in range(fresh_rounds):
        for engine in samples:
            samples[engine].append(fresh(engine, path, feeds_file, threads))
    for engine, values in samples.items():
        for key in ("create_ms", "first_ms", "peak_mb"):
            row[f"{engine}_{key}"] = statistics.median(value[key] for value in values)
    return row


def cell(row, key, digits=2):
    return f"{row[key]:.{digits}f}" if key in row else "n/a"


def ratio(row, key, rival):
    ours, theirs = row.get(f"tenon_{key}"), row.get(f"{rival}_{key}")
    return f"{theirs / ours:.2f}" if ours and theirs else "-"


def print_table(rows):
    print("| model | thr | Tenon ms | ORT ms | OV ms | ORT/T | OV/T | create T | ORT | x | first T | ORT | x | "
          "MB T | ORT | OV | error |")
    print("|" + " --- |" * 17)
    for row in rows:
        print(f"| {row['model']} | {row['threads']} | {cell(row, 'tenon_ms')} | {cell(row, 'onnxruntime_ms')} | "
              f"{cell(row, 'openvino_ms')} | {ratio(row, 'ms', 'onnxruntime')} | {ratio(row, 'ms', 'openvino')} | "
              f"{cell(row, 'tenon_create_ms', 1)} | {cell(row, 'onnxruntime_create_ms', 1)} | "
              f"{ratio(row, 'create_ms', 'onnxruntime')} | {cell(row, 'tenon_first_ms', 1)} | "
              f"{cell(row, 'onnxruntime_first_ms', 1)} | {ratio(row, 'first_ms', 'onnxruntime')} | "
              f"{cell(row, 'tenon_peak_mb', 0)} | {cell(row, 'onnxruntime_peak_mb', 0)} | "
              f"{cell(row, 'openvino_peak_mb', 0)} | {row['error']:.1e} |" if "error" in row else
              f"| {row['model']} | {row['threads']} | n/a | {cell(row, 'onnxruntime_ms')} | "
              f"{cell(row, 'openvino_ms')} |" + " - |" * 12)
        for note in row["notes"]:
            print(f"  {row['model']}: {note}")


def file_inputs(path, size):
    import onnxruntime
    rng = np.random.default_rng(0)
    feeds = {}
    for value in onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs():
        shape = [dim if isinstance(dim, int) else 1 if axis == 0 else size for axis, dim in enumerate(value.shape)]
        dtype = np.dtype(FILE_TYPES[value.type])
        if dtype.kind == "f":
            numbers = rng.standard_normal(shape)
        elif dtype.kind == "b" or "mask" in value.name:
            numbers = np.ones(shape)
        elif "position" in value.name:
            numbers = np.broadcast_to(np.arange(shape[-1]), shape)
        else:
            numbers = rng.integers(0, 100, shape)
        feeds[value.name] = np.array(numbers, dtype, order="C")
    return feeds


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        child(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ids of models.json, all by default, or files")
    parser.add_argument("--size", type=int, default=64, help="of a file's inputs where a dimension has no number")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fresh-rounds", type=int, default=5)
    parser.add_argument("--json", help="writes the rows there")
    arguments = parser.parse_args()
    files = [pathlib.Path(name) for name in arguments.models if name.endswith(".onnx")]
    ids = [name for name in arguments.models if not name.endswith(".onnx")]
    table = json.loads((ROOT / "tests/golden/models.json").read_text())["models"]
    chosen = [model for model in table if model["id"] in ids or not arguments.models]
    if not chosen and not files:
        parser.error(f"no such model; there are {', '.join(model['id'] for model in table)}")
    if chosen:
        subprocess.run([sys.executable, str(ROOT / "tools/fetch_models.py"), "--output", str(ROOT / "build/models"),
                        *[model["id"] for model in chosen]], check=True)
    work = [(model, ROOT / "build/models" / f"{model['id']}.onnx", model_inputs.make_inputs(model)) for model in chosen]
    work += [({"id": path.stem}, path, file_inputs(path, arguments.size)) for path in files]
    rows = []
    for model, path, feeds in work:
        for threads in arguments.threads:
            rows.append(compare(model, path, feeds, threads, arguments.rounds, arguments.fresh_rounds))
            print(f"# {model['id']}, {threads} thread(s) done", file=sys.stderr)
    print_table(rows)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"cpus": os.cpu_count(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
