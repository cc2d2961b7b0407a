"""Random operators: moments and ranges of what they draw, seeds, types, and that no two of them are taken for one."""
import numpy as np
import onnx
import pytest
from onnx import helper

import driver

FLOATS = {"FLOAT": 11, "DOUBLE": 20, "FLOAT16": 8, "BFLOAT16": 6}  # type -> bits that a moment has at least
COUNT = 300_001


def model(nodes, outputs, inputs=(), opset=22, initializers=()):
    graph = onnx.GraphProto(name="g", node=nodes, initializer=initializers)
    for name, kind, shape in inputs:
        graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    for name in outputs:
        graph.output.append(onnx.ValueInfoProto(name=name))
    made = onnx.ModelProto(ir_version=10, graph=graph)
    made.opset_import.add().version = opset
    return made.SerializeToString()


def node(op_type, inputs=(), output="y", **attributes):
    return helper.make_node(op_type, list(inputs), [output], **attributes)


def run(folder, cases, threads=2):
    """{name: [outputs of each run]} of [(name, model, inputs, runs)]."""
    given = [driver.Case(name, made, inputs, [], [(inputs, [])] * (runs - 1), random=True) for name, made, inputs, runs in cases]
    outcomes = driver.run(given, folder, (f"--threads={threads}",))
    assert all(outcome.ok for outcome in outcomes.values()), {name: outcome.status for name, outcome in outcomes.items()}
    return {name: [arrays for _, arrays in outcome.feeds] for name, outcome in outcomes.items()}


def one(folder, made, inputs=None, runs=1, threads=2):
    return run(folder, [("case", made, inputs or {}, runs)], threads)["case"]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("opset", (7, 22))
def test_normal_numbers_have_mean_deviation_and_tails(tmp_path, kind, opset):
    if kind == "BFLOAT16" and opset < 22:
        pytest.skip("RandomNormal-1 makes no bfloat16")
    number = onnx.TensorProto.DataType.Value(kind)
    y, = one(tmp_path, model([node("RandomNormal", shape=[COUNT], dtype=number, mean=3.0, scale=2.0)], ["y"], opset=opset))[0]
    assert y.shape == (COUNT,) and y.dtype == helper.tensor_dtype_to_np_dtype(number)
    z = (y.astype(np.float64) - 3) / 2
    bound = 5 / np.sqrt(COUNT) + 2.0 ** -FLOATS[kind]
    assert abs(z.mean()) < bound and abs(z.std() - 1) < bound
    assert abs((z ** 3).mean()) < 5 * bound and abs((z ** 4).mean() - 3) < 20 * bound
    for limit, share in ((1, 0.31731), (2, 0.0455), (3, 0.0027)):
        assert abs((np.abs(z) > limit).mean() - share) < 5 * np.sqrt(share / COUNT) + 2.0 ** -FLOATS[kind]
    # Neighbours, and numbers of other parts of the tensor, have nothing to do with each other.
    for step in (1, 2, 128, 256, 512, 1024, 2048):
        assert abs((z[:-step] * z[step:]).mean()) < 3 * bound


