"""Sessions of the package on a CUDA device: names and options, values and bindings on the device, streams of other libraries,
threads, pickles, batches.

Over the driver without a GPU that the tests of the CUDA EP have, with kernels that run on the host; over a real one
(TENON_FAKE_CUDA is not set), with torch, CuPy and JAX where they see it. TENON_CUDA_PLUGIN names the plugin; without it the
package tenon-cuda, where it is installed.
"""
import gc
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import tenon
from onnx import helper, numpy_helper
from tenon.batches import Predictor

import models

PLUGIN = os.environ.get("TENON_CUDA_PLUGIN", "")
FAKE = os.environ.get("TENON_FAKE_CUDA", "")
EP, CPU = "TenonCudaExecutionProvider", "CPUExecutionProvider"
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
Value = tenon.OrtValue


@pytest.fixture(scope="module", autouse=True)
def provider():
    if EP not in tenon.get_available_providers() and os.path.exists(PLUGIN):
        tenon.register_execution_provider_library("cuda", PLUGIN)
    if EP not in tenon.get_available_providers():
        pytest.skip("there is no CUDA device")


def network():
    """Convolution, product, softmax: cuDNN, cuBLASLt and kernels of the plugin's own on a GPU."""
    random = np.random.default_rng(1)

    def weights(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / 10).astype(np.float32), name)

    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[4, 4]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("MatMul", ["f", "m"], ["l"]),
             helper.make_node("Softmax", ["l"], ["y"])]
    return models.model(nodes, [models.value("x", models.FLOAT, ["n", 3, 16, 16])], [models.value("y", models.FLOAT, ["n", 5])],
                        [weights("w", 8, 3, 3, 3), weights("b", 8), weights("m", 128, 5)]).SerializeToString()


def images(rows=2, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 3, 16, 16), np.float32)


def session(model=None, **options):
    return tenon.InferenceSession(model or models.one_node("Relu", shape=["n", "m"]), providers=[EP], **options)


def claimed(model, **options):
    """A session whose nodes all have to be on the device."""
    chosen = tenon.SessionOptions()
    chosen.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return tenon.InferenceSession(model, chosen, providers=[(EP, {"use_tf32": "0", **options})])


def expected(model, feed):
    return tenon.InferenceSession(model, providers=[CPU]).run(None, feed)


# Names and options.


def test_the_provider_is_first_and_the_device_is_a_gpu():
    assert tenon.get_available_providers() == [EP, CPU] and tenon.get_device() == "GPU"
    assert session().get_providers() == [EP, CPU]
    found = [device for device in tenon.get_ep_devices() if device.ep_name == EP]
    assert found and found[0].device.type == tenon.OrtHardwareDeviceType.GPU
    assert found[0].ep_metadata["cuda_device_id"] == "0"


def test_onnxruntimes_name_and_options_make_the_same_session():
    asked = [("CUDAExecutionProvider", {"device_id": 0, "use_tf32": 0, "cudnn_conv_algo_search": "HEURISTIC"}), CPU]
    made = tenon.InferenceSession(network(), providers=asked)
    assert made.get_providers() == [EP, CPU] and made.get_provider_options()[EP]["use_tf32"] == "0"
    again = tenon.InferenceSession(network(), providers=[EP], provider_options=[made.get_provider_options()[EP]])
    assert np.array_equal(made.run(None, {"x": images()})[0], again.run(None, {"x": images()})[0])


def test_a_wrong_option_is_named():
    with pytest.raises(tenon.Error, match="cudnn_conv_algo_search"):
        tenon.InferenceSession(network(), providers=[(EP, {"cudnn_conv_algo_search": "FASTEST"})])


def test_devices_are_chosen_by_the_session_options():
    options = tenon.SessionOptions()
    options.add_provider_for_devices([device for device in tenon.get_ep_devices() if device.ep_name == EP][:1], {"use_tf32": "0"})
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    made = tenon.InferenceSession(network(), options)
    parts = made.get_provider_graph_assignment_info()
    assert [part.ep_name for part in parts] == [EP] and "Conv" in [node.op_type for node in parts[0].get_nodes()]


# Runs.


def test_a_network_gives_the_cpus_results():
    model = network()
    made = claimed(model)
    for rows in (1, 2, 7):
        feed = {"x": images(rows, rows)}
        np.testing.assert_allclose(made.run(None, feed)[0], expected(model, feed)[0], rtol=1e-4, atol=1e-5)


