"""Memory of CUDA devices that other libraries made, as OrtValues, and the other way: the CUDA array interface and DLPack.

Over the driver without a GPU that the tests of the CUDA EP have, which ends the process at the first misuse; over a real one
(TENON_FAKE_CUDA is not set), with torch's tensors, where both are there.
"""
import ctypes
import gc
import os
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest
import tenon
from tenon import _cuda

import models

PLUGIN = os.environ.get("TENON_CUDA_PLUGIN", "")
FAKE = os.environ.get("TENON_FAKE_CUDA", "")
EP = "TenonCudaExecutionProvider"
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
Value = tenon.OrtValue


@pytest.fixture(scope="module", autouse=True)
def provider():
    if not PLUGIN or not os.path.exists(PLUGIN):
        pytest.skip("this build has no CUDA plugin")
    if EP not in tenon.get_available_providers():
        tenon.register_execution_provider_library("cuda", PLUGIN)
    if EP not in tenon.get_available_providers():
        pytest.skip("there is no CUDA device")


def session(**options):
    return tenon.InferenceSession(models.one_node("Relu", shape=["n", "m"]), providers=[EP], **options)


def on_cuda(array=X):
    return Value.ortvalue_from_numpy(array.copy(), "cuda", 0)


class CudaArray:
    """An array of a library that speaks the CUDA array interface alone, as Numba's do. `told` replaces its entries."""

    def __init__(self, array=X, **told):
        self.value = on_cuda(array)
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "version": 3, "strides": None,
                                         "data": (self.value.data_ptr(), False), "stream": 1, **told}


class Tensor:
    """A tensor of a library that speaks DLPack and writes down what its consumer asks for."""

    def __init__(self, value, kind=int):
        self.value, self.kind, self.asked = value, kind, []

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        return self.value.__dlpack__(**arguments)

    def __dlpack_device__(self):
        kind, number = self.value.__dlpack_device__()
        return self.kind(kind), number


# The CUDA array interface.


@pytest.mark.parametrize("told", [{}, {"stream": None}, {"stream": 2}, {"strides": (12, 4)}, {"version": 2}])
def test_an_array_of_the_interface_is_used_where_it_lies(told):
    array = CudaArray(**told)
    value = tenon.import_memory(array)
    assert value.data_ptr() == array.value.data_ptr() and value.device_name() == "cuda"
    assert value.shape() == [2, 3] and value.element_type() == models.FLOAT
    assert np.array_equal(value.numpy(), X)
    array.value.update_inplace(X + 1)
    assert np.array_equal(value.numpy(), X + 1)


def test_runs_read_and_write_imported_memory():
    source, target, relu = CudaArray(), CudaArray(np.zeros_like(X)), session()
    binding = relu.io_binding()
    binding.bind_ortvalue_input("x", tenon.import_memory(source))
    binding.bind_ortvalue_output("y", tenon.import_memory(target))
    relu.run_with_iobinding(binding)
    assert np.array_equal(target.value.numpy(), np.maximum(X, 0)) and relu.last_copies == []
    result, = relu.run_with_ort_values(None, {"x": tenon.import_memory(source)})
    assert np.array_equal(result.numpy(), np.maximum(X, 0))
    assert not [copy for copy in relu.last_copies if copy.name == "x"]


def test_the_source_lives_as_long_as_the_value():
    array = CudaArray()
    value, alive = tenon.import_memory(array), weakref.ref(array)
    del array
    gc.collect()
    assert alive() is not None and np.array_equal(value.numpy(), X)
    del value
    gc.collect()
    assert alive() is None


def test_parts_and_other_types_of_imported_memory():
    part = tenon.import_memory(CudaArray(), [3], np.float32, offset_bytes=12)
    assert part.device_name() == "cuda" and np.array_equal(part.numpy(), X[1])
    bits = tenon.import_memory(CudaArray(), [6], np.int32)
    assert np.array_equal(bits.numpy(), X.reshape(-1).view(np.int32))
    with pytest.raises(ValueError, match="exceeds the memory"):
        tenon.import_memory(CudaArray(), [7], np.float32)


