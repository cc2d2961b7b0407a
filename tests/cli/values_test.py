"""Values of nodes on the command line: run --keep, compare, --without and --bisect."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import stock  # noqa: E402

TENON = os.environ["TENON_CLI"]
BAD_PLUGIN = os.environ["TENON_BAD_PLUGIN_LIBRARY"]
SAME, DIFFERS, INVALID, NOT_FOUND = 0, 1, 2, 4
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def tenon(code, *arguments, **environment):
    done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert code in (SAME, DIFFERS) or (done.stdout == "" and done.stderr.count("\n") == 1)
    return done.stderr if code > DIFFERS else done.stdout


def told(code, *arguments, **environment):
    return json.loads(tenon(code, *arguments, "--json", **environment))


def f32(name, values):
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


def tensor(name, shape, kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, constants=(), functions=(), opsets=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *opsets], ir_version=8)
    model.functions.extend(functions)
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("values")


@pytest.fixture(scope="module")
def dense(folder):
    """Fused into one node. A name with a slash, and a node without one."""
    return save(folder, "dense", [
        helper.make_node("MatMul", ["x", "w"], ["block/m:0"], "block/mm"),
        helper.make_node("Add", ["block/m:0", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Reshape", ["r", "shape"], ["v"], "view"),
        helper.make_node("Exp", ["v"], ["y"], "exp")],
        [tensor("x", ["n", 4])], [tensor("y", [None])],
        [f32("w", np.arange(12).reshape(4, 3) / 7), f32("b", [1, 2, 3]),
         numpy_helper.from_array(np.array([-1], np.int64), "shape")])


@pytest.fixture(scope="module")
def sums(folder):
    """The pass join_constant_adds makes (r + 1e8) - 1e8 into r + 0, and so another float32 result."""
    return save(folder, "sums", [
        helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Add", ["r", "big"], ["s"], "plus"),
        helper.make_node("Add", ["s", "less"], ["t"], "minus"), helper.make_node("Exp", ["t"], ["y"], "exp")],
        [tensor("x", [2, 3])], [tensor("y", [2, 3])], [f32("big", 1e8), f32("less", -1e8)])


@pytest.fixture(scope="module")
def two_passes(folder):
    """join_constant_adds makes one branch differ; convolution_scale the other, where 1e38 no longer becomes infinite."""
    return save(folder, "two_passes", [
        helper.make_node("Add", ["x", "big"], ["s"], "plus"), helper.make_node("Add", ["s", "less"], ["t"], "minus"),
        helper.make_node("Exp", ["t"], ["y"], "exp"), helper.make_node("Mul", ["x", "hundred"], ["h"], "larger"),
        helper.make_node("Conv", ["h", "w"], ["c"], "conv"), helper.make_node("Mul", ["c", "tiny"], ["z"], "scale")],
        [tensor("x", [1, 1, 2, 3])], [tensor("y", [1, 1, 2, 3]), tensor("z", [1, 1, 2, 3])],
        [f32("big", 1e8), f32("less", -1e8), f32("hundred", 100), f32("w", np.full((1, 1, 1, 1), 1e38)),
         f32("tiny", 1e-38)])


@pytest.fixture(scope="module")
def loop(folder):
    body = helper.make_graph(
        [helper.make_node("Identity", ["cond"], ["cond_out"]), helper.make_node("Add", ["v", "one"], ["u"], "body_add"),
         helper.make_node("Mul", ["u", "v"], ["v_out"], "body_mul")], "body",
        [tensor("i", [], I64), tensor("cond", [], TensorProto.BOOL), tensor("v", [2])],
        [tensor("cond_out", [], TensorProto.BOOL), tensor("v_out", [2]), tensor("u", [2])], [f32("one", 1)])
    return save(folder, "loop", [helper.make_node("Loop", ["trips", "", "x"], ["y", "z"], "loop1", body=body),
                                 helper.make_node("Neg", ["y"], ["o"], "neg")],
                [tensor("x", [2])], [tensor("o", [2]), tensor("z", [None, 2])],
                [numpy_helper.from_array(np.array(3, np.int64), "trips")])


@pytest.fixture(scope="module")
def narrow(folder):
    """Computed in float32 inside; the values are float16 all the same."""
    f16 = TensorProto.FLOAT16
    weights = numpy_helper.from_array((np.arange(12) / 7).astype(np.float16).reshape(4, 3), "w")
    return save(folder, "narrow", [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"), helper.make_node("Exp", ["m"], ["e"], "exp"),
        helper.make_node("Cast", ["e"], ["i"], "whole", to=I64), helper.make_node("Sqrt", ["e"], ["y"], "root")],
        [tensor("x", ["n", 4], f16)], [tensor("y", ["n", 3], f16), tensor("i", ["n", 3], I64)], [weights])


def values_of(folder):
    index = json.loads((folder / "values.json").read_text())
    assert {file.name for file in folder.glob("0*-*.npy")} == {entry["file"] for entry in index["values"]}
    return index, {entry["name"]: np.load(folder / entry["file"]) for entry in index["values"]}


X = ["--random", "--dim", "n=2"]


def test_keep_all_without_passes_writes_every_value_under_a_safe_name(dense, tmp_path):
    tenon(SAME, "run", dense, *X, "--without", "all", "--keep", "all", "--output-dir", tmp_path)
    index, values = values_of(tmp_path)
    assert list(values) == ["block/m:0", "a", "r", "v", "y"] and index["not_computed"] == []
    assert all("/" not in entry["file"] and ":" not in entry["file"] for entry in index["values"])
    x = np.load(tmp_path / "input-0.npy")
    np.testing.assert_allclose(values["block/m:0"], x @ (np.arange(12, dtype=np.float32).reshape(4, 3) / 7), rtol=1e-5)
    np.testing.assert_array_equal(values["r"], np.maximum(values["a"], 0))
    np.testing.assert_array_equal(values["v"], values["r"].reshape(-1))
    np.testing.assert_array_equal(values["y"], np.load(tmp_path / "0.npy"))


def test_a_kept_value_changes_no_plan_and_fused_ones_are_named(dense, tmp_path):
    plain, kept = tmp_path / "plain", tmp_path / "kept"
    tenon(SAME, "run", dense, *X, "--output-dir", plain)
    text = tenon(SAME, "run", dense, *X, "--keep", "all", "--output-dir", kept)
    np.testing.assert_array_equal(np.load(plain / "0.npy"), np.load(kept / "0.npy"))
    index, values = values_of(kept)
    assert list(values) == ["r", "v", "y"] and "--without all" in text
    assert index["not_computed"] == [
        {"name": name, "why": 'fused into tenon.MatMul "block/mm"'} for name in ("block/m:0", "a")]
    # A node that is fused away has no value to keep; the message says where it went and what to do.
    why = tenon(NOT_FOUND, "run", dense, *X, "--keep", "block/mm", "--output-dir", tmp_path / "one")
    assert 'fused into tenon.MatMul "block/mm"' in why and "--without all" in why


def test_values_of_16_bits_that_are_computed_in_float32_are_kept_and_compared_rounded(narrow, tmp_path):
    tenon(SAME, "run", narrow, *X, "--keep", "all", "--output-dir", tmp_path / "wide")
    _, values = values_of(tmp_path / "wide")
    assert {name: values[name].dtype for name in ("m", "e", "y")} == dict.fromkeys(("m", "e", "y"), np.dtype(np.float16))
    np.testing.assert_allclose(values["y"], np.sqrt(values["e"]), rtol=2e-3)
    found = told(SAME, "compare", narrow, *X)
    assert found["compared"] >= 4 and not {one["value"] for one in found["not_computed"]} & {"e", "y"}
    # Without the pass each operator rounds.
    tenon(SAME, "run", narrow, *X, "--keep", "all", "--without", "widen", "--output-dir", tmp_path / "narrow")
    _, rounded = values_of(tmp_path / "narrow")
    np.testing.assert_allclose(rounded["e"], np.exp(rounded["m"].astype(np.float32)), rtol=1e-3)


def test_keep_takes_nodes_and_values_and_refuses_others(dense, tmp_path):
    tenon(SAME, "run", dense, *X, "--keep", "relu", "--keep", "v", "--output-dir", tmp_path)
    assert list(values_of(tmp_path)[1]) == ["r", "v"]
    assert 'did you mean "relu"?' in tenon(NOT_FOUND, "run", dense, *X, "--keep", "rleu", "--output-dir", tmp_path)
    assert "--output-dir" in tenon(INVALID, "run", dense, *X, "--keep", "all")


def test_values_in_bodies_are_kept_for_each_iteration(loop, tmp_path):
    tenon(SAME, "run", loop, "--random", "--keep", "u", "--output-dir", tmp_path)
    index = json.loads((tmp_path / "values.json").read_text())["values"]
    assert [(entry["body"], entry["occurrence"]) for entry in index] == [("loop1", 0), ("loop1", 1), ("loop1", 2)]
    stacked = np.stack([np.load(tmp_path / entry["file"]) for entry in index])
    np.testing.assert_array_equal(stacked, np.load(tmp_path / "1.npy"))
    assert told(SAME, "compare", loop, "--random")["compared"] >= 11


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT8])
def test_types_that_numpy_lacks_are_kept_as_bits(tmp_path, kind):
    model = save(tmp_path, "cast", [helper.make_node("Cast", ["x"], ["c"], "down", to=kind),
                                    helper.make_node("Cast", ["c"], ["y"], "up", to=F32)],
                 [tensor("x", [5])], [tensor("y", [5])])
    out = tmp_path / "out"
    tenon(SAME, "run", model, "--random", "--keep", "down", "--without", "all", "--output-dir", out)
    [entry] = json.loads((out / "values.json").read_text())["values"]
    assert entry["dtype"] == {TensorProto.BFLOAT16: "bfloat16", TensorProto.FLOAT16: "float16",
                              TensorProto.DOUBLE: "float64", TensorProto.INT8: "int8"}[kind]
    bits = np.load(out / entry["file"])
    if kind == TensorProto.BFLOAT16:
        assert entry["stored_as"] == "uint16"
        bits = (bits.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(bits.astype(np.float32), np.load(out / "0.npy"))
    assert told(SAME, "compare", model, "--against", out)["compared"] == 1


def test_compare_names_the_first_node_that_differs(sums):
    text = tenon(DIFFERS, "compare", sums, "--random")
    assert 'The first value that differs is "y", of Exp "exp".' in text and "--bisect" in text
    first = told(DIFFERS, "compare", sums, "--random")["first"]
    assert first["node"] == {"name": "exp", "op_type": "Exp"} and first["shape"] == [2, 3]
    assert 0 < first["differing"] <= first["elements"] == 6
    assert first["error"] == pytest.approx(abs(first["got"] - first["expected"])) and first["error"] > 0.1


def test_compare_says_when_nothing_differs(dense):
    assert "All values agree (3 compared)." in tenon(SAME, "compare", dense, *X)
    assert told(SAME, "compare", dense, *X, "--without", "all", "--rtol", 1e-3)["compared"] == 5


def test_values_in_blocks_of_channels_come_in_the_models_order(tmp_path):
    """Convolutions work on blocks of 8 channels; 20 channels end in a block that is padded."""
    rng = np.random.default_rng(1)
    model = save(tmp_path, "convs", [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("MaxPool", ["b"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w2"], ["y"], "conv2", pads=[1, 1, 1, 1])],
        [tensor("x", [2, 16, 12, 10])], [tensor("y", [2, 24, 6, 5])],
        [f32("w1", rng.standard_normal((20, 16, 3, 3))), f32("w2", rng.standard_normal((24, 20, 3, 3)))])
    plan = told(SAME, "explain", model)["plan"]
    assert any(value["layout"] == "blocked8" for step in plan["steps"] for value in step["outputs"])
    assert told(SAME, "compare", model, "--random")["compared"] == 3
    out = tmp_path / "out"
    tenon(SAME, "run", model, "--random", "--keep", "all", "--output-dir", out)
    values = values_of(out)[1]
    assert values["b"].shape == (2, 20, 12, 10)
    np.testing.assert_array_equal(values["p"], values["b"].reshape(2, 20, 6, 2, 5, 2).max((3, 5)))


def test_bisect_names_the_guilty_pass_and_leaving_it_out_makes_the_values_equal(sums):
    culprit = told(DIFFERS, "compare", sums, "--random", "--bisect")["culprit"]
    assert culprit["kind"] == "passes" and culprit["names"] == ["join_constant_adds"]
    assert "--without join_constant_adds" in tenon(DIFFERS, "compare", sums, "--random", "--bisect")
    assert told(SAME, "compare", sums, "--random", "--without", "join_constant_adds")["same"]
    # A pass that is left out already is none of the candidates.
    assert told(SAME, "compare", sums, "--random", "--bisect", "--without", "join_constant_adds")["culprit"] is None


def test_bisect_names_the_guilty_pass_and_not_the_one_that_prepares_its_pattern(tmp_path):
    """Without the pass convolutions there is nothing that convolution_scale could change."""
    model = save(tmp_path, "scale", [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Mul", ["c", "tiny"], ["z"], "scale")],
        [tensor("x", [1, 1, 2, 3])], [tensor("z", [1, 1, 2, 3])],
        [f32("w", np.full((1, 1, 1, 1), 3e38)), f32("tiny", 1e-38)])
    x = tmp_path / "x.npy"
    np.save(x, np.full((1, 1, 2, 3), 100, np.float32))
    assert told(SAME, "compare", model, "--input", f"x={x}", "--without", "convolutions")["same"]
    culprit = told(DIFFERS, "compare", model, "--input", f"x={x}", "--bisect")["culprit"]
    assert culprit["names"] == ["convolution_scale"]


def test_bisect_names_two_passes_that_are_guilty_together(two_passes):
    culprit = told(DIFFERS, "compare", two_passes, "--random", "--bisect")["culprit"]
    assert culprit["kind"] == "passes" and sorted(culprit["names"]) == ["convolution_scale", "join_constant_adds"]
    without = [part for name in culprit["names"] for part in ("--without", name)]
    assert told(SAME, "compare", two_passes, "--random", *without)["same"]
    assert not told(DIFFERS, "compare", two_passes, "--random", *without[:2])["same"]


def test_an_ep_that_computes_wrongly_is_named_with_its_node(sums):
    arguments = ["compare", sums, "--random", "--without", "join_constant_adds", "--plugin", f"bad={BAD_PLUGIN}",
                 "--ep", "BadEp", "--bisect"]
    assert told(SAME, *arguments)["same"]
    found = told(DIFFERS, *arguments, TENON_BAD_PLUGIN="wrong values")
    assert found["first"]["node"] == {"name": "relu", "op_type": "Relu"} and found["first"]["error"] == pytest.approx(1)
    assert found["culprit"]["kind"] == "ep" and found["culprit"]["names"] == ["BadEp"]


def test_fast_kernels_are_named_by_bisect(tmp_path):
    """Sums of many terms differ in their last bits between kernels, which --rtol 0 does not allow."""
    rng = np.random.default_rng(0)
    model = save(tmp_path, "long", [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
                 [tensor("x", [8, 4096])], [tensor("y", [8, 64])],
                 [f32("w", rng.standard_normal((4096, 64)))])
    assert told(SAME, "compare", model, "--random")["same"]
    culprit = told(DIFFERS, "compare", model, "--random", "--rtol", 0, "--bisect")["culprit"]
    assert culprit["kind"] == "kernels" and culprit["names"] == []
    assert told(SAME, "compare", model, "--random", "--rtol", 0, "--reference-kernels")["same"]


def test_a_folder_brings_its_inputs_and_refuses_others(sums, dense, tmp_path):
    tenon(SAME, "run", sums, "--random", "--seed", 3, "--without", "all", "--keep", "all", "--output-dir", tmp_path)
    assert not told(DIFFERS, "compare", sums, "--against", tmp_path)["same"]
    assert told(SAME, "compare", sums, "--against", tmp_path, "--without", "all")["compared"] == 4
    assert 'The input "x" is not the one' in tenon(INVALID, "compare", sums, "--against", tmp_path, "--random", "--seed", 4)
    # A value that somebody has changed is found at its place.
    index = json.loads((tmp_path / "values.json").read_text())
    [entry] = [entry for entry in index["values"] if entry["name"] == "s"]
    changed = np.load(tmp_path / entry["file"])
    changed[1, 2] = np.nan
    np.save(tmp_path / entry["file"], changed)
    first = told(DIFFERS, "compare", sums, "--against", tmp_path, "--without", "all")["first"]
    assert (first["value"], first["index"], first["expected"], first["differing"]) == ("s", 5, "nan", 1)
    np.save(tmp_path / entry["file"], changed[:1])
    assert entry["file"] in tenon(INVALID, "compare", sums, "--against", tmp_path, "--without", "all")


def test_what_is_no_reference_is_refused(sums, tmp_path):
    assert "baseline" in tenon(NOT_FOUND, "compare", sums, "--random", "--against", tmp_path / "none")
    assert "values.json" in tenon(NOT_FOUND, "compare", sums, "--random", "--against", tmp_path)
    (tmp_path / "values.json").write_text("{")
    assert "no list of values" in tenon(INVALID, "compare", sums, "--random", "--against", tmp_path)
    for entry in ('{"name": "y", "dtype": "float32", "shape": [2], "file": "../y.npy"}',
                  '{"name": "y", "dtype": "float99", "shape": [2], "file": "y.npy"}',
                  '{"name": "y", "dtype": "float32", "shape": [-2], "file": "y.npy"}',
                  '{"dtype": "float32", "shape": [2], "file": "y.npy"}', "3"):
        (tmp_path / "values.json").write_text('{"values": [' + entry + "]}")
        assert "values.json" in tenon(INVALID, "compare", sums, "--random", "--against", tmp_path)
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert "text.so" in tenon(NOT_FOUND, "compare", sums, "--random", "--against", text)
    assert "OrtGetApiBase" in tenon(NOT_FOUND, "compare", sums, "--random", "--against", BAD_PLUGIN)


def test_limits_are_numbers_from_0_on(sums):
    for limit in ("abc", "-1", "nan", "1x"):
        assert "is no number from 0 on" in tenon(INVALID, "compare", sums, "--random", "--rtol", limit)


def test_a_name_that_no_pass_has_is_refused_with_the_close_ones(sums):
    for command in (["run", sums, "--random"], ["bench", sums], ["explain", sums], ["compare", sums, "--random"]):
        assert 'did you mean "matmul_bias"?' in tenon(INVALID, *command, "--without", "matmul_bia")
    assert "the passes are einsums, fold, " in tenon(INVALID, "run", sums, "--random", "--without", "zzz")


def test_explain_and_bench_leave_passes_out(dense):
    def operators(*arguments):
        plan = told(SAME, "explain", dense, "--dim", "n=2", *arguments)["plan"]
        return [step["op_type"] for step in plan["steps"]]

    assert operators() == ["MatMul", "Exp"]
    assert operators("--without", "all") == ["MatMul", "Add", "Relu", "Exp"]
    told(SAME, "bench", dense, "--dim", "n=2", "--runs", 1, "--without", "fuse_activations")


def test_dumps_mark_passes_that_changed_nothing(dense, tmp_path):
    tenon(SAME, "run", dense, *X, TENON_DUMP=str(tmp_path))
    files = sorted(file.name[5:] for file in tmp_path.glob("*-load-*.txt"))
    assert "load-convolutions-unchanged.txt" in files and "load-matmuls.txt" in files
    [unchanged] = tmp_path.glob("*-load-convolutions-unchanged.txt")
    [before] = tmp_path.glob("*-load-activations.txt")
    assert unchanged.read_text() == f"The graph is still that of {before.name}.\n"
    assert len(list(tmp_path.glob("*-plan-*-unchanged.txt"))) > 5


def test_another_library_is_a_reference(sums, dense, loop, folder):
    library = stock.library()
    found = told(DIFFERS, "compare", sums, "--random", "--against", library, "--bisect")
    assert found["first"]["node"]["name"] == "exp" and found["culprit"]["names"] == ["join_constant_adds"]
    assert told(SAME, "compare", sums, "--random", "--against", library, "--without", "all")["compared"] == 4
    assert told(SAME, "compare", dense, *X, "--against", library)["same"]
    # Values in bodies are none of the graph in the file.
    assert told(SAME, "compare", loop, "--random", "--against", library)["compared"] == 3
    # Nor are those of the nodes in a function, whose names the reader makes.
    twice = helper.make_function("local", "Twice", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["n"]),
                                                                  helper.make_node("Sub", ["a", "n"], ["b"])],
                                 [helper.make_opsetid("", 17)])
    model = save(folder, "function", [helper.make_node("Twice", ["x"], ["t"], domain="local"),
                                      helper.make_node("Exp", ["t"], ["y"])],
                 [tensor("x", [2])], [tensor("y", [2])], functions=[twice], opsets=[helper.make_opsetid("local", 1)])
    assert told(SAME, "compare", model, "--random", "--against", library)["compared"] >= 1


def test_real_models_agree_with_the_baseline():
    models = pathlib.Path(os.environ.get("TENON_MODELS", ""))
    if not (models / "minilm_l3.onnx").exists():
        pytest.skip("TENON_MODELS has no minilm_l3.onnx")
    found = told(SAME, "compare", models / "minilm_l3.onnx", "--random", "--dim", "batch_size=1", "--dim",
                 "sequence_length=16")
    assert found["compared"] > 100 and found["not_computed"]