def test_arrays_are_copied_to_the_device_and_back_and_said_so():
    made = session()
    result, = made.run(None, {"x": X})
    assert np.array_equal(result, np.maximum(X, 0))
    assert [(copy.name, copy.size_bytes, copy.source[:3], copy.target[:3]) for copy in made.last_copies] == [
        ("x", X.nbytes, "cpu", "gpu"), ("y", X.nbytes, "gpu", "cpu")]


def test_strict_mode_refuses_a_copy_to_the_device():
    options = tenon.SessionOptions()
    options.add_session_config_entry("tenon.disallow_copies", "1")
    made = session(sess_options=options)
    with pytest.raises(tenon.Error, match="\"x\""):
        made.run(None, {"x": X})
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", Value.ortvalue_from_numpy(X, "cuda", 0))
    binding.bind_output("y", "cuda")
    made.run_with_iobinding(binding)
    assert np.array_equal(binding.get_outputs()[0].numpy(), np.maximum(X, 0))


def test_nodes_of_both_providers_make_one_model():
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Cast", ["r"], ["s"], to=models.STRING),
             helper.make_node("Cast", ["s"], ["n"], to=models.FLOAT), helper.make_node("Relu", ["n"], ["y"])]
    model = models.model(nodes, [models.value("x", models.FLOAT, ["n", "m"])],
                         [models.value("y", models.FLOAT, ["n", "m"]), models.value("s", models.STRING, ["n", "m"])])
    made = session(model.SerializeToString())
    numbers, texts = made.run(None, {"x": X})
    assert np.array_equal(numbers, np.maximum(X, 0)) and texts.tolist() == [["0", "0", "0"], ["0", "1", "2"]]


def test_a_run_calls_back():
    made, done, told = session(), threading.Event(), []

    def callback(results, data, error):
        told.append((results, data, error))
        done.set()

    made.run_async(None, {"x": X}, callback, 7)
    assert done.wait(60)
    (results, data, error), = told
    assert data == 7 and not error and np.array_equal(results[0], np.maximum(X, 0))


def test_threads_share_a_session():
    made, model, right = claimed(network()), network(), []
    wanted = [expected(model, {"x": images(seed=seed)})[0] for seed in range(4)]

    def work(seed):
        for _ in range(8):
            right.append(np.allclose(made.run(None, {"x": images(seed=seed)})[0], wanted[seed], rtol=1e-4, atol=1e-5))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 32


def test_a_session_pickles_with_its_provider():
    made = session(network(), provider_options=[{"use_tf32": "0"}])
    again = pickle.loads(pickle.dumps(made))
    assert again.get_providers() == [EP, CPU] and again.get_provider_options()[EP]["use_tf32"] == "0"
    assert np.array_equal(again.run(None, {"x": images()})[0], made.run(None, {"x": images()})[0])


def test_a_profile_has_the_devices_nodes(tmp_path):
    options = tenon.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    made = session(sess_options=options)
    made.run(None, {"x": X})
    events = json.loads(open(made.end_profiling()).read())
    assert any(event.get("args", {}).get("provider") == EP for event in events)


def test_a_predictor_runs_batches_on_the_device():
    predictor = Predictor(network(), inputs={"x": "image"}, outputs={"y": "score"}, keep=["id"], providers=[EP])
    batch = {"id": np.arange(4), "image": images(4)}
    result = predictor(batch)
    np.testing.assert_allclose(result["score"], expected(network(), {"x": batch["image"]})[0], rtol=1e-2, atol=1e-3)
    assert result["id"].tolist() == [0, 1, 2, 3] and predictor.counters.rows == 4


def test_onnxs_backend_runs_on_the_device():
    import onnx
    import tenon.backend
    assert tenon.backend.supports_device("CUDA") and tenon.backend.supports_device("CUDA:0")
    prepared = tenon.backend.prepare(onnx.load_from_string(models.one_node("Relu", shape=["n", "m"])), "CUDA")
    assert np.array_equal(prepared.run([X])[0], np.maximum(X, 0))


# Values and bindings.


