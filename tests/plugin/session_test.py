"""Sessions on the simulated device in a stock host: devices, results, options, bindings."""
import ctypes

import numpy
import onnx
import onnxruntime
import pytest
import sim
from onnx import TensorProto, helper

RNG = numpy.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape).astype(numpy.float32)


def convolution():
    return sim.model([helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 0, 1, 2], strides=[2, 1], group=2),
                      helper.make_node("Relu", ["c"], ["r"], "relu"),
                      helper.make_node("Flatten", ["r"], ["f"], "flatten"),
                      helper.make_node("Reshape", ["f", "s"], ["y"], "reshape")],
                     [("x", TensorProto.FLOAT, ["n", 4, 7, 6])], [("y", TensorProto.FLOAT, ["a", 2])],
                     [("w", floats(6, 2, 3, 3)), ("b", floats(6)), ("s", numpy.array([-1, 2], numpy.int64))])


def integers():
    return sim.model([helper.make_node("Add", ["x", "c"], ["a"], "add"), helper.make_node("Mul", ["a", "x"], ["m"], "mul"),
                      helper.make_node("Sub", ["m", "c"], ["s"], "sub"), helper.make_node("Div", ["s", "d"], ["q"], "div"),
                      helper.make_node("Identity", ["q"], ["y"], "identity")],
                     [("x", TensorProto.INT64, ["n", 1, 3])], [("y", TensorProto.INT64, ["n", 2, 3])],
                     [("c", numpy.array([[5], [-7]], numpy.int64)), ("d", numpy.array(3, numpy.int64))])


CASES = {
    "perceptron": (sim.perceptron(), lambda n: {"x": floats(n, 64)}),
    "convolution": (convolution(), lambda n: {"x": floats(n, 4, 7, 6)}),
    "integers": (integers(), lambda n: {"x": RNG.integers(0, 1000, (n, 1, 3))}),
    "chain": (sim.relu_chain(), lambda n: {"x": floats(n, 4)}),
    "batched_matmul": (sim.model([helper.make_node("MatMul", ["x", "w"], ["y"], "matmul")],
                                 [("x", TensorProto.FLOAT, ["n", 1, 3, 5])], [("y", TensorProto.FLOAT, ["n", 4, 3, 2])],
                                 [("w", floats(4, 5, 2))]), lambda n: {"x": floats(n, 1, 3, 5)}),
}


def test_the_plugin_offers_its_own_devices_and_the_cpu(api):
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == sim.EP]
    assert [d.ep_metadata["sim_device"] for d in devices] == [sim.FULL, sim.NO_HOST_ACCESSIBLE, sim.CPU]
    assert [d.device.type.name for d in devices] == ["GPU", "GPU", "CPU"]
    assert {d.ep_vendor for d in devices} == {"Tenon"}
    assert devices[0].device.metadata["is_virtual"] == "1"


@pytest.mark.parametrize("kind", [sim.FULL, sim.NO_HOST_ACCESSIBLE, sim.CPU])
@pytest.mark.parametrize("mode", ["compile", "kernels"])
@pytest.mark.parametrize("name", CASES)
def test_results_equal_the_cpu_eps(api, name, mode, kind):
    made, feeds_of = CASES[name]
    kernels = api.counter("total_kernels")
    with_sim = sim.session(made, kind, mode=mode)
    for n in (1, 3, 2):
        feeds = feeds_of(n)
        sim.close(with_sim.run(None, feeds), sim.on_cpu(made, feeds))
    # Every node runs on the simulated device: nothing was left to the CPU EP.
    assert api.counter("total_kernels") - kernels == 3 * len(made.graph.node)


