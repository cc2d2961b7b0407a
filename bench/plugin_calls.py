"""Counts the functions of the host that an EP plugin calls in one run, in Tenon and in stock ONNX Runtime.

    bench/plugin_calls.py [--build build/test] [--stock LIBONNXRUNTIME] [--plugin LIBRARY] [--ep NAME[,KEY=VALUE]...]
                          [--device N] [--op Add|Relu]

The model is one node: y = x + z, so that a call of a kernel has three tensors, or y = Relu(x). The plugin, if none is given,
is the simulated EP on its CPU device (2), where nothing is copied; the EP's copies to and from its memory count too. The counts are those of ten more runs, divided by ten. "tenon_standard" is Tenon's host without the functions that it has for
EPs (src/ep/api/ep_host_api.h). Prints one JSON line; fails if the outputs differ. Needs the package onnx, and for the stock
host onnxruntime or --stock.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = 10


def stock_library():
    import onnxruntime
    library, = (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return library


def save_model(path, operator):
    def info(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4])

    inputs = ["x", "z"] if operator == "Add" else ["x"]
    graph = helper.make_graph([helper.make_node(operator, inputs, ["y"], "node")], "one", [info(name) for name in inputs],
                              [info("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def run(arguments, host, folder, runs, standard):
    """What the program printed of its last run, and the calls of all."""
    counts = folder / "counts"
    counts.unlink(missing_ok=True)
    environment = {**os.environ, "TENON_COUNTED_PLUGIN": str(arguments.plugin), "TENON_COUNTED_CALLS": str(counts)}
    environment |= {"TENON_COUNTED_STANDARD": "1"} if standard else {}
    words = ["plugin", f"counted={arguments.build / 'lib/libtenon_counting_plugin.so'}", "config",
             "session.disable_cpu_ep_fallback=1", "device", arguments.device, "ep", arguments.ep, "session", folder / "one.onnx",
             *["run", ""] * runs]
    done = subprocess.run([str(word) for word in [arguments.build / "bin/tenon_eps_program", host, *words]],
                          capture_output=True, text=True, cwd=folder, env=environment)
    if done.returncode != 0 or "code" in done.stdout:
        sys.exit(f"The program ended with {done.returncode}.\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()[-1], json.loads(counts.read_text())


def calls_of_a_run(arguments, host, folder, standard=False):
    _, few = run(arguments, host, folder, 2, standard)
    output, many = run(arguments, host, folder, 2 + RUNS, standard)
    functions = {name: (many[name] - few.get(name, 0)) / RUNS for name in many if many[name] != few.get(name, 0)}
    return {"calls": sum(functions.values()), "functions": functions, "output": output}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/test")
    parser.add_argument("--stock", type=pathlib.Path)
    parser.add_argument("--plugin", type=pathlib.Path)
    parser.add_argument("--ep", default="TenonSimExecutionProvider")
    parser.add_argument("--op", choices=("Add", "Relu"), default="Add")
    parser.add_argument("--device", type=int)
    arguments = parser.parse_args()
    if arguments.device is None:
        arguments.device = 0 if arguments.plugin else 2
    arguments.build = arguments.build.resolve()
    arguments.plugin = (arguments.plugin or arguments.build / "lib/libtenon_ep_sim.so").resolve()
    ours, stock = arguments.build / "lib/libtenon.so", (arguments.stock or stock_library()).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        save_model(folder / "one.onnx", arguments.op)
        hosts = {"tenon": calls_of_a_run(arguments, ours, folder),
                 "tenon_standard": calls_of_a_run(arguments, ours, folder, standard=True),
                 "stock": calls_of_a_run(arguments, stock, folder)}
    if len({host.pop("output") for host in hosts.values()}) != 1:
        sys.exit("The hosts' outputs differ.")
    print(json.dumps({"ep": arguments.ep, "tensors": 3 if arguments.op == "Add" else 2, "calls_of_a_run": hosts}))


if __name__ == "__main__":
    main()
