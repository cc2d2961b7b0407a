"""The CUDA plugin on a GPU: the importer against Vulkan's driver, and every option of S4 beside torch. Skips, with the
reason, where there is no GPU, no torch or no Vulkan."""
import ctypes
import gc
import os
import pathlib
import subprocess
import threading

import numpy
import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

from onnx import TensorProto, helper  # noqa: E402

PLUGIN = os.environ["TENON_CUDA_PLUGIN"]
EP = "TenonCudaExecutionProvider"
ROWS = 256


def stock_hosts():
    return [str(path) for path in (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")]


# S1.7 and the rest of the suite, with buffers and timelines of the Vulkan driver of the same GPU.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_it_conforms_with_vulkan(host):
    done = subprocess.run([os.environ["TENON_SUITE"], host, "--plugin", f"cuda={PLUGIN}", "--vulkan-gpu"],
                          capture_output=True, text=True, timeout=900)
    if "Nothing was shared with Vulkan" in done.stdout:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def device():
    onnxruntime.register_execution_provider_library("tenon_cuda", PLUGIN)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]
    assert devices, "the plugin offers no device"
    return devices[0]


@pytest.fixture(scope="session")
def model():
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


@pytest.fixture(scope="session")
def expected(model):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def make_session(model, device, **options):
    chosen = onnxruntime.SessionOptions()
    chosen.add_provider_for_devices([device], {key: str(value) for key, value in options.items()})
    session = onnxruntime.InferenceSession(model, chosen)
    assert session.get_providers()[0] == EP
    return session


def make_input(seed):
    return numpy.random.default_rng(seed).normal(0, 1, (ROWS, 256)).astype(numpy.float32)


def close(got, wanted):
    numpy.testing.assert_allclose(got, wanted, atol=1e-3 * numpy.abs(wanted).max(), rtol=0)


def bind(session, x, y):
    binding = session.io_binding()
    for name, tensor, into in (("x", x, binding.bind_input), ("y", y, binding.bind_output)):
        into(name, "cuda", 0, numpy.float32, tuple(tensor.shape), tensor.data_ptr())
    return binding


OPTIONS = [{}, {"use_ep_level_unified_stream": 1}, {"do_copy_in_default_stream": 0}, {"use_tf32": 0},
           {"has_user_compute_stream": 1}, {"user_compute_stream": 2}, {"enable_cuda_graph": 1},
           {"gpu_mem_limit": 1 << 30}]


# S4.2, S4.1 on CUDA's default streams
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: str(options))
def test_every_option_gives_the_cpu_eps_result(device, model, expected, options):
    session = make_session(model, device, **options)
    for seed in range(4):
        x = make_input(seed)
        close(session.run(None, {"x": x})[0], expected(x))


# S4.1: torch produces and consumes on its own stream, and nobody synchronises in between.
def test_torchs_stream_orders_everything(device, model, expected):
    stream = torch.cuda.Stream()
    session = make_session(model, device, user_compute_stream=stream.cuda_stream)
    x, y = torch.empty(ROWS, 256, device="cuda"), torch.empty(ROWS, 256, device="cuda")
    busy = torch.randn(2048, 2048, device="cuda")
    binding = bind(session, x, y)
    stream.synchronize()
    for seed in range(10):
        value = make_input(seed)
        host = torch.from_numpy(value).pin_memory()
        with torch.cuda.stream(stream):
            for _ in range(10):
                torch.mm(busy, busy)
            x.copy_(host, non_blocking=True)
            session.run_with_iobinding(binding)
            doubled = y * 2
        stream.synchronize()
        close(doubled.cpu().numpy(), 2 * expected(value))


# S4.1: the profiler sees no kernel of the session on another stream.
def test_torchs_stream_is_the_only_one(device, model):
    stream = torch.cuda.Stream()
    session = make_session(model, device, user_compute_stream=stream.cuda_stream)
    x, y = torch.ones(ROWS, 256, device="cuda"), torch.empty(ROWS, 256, device="cuda")
    binding = bind(session, x, y)
    session.run_with_iobinding(binding)
    torch.cuda.synchronize()
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        with torch.cuda.stream(stream):
            y.zero_()
            session.run_with_iobinding(binding)
        torch.cuda.synchronize()
    streams = {event.device_resource_id() for event in profiled.profiler.kineto_results.events()
               if event.device_type() == torch.autograd.DeviceType.CUDA}
    assert len(streams) == 1, streams


class TorchAllocator:
    """torch's caching allocator as the session's, with every block counted."""

    def __init__(self):
        self.live, self.taken, self.wrong, self.refuse = {}, 0, [], False
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(self.take)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.give_back)

    def take(self, size):
        if self.refuse:
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


# S4.3
def test_torchs_allocator_gets_every_block_back(device, model, expected):
    allocator = TorchAllocator()
    session = make_session(model, device, **allocator.options())
    for seed in range(5):
        x = make_input(seed)
        close(session.run(None, {"x": x})[0], expected(x))
    assert allocator.taken > 0
    del session
    gc.collect()
    assert not allocator.live and not allocator.wrong


# S4.3: an allocator that has no more is out of memory; the session lives on, and no block is lost.
def test_a_full_allocator_is_an_error_and_loses_nothing(device, model, expected):
    allocator = TorchAllocator()
    session = make_session(model, device, **allocator.options())
    x = make_input(0)
    close(session.run(None, {"x": x})[0], expected(x))
    allocator.refuse = True
    fresh = numpy.concatenate([x, x])[:ROWS]
    try:
        session.run(None, {"x": fresh})  # from blocks that the session has already, or an error
    except Exception as error:  # noqa: BLE001
        assert "emory" in str(error) or "lloc" in str(error)
    allocator.refuse = False
    close(session.run(None, {"x": x})[0], expected(x))
    del session
    gc.collect()
    assert not allocator.live and not allocator.wrong


# S4.3: sessions with different options side by side.
def test_sessions_with_different_options_run_side_by_side(device, model, expected):
    allocator = TorchAllocator()
    stream = torch.cuda.Stream()
    chosen = [{}, allocator.options(), {"user_compute_stream": stream.cuda_stream}, {"enable_cuda_graph": 1},
              {"use_ep_level_unified_stream": 1}]
    sessions = [make_session(model, device, **options) for options in chosen]
    failures = []

    def work(session, seed):
        try:
            for i in range(50):
                x = make_input(100 * seed + i)
                close(session.run(None, {"x": x})[0], expected(x))
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(session, seed)) for seed, session in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    sessions.clear()
    gc.collect()
    assert not allocator.live and not allocator.wrong


# S5.3: the same bytes from 16 threads as from one.
def test_concurrent_runs_give_the_same_bytes(device, model):
    session = make_session(model, device)
    inputs = [make_input(seed) for seed in range(16)]
    wanted = [session.run(None, {"x": x})[0] for x in inputs]
    runs = int(os.environ.get("TENON_CUDA_RUNS", "100"))
    wrong = []

    def work(index):
        for _ in range(runs):
            if not numpy.array_equal(session.run(None, {"x": inputs[index]})[0], wanted[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
