"""Many threads on one session, runs on another thread, processes that fork and spawn."""
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tenon
from onnx import TensorProto, helper
from tenon import _threads

import models

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def long_model(size=256, times=40):
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"t{i - 1}", "x"], ["y" if i == times - 1 else f"t{i}"])
             for i in range(times)]
    shape = [size, size]
    return models.model(nodes, [models.value("x", models.FLOAT, shape)], [models.value("y", models.FLOAT, shape)]).SerializeToString()


def endless_model():
    """x, negated for ever: a Loop without a number of turns, whose condition stays true"""
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["v"], ["r"])], "body",
                             [models.value("i", models.INT64, []), models.value("c", TensorProto.BOOL, []), models.value("v", models.FLOAT, ["n"])],
                             [models.value("d", TensorProto.BOOL, []), models.value("r", models.FLOAT, ["n"])])
    return models.model([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], [models.value("x", models.FLOAT, ["n"])],
                        [models.value("y", models.FLOAT, ["n"])]).SerializeToString()


def test_sixteen_threads_share_a_session():
    session = tenon.InferenceSession(models.one_node("Neg", shape=["n", "m"]))
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(200):
            x = random.standard_normal((seed % 4 + 1, 5), np.float32)
            if not np.array_equal(session.run(None, {"x": x})[0], -x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_array_that_another_thread_takes_out_of_the_feed_is_read_to_the_end():
    session, right = tenon.InferenceSession(long_model()), np.eye(256, dtype=np.float32)
    feed, stop, wrong = {"x": right.copy()}, threading.Event(), 0

    def replace():
        while not stop.is_set():
            feed["x"] = right.copy()
            np.full((256, 256), 7, np.float32)  # mostly takes the memory of the array that was in the feed
            time.sleep(0)

    thread = threading.Thread(target=replace)
    thread.start()
    for _ in range(100):
        wrong += not np.array_equal(session.run(None, feed)[0], right)
    stop.set()
    thread.join()
    assert wrong == 0


def test_a_binding_may_be_bound_anew_while_other_threads_use_it():
    """The binding lets go of the array that was bound before, which may run code that gives the interpreter's lock away."""
    program = f"""
import threading, time, numpy, tenon
session = tenon.InferenceSession({models.one_node("Neg")!r})
binding = session.io_binding()
binding.bind_output("y")

class Array(numpy.ndarray):
    def __del__(self):
        time.sleep(0.001)

def bind():
    for _ in range(100):
        binding.bind_cpu_input("x", numpy.ones((50, 2), numpy.float32).view(Array))
        binding.get_outputs()

binding.bind_cpu_input("x", numpy.ones((50, 2), numpy.float32))
threads = [threading.Thread(target=bind) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(100):
    session.run_with_iobinding(binding)
for thread in threads:
    thread.join()
assert (binding.copy_outputs_to_cpu()[0] == -1).all()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_other_threads_of_python_run_while_a_session_ends():
    weights = models.numpy_helper.from_array(np.ones((2000, 2000), np.float32), "w")
    made = models.model([helper.make_node("MatMul", ["x", "w"], ["y"])], [models.value("x", models.FLOAT, ["n", 2000])],
                        [models.value("y", models.FLOAT, ["n", 2000])], [weights]).SerializeToString()
    turns, stop, interval = [0], threading.Event(), sys.getswitchinterval()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(50):  # mostly the first will do
            session = tenon.InferenceSession(made)
            session.run(None, {"x": np.ones((2, 2000), np.float32)})
            sys.setswitchinterval(1000)  # nobody is interrupted, so the lock has to be given away
            before = turns[0]
            del session
            ended = turns[0]
            sys.setswitchinterval(interval)
            if ended > before:
                break
        assert ended > before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def test_other_threads_of_python_run_during_a_run():
    session, options = tenon.InferenceSession(endless_model()), tenon.RunOptions()
    options.add_run_config_entry("tenon.timeout_ms", "60000")  # the end of a run that nobody could terminate
    begins, errors = threading.Event(), []

    def run():
        begins.set()
        try:
            session.run(None, {"x": np.zeros(2, np.float32)}, options)
        except tenon.Error as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    assert begins.wait(60)
    time.sleep(0.05)  # mostly enough for the run to be in its loop
    options.terminate = True
    thread.join()
    assert len(errors) == 1 and "timeout" not in errors[0], errors


def test_a_run_on_another_thread_calls_back():
    session = tenon.InferenceSession(models.one_node("Neg"))
    calls, done = [], threading.Event()

    def callback(results, user_data, error):
        calls.append((results, user_data, error, threading.current_thread() is threading.main_thread()))
        done.set()

    for feed, names in [({"x": X}, None), ({"x": X.copy()}, ["y"])]:
        done.clear()
        session.run_async(names, feed, callback, "mine")
        assert done.wait(20)
    assert all(np.array_equal(c[0][0], -X) and c[1:] == ("mine", "", False) for c in calls)
    done.clear()
    session.run_async(None, {"x": X.astype(np.int64)}, callback, None)
    assert done.wait(20)
    assert calls[-1][0] == [] and "tensor(int64)" in calls[-1][2]
    with pytest.raises(ValueError, match="missing"):
        session.run_async(None, {}, callback, None)
    with pytest.raises(TypeError, match="callback"):
        session.run_async(None, {"x": X}, "no function", None)


def test_a_run_is_ended_by_another_thread():
    session = tenon.InferenceSession(long_model(times=4000))
    options = tenon.RunOptions()

    def stop():
        options.terminate = True

    timer = threading.Timer(0.05, stop)
    timer.start()
    with pytest.raises(tenon.Fail, match="terminate"):
        session.run(None, {"x": np.zeros((256, 256), np.float32)}, options)
    timer.join()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pickled_session_runs_in_another_process(method):
    # A child of fork gets the session through its pickle, and makes its own.
    session = tenon.InferenceSession(models.one_node("Neg"))
    session.run(None, {"x": X})
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        assert pool.apply_async(run_pickled, (session,)).get(60) == (-X).tolist()


def run_pickled(session):
    return session.run(None, {"x": X})[0].tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_session_loads_its_model_anew_in_a_child_of_fork(threads):
    options = tenon.SessionOptions()
    options.intra_op_num_threads = threads
    session = tenon.InferenceSession(long_model(times=2), options)
    x = np.eye(256, dtype=np.float32)
    session.run(None, {"x": x})
    unused = tenon.InferenceSession(long_model(times=2), options)
    binding = unused.io_binding()
    child = os.fork()
    if child == 0:
        right = np.array_equal(session.run(None, {"x": x})[0], x)
        with pytest.raises(RuntimeError, match="forked"):
            unused.run_with_iobinding(binding)
        del binding, unused  # nothing is taken down whose threads are the parent's
        os._exit(0 if right else 1)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ended == (child, 0)
    assert np.array_equal(session.run(None, {"x": x})[0], x)


@pytest.mark.parametrize("way", ["a daemon thread runs", "a daemon thread waits", "run_async is under way", "atexit runs"])
def test_the_interpreter_ends_while_a_run_is_under_way(way, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(long_model())
    program = f"""
import atexit, sys, threading, time, numpy, tenon
session = tenon.InferenceSession({str(path)!r})
x, timeline = numpy.zeros((256, 256), numpy.float32), tenon.Timeline()
run = lambda **fences: [session.run(None, {{"x": x}}, **fences) for _ in range(10000 if not fences else 1)]
if {way!r} == "a daemon thread runs":
    threading.Thread(target=run, daemon=True).start()
elif {way!r} == "a daemon thread waits":
    threading.Thread(target=lambda: run(waits=[timeline.fence(1)]), daemon=True).start()
elif {way!r} == "run_async is under way":
    for i in range(100):  # so that some end while the interpreter is taken down
        session.run_async(None, {{"x": x}}, lambda *results: None, i)
else:
    atexit.register(session.run, None, {{"x": x}})
time.sleep(0.05)
sys.exit(3)
"""
    for _ in range(4):  # the moment is by chance
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
        assert done.returncode == 3, done.stderr


@pytest.mark.parametrize("files, cpus", [
    ({"proc": "0::/a/b\n", "a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
    ({"proc": "0::/\n"}, None),
    ({"proc": "0::/\n", "cpu.max": "200000 100000\n"}, 2.0),
    ({"proc": "4:cpu,cpuacct:/x\n3:memory:/y\n", "cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n",
      "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"}, 0.5),
    ({"proc": "0::/../outside\n", "cpu.max": "nonsense"}, None),
], ids=["parent", "none", "root", "version 1", "odd"])
def test_a_quota_of_a_cgroup_limits_the_threads(tmp_path, files, cpus):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _threads.cgroup_cpus(tmp_path, tmp_path / "proc") == cpus


def test_threads_follow_omp_the_quota_and_the_mask(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for quota, threads in [(None, 0), (8.0, 0), (2.5, 3), (0.2, 1)]:
        monkeypatch.setattr(_threads, "cgroup_cpus", lambda quota=quota: quota)
        assert _threads.default_threads() == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert _threads.default_threads() == 5
    monkeypatch.setenv("TENON_THREADS", "4")
    assert _threads.default_threads() == 0


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
