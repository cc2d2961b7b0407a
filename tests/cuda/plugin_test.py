"""The CUDA plugin without a GPU: it loads everywhere and says why it offers nothing; over the fake driver, which enforces
the driver's documented rules and ends the process at the first violation, it conforms in our host and in stock ones."""
import json
import os
import pathlib
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

PLUGIN = os.environ["TENON_CUDA_PLUGIN"]
FAKE = pathlib.Path(os.environ["TENON_FAKE_CUDA"])
FAKE_PLUGIN = FAKE / "libtenon_ep_cuda_fake.so"
EP = "TenonCudaExecutionProvider"
THE_EIGHT = ["CreateExternalResourceImporter", "CanImportMemoryCapabilities", "CanImportSemaphoreCapabilities",
             "ImportSharedResource", "CreateTensorFromImportedMemory", "ImportFence", "WaitAndSignalSemaphore",
             "FullInferenceWithExternalMemory"]


def stock_hosts():
    """The libraries of this Python's onnxruntime and of the versions that ./dev installs."""
    folders = list(pathlib.Path(os.environ.get("TENON_ORT", "none")).glob("*/lib/python3*/site-packages/onnxruntime"))
    try:
        import onnxruntime
        folders.append(pathlib.Path(onnxruntime.__file__).parent)
    except ImportError:
        pass
    found = {path.name: str(path) for folder in folders for path in folder.glob("capi/libonnxruntime.so.*")}
    return [found[name] for name in sorted(found)]


def stock_pythons():
    """This Python's onnxruntime, and the versions that ./dev installs."""
    folder = os.environ.get("TENON_ORT")
    others = sorted(pathlib.Path(folder).glob("*/bin/python")) if folder else []
    return [sys.executable, *map(str, others)]


def has_driver():
    import ctypes
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


def run(*arguments, fake=True):
    environment = dict(os.environ)
    if fake:
        environment["LD_LIBRARY_PATH"] = f"{FAKE}:{environment.get('LD_LIBRARY_PATH', '')}"
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=600, env=environment)


# S1.7, S1.3, S1.5: all of the suite.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_it_conforms_over_the_fake_driver(host):
    done = run(os.environ["TENON_SUITE"], host, "--plugin", f"cuda={FAKE_PLUGIN}", "--fake-vulkan")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {line.split()[2]: line.split()[0] for line in done.stdout.splitlines()
                if line.startswith(("passed", "failed", "skipped"))}
    # Fences of a run come as handles in Tenon and as the program's text in a stock host.
    must_pass = [*THE_EIGHT, "FencesOfARun", "BadFencesOfARun"]
    assert [name for name in must_pass if verdicts.get(name) != "passed"] == []
    assert "fake CUDA driver" not in done.stderr


LOAD = """
import onnxruntime, sys
onnxruntime.set_default_logger_severity(2)
onnxruntime.register_execution_provider_library("cuda", sys.argv[1])
print([d.ep_metadata for d in onnxruntime.get_ep_devices() if d.ep_name == sys.argv[2]])
onnxruntime.unregister_execution_provider_library("cuda")
"""


@pytest.mark.skipif(has_driver(), reason="this machine has a CUDA driver")
@pytest.mark.parametrize("python", stock_pythons(), ids=lambda path: pathlib.Path(path).parent.parent.name)
def test_without_a_driver_it_loads_and_says_why_it_offers_nothing(python):
    done = run(python, "-c", LOAD, PLUGIN, EP, fake=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert f"{EP} offers no device: There is no CUDA driver on this machine: libcuda.so.1" in done.stderr


@pytest.mark.skipif(has_driver(), reason="this machine has a CUDA driver")
def test_without_a_driver_our_host_says_why_too(model):
    done = run(os.environ["TENON_CLI"], "run", model, "--random", "--plugin", f"cuda={PLUGIN}", "--ep", EP, fake=False)
    assert done.returncode != 0
    assert EP in done.stderr


@pytest.mark.parametrize("python", stock_pythons(), ids=lambda path: pathlib.Path(path).parent.parent.name)
def test_it_offers_a_hardware_device_of_its_own_where_the_host_shows_none(python):
    done = run(python, "-c", LOAD, FAKE_PLUGIN, EP)
    assert done.returncode == 0, done.stderr
    assert "'cuda_device_id': '0'" in done.stdout and "'cuda_compute_capability': '9.0'" in done.stdout


def test_the_cli_names_the_device():
    done = run(os.environ["TENON_CLI"], "devices", "--plugin", f"cuda={FAKE_PLUGIN}")
    assert f"{EP} 0: Fake CUDA device (" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"]),
         helper.make_node("Relu", ["b"], ["c"]), helper.make_node("Sub", ["a", "c"], ["y"])], "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 1000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1000])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def infer(model, folder, *arguments):
    done = run(os.environ["TENON_CLI"], "run", model, "--random", "--seed", "5", "--output-dir", folder, *arguments)
    return done, numpy.load(folder / "0.npy") if done.returncode == 0 else None


