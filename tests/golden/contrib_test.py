"""The operators that ONNX Runtime has beyond the standard, each over generated problems of every attribute, against ONNX
Runtime without its optimizations."""
import importlib
import pathlib

import numpy as np
import onnx
import pytest

import driver
from contrib_generation import IDS, TOKENS, decoder, encoder, gpt, one
from contrib_problems import problem

FAMILIES = sorted(path.stem[len("contrib_"):] for path in pathlib.Path(__file__).parent.glob("contrib_*.py")
                  if path.stem not in ("contrib_test", "contrib_problems"))
SETTINGS = {
    "1 thread": (["--threads=1"], {}),
    "3 threads": (["--threads=3"], {}),
    "baseline": (["--threads=1"], {"TENON_CPU_ISA": "baseline"}),
    "guarded": (["--threads=2", "--guarded"], {}),
}


def expected(problem):
    session = driver.plain_session(problem.model.SerializeToString())
    return session.run(None, problem.inputs)


def differs(problem, wanted, outcome):
    """None when the outputs are ONNX Runtime's, else what is wrong."""
    if not outcome.ok:
        return outcome.status
    for number, (want, got) in enumerate(zip(wanted, outcome.outputs, strict=True)):
        if number in problem.ignored:
            continue
        if want.dtype != got.dtype or want.shape != got.shape:
            return f"output {number} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
        if want.dtype.kind != "f":
            close = want == got
        else:
            wide, found = want.astype(np.float64), got.astype(np.float64)
            largest = np.max(np.abs(wide[np.isfinite(wide)]), initial=0)
            close = np.isclose(found, wide, rtol=problem.tolerance, atol=problem.tolerance * max(largest, 1e-3), equal_nan=True)
        if not np.all(close):
            where = tuple(int(i) for i in np.argwhere(~np.atleast_1d(close))[0]) if want.ndim else ()
            return f"output {number} at {list(where)} is {got[where]}, not {want[where]} ({np.sum(~close)} of {want.size} differ)"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_gives_what_onnxruntime_gives(family, tmp_path):
    problems = importlib.import_module(f"contrib_{family}").problems()
    assert len({problem.name for problem in problems}) == len(problems), "two problems have one name"
    wanted = {problem.name: expected(problem) for problem in problems}
    failures = []
    for setting, (options, environment) in SETTINGS.items():
        cases = []
        for problem in problems:
            outputs = [None if number in problem.ignored else array for number, array in enumerate(wanted[problem.name])]
            cases.append(driver.Case(problem.name, problem.model.SerializeToString(), problem.inputs, outputs))
        folder = tmp_path / setting.replace(" ", "_")
        folder.mkdir()
        outcomes = driver.run_all(cases, folder, options, environment)
        for problem in problems:
            wrong = differs(problem, wanted[problem.name], outcomes[problem.name])
            if wrong is not None:
                failures.append(f"{setting}: {problem.name}: {wrong}")
    assert not failures, f"{len(failures)} of {len(SETTINGS) * len(problems)}:\n" + "\n".join(failures[:60])


def test_operators_in_bodies_are_expanded_too(tmp_path):
    branches = {}
    for name, operator in (("then_branch", "Gelu"), ("else_branch", "QuickGelu")):
        node = onnx.helper.make_node(operator, ["x"], ["b"], domain="com.microsoft")
        branches[name] = onnx.helper.make_graph([node], name, [], [onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [3, 4])])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("If", ["c"], ["z"], **branches), onnx.helper.make_node("FastGelu", ["z"], ["y"], domain="com.microsoft")], "g",
        [onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []), onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 4])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    text = model.SerializeToString()
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    for chosen in (True, False):
        feeds = {"c": np.array(chosen), "x": x}
        wanted = driver.plain_session(text).run(None, feeds)
        outcome = driver.run([driver.Case("bodies", text, feeds, wanted)], tmp_path)["bodies"]
        assert outcome.ok, outcome.status
        np.testing.assert_allclose(outcome.outputs[0], wanted[0], rtol=1e-5, atol=1e-6)


def floats(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def rounded(graph, kind):
    """The decoder with weights that float16 has, as `kind`; so are its caches and logits."""
    graph = onnx.GraphProto.FromString(graph.SerializeToString())
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(kind), tensor.name))
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return graph


