"""Models of ONNX Runtime's own operators for contrib_cases_test.py: nodes of the golden problems, and layers of decoders
as onnxruntime-genai's builder writes them."""
import itertools
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))

import contrib_attention  # noqa: E402
import contrib_norm  # noqa: E402
import driver  # noqa: E402
import quantized_contrib_blocks  # noqa: E402

OPERATORS = ("GroupQueryAttention", "MatMulNBits", "RotaryEmbedding", "SimplifiedLayerNormalization",
             "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")


def from_golden():
    """The golden problems of these operators, and the same in float16."""
    found = [*contrib_attention.grouped(), *contrib_attention.rotary(), *contrib_norm.problems()]
    found = [problem for problem in found if problem.model.graph.node[0].op_type in OPERATORS]
    cases = {problem.name: driver.Case(problem.name, problem.model.SerializeToString(), problem.inputs, [])
             for problem in found}
    for problem in found[::2]:
        if all(array.dtype in (np.float32, np.int32, np.int64) for array in problem.inputs.values()):
            case = in_half(problem)
            cases[case.name] = case
    for problem in quantized_contrib_blocks.problems():
        # With an accuracy of 4 ONNX Runtime rounds the other operand to 8 bits.
        if problem.operator == "MatMulNBits" and problem.attributes.get("accuracy_level") != 4:
            name = "MatMulNBits " + problem.name
            cases[name] = driver.Case(name, problem.model(constant=True), problem.feeds(constant=True), [])
    return cases


def in_half(problem):
    model = onnx.ModelProto.FromString(problem.model.SerializeToString())
    for value in model.graph.input:
        kind = value.type.tensor_type
        kind.elem_type = TensorProto.FLOAT16 if kind.elem_type == TensorProto.FLOAT else kind.elem_type
    for held in model.graph.initializer:
        if held.data_type == TensorProto.FLOAT:
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held).astype(np.float16), held.name))
    inputs = {name: array.astype(np.float16) if array.dtype == np.float32 else array
              for name, array in problem.inputs.items()}
    return driver.Case(problem.name + " in float16", model.SerializeToString(), inputs, [])


