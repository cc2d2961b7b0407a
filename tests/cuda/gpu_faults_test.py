"""Faults on a GPU: memory that runs out, an allocator that refuses, a kernel that faults; and that nothing leaks. Skips,
with the reason, where there is no GPU or no torch."""
import gc
import os
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

from gpu_sessions import (TorchAllocator, close, free_bytes, heap_bytes, make_input, make_session,  # noqa: E402
                          open_files, resident_bytes)
from hosts import host_libraries, leave_waiting  # noqa: E402

SLACK = 8 << 20


def use(model, device, expected, **options):
    session = make_session(model, device, **options)
    for seed in range(3):
        x = make_input(seed)
        close(session.run(None, {"x": x})[0], expected(x))


def collect():
    gc.collect()
    torch.cuda.empty_cache()


# A limit below the model's weights: the session cannot be made, and says which option forbids it.
def test_a_limit_that_is_too_small_is_named_and_leaves_nothing(device, model, expected):
    use(model, device, expected)
    collect()
    before, files = free_bytes(), open_files()
    for limit in (1, 100_000, 400_000):
        with pytest.raises(Exception, match=f"gpu_mem_limit {limit}"):
            use(model, device, expected, gpu_mem_limit=limit)
    collect()
    assert open_files() == files
    if "TENON_CUDA_ALONE" in os.environ:
        assert free_bytes() >= before - SLACK
    use(model, device, expected, gpu_mem_limit=1 << 30)


# The libraries' workspace (32 MiB) is what a session can do without.
def test_a_limit_below_the_workspace_still_serves(device, model, expected):
    use(model, device, expected, gpu_mem_limit=8 << 20)


ALONE = pytest.mark.skipif("TENON_CUDA_ALONE" not in os.environ,
                           reason="takes or counts all of the GPU's memory; set TENON_CUDA_ALONE where nobody else uses it")


# Somebody else has all of the memory: an error with what is free, and all is well when it comes back.
@ALONE
def test_a_full_device_is_an_error_and_passes(device, model, expected):
    running = make_session(model, device)
    x = make_input(0)
    close(running.run(None, {"x": x})[0], expected(x))
    taken = []
    size = 1 << 36
    while size >= 1 << 20:
        try:
            taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    # The pool of the process keeps what earlier sessions freed; a model that needs more does not fit there.
    from onnx import TensorProto, helper, numpy_helper
    weights = numpy_helper.from_array(numpy.zeros((16384, 16384), numpy.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "large",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16384])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16384])], [weights])
    large = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    with pytest.raises(Exception, match="OUT_OF_MEMORY|no memory for a tensor"):
        make_session(large, device).run(None, {"x": numpy.ones((1, 16384), numpy.float32)})
    close(running.run(None, {"x": x})[0], expected(x))  # others go on
    taken.clear()
    collect()
    session = make_session(large, device)
    assert not session.run(None, {"x": numpy.ones((1, 16384), numpy.float32)})[0].any()


# S4.3: the allocator refuses at every one of its calls in turn.
def test_an_allocator_that_refuses_once_loses_no_block(device, model, expected):
    refused = 0
    for n in range(1, 200):
        allocator = TorchAllocator()
        allocator.refuse_at = n
        session = None
        failures = []
        try:
            session = make_session(model, device, **allocator.options())
        except Exception as error:  # noqa: BLE001
            failures.append(str(error))
        for seed in range(3 if session else 0):
            x = make_input(seed)
            try:
                close(session.run(None, {"x": x})[0], expected(x))
            except Exception as error:  # noqa: BLE001
                failures.append(str(error))
        allocator.refuse_at = 0
        if session:
            close(session.run(None, {"x": x})[0], expected(x))  # the session goes on
        # Where a host's own allocation fails it says no more; the reason is in its log.
        assert all("gpu_external_alloc" in failure or "lloc" in failure or "emory" in failure for failure in failures)
        assert len(failures) <= 1, failures
        session = None
        gc.collect()
        assert not allocator.live and not allocator.wrong, f"after a refusal of call {n}"
        if allocator.calls < n:
            break
        refused = n
    assert refused > 3
    print(refused, "calls of the allocator were refused in turn")


FAULT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, onnxruntime, torch
from gpu_sessions import *
device, model = find_devices()[0], make_model()
on_cpu = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
faulty, other = make_session(model, device), make_session(model, device)
x = make_input(0)
wanted = on_cpu.run(None, {"x": x})[0]
close(other.run(None, {"x": x})[0], wanted)
y = torch.empty(ROWS, 256, device="cuda")
binding = faulty.io_binding()
binding.bind_input("x", "cuda", 0, numpy.float32, (ROWS, 256), 16)  # an address of nobody
binding.bind_output("y", "cuda", 0, numpy.float32, (ROWS, 256), y.data_ptr())
def attempt(name, run):
    try:
        run()
        print(name, "OK", flush=True)
    except Exception as error:
        print(name, "FAILED", str(error).replace(chr(10), " "), flush=True)
