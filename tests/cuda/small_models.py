"""Models that are written here: a BERT-like encoder and a CNN, in float32, float16 or bfloat16, with symbolic sizes. And
a model's twin in float32, which the CPU EP computes as the reference."""
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16),
         "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}


class Builder:
    def __init__(self, kind, seed):
        self.type, self.dtype = TYPES[kind]
        self.random, self.nodes, self.weights, self.count = np.random.default_rng(seed), [], [], 0

    def weight(self, shape, scale, offset=0.0):
        values = (self.random.normal(0, scale, shape) + offset).astype(np.float32)
        return self.constant(values.astype(self.dtype))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value):
        return self.constant(np.asarray(value, np.float32).astype(self.dtype))

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def add(self, op, *inputs, out=None, **attributes):
        self.count += 1
        out = out or f"v{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def finish(self, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        # Convolutions have bfloat16 from 22 on.
        version = 22 if self.type == TensorProto.BFLOAT16 else 18
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)


def encoder(kind="f32", layers=2, hidden=128, heads=4, vocabulary=100, longest=256, seed=5):
    """input_ids and attention_mask, [batch, sequence] -> hidden [batch, sequence, hidden]."""
    b = Builder(kind, seed)
    size = hidden // heads
    words = b.add("Gather", b.weight([vocabulary, hidden], 0.5), "input_ids")
    length = b.add("Unsqueeze", b.add("Gather", b.add("Shape", "input_ids"), b.constant(np.int64(1))), b.integers(0))
    places = b.add("Slice", b.weight([1, longest, hidden], 0.5), b.integers(0), length, b.integers(1))
    x = b.add("Add", words, places)

    def norm(x):
        return b.add("LayerNormalization", x, b.weight([hidden], 0.1, 1.0), b.weight([hidden], 0.1), axis=-1)

    def linear(x, columns, rows=hidden):
        return b.add("Add", b.add("MatMul", x, b.weight([rows, columns], rows ** -0.5)), b.weight([columns], 0.1))

    x = norm(x)
    mask = b.add("Cast", b.add("Unsqueeze", "attention_mask", b.integers(1, 2)), to=b.type)
    mask = b.add("Mul", b.add("Sub", b.number(1), mask), b.number(-10000))
    for _ in range(layers):
        q, k, v = (b.add("Reshape", linear(x, hidden), b.integers(0, 0, heads, size)) for _ in range(3))
        q, v = (b.add("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
        k = b.add("Transpose", k, perm=[0, 2, 3, 1])
        scores = b.add("Add", b.add("Div", b.add("MatMul", q, k), b.number(size ** 0.5)), mask)
        mixed = b.add("Transpose", b.add("MatMul", b.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = norm(b.add("Add", linear(b.add("Reshape", mixed, b.integers(0, 0, hidden)), hidden), x))
        inner = linear(x, 4 * hidden)
        error = b.add("Add", b.add("Erf", b.add("Div", inner, b.number(2 ** 0.5))), b.number(1))
        gelu = b.add("Mul", b.add("Mul", inner, error), b.number(0.5))
        x = b.add("Add", linear(gelu, hidden, 4 * hidden), x)
        x = norm(x)
    b.nodes[-1].output[0] = "hidden"
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
           for name in ("input_ids", "attention_mask")]
    return b.finish("encoder", ids, [helper.make_tensor_value_info("hidden", b.type, ["batch", "sequence", hidden])])


def cnn(kind="f32", seed=6):
    """image [batch, 3, height, width] -> scores [batch, 10]"""
    b = Builder(kind, seed)

    def conv(x, outputs, inputs, kernel, group=1, **attributes):
        scale = (inputs // group * kernel * kernel) ** -0.5
        return b.add("Conv", x, b.weight([outputs, inputs // group, kernel, kernel], scale), b.weight([outputs], 0.1),
                     kernel_shape=[kernel, kernel], group=group, **attributes)

    x = b.add("Relu", conv("image", 16, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    x = b.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        y = b.add("Clip", conv(x, 48, 16, 1), b.number(0), b.number(6))
        y = b.add("Clip", conv(y, 48, 48, 3, group=48, pads=[1, 1, 1, 1]), b.number(0), b.number(6))
        x = b.add("Add", conv(y, 16, 48, 1), x)
    y = b.add("BatchNormalization", x, b.weight([16], 0.1, 1.0), b.weight([16], 0.1), b.weight([16], 0.1),
              b.constant(np.abs(b.random.normal(1, 0.1, 16)).astype(np.float32).astype(b.dtype)))
    y = b.add("Mul", y, b.add("Sigmoid", y))
    y = b.add("Flatten", b.add("GlobalAveragePool", y))
    b.add("Gemm", y, b.weight([10, 16], 0.25), b.weight([10], 0.1), out="scores", transB=1)
    image = helper.make_tensor_value_info("image", b.type, ["batch", 3, "height", "width"])
    return b.finish("cnn", [image], [helper.make_tensor_value_info("scores", b.type, ["batch", 10])])


def mixed(kind="f16", seed=7):
    """Float32 outside, 16 bits inside, and sums in float32 again: x [batch, 32] -> y [batch, 8]"""
    b = Builder(kind, seed)
    half = b.add("Cast", "x", to=b.type)
    inner = b.add("Relu", b.add("Add", b.add("MatMul", half, b.weight([32, 64], 0.2)), b.weight([64], 0.1)))
    wide = b.add("Cast", inner, to=TensorProto.FLOAT)
    mean = b.add("ReduceMean", wide, b.integers(-1), keepdims=1)
    centred = b.add("Cast", b.add("Sub", wide, mean), to=b.type)
    out = b.add("MatMul", b.add("Sigmoid", centred), b.weight([64, 8], 0.2))
    b.add("Cast", out, out="y", to=TensorProto.FLOAT)
    return b.finish("mixed", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])],
                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])])


HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def twin(model):
    """The same model with float32 wherever it has 16-bit floats; its weights are the rounded ones."""
    model = onnx.ModelProto.FromString(model.SerializeToString())

    def widen(tensor):
        if tensor.data_type in HALVES:
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), name))
    for tensor in model.graph.initializer:
        widen(tensor)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.tensor_type.elem_type in HALVES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if attribute.name in ("to", "dtype") and attribute.i in HALVES:
                attribute.i = TensorProto.FLOAT
    return model


def tokens(random, batch, sequence, vocabulary=100):
    """input_ids and attention_mask with rows of several lengths."""
    mask = (np.arange(sequence)[None, :] < random.integers(1, sequence + 1, (batch, 1))).astype(np.int64)
    return {"input_ids": random.integers(0, vocabulary, (batch, sequence)).astype(np.int64), "attention_mask": mask}
