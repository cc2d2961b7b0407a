"""Programs that use onnxruntime's native module (onnxruntime.capi._pybind_state) get the same from Tenon."""
import gc
import json
import pathlib
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import tenon

import models

X = np.arange(6, dtype=np.float32).reshape(3, 2)
NEG = models.one_node("Neg")
# Names of the native module that Tenon does not have: they describe onnxruntime's own kernels and operators.
ABSENT = {
    "SessionObjectInitializer", "get_all_operator_schema", "get_all_opkernel_def", "get_registered_ep_kernel_defs",
    "get_session_initializer", "opkernel", "pack_fp4_weights_for_cuda_moe_gemm", "schemadef"}
MEMBERS = {
    "InferenceSession": {"create_ortvalue_from_shape_and_onnx_type", "is_webgpu_graph_capture_enabled", "webgpu_context_id"},
    "SparseTensor": {"blocksparse_from_numpy", "get_blocksparse_data", "get_coo_data", "get_csrc_data"},
    "AdapterFormat": {"adapter_version", "format_version", "model_version", "parameters"},
}

CASES = {
    "a device by numbers": "d = C.OrtDevice(C.OrtDevice.cuda(), C.OrtDevice.default_memory(), 2); r = kinds(d)",
    "a device by four numbers": "d = C.OrtDevice(1, 0, 0x10DE, 2); r = kinds(d)",
    "a device of DirectML": "d = C.OrtDevice(C.OrtDevice.dml(), 0, 0); r = kinds(d)",
    "a device around a device": "d = ort.OrtDevice(C.OrtDevice(0, 0, 0)); r = [d.device_type(), d.device_id()]",
    "the numbers of devices":
        "r = [getattr(C.OrtDevice, n)() for n in 'cpu gpu cuda fpga npu cann dml webgpu default_memory'.split()]",
    "a value on a device": "r = C.OrtValue.ortvalue_from_numpy(X, CPU).numpy()",
    "new memory": "v = C.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, CPU); r = [v.shape(), v.data_type()]",
    "new memory by ONNX's type": "v = C.OrtValue.ortvalue_from_shape_and_onnx_type([2], 16, CPU); r = [v.shape(), v.data_type()]",
    "a capsule of booleans": "v = C.OrtValue.from_dlpack((X > 2).view(np.uint8).__dlpack__(), True); r = [v.data_type(), v.numpy()]",
    "a capsule of bytes": "v = C.OrtValue.from_dlpack((X > 2).view(np.uint8).__dlpack__(), False); r = [v.data_type(), v.numpy()]",
    "a capsule of floats": "v = C.OrtValue.from_dlpack(X.__dlpack__(), False); r = [v.data_type(), v.numpy()]",
    "a capsule": "r = type(C.OrtValue.ortvalue_from_numpy(X, CPU).to_dlpack()).__name__",
    "bytes in a capsule": "r = [C.is_dlpack_uint8_tensor(X.astype(t).__dlpack__()) for t in ('u1', 'i1', 'f4')]",
    "a native session": """
s = C.InferenceSession(C.get_default_session_options(), NEG, False, False)
s.initialize_session([], [], set())
r = [s.run(['y'], {'x': X}, None), s.inputs_meta[0].name, s.outputs_meta[0].name, s.model_meta.graph_name,
     [v.numpy() for v in s.run_with_ort_values({'x': C.OrtValue.ortvalue_from_numpy(X, CPU)}, ['y'], None)]]""",
    "a native session of a file": """
path = tempfile.mkdtemp() + '/a.onnx'
open(path, 'wb').write(NEG)
s = C.InferenceSession(ort.SessionOptions(), path, True, False)
s.initialize_session(['CPUExecutionProvider'], [{}], set())
r = s.run(['y'], {'x': X}, None)""",
    "beneath a session": """
s = ort.InferenceSession(NEG)._sess
v = s.run_with_ort_values({'x': ort.OrtValue.ortvalue_from_numpy(X)._ortvalue}, ['y'], None)
r = [type(v).__name__, v[0].numpy(), s.run(['y'], {'x': X}, None), s.get_providers()[-1]]""",
    "a native binding": """
s = ort.InferenceSession(NEG)._sess
b = C.SessionIOBinding(s)
b.bind_input('x', X)
b.bind_output('y', CPU)
s.run_with_iobinding(b, None)
r = [b.get_outputs()[0].numpy(), b.copy_outputs_to_cpu()]""",
    "vectors of values": """
feeds, fetches = C.OrtValueVector(), C.OrtValueVector()
feeds.push_back(C.OrtValue.ortvalue_from_numpy(X, CPU))
s = ort.InferenceSession(NEG)._sess
s.run_with_ortvaluevector(ort.RunOptions(), ['x'], feeds, ['y'], fetches, [CPU])
r = [len(fetches), fetches[0].numpy()]""",
    "how arenas grow": "r = [[m.name, m.value] for m in (C.kSameAsRequested, C.kNextPowerOfTwo, C.ArenaExtendStrategy.kSameAsRequested)]",
    "reasons": "r = {n: int(m) for n, m in C.OrtDeviceEpIncompatibilityReason.__members__.items()}",
    "types of devices": "r = [I.get_ort_device_type(n) for n in 'cpu cuda gpu dml webgpu cann npu'.split()]",
    "vendors of devices": "r = [I.get_vendor_id_for_device_type(n) for n in 'cpu cuda gpu dml webgpu cann npu zz'.split()]",
    "hardware": "r = C.get_hardware_devices()[0].type.name",
    "compatibility of bytes": "r = C.get_compatibility_info_from_model_bytes(NEG, 'CPUExecutionProvider')",
    "compatibility of devices": "r = C.get_model_compatibility_for_ep_devices(ort.get_ep_devices()[:1], 'a').name",
    "modules are attributes": "r = [ort.capi._pybind_state.Fail.__name__, ort.capi.onnxruntime_inference_collection.OrtValue.__name__]",
    "what the package says of itself": "r = [ort.package_name, ort.cuda_version, ort.version == ort.__version__]",
    "numbers for booleans": "r = ort.InferenceSession(models.one_node('Not', models.BOOL, ['n'])).run(None, {'x': [1, 0, 2]})",
    "no key": "ort.SessionOptions().add_session_config_entry('', '1')",
    "no key of a run": "ort.RunOptions().add_run_config_entry('', '1')",
    "an initializer twice":
        "o, v = ort.SessionOptions(), ort.OrtValue.ortvalue_from_numpy(X); o.add_initializer('w', v); o.add_initializer('w', v)",
    "nothing to copy": "ort.copy_tensors([], [])",
    "a load that is cancelled": "o = ort.SessionOptions(); o.set_load_cancellation_flag(True); ort.InferenceSession(NEG, o)",
    "a load that is not": """
o = ort.SessionOptions()
o.set_load_cancellation_flag(True)
o.set_load_cancellation_flag(False)
r = ort.InferenceSession(NEG, o).run(None, {'x': X})""",
    "devices that a function chooses": """
seen = []
def choose(devices, model, runtime, most):
    seen.append([devices[0].ep_name != '', type(model).__name__, type(runtime).__name__, most > 0])
    return [d for d in devices if d.ep_name == 'CPUExecutionProvider']
o = ort.SessionOptions()
o.set_provider_selection_policy_delegate(choose)
r = [ort.InferenceSession(NEG, o).run(None, {'x': X}), seen, o.has_providers()]""",
}
SWITCHES = {
    "SessionOptions": ["enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "enable_profiling", "use_deterministic_compute",
                       "use_per_session_threads"],
    "RunOptions": ["only_execute_path_to_fetches", "terminate"]}
