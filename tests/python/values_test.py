"""OrtValue: whose memory it is, shown through addresses and writes; DLPack."""
import gc
import sys
import weakref

import numpy as np
import pytest
import tenon

import models

Value = tenon.OrtValue
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_value_is_the_arrays_memory_both_ways():
    x = X.copy()
    value = Value.ortvalue_from_numpy(x)
    assert value.data_ptr() == x.ctypes.data
    view = value.numpy()
    assert view.ctypes.data == x.ctypes.data
    view[0, 0] = 7
    assert x[0, 0] == 7
    facts = value.shape(), value.data_type(), value.element_type(), value.tensor_size_in_bytes(), value.device_name()
    assert facts == ([2, 3], "tensor(float)", 1, 24, "cpu")
    assert value.is_tensor() and value.has_value() and not value.is_tensor_sequence() and not value.is_sparse_tensor()


def test_a_value_keeps_the_array_alive_and_a_view_keeps_the_value():
    class Array(np.ndarray):
        pass

    x = X.copy().view(Array)
    alive = weakref.ref(x)
    value = Value.ortvalue_from_numpy(x)
    del x
    gc.collect()
    assert alive() is not None
    view = value.numpy()
    del value
    gc.collect()
    assert alive() is not None and view[1, 2] == 5
    del view
    gc.collect()
    assert alive() is None


def test_arrays_that_are_not_contiguous_are_copied():
    value = Value.ortvalue_from_numpy(X.T)
    assert np.array_equal(value.numpy(), X.T) and value.shape() == [3, 2]
    assert value.data_ptr() != X.ctypes.data


def test_read_only_arrays_stay_read_only():
    x = np.frombuffer(b"\0" * 8, np.float32)
    view = Value.ortvalue_from_numpy(x).numpy()
    assert view.ctypes.data == x.ctypes.data and not view.flags.writeable
    with pytest.raises(RuntimeError, match="read-only"):
        Value.ortvalue_from_numpy(x).update_inplace(np.ones(2, np.float32))


def test_values_of_a_type_that_numpy_lacks():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    value = Value.ortvalue_from_numpy_with_onnx_type(bits, 16)
    assert value.data_type() == "tensor(bfloat16)" and value.data_ptr() == bits.ctypes.data
    with pytest.raises(RuntimeError, match="1 bytes"):
        Value.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.uint8), 16)


@pytest.mark.parametrize("kind", [np.float32, np.dtype("float32"), "float32", 1])
def test_new_memory_by_shape_and_type(kind):
    value = Value.ortvalue_from_shape_and_type([2, 3], kind)
    value.update_inplace(X)
    assert np.array_equal(np.asarray(value), X)
    assert np.array_equal(np.array(value, dtype=np.float64), X)


def test_wrong_shapes_types_and_devices_are_refused():
    with pytest.raises(RuntimeError, match="-2"):
        Value.ortvalue_from_shape_and_type([-2], np.float32)
    with pytest.raises(RuntimeError, match="datetime64"):
        Value.ortvalue_from_numpy(np.array(["2020-01-01"], "M8[D]"))
    with pytest.raises(RuntimeError, match="numpy arrays"):
        Value.ortvalue_from_numpy([1.0])
    with pytest.raises(Exception, match="Unsupported device type: foo"):
        Value.ortvalue_from_numpy(X, "foo", 0)
    with pytest.raises(RuntimeError, match="No shared allocator"):
        Value.ortvalue_from_numpy(X, "npu", 0)
    value = Value.ortvalue_from_shape_and_type([2, 3], np.float32)
    with pytest.raises(RuntimeError, match=r"\[3,3\] and \[2,3\]"):
        value.update_inplace(np.zeros((3, 3), np.float32))
    with pytest.raises(RuntimeError, match="float64"):
        value.update_inplace(np.zeros((2, 3)))
    with pytest.raises(TypeError):
        value.update_inplace([1])
    with pytest.raises(RuntimeError, match="does not contain SparseTensor"):
        value.as_sparse_tensor()


def test_elements_of_a_wrong_type_are_type_errors():
    for call in (lambda: tenon.copy_tensors([1], [2]), lambda: tenon.AdapterFormat("x"), lambda: tenon.OrtValue.ortvalue_from_numpy(X, "\ud800")):
        with pytest.raises(TypeError):
            call()


def test_strings_sequences_and_optionals_are_values():
    value = Value.ortvalue_from_numpy(np.array(["a", "bé"], object))
    assert value.data_type() == "tensor(string)" and value.numpy().tolist() == ["a", "bé"]
    x = Value.ortvalue_from_numpy(X)
    session = tenon.InferenceSession(models.insert())
    sequence, = session.run_with_ort_values(None, {"s": [], "x": x})
    assert sequence.is_tensor_sequence() and sequence.data_type() == "seq(tensor(float))"
    assert np.array_equal(sequence.to_python()[0], X)
    with pytest.raises(RuntimeError, match="Tensors"):
        sequence.numpy()
    again, = session.run_with_ort_values(["r"], {"s": sequence, "x": x})
    assert len(again.to_python()) == 2
    nothing, = tenon.InferenceSession(models.optional()).run_with_ort_values(None, {"o": None})
    assert not nothing.has_value() and nothing.to_python() is None


