"""What a call costs through the C ABI, beside the C++ API and stock ONNX Runtime, in one process (bench/abi_call.cc).

Usage: bench/abi_call.py [--program build/release/bin/abi_call] [--rounds N] [--runs N]"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def write_model(path):
    """Two nodes: what is left is the cost of the call."""
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32) * 2, "w")
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
                              "abi_call", [info("x", TensorProto.FLOAT, ["N", 8])],
                              [info("y", TensorProto.FLOAT, ["N", 8])], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/release/bin/abi_call")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=2000)
    arguments = parser.parse_args()
    library, = (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "abi_call.onnx"
        write_model(model)
        done = subprocess.run([arguments.program, model, library, str(arguments.rounds), str(arguments.runs)],
                              check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    median = {name: row["median_ns"] for name, row in figures.items() if isinstance(row, dict)}
    figures["ratios"] = {
        "abi_to_cpp": round(median["tenon_run_given"] / median["cpp_bind_and_run"], 2),
        "given_to_stock": round(median["tenon_run_given"] / median["stock_run_given"], 3),
        "new_to_stock": round(median["tenon_run_new"] / median["stock_run_new"], 3),
        "binding_to_stock": round(median["tenon_binding"] / median["stock_binding"], 3),
    }
    figures["onnxruntime"] = onnxruntime.__version__
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