for owner, switches in SWITCHES.items():
    for switch in switches:
        for given in ("0", "1", "-1", "None", "2.5", "np.True_", "np.int64(0)", "''", "'no'", "[]"):
            CASES[f"{switch} = {given}"] = f"o = ort.{owner}(); o.{switch} = {given}; r = o.{switch}"

PROGRAM = """
import json, sys, tempfile, warnings
sys.path.insert(0, sys.argv[2])
if sys.argv[1] == "tenon":
    import tenon
    tenon.install_as_onnxruntime()
import numpy as np
import onnxruntime as ort
import models
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi import onnxruntime_inference_collection as I
from api_cases import plain
X, NEG = np.arange(6, dtype=np.float32).reshape(3, 2), models.one_node("Neg")
CPU = C.OrtDevice(C.OrtDevice.cpu(), C.OrtDevice.default_memory(), 0)
kinds = lambda d: [d.device_type(), d.device_id(), d.mem_type(), d.vendor_id()]
ort.set_default_logger_severity(4)
said = {}
for name, text in json.load(sys.stdin).items():
    scope = dict(globals())
    try:
        exec(text, scope)
        said[name] = ["ok", plain(scope.get("r"))]
    except Exception as error:
        said[name] = [type(error).__name__]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def both():
    pytest.importorskip("onnxruntime")
    answers = []
    for engine in ("tenon", "onnxruntime"):
        done = subprocess.run([sys.executable, "-c", PROGRAM, engine, str(pathlib.Path(__file__).parent)], input=json.dumps(CASES),
                              capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr[-3000:]
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    return answers


@pytest.mark.parametrize("name", CASES)
def test_a_call_answers_as_onnxruntimes_native_module(both, name):
    assert both[0][name] == both[1][name]


def test_the_native_module_has_onnxruntimes_names():
    stock = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    names = subprocess.run([sys.executable, "-c", """
