"""A decoder as onnxruntime-genai's builder writes it: SkipSimplifiedLayerNormalization, GroupQueryAttention whose present
shares the past's memory, and MatMulNBits where weights are of 4 bits. The sizes are those of networks.Decoder.

    model(past, tokens, kind, batch)    kind: "f32", "f16", "bf16" or "int4" (f16 beside weights of 4 bits)

With `ranks` it is the part of `rank`: heads and the inner width of the MLP are divided among the ranks, which add up what
follows (AllReduce), and so is the vocabulary, whose logits they gather (AllGather). The parts of all ranks have the weights
of the whole model.

    greedy(model)    makes a model of one token generate: its token is its next input, and all go into `tokens`
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Sizes:
    layers: int = 12
    size: int = 768
    heads: int = 12
    kv_heads: int = 4
    depth: int = 64
    inner: int = 2048
    vocabulary: int = 32000


BLOCK = 32  # weights of 4 bits that share a scale
TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "int4": TensorProto.FLOAT16}


class Writer:
    def __init__(self, kind, rank, ranks):
        self.four_bits = kind == "int4"
        self.type = TYPES[kind]
        self.rank, self.ranks = rank, ranks
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(0)

    def constant(self, name, values, kind=None):
        kind = kind or self.type
        values = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(kind))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0] + "/" + op, domain=domain, **attributes))
        return outputs[0]

    def part(self, values, axis):
        """This rank's share."""
        return np.split(values, self.ranks, axis)[self.rank]

    def product(self, name, x, inputs, outputs, divided):
        """`divided`: "outputs", or "inputs", whose ranks have a summand each."""
        added = name + ".part" if divided == "inputs" and self.ranks > 1 else name
        if not self.four_bits:
            weights = self.random.standard_normal((inputs, outputs), dtype=np.float32) * 0.02
            weights = self.part(weights, 0 if divided == "inputs" else 1)
            self.node("MatMul", [x, self.constant(name + ".weight", weights)], added)
        else:
            blocks = inputs // BLOCK
            axis = 1 if divided == "inputs" else 0
            codes = self.part(self.random.integers(0, 256, (outputs, blocks, BLOCK // 2)), axis)
            scales = self.part((0.5 + self.random.random((outputs, blocks))) * 0.004, axis)
            self.node("MatMulNBits", [x, self.constant(name + ".qweight", codes, TensorProto.UINT8),
                                      self.constant(name + ".scales", scales)], added, "com.microsoft",
                      K=codes.shape[1] * BLOCK, N=codes.shape[0], bits=4, block_size=BLOCK, accuracy_level=0)
        return name if added == name else self.node("AllReduce", [added], name, "com.microsoft")


def model(past, tokens, kind, batch, rank=0, ranks=1, sizes=None):
    of = sizes or Sizes()
    heads, kv_heads = of.heads // ranks, of.kv_heads // ranks
    w = Writer(kind, rank, ranks)
    room = past + tokens
    w.node("ReduceSum", ["attention_mask", w.constant("one", [1], TensorProto.INT64)], "seqlens", keepdims=0)
    w.node("Sub", ["seqlens", "one"], "seqlens_1")
    w.node("Cast", ["seqlens_1"], "seqlens_k", to=TensorProto.INT32)
    w.node("Shape", ["attention_mask"], "mask_shape")
    w.node("Gather", ["mask_shape", w.constant("axis", 1, TensorProto.INT64)], "total_length", axis=0)
    w.node("Cast", ["total_length"], "total_sequence_length", to=TensorProto.INT32)
    angles = np.arange(max(room, 4096))[:, None] / 10000.0 ** (np.arange(0, of.depth, 2) / of.depth)
    cos, sin = w.constant("cos_cache", np.cos(angles)), w.constant("sin_cache", np.sin(angles))
    table = w.random.standard_normal((of.vocabulary, of.size), dtype=np.float32) * 0.5
    x = w.node("Gather", [w.constant("embeddings", table), "input_ids"], "rows", axis=0)
    scale = lambda name: w.constant(name + ".scale", 1 + 0.1 * w.random.standard_normal(of.size))
    rows = w.node("SimplifiedLayerNormalization", [x, scale("norm_first")], "normal_first", axis=-1, epsilon=1e-6,
                  stash_type=1)

    def add_and_norm(name, skip, branch):
        w.node("SkipSimplifiedLayerNormalization", [skip, branch, scale(name)], [name, "", "", name + "_sum"],
               "com.microsoft", epsilon=1e-6)
        return name + "_sum", name

    inputs, outputs = [], []
    caches = [batch, kv_heads, room, of.depth]
    for i in range(of.layers):
        at = f"layer{i}."
        q, k, v = (w.product(at + part, rows, of.size, count * of.depth, "outputs")
                   for part, count in (("q", of.heads), ("k", of.kv_heads), ("v", of.kv_heads)))
        names = [f"{time}.{i}.{part}" for time in ("past_key_values", "present") for part in ("key", "value")]
        inputs += [helper.make_tensor_value_info(name, w.type, caches) for name in names[:2]]
        outputs += [helper.make_tensor_value_info(name, w.type, caches) for name in names[2:]]
        y = w.node("GroupQueryAttention", [q, k, v, *names[:2], "seqlens_k", "total_sequence_length", cos, sin],
                   [at + "attention", *names[2:]], "com.microsoft", num_heads=heads, kv_num_heads=kv_heads,
                   scale=of.depth**-0.5, do_rotary=1, rotary_interleaved=0, local_window_size=-1)
        x, rows = add_and_norm(at + "norm2", x, w.product(at + "out", y, of.heads * of.depth, of.size, "inputs"))
        gate, up = (w.product(at + part, rows, of.size, of.inner, "outputs") for part in ("gate", "up"))
        w.node("Sigmoid", [gate], at + "sigmoid")
        w.node("Mul", [gate, at + "sigmoid"], at + "silu")
        w.node("Mul", [at + "silu", up], at + "inner")
        x, rows = add_and_norm(at + "norm3", x, w.product(at + "down", at + "inner", of.inner, of.size, "inputs"))
    if tokens > 1:  # of a prompt the last token's alone
        rows = w.node("Gather", [rows, w.constant("last", [tokens - 1], TensorProto.INT64)], "last_row", axis=1)
    if ranks == 1:
        w.product("logits", rows, of.size, of.vocabulary, "outputs")
    else:
        w.product("logits.part", rows, of.size, of.vocabulary, "outputs")
        w.node("AllGather", ["logits.part"], "logits", "com.microsoft", axis=2, group_size=ranks)
    head = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [batch, tokens]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [batch, room])]
    logits = helper.make_tensor_value_info("logits", w.type, [batch, 1, of.vocabulary])
    graph = helper.make_graph(w.nodes, "decoder", head + inputs, [logits] + outputs, w.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=10)


def greedy(model):
    """Each run takes `length` tokens as past, itself included, and makes the next one, `next.input_ids`. Outputs next.X are
    the inputs X of the next run."""
    graph = model.graph
    batch, room = (dim.dim_value for dim in graph.input[1].type.tensor_type.shape.dim)
    del graph.input[1]
    for node in list(graph.node):
        if node.op_type == "ReduceSum":
            node.input[0] = "length"
        if node.op_type == "Shape":
            graph.node.remove(node)
    graph.initializer.append(numpy_helper.from_array(np.array([batch, room]), "mask_shape"))
    nodes = [helper.make_node("ArgMax", ["logits"], ["next.input_ids"], axis=2, keepdims=0),
             helper.make_node("ScatterElements", ["tokens", "length", "next.input_ids"], ["next.tokens"], axis=1),
             helper.make_node("Add", ["length", "one"], ["next.length"])]
    graph.node.extend(nodes)
    for name, shape in (("length", [batch, 1]), ("tokens", [batch, room])):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, shape))
        graph.output.append(helper.make_tensor_value_info("next." + name, TensorProto.INT64, shape))
    graph.output.append(helper.make_tensor_value_info("next.input_ids", TensorProto.INT64, [batch, 1]))
    return model