def test_read_only_memory_is_no_output():
    array = CudaArray()
    read_only = CudaArray(data=(array.value.data_ptr(), True))
    with pytest.raises(ValueError, match="read-only"):
        tenon.import_memory(read_only, writable=True)
    binding = session().io_binding()
    for value in (tenon.import_memory(read_only), tenon.import_memory(array, writable=False)):
        with pytest.raises(RuntimeError, match="its memory is read-only"):
            binding.bind_ortvalue_output("y", value)


def test_an_array_without_elements_has_no_address():
    value = tenon.import_memory(CudaArray(shape=(0, 3), data=(0, False)))
    assert value.shape() == [0, 3] and value.device_name() == "cuda"


@pytest.mark.parametrize("told, message", [
    ({"strides": (24, 8)}, "strides of \\(24, 8\\) bytes"), ({"strides": (4, 8)}, "here with \\(12, 4\\)"),
    ({"mask": object()}, "has a mask"), ({"typestr": ">f4"}, "type >f4"), ({"typestr": "|V4"}, "type \\|V4"),
    ({"stream": 0}, "the stream 0"), ({"data": (4096, False)}, "0x1000 is no memory that CUDA")])
def test_what_the_interface_says_wrongly_is_named(told, message):
    with pytest.raises(ValueError, match=message):
        tenon.import_memory(CudaArray(**told))


def late_work(stream, done):
    """Work that takes a while, on a stream of device 0; the function that it calls has to be kept."""
    driver = _cuda._driver()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: (time.sleep(0.05), done.append(True)))
    with driver.device(0):
        driver.call("cuLaunchHostFunc", ctypes.c_void_p(stream), function, None)
    return function


def test_an_import_waits_for_the_stream_that_the_interface_names():
    for stream in (1, _cuda.stream(0)):
        array, done = CudaArray(stream=stream), []
        kept = late_work(stream, done)
        tenon.import_memory(array)
        assert done and kept


# DLPack.


def test_an_import_waits_for_what_the_producer_queues():
    done, kept = [], []

    class Late(Tensor):
        def __dlpack__(self, **arguments):
            kept.append(late_work(arguments["stream"], done))
            return super().__dlpack__(**arguments)

    Value.from_dlpack(Late(on_cuda()))
    assert done


def test_a_tensor_passes_both_ways():
    value = on_cuda()
    assert value.__dlpack_device__() == (2, 0)
    tensor = Tensor(value)
    for read in (Value.from_dlpack, tenon.import_memory):
        back = read(tensor)
        assert back.data_ptr() == value.data_ptr() and back.device_name() == "cuda" and np.array_equal(back.numpy(), X)
    asked = tensor.asked[0]
    assert asked["max_version"] == (1, 0) and asked["stream"] > 2 and asked["stream"] == tensor.asked[1]["stream"]
    assert np.array_equal(session().run_with_ort_values(None, {"x": Value.from_dlpack(tensor)})[0].numpy(), np.maximum(X, 0))


def test_a_capsule_alone_is_the_callers_to_order():
    value = on_cuda()
    assert Value.from_dlpack(value.__dlpack__(stream=-1)).data_ptr() == value.data_ptr()


def test_a_device_kind_may_be_an_enumeration():
    import enum
    kinds = enum.IntEnum("kinds", {"kDLCUDA": 2})
    assert Value.from_dlpack(Tensor(on_cuda(), kinds)).device_name() == "cuda"


def test_streams_follow_the_array_api():
    value = on_cuda()
    for stream in (None, -1, 1, 2, 77):
        assert "dltensor" in repr(value.__dlpack__(stream=stream))
    for stream in (0, -2):
        with pytest.raises(ValueError, match=f"stream is {stream}"):
            value.__dlpack__(stream=stream)


def test_copies_are_made_where_they_are_asked_for():
    value = on_cuda()
    for device in (None, (2, 0)):
        assert Value.from_dlpack(value.__dlpack__(dl_device=device)).data_ptr() == value.data_ptr()
        other = Value.from_dlpack(value.__dlpack__(dl_device=device, copy=True))
        assert other.data_ptr() != value.data_ptr() and other.device_name() == "cuda" and np.array_equal(other.numpy(), X)
    host = Value.from_dlpack(value.__dlpack__(dl_device=(1, 0)))
    assert host.device_name() == "cpu" and np.array_equal(host.numpy(), X)
    with pytest.raises(BufferError, match="copy=False"):
        value.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="not to \\(2, 1\\)"):
        value.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="not to \\(2, 0\\)"):
        Value.ortvalue_from_numpy(X).__dlpack__(dl_device=(2, 0))


