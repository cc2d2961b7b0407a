"""Memory and order from outside: imports without a copy, fences, strict mode, the ledger, plans."""
import gc
import json
import mmap
import multiprocessing
import os
import sys
import threading
from multiprocessing import shared_memory

import numpy as np
import pytest
import tenon

import models

X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def session():
    return tenon.InferenceSession(models.one_node("Neg"))


def memfd(content):
    fd = os.memfd_create("frame")
    os.write(fd, content)
    return fd


def test_an_array_is_used_where_it_lies(session):
    x = X.copy()
    value = tenon.import_memory(x)
    assert value.data_ptr() == x.ctypes.data
    x[0, 0] = 9
    assert session.run(None, {"x": value})[0][0, 0] == -9
    part = tenon.import_memory(x, [2], np.float32, offset_bytes=8)
    assert part.data_ptr() == x.ctypes.data + 8 and np.array_equal(part.numpy(), x.ravel()[2:4])
    references = sys.getrefcount(x)
    del value, part
    gc.collect()
    assert sys.getrefcount(x) == references - 2


@pytest.mark.parametrize("array, words", [
    (X.T, "strides"), (X[:, ::2], "strides"), (X.astype(">f4"), "byte order"), (np.array(["a"]), "<U1")])
def test_memory_that_would_be_copied_is_refused(array, words):
    with pytest.raises(ValueError, match=words):
        tenon.import_memory(array)


def test_read_only_is_what_numpy_says(session):
    x = X.copy()
    x.flags.writeable = False  # its page can be written all the same
    value = tenon.import_memory(x)
    assert not value.numpy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tenon.import_memory(x, writable=True, name="frame")
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    with pytest.raises(RuntimeError, match="read-only"):
        binding.bind_ortvalue_output("y", value)
        session.run_with_iobinding(binding)
    assert np.array_equal(x, X)
    assert not tenon.import_memory(X.copy(), writable=False).numpy().flags.writeable


def test_an_fd_is_mapped_and_stays_the_callers(session):
    fd = memfd(b"\0" * 8 + X.tobytes())
    value = tenon.import_memory(fd, [3, 2], np.float32, offset_bytes=8)
    assert np.array_equal(session.run(None, {"x": value})[0], -X)
    os.pwrite(fd, np.float32(7).tobytes(), 8)
    assert value.numpy()[0, 0] == 7
    value.numpy()[2, 1] = 5  # a write that the other side sees
    assert np.frombuffer(os.pread(fd, 4, 28), np.float32)[0] == 5
    assert not tenon.import_memory(fd, [2], np.float32, writable=False).numpy().flags.writeable
    os.close(fd)
    assert value.numpy()[0, 0] == 7
    with pytest.raises(ValueError, match="shape and element_type"):
        tenon.import_memory(0)


def test_too_little_memory_is_said(session):
    fd = memfd(X.tobytes())
    with pytest.raises(tenon.InvalidArgument, match="4096"):
        tenon.import_memory(fd, [4096], np.uint8)
    with pytest.raises(ValueError, match="28 bytes.*offset \\(4\\).*24"):
        tenon.import_memory(X.copy(), [7], np.float32, offset_bytes=4)
    with pytest.raises(ValueError, match="shape"):
        tenon.import_memory(X, offset_bytes=4)
    with pytest.raises(TypeError, match="3.5"):
        tenon.import_memory(3.5)
    os.close(fd)


def test_buffers_are_used_in_place():
    page = mmap.mmap(-1, 4096)
    value = tenon.import_memory(page, [3, 2], np.float32)
    value.numpy()[:] = X
    assert page[:24] == X.tobytes()
    assert not tenon.import_memory(X.tobytes(), [6], np.float32).numpy().flags.writeable
    del value
    gc.collect()
    page.close()


def child(name, fd_holder, ready, done):
    memory = shared_memory.SharedMemory(name)
    value = tenon.import_memory(memory, [3, 2], np.float32)
    out = tenon.import_memory(memory, [3, 2], np.float32, offset_bytes=24)
    session = tenon.InferenceSession(models.one_node("Neg"))
    timeline = tenon.Timeline.open(os.open(f"/proc/{fd_holder[0]}/fd/{fd_holder[1]}", os.O_RDWR))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", out)
    ready.set()
    session.run_with_iobinding(binding, waits=[timeline.fence(1)], signals=[timeline.fence(2)])
    done.wait(60)
    del binding, value, out
    gc.collect()
    memory.close()