@pytest.mark.parametrize("kind", FLOATS)
def test_uniform_numbers_fill_their_range(tmp_path, kind):
    number = onnx.TensorProto.DataType.Value(kind)
    y, = one(tmp_path, model([node("RandomUniform", shape=[3, COUNT // 3], dtype=number, low=-1.0, high=3.0)], ["y"]))[0]
    u = (y.astype(np.float64).ravel() + 1) / 4
    assert u.min() >= 0 and u.max() <= 1
    counts, _ = np.histogram(u, 16, (0, 1))
    assert np.all(np.abs(counts / u.size - 1 / 16) < 5 * np.sqrt(1 / 16 / u.size) + 2.0 ** -FLOATS[kind])
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / np.sqrt(u.size)


def test_like_forms_take_the_inputs_shape_and_the_attributes_type(tmp_path):
    x = np.zeros((2, 0, 3), np.int8)
    cases = [
        ("empty", model([node("RandomNormalLike", ["x"], dtype=onnx.TensorProto.DOUBLE)], ["y"], [("x", onnx.TensorProto.INT8, None)]), {"x": x}, 1),
        ("own", model([node("RandomUniformLike", ["x"], low=2.0, high=3.0)], ["y"], [("x", onnx.TensorProto.FLOAT16, ["a", "b"])]), {"x": np.zeros((5, 7), np.float16)}, 1),
        ("scalar", model([node("RandomNormalLike", ["x"])], ["y"], [("x", onnx.TensorProto.FLOAT, [])]), {"x": np.float32(4).reshape(())}, 1),
    ]
    found = {name: runs[0][0] for name, runs in run(tmp_path, cases).items()}
    assert found["empty"].shape == (2, 0, 3) and found["empty"].dtype == np.float64
    assert found["own"].shape == (5, 7) and found["own"].dtype == np.float16 and found["own"].min() >= 2 and found["own"].max() <= 3
    assert found["scalar"].shape == () and found["scalar"].dtype == np.float32 and found["scalar"] != 4


def test_a_seed_gives_the_same_numbers_in_every_run_and_on_every_pool(tmp_path):
    seeded = model([node("RandomNormal", shape=[40_000], seed=7.5)], ["y"])
    first, second = one(tmp_path, seeded, runs=2, threads=1)
    third, = one(tmp_path, seeded, threads=3)
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[0], third[0])
    other, = one(tmp_path, model([node("RandomNormal", shape=[40_000], seed=8.5)], ["y"]))
    assert np.mean(first[0] == other[0]) < 0.01


# Folding would make constants of them, common subexpressions one of two.
def test_without_a_seed_runs_and_nodes_differ(tmp_path):
    nodes = [node("RandomUniform", output="a", shape=[500]), node("RandomUniform", output="b", shape=[500]), node("RandomUniformLike", ["a"], "c"),
             node("RandomUniformLike", ["a"], "d")]
    first, second = one(tmp_path, model(nodes, ["a", "b", "c", "d"]), runs=2)
    drawn = [*first, *second]
    for i, x in enumerate(drawn):
        for y in drawn[:i]:
            assert np.mean(x == y) < 0.01


@pytest.mark.parametrize("kind", ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "UINT64", "BOOL", "BFLOAT16"))
def test_bernoulli_draws_ones_as_often_as_its_input_says(tmp_path, kind):
    number = onnx.TensorProto.DataType.Value(kind)
    p = np.repeat(np.array([0, 0.125, 0.5, 0.9, 1], np.float32), COUNT // 5)
    y, = one(tmp_path, model([node("Bernoulli", ["x"], dtype=number)], ["y"], [("x", onnx.TensorProto.FLOAT, ["n"])]), {"x": p})[0]
    assert y.dtype == helper.tensor_dtype_to_np_dtype(number) and set(np.unique(y.astype(np.float64))) == {0, 1}
    shares = y.astype(np.float64).reshape(5, -1).mean(axis=1)
    assert shares[0] == 0 and shares[4] == 1
    assert np.all(np.abs(shares - p[::COUNT // 5]) < 5 * 0.5 / np.sqrt(COUNT // 5))


@pytest.mark.parametrize("kind", ("INT32", "INT64"))
def test_multinomial_draws_classes_by_their_weights(tmp_path, kind):
    number = onnx.TensorProto.DataType.Value(kind)
    weights = np.array([[0.1, 0.2, 0.7, 0], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        logs = (np.log(weights) + [[40], [-3]]).astype(np.float32)  # weights need not sum to 1
    drawn = node("Multinomial", ["x"], dtype=number, sample_size=50_000)
    y, = one(tmp_path, model([drawn], ["y"], [("x", onnx.TensorProto.FLOAT, [2, 4])]), {"x": logs})[0]
    assert y.shape == (2, 50_000) and y.dtype == helper.tensor_dtype_to_np_dtype(number)
    shares = np.stack([np.bincount(row, minlength=4) / 50_000 for row in y])
    assert shares.shape == (2, 4) and shares[0, 3] == 0
    assert np.all(np.abs(shares - weights) < 5 * 0.5 / np.sqrt(50_000))


def test_wrong_requests_are_refused(tmp_path):
    cases = [
        ("negative", model([node("RandomNormal", shape=[2, -1])], ["y"]), {}, "-1"),
        ("type", model([node("RandomNormal", shape=[2], dtype=onnx.TensorProto.INT32)], ["y"]), {}, "int32"),
        ("samples", model([node("Multinomial", ["x"], sample_size=-2)], ["y"], [("x", onnx.TensorProto.FLOAT, [2, 4])]), {"x": np.zeros((2, 4), np.float32)}, "-2"),
        ("classes", model([node("Multinomial", ["x"])], ["y"], [("x", onnx.TensorProto.FLOAT, [2, 0])]), {"x": np.zeros((2, 0), np.float32)}, "[2,0]"),
    ]
    outcomes = driver.run([driver.Case(name, made, inputs, [None]) for name, made, inputs, _ in cases], tmp_path)
    for name, _, _, text in cases:
        assert not outcomes[name].ok and text in outcomes[name].status and "internal" not in outcomes[name].status, (name, outcomes[name].status)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