def test_values_lie_on_the_device():
    value = Value.ortvalue_from_numpy(X, "cuda", 0)
    assert value.device_name() == "cuda" and value.shape() == [2, 3] and np.array_equal(value.numpy(), X)
    value.update_inplace(X * 2)
    assert np.array_equal(value.numpy(), X * 2)
    empty = Value.ortvalue_from_shape_and_type([2, 3], np.float32, "cuda", 0)
    tenon.copy_tensors([value], [empty])
    host = Value.ortvalue_from_shape_and_type([2, 3], np.float32)
    tenon.copy_tensors([empty], [host])
    assert np.array_equal(host.numpy(), X * 2)
    with pytest.raises(Exception, match="99|No shared allocator"):
        Value.ortvalue_from_numpy(X, "cuda", 99)


def test_page_locked_memory_has_a_view_and_is_not_copied():
    info, = (device.memory_info(tenon.OrtDeviceMemoryType.HOST_ACCESSIBLE) for device in tenon.get_ep_devices() if device.ep_name == EP)
    value = Value.ortvalue_from_shape_and_type([2, 3], np.float32, memory_info=info)
    value.numpy()[:] = X
    made = session()
    result, = made.run_with_ort_values(None, {"x": value})
    assert np.array_equal(result.numpy(), np.maximum(X, 0))
    assert not [copy for copy in made.last_copies if copy.name == "x"]


def test_bound_outputs_stay_on_the_device():
    made = session()
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cuda")
    made.run_with_iobinding(binding)
    value, = binding.get_outputs()
    assert value.device_name() == "cuda" and np.array_equal(value.numpy(), np.maximum(X, 0))
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(X, 0))
    binding.bind_ortvalue_input("x", value)  # what one run wrote is what the next reads
    made.run_with_iobinding(binding)
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(X, 0))


def test_bound_addresses_are_read_again_in_each_run():
    """From the second run on with the same addresses a graph is replayed."""
    made = claimed(network())
    x, y = Value.ortvalue_from_numpy(images(), "cuda", 0), Value.ortvalue_from_shape_and_type([2, 5], np.float32, "cuda", 0)
    binding = made.io_binding()
    binding.bind_input("x", "cuda", 0, np.float32, x.shape(), x.data_ptr())
    binding.bind_output("y", "cuda", 0, np.float32, y.shape(), y.data_ptr())
    for seed in range(5):
        x.update_inplace(images(seed=seed))
        made.run_with_iobinding(binding)
        np.testing.assert_allclose(y.numpy(), expected(network(), {"x": images(seed=seed)})[0], rtol=1e-4, atol=1e-5)
        assert made.last_copies == []


def test_sessions_and_values_are_released_in_any_order():
    value = Value.ortvalue_from_numpy(X, "cuda", 0)
    made = session()
    result, = made.run_with_ort_values(None, {"x": value})
    del made, value
    gc.collect()
    assert np.array_equal(result.numpy(), np.maximum(X, 0))


def test_a_process_ends_with_live_objects():
    program = "import os, numpy as np, tenon, models\n" \
        f"if {EP!r} not in tenon.get_available_providers(): tenon.register_execution_provider_library('cuda', {PLUGIN!r})\n" \
        f"s = tenon.InferenceSession(models.one_node('Relu'), providers=[{EP!r}])\n" \
        "v = tenon.OrtValue.ortvalue_from_numpy(np.ones((1, 2), np.float32), 'cuda', 0)\n" \
        "b = s.io_binding(); b.bind_ortvalue_input('x', v); b.bind_output('y', 'cuda'); s.run_with_iobinding(b)\n" \
        "print(b.copy_outputs_to_cpu()[0].tolist())\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=os.path.dirname(__file__))
    assert done.returncode == 0 and done.stdout.strip() == "[[1.0, 1.0]]", done.stderr


# A real device, and the libraries that share it.


@pytest.fixture
def gpu():
    if FAKE:
        pytest.skip("the driver has no GPU")


@pytest.fixture
def torch(gpu):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device")
    return torch


@pytest.fixture
def cupy(gpu):
    cupy = pytest.importorskip("cupy")
    try:
        cupy.arange(3).sum().item()
    except Exception as error:  # noqa: BLE001 - whatever it misses on this machine
        pytest.skip(f"CuPy does not work here: {error}")
    return cupy