# A node of constants is no EP's, and the plan's report says where it went.
def test_what_is_made_of_weights_is_folded_before_the_ep_claims(tmp_path):
    path = tmp_path / "weights.onnx"
    weights = onnx.numpy_helper.from_array(numpy.linspace(-1, 1, 1000, dtype=numpy.float32).reshape(1, 1000), "w")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["w"], ["positive"], name="of weights"),
         helper.make_node("Sub", ["x", "positive"], ["less"], name="less"),
         helper.make_node("Relu", ["less"], ["y"], name="of inputs")], "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 1000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1000])], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    plugin = ["--plugin", f"cuda={FAKE_PLUGIN}", "--ep", EP]
    done = run(os.environ["TENON_CLI"], "explain", path, "--json", *plugin)
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = {node["name"]: node for node in json.loads(done.stdout)["plan"]["nodes"]}
    assert (nodes["of weights"]["fate"], nodes["of weights"]["passes"]) == ("folded", ["fold"])
    assert nodes["of inputs"]["fate"] == "region" and nodes["less"]["fate"] == "step"
    ours, on_device = infer(path, tmp_path / "device", *plugin)
    theirs, on_cpu = infer(path, tmp_path / "cpu")
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    assert numpy.array_equal(on_device, on_cpu)


# S4.2: whatever the options, the same result. Between the EP's nodes and the CPU EP's there are copies.
@pytest.mark.parametrize("options", [[], ["use_ep_level_unified_stream=1"], ["do_copy_in_default_stream=0"],
                                     ["has_user_compute_stream=1"], ["user_compute_stream=2"], ["gpu_mem_limit=1000000"],
                                     ["ep.cuda.use_tf32=0"]], ids=lambda options: ",".join(options) or "none")
def test_every_option_gives_the_cpu_eps_result(tmp_path, model, options):
    _, wanted = infer(model, tmp_path / "cpu")
    chosen = [word for option in options for word in ("--ep-option", option)]
    done, got = infer(model, tmp_path / "cuda", "--plugin", f"cuda={FAKE_PLUGIN}", "--ep", EP, *chosen)
    assert done.returncode == 0, done.stderr
    numpy.testing.assert_array_equal(got, wanted)


# S4.4, S4.5
@pytest.mark.parametrize("options, words", [
    (["user_compute_stream=banana"], ["user_compute_stream", "banana"]),
    (["user_compute_steam=1"], ["user_compute_steam", "user_compute_stream"]),
    (["has_user_compute_stream=1", "enable_cuda_graph=1"], ["enable_cuda_graph", "user_compute_stream"]),
    (["user_compute_stream=2", "gpu_external_alloc=4096", "gpu_external_free=4096"],
     ["user_compute_stream", "gpu_external_alloc"]),
    (["gpu_external_alloc=4096"], ["gpu_external_alloc", "gpu_external_free"]),
    (["device_id=3"], ["device_id", "3"])], ids=lambda value: value[0] if "=" in value[0] else "")
def test_bad_options_are_errors_that_name_them(tmp_path, model, options, words):
    chosen = [word for option in options for word in ("--ep-option", option)]
    done, _ = infer(model, tmp_path, "--plugin", f"cuda={FAKE_PLUGIN}", "--ep", EP, *chosen)
    assert done.returncode != 0
    assert [word for word in words if word not in done.stderr] == []


