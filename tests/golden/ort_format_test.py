"""Models in ONNX Runtime's own format (.ort), as ONNX Runtime writes them without optimizations, against the same models
in ONNX's: the random graphs of edges_test.py, with symbols, sizes and ranks that nobody declares, scalars and bodies."""
import numpy as np
import onnx
import onnxruntime
import pytest

import driver
import edges_test
import random_edges
import random_single

SEEDS = range(500)
# ONNX Runtime inserts casts into their bodies that are named like those around them.
HIDING = (5491, 5789, 5996, 6151)


def in_ort_format(model, path):
    """The bytes; None where ONNX Runtime refuses the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:
        return None
    return path.read_bytes()


@pytest.mark.parametrize("maker", [random_edges, random_single], ids=["graphs", "single"])
def test_both_formats_give_the_same(maker, tmp_path):
    pairs, compared, problems = [], 0, []
    for case in edges_test.collect(maker, (*SEEDS, *HIDING)):
        converted = in_ort_format(case.model, tmp_path / "model.ort")
        if converted is not None:
            assert converted[4:8] == b"ORTM"
            pairs.append([driver.Case(case.name, model, case.feeds[0], [], [(feed, []) for feed in case.feeds[1:]]) for model in (case.model, converted)])
    onnx, ort = (driver.run_all(cases, tmp_path, ["--threads=1"]) for cases in zip(*pairs))
    for name, wanted in onnx.items():
        assert ort[name].status != "crashed", name
        for index, (status, outputs) in enumerate(wanted.feeds):
            if status != "ok":
                continue
            compared += 1
            said, got = ort[name].feeds[index] if index < len(ort[name].feeds) else (ort[name].status, [])
            problem = edges_test.differs(outputs, got) if said == "ok" else said
            if problem:
                problems.append(f"{name}: run {index}: {problem}")
    print(f"{compared} runs of {len(pairs)} models compared")
    assert not problems, "\n".join(problems)
    assert compared > len(SEEDS)


@pytest.mark.parametrize("form", ["onnx", "ort"])
def test_sparse_initializers_become_dense(form, tmp_path):
    dense = np.zeros((3, 4), np.float32)
    dense[[0, 1, 2], [1, 3, 0]] = [5, -2, 7]
    places = np.flatnonzero(dense)
    sparse = onnx.helper.make_sparse_tensor(onnx.numpy_helper.from_array(dense.ravel()[places], "w"), onnx.numpy_helper.from_array(places, "at"), [3, 4])
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                                   [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 4])])
    graph.sparse_initializer.append(sparse)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    if form == "ort":
        model = in_ort_format(model, tmp_path / "model.ort")
    outcome = driver.run([driver.Case(form, model, feeds, [feeds["x"] @ dense])], tmp_path)[form]
    assert outcome.ok, outcome.status
    np.testing.assert_array_equal(outcome.outputs[0], feeds["x"] @ dense)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