def test_the_installed_package_finds_cudas_libraries(gpu):
    if importlib.util.find_spec("tenon_cuda") is None:
        pytest.skip("the package tenon-cuda is not installed")
    import tenon_cuda
    assert tenon_cuda.problem() is None and tenon_cuda.library_path().exists()
    assert all(tenon_cuda.find_libraries().values()), tenon_cuda.find_libraries()
    program = f"import tenon; print(tenon.get_available_providers() == [{EP!r}, {CPU!r}])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True", done.stderr


def test_a_program_for_onnxruntime_runs_on_the_device(gpu, tmp_path):
    if importlib.util.find_spec("tenon_cuda") is None:
        pytest.skip("the package tenon-cuda is not installed")
    (tmp_path / "m.onnx").write_bytes(network())
    np.save(tmp_path / "x.npy", images())
    (tmp_path / "program.py").write_text(
        "import numpy as np, onnxruntime as ort\n"
        "s = ort.InferenceSession('m.onnx', providers=['CUDAExecutionProvider', 'CPUExecutionProvider'])\n"
        "x = ort.OrtValue.ortvalue_from_numpy(np.load('x.npy'), 'cuda', 0)\n"
        "y, = s.run_with_ort_values(['y'], {'x': x})\n"
        "print(s.get_providers()[0], ort.get_device()); np.save('y.npy', y.numpy())\n")
    done = subprocess.run([sys.executable, "-m", "tenon.as_onnxruntime", "program.py"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=120)
    assert done.stdout.split() == [EP, "GPU"], done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(network(), {"x": images()})[0], rtol=1e-2, atol=1e-3)


def test_the_packages_plugin_runs_in_the_stock_onnxruntime(gpu, tmp_path):
    if importlib.util.find_spec("tenon_cuda") is None or importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("the packages tenon-cuda and onnxruntime are not both installed")
    (tmp_path / "m.onnx").write_bytes(network())
    np.save(tmp_path / "x.npy", images())
    program = "import importlib.util, pathlib, numpy as np, onnxruntime as ort\n" \
        "folder = pathlib.Path(importlib.util.find_spec('tenon_cuda').origin).parent\n" \
        "ort.register_execution_provider_library('tenon_cuda', str(folder / 'libtenon_ep_cuda.so'))\n" \
        "o = ort.SessionOptions()\n" \
        f"o.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == {EP!r}][:1], {{'use_tf32': '0'}})\n" \
        "y, = ort.InferenceSession('m.onnx', o).run(None, {'x': np.load('x.npy')}); np.save('y.npy', y)\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(network(), {"x": images()})[0], rtol=1e-4, atol=1e-5)


def test_torchs_stream_orders_a_sessions_work(torch):
    """Nobody synchronises between torch's kernels and the run."""
    stream = torch.cuda.Stream()
    made = claimed(models.one_node("Relu", shape=["n", "m"]), user_compute_stream=str(stream.cuda_stream))
    x, y = torch.empty(512, 512, device="cuda"), torch.empty(512, 512, device="cuda")
    stream.synchronize()
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", tenon.import_memory(x))
    binding.bind_ortvalue_output("y", tenon.import_memory(y))
    busy = torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    for seed in range(10):
        value = torch.from_numpy(np.random.default_rng(seed).standard_normal((512, 512), np.float32)).pin_memory()
        with torch.cuda.stream(stream):
            for _ in range(10):
                torch.mm(busy, busy)
            x.copy_(value, non_blocking=True)
            made.run_with_iobinding(binding)
            twice = y * 2
        stream.synchronize()
        assert torch.equal(twice.cpu(), 2 * value.relu())


def test_results_go_to_torch_without_a_copy(torch):
    made = session()
    for _ in range(20):
        x = torch.randn(256, 256, device="cuda")
        binding = made.io_binding()
        binding.bind_ortvalue_input("x", Value.from_dlpack(x))
        binding.bind_output("y", "cuda")
        made.run_with_iobinding(binding)
        result, = binding.get_outputs()
        tensor = torch.from_dlpack(result)
        assert tensor.data_ptr() == result.data_ptr() and tensor.is_cuda
        del result, binding
        gc.collect()
        assert torch.equal(tensor, torch.relu(x))


def test_pinned_memory_of_torch_is_memory_of_the_host(torch):
    pinned = torch.from_numpy(X.copy()).pin_memory()
    value = tenon.import_memory(pinned)
    assert value.data_ptr() == pinned.data_ptr() and value.device_name() == "cpu"
    assert np.array_equal(session().run_with_ort_values(None, {"x": value})[0].numpy(), np.maximum(X, 0))