import json, tenon
tenon.install_as_onnxruntime()
import onnxruntime.capi.onnxruntime_pybind11_state as state
print(json.dumps({name: dir(getattr(state, name)) for name in dir(state)}))"""], capture_output=True, text=True, check=True)
    ours = json.loads(names.stdout)
    theirs = {name for name in dir(stock) if not name.startswith("__")}
    assert theirs - set(ours) == ABSENT
    for name in ("InferenceSession", "OrtValue", "OrtDevice", "SparseTensor", "AdapterFormat", "SessionIOBinding", "OrtValueVector",
                 "OrtEpDevice", "OrtSyncStream"):
        members = {member for member in dir(getattr(stock, name)) if not member.startswith("_")}
        assert members - set(ours[name]) - session_functions(name) == MEMBERS.get(name, set()), name


def session_functions(name):
    """NativeSession passes these on."""
    return set(dir(tenon.InferenceSession)) if name == "InferenceSession" else set()


def test_a_native_session_without_a_model_says_so():
    from tenon._native_session import NativeSession
    session = NativeSession(tenon.SessionOptions(), NEG, False)
    with pytest.raises(RuntimeError, match="initialize_session"):
        session.run(["y"], {"x": X})
    with pytest.raises(AttributeError, match="_nothing"):
        session._nothing


def test_values_can_be_referred_to_weakly():
    value = tenon.OrtValue.ortvalue_from_numpy(X)
    reference = weakref.ref(value)
    assert reference() is value
    del value
    gc.collect()
    assert reference() is None


def test_a_load_on_another_thread_is_cancelled():
    options = tenon.SessionOptions()
    options.set_load_cancellation_flag(True)
    caught = []

    def load():
        try:
            tenon.InferenceSession(NEG, options)
        except tenon.ModelLoadCanceled as error:
            caught.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join(60)
    assert len(caught) == 1


@pytest.mark.parametrize("chosen, words", [("[3]", "3 is none"), ("1 / 0", "ZeroDivisionError"), ("None", "NoneType")])
def test_a_function_that_chooses_no_devices_is_the_loads_error(chosen, words):
    options = tenon.SessionOptions()
    options.set_provider_selection_policy_delegate(lambda *a: eval(chosen))  # noqa: S307
    with pytest.raises(tenon.Error, match=words):
        tenon.InferenceSession(NEG, options)


def test_a_function_that_chooses_devices_lives_as_long_as_the_options():
    options = tenon.SessionOptions()
    options.set_provider_selection_policy_delegate(
        lambda devices, *a: [d for d in devices if d.ep_name == "CPUExecutionProvider"])
    gc.collect()
    session = tenon.InferenceSession(NEG, options)
    del options
    gc.collect()
    session.set_providers()
    assert np.array_equal(session.run(None, {"x": X})[0], -X)
    with pytest.raises(TypeError, match="chooses devices cannot be pickled"):
        session.__reduce__()[1][2].__reduce__()


def test_tensors_are_copied_at_once_or_in_a_stream():
    cpu, = [device for device in tenon.get_ep_devices() if device.ep_name == "CPUExecutionProvider"]
    stream = cpu.create_sync_stream()
    assert isinstance(stream, tenon.OrtSyncStream) and isinstance(stream.get_handle(), int)
    for arguments in ((), (stream,)):
        targets = [tenon.OrtValue.ortvalue_from_numpy(np.zeros_like(X)) for _ in range(2)]
        tenon.copy_tensors([tenon.OrtValue.ortvalue_from_numpy(X + n) for n in range(2)], targets, *arguments)
        gc.collect()
        end = time.monotonic() + 60  # in a stream the copies are queued
        while arguments and targets[1].numpy()[2, 1] != X[2, 1] + 1 and time.monotonic() < end:
            time.sleep(0.001)
        assert [np.array_equal(target.numpy(), X + n) for n, target in enumerate(targets)] == [True, True]
    with pytest.raises((TypeError, RuntimeError)):
        tenon.copy_tensors(targets, targets, "a stream")


STREAMS_THAT_END = """
import numpy as np, tenon
cpu, = [device for device in tenon.get_ep_devices() if device.ep_name == "CPUExecutionProvider"]
for _ in range(2000):
    stream, target = cpu.create_sync_stream(), tenon.OrtValue.ortvalue_from_numpy(np.zeros(8, np.float32))
    tenon.copy_tensors([tenon.OrtValue.ortvalue_from_numpy(np.ones(8, np.float32))], [target], stream)
    del stream  # copies that have not begun are dropped
    assert target.numpy()[7] in (0, 1)
