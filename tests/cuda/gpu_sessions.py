"""Sessions on a GPU, and tensors that tests bind to them. Imported only where torch sees a device."""
import ctypes
import os

import numpy
import onnxruntime
import torch
from onnx import TensorProto, helper

PLUGIN = os.environ["TENON_CUDA_PLUGIN"]
EP = "TenonCudaExecutionProvider"
ROWS = 256


def find_devices():
    """The plugin's devices, in the driver's order. Registers it at the first call."""
    if not any(device.ep_name == EP for device in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library("tenon_cuda", PLUGIN)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]
    assert devices, "the plugin offers no device"
    return sorted(devices, key=lambda device: int(device.ep_metadata["cuda_device_id"]))


def make_model():
    """Two layers, so that there are weights, scratch memory and several kernels."""
    random = numpy.random.default_rng(3)
    weights = [helper.make_tensor(name, TensorProto.FLOAT, [256, 256],
                                  random.normal(0, 0.06, 256 * 256).astype(numpy.float32)) for name in ("w", "v")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
         helper.make_node("MatMul", ["b", "v"], ["y"])], "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, 256])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def one_operator(kind, dtype):
    """A model of one operator, or a chain, whose kernels read many elements at once."""
    element = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
    random = numpy.random.default_rng(5)

    def constant(name, *shape):
        values = random.normal(0, 0.1, shape).astype(dtype)
        return helper.make_tensor(name, element, shape, values.tobytes(), raw=True)

    shape, out_shape, constants = [32, 64], [32, 64], []
    node = {"product": ("MatMul", ["x", "w"], {}), "conv": ("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}),
            "norm": ("LayerNormalization", ["x", "w", "b"], {}), "chain": ("Tanh", ["s"], {}),
            "sum": ("ReduceSum", ["x"], {"keepdims": 1}), "softmax": ("Softmax", ["x"], {}),
            "transpose": ("Transpose", ["x"], {"perm": [1, 0]})}[kind]
    if kind == "product":
        constants, out_shape = [constant("w", 64, 48)], [32, 48]
    if kind == "conv":
        shape, out_shape, constants = [1, 16, 12, 12], [1, 32, 12, 12], [constant("w", 32, 16, 3, 3)]
    if kind == "norm":
        constants = [constant("w", 64), constant("b", 64)]
    if kind == "sum":
        out_shape = [1, 1]
    if kind == "transpose":
        out_shape = [64, 32]
    nodes = [helper.make_node(node[0], node[1], ["y"], **node[2])]
    if kind == "chain":
        nodes.insert(0, helper.make_node("Add", ["x", "x"], ["s"]))
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info("x", element, shape)],
                              [helper.make_tensor_value_info("y", element, out_shape)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def make_session(model, device, **options):
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices([device], {key: str(value) for key, value in options.items()})
    session = onnxruntime.InferenceSession(model, chosen, enable_fallback=0)
    assert session.get_providers()[0] == EP
    return session


def make_input(seed):
    return numpy.random.default_rng(seed).normal(0, 1, (ROWS, 256)).astype(numpy.float32)


def close(got, wanted):
    numpy.testing.assert_allclose(got, wanted, atol=1e-3 * numpy.abs(wanted).max(), rtol=0)


def bind(session, x, y, device_id=0):
    binding = session.io_binding()
    for name, tensor, into in (("x", x, binding.bind_input), ("y", y, binding.bind_output)):
        into(name, "cuda", device_id, numpy.float32, tuple(tensor.shape), tensor.data_ptr())
    return binding


def open_files():
    return len(os.listdir("/proc/self/fd"))


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "mapped", "usmblks",
                                                     "fsmblks", "used", "free", "keepcost")]


def heap_bytes():
    """What malloc has given out and not got back, over its arenas and mappings."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    return info.used + info.mapped


def resident_bytes():
    """With what malloc's arenas keep between what is used, which comes and goes by tens of MiB."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_bytes(device_id=0):
    torch.cuda.synchronize(device_id)
    return torch.cuda.mem_get_info(device_id)[0]


class TorchAllocator:
    """torch's caching allocator as the session's, with every block counted."""

    def __init__(self):
        self.live, self.taken, self.wrong = {}, 0, []
        self.calls, self.refuse, self.refuse_at = 0, False, 0  # always, or at one call
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(self.take)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.give_back)

    def take(self, size):
        self.calls += 1
        if self.refuse or self.calls == self.refuse_at:
            return None
        memory = torch.cuda.caching_allocator_alloc(size)
        self.live[memory] = size
        self.taken += 1
        return memory

    def give_back(self, memory):
        if self.live.pop(memory, None) is None:
            self.wrong.append(memory)
        else:
            torch.cuda.caching_allocator_delete(memory)

    def options(self):
        return {"gpu_external_alloc": ctypes.cast(self.alloc, ctypes.c_void_p).value,
                "gpu_external_free": ctypes.cast(self.free, ctypes.c_void_p).value}
