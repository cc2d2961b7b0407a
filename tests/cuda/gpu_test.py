"""The CUDA plugin on a GPU: the importer against Vulkan's driver, and every option of S4 beside torch. Skips, with the
reason, where there is no GPU, no torch or no Vulkan."""
import gc
import json
import os
import pathlib
import subprocess
import threading
import time

import numpy
import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

from onnx import TensorProto, helper  # noqa: E402

from gpu_sessions import (EP, PLUGIN, ROWS, TorchAllocator, bind, close, make_input, make_session,  # noqa: E402
                          one_operator)
from hosts import host_libraries  # noqa: E402


HOSTS = pytest.mark.parametrize("host", host_libraries(), ids=os.path.basename)


# S1.7 and the rest of the suite, with buffers and timelines of the Vulkan driver of the same GPU.
@HOSTS
def test_it_conforms_with_vulkan(host):
    done = subprocess.run([os.environ["TENON_SUITE"], host, "--plugin", f"cuda={PLUGIN}", "--vulkan-gpu"],
                          capture_output=True, text=True, timeout=900)
    if "Nothing was shared with Vulkan" in done.stdout:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr


# S1.9, S2: a DLPack tensor of the driver's memory; graphics interop where the device has it, and why not where it has none.
@HOSTS
def test_dlpack_tensors_and_graphics_contexts_in_a_host(host):
    done = subprocess.run([os.environ["TENON_SHARING"], host, PLUGIN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


# S2: CUDA's own handles, host memory and a memfd; the other end is a process of its own where the kind needs one.
@HOSTS
def test_memory_by_handles_of_cuda_and_the_system(host):
    done = subprocess.run([os.environ["TENON_HANDLES"], host, PLUGIN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the process that made the memory sees the results" in done.stdout


# S4.1, S5.1: the run's stream is held shut by a timeline of the Vulkan driver and by the host, the session's by the host.
@HOSTS
def test_a_run_keeps_to_the_order_of_the_programs_stream(host):
    command = [os.environ["TENON_RUN_STREAM"], host, PLUGIN]
    done = subprocess.run([*command, "--vulkan-gpu"], capture_output=True, text=True, timeout=300)
    if "no Vulkan" in done.stdout:
        done = subprocess.run([*command, "--no-semaphore"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


# S4.3
@HOSTS
def test_a_sessions_own_allocator_and_limit(host):
    done = subprocess.run([os.environ["TENON_OWN_MEMORY"], host, PLUGIN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


OPTIONS = [{}, {"use_ep_level_unified_stream": 1}, {"do_copy_in_default_stream": 0}, {"use_tf32": 0},
           {"has_user_compute_stream": 1}, {"user_compute_stream": 2}, {"enable_cuda_graph": 1},
           {"enable_cuda_graph": 0}, {"prefer_nhwc": 1}, {"cudnn_conv_algo_search": "HEURISTIC"}, {"device_id": 0},
           {"do_copy_in_default_stream": 0, "use_ep_level_unified_stream": 1}, {"gpu_mem_limit": 1 << 30}]


# S4.2, S4.1 on CUDA's default streams
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: str(options))
def test_every_option_gives_the_cpu_eps_result(device, model, expected, options):
    session = make_session(model, device, **options)
    for seed in range(4):
        x = make_input(seed)
        close(session.run(None, {"x": x})[0], expected(x))


# Parts of tensors are memory too, wherever they begin: inputs and outputs at every multiple of their element.
@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("kind", ["product", "conv", "norm", "chain", "sum", "softmax", "transpose"])
def test_tensors_begin_at_any_element(device, kind, dtype):
    model = one_operator(kind, dtype)
    cpu = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    session = make_session(model, device)
    random = numpy.random.default_rng(7)
    shape, out_shape = (session.get_inputs()[0].shape, session.get_outputs()[0].shape)
    torch_type = getattr(torch, numpy.dtype(dtype).name)
    into, out = (torch.full((int(numpy.prod(sizes)) + 16,), 7, dtype=torch_type, device="cuda")
                 for sizes in (shape, out_shape))
    count, out_count = into.numel() - 16, out.numel() - 16
    for begin, out_begin in [(0, 0), (1, 0), (0, 1), (3, 5), (2, 6), (1, 1), (4, 12), (7, 7)]:
        x = random.normal(0, 1, shape).astype(dtype)
        wanted = cpu.run(None, {"x": x})[0]
        into[begin:begin + count] = torch.from_numpy(x).cuda().flatten()
        binding = session.io_binding()
        for name, tensor, at, sizes, bind_to in (("x", into, begin, shape, binding.bind_input),
                                                 ("y", out, out_begin, out_shape, binding.bind_output)):
            bind_to(name, "cuda", 0, dtype, sizes, tensor.data_ptr() + at * tensor.element_size())
        for _ in range(3):  # queued, captured, launched
            out.fill_(7)
            torch.cuda.synchronize()
            session.run_with_iobinding(binding)
            got = out.cpu().numpy().astype(numpy.float32)
            numpy.testing.assert_allclose(got[out_begin:out_begin + out_count].reshape(out_shape), wanted,
                                          atol=1e-2 * numpy.abs(wanted).max(), rtol=0)
            assert (got[:out_begin] == 7).all() and (got[out_begin + out_count:] == 7).all()


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


# S4.4, S4.5
@pytest.mark.parametrize("options, words", [
    ({"user_compute_stream": "banana"}, ["user_compute_stream", "banana"]),
    ({"user_compute_steam": 1}, ["user_compute_steam", "user_compute_stream"]),
    ({"has_user_compute_stream": 1, "enable_cuda_graph": 1}, ["enable_cuda_graph", "user_compute_stream"]),
    ({"user_compute_stream": 2, "gpu_external_alloc": 4096, "gpu_external_free": 4096},
     ["user_compute_stream", "gpu_external_alloc"]),
    ({"gpu_external_free": 4096}, ["gpu_external_alloc", "gpu_external_free"]),
    ({"gpu_mem_limit": -1}, ["gpu_mem_limit", "-1"]), ({"prefer_nhwc": "maybe"}, ["prefer_nhwc", "maybe"]),
    ({"cudnn_conv_algo_search": "BEST"}, ["cudnn_conv_algo_search", "BEST"]),
    ({"device_id": 512}, ["device_id", "512"])], ids=str)
def test_bad_options_are_errors_that_name_them(device, model, options, words):
    with pytest.raises(Exception) as failure:
        make_session(model, device, **options)
    assert [word for word in words if word not in str(failure.value)] == []


def run_entries(**entries):
    options = onnxruntime.RunOptions()
    for key, value in entries.items():
        options.add_run_config_entry(key.replace("__", "."), str(value))
    return options


# ONNX Runtime's entry: -1 refuses graphs for one run; other numbers name a graph, and ours are named by their bindings.
@pytest.mark.parametrize("enable", [None, 0, 1])
def test_a_run_may_refuse_graphs(device, model, expected, enable):
    session = make_session(model, device, **({} if enable is None else {"enable_cuda_graph": enable}))
    x, y = torch.empty(ROWS, 256, device="cuda"), torch.empty(ROWS, 256, device="cuda")
    binding = bind(session, x, y)
    for seed, graph in enumerate([0, 0, 0, -1, -1, 7, 0, -1]):
        value = make_input(seed)
        x.copy_(torch.from_numpy(value))
        torch.cuda.synchronize()
        session.run_with_iobinding(binding, run_entries(gpu_graph_id=graph))
        close(y.cpu().numpy(), expected(value))
    with pytest.raises(Exception, match="gpu_graph_id.*banana"):
        session.run_with_iobinding(binding, run_entries(gpu_graph_id="banana"))
    session.run_with_iobinding(binding)


# Work that takes longer than its run may ends the run, and not the session.
@pytest.mark.parametrize("bound", [True, False])
def test_a_deadline_ends_the_run(device, model, expected, bound):
    stream = torch.cuda.Stream()
    session = make_session(model, device, **({"user_compute_stream": stream.cuda_stream} if bound else {}))
    value = make_input(1)
    close(session.run(None, {"x": value}, run_entries(tenon__timeout_ms=20_000))[0], expected(value))
    with pytest.raises(Exception, match="tenon.timeout_ms.*-5"):
        session.run(None, {"x": value}, run_entries(tenon__timeout_ms=-5))
    if not bound:
        return
    with torch.cuda.stream(stream):
        torch.cuda._sleep(4_000_000_000)  # about two seconds
    begin = time.monotonic()
    with pytest.raises(Exception, match="tenon.timeout_ms"):
        session.run(None, {"x": value}, run_entries(tenon__timeout_ms=200))
    assert time.monotonic() - begin < 1.5
    stream.synchronize()
    close(session.run(None, {"x": value})[0], expected(value))


# S5.3: the same bytes from 16 threads as from one, on two sessions at once.
def test_concurrent_runs_give_the_same_bytes(device, model):
    sessions = [make_session(model, device), make_session(model, device, do_copy_in_default_stream=0)]
    inputs = [make_input(seed) for seed in range(16)]
    wanted = [[session.run(None, {"x": x})[0] for x in inputs] for session in sessions]  # each chooses by measurement
    runs = int(os.environ.get("TENON_CUDA_RUNS", "1000"))
    wrong = []

    def work(index):
        for i in range(runs):
            chosen = (index + i) % 2
            if not numpy.array_equal(sessions[chosen].run(None, {"x": inputs[index]})[0], wanted[chosen][index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def demo(*arguments):
    model = pathlib.Path(os.environ.get("TENON_MODELS", "")) / "ppocr_v6_det.onnx"
    if not model.exists():
        pytest.skip("TENON_MODELS has no ppocr_v6_det.onnx")
    return subprocess.run([os.environ["TENON_CLI"], "demo", "--model", str(model), "--json", *map(str, arguments)],
                          capture_output=True, text=True, timeout=300)


def demo_report(*arguments):
    done = demo(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


CUDA = ["--device", "cuda", "--plugin", PLUGIN]


# The main job on one GPU: Vulkan draws into its own memory and signals, CUDA infers there, Vulkan reads; S6.2.
@pytest.mark.parametrize("mode", [[], ["--in-process"], ["--buffers", 3]], ids=str)
def test_the_demo_copies_nothing_and_finds_what_the_cpu_finds(tmp_path, mode):
    picture = tmp_path / "frame.png"
    cuda = demo_report(*CUDA, "--frames", 12, "--png", picture, *mode)
    cpu = demo_report("--frames", 12)
    assert cuda["bytes_copied"] == 0 and cuda["copies"] == []
    assert cuda["ep_name"] == EP and cuda["fence"] == ("callback_timeline" if mode == ["--in-process"] else
                                                      "vulkan_timeline")
    assert (cuda["lines_matched"], cuda["lines_expected"]) == (cpu["lines_matched"], cpu["lines_expected"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    for ours, theirs in zip(cuda["per_frame"], cpu["per_frame"]):
        assert ours["expected"] == theirs["expected"]
        assert numpy.abs(numpy.array(sorted(ours["found"])) - numpy.array(sorted(theirs["found"]))).max() <= 2


# A frame that nobody draws any more: the device waits for it, and the demo ends all the same.
def test_the_demo_ends_when_its_vulkan_side_dies():
    done = demo(*CUDA, "--frames", 12, "--kill-producer-at", 4)
    assert done.returncode not in (0, -6, -9, -11), done.stdout + done.stderr
    assert "Vulkan side" in done.stderr


# `tenon explain` measures here what importing and copying cost, and uses its figures again.
def test_break_even_is_measured_on_this_machine(tmp_path):
    model = tmp_path / "relu.onnx"
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 25])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 25])])
    model.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)],
                                        ir_version=9).SerializeToString())
    command = [os.environ["TENON_CLI"], "explain", model, "--plugin", f"cuda={PLUGIN}", "--ep", EP, "--break-even",
               "--break-even-file", tmp_path / "figures.json", "--json"]
    reports = []
    for _ in range(2):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        reports.append(json.loads(done.stdout)["break_even"])
    assert reports[0] == reports[1]
    for way in ("in", "out"):
        costs = [copy["us"] for copy in reports[0][way]["copies"]]
        assert reports[0][way]["import_us"] > 0 and costs[0] < costs[-1]
    assert [one["faster"] for one in reports[0]["buffers"]] == ["import", "import"]  # 128 MiB
