"""Steps of random_edges.py with graphs inside: If, Loop and Scan; operators of old opsets; and transformations of whole models."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, F64, F16, I64, BOOL = np.float32, np.float64, np.float16, np.int64, np.bool_


def info(name, dtype=F32, dims=None):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)


def small(g, given, last, nodes):
    """One or two elementwise nodes on `given`, the last of which makes `last`."""
    kind = g.pick("neg", "scale", "outer", "chain")
    if kind == "neg":
        nodes.append(helper.make_node(g.pick("Neg", "Abs", "Identity"), [given], [last]))
    elif kind == "scale":
        nodes.append(helper.make_node("Mul", [given, g.constant(np.float32(0.5))], [last]))
    elif kind == "outer":
        nodes.append(helper.make_node("Add", [given, g.constant(np.float32(1))], [last]))
    else:
        middle = g.name()
        nodes.append(helper.make_node("Relu", [given], [middle]))
        nodes.append(helper.make_node("Sub", [middle, given], [last]))


def choice(g, x):
    """If: both branches give x's shape, or one of them drops an axis."""
    condition = g.add_input([], BOOL) if g.chance(0.6) else g.constant(np.array(g.pick(True, False)))
    bodies = []
    for name in ("then", "else"):
        nodes, out = [], g.name("b")
        if g.chance(0.2):
            nodes.append(helper.make_node("Constant", [], [out], value=numpy_helper.from_array(g.array([2]))))
        else:
            small(g, x.name, out, nodes)
        bodies.append(helper.make_graph(nodes, name, [], [info(out)]))
    made = g.node("If", [condition], [g.fresh()] * 9, then_branch=bodies[0], else_branch=bodies[1])
    made.dims = [g.fresh()] * 9  # known in a run only
    g.values.remove(made)
    g.node("Relu", [made], made.dims)


def loop(g, x):
    """Loop: x is carried, and each iteration gives a row of the scan output."""
    # Without iterations ONNX Runtime's scan output may lack dimensions.
    times = g.add_input([], I64) if g.chance(0.5) else g.constant(np.array(g.pick(1, 3), I64))
    i, go, carried = (g.name("b") for _ in range(3))
    on, after, row = (g.name("b") for _ in range(3))
    nodes = [helper.make_node("Identity", [go], [on])]
    if g.chance(0.3):
        limit = g.constant(np.array(g.pick(0, 1, 2), I64))
        nodes = [helper.make_node("Less", [i, limit], [on])]
    small(g, carried, after, nodes)
    nodes.append(helper.make_node("Neg", [g.pick(carried, x.name)], [row]))
    body = helper.make_graph(nodes, "body", [info(i, I64, []), info(go, BOOL, []), info(carried, F32, None)],
                             [info(on, BOOL, []), info(after), info(row)])
    made = g.node("Loop", [times, g.pick("", g.constant(np.array(True))), x], x.dims, outputs=2, body=body)
    if len(x.dims) < 5:
        g.values.append(type(x)(made.others[0], [g.fresh(), *x.dims]))


def scan(g, x):
    """Scan over x's first axis, with a sum that is carried."""
    if not x.dims or x.dims[0] == 0 or not g.fill(x):
        return
    state, part, next_state, row = (g.name("b") for _ in range(4))
    nodes = [helper.make_node("Add", [state, part], [next_state])]
    small(g, next_state, row, nodes)
    body = helper.make_graph(nodes, "body", [info(state), info(part)], [info(next_state), info(row)])
    start = g.node("ReduceSum", [x, g.ints(0)], x.dims[1:], keep=False, keepdims=0) if g.opset >= 13 else None
    if start is not None:
        attributes = {"scan_input_directions": [1]} if g.chance(0.3) else {}
        g.node("Scan", [start, x], x.dims[1:], outputs=2, body=body, num_scan_inputs=1, **attributes)


STEPS = (choice, loop, scan)


