"""SparseTensor beside onnxruntime's: the same calls on both packages."""
import gc
import weakref

import numpy as np
import pytest
import tenon

import models

ort = pytest.importorskip("onnxruntime")
VALUES = np.array([1.5, -2, 3], np.float32)
LINEAR = np.array([2, 5, 11], np.int64)
PAIRS = np.array([[0, 2], [1, 1], [2, 3]], np.int64)
INNER, OUTER = np.array([2, 1, 3]), np.array([0, 1, 2, 3])


def coo(package, values=VALUES, indices=LINEAR, shape=(3, 4)):
    return package.SparseTensor.sparse_coo_from_numpy(list(shape), values, indices, package.OrtDevice.make("cpu", 0))


def csr(package, values=VALUES, inner=INNER, outer=OUTER, shape=(3, 4)):
    return package.SparseTensor.sparse_csr_from_numpy(list(shape), values, inner, outer, package.OrtDevice.make("cpu", 0))


def facts(tensor):
    """All that a sparse tensor tells."""
    told = {"shape": tensor.dense_shape(), "type": tensor.data_type(), "device": tensor.device_name(),
            "format": int(tensor.format().value), "values": tensor.values()}
    if told["format"] == 1:
        told["indices"] = tensor.as_coo_view().indices()
    if told["format"] == 2:
        told |= {"inner": tensor.as_csrc_view().inner(), "outer": tensor.as_csrc_view().outer()}
    return told


def assert_same(theirs, ours):
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        if not isinstance(value, np.ndarray):
            assert value == ours[key], key
            continue
        assert value.dtype == ours[key].dtype and value.shape == ours[key].shape, key
        assert value.tolist() == ours[key].tolist(), key


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                                   np.uint64])
def test_every_type_is_the_references(dtype):
    values = np.array([1, 0, 3]).astype(dtype)
    assert_same(facts(coo(ort, values)), facts(coo(tenon, values)))
    assert_same(facts(csr(ort, values)), facts(csr(tenon, values)))


@pytest.mark.parametrize("dtype", [np.float16, np.bool_])
def test_types_whose_values_the_reference_does_not_show(dtype):
    values = np.array([1, 0, 3]).astype(dtype)
    for make in (coo, csr):
        shown = make(tenon, values).values()
        assert shown.dtype == dtype and shown.tolist() == values.tolist()


@pytest.mark.parametrize("indices", [LINEAR, PAIRS, PAIRS.ravel(), LINEAR.astype(np.int32), LINEAR.tolist()],
                         ids=["linear", "pairs", "flat", "int32", "list"])
def test_indices_are_the_references(indices):
    assert_same(facts(coo(ort, indices=indices)), facts(coo(tenon, indices=indices)))


def test_a_tensor_without_values_is_the_references():
    nothing = np.zeros(0, np.float32), np.zeros(0, np.int64)
    assert_same(facts(coo(ort, *nothing)), facts(coo(tenon, *nothing)))


def test_strings_are_the_references():
    texts = np.array(["a", "", "a text that fits in no small buffer"])
    assert_same(facts(coo(ort, texts)), facts(coo(tenon, texts)))
    assert_same(facts(csr(ort, texts)), facts(csr(tenon, texts)))
    assert coo(tenon, texts.astype(object)).values().tolist() == texts.tolist()


@pytest.mark.parametrize("make", [coo, csr])
def test_it_is_the_arrays_memory_and_keeps_it(make):
    class Array(np.ndarray):
        pass

    values = VALUES.copy().view(Array)
    address, alive = values.ctypes.data, weakref.ref(values)
    tensor = make(tenon, values)
    del values
    gc.collect()
    view = tensor.values()
    assert view.ctypes.data == address and not view.flags.writeable
    value = tenon.OrtValue.ort_value_from_sparse_tensor(tensor)
    del tensor
    gc.collect()
    again = value.as_sparse_tensor()
    del value
    assert again.values().ctypes.data == address
    del again
    gc.collect()
    assert alive() is not None and view.tolist() == VALUES.tolist()
    del view
    gc.collect()
    assert alive() is None