print("ended")
"""


def test_a_stream_that_ends_while_it_copies_does_not_hold_the_interpreters_lock():
    done = subprocess.run([sys.executable, "-c", STREAMS_THAT_END], capture_output=True, text=True, timeout=100)
    assert done.stdout == "ended\n", done.stderr[-2000:]


def test_copies_between_lists_that_do_not_fit_are_refused():
    value = tenon.OrtValue.ortvalue_from_numpy(X)
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        tenon.copy_tensors([value, value], [value])
    with pytest.raises(TypeError, match="dst of copy_tensors.*3 is none"):
        tenon.copy_tensors([value], [3])
    with pytest.raises(RuntimeError):
        tenon.copy_tensors([value], [tenon.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))])


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_are_quantized_for_bitsandbytes_as_by_onnxruntime(kind, dtype):
    stock = pytest.importorskip("onnxruntime.capi._pybind_state")
    from tenon import _native_functions
    random = np.random.default_rng(kind)
    for rows, columns, block in ((64, 5, 32), (96, 6, 64), (16, 3, 16), (7, 3, 16), (128, 7, 64)):
        weight = random.standard_normal((rows, columns)).astype(dtype)
        weight[:, 0], weight[0, 1] = 0, -100
        weight[:, 2] = np.resize(np.array([1, 0.5, 0.25, -0.5, 1 / 3, 0.0859375, -1], dtype), rows)
        weight, found = np.ascontiguousarray(weight.T), []
        for functions in (_native_functions, stock):
            packed, largest = np.zeros((rows * columns + 1) // 2, np.uint8), np.zeros(-(-rows * columns // block), dtype)
            functions.quantize_matmul_bnb4(packed, weight, largest, block, kind, columns, rows)
            found.append((packed, largest))
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(*found)), (rows, columns, block)
    with pytest.raises(ValueError, match="0 \\(FP4\\) or 1 \\(NF4\\), and 2"):
        _native_functions.quantize_matmul_bnb4(packed, weight, largest, block, 2, columns, rows)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