class Layer:
    """A decoder's layer: norm, attention over a cache, norm, and a gated product."""

    def __init__(self, kind, bits, batch, tokens, past, heads=4, kv_heads=2, depth=16, size=64, inner=96, seed=3):
        self.random = np.random.default_rng(seed)
        self.kind, self.bits = kind, bits
        self.type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.nodes, self.held = [], []
        room = past + tokens
        self.inputs = {"x": self.floats(batch, tokens, size), "skip": self.floats(batch, tokens, size),
                       "mask": np.ones((batch, room), np.int64),
                       **{f"past_{name}": self.floats(batch, kv_heads, room, depth) for name in ("key", "value")}}
        if batch > 1 and tokens == 1:
            self.inputs["mask"][1, -2:] = 0
        half = depth // 2
        angles = np.arange(room)[:, None] / 100.0 ** (np.arange(half) / half)
        self.node("ReduceSum", ["mask", self.constant("one", np.array([1]))], "counted", keepdims=0)
        self.node("Sub", ["counted", "one"], "last")
        self.node("Cast", ["last"], "lengths", to=TensorProto.INT32)
        self.node("Shape", ["mask"], "shape")
        self.node("Gather", ["shape", self.constant("axis", np.array(1))], "room")
        self.node("Cast", ["room"], "total", to=TensorProto.INT32)
        self.node("SkipSimplifiedLayerNormalization", ["x", "skip", self.weight("scale", size)],
                  ["normal", "", "", "sum"], "com.microsoft", epsilon=1e-5)
        q, k, v = (self.product(name, "normal", size, count * depth)
                   for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        self.node("GroupQueryAttention", [q, k, v, "past_key", "past_value", "lengths", "total",
                                          self.constant("cos", np.cos(angles)), self.constant("sin", np.sin(angles))],
                  ["attended", "present_key", "present_value"], "com.microsoft", num_heads=heads, kv_num_heads=kv_heads,
                  do_rotary=1)
        out = self.product("out", "attended", heads * depth, size)
        self.node("SkipSimplifiedLayerNormalization", ["sum", out, self.weight("scale2", size)],
                  ["normal2", "", "", "sum2"], "com.microsoft", epsilon=1e-5)
        gate, up = (self.product(name, "normal2", size, inner) for name in ("gate", "up"))
        self.node("Sigmoid", [gate], "sigmoid")
        self.node("Mul", [gate, "sigmoid"], "silu")
        self.node("Mul", ["silu", up], "inner")
        self.node("Add", ["sum2", self.product("down", "inner", inner, size)], "y")
        self.outputs = ["y", "present_key", "present_value"]

    def floats(self, *shape):
        return self.random.uniform(-1, 1, shape).astype(self.kind)

    def constant(self, name, array):
        array = array if array.dtype.kind == "i" else array.astype(self.kind)
        self.held.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name, *shape):
        return self.constant(name, self.random.uniform(-1, 1, shape))

    def node(self, op, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op, inputs, outputs, name=op + outputs[0], domain=domain, **attributes))
        return outputs[0]

    def product(self, name, x, inputs, outputs):
        if self.bits == 0:
            return self.node("MatMul", [x, self.weight(name + "_w", inputs, outputs)], name)
        block = 32
        codes = self.random.integers(0, 256, (outputs, inputs // block, block * self.bits // 8)).astype(np.uint8)
        self.held.append(numpy_helper.from_array(codes, name + "_codes"))
        scales = self.constant(name + "_scales", self.random.uniform(0.3, 0.8, (outputs, inputs // block)) / 2**self.bits)
        return self.node("MatMulNBits", [x, name + "_codes", scales], name, "com.microsoft", K=inputs, N=outputs,
                         bits=self.bits, block_size=block)

    def model(self):
        infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in self.inputs.items()]
        made = [helper.make_tensor_value_info(name, self.type, None) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "layer", infos, made, self.held)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18),
                                                                      helper.make_opsetid("com.microsoft", 1)])


def layers():
    cases = {}
    for kind, bits, (batch, tokens, past) in itertools.product((np.float32, np.float16), (0, 4, 8), (
            (1, 1, 9), (3, 1, 40), (6, 1, 9), (13, 1, 5), (1, 5, 0), (2, 20, 0))):
        name = f"layer {np.dtype(kind).name} bits {bits} batch {batch} tokens {tokens} past {past}"
        layer = Layer(kind, bits, batch, tokens, past)
        cases[name] = driver.Case(name, layer.model().SerializeToString(), layer.inputs, [])
    return cases


def norms_in_float():
    """What exporters of torch write in models of 16 bits: norms and softmax in float32 between casts."""
    cases = {}
    random = np.random.default_rng(5)
    for kind, scaled_wide, divides in itertools.product((np.float16,), (False, True), (False, True)):
        half = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        size = 48
        held = [numpy_helper.from_array(np.array(2, np.float32), "two"), numpy_helper.from_array(np.array(1e-5, np.float32), "small"),
                numpy_helper.from_array(np.array([-1]), "axes"),
                numpy_helper.from_array(random.uniform(-1, 1, size).astype(np.float32 if scaled_wide else kind), "scale"),
                numpy_helper.from_array(random.uniform(-1, 1, (size, 24)).astype(kind), "w")]
        nodes = [helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT), helper.make_node("Pow", ["wide", "two"], ["squares"]),
                 helper.make_node("ReduceMean", ["squares", "axes"], ["mean"], keepdims=1), helper.make_node("Add", ["mean", "small"], ["sum"]),
                 helper.make_node("Sqrt", ["sum"], ["root"])]
        if divides:
            nodes.append(helper.make_node("Div", ["wide", "root"], ["unit"]))
        else:
            nodes += [helper.make_node("Reciprocal", ["root"], ["inverse"]), helper.make_node("Mul", ["wide", "inverse"], ["unit"])]
        if scaled_wide:
            nodes += [helper.make_node("Mul", ["unit", "scale"], ["scaled"]), helper.make_node("Cast", ["scaled"], ["normal"], to=half)]
        else:
            nodes += [helper.make_node("Cast", ["unit"], ["narrow"], to=half), helper.make_node("Mul", ["scale", "narrow"], ["normal"])]
        nodes += [helper.make_node("MatMul", ["normal", "w"], ["z"]), helper.make_node("Cast", ["z"], ["z_wide"], to=TensorProto.FLOAT),
                  helper.make_node("Softmax", ["z_wide"], ["p"], axis=-1), helper.make_node("Cast", ["p"], ["y"], to=half)]
        for rows in (2, 12):
            x = random.uniform(-30, 30, (1, rows, size)).astype(kind)
            graph = helper.make_graph(nodes, "norm", [helper.make_tensor_value_info("x", half, x.shape)],
                                      [helper.make_tensor_value_info("y", half, None)], held)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
            name = f"norm in float of {np.dtype(kind).name}, scaled wide {scaled_wide}, divides {divides}, rows {rows}"
            cases[name] = driver.Case(name, model.SerializeToString(), {"x": x}, [])
    return cases
