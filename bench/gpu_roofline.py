"""Computes a lower bound of a model's time on a device: floating point operations and bytes of each product in its graph.

Counted are convolutions and matrix products, which are nearly all of the operations: two for each multiplication and
addition. The bytes of one are its weights, inputs and outputs, once; operators between two products count as fused into
one of them. A product takes at least the longer of its operations at the
device's peak and its bytes at the device's bandwidth, and a run at least the sum of those. Weights and activations that
a cache of the device keeps can be faster than that.
"""

import math

import onnx
from onnx import shape_inference

BYTES = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.FLOAT16: 2, onnx.TensorProto.BFLOAT16: 2,
         onnx.TensorProto.INT64: 8, onnx.TensorProto.UINT8: 1}


def attributes_of(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def few_bits(node, shapes, types):
    has = attributes_of(node)
    rows = math.prod(shapes[node.input[0]][:-1]) if shapes.get(node.input[0]) else 1
    weights = sum(math.prod(shapes[name]) * BYTES[types[name]] for name in node.input[1:] if name)
    return 2 * rows * has["K"] * has["N"], weights


def over_caches(node, shapes, types):
    has, past = attributes_of(node), shapes[node.input[3]]
    read = 2 * math.prod(past) * BYTES[types[node.input[3]]]
    return 4 * math.prod(past) * has["num_heads"] // has["kv_num_heads"], read


# Those of ONNX Runtime's own: (operations, bytes). The caches and weights alone are counted.
OWN = {"MatMulNBits": few_bits, "GroupQueryAttention": over_caches}


def products(path):
    """(operations, bytes) of each convolution and matrix product of the model, in order."""
    loaded = onnx.load(str(path))
    model = shape_inference.infer_shapes(loaded, strict_mode=not any(n.op_type in OWN for n in loaded.graph.node),
                                         data_prop=True)
    shapes, types = {}, {}
    for tensor in model.graph.initializer:
        shapes[tensor.name], types[tensor.name] = list(tensor.dims), tensor.data_type
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        kind = value.type.tensor_type
        shapes[value.name] = [dim.dim_value for dim in kind.shape.dim]
        types[value.name] = kind.elem_type
    found = []
    for node in model.graph.node:
        if node.op_type in OWN:
            found.append(OWN[node.op_type](node, shapes, types))
            continue
        if node.op_type not in ("Conv", "MatMul", "Gemm"):
            continue
        if node.op_type == "MatMul" and not (shapes.get(node.output[0]) and shapes.get(node.input[0])):
            # Behind an operator whose shapes onnx does not know: the weights alone.
            weights = math.prod(shapes[node.input[1]])
            found.append((2 * weights, weights * BYTES[types[node.input[1]]]))
            continue
        out = math.prod(shapes[node.output[0]])
        if node.op_type == "Conv":
            depth = math.prod(shapes[node.input[1]][1:])
        elif node.op_type == "MatMul":
            depth = shapes[node.input[0]][-1]
        else:
            turned = any(a.name == "transA" and a.i for a in node.attribute)
            depth = shapes[node.input[0]][0 if turned else 1]
        names = [name for name in [*node.input, *node.output] if name]
        found.append((2 * out * depth, sum(math.prod(shapes[name]) * BYTES[types[name]] for name in names)))
    return found


def limit_us(found, flops_a_second, bytes_a_second):
    return sum(max(flops / flops_a_second, size / bytes_a_second) for flops, size in found) * 1e6