def test_run_reads_values_where_they_lie():
    session = tenon.InferenceSession(models.one_node("Neg", shape=["n", 3]))
    x = X.copy()
    value = Value.ortvalue_from_numpy(x)
    x[0, 0] = 9
    assert session.run(None, {"x": value})[0][0, 0] == -9
    assert session.run_with_ort_values(["y"], {"x": value})[0].numpy()[0, 0] == -9


def test_results_are_memory_of_the_run_and_stay():
    session = tenon.InferenceSession(models.one_node("Neg", shape=["n", 3]))
    first, = session.run(None, {"x": X})
    second, = session.run(None, {"x": X + 1})
    assert not first.flags.owndata and first.flags.writeable
    assert np.array_equal(first, -X) and np.array_equal(second, -X - 1)
    address = second.ctypes.data
    del second
    third, = session.run(None, {"x": X + 2})
    assert third.ctypes.data == address  # memory that nobody looks at is used again
    del session
    gc.collect()
    assert np.array_equal(third, -X - 2) and np.array_equal(first, -X)


def test_a_result_keeps_no_more_than_its_memory():
    session = tenon.InferenceSession(models.one_node("Neg", shape=["n", 3]))
    x = X.copy()
    before = sys.getrefcount(x)
    results = [session.run(None, {"x": x}) for _ in range(100)]
    assert sys.getrefcount(x) == before and len(results) == 100


def test_numpy_takes_a_value_by_dlpack_without_a_copy():
    value = Value.ortvalue_from_numpy(X.copy())
    assert value.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(value)
    assert array.ctypes.data == value.data_ptr()
    del value
    gc.collect()
    assert np.array_equal(array, X)
    with pytest.raises(ValueError, match="stream"):
        Value.ortvalue_from_numpy(X).__dlpack__(stream=1)


def test_a_value_takes_an_array_by_dlpack_without_a_copy():
    for x in (X.copy(), np.array([True, False])):
        value = Value.from_dlpack(x)
        assert value.data_ptr() == x.ctypes.data and np.array_equal(value.numpy(), x)
    kept = Value.from_dlpack(X.copy())
    gc.collect()
    assert np.array_equal(kept.numpy(), X)
    capsule = X.copy().__dlpack__()
    Value.from_dlpack(capsule)
    with pytest.raises(TypeError, match="nobody has used"):
        Value.from_dlpack(capsule)
    with pytest.raises(tenon.NotImplemented, match="stride"):
        Value.from_dlpack(X.T)


def test_dlpack_keeps_read_only_memory_read_only():
    x = np.frombuffer(b"\0" * 8, np.float32)
    value = Value.ortvalue_from_numpy(x)
    with pytest.raises(BufferError, match="read-only"):
        value.__dlpack__()
    assert not np.from_dlpack(value).flags.writeable


def test_a_capsule_that_nobody_takes_frees_its_tensor():
    class Array(np.ndarray):
        pass

    x = X.copy().view(Array)
    alive = weakref.ref(x)
    for version in (None, (1, 0)):
        Value.ortvalue_from_numpy(x).__dlpack__(max_version=version)
    del x
    gc.collect()
    assert alive() is None


def test_torch_tensors_pass_without_a_copy():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    value = Value.from_dlpack(tensor)
    assert value.data_ptr() == tensor.data_ptr()
    assert torch.from_dlpack(value).data_ptr() == tensor.data_ptr()


def test_copy_tensors_fills_the_targets():
    target = Value.ortvalue_from_shape_and_type([2, 3], np.float32)
    tenon.copy_tensors([Value.ortvalue_from_numpy(X)], [target])
    assert np.array_equal(target.numpy(), X)


def test_devices_and_kinds_of_memory_have_onnxruntimes_numbers():
    ort = pytest.importorskip("onnxruntime")
    for name in ("cpu", "cuda", "gpu", "npu", "dml", "cann", "webgpu"):
        ours, theirs = tenon.OrtDevice.make(name, 1), ort.OrtDevice.make(name, 1)
        for fact in ("device_type", "device_id", "device_vendor_id", "device_mem_type"):
            assert getattr(ours, fact)() == getattr(theirs, fact)(), (name, fact)
    info = tenon.OrtMemoryInfo("Cpu", tenon.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, tenon.OrtMemType.DEFAULT)
    assert (info.name, info.device_id, info.mem_type) == ("Cpu", 0, tenon.OrtMemType.DEFAULT)
    with pytest.raises(RuntimeError, match="V2"):
        tenon.OrtMemoryInfo("foo", tenon.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, tenon.OrtMemType.DEFAULT)
    session = tenon.InferenceSession(models.one_node("Neg"))
    info, = session.get_input_memory_infos()
    del session
    gc.collect()
    assert info.name == "Cpu"
    assert any(d.ep_name == "CPUExecutionProvider" for d in tenon.get_ep_devices())


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