# ---- Opsets 7 to 10: what was an attribute then.
def old_step(g, x):
    rank = len(x.dims)
    kind = g.pick("unary", "binary", "clip", "pad", "slice", "squeeze", "softmax", "dropout", "gemm", "conv", "pool", "norm", "reduce", "top",
                  "upsample", "reshape", "transpose", "split", "tile", "prelu", "flatten")
    known = [isinstance(dim, int) and dim > 0 for dim in x.dims]
    if kind == "unary":
        g.node(g.pick("Relu", "Neg", "Sigmoid", "Elu", "LeakyRelu", "Abs"), [x], x.dims)
    elif kind == "binary":
        g.node(g.pick("Add", "Mul", "Sub"), [x, g.floats(*g.like(x))], x.dims)
    elif kind == "clip":
        g.node("Clip", [x], x.dims, **{name: value for name, value in (("min", -0.5), ("max", 1.0)) if g.chance(0.7)})
    elif kind == "pad" and rank:
        pads = [0] * (2 * rank)
        pads[g.random.randrange(2 * rank)] = g.pick(1, 2)
        g.node("Pad", [x], [g.fresh()] * rank, pads=pads, mode="constant", value=g.pick(0.0, 1.5))
    elif kind == "slice" and rank and g.opset < 10:
        g.node("Slice", [x], [*x.dims[:-1], g.fresh()], starts=[g.pick(0, 1, -2)], ends=[g.pick(1, 2, 1000, -1)], axes=[rank - 1])
    elif kind == "squeeze" and rank < 5:
        raised = g.node("Unsqueeze", [x], [*x.dims, 1], keep=g.chance(0.5), axes=[rank])
        g.node("Squeeze", [raised], x.dims, axes=[rank])
    elif kind == "softmax" and rank:
        g.finite = True
        g.node(g.pick("Softmax", "LogSoftmax"), [x], x.dims, axis=g.random.randrange(rank))
    elif kind == "dropout":
        g.node("Dropout", [x], x.dims, ratio=0.25)
    elif kind == "gemm" and rank == 2 and known[1]:
        g.node("Gemm", [x, g.floats(x.dims[1], 3), g.floats(*g.pick([3], [1, 3], [1]))], [x.dims[0], 3])
    elif kind == "conv" and rank == 4 and known[1]:
        g.node("Conv", [x, g.floats(4, x.dims[1], 1, 1, low=-2, high=2)], [x.dims[0], 4, *x.dims[2:]])
    elif kind == "pool" and rank == 4:
        g.keeps_nan, g.finite = False, True
        g.node(g.pick("MaxPool", "AveragePool"), [x], [*x.dims[:2], g.fresh(), g.fresh()], kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    elif kind == "norm" and rank >= 2 and known[1]:
        parameters = [g.floats(x.dims[1]) for _ in range(3)]
        g.node("BatchNormalization", [x, *parameters, g.floats(x.dims[1], low=1)], x.dims)
    elif kind == "reduce" and rank and g.fill(x):
        g.keeps_nan = False
        g.node(g.pick("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"), [x], [*x.dims[:-1], 1], axes=[rank - 1])
    elif kind == "top" and rank and known[-1] and g.opset < 10 and x.exact:
        g.keeps_nan = False
        g.node("TopK", [x], [*x.dims[:-1], 1], outputs=2, axis=rank - 1, k=1)
    elif kind == "upsample" and rank == 4 and all(known) and g.opset < 10:
        g.finite, g.keeps_nan = True, False
        mode, scales = g.pick("nearest", "linear"), [1.0, 1.0, 2.0, g.pick(1.0, 1.5, 3.0)]
        if g.opset < 9:
            g.node("Upsample", [x], [*x.dims[:2], g.fresh(), g.fresh()], mode=mode, scales=scales)
        else:
            g.node("Upsample", [x, g.constant(np.array(scales, F32))], [*x.dims[:2], g.fresh(), g.fresh()], mode=mode)
    elif kind == "reshape" and rank >= 2:
        g.node("Reshape", [x, g.ints(*[0] * (rank - 1), -1)] if all(known) else [x, g.ints(*[0] * rank)], x.dims)
    elif kind == "transpose":
        g.node("Transpose", [x], x.dims[::-1])
    elif kind == "split" and rank and isinstance(x.dims[-1], int) and x.dims[-1] >= 2:
        g.node("Split", [x], [*x.dims[:-1], 1], outputs=2, axis=rank - 1, split=[1, x.dims[-1] - 1])
    elif kind == "tile" and rank:
        g.node("Tile", [x, g.ints(*[g.pick(1, 2) for _ in x.dims])], [g.fresh()] * rank)
    elif kind == "prelu" and rank:
        g.node("PRelu", [x, g.floats(1)], x.dims)
    elif kind == "flatten" and rank:
        g.node("Flatten", [x], [g.fresh(), g.fresh()], axis=g.random.randint(0, rank))


# ---- A whole model.
FLOAT_INPUTS = {"Resize": (1, 2), "Upsample": (1,)}  # float32 whatever the element type is


def retype(model, dtype):
    """The same model in another float type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    kept = {node.input[i] for node in model.graph.node for i in FLOAT_INPUTS.get(node.op_type, ()) if i < len(node.input)}

    def turn(graph):
        for held in graph.initializer:
            if held.data_type == TensorProto.FLOAT and held.name not in kept:
                held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held).astype(dtype), held.name))
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = kind
        for node in graph.node:
            if node.op_type == "EyeLike":
                node.attribute.append(helper.make_attribute("dtype", kind))
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    turn(attribute.g)
                elif attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                    attribute.i = kind
                elif attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == TensorProto.FLOAT:
                    attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(dtype)))
    turn(model.graph)


def dress(g, model, feeds):
    """Turns of phrase that change nothing: an initializer as an input's default, outputs that are inputs or constants,
    inputs that nobody reads."""
    graph = model.graph
    # A number as a tensor of any rank: where it is higher than that of the other operand, so is the result's.
    wide = {name for node in graph.node if node.op_type in ("Add", "Sub", "Mul", "Div", "Pow", "Where", "Max", "Min") for name in node.input}
    narrow = {name for node in graph.node if node.op_type not in ("Add", "Sub", "Mul", "Div", "Pow", "Where", "Max", "Min") for name in node.input}
    for held in graph.initializer:
        if held.name in wide - narrow and np.prod(held.dims, dtype=int) == 1 and g.chance(0.15):
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held).reshape([1] * g.random.randint(0, 6)), held.name))
    if g.chance(0.2) and graph.initializer:
        held = g.pick(*graph.initializer)
        graph.input.append(helper.make_tensor_value_info(held.name, held.data_type, list(held.dims)))
    if g.chance(0.1) and graph.initializer:
        held = g.pick(*graph.initializer)
        graph.output.append(helper.make_tensor_value_info(held.name, held.data_type, list(held.dims)))
    if g.chance(0.1):
        graph.output.append(helper.make_tensor_value_info(graph.input[0].name, graph.input[0].type.tensor_type.elem_type, None))
    if g.chance(0.1):
        graph.input.append(helper.make_tensor_value_info("unused", TensorProto.FLOAT, ["M", 2]))
        for feed in feeds:
            feed["unused"] = g.array([g.pick(0, 3), 2])