class Interface:
    """An array that is offered by the CUDA array interface alone."""

    def __init__(self, array):
        self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


@pytest.mark.parametrize("protocol", ["dlpack", "interface"])
def test_cupys_arrays_are_used_in_place(cupy, protocol):
    made, stream = session(), cupy.cuda.Stream(non_blocking=True)
    for seed in range(10):
        with stream:
            big = cupy.random.default_rng(seed).standard_normal((1024, 1024), dtype=cupy.float32)
            for _ in range(10):
                big = big @ big / 1024
            array = cupy.sin(big[:64, :64]).copy()
            value = tenon.import_memory(array if protocol == "dlpack" else Interface(array))
        assert value.data_ptr() == array.data.ptr and value.device_name() == "cuda"
        result, = made.run_with_ort_values(None, {"x": value})
        assert np.array_equal(result.numpy(), np.maximum(cupy.asnumpy(array), 0))
        back = cupy.from_dlpack(value)
        assert back.data.ptr == value.data_ptr()


def test_cupys_arrays_are_bound(cupy):
    x, y, made = cupy.asarray(X), cupy.empty((2, 3), cupy.float32), session()
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", tenon.import_memory(x))
    binding.bind_ortvalue_output("y", tenon.import_memory(y))
    for offset in range(4):
        x += offset
        cupy.cuda.get_current_stream().synchronize()
        made.run_with_iobinding(binding)
        assert np.array_equal(cupy.asnumpy(y), np.maximum(cupy.asnumpy(x), 0)) and made.last_copies == []


def test_cupys_strided_arrays_are_refused(cupy):
    with pytest.raises((ValueError, tenon.Error), match="stride"):
        tenon.import_memory(cupy.ones((4, 4), cupy.float32).T)


@pytest.mark.parametrize("protocol", ["dlpack", "interface"])
def test_managed_memory_is_host_accessible(cupy, protocol):
    """A page of it: the host and the device read and write the same bytes."""
    if os.environ.get("TENON_MANAGED_MEMORY") != "1":
        pytest.skip("TENON_MANAGED_MEMORY=1 allows managed memory")
    pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)
    with cupy.cuda.using_allocator(pool.malloc):
        array = cupy.asarray(X)
    value = tenon.import_memory(array if protocol == "dlpack" else Interface(array))
    assert value.data_ptr() == array.data.ptr and value.device_name() == "cuda"
    made = session()
    result, = made.run_with_ort_values(None, {"x": value})
    assert np.array_equal(result.numpy(), np.maximum(X, 0))
    assert not [copy for copy in made.last_copies if copy.name == "x"]
    view = value.numpy()
    view[0, 0] = 9
    assert cupy.asnumpy(array)[0, 0] == 9


def test_jaxs_arrays_are_used_in_place(gpu):
    """In a process of its own: JAX keeps memory of the device."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    program = "import jax, numpy as np, tenon, models\n" \
        "if not [d for d in jax.devices() if d.platform in ('gpu', 'cuda')]: print('skip'); raise SystemExit\n" \
        f"if {EP!r} not in tenon.get_available_providers(): tenon.register_execution_provider_library('cuda', {PLUGIN!r})\n" \
        "x = jax.numpy.arange(-3, 3, dtype='float32').reshape(3, 2) * 2\n" \
        "v = tenon.import_memory(x)\n" \
        f"s = tenon.InferenceSession(models.one_node('Relu'), providers=[{EP!r}])\n" \
        "r, = s.run_with_ort_values(None, {'x': v})\n" \
        "b = s.io_binding(); b.bind_ortvalue_input('x', v); b.bind_output('y', 'cuda'); s.run_with_iobinding(b)\n" \
        "back = jax.dlpack.from_dlpack(b.get_outputs()[0])\n" \
        "print(v.device_name(), v.data_ptr() == x.unsafe_buffer_pointer(), np.array_equal(r.numpy(), np.maximum(x, 0)),\n" \
        "      bool((back == jax.numpy.maximum(x, 0)).all()))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200,
                          cwd=os.path.dirname(__file__), env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    if done.stdout.strip() == "skip":
        pytest.skip("JAX has no CUDA device")
    assert done.stdout.split() == ["cuda", "True", "True", "True"], done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