def test_two_processes_share_memory_and_fences():
    memory = shared_memory.SharedMemory(create=True, size=4096)
    timeline = tenon.Timeline("frames")
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=child, args=(memory.name, (os.getpid(), timeline.fd), ready, done))
    process.start()
    try:
        assert ready.wait(100)
        x = np.ndarray((3, 2), np.float32, memory.buf)
        x[:] = X + 1
        timeline.signal(1)
        timeline.wait(2, timeout=100)
        y = np.ndarray((3, 2), np.float32, memory.buf, 24)
        assert np.array_equal(y, -X - 1)
        del x, y
    finally:
        done.set()
        process.join(100)
        memory.close()
        memory.unlink()
    assert process.exitcode == 0


def test_a_shared_page_that_is_in_use_is_not_closed():
    memory = shared_memory.SharedMemory(create=True, size=64)
    value = tenon.import_memory(memory, [4], np.float32)
    with pytest.raises(BufferError):
        memory.close()
    del value
    gc.collect()
    memory.close()
    memory.unlink()


def test_a_run_waits_for_fences_and_signals_others(session):
    timeline = tenon.Timeline("frames")
    ready, done = timeline.fence(1), tenon.Fence(timeline, 2)
    x, results = X.copy(), []
    thread = threading.Thread(target=lambda: results.append(session.run(None, {"x": x}, waits=[ready], signals=[done])))
    thread.start()
    with pytest.raises(TimeoutError, match="frames.*2.*at 0"):
        done.wait(timeout=0.02)
    assert not results and not ready.reached
    x[:] = 5
    ready.signal()
    done.wait(timeout=60)
    thread.join()
    assert np.array_equal(results[0][0], np.full_like(X, -5)) and timeline.value == 2
    with pytest.raises(tenon.InvalidArgument):
        timeline.signal(1)


def test_run_options_have_fences(session):
    timeline = tenon.Timeline()
    options = tenon.RunOptions()
    options.signals = [timeline.fence(1)]
    assert [fence.value for fence in options.signals] == [1] and options.waits == []
    session.run(None, {"x": X}, options)
    assert timeline.value == 1
    with pytest.raises(TypeError, match="not both"):
        session.run(None, {"x": X}, options, waits=[timeline.fence(2)])
    with pytest.raises(TypeError, match="3 is none"):
        options.waits = [3]
    called, calls = threading.Event(), []
    options.signals = [timeline.fence(5)]
    session.run_async(None, {"x": X}, lambda *a: (calls.append(a), called.set()), None, options)
    timeline.wait(5, timeout=60)
    assert called.wait(60) and calls[0][2] == ""


def test_a_producer_that_fails_is_the_runs_error(session):
    timeline = tenon.Timeline("camera")
    timeline.fail(1, "the camera was unplugged")
    with pytest.raises(tenon.Error, match="unplugged"):
        session.run(None, {"x": X}, waits=[timeline.fence(1)], signals=[timeline.fence(2)])
    with pytest.raises(tenon.Error, match="unplugged"):
        timeline.wait(2)


def test_the_ledger_has_the_copies_of_the_last_run(session):
    session.run(None, {"x": X})
    assert session.last_copies == []
    session.run(None, {"x": np.asfortranarray(X)})
    copy, = session.last_copies
    assert (copy.name, copy.size_bytes, copy.reason, copy.source) == ("x", 24, "not_contiguous", "cpu")
    session.run(None, {"x": X})
    assert session.last_copies == []
    # An output that is an input is copied where it is bound to memory of its own.
    identity = tenon.InferenceSession(models.model(
        [models.helper.make_node("Neg", ["x"], ["y"])], [models.value("x", models.FLOAT, ["n", 2])],
        [models.value("y", models.FLOAT, ["n", 2]), models.value("x", models.FLOAT, ["n", 2])]).SerializeToString())
    binding = identity.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    target = tenon.OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    binding.bind_ortvalue_output("x", target)
    identity.run_with_iobinding(binding)
    assert np.array_equal(target.numpy(), X)
    assert [(c.reason, c.size_bytes) for c in identity.last_copies] == [("output_is_input", 24)]


def test_strict_mode_refuses_copies():
    options = tenon.SessionOptions()
    options.add_session_config_entry("tenon.disallow_copies", "1")
    strict = tenon.InferenceSession(models.one_node("Neg"), options)
    assert np.array_equal(strict.run(None, {"x": X})[0], -X)
    with pytest.raises(tenon.InvalidArgument, match='"x".*strides of \\(4, 12\\)'):
        strict.run(None, {"x": np.asfortranarray(X)})
    with pytest.raises(tenon.InvalidArgument, match="strides"):
        strict.io_binding().bind_cpu_input("x", X[::2, ::-1])
    run_options = tenon.RunOptions()
    run_options.add_run_config_entry("tenon.disallow_copies", "1")
    with pytest.raises(tenon.InvalidArgument, match="strides"):
        tenon.InferenceSession(models.one_node("Neg")).run(None, {"x": np.asfortranarray(X)}, run_options)


