"""The functions of the host that an EP over the SDK calls in one run (bench/plugin_calls.py counts them), and the same
results with and without the functions that Tenon's host has for EPs.

TENON_BUILD, TENON_CLI, TENON_SIM_PLUGIN, TENON_COUNTING_PLUGIN and, where it is built, TENON_CUDA_FAKE_PLUGIN are set by CMake.
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy
import onnx
import pytest
import stock
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIM, SIM_EP = os.environ["TENON_SIM_PLUGIN"], "TenonSimExecutionProvider"
CUDA, CUDA_EP = os.environ.get("TENON_CUDA_FAKE_PLUGIN", ""), "TenonCudaExecutionProvider"
PLUGINS = [pytest.param(SIM, f"{SIM_EP},mode=compile", id="sim-compile"),
           pytest.param(SIM, f"{SIM_EP},mode=kernels", id="sim-kernels"),
           pytest.param(CUDA, CUDA_EP, id="fake-cuda",
                        marks=pytest.mark.skipif(not CUDA, reason="the CUDA EP is not built"))]
# The CUDA EP finds the fake driver beside its plugin.
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": f"{pathlib.Path(CUDA).parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
# Of each tensor, in a host that has to be asked.
QUESTIONS = {"IsTensor", "GetTensorTypeAndShape", "GetTensorElementType", "GetDimensionsCount", "GetDimensions",
             "GetTensorData", "ReleaseTensorTypeAndShapeInfo", "Value_GetMemoryDevice", "MemoryDevice_GetDeviceType",
             "MemoryDevice_GetMemoryType", "MemoryDevice_GetVendorId", "MemoryDevice_GetDeviceId"}


# Device 2 of the simulated EP copies nothing: what is left are the questions of the kernel.
@pytest.mark.parametrize("device", ["0", "2"])
@pytest.mark.parametrize("plugin, ep", PLUGINS)
def test_tenons_host_is_asked_once_and_others_tensor_by_tensor(plugin, ep, device):
    if plugin == CUDA and device != "0":
        pytest.skip("the fake driver has one device")
    done = subprocess.run([sys.executable, ROOT / "bench/plugin_calls.py", "--build", os.environ["TENON_BUILD"], "--stock",
                           stock.library(), "--plugin", plugin, "--ep", ep, "--op", "Relu" if plugin == CUDA else "Add", "--device",
                           device], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    hosts, tensors = report["calls_of_a_run"], report["tensors"]
    tenon = hosts["tenon"]["functions"]
    assert tenon["KernelContext_GetTensors"] == 1 and "KernelContext_GetInput" not in tenon
    assert device == "0" or tenon == {"KernelContext_GetTensors": 1}
    for name in ("tenon_standard", "stock"):
        asked = hosts[name]["functions"]
        assert "KernelContext_GetTensors" not in asked and asked["KernelContext_GetInput"] == tensors - 1, (name, asked)
        assert all(asked[question] >= tensors for question in QUESTIONS), (name, asked)
        assert hosts["tenon"]["calls"] + tensors * len(QUESTIONS) <= hosts[name]["calls"]


def models():
    def info(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    def model(nodes, inputs, outputs, constants=()):
        graph = helper.make_graph([helper.make_node(*node[:3], name=f"n{i}", **node[3]) for i, node in enumerate(nodes)], "g",
                                  inputs, outputs, [onnx.numpy_helper.from_array(array, name) for name, array in constants])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    weights = numpy.linspace(-1, 1, 20, dtype=numpy.float32).reshape(4, 5)
    yield "chain", model([("Relu", ["x"], ["a"], {}), ("Neg", ["a"], ["b"], {}), ("Sub", ["a", "b"], ["y"], {})],
                         [info("x", ["n", 4])], [info("y", ["n", 4])])
    # With a constant, a node for the CPU EP in the middle, and a region of several outputs.
    yield "parts", model([("Gemm", ["x", "w"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Softmax", ["b"], ["c"], {}),
                          ("Sub", ["c", "b"], ["y"], {}), ("Neg", ["y"], ["z"], {})],
                         [info("x", ["n", 4])], [info("y", ["n", 5]), info("z", ["n", 5])], [("w", weights)])
    # Its size is known only when NonZero has run: the EP's part begins behind it.
    yield "dynamic", model([("NonZero", ["x"], ["a"], {}), ("Cast", ["a"], ["b"], {"to": TensorProto.FLOAT}),
                            ("Relu", ["b"], ["y"], {})], [info("x", ["n", 4])], [info("y", [2, "k"])])


@pytest.mark.parametrize("made", models(), ids=lambda made: made[0])
@pytest.mark.parametrize("plugin, ep", PLUGINS)
def test_results_are_the_same_without_the_hosts_own_functions(tmp_path, plugin, ep, made):
    name, *options = ep.split(",")
    onnx.save(made[1], str(tmp_path / "model.onnx"))
    words = [word for option in options for word in ("--ep-option", option)]
    outputs = []
    for standard in ({}, {"TENON_COUNTED_STANDARD": "1"}):
        folder = tmp_path / f"out{len(outputs)}"
        done = subprocess.run([os.environ["TENON_CLI"], "run", str(tmp_path / "model.onnx"), "--random", "--seed", "3", "--dim",
                               "n=3", "--output-dir", str(folder), "--plugin", f"p={os.environ['TENON_COUNTING_PLUGIN']}",
                               "--ep", name, *words], capture_output=True, text=True, timeout=120,
                              env={**ENVIRONMENT, "TENON_COUNTED_PLUGIN": plugin, **standard})
        assert done.returncode == 0, done.stderr
        outputs.append([numpy.load(file) for file in sorted(folder.glob("*.npy"))])
    assert len(outputs[0]) == len(made[1].graph.output)
    for with_them, without in zip(*outputs, strict=True):
        numpy.testing.assert_array_equal(with_them, without)
