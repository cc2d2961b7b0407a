"""DLPack both ways, by the array API's rules for stream, version, device and copy; torch tensors in runs and bindings."""
import gc

import numpy as np
import pytest
import tenon

import models

Value = tenon.OrtValue
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Producer:
    """An array that writes down what its consumer asks for."""

    def __init__(self, array, versions=True):
        self.array, self.versions, self.asked = array, versions, []

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        if not self.versions and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def kind(capsule):
    return "versioned" if "dltensor_versioned" in repr(capsule) else "plain"


def test_the_consumer_asks_for_a_version_and_falls_back():
    for versions in (True, False):
        producer = Producer(X.copy(), versions)
        value = Value.from_dlpack(producer)
        assert value.data_ptr() == producer.array.ctypes.data
        assert producer.asked[0].get("max_version") == (1, 0) and producer.asked[0].get("stream") is None
        assert len(producer.asked) == (1 if versions else 2)


def test_the_producer_follows_the_versions_that_are_asked_for():
    value = Value.ortvalue_from_numpy(X.copy())
    assert kind(value.__dlpack__()) == kind(value.__dlpack__(max_version=(0, 8))) == "plain"
    assert kind(value.__dlpack__(max_version=(1, 0))) == kind(value.__dlpack__(max_version=(2, 3))) == "versioned"


def test_the_device_is_the_one_that_is_asked_for():
    value = Value.ortvalue_from_numpy(X.copy())
    assert value.__dlpack_device__() == (1, 0)
    for device in (None, (1, 0)):
        array = np.from_dlpack(Capsule(value.__dlpack__(dl_device=device, max_version=(1, 0))))
        assert array.ctypes.data == value.data_ptr()
    with pytest.raises(BufferError, match="host memory"):
        value.__dlpack__(dl_device=(2, 0))
    for stream in (1, 2, 0):  # of a device; host memory has none
        with pytest.raises(ValueError, match="stream"):
            value.__dlpack__(stream=stream)


class Capsule:
    """What has a capsule already, for consumers that ask an object."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **arguments):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def test_a_copy_is_made_only_where_it_is_asked_for():
    value = Value.ortvalue_from_numpy(X.copy())
    for copy in (None, False):
        assert np.from_dlpack(value, copy=copy).ctypes.data == value.data_ptr()
    other = np.from_dlpack(value, copy=True)
    assert other.ctypes.data != value.data_ptr() and np.array_equal(other, X)
    value.numpy()[0, 0] = 9
    assert other[0, 0] == 0


@pytest.mark.parametrize("array", [np.zeros((0, 3), np.float32), np.array(3.0), np.array([True, False]),
                                   np.arange(4, dtype=np.uint8), np.ones(3, np.complex64), np.ones(2, np.float16)],
                         ids=["nothing", "a scalar", "bool", "bytes", "complex", "halves"])
def test_shapes_and_types_pass_both_ways(array):
    value = Value.from_dlpack(array)
    back = np.from_dlpack(value)
    assert back.dtype == array.dtype and back.shape == array.shape and np.array_equal(back, array)


def test_memory_lives_as_long_as_its_last_view():
    array = X.copy()
    value = Value.from_dlpack(array)
    back = np.from_dlpack(value)
    address = array.ctypes.data
    del array, value
    gc.collect()
    [X.copy() for _ in range(1000)]  # would take the place of what is freed
    assert back.ctypes.data == address and np.array_equal(back, X)


# --- torch


def test_torch_and_tenon_write_the_same_memory():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    value = Value.from_dlpack(tensor)
    tensor[0, 0] = 7
    assert value.numpy()[0, 0] == 7
    value.numpy()[0, 1] = 8
    again = torch.from_dlpack(value)
    assert tensor[0, 1] == 8 and again.data_ptr() == tensor.data_ptr() == value.data_ptr()
    again += 1
    assert tensor[0, 0] == 8


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "int64", "bool", "uint8", "complex64"])
def test_torchs_types_pass(name):
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3).to(getattr(torch, name))
    value = Value.from_dlpack(tensor)
    assert value.data_ptr() == tensor.data_ptr() and torch.equal(torch.from_dlpack(value), tensor)


def test_torch_tensors_that_cannot_be_used_in_place_are_refused():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    with pytest.raises(tenon.NotImplemented, match="stride"):
        Value.from_dlpack(tensor.T)
    with pytest.raises(BufferError, match="grad"):
        Value.from_dlpack(tensor.clone().requires_grad_())
    part = Value.from_dlpack(tensor[1])  # a row has strides as a whole
    assert part.data_ptr() == tensor.data_ptr() + 12 and part.numpy().tolist() == [3, 4, 5]


def test_runs_read_and_write_torch_tensors_where_they_lie():
    torch = pytest.importorskip("torch")
    options = tenon.SessionOptions()
    options.add_session_config_entry("tenon.disallow_copies", "1")
    session = tenon.InferenceSession(models.one_node("Neg", shape=["n", 3]), options)
    source, target = torch.ones(2, 3), torch.zeros(2, 3)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", Value.from_dlpack(source))
    binding.bind_input("x", "cpu", 0, np.float32, tuple(source.shape), source.data_ptr())
    binding.bind_ortvalue_output("y", Value.from_dlpack(target))
    for number in (2.0, 5.0):
        source.fill_(number)
        session.run_with_iobinding(binding)
        assert torch.equal(target, -source)
    result = torch.from_dlpack(session.run_with_ort_values(None, {"x": Value.from_dlpack(source)})[0])
    del session, binding
    gc.collect()
    assert torch.equal(result, -source)


def test_a_result_is_taken_by_torch_and_by_numpy_at_once():
    torch = pytest.importorskip("torch")
    session = tenon.InferenceSession(models.one_node("Neg", shape=["n", 3]))
    value, = session.run_with_ort_values(None, {"x": Value.ortvalue_from_numpy(X)})
    tensor, array = torch.from_dlpack(value), np.from_dlpack(value)
    tensor[0, 0] = 42
    assert array[0, 0] == value.numpy()[0, 0] == 42


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