def test_indices_are_the_arrays_memory():
    assert coo(tenon).as_coo_view().indices().ctypes.data == LINEAR.ctypes.data
    assert csr(tenon).as_csrc_view().outer().ctypes.data == OUTER.ctypes.data


def test_an_ort_value_of_one_is_the_references():
    def told(package):
        value = package.OrtValue.ort_value_from_sparse_tensor(coo(package))
        return (value.is_sparse_tensor(), value.is_tensor(), value.has_value(), value.is_tensor_sequence(), value.shape(),
                value.data_type(), value.element_type(), value.device_name())

    assert told(ort) == told(tenon)
    value = tenon.OrtValue(tenon.OrtValue.ort_value_from_sparse_tensor(coo(tenon)))
    assert value.is_sparse_tensor() and value.to_python().dense_shape() == [3, 4]


# What is refused, and whether onnxruntime refuses it too: it keeps indices that lead out of the dense tensor.
@pytest.mark.parametrize("make, change, theirs", [
    (coo, {"indices": [2, 5, 12]}, False), (coo, {"indices": [-1, 5, 11]}, False), (coo, {"indices": [2, 5]}, True),
    (coo, {"indices": np.zeros((3, 3), np.int64)}, True), (coo, {"indices": np.arange(6)[::2]}, True),
    (coo, {"values": VALUES.reshape(3, 1)}, True), (coo, {"values": np.arange(6, dtype=np.float32)[::2]}, True),
    (coo, {"values": VALUES.astype(np.complex64)}, True), (coo, {"values": VALUES.tolist()}, True),
    (coo, {"shape": (3, -4)}, False), (coo, {"shape": (3.5, 4)}, True), (coo, {"shape": (12,), "indices": PAIRS}, False),
    (csr, {"outer": [0, 1, 2]}, True), (csr, {"outer": [0, 2, 1, 3]}, False), (csr, {"inner": [2, 1, 4]}, False),
    (csr, {"shape": (12,)}, True), (csr, {"inner": [2, 1]}, True),
])
def test_misuse_is_refused(make, change, theirs):
    with pytest.raises((RuntimeError, TypeError, tenon.Error)) as ours:
        make(tenon, **change)
    assert str(ours.value)
    if theirs:
        with pytest.raises((RuntimeError, TypeError)):
            make(ort, **change)
    else:
        make(ort, **change)


def test_floats_are_no_indices():
    with pytest.raises(TypeError, match="float64"):
        coo(tenon, indices=[2.5, 5, 11])


def test_the_wrong_view_or_value_is_refused():
    for package in (ort, tenon):
        for wrong in (lambda p: coo(p).as_csrc_view(), lambda p: coo(p).as_blocksparse_view(), lambda p: csr(p).as_coo_view(),
                      lambda p: p.OrtValue.ortvalue_from_numpy(VALUES).as_sparse_tensor(),
                      lambda p: p.OrtValue.ort_value_from_sparse_tensor(coo(p)).numpy(),
                      lambda p: p.OrtValue.ort_value_from_sparse_tensor(coo(p)).data_ptr(),
                      lambda p: p.OrtValue.ort_value_from_sparse_tensor(coo(p)).tensor_size_in_bytes()):
            with pytest.raises(RuntimeError):
                wrong(package)
    with pytest.raises(TypeError):
        tenon.OrtValue.ort_value_from_sparse_tensor(VALUES)


def test_a_model_of_dense_tensors_refuses_it_as_the_reference_does():
    errors = []
    for package in (ort, tenon):
        session = package.InferenceSession(models.one_node("Identity", shape=(3, 4)), providers=["CPUExecutionProvider"])
        value = package.OrtValue.ort_value_from_sparse_tensor(coo(package))
        texts = []
        for run in (lambda: session.run(None, {"x": value}), lambda: session.run_with_ort_values(["y"], {"x": value})):
            with pytest.raises(Exception) as raised:
                run()
            assert type(raised.value).__name__ == "InvalidArgument"
            texts.append(str(raised.value))
        errors.append(texts)
    assert errors[0] == errors[1]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
