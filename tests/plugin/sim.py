"""Helpers for tests of the simulated EP's plugin in the onnxruntime of this interpreter."""
import ctypes
import os

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

LIBRARY = os.environ["TENON_SIM_PLUGIN"]
EP = "TenonSimExecutionProvider"
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
FULL, NO_HOST_ACCESSIBLE, CPU = "full", "no_host_accessible", "cpu"
LIVE = ["factories", "eps", "compiled_nodes", "compute_states", "kernels", "allocators", "data_transfers", "streams",
        "notifications", "importers", "imported_memories", "imported_semaphores", "imported_tensors", "profilers",
        "nt_handles", "device_blocks", "device_bytes", "host_blocks", "host_bytes", "graphics_interops"]


class TestApi:
    """TenonSimTestApi of src/ep/sim/sim_test_api.h: the library that the host has loaded, once more."""

    __test__ = False

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.TenonSimGetTestApi.restype = ctypes.c_void_p
        address = self.library.TenonSimGetTestApi(1)
        table = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
        self._counter = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(table[1])
        self._fail_at = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int64)(table[2])
        self._fault_fired = ctypes.CFUNCTYPE(ctypes.c_int)(table[3])

    def counter(self, name):
        value = self._counter(name.encode())
        assert value >= 0, f"there is no counter {name}"
        return value

    def live(self):
        return {name: self.counter(name) for name in LIVE}

    def fail_at(self, step, nth):
        assert self._fail_at(step.encode(), nth) == 1, f"there is no step {step}"

    def disarm(self):
        self.fail_at("", 0)

    def fault_fired(self):
        return self._fault_fired() == 1


def device(kind):
    """The EP device by what it offers."""
    for candidate in onnxruntime.get_ep_devices():
        if candidate.ep_name == EP and candidate.ep_metadata["sim_device"] == kind:
            return candidate
    raise AssertionError(f"there is no simulated device {kind}")


def model(nodes, inputs, outputs, constants=(), opset=17):
    def infos(values):
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs),
                              [onnx.numpy_helper.from_array(array, name) for name, array in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def options(kind=FULL, **ep_options):
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4  # failures on demand are logged too
    made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # nodes are counted
    made.add_provider_for_devices([device(kind)], {key: str(value) for key, value in ep_options.items()})
    return made


def session(made, kind=FULL, session_options=None, **ep_options):
    """A session that fails instead of falling back to the CPU EP."""
    data = made if isinstance(made, str) else made.SerializeToString()
    return onnxruntime.InferenceSession(data, session_options or options(kind, **ep_options), enable_fallback=0)


def on_cpu(made, feeds):
    cpu = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return cpu.run(None, feeds)


def close(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def relu_chain(middle="Sigmoid"):
    """Relu, `middle`, Relu over [n, 4]: with `middle` excluded, three partitions."""
    return model([helper.make_node("Relu", ["x"], ["a"], "first"), helper.make_node(middle, ["a"], ["b"], "middle"),
                  helper.make_node("Relu", ["b"], ["y"], "last")],
                 [("x", TensorProto.FLOAT, ["n", 4])], [("y", TensorProto.FLOAT, ["n", 4])])


def perceptron(width=64, seed=0):
    rng = numpy.random.default_rng(seed)

    def array(*shape):
        return (rng.standard_normal(shape) / 8).astype(numpy.float32)

    return model([helper.make_node("MatMul", ["x", "w0"], ["m0"], "matmul0"),
                  helper.make_node("Add", ["m0", "b0"], ["a0"], "add0"),
                  helper.make_node("Relu", ["a0"], ["r0"], "relu0"),
                  helper.make_node("Gemm", ["r0", "w1", "b1"], ["g1"], "gemm1", transB=1, alpha=0.5),
                  helper.make_node("Tanh", ["g1"], ["y"], "tanh1")],
                 [("x", TensorProto.FLOAT, ["n", width])], [("y", TensorProto.FLOAT, ["n", 10])],
                 [("w0", array(width, width)), ("b0", array(width)), ("w1", array(10, width)), ("b1", array(10))])
