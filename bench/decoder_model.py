"""A decoder as onnxruntime-genai's builder writes it: SkipSimplifiedLayerNormalization, GroupQueryAttention whose present
shares the past's memory, and MatMulNBits where weights are of 4 bits. The sizes are those of networks.Decoder.

    model(past, tokens, kind, batch)    kind: "f16", "bf16" or "int4" (f16 beside weights of 4 bits)
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, SIZE, HEADS, KV_HEADS, DEPTH, INNER, VOCABULARY = 12, 768, 12, 4, 64, 2048, 32000
BLOCK = 32  # weights of 4 bits that share a scale


class Writer:
    def __init__(self, kind):
        self.four_bits = kind == "int4"
        self.type = TensorProto.BFLOAT16 if kind == "bf16" else TensorProto.FLOAT16
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

    def product(self, name, x, inputs, outputs):
        if not self.four_bits:
            weights = self.random.standard_normal((inputs, outputs), dtype=np.float32) * 0.02
            return self.node("MatMul", [x, self.constant(name + ".weight", weights)], name)
        blocks = inputs // BLOCK
        codes = self.random.integers(0, 256, (outputs, blocks, BLOCK // 2))
        scales = (0.5 + self.random.random((outputs, blocks))) * 0.004
        return self.node("MatMulNBits", [x, self.constant(name + ".qweight", codes, TensorProto.UINT8),
                                         self.constant(name + ".scales", scales)], name, "com.microsoft",
                         K=inputs, N=outputs, bits=4, block_size=BLOCK, accuracy_level=0)


def model(past, tokens, kind, batch):
    w = Writer(kind)
    room = past + tokens
    w.node("ReduceSum", ["attention_mask", w.constant("one", [1], TensorProto.INT64)], "seqlens", keepdims=0)
    w.node("Sub", ["seqlens", "one"], "seqlens_1")
    w.node("Cast", ["seqlens_1"], "seqlens_k", to=TensorProto.INT32)
    w.node("Shape", ["attention_mask"], "mask_shape")
    w.node("Gather", ["mask_shape", w.constant("axis", 1, TensorProto.INT64)], "total_length", axis=0)
    w.node("Cast", ["total_length"], "total_sequence_length", to=TensorProto.INT32)
    angles = np.arange(max(room, 4096))[:, None] / 10000.0 ** (np.arange(0, DEPTH, 2) / DEPTH)
    cos, sin = w.constant("cos_cache", np.cos(angles)), w.constant("sin_cache", np.sin(angles))
    table = w.random.standard_normal((VOCABULARY, SIZE), dtype=np.float32) * 0.5
    x = w.node("Gather", [w.constant("embeddings", table), "input_ids"], "rows", axis=0)
    scale = lambda name: w.constant(name + ".scale", 1 + 0.1 * w.random.standard_normal(SIZE))
    rows = w.node("SimplifiedLayerNormalization", [x, scale("norm_first")], "normal_first", axis=-1, epsilon=1e-6,
                  stash_type=1)

    def add_and_norm(name, skip, branch):
        w.node("SkipSimplifiedLayerNormalization", [skip, branch, scale(name)], [name, "", "", name + "_sum"],
               "com.microsoft", epsilon=1e-6)
        return name + "_sum", name

    inputs, outputs = [], []
    caches = [batch, KV_HEADS, room, DEPTH]
    for i in range(LAYERS):
        at = f"layer{i}."
        q, k, v = (w.product(at + part, rows, SIZE, heads * DEPTH)
                   for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        names = [f"{time}.{i}.{part}" for time in ("past_key_values", "present") for part in ("key", "value")]
        inputs += [helper.make_tensor_value_info(name, w.type, caches) for name in names[:2]]
        outputs += [helper.make_tensor_value_info(name, w.type, caches) for name in names[2:]]
        y = w.node("GroupQueryAttention", [q, k, v, *names[:2], "seqlens_k", "total_sequence_length", cos, sin],
                   [at + "attention", *names[2:]], "com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS,
                   scale=DEPTH**-0.5, do_rotary=1, rotary_interleaved=0, local_window_size=-1)
        x, rows = add_and_norm(at + "norm2", x, w.product(at + "out", y, HEADS * DEPTH, SIZE))
        gate, up = (w.product(at + part, rows, SIZE, INNER) for part in ("gate", "up"))
        w.node("Sigmoid", [gate], at + "sigmoid")
        w.node("Mul", [gate, at + "sigmoid"], at + "silu")
        w.node("Mul", [at + "silu", up], at + "inner")
        x, rows = add_and_norm(at + "norm3", x, w.product(at + "down", at + "inner", INNER, SIZE))
    if tokens > 1:  # of a prompt the last token's alone
        rows = w.node("Gather", [rows, w.constant("last", [tokens - 1], TensorProto.INT64)], "last_row", axis=1)
    w.product("logits", rows, SIZE, VOCABULARY)
    head = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [batch, tokens]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [batch, room])]
    logits = helper.make_tensor_value_info("logits", w.type, [batch, 1, VOCABULARY])
    graph = helper.make_graph(w.nodes, "decoder", head + inputs, [logits] + outputs, w.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=10)