@pytest.mark.parametrize("kind", [sim.FULL, sim.NO_HOST_ACCESSIBLE, sim.CPU])
@pytest.mark.parametrize("mode", ["compile", "kernels"])
@pytest.mark.parametrize("exclude", ["Relu", "MatMul,Gemm", "Add"])
def test_partitions_mix_with_the_cpu_ep(api, exclude, mode, kind):
    made = sim.perceptron()
    excluded = sum(node.op_type in exclude.split(",") for node in made.graph.node)
    kernels = api.counter("total_kernels")
    feeds = {"x": floats(5, 64)}
    sim.close(sim.session(made, kind, mode=mode, exclude=exclude).run(None, feeds), sim.on_cpu(made, feeds))
    assert api.counter("total_kernels") - kernels == len(made.graph.node) - excluded


def test_an_empty_tensor_runs(api):
    made = sim.relu_chain()
    feeds = {"x": numpy.zeros((0, 4), numpy.float32)}
    sim.close(sim.session(made).run(None, feeds), sim.on_cpu(made, feeds))


def test_the_kernels_stream_comes_from_the_function_that_the_host_has(api):
    """S5.1: hosts below API 28 have no KernelContext_GetSyncStream; the plugin falls back."""
    new, old = api.counter("total_sync_stream_reads"), api.counter("total_old_stream_reads")
    synchronous = api.counter("total_synchronous_calls")
    sim.session(sim.relu_chain()).run(None, {"x": floats(2, 4)})
    assert (api.counter("total_sync_stream_reads") > new) == (sim.VERSION >= (1, 28))
    assert (api.counter("total_old_stream_reads") > old) == (sim.VERSION < (1, 28))
    assert api.counter("total_synchronous_calls") == synchronous, "both give the stream"


@pytest.mark.parametrize("ep_options, message", [
    ({"mod": "compile"}, 'There is no option "mod"; close ones are "mode"'),
    ({"mode": "fast"}, 'Option "mode" is "fast"; it takes one of compile|kernels'),
    ({"concurrent_runs": "maybe"}, 'Option "concurrent_runs" is "maybe"; it takes 0, 1, false, true, no, yes, off or on'),
    ({"fail_nth": "0"}, 'Option "fail_nth" is "0"; it takes a whole number from 1 to'),
    ({"fail_at": "lunch"}, '"lunch", which is no step'),
    ({"zzzzzzzz": "1"}, 'There is no option "zzzzzzzz"; the options are "mode"'),
])
def test_wrong_options_name_the_option_and_what_is_close(api, ep_options, message):
    """S4.5"""
    with pytest.raises(Exception) as caught:  # the host wraps a factory's status in RuntimeError
        sim.session(sim.relu_chain(), **ep_options)
    assert message in str(caught.value)


def test_options_are_taken_with_the_eps_short_prefix(api):
    """S4.5"""
    session_options = sim.options()
    session_options.add_session_config_entry("ep.sim.exclude", "Relu,Sigmoid")
    kernels = api.counter("total_kernels")
    sim.session(sim.relu_chain(), session_options=session_options).run(None, {"x": floats(2, 4)})
    assert api.counter("total_kernels") == kernels


@pytest.mark.skipif(sim.VERSION < (1, 28), reason="this host wants one memory info for all devices of a session")
def test_a_session_on_two_devices_runs_on_the_first(api):
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 4
    session_options.add_provider_for_devices([sim.device(sim.FULL), sim.device(sim.CPU)], {})
    made = sim.relu_chain()
    feeds = {"x": floats(3, 4)}
    kernels = api.counter("total_kernels")
    sim.close(sim.session(made, session_options=session_options).run(None, feeds), sim.on_cpu(made, feeds))
    assert api.counter("total_kernels") > kernels


def bound_on_device(api, made, kind, feeds):
    """Runs with input and output in the device's memory; what was copied while it ran, and the result."""
    with_sim = sim.session(made, kind)
    where = sim.device(kind).device
    x = onnxruntime.OrtValue.ortvalue_from_numpy(feeds["x"], "gpu", where.device_id, where.vendor_id)
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type([feeds["x"].shape[0], 4], numpy.float32, "gpu",
                                                          where.device_id, where.vendor_id)
    binding = with_sim.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    before = api.counter("total_copies")
    with_sim.run_with_iobinding(binding)
    copies = api.counter("total_copies") - before
    return copies, numpy.array(y.numpy())


