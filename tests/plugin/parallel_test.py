"""Sessions in execution mode ORT_PARALLEL: the host calls kernels on threads of its pool, not on the one that called
OnRunStart and will call OnRunEnd."""
import threading

import numpy
import onnxruntime
import pytest
import sim
from onnx import TensorProto, helper

X = numpy.linspace(-2, 2, 12, dtype=numpy.float32).reshape(3, 4)


def branches(count=6, depth=4, last="Neg"):
    """`count` chains of `depth` nodes of their own output each; every second one has a node for the CPU EP."""
    nodes, outputs = [], []
    for b in range(count):
        value = "x"
        for d in range(depth):
            kind = "Abs" if b % 2 == 1 and d == depth // 2 else ("Neg", "Tanh", "Sigmoid")[d % 3]
            made = f"y{b}" if d == depth - 1 else f"v{b}_{d}"
            nodes.append(helper.make_node(last if d == depth - 1 else kind, [value], [made], f"n{b}_{d}"))
            value = made
        outputs.append((value, TensorProto.FLOAT, [3, 4]))
    return sim.model(nodes, [("x", TensorProto.FLOAT, [3, 4])], outputs)


def parallel(made, **ep_options):
    options = sim.options(**ep_options)
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 4
    return sim.session(made, session_options=options)


@pytest.mark.parametrize("mode", ["compile", "kernels"])
def test_runs_on_the_pools_threads_are_right(api, mode):
    made = branches()
    wanted = sim.on_cpu(made, {"x": X})
    with_sim = parallel(made, mode=mode)
    for _ in range(5):
        sim.close(with_sim.run(None, {"x": X}), wanted)
    assert api.counter("total_order_violations") == 0


@pytest.mark.parametrize("mode", ["compile", "kernels"])
def test_runs_of_several_threads_are_right(api, mode):
    made = branches()
    wanted = sim.on_cpu(made, {"x": X})
    with_sim = parallel(made, mode=mode)
    wrong = []

    def run():
        try:
            for _ in range(3):
                sim.close(with_sim.run(None, {"x": X}), wanted)
        except Exception as error:  # of a thread: the test says it
            wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert api.counter("total_order_violations") == 0


@pytest.mark.parametrize("mode", ["compile", "kernels"])
@pytest.mark.parametrize("step", ["kernel", "compute"])
def test_a_failure_on_another_thread_fails_the_run(api, mode, step):
    """What a device says only when its stream is waited for is told by OnRunEnd, or nobody tells it."""
    made = branches()
    wanted = sim.on_cpu(made, {"x": X})
    for nth in (1, 2, 5):
        with_sim = parallel(made, mode=mode)
        api.fail_at(step, nth)
        failed = None
        try:
            with_sim.run(None, {"x": X})
        except Exception as error:
            failed = str(error)
        fired = api.fault_fired()
        api.disarm()
        assert (failed is not None) == fired, f"{step} {nth} of {mode}: fired {fired}, and the run says {failed}"
        sim.close(with_sim.run(None, {"x": X}), wanted)