def test_searches_take_logits_of_float16(tmp_path):  # which ONNX Runtime refuses on CPUs
    mask = np.array([[0, 1, 1, 1], [1, 1, 1, 1], [1, 0, 1, 1]], np.int32)
    wide, narrow = (problem("GreedySearch", [IDS, one(14), None, None, None, None, mask], decoder=rounded(gpt(), kind), constants=[1], opset=17, eos_token_id=1, pad_token_id=0)
                    for kind in (np.float32, np.float16))
    wanted = expected(wide)
    outcome = driver.run([driver.Case("float16", narrow.model.SerializeToString(), narrow.inputs, wanted)], tmp_path)["float16"]
    assert outcome.ok, outcome.status
    np.testing.assert_array_equal(outcome.outputs[0], wanted[0])


def root_mean_square_norm(x, heads, weight):
    apart = x.reshape(*x.shape[:2], heads, -1).astype(np.float64)
    apart = apart / np.sqrt(np.mean(apart * apart, axis=-1, keepdims=True) + 1e-6) * weight
    return apart.reshape(x.shape).astype(np.float32)


# ONNX Runtime has these on GPUs alone, so that what they say is the oracle.
def test_norms_of_queries_and_keys_come_before_attention(tmp_path):
    rng = np.random.default_rng(21)
    q, k, v = (rng.uniform(-1, 1, (1, 3, width)).astype(np.float32) for width in (64, 32, 32))
    norms = [rng.uniform(0.5, 1.5, 16).astype(np.float32) for _ in range(2)]
    angles = rng.uniform(0, 3, (9, 8))
    rest = [None, None, np.array([2], np.int32), np.array(3, np.int32), np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    kept = dict(num_heads=4, kv_num_heads=2, outputs=3, do_rotary=1)
    wanted = expected(problem("GroupQueryAttention", [root_mean_square_norm(q, 4, norms[0]), root_mean_square_norm(k, 2, norms[1]), v, *rest], **kept))
    asked = problem("GroupQueryAttention", [q, k, v, *rest, None, None, None, None, None, *norms], **kept)
    outcome = driver.run([driver.Case("norms", asked.model.SerializeToString(), asked.inputs, wanted)], tmp_path)["norms"]
    assert differs(asked, wanted, outcome) is None


@pytest.mark.parametrize("constants", [(), (2, 3, 4, 5, 6, 7)])
def test_a_third_product_gates_the_first(constants, tmp_path):
    rng = np.random.default_rng(22)
    x, scores = rng.uniform(-1, 1, (15, 8)).astype(np.float32), rng.uniform(-1, 1, (15, 3)).astype(np.float32)
    first, third = (rng.uniform(-1, 1, (3, 12, 8)).astype(np.float32) for _ in range(2))
    second = rng.uniform(-1, 1, (3, 8, 12)).astype(np.float32)
    biases = [rng.uniform(-1, 1, (3, width)).astype(np.float32) for width in (12, 8, 12)]
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = np.zeros((15, 8))
    for token, expert in enumerate(scores.argmax(-1)):
        inner = first[expert] @ x[token] + biases[0][expert]
        inner = inner / (1 + np.exp(-inner)) * (third[expert] @ x[token] + biases[2][expert])
        wanted[token] = shares[token, expert] * (second[expert] @ inner + biases[1][expert])
    asked = problem("MoE", [x, scores, first, biases[0], second, biases[1], third, biases[2]], activation_type="silu", k=1, constants=constants)
    wanted = [wanted.astype(np.float32)]
    outcome = driver.run([driver.Case("gated", asked.model.SerializeToString(), asked.inputs, wanted)], tmp_path)["gated"]
    assert differs(asked, wanted, outcome) is None


def seen_by_blocks(layouts, size, tokens, keys):
    """Whether query t of a layout may see key s, from the ends and columns of its rows."""
    ends, columns = layouts
    seen = np.zeros((len(ends), tokens.size, keys), bool)
    for layout, (row_ends, row_columns) in enumerate(zip(ends, columns)):
        for t, token in enumerate(tokens):
            row = token // size
            for column in row_columns[row_ends[row]:row_ends[row + 1]]:
                seen[layout, t, column * size:(column + 1) * size] = True
        seen[layout] &= np.arange(keys)[None] <= tokens[:, None]
    return seen


# ONNX Runtime wants past and present in one buffer, which a run with plain inputs cannot have: numpy is the oracle.
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("tokens,before", [(40, 0), (1, 37), (3, 20)])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("constants", [(), (5, 6)])
def test_sparse_attention_sees_the_blocks_of_its_layout(count, tokens, before, packed, constants, tmp_path):
    heads, kv_heads, depth, size, room = 4, 2, 8, 16, 64
    rng = np.random.default_rng(31)
    layouts = [(np.array([[0, 1, 3, 5, 8]], np.int32), np.array([[0, 0, 1, 1, 2, 1, 2, 3]], np.int32)),
               (np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32), np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32))][count - 1]
    total = before + tokens
    q, k, v = (rng.normal(0, 1, (1, tokens, n * depth)).astype(np.float32) for n in (heads, kv_heads, kv_heads))
    past = [rng.normal(0, 1, (1, kv_heads, room, depth)).astype(np.float32) for _ in range(2)]
    present = [array.copy() for array in past]
    for array, rows in zip(present, (k, v)):
        array[0, :, before:total] = rows.reshape(tokens, kv_heads, depth).transpose(1, 0, 2)
    seen = seen_by_blocks(layouts, size, np.arange(before, total), total)
    wanted = np.zeros((1, tokens, heads, depth))
    for head in range(heads):
        keys, values = (array[0, head // (heads // kv_heads), :total].astype(np.float64) for array in present)
        scores = q[0].reshape(tokens, heads, depth)[:, head] @ keys.T / np.sqrt(depth)
        scores[~seen[head % count]] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        wanted[0, :, head] = shares / shares.sum(-1, keepdims=True) @ values
    rows = [np.concatenate([q, k, v], axis=2), None, None] if packed else [q, k, v]
    asked = problem("SparseAttention", [*rows, *past, *layouts, np.array([total], np.int32), np.array([total], np.int32)], num_heads=heads, kv_num_heads=kv_heads, sparse_block_size=size,
                    outputs=3, constants=constants)
    wanted = [wanted.reshape(1, tokens, -1).astype(np.float32), *present]
    outcome = driver.run([driver.Case("sparse", asked.model.SerializeToString(), asked.inputs, [wanted[0], None, None])], tmp_path)["sparse"]
    assert outcome.ok, outcome.status
    np.testing.assert_allclose(outcome.outputs[0], wanted[0], rtol=1e-4, atol=1e-5)
    for got, want in zip(outcome.outputs[1:], wanted[1:]):
        np.testing.assert_array_equal(got[:, :, :total], want[:, :, :total])


@pytest.mark.parametrize("tokens,before", [(20, 0), (1, 17), (3, 9)])
def test_sparse_attention_to_all_blocks_is_grouped_attention(tokens, before, tmp_path):
    rng = np.random.default_rng(32)
    heads, kv_heads, depth, room, total = 4, 2, 16, 32, before + tokens
    q, k, v = (rng.normal(0, 1, (1, tokens, n * depth)).astype(np.float32) for n in (heads, kv_heads, kv_heads))
    past = [rng.normal(0, 1, (1, kv_heads, room, depth)).astype(np.float32) for _ in range(2)]
    angles = rng.uniform(0, 3, (room, depth // 2))
    turns = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    kept = dict(num_heads=heads, kv_num_heads=kv_heads, do_rotary=1, outputs=3)
    wanted = expected(problem("GroupQueryAttention", [q, k, v, *past, np.array([total - 1], np.int32), np.array(total, np.int32), *turns], **kept))
    asked = problem("SparseAttention", [q, k, v, *past, np.array([[0, 1, 3]], np.int32), np.array([[0, 0, 1]], np.int32), np.array([total], np.int32), np.array([total], np.int32), *turns],
                    sparse_block_size=16, **kept)
    outcome = driver.run([driver.Case("sparse", asked.model.SerializeToString(), asked.inputs, [wanted[0], None, None])], tmp_path)["sparse"]
    assert outcome.ok, outcome.status
    np.testing.assert_allclose(outcome.outputs[0], wanted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outcome.outputs[1][:, :, :total], wanted[1][:, :, :total], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_sparse_initializer_times_a_dense_matrix(transposed, tmp_path):
    dense = np.zeros((4, 5), np.float32)
    places = np.array([[0, 1], [0, 4], [2, 0], [3, 3]])
    dense[tuple(places.T)] = [1.5, -2, 3, 0.5]
    sparse = onnx.helper.make_sparse_tensor(onnx.numpy_helper.from_array(dense[tuple(places.T)], "a"), onnx.numpy_helper.from_array(places), [4, 5])
    b = floats(4 if transposed else 5, 3)
    node = onnx.helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", transA=transposed, alpha=2.0)
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, b.shape)],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], sparse_initializer=[sparse])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    wanted = [2 * (dense.T if transposed else dense) @ b]
    outcome = driver.run([driver.Case("sparse", model.SerializeToString(), {"b": b}, wanted)], tmp_path)["sparse"]
    assert outcome.ok, outcome.status
    np.testing.assert_allclose(outcome.outputs[0], wanted[0], rtol=1e-5)


def codes(*shape):
    return np.zeros(shape, np.uint8)


def grouped(length, total, past=6, tokens=1):
    return [floats(1, tokens, 32), floats(1, tokens, 16), floats(1, tokens, 16), floats(1, 1, past, 16), floats(1, 1, past, 16), np.array([length], np.int32),
            np.array(total, np.int32)]


ROWS = floats(2, 5, 16)
TEXTS = np.array(["a b", "c"], dtype=object)
HEADS = dict(num_heads=2, kv_num_heads=1, outputs=3)
# (what is wrong, what the message says)
PACKED = [np.arange(6), np.array([3, 5]), np.array([7]), np.array([0, 2, 6], np.int32)]
NGRAMS = dict(pad_id=0, max_ngram_size=2, n_head_per_ngram=1, outputs=1)
WRONG = [
    (problem("MultiHeadAttention", [ROWS, ROWS, ROWS], num_heads=0), '"num_heads" (0)'),
    (problem("MultiHeadAttention", [ROWS, ROWS, ROWS], num_heads=3), "does not divide into 3 heads"),
    (problem("MultiHeadAttention", [ROWS, floats(2, 6, 16), ROWS], num_heads=2), "do not fit together"),
    (problem("MultiHeadAttention", [ROWS, ROWS, ROWS, None, None, floats(2, 2, 5, 9)], num_heads=2), "does not broadcast to the scores"),
    (problem("MultiHeadAttention", [ROWS, ROWS, ROWS, None, None, None, floats(2, 2, 4, 8)], num_heads=2), "one is absent"),
    (problem("GroupQueryAttention", grouped(6, 7), title="full", **HEADS), None),
    (problem("GroupQueryAttention", grouped(8, 7), title="length beyond total", **HEADS), "length of 9 keys"),
    (problem("GroupQueryAttention", grouped(9, 10), title="length beyond the cache", **HEADS), "length of 10 keys"),
    (problem("GroupQueryAttention", grouped(-7, 7), title="negative length", **HEADS), "length of -6"),
    (problem("GroupQueryAttention", [*grouped(6, 7), *[None] * 7, np.ones(16, np.float32)], title="one norm", **HEADS), "a norm of its queries alone"),
    (problem("GroupQueryAttention", grouped(6, 7), title="scores", **(HEADS | {"outputs": 4})), "has no output 3"),
    (problem("SkipLayerNormalization", [floats(1, 3, 8), floats(2, 3, 8), floats(8)]), "has a skip float32[2,3,8] for an input float32[1,3,8]"),
    (problem("VarlenNGramHashMapping", [*PACKED, None, None, None, np.array(1, np.int32)], **NGRAMS), "inputs that do not fit ids [6]"),
    (problem("VarlenNGramHashMapping", [*PACKED[:3], np.array([0, 2, 5], np.int32)], **NGRAMS), "the tokens [0, 5) of 6"),
    (problem("VarlenNGramHashMapping", [*PACKED[:3], np.array([1, 2, 6], np.int32)], **NGRAMS), "the tokens [1, 6) of 6"),
    (problem("RotaryEmbedding", [ROWS, np.array([30]), floats(32, 4), floats(32, 4)], num_heads=2), "Position 30 is not in [0, 32)"),
    (problem("RotaryEmbedding", [ROWS, np.array([[0, 1, 2, 3, -1]] * 2), floats(32, 4), floats(32, 4)], num_heads=2), "Position -1"),
    (problem("FusedConv", [floats(1, 2, 4, 4), floats(3, 2, 1, 1)], activation="Sinc"), 'the activation "Sinc"'),
    (problem("NGramRepeatBlock", [np.array([[7, 7]]), floats(1, 4)], ngram_size=1), "Id 7"),
    (problem("CDist", [floats(2, 3), floats(2, 3)], metric="cosine"), 'the metric "cosine"'),
    (problem("Inverse", [floats(2, 3)]), "square matrices"),
    (problem("GatedRMSNorm", [ROWS, np.float32(0.5), ROWS]), "a scale of 0 dimensions"),
    (problem("MoE", [floats(3, 8), floats(3, 2), floats(2, 4, 8), None, floats(2, 8, 4)], k=3), "3 of 2 experts"),
    (problem("MoE", [floats(3, 8), floats(3, 2), floats(2, 4, 7), None, floats(2, 8, 4)]), "rows of 8 elements"),
    (problem("MoE", [floats(3, 8), floats(3, 2), floats(2, 4, 8), None, floats(2, 8, 4)], activation_type="swiglu"), "a swiglu_fusion"),
    (problem("QMoE", [floats(3, 8), floats(3, 2), codes(2, 4, 4), floats(2, 5), None, codes(2, 8, 2), floats(2, 8)]), "The scales [2,5]"),
    (problem("QMoE", [floats(3, 8), floats(3, 2), codes(2, 4, 4), floats(2, 4), None, codes(2, 8, 2), floats(2, 8)], quant_type="fp8"), 'the kind "fp8"'),
    (problem("LinearAttention", [ROWS, ROWS, ROWS], q_num_heads=2, kv_num_heads=2, update_rule="linear", state_window=2, outputs=2), "a window of states"),
    (problem("CausalConvWithState", [ROWS, floats(5, 1, 3)], ndim=2, outputs=2), "one dimension, not 2"),
    (problem("MRotaryEmbedding", [ROWS, np.zeros((3, 2, 5), np.int64), floats(9, 4), floats(9, 4)], mrope_section=[2, 2], num_heads=2), "2 sections"),
    (problem("MRotaryEmbedding", [ROWS, np.zeros((3, 2, 5), np.int64), floats(9, 4), floats(9, 4)], mrope_section=[2**31 - 1] * 3, num_heads=2), "cosines of 4"),
    (problem("GatedRMSNorm", [floats(2, 3), floats(2), floats(2, 3)]), "rows of 3 elements and a scale of 2"),
    (problem("ReorderOutput", [floats(1, 16, 2, 2)], domain="com.microsoft.nchwc", channels=17), "17 channels of 16"),
    (problem("Tokenizer", [TEXTS], mark=0, mincharnum=1, pad_value="", tokenexp="a", separators=["b"]), "one of"),
    (problem("Tokenizer", [TEXTS], mark=0, mincharnum=2, pad_value="", separators=[""]), "has to be 1"),
    (problem("DynamicTimeWarping", [floats(2, 3, 4)]), "one matrix"),
    (problem("ImageScaler", [floats(1, 3, 4, 4)], domain="", opset=9, bias=[1.0, 2.0]), "2 numbers for 3 channels"),
    (problem("Crop", [floats(1, 3, 4, 5)], domain="", opset=9, border=[1, 2]), '2 numbers in "border"'),
    (problem("Crop", [floats(1, 3, 4, 5)], domain="", opset=9, border=[3, 0, 3, 0]), "3 before and 3 behind does not fit axis 3"),
    (problem("Crop", [floats(1, 3, 4, 5)], domain="", opset=9, border=[0, 2, 0, 0], scale=[3, 1]), "2 before and 3 kept does not fit axis 2"),
    (problem("Scale", [floats(1, 3, 4, 5)], domain="", opset=10), "Scale"),
    (problem("MatMulFpQ4", [floats(3, 32), codes(41), np.array([32, 2])], constants=[1, 2]), "41 bytes for a matrix of 32 rows and 2 columns"),
    (problem("MatMulFpQ4", [floats(3, 32), codes(42), np.array([32, 2])], constants=[1]), "with constants of the kinds 0 and 1"),
    (problem("SparseAttention", [ROWS, ROWS, ROWS, floats(2, 3, 9, 16), floats(2, 3, 9, 16), np.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32), np.array([5], np.int32),
                                 np.array([5, 5], np.int32)], num_heads=3, kv_num_heads=3, sparse_block_size=16, outputs=3), "of 3 heads has blocks of 16"),
    (problem("NGramHashMapping", [np.zeros((1, 4), np.int32), np.ones(2, np.int32), np.zeros(1, np.int32)], max_ngram_size=2, n_head_per_ngram=1, pad_id=0), "vocabulary of 0"),
    (problem("NGramHashMapping", [np.zeros((1, 4), np.int32), np.ones(2, np.int32), np.ones(3, np.int32)], max_ngram_size=2, n_head_per_ngram=1, pad_id=0), "and 1 hashes"),
    (problem("BifurcationDetector", [np.arange(4), np.arange(2), np.array([3]), np.arange(3)], outputs=2), "3 predicted tokens do not follow index 3 of 4"),
    (problem("WordConvEmbedding", [np.full((1, 4), 9, np.int32), floats(2, 1, 2, 5), floats(2), floats(6, 5)]), "Character 9 of word 0 is not in [0, 6)"),
    (problem("MaxpoolWithMask", [floats(1, 2, 5), np.ones((1, 2, 5), np.int32)], kernel_shape=[2]), "a mask of int32[1,1,5]"),
    (problem("GreedySearch", [IDS, one(4)], decoder=gpt(), **TOKENS), "max_length (4) is not larger than the length of the input (4)"),
    (problem("GreedySearch", [IDS, one(5000)], decoder=gpt(), **TOKENS), "(5000) is not in [1, 4096]"),
    (problem("GreedySearch", [IDS, one(9)], decoder=gpt(), eos_token_id=40, pad_token_id=0), "the end (40)"),
    (problem("GreedySearch", [IDS, one(9)], decoder=decoder(0), model_type=1, **TOKENS), "not of model_type 1"),
    (problem("GreedySearch", [IDS, one(9)], decoder=decoder(0), **TOKENS), "10 inputs for 4 caches"),
    (problem("GreedySearch", [IDS, one(9), None, one(0, np.float32)], decoder=gpt(), **TOKENS), "a repetition (0)"),
    (problem("GreedySearch", [IDS, one(9), None, None, np.ones(9, np.int32)], decoder=gpt(), **TOKENS), "a mask of int32[3,23], not int32[9]"),
    (problem("Sampling", [IDS, one(9)], decoder=gpt(), outputs=2, **TOKENS), "filtered_logits"),
    (problem("BeamSearch", [IDS, one(9), None, one(0), one(1)], decoder=gpt(), **TOKENS), "number of beams (0)"),
    (problem("BeamSearch", [IDS, one(9), None, one(2), one(3)], decoder=gpt(), **TOKENS), "Of 2 beams 3 sequences"),
    (problem("BeamSearch", [IDS, one(9), None, one(2), one(1)], decoder=decoder(0), model_type=1, **TOKENS), "has no encoder"),
    (problem("BeamSearch", [floats(1, 8, 3), one(9), None, one(2), one(1), None, None, None, None, None, None, one(1)], encoder=encoder(True, features=True),
             decoder=decoder(0, features=True), model_type=2, decoder_start_token_id=2, opset=17, **TOKENS), "without a logits_processor"),
]