attempt("faulty", lambda: faulty.run_with_iobinding(binding))
attempt("faulty again", lambda: faulty.run(None, {"x": x}))
attempt("other", lambda: other.run(None, {"x": x}))
attempt("cpu", lambda: close(on_cpu.run(None, {"x": x})[0], wanted))
def fresh():
    session = make_session(model, device)
    close(session.run(None, {"x": x})[0], wanted)
attempt("fresh", fresh)
del faulty, other, binding
attempt("fresh again", fresh)
attempt("cpu again", lambda: close(on_cpu.run(None, {"x": x})[0], wanted))
print("end", flush=True)
"""


# A kernel that faults takes all of the process's CUDA with it, other contexts too, and the driver makes no new one: every
# session on a GPU says so at once, the CPU's go on, and the process ends as it should.
def test_a_kernel_fault_is_told_to_every_session_of_the_process():
    done = subprocess.run([sys.executable, "-c", FAULT, os.path.dirname(__file__)], capture_output=True, text=True,
                          timeout=120)
    print(done.stdout)
    said = dict(line.split(" OK" if " OK" in line else " FAILED", 1) for line in done.stdout.splitlines()[:-1])
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    for name in ("faulty", "faulty again", "other", "fresh", "fresh again"):
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said[name], said
    assert "only a new process can use" in said["other"], said
    assert said["cpu"] == said["cpu again"] == "", said


HOSTS = pytest.mark.parametrize("host", host_libraries(), ids=os.path.basename)


# Every call of the C ABI after it, and the end of the process, with everything released before or not.
@pytest.mark.parametrize("end", ["released", "live"])
@HOSTS
def test_no_call_after_a_kernel_fault_hangs_or_ends_the_process(host, end):
    done = subprocess.run([os.environ["TENON_KERNEL_FAULT"], host, os.environ["TENON_CUDA_PLUGIN"], end],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.endswith("0 complaints\n")


# A Vulkan program signals late, or is killed while CUDA waits for it.
@HOSTS
def test_a_vulkan_program_that_is_killed_hangs_nobody(host):
    done = subprocess.run([os.environ["TENON_LATE_FENCES"], host, os.environ["TENON_CUDA_PLUGIN"], "--vulkan-gpu"],
                          capture_output=True, text=True, timeout=300)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip()[-200:])
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@HOSTS
def test_a_process_ends_though_a_stream_waits_for_ever(host):
    done = subprocess.run([os.environ["TENON_EXITS"], host, os.environ["TENON_CUDA_PLUGIN"],
                           os.environ["TENON_UNLOADING"], "--vulkan-gpu"], capture_output=True, text=True, timeout=300)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip()[-200:])
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


# cuBLASLt's exit handler hangs alone; with torch's libraries in the process the handlers of some other one may do.
@pytest.mark.parametrize("before", ["", "import torch\ntorch.ones(4, device='cuda').sum().item()"], ids=["", "torch"])
@HOSTS
def test_python_ends_with_its_status_though_a_stream_waits_for_ever(host, before):
    done = leave_waiting(host, os.environ["TENON_CUDA_PLUGIN"], vulkan=True, before=before)
    if "no Vulkan" in done.stdout:
        pytest.skip(done.stdout.strip()[-200:])
    assert done.returncode == 3, done.stdout + done.stderr[-2000:]
    assert before or "ends with status 3" in done.stderr


# Sessions come and go, with their runs: device memory, the host's memory and open files stay as they are.
@ALONE
@pytest.mark.parametrize("options", [{}, {"use_ep_level_unified_stream": 1, "gpu_mem_limit": 1 << 30}], ids=str)
def test_sessions_leave_nothing_behind(device, model, options, tmp_path, expected):
    count = int(os.environ.get("TENON_CUDA_SESSIONS", "60"))
    x = make_input(0)
    wanted = expected(x)

    def once():
        session = make_session(model, device, algorithm_cache=tmp_path / "algorithms", **options)
        for _ in range(3):
            close(session.run(None, {"x": x})[0], wanted)

    for _ in range(60):
        once()
    collect()
    before = free_bytes(), heap_bytes(), open_files(), resident_bytes()
    for _ in range(count):
        once()
    collect()
    after = free_bytes(), heap_bytes(), open_files(), resident_bytes()
    print(f"{count} sessions: device memory {before[0] - after[0]:+d} bytes, heap {after[1] - before[1]:+d}, "
          f"files {after[2] - before[2]:+d}, resident {after[3] - before[3]:+d}")
    assert before[0] - after[0] <= SLACK
    assert after[1] - before[1] <= 3 << 20
    assert after[3] - before[3] <= 64 << 20
    assert after[2] == before[2]
