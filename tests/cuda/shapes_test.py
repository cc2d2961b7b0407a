"""Models whose shapes are symbols, on a GPU in stock onnxruntime: one shape after the other, memory that stays where it
is, empty batches, shapes that do not fit, threads, many bindings. Skips, with the reason, where there is no GPU."""
import ctypes
import gc
import os
import resource
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import hosts
import small_models

onnxruntime = pytest.importorskip("onnxruntime")


class Driver:
    """Memory of the device by the driver's own functions, counted."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        count, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise OSError("there is no CUDA device")
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.context, self.live, self.lock = context, {}, threading.Lock()

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise OSError(f"{name}: {result}")

    def allocate(self, size):
        memory = ctypes.c_uint64()
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(max(size, 1)))
        with self.lock:
            self.live[memory.value] = size
        return memory.value

    def free(self, memory):
        with self.lock:
            del self.live[memory]
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemFree_v2", ctypes.c_uint64(memory))

    def upload(self, array):
        memory = self.allocate(array.nbytes)
        self.write(memory, array)
        return memory

    def write(self, memory, array):
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(memory), array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        # What lies in pageable memory may be on its way still.
        self.call("cuStreamSynchronize", None)

    def read(self, memory, shape, dtype):
        array = np.empty(shape, dtype)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(memory), ctypes.c_size_t(array.nbytes))
        return array


try:
    DRIVER = Driver()
except (OSError, AttributeError) as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(scope="module")
def device():
    onnxruntime.register_execution_provider_library("tenon_cuda", os.environ["TENON_CUDA_PLUGIN"])
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == hosts.EP]
    assert devices, "the plugin offers no device"
    return devices[0]


def make_session(model, device, **options):
    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 4
    chosen.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    chosen.add_provider_for_devices([device], {"use_tf32": "0", **{key: str(value) for key, value in options.items()}})
    return onnxruntime.InferenceSession(model.SerializeToString(), chosen)


def make_reference(model):
    session = onnxruntime.InferenceSession(small_models.twin(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, {
        name: value.astype(np.float32) if value.dtype == np.float16 else value for name, value in inputs.items()})


def close(got, wanted, allowed):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        assert a.shape == b.shape
        if b.size:
            assert np.abs(a - b).max() <= allowed * np.abs(b).max()


def images(random, batch, height, width, dtype=np.float32):
    return {"image": random.normal(size=(batch, 3, height, width)).astype(dtype)}


SIZES = [(1, 1), (1, 128), (3, 17), (2, 64), (5, 33), (1, 7), (8, 8), (2, 100), (1, 129), (4, 31), (16, 5), (3, 17), (1, 128)]


@pytest.mark.parametrize("kind, allowed", [("f32", 1e-4), ("f16", 1e-2)])
def test_an_encoder_takes_any_batch_and_sequence(device, kind, allowed):
    model = small_models.encoder(kind)
    session, reference, random = make_session(model, device), make_reference(model), np.random.default_rng(2)
    for batch, sequence in SIZES:
        inputs = small_models.tokens(random, batch, sequence)
        close(session.run(None, inputs), reference(inputs), allowed)


@pytest.mark.parametrize("kind, allowed", [("f32", 1e-4), ("f16", 1e-2)])
def test_a_cnn_takes_any_batch_and_size(device, kind, allowed):
    model = small_models.cnn(kind)
    session, reference, random = make_session(model, device), make_reference(model), np.random.default_rng(3)
    dtype = small_models.TYPES[kind][1]
    for batch, height, width in [(1, 32, 32), (2, 33, 47), (7, 16, 16), (1, 64, 20), (3, 9, 9), (16, 32, 32), (1, 224, 224),
                                 (1, 32, 32), (5, 31, 8)]:
        inputs = images(random, batch, height, width, dtype)
        close(session.run(None, inputs), reference(inputs), allowed)


def sum_of_two():
    """y = (a + b) * 2, [n, 8] each."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["s", "two"], ["y"])], "sum",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 8]),
         helper.make_tensor_value_info("b", TensorProto.FLOAT, ["m", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.float32(2), "two")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


# Compute: plans are bounded, so is their memory: whatever 500 shapes need, the session holds as much as before.
def test_five_hundred_shapes_take_no_more_memory_than_some(device):
    take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(DRIVER.allocate)
    give = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(DRIVER.free)
    before = len(DRIVER.live)
    session = make_session(sum_of_two(), device, gpu_external_alloc=ctypes.cast(take, ctypes.c_void_p).value,
                           gpu_external_free=ctypes.cast(give, ctypes.c_void_p).value)
    random, blocks, resident = np.random.default_rng(4), [], []
    for index, rows in enumerate(random.permutation(500) + 1):
        a, b = random.normal(size=(2, rows, 8)).astype(np.float32)
        close(session.run(None, {"a": a, "b": b}), [(a + b) * 2], 1e-5)
        blocks.append(len(DRIVER.live) - before)
        resident.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    print(f"blocks after 100 shapes {max(blocks[:100])}, after 500 {max(blocks)}; "
          f"resident {resident[100] >> 10} MiB, then {resident[-1] >> 10} MiB")
    assert max(blocks[100:]) <= max(blocks[:100]) + 8
    # What the host keeps of 400 plans that are gone: less than 256 KiB each.
    assert resident[-1] - resident[100] < 400 * 256
    del session
    gc.collect()
    assert len(DRIVER.live) == before


@pytest.mark.parametrize("make, inputs", [
    (small_models.encoder, lambda random: small_models.tokens(random, 0, 16)),
    (small_models.cnn, lambda random: images(random, 0, 32, 32)),
    (sum_of_two, lambda random: {"a": np.zeros((0, 8), np.float32), "b": np.zeros((0, 8), np.float32)})],
    ids=["encoder", "cnn", "sum"])
def test_an_empty_batch_gives_an_empty_result(device, make, inputs):
    model = make()
    session, random = make_session(model, device), np.random.default_rng(5)
    (got,) = session.run(None, inputs(random))
    assert got.shape[0] == 0 and got.size == 0


# A shape that does not fit is an error that names it, and costs the session nothing.
def test_shapes_that_do_not_fit_are_errors_that_name_them(device):
    session = make_session(sum_of_two(), device)
    good = {"a": np.ones((3, 8), np.float32), "b": np.ones((3, 8), np.float32)}
    close(session.run(None, good), [np.full((3, 8), 4)], 1e-6)
    for _ in range(3):
        with pytest.raises(Exception) as raised:
            session.run(None, {"a": np.ones((3, 8), np.float32), "b": np.ones((5, 8), np.float32)})
        assert "3" in str(raised.value) and "5" in str(raised.value)
        close(session.run(None, good), [np.full((3, 8), 4)], 1e-6)
    model = small_models.encoder()
    session, reference, random = make_session(model, device), make_reference(model), np.random.default_rng(6)
    fits = small_models.tokens(random, 2, 9)
    with pytest.raises(Exception) as raised:
        session.run(None, {**fits, "attention_mask": np.ones((2, 7), np.int64)})
    assert "9" in str(raised.value) and "7" in str(raised.value)
    with pytest.raises(Exception):
        session.run(None, small_models.tokens(random, 1, 300))  # longer than there are places
    close(session.run(None, fits), reference(fits), 1e-4)


def test_threads_with_different_shapes_share_a_session(device):
    model = small_models.encoder(layers=1)
    session, reference = make_session(model, device), make_reference(model)
    random, asked = np.random.default_rng(7), []
    for batch, sequence in [(1, 8), (2, 16), (3, 24), (1, 40), (4, 5), (2, 31), (1, 64), (6, 12)]:
        inputs = small_models.tokens(random, batch, sequence)
        asked.append((inputs, reference(inputs)))
    failures = []

    def work(first):
        try:
            for i in range(24):
                inputs, wanted = asked[(first + i) % len(asked)]
                close(session.run(None, inputs), wanted, 1e-4)
        except Exception as error:  # noqa: BLE001
            failures.append(repr(error)[:500])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


# Plans are graphs with the addresses in them: every binding has its own, or is queued, and none is mistaken.
def test_many_bindings_in_turn_give_their_own_results(device):
    session, random = make_session(sum_of_two(), device), np.random.default_rng(8)
    rows, bindings = 24, []
    for _ in range(30):
        a, b = random.normal(size=(2, rows, 8)).astype(np.float32)
        x, y, z = DRIVER.upload(a), DRIVER.upload(b), DRIVER.upload(np.zeros_like(a))
        binding = session.io_binding()
        for name, memory, bind in (("a", x, binding.bind_input), ("b", y, binding.bind_input), ("y", z, binding.bind_output)):
            bind(name, "cuda", 0, np.float32, (rows, 8), memory)
        bindings.append((binding, x, y, z, a, b))
    order = [*range(30), *range(30), *([3] * 5), *([7, 3] * 5), *random.permutation(30), *range(29, -1, -1)]
    for index in order:
        binding, x, y, z, a, b = bindings[index]
        a[:] = random.normal(size=a.shape)
        DRIVER.write(x, a)
        DRIVER.write(z, np.full_like(a, np.nan))
        session.run_with_iobinding(binding)
        close([DRIVER.read(z, a.shape, np.float32)], [(a + b) * 2], 1e-6)
    for _, x, y, z, _, _ in bindings:
        for memory in (x, y, z):
            DRIVER.free(memory)


# What a kernel cannot report: an index outside of the tensor reads the nearest element, and nothing else breaks.
def test_an_index_outside_of_a_tensor_reads_its_edge(device):
    graph = helper.make_graph([helper.make_node("Gather", ["x", "i"], ["y"])], "gather",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
                               helper.make_tensor_value_info("i", TensorProto.INT64, ["m"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", 4])])
    session = make_session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), device)
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    index = np.array([0, 4, -1, -5, 5, 1 << 40, -6, -(1 << 40)], np.int64)
    (got,) = session.run(None, {"x": x, "i": index})
    np.testing.assert_array_equal(got, x[[0, 4, 4, 0, 4, 4, 0, 0]])