def test_a_session_explains_its_plan():
    session = tenon.InferenceSession(models.add_one())
    plan = session.explain({"x": X})
    assert "Add" in str(plan) and plan.data["steps"][0]["op_type"] == "Add" and plan.data["bytes_copied"] == 0
    assert json.loads(json.dumps(plan.data)) == session.explain({"x": (3, 2)}).data
    assert "<table>" in plan._repr_html_() and "Add" in plan._repr_html_() and "steps" in repr(plan)
    for wrong in [{}, {"x": (3,)}, {"z": (3, 2)}]:
        with pytest.raises(tenon.Error, match='"x"'):
            session.explain(wrong)


def test_arrow_arrays_are_used_in_place():
    pa = pytest.importorskip("pyarrow")
    array = pa.array(np.arange(8, dtype=np.float32))
    value = tenon.import_memory(array)
    assert value.data_ptr() == array.buffers()[1].address and not value.numpy().flags.writeable
    part = tenon.import_memory(array.slice(3, 2))
    assert part.data_ptr() == value.data_ptr() + 12 and np.array_equal(part.numpy(), [3, 4])
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(24, dtype=np.int64).reshape(4, 3, 2))
    rows = tenon.import_memory(tensors.slice(1))
    assert rows.shape() == [3, 3, 2] and rows.numpy()[0, 0, 0] == 6
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.int32)), 2)
    assert np.array_equal(tenon.import_memory(lists).numpy(), np.arange(6).reshape(3, 2))
    address = array.buffers()[1].address
    del array, value
    gc.collect()
    assert part.data_ptr() == address + 12 and np.array_equal(part.numpy(), [3, 4])
    with pytest.raises(ValueError, match='"age" has 1 nulls among 3'):
        tenon.import_memory(pa.array([1, None, 3]), name="age")
    with pytest.raises(ValueError, match='format "u"'):
        tenon.import_memory(pa.array(["a"]))
    chunks = pa.chunked_array([np.ones(2, np.float32), np.zeros(3, np.float32)])
    assert [tenon.import_memory(chunk).shape() for chunk in chunks.chunks] == [[2], [3]]


class Exported:
    """An object with DLPack's functions, or another library's attribute."""

    def __init__(self, capsule=None, device=(1, 0), **attributes):
        self.capsule, self.device = capsule, device
        vars(self).update(attributes)

    def __dlpack__(self, **keywords):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def closed_page():
    page = shared_memory.SharedMemory(create=True, size=64)
    page.close()
    page.unlink()
    return page


class CudaArray:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


@pytest.mark.parametrize("call, kind, words", [
    (lambda: tenon.import_memory(closed_page(), [4], np.float32), ValueError, "closed"),
    (lambda: tenon.import_memory(bytearray(b"\1" * 64), [2], np.str_), ValueError, "uint8.*string.*numbers"),
    (lambda: tenon.import_memory(X, [2], object), ValueError, "float32.*string"),
    (lambda: tenon.import_memory(X, [2], np.float32, offset_bytes=-4), ValueError, "offset_bytes is -4"),
    (lambda: tenon.OrtValue.from_dlpack(Exported(X.__dlpack__(), "cpu")), TypeError, "two numbers.*'cpu'"),
    (lambda: tenon.OrtValue.from_dlpack(Exported(X.__dlpack__(), 3)), TypeError, "two numbers.*3"),
    (lambda: tenon.OrtValue.from_dlpack(Exported(3)), TypeError, "capsule"),
    (lambda: tenon.OrtValue.ortvalue_from_numpy(X).__dlpack__(max_version="1"), TypeError, "max_version.*two numbers"),
    (lambda: tenon.OrtValue.ortvalue_from_numpy(X).__dlpack__(dl_device=1), TypeError, "two numbers"),
    (lambda: tenon.import_memory(CudaArray(shape=(2,), data=(64, False))), ValueError, "lacks typestr"),
    (lambda: tenon.import_memory(CudaArray(shape=(2,), typestr="<f4", data=None)), ValueError, "lacks data"),
    (lambda: tenon.SessionIOBinding(3), TypeError, "made for a session, and this is 3"),
])
def test_memory_that_is_not_what_it_says_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