def test_wrong_input_is_refused_with_its_values(tmp_path):
    # Compared are messages alone: the outputs have no oracle.
    cases = [driver.Case(f"{number} {wrong.name}", wrong.model.SerializeToString(), wrong.inputs, [None] * len(wrong.model.graph.output))
             for number, (wrong, _) in enumerate(WRONG)]
    outcomes = driver.run_all(cases, tmp_path, ["--threads=2"])
    failures = []
    for case, (_, message) in zip(cases, WRONG):
        outcome = outcomes[case.name]
        right = outcome.ok if message is None else not outcome.ok and message in outcome.status
        if not right:
            failures.append(f"{case.name}: {outcome.status}")
    assert not failures, "\n".join(failures)


def test_an_input_that_is_absent_ends_no_process(tmp_path):
    # Of one problem of each operator, each input in turn; also of an operator that the opset lacks.
    by_operator = {wanted.model.graph.node[-1].op_type: wanted for family in FAMILIES for wanted in importlib.import_module(f"contrib_{family}").problems()}
    by_operator["SwiGLU"] = problem("SwiGLU", [ROWS, ROWS], domain="", opset=14)
    cases = []
    for operator, whole in by_operator.items():
        for number, name in enumerate(whole.model.graph.node[-1].input):
            if not name:
                continue
            model = onnx.ModelProto.FromString(whole.model.SerializeToString())
            model.graph.node[-1].input[number] = ""
            cases.append(driver.Case(f"{operator} {number}", model.SerializeToString(), whole.inputs, [None] * len(model.graph.output)))
    outcomes = driver.run_all(cases, tmp_path, ["--threads=1"])
    assert len(outcomes) == len(cases)
    ended = [f"{name}: {outcome.status}" for name, outcome in outcomes.items() if outcome.status == "crashed" or outcome.status.startswith("internal")]
    assert not ended, "\n".join(ended)
    assert not outcomes["SwiGLU 0"].ok and "SwiGLU" in outcomes["SwiGLU 0"].status