@pytest.mark.parametrize("kind", [sim.FULL, sim.NO_HOST_ACCESSIBLE])
def test_bound_device_memory_is_used_in_place(api, kind):
    made = sim.relu_chain()
    feeds = {"x": floats(3, 4)}
    copies, result = bound_on_device(api, made, kind, feeds)
    assert copies == 0
    sim.close([result], sim.on_cpu(made, feeds))


@pytest.mark.skipif(sim.VERSION < (1, 28), reason="this host's Python makes no OrtValue from a memory info")
def test_host_accessible_memory_is_bound_and_read_by_the_host(api):
    """S3.2, S3.5: one buffer that the program writes and reads itself, and the device uses."""
    made = sim.relu_chain()
    feeds = {"x": floats(3, 4)}
    info = sim.device(sim.FULL).memory_info(onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    blocks = api.counter("host_blocks")
    x, y = (onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 4], numpy.float32, memory_info=info)
            for _ in range(2))
    assert api.counter("host_blocks") == blocks + 2
    ctypes.memmove(x.data_ptr(), feeds["x"].ctypes.data, feeds["x"].nbytes)
    with_sim = sim.session(made)
    binding = with_sim.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    with_sim.run_with_iobinding(binding)
    result = numpy.empty((3, 4), numpy.float32)
    ctypes.memmove(result.ctypes.data, y.data_ptr(), result.nbytes)
    sim.close([result], sim.on_cpu(made, feeds))


@pytest.mark.skipif(sim.VERSION < (1, 28), reason="this host's Python makes no OrtValue from a memory info")
@pytest.mark.parametrize("alignment", [0, 64])
def test_a_memory_info_without_an_alignment_finds_the_shared_allocator(api, alignment):
    """What Tenon's GetSharedAllocator does too (memory_spaces_test.cc); the stock C function wants the same alignment."""
    state = onnxruntime.capi.onnxruntime_pybind11_state
    kind = onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE
    vendor = sim.device(sim.FULL).memory_info(kind).device_vendor_id
    info = state.OrtMemoryInfo.create_v2("x", state.OrtMemoryInfoDeviceType.GPU, vendor, 0, kind, alignment,
                                         state.OrtAllocatorType.ORT_DEVICE_ALLOCATOR)
    blocks = api.counter("host_blocks")
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 4], numpy.float32, memory_info=info)
    assert api.counter("host_blocks") == blocks + 1
    del value


def test_a_device_without_host_accessible_memory_has_no_memory_info_for_it(api):
    kind = onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE
    assert sim.device(sim.NO_HOST_ACCESSIBLE).memory_info(kind) is None
    assert sim.device(sim.FULL).memory_info(kind) is not None


def test_a_model_that_was_compiled_ahead_runs_from_its_ep_context(api, tmp_path):
    made = sim.perceptron()
    feeds = {"x": floats(2, 64)}
    for embed in ("1", "0"):
        path = tmp_path / f"context{embed}.onnx"
        session_options = sim.options()
        session_options.add_session_config_entry("ep.context_enable", "1")
        session_options.add_session_config_entry("ep.context_embed_mode", embed)
        session_options.add_session_config_entry("ep.context_file_path", str(path))
        sim.session(made, session_options=session_options)
        node, = onnx.load(str(path)).graph.node
        assert (node.op_type, node.domain) == ("EPContext", "com.microsoft")
        sim.close(sim.session(str(path)).run(None, feeds), sim.on_cpu(made, feeds))


def test_a_damaged_ep_context_is_an_error_that_says_so(api, tmp_path):
    path = tmp_path / "context.onnx"
    session_options = sim.options()
    session_options.add_session_config_entry("ep.context_enable", "1")
    session_options.add_session_config_entry("ep.context_file_path", str(path))
    sim.session(sim.perceptron(), session_options=session_options)
    broken = onnx.load(str(path))
    for attribute in broken.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = attribute.s[: len(attribute.s) // 2]
    with pytest.raises(Exception, match=r"bytes instead of|cut short or damaged"):
        sim.session(broken)
