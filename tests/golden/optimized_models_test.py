"""Models that ONNX Runtime has optimised and written: they hold its own operators, and give what the original gives."""
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import driver

RNG = np.random.default_rng(1)


class Maker:
    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, *shape, scale=None):
        scale = 1 / np.sqrt(shape[0]) if scale is None else scale
        return self.constant(RNG.normal(0, scale, shape).astype(np.float32))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def __call__(self, operator, *inputs, outputs=1, **attributes):
        names = [f"v{self.count + number}" for number in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=f"n{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def model(self, inputs, output):
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        graph = helper.make_graph(self.nodes, "g", inputs, [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def transformer(causal, tokens=16, hidden=32, heads=4, layers=2):
    """As exporters write it: products with constants, heads by Reshape and Transpose, a mask that is added, GELU in parts."""
    m = Maker()
    depth = hidden // heads
    x = m("Gather", m.weight(50, hidden, scale=0.5), "ids")
    x = m("Add", x, m.weight(tokens, hidden, scale=0.5))
    lower = np.where(np.tri(tokens, dtype=bool), 0, -10000.0).astype(np.float32)[None, None]

    def norm(value):
        return m("LayerNormalization", value, m.constant(np.ones(hidden, np.float32)), m.weight(hidden, scale=0.1), axis=-1, epsilon=1e-5)

    def dense(value, rows, columns):
        return m("Add", m("MatMul", value, m.weight(rows, columns)), m.weight(columns, scale=0.1))

    for _ in range(layers):
        before = norm(x) if causal else x
        parts = [m("Transpose", m("Reshape", dense(before, hidden, hidden), m.constant(np.array([0, 0, heads, depth]))), perm=[0, 2, 1, 3]) for _ in range(3)]
        scores = m("MatMul", parts[0], m("Transpose", parts[1], perm=[0, 1, 3, 2]))
        scores = m("Div", scores, m.constant(np.float32(np.sqrt(depth))))
        if causal:
            scores = m("Add", scores, m.constant(lower))
        mixed = m("Transpose", m("MatMul", m("Softmax", scores, axis=-1), parts[2]), perm=[0, 2, 1, 3])
        x = m("Add", dense(m("Reshape", mixed, m.constant(np.array([0, 0, hidden]))), hidden, hidden), x)
        x = x if causal else norm(x)
        wide = dense(norm(x) if causal else x, hidden, 4 * hidden)
        erf = m("Erf", m("Div", wide, m.constant(np.float32(np.sqrt(2)))))
        wide = m("Mul", m("Mul", wide, m("Add", erf, m.constant(np.float32(1)))), m.constant(np.float32(0.5)))
        x = m("Add", x, dense(wide, 4 * hidden, hidden))
        x = x if causal else norm(x)
    inputs = [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", tokens])]
    return m.model(inputs, x), {"ids": RNG.integers(0, 50, (2, tokens))}


def residual_network():
    m = Maker()

    def conv(value, inner, outer, kernel=3, stride=1):
        weights = m.constant(RNG.normal(0, 0.15, (outer, inner, kernel, kernel)).astype(np.float32))
        return m("Conv", value, weights, m.weight(outer, scale=0.1), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)

    x = m("Relu", conv("image", 3, 16, 7, 2))
    x = m("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for inner, outer, stride in ((16, 16, 1), (16, 32, 2)):
        skip = x if inner == outer else conv(x, inner, outer, 1, stride)
        y = conv(m("Relu", conv(x, inner, outer, 3, stride)), outer, outer)
        x = m("Relu", m("Add", y, skip))
    x = m("LeakyRelu", conv(x, 32, 32), alpha=0.1)
    x = m("Flatten", m("GlobalAveragePool", x))
    x = m("Relu", m("Gemm", x, m.weight(32, 10), m.weight(10)))
    inputs = [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 64, 64])]
    return m.model(inputs, x), {"image": RNG.uniform(-1, 1, (2, 3, 64, 64)).astype(np.float32)}


def mixed_network():
    """Convolutions whose channels fill no block, of groups and of single channels, between pools, sums and resizes."""
    m = Maker()

    def conv(value, inner, outer, kernel=3, group=1, **more):
        weights = m.constant(RNG.normal(0, 0.2, (outer, inner // group, kernel, kernel)).astype(np.float32))
        return m("Conv", value, weights, m.weight(outer, scale=0.1), kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=group, **more)

    x = m("LeakyRelu", conv("image", 3, 20, 5), alpha=0.2)
    x = m("Clip", conv(x, 20, 24), m.constant(np.float32(-0.5)), m.constant(np.float32(0.75)))
    x = m("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    wide = m("HardSigmoid", conv(x, 24, 32), alpha=0.25, beta=0.4)
    single = m("Tanh", conv(wide, 32, 32, group=32))
    groups = m("Sigmoid", conv(wide, 32, 32, group=2))
    x = m("Concat", m("Add", single, groups), wide, axis=1)
    x = m("AveragePool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], count_include_pad=1)
    x = m("Resize", x, "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = m("Relu", m("Sum", conv(x, 64, 10, 1), conv(x, 64, 10)))
    x = m("Resize", x, "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear", coordinate_transformation_mode="half_pixel")
    x = m("Concat", m("Flatten", m("GlobalMaxPool", conv(x, 10, 16))), m("Flatten", m("MaxPool", x, kernel_shape=[4, 4], strides=[4, 4])), axis=1)
    inputs = [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 16, 20])]
    return m.model(inputs, x), {"image": RNG.uniform(-1, 1, (2, 3, 16, 20)).astype(np.float32)}


def quantised_network():
    """Convolutions and a pool between QuantizeLinear and DequantizeLinear, as quantisers write them."""
    m = Maker()
    zero = m.constant(np.uint8(128))

    def coded(value, scale):
        step = m.constant(np.float32(scale))
        return m("DequantizeLinear", m("QuantizeLinear", value, step, zero), step, zero)

    def conv(value, inner, outer, scale, stride=1, group=1):
        codes = m.constant(RNG.integers(-100, 100, (outer, inner // group, 3, 3)).astype(np.int8))
        weights = m("DequantizeLinear", codes, m.constant(np.full(outer, 0.003, np.float32)), m.constant(np.zeros(outer, np.int8)), axis=0)
        bias = m("DequantizeLinear", m.constant(RNG.integers(-999, 999, outer).astype(np.int32)), m.constant(np.full(outer, 0.00006, np.float32)),
                 m.constant(np.zeros(outer, np.int32)), axis=0)
        made = m("Conv", value, weights, bias, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4, group=group)
        return coded(made, scale)

    x = coded("image", 0.02)
    x = conv(x, 3, 16, 0.02, 2)
    x = coded(m("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 0.02)
    x = conv(x, 16, 16, 0.02, group=16)
    x = conv(x, 16, 24, 0.03)
    x = m("Flatten", coded(m("GlobalAveragePool", x), 0.02))
    inputs = [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 32, 32])]
    return m.model(inputs, x), {"image": RNG.uniform(-1, 1, (2, 3, 32, 32)).astype(np.float32)}


MODELS = {"encoder": lambda: transformer(False), "decoder": lambda: transformer(True), "residual network": residual_network, "mixed network": mixed_network}
QUANTISED = {"quantised network": quantised_network}
LEVELS = {"all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC}


def optimized(model, level, path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", path.suffix[1:].upper())
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return path.read_bytes()


def own_operators(written):
    return {node.op_type for node in onnx.load_from_string(written).graph.node if node.domain.startswith("com.microsoft")}


# All optimizations write float convolutions in the order of this machine's blocks.
@pytest.mark.parametrize("name, level", [(name, level) for name in (*MODELS, *QUANTISED) for level in LEVELS])
@pytest.mark.parametrize("form", ["onnx", "ort"])
def test_gives_what_the_original_gives(name, level, form, tmp_path):
    model, feeds = (MODELS | QUANTISED)[name]()
    wanted = driver.plain_session(model.SerializeToString()).run(None, feeds)
    written = optimized(model, level, pathlib.Path(tmp_path) / f"optimized.{form}")
    if form == "onnx" and (level == "extended" or name not in QUANTISED):
        assert level == "basic" or own_operators(written), "ONNX Runtime put no operator of its own into the model"
    for threads in (1, 2):
        outcome = driver.run([driver.Case(name, written, feeds, wanted)], tmp_path, [f"--threads={threads}"])[name]
        assert outcome.ok, outcome.status
        if name in QUANTISED:
            # A number half way between two codes may become either, and so may what follows from it.
            assert np.mean(np.abs(outcome.outputs[0] - wanted[0]) > 0.021) < 0.02 and np.abs(outcome.outputs[0] - wanted[0]).max() < 0.1
        else:
            np.testing.assert_allclose(outcome.outputs[0], wanted[0], rtol=1e-4, atol=1e-4)


def test_all_optimizations_put_blocks_of_channels(tmp_path):
    written = onnx.load_from_string(optimized(mixed_network()[0], "all", pathlib.Path(tmp_path) / "optimized.onnx"))
    blocked = {node.op_type for node in written.graph.node if node.domain == "com.microsoft.nchwc"}
    assert {"Conv", "AveragePool", "GlobalMaxPool", "ReorderOutput", "Upsample"} <= blocked, sorted(blocked)


def test_blocks_of_eight_channels_show_in_the_weights(tmp_path):
    # As a CPU without AVX-512 writes it: weights [outputs / 8, inputs / 8, height, width, 8 inputs, 8 outputs].
    weights = RNG.normal(0, 0.2, (24, 16, 3, 3)).astype(np.float32)
    first = RNG.normal(0, 0.2, (16, 3, 3, 3)).astype(np.float32)
    blocked = weights.reshape(3, 8, 2, 8, 3, 3).transpose(0, 2, 4, 5, 3, 1).reshape(weights.shape)
    first_blocked = first.reshape(2, 8, 3, 3, 3).transpose(0, 2, 3, 4, 1).reshape(first.shape)
    x = RNG.uniform(-1, 1, (1, 3, 9, 9)).astype(np.float32)
    models = []
    for domain, arrays in (("", (first, weights)), ("com.microsoft.nchwc", (first_blocked, blocked))):
        m = Maker()
        y = m("Conv", m("Conv", "image", m.constant(arrays[0]), domain=domain), m.constant(arrays[1]), domain=domain)
        y = m("Slice", y, m.constant(np.array([0])), m.constant(np.array([20])), m.constant(np.array([1]))) if not domain else m("ReorderOutput", y, channels=20, domain=domain)
        models.append(m.model([helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, x.shape)], y))
    models[1].opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    wanted = driver.plain_session(models[0].SerializeToString()).run(None, {"image": x})
    outcome = driver.run([driver.Case("eight", models[1].SerializeToString(), {"image": x}, wanted)], tmp_path)["eight"]
    assert outcome.ok, outcome.status
    np.testing.assert_allclose(outcome.outputs[0], wanted[0], rtol=1e-4, atol=1e-5)


def test_all_optimizations_put_channels_last(tmp_path):
    model, _ = quantised_network()
    written = onnx.load_from_string(optimized(model, "all", pathlib.Path(tmp_path) / "optimized.onnx"))
    last = [node for node in written.graph.node if node.op_type == "QLinearConv" and any(a.name == "channels_last" and a.i for a in node.attribute)]
    assert last, sorted({node.op_type for node in written.graph.node})
