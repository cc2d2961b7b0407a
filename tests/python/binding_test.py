"""IOBinding: runs that read and write the program's memory."""
import gc

import numpy as np
import pytest
import tenon

import models

X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def session():
    return tenon.InferenceSession(models.one_node("Neg"))


def test_a_run_reads_and_writes_bound_arrays_where_they_lie(session):
    x, y = X.copy(), np.zeros((3, 2), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    session.run_with_iobinding(binding)
    assert np.array_equal(y, -X)
    x[0, 0] = 5
    session.run_with_iobinding(binding)
    assert y[0, 0] == -5
    output, = binding.get_outputs()
    assert output.data_ptr() == y.ctypes.data


def test_outputs_may_be_left_to_the_run(session):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    copy, = binding.copy_outputs_to_cpu()
    assert np.array_equal(copy, -X) and copy.flags.owndata
    view, = binding.get_outputs()
    assert np.array_equal(view.numpy(), -X)
    assert binding.get_outputs_as_ortvaluevector().element_type_at(0) == 1
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []


def test_values_are_bound_and_written(session):
    x, y = (tenon.OrtValue.ortvalue_from_numpy(a.copy()) for a in (X, X))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    session.run_with_iobinding(binding, tenon.RunOptions())
    assert np.array_equal(y.numpy(), -X)
    x.update_inplace(X + 1)
    session.run_with_iobinding(binding)
    assert np.array_equal(y.numpy(), -X - 1)


def test_memory_at_an_address_is_bound(session):
    x = X.copy()
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, [3, 2], x.ctypes.data)
    binding.bind_output("y")
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], -X)


def test_a_binding_keeps_what_is_bound_and_its_session_alive():
    session = tenon.InferenceSession(models.one_node("Neg"))
    binding = session.io_binding()
    binding.bind_cpu_input("x", X.copy())
    binding.bind_output("y")
    gc.collect()
    session.run_with_iobinding(binding)
    del session
    gc.collect()
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], -X)


def test_mistakes_are_said(session):
    binding = session.io_binding()
    with pytest.raises(RuntimeError, match="At least one output"):
        session.run_with_iobinding(binding)
    with pytest.raises(RuntimeError, match="name: q"):
        binding.bind_cpu_input("q", X)
    with pytest.raises(RuntimeError, match="python object"):
        binding.bind_cpu_input("x", [1.0])
    with pytest.raises(ValueError, match="element_type"):
        binding.bind_output("y", "cpu", 0, np.float32, None, 1)
    with pytest.raises(RuntimeError, match="int64"):
        binding.bind_cpu_input("x", X.astype(np.int64))
        binding.bind_output("y")
        session.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="the session that created it"):
        tenon.InferenceSession(models.one_node("Neg")).run_with_iobinding(binding)


def test_vectors_of_values_run(session):
    fetches = tenon.OrtValueVector()
    session.run_with_ortvaluevector(None, ["x"], [tenon.OrtValue.ortvalue_from_numpy(X)], ["y"], fetches, [])
    assert np.array_equal(fetches[0].numpy(), -X)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