# S1.9, S2: a DLPack tensor of device memory, and graphics interop, in whole hosts.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_dlpack_tensors_and_graphics_contexts_in_a_host(host):
    done = run(os.environ["TENON_SHARING"], host, FAKE_PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Relu is computed where the tensor lies, 0 elements wrong" in done.stdout


# S2: CUDA's own handles, host memory and a memfd; the other end is a process of its own where the kind needs one.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_memory_by_handles_of_cuda_and_the_system(host):
    done = run(os.environ["TENON_HANDLES"], host, FAKE_PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the process that made the memory sees the results" in done.stdout


# S4.1, S4.2, S4.3, S5.3: one stream for a session takes one run at a time, and older hosts mix up streams.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_concurrent_runs_are_taken_only_with_streams_of_their_own(host):
    done = run(os.environ["TENON_CONCURRENT_RUNS"], host, FAKE_PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == 7


# S4.1, S5.1: the session's stream and the program's stream of a run are ordered both ways.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_a_run_keeps_to_the_order_of_the_programs_stream(host):
    done = run(os.environ["TENON_RUN_STREAM"], host, FAKE_PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the session's stream is shut, 0 elements wrong") == 16
    assert "an external allocator 4, turn 3: behind a semaphore, 0 elements wrong" in done.stdout


# S4.3: sessions with an allocator each, and CreateAllocator of a session with an allocator or a limit.
@pytest.mark.parametrize("host", [os.environ["TENON_LIBRARY"], *stock_hosts()], ids=os.path.basename)
def test_a_sessions_own_allocator_and_limit(host):
    done = run(os.environ["TENON_OWN_MEMORY"], host, FAKE_PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every block comes back, also of runs that fail" in done.stdout


OPTIONS = """
import json, numpy, onnxruntime, sys
onnxruntime.set_default_logger_severity(2)
onnxruntime.register_execution_provider_library("cuda", sys.argv[1])
devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == sys.argv[2]]
chosen, bare = json.loads(sys.argv[4]), json.loads(sys.argv[5])
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, chosen)
for key, value in bare.items():
    options.add_session_config_entry(key, value)
session = onnxruntime.InferenceSession(sys.argv[3], options, enable_fallback=0)
x = numpy.linspace(-3, 3, 4000, dtype=numpy.float32).reshape(4, 1000)
for _ in range(3):
    assert (session.run(None, {"x": x})[0] == numpy.maximum(x, 0)).all()
"""
# What get_provider_options() of onnxruntime-gpu prints of its CUDA EP.
PRINTED = {"sdpa_kernel": "0", "use_tf32": "1", "fuse_conv_bias": "0", "prefer_nhwc": "0",
           "tunable_op_max_tuning_duration_ms": "0", "enable_skip_layer_norm_strict_mode": "0",
           "tunable_op_tuning_enable": "0", "tunable_op_enable": "0", "use_ep_level_unified_stream": "0", "device_id": "0",
           "has_user_compute_stream": "0", "gpu_external_empty_cache": "0", "cudnn_conv_algo_search": "EXHAUSTIVE",
           "cudnn_conv1d_pad_to_nc1d": "0", "gpu_mem_limit": "18446744073709551615", "gpu_external_alloc": "0",
           "gpu_external_free": "0", "arena_extend_strategy": "kNextPowerOfTwo", "do_copy_in_default_stream": "1",
           "enable_cuda_graph": "0", "user_compute_stream": "0", "cudnn_conv_use_max_workspace": "1"}


# S4.5: they load, with a warning where they have no effect; a bare key of the session is no other than one with a prefix.
@pytest.mark.parametrize("python", stock_pythons(), ids=lambda path: pathlib.Path(path).parent.parent.name)
@pytest.mark.parametrize("options, bare, warned", [
    (PRINTED, {}, None), ({"ep.cuda." + key: value for key, value in PRINTED.items()}, {}, None),
    ({**PRINTED, "arena_extend_strategy": "kSameAsRequested", "sdpa_kernel": "2"}, {},
     'Options "arena_extend_strategy" = "kSameAsRequested", "sdpa_kernel" = "2" have no effect'),
    ({}, {"fuse_conv_bias": "1"}, 'Option "fuse_conv_bias" = "1" has no effect'),
    ({}, {"use_tf23": "1"}, '"use_tf32" is one'),
    ({"user_compute_stream": "2", "has_user_compute_stream": "0"}, {}, '"user_compute_stream" is 0x2'),
], ids=["printed", "printed with a prefix", "changed", "bare", "bare typo", "flag denied"])
def test_the_options_of_onnxruntime_load(python, model, options, bare, warned):
    done = run(python, "-c", OPTIONS, FAKE_PLUGIN, EP, model, json.dumps(options), json.dumps(bare))
    assert done.returncode == 0, done.stderr
    if warned is None:
        assert EP + ": " not in done.stderr
    else:
        assert done.stderr.count(warned) == 1, done.stderr


def test_the_options_of_onnxruntime_load_in_our_host(tmp_path, model):
    _, wanted = infer(model, tmp_path / "cpu")
    cuda = ["--plugin", f"cuda={FAKE_PLUGIN}", "--ep", EP]
    chosen = [word for key, value in PRINTED.items() for word in ("--ep-option", f"{key}={value}")]
    done, got = infer(model, tmp_path / "printed", *cuda, *chosen)
    assert done.returncode == 0 and "effect" not in done.stderr, done.stderr
    numpy.testing.assert_array_equal(got, wanted)
    done, got = infer(model, tmp_path / "changed", *cuda, *chosen, "--ep-option", "fuse_conv_bias=1")
    assert done.returncode == 0 and done.stderr.count('"fuse_conv_bias" = "1" has no effect') == 1, done.stderr
    numpy.testing.assert_array_equal(got, wanted)


# Calls a function of the fake driver's FakeControl, by its place there, before the plugin is loaded.
CONTROL = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
table = (ctypes.c_void_p * 14).in_dll(driver, "tenon_fake_cuda_control")
ctypes.CFUNCTYPE(None, ctypes.c_int)(table[int(sys.argv[3])])(int(sys.argv[4]))
""" + LOAD
SHOW_VERSION, SHOW_CAPABILITY = 4, 13


# A driver that is too old is a reason, and no failure.
@pytest.mark.parametrize("python", stock_pythons(), ids=lambda path: pathlib.Path(path).parent.parent.name)
def test_over_an_old_driver_it_loads_and_says_why_it_offers_nothing(python):
    done = run(python, "-c", CONTROL, PLUGIN, EP, SHOW_VERSION, "12040")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    reason = "The CUDA driver is for version 12.4; this plugin needs one for 13.0 or newer"
    assert f"{EP} offers no device: {reason}" in done.stderr


# Nor is a GPU that is too old; a newer one than this build knows is a device.
@pytest.mark.parametrize("capability, reason", [("75", "has compute capability 7.5; TenonCudaExecutionProvider needs 8.0"),
                                                ("80", None), ("130", None)])
def test_an_old_gpu_is_no_device(capability, reason):
    done = run(stock_pythons()[0], "-c", CONTROL, PLUGIN, EP, SHOW_CAPABILITY, capability)
    assert done.returncode == 0, done.stderr
    if reason is None:
        assert f"'cuda_compute_capability': '{capability[:-1]}.{capability[-1]}'" in done.stdout
    else:
        assert done.stdout.strip() == "[]" and reason in done.stderr


INFER = """
import numpy, onnxruntime, sys
onnxruntime.set_default_logger_severity(2)
onnxruntime.register_execution_provider_library("cuda", sys.argv[1])
devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == sys.argv[2]]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {})
session = onnxruntime.InferenceSession(sys.argv[3], options)
x = numpy.linspace(-3, 3, 4000, dtype=numpy.float32).reshape(4, 1000)
assert (session.run(None, {"x": x})[0] == numpy.maximum(x, 0)).all()
"""


def has_nvrtc():
    import ctypes
    try:
        ctypes.CDLL("libnvrtc.so.13")
        return True
    except OSError:
        return False


# What cannot be compiled is not claimed: the host's CPU EP has it.
@pytest.mark.skipif(has_nvrtc(), reason="this machine has NVRTC")
@pytest.mark.parametrize("python", stock_pythons(), ids=lambda path: pathlib.Path(path).parent.parent.name)
def test_without_nvrtc_every_node_is_left_to_the_cpu_ep(python, model):
    done = run(python, "-c", INFER, PLUGIN, EP, model)
    assert done.returncode == 0, done.stderr
    assert "CUDA takes no nodes, because NVRTC is not there: libnvrtc.so.13" in done.stderr


def explain(model, *arguments, fake=True):
    chosen = ["--plugin", f"cuda={FAKE_PLUGIN}", "--ep", EP] if fake else []
    return run(os.environ["TENON_CLI"], "explain", model, *chosen, "--break-even", *arguments)


@pytest.fixture
def relu(tmp_path):
    path = tmp_path / "relu.onnx"
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 20])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 20])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


NO_REAL_VULKAN = pytest.mark.skipif(has_driver(), reason="Vulkan's device may be a GPU, whose buffers the fake driver has not")


@NO_REAL_VULKAN
def test_break_even_needs_a_device_that_shares_with_vulkan(tmp_path, relu):
    assert "--ep" in explain(relu, fake=False).stderr
    done = explain(relu, "--break-even-file", tmp_path / "figures.json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Vulkan" in done.stderr
    assert not (tmp_path / "figures.json").exists()


# The figures are those of the file as long as the devices are the file's.
@NO_REAL_VULKAN
def test_break_even_uses_the_figures_that_it_has(tmp_path, relu):
    refusal = explain(relu, "--break-even-file", tmp_path / "none.json").stderr
    if "the Vulkan device \"" not in refusal:
        pytest.skip("there is no Vulkan device: " + refusal)
    vulkan = refusal.split("the Vulkan device \"")[1].split("\"")[0]
    ways = {"in": {"import_us": 300, "copies": [{"bytes": 1 << 20, "us": 100}, {"bytes": 8 << 20, "us": 800}]},
            "out": {"import_us": 20, "copies": [{"bytes": 1 << 20, "us": 100}, {"bytes": 8 << 20, "us": 800}]}}
    figures = {"ep_name": EP, "ep_device": "Fake CUDA device", "vulkan_device": vulkan, "measured": "long ago", **ways}
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(figures))
    done = explain(relu, "--break-even-file", path, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["break_even"]
    assert report["measured"] == "long ago" and report["in"]["break_even_bytes"] == 3 << 20
    assert report["out"]["break_even_bytes"] == 1 << 20
    assert [(one["name"], one["way"], one["bytes"], one["import_us"], one["copy_us"], one["faster"])
            for one in report["buffers"]] == [("x", "in", 4 << 20, 300, 400, "import"),
                                              ("y", "out", 4 << 20, 20, 400, "import")]
    text = explain(relu, "--break-even-file", path).stdout
    assert "import pays from 3.0 MiB on" in text and "long ago" in text
    for broken in ("[]", "{", json.dumps({**figures, "in": {"import_us": "fast", "copies": []}}),
                   json.dumps({**figures, "out": {"import_us": 1, "copies": [{"bytes": -1, "us": 2}]}})):
        path.write_text(broken)
        done = explain(relu, "--break-even-file", path)
        assert done.returncode == 2 and str(path) in done.stderr, done.stdout + done.stderr


@pytest.mark.skipif(has_driver(), reason="this machine has a CUDA driver")
def test_the_demo_says_what_a_gpu_needs(tmp_path):
    cuda = [os.environ["TENON_CLI"], "demo", "--device", "cuda", "--plugin"]
    done = run(*cuda, PLUGIN, fake=False)
    assert done.returncode == 4 and "NVIDIA GPU" in done.stderr, done.stderr
    done = run(*cuda, tmp_path / "none.so", fake=False)
    assert done.returncode != 0 and "none.so" in done.stderr, done.stderr
