"""Measures a call through the C ABI, beside the C++ API and stock ONNX Runtime, in one process (bench/abi_call.cc).

    bench/abi_call.py [--build build/release] [--stock LIBONNXRUNTIME] [--rounds N] [--runs N] [--json FILE]

Needs no package but for the stock library: without --stock, that of this Python's onnxruntime package is taken.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 8


def stock_library():
    try:
        import onnxruntime
    except ImportError:
        sys.exit("This Python has no onnxruntime package: name a stock library with --stock.")
    library, = (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return library


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def node(op_type, inputs, output):
    return text(1, b"".join(text(1, name) for name in inputs) + text(2, output) + text(3, op_type) + text(4, op_type))


def model():
    """y = Relu(x MatMul 2 I), x of [N, 8], as an ONNX file: two nodes, so that what is left is the cost of the call."""
    weight = [2.0 if row == column else 0.0 for row in range(WIDTH) for column in range(WIDTH)]
    tensor = number(1, WIDTH) + number(1, WIDTH) + number(2, 1) + text(8, "w") + text(9, struct.pack("<64f", *weight))

    def info(field, name):
        shape = text(1, text(2, "N")) + text(1, number(1, WIDTH))
        return text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, shape))))

    graph = (node("MatMul", ["x", "w"], "p") + node("Relu", ["p"], "y") + text(2, "abi_call") + text(5, tensor)
             + info(11, "x") + info(12, "y"))
    return number(1, 9) + text(7, graph) + text(8, number(2, 17))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--stock", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    library = arguments.stock or stock_library()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "abi_call.onnx"
        path.write_bytes(model())
        done = subprocess.run([arguments.build / "bin/abi_call", path, library, str(arguments.rounds),
                               str(arguments.runs)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr or done.stdout)
    figures = json.loads(done.stdout)
    median = {name: row["median_ns"] for name, row in figures.items() if isinstance(row, dict)}
    figures["ratios"] = {
        "abi_to_cpp": round(median["tenon_run_given"] / median["cpp_bind_and_run"], 2),
        "given_to_stock": round(median["tenon_run_given"] / median["stock_run_given"], 3),
        "new_to_stock": round(median["tenon_run_new"] / median["stock_run_new"], 3),
        "binding_to_stock": round(median["tenon_binding"] / median["stock_binding"], 3),
    }
    figures["stock"] = library.name
    print(f"ns a run, median (10th to 90th percentile) of {arguments.rounds} rounds of {arguments.runs} runs; {library.name}")
    for label, name in (("C++ API, bound tensors", "cpp_run"), ("C++ API, bind and run", "cpp_bind_and_run"),
                        ("C ABI, Run into given values", "tenon_run_given"),
                        ("C ABI, Run into new values", "tenon_run_new"), ("C ABI, RunWithBinding", "tenon_binding"),
                        ("stock, Run into given values", "stock_run_given"),
                        ("stock, Run into new values", "stock_run_new"), ("stock, RunWithBinding", "stock_binding")):
        row = figures[name]
        print(f"  {label:32}{row['median_ns']:8} ({row['p10_ns']} to {row['p90_ns']})")
    for name, ratio in figures["ratios"].items():
        print(f"  {name:32}{ratio:8}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