def test_memory_lives_as_long_as_its_last_view():
    value = on_cuda()
    back = Value.from_dlpack(Value.from_dlpack(value))
    del value
    gc.collect()
    [on_cuda(np.zeros_like(X)) for _ in range(100)]  # would take the place of what is freed
    assert np.array_equal(back.numpy(), X)


def test_a_device_that_is_not_there_is_named():
    class Elsewhere(Tensor):
        def __dlpack_device__(self):
            return 2, 99

    with pytest.raises(RuntimeError, match="cuDeviceGet fails: CUDA_ERROR_INVALID_DEVICE|cuDeviceGet fails: 101"):
        Value.from_dlpack(Elsewhere(on_cuda()))


def test_without_a_driver_the_error_says_so():
    program = "import ctypes\ndef CDLL(name, *rest): raise OSError(name + ': cannot open shared object file')\n" \
        "ctypes.CDLL = CDLL\nimport tenon\nclass Array:\n" \
        "    __cuda_array_interface__ = {'shape': (1,), 'typestr': '<f4', 'data': (4096, False), 'version': 3}\n" \
        "try:\n    tenon.import_memory(Array())\nexcept RuntimeError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "needs NVIDIA's driver" in done.stdout and "cannot open" in done.stdout, done.stderr


# torch, on a device.


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if FAKE or not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device")
    return torch


def test_torch_and_tenon_write_the_same_device_memory(torch):
    tensor = torch.arange(6, dtype=torch.float32, device="cuda").reshape(2, 3)
    value = tenon.import_memory(tensor)
    assert value.data_ptr() == tensor.data_ptr() and value.device_name() == "cuda"
    value.update_inplace(X)
    assert np.array_equal(tensor.cpu().numpy(), X)
    again = torch.from_dlpack(value)
    assert again.data_ptr() == tensor.data_ptr() and again.device == tensor.device
    again += 1
    assert np.array_equal(value.numpy(), X + 1)
    assert np.array_equal(torch.from_dlpack(on_cuda()).cpu().numpy(), X)
    assert np.array_equal(torch.as_tensor(CudaArray(stream=None), device="cuda").cpu().numpy(), X)


def test_an_import_waits_for_torchs_work(torch):
    stream, relu = torch.cuda.Stream(), session()
    for _ in range(20):
        with torch.cuda.stream(stream):
            big = torch.ones(4096, 4096, device="cuda")
            for _ in range(20):
                big = big @ big / 4096
            tensor = big[:2, :3].contiguous() - 2.0
            value = tenon.import_memory(tensor)
        assert stream.query()
        result, = relu.run_with_ort_values(None, {"x": value})
        assert np.array_equal(value.numpy(), np.full((2, 3), -1, np.float32)) and not result.numpy().any()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_torchs_types_pass_both_ways(torch, name):
    tensor = torch.tensor([[0, 1, 2], [3, 0, 1]], device="cuda").to(getattr(torch, name))
    value = tenon.import_memory(tensor)
    assert torch.equal(torch.from_dlpack(value), tensor)


def test_torchs_tensors_are_bound_in_place(torch):
    x, y, relu = torch.tensor(X, device="cuda"), torch.empty(2, 3, device="cuda"), session()
    binding = relu.io_binding()
    binding.bind_ortvalue_input("x", tenon.import_memory(x))
    binding.bind_ortvalue_output("y", tenon.import_memory(y))
    for offset in range(3):
        x += offset
        torch.cuda.synchronize()
        relu.run_with_iobinding(binding)
        assert torch.equal(y, torch.relu(x)) and relu.last_copies == []


def test_torchs_strided_tensors_are_refused(torch):
    with pytest.raises((ValueError, tenon.Error), match="stride"):
        tenon.import_memory(torch.ones(4, 4, device="cuda").t())


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
