"""An example or more of every ONNX operator that Tenon claims, for rows_test.py.

example(OPERATOR, INPUTS, v=(FIRST, LAST), low=, high=, outputs=, pairs=, where=, **ATTRIBUTES). An input is
- a tuple: a tensor of that shape with random values between low and high, of whatever type the schema gives it,
- an array or a list: those values, cast to the type that the schema gives,
- optional(INPUT): left out in some of the models,
- None: absent.
`v` are the versions (since_version) that the example is for. An attribute may be a function of the types, {name of the
constraint: ONNX's number}.
"""
import dataclasses

import ml_dtypes
import numpy as np
import onnx


def is_float(dtype):
    return np.dtype(dtype).kind == "f" or np.dtype(dtype) == ml_dtypes.bfloat16


def type_bits(dtype):
    """Of one element: also of the types that share a byte."""
    packed = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
    return packed.get(str(dtype), dtype.itemsize * 8)


EXAMPLES = {}  # operator -> [Example]
ANY = 1 << 20


@dataclasses.dataclass
class Example:
    operator: str
    inputs: list
    attributes: dict
    versions: tuple
    low: float
    high: float
    outputs: int
    pairs: bool  # every pair of types, not each type beside the others' first choice
    where: object  # which types fit together, a function of {name of the constraint: numpy's type}; None: all


@dataclasses.dataclass
class optional:
    value: object


def example(operator, inputs, v=(1, ANY), low=-4.0, high=4.0, outputs=1, pairs=False, where=None, **attributes):
    EXAMPLES.setdefault(operator, []).append(Example(operator, inputs, attributes, v, low, high, outputs, pairs, where))


IMAGE, ROW, VECTOR = (2, 9, 3, 4), (3, 1, 7), (5,)

# --- one tensor, element by element
for name, low, high in (
        ("Abs", -4, 4), ("Acos", -1, 1), ("Acosh", 1, 4), ("Asin", -1, 1), ("Asinh", -4, 4), ("Atan", -4, 4), ("Atanh", -0.75, 0.75),
        ("BitwiseNot", 0, 9), ("Ceil", -4, 4), ("Celu", -4, 4), ("Cos", -4, 4), ("Cosh", -2, 2), ("Elu", -4, 4), ("Erf", -2, 2), ("Exp", -2, 2),
        ("Floor", -4, 4), ("HardSigmoid", -4, 4), ("HardSwish", -4, 4), ("Identity", -4, 4), ("IsInf", -4, 4), ("IsNaN", -4, 4), ("LeakyRelu", -4, 4),
        ("Log", 0.5, 4), ("Mish", -4, 4), ("Neg", -4, 4), ("Not", 0, 1), ("Reciprocal", 0.5, 4), ("Relu", -4, 4), ("Round", -4, 4), ("Selu", -4, 4),
        ("Shrink", -4, 4), ("Sigmoid", -4, 4), ("Sign", -4, 4), ("Sin", -4, 4), ("Sinh", -2, 2), ("Softplus", -4, 4), ("Softsign", -4, 4),
        ("Sqrt", 0, 4), ("Tan", -1, 1), ("Tanh", -2, 2), ("ThresholdedRelu", -4, 4), ("Gelu", -4, 4), ("Swish", -4, 4)):
    example(name, [IMAGE], low=low, high=high)
example("Celu", [IMAGE], alpha=0.5)
example("Elu", [IMAGE], alpha=0.5)
example("Gelu", [IMAGE], approximate="tanh")
example("HardSigmoid", [IMAGE], alpha=0.25, beta=0.25)
example("LeakyRelu", [IMAGE], alpha=0.25)
example("Shrink", [IMAGE], lambd=1.5, bias=0.5)
example("Swish", [IMAGE], alpha=0.5)
example("ThresholdedRelu", [IMAGE], alpha=0.5)
example("Clip", [IMAGE], v=(6, 10), min=-1.0, max=2.0)
example("Clip", [IMAGE, optional(np.array(1)), optional(np.array(2))], v=(11, ANY))

# --- several tensors, element by element
for name in ("Add", "Sub", "Mul", "Div"):
    for a, b in ((IMAGE, IMAGE), (IMAGE, (9, 1, 1)), ((), IMAGE), (ROW, (2, 1)), ((2, 9, 1, 1), IMAGE)):
        example(name, [a, b], low=1)
for name in ("Max", "Min", "Sum", "Mean"):
    example(name, [IMAGE])
    example(name, [IMAGE, IMAGE])
    example(name, [IMAGE, (9, 1, 1), ()], v=(8, ANY))
for name in ("And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    example(name, [IMAGE, (9, 1, 4)], low=0, high=3)
example("BitShift", [IMAGE, (9, 1, 4)], low=0, high=3, direction="LEFT")
example("BitShift", [IMAGE, (9, 1, 4)], low=0, high=3, direction="RIGHT")
example("Mod", [IMAGE, (9, 1, 4)], low=1, high=5, fmod=1)
example("Pow", [IMAGE, (9, 1, 4)], low=0.5, high=3)
example("PRelu", [IMAGE, (9, 1, 1)])
example("PRelu", [IMAGE, IMAGE])
example("Where", [IMAGE, (9, 1, 4), (3, 1)], low=0, high=3)
example("Where", [(), IMAGE, IMAGE], low=0, high=3)

# --- reductions
for name in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"):
    last = 12 if name == "ReduceSum" else 17
    for axes in ([-1], [2, 3], [0, 2], [1]):
        example(name, [(2, 9, 3, 2)], v=(1, last), low=1, high=2, axes=axes, keepdims=len(axes) - 1)
        example(name, [(2, 9, 3, 2), axes], v=(last + 1, ANY), low=1, high=2, keepdims=len(axes) - 1)
    example(name, [(2, 3, 2)], v=(1, last), low=1, high=2)
    example(name, [(2, 3, 2)], v=(last + 1, ANY), low=1, high=2)
    example(name, [(2, 3, 2), []], v=(last + 1, ANY), low=1, high=2, noop_with_empty_axes=1)
for name in ("ArgMax", "ArgMin"):
    for axis in (-1, 1):
        example(name, [IMAGE], axis=axis)
    example(name, [IMAGE], v=(12, ANY), axis=2, keepdims=0, select_last_index=1)
for name in ("Softmax", "LogSoftmax", "Hardmax"):
    for axis in (-1, 1, 2):
        example(name, [IMAGE], axis=axis)
for name in ("CumSum", "CumProd"):
    for axis in (-1, 1):
        example(name, [(2, 3, 4), np.array(axis)], low=1, high=2, exclusive=axis == 1, reverse=axis == -1)
for kind in (1, 2):
    example("LpNormalization", [IMAGE], axis=1, p=kind)
    example("GlobalLpPool", [IMAGE], p=kind, v=(2, ANY))
for inputs in ([(4, 9), np.array([3])], [(2, 5, 4), np.array([2])]):
    example("TopK", inputs, v=(10, ANY), outputs=2, axis=-1)
example("TopK", [IMAGE], v=(1, 9), outputs=2, axis=1, k=4)
example("TopK", [IMAGE, np.array([4])], v=(11, ANY), outputs=2, axis=1, largest=0)
example("NonZero", [(3, 4)], low=0, high=1)

# --- convolution and pooling
for text in ("x", "pads", "stride", "dilation", "same"):
    attributes = {"x": {}, "pads": {"pads": [1, 0, 2, 1]}, "stride": {"strides": [2, 1]}, "dilation": {"dilations": [2, 1]}, "same": {"auto_pad": "SAME_UPPER"}}[text]
    example("Conv", [(2, 9, 6, 5), (8, 9, 3, 2), optional((8,))], **attributes)
    example("ConvTranspose", [(2, 9, 4, 5), (9, 8, 3, 2), optional((8,))], **attributes)
example("Conv", [(1, 16, 16, 16), (16, 16, 3, 3), optional((16,))], pads=[1, 1, 1, 1])
example("Conv", [(2, 3, 7, 7), (8, 3, 3, 3), optional((8,))], strides=[2, 2])
example("Conv", [(2, 12, 6, 5), (12, 1, 3, 3), optional((12,))], group=12, pads=[1, 1, 1, 1])
example("Conv", [(1, 12, 6, 5), (6, 4, 3, 3), optional((6,))], group=3)
example("Conv", [(1, 16, 6, 5), (16, 8, 1, 1), optional((16,))], group=2)
example("Conv", [(2, 9, 7), (8, 9, 3), optional((8,))], pads=[1, 2])
example("Conv", [(1, 16, 40), (16, 16, 3), optional((16,))])
example("Conv", [(1, 3, 4, 5, 4), (5, 3, 2, 3, 2), optional((5,))], strides=[1, 2, 1])
example("ConvTranspose", [(1, 8, 4, 5), (8, 2, 2, 2), optional((2,))], strides=[2, 2])
example("ConvTranspose", [(1, 6, 4, 5), (6, 2, 3, 3), optional((6,))], group=3, strides=[2, 1], output_padding=[1, 0])
example("ConvTranspose", [(1, 6, 7), (6, 3, 3), optional((3,))], strides=[2], dilations=[2])
example("ConvTranspose", [(1, 3, 3, 2, 3), (3, 2, 2, 2, 2), optional((2,))])
for name in ("MaxPool", "AveragePool", "LpPool"):
    since = 2 if name == "LpPool" else 1
    example(name, [(2, 9, 6, 5)], v=(since, ANY), kernel_shape=[3, 2])
    example(name, [(2, 9, 6, 5)], v=(since, ANY), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    example(name, [(2, 9, 6, 5)], v=(since, ANY), kernel_shape=[3, 2], auto_pad="SAME_LOWER")
    example(name, [(2, 9, 7)], v=(since, ANY), kernel_shape=[3], strides=[2])
    example(name, [(1, 3, 4, 5, 4)], v=(since, ANY), kernel_shape=[2, 3, 2])
example("MaxPool", [(2, 9, 6, 5)], v=(8, ANY), kernel_shape=[3, 2], outputs=2)
example("MaxPool", [(2, 9, 6, 5)], v=(10, ANY), kernel_shape=[2, 2], dilations=[2, 1], strides=[2, 2], ceil_mode=1)
example("AveragePool", [(2, 9, 6, 5)], v=(19, ANY), kernel_shape=[2, 2], dilations=[2, 1])
example("AveragePool", [(2, 9, 6, 5)], v=(7, ANY), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
for name in ("GlobalAveragePool", "GlobalMaxPool"):
    example(name, [IMAGE])
    example(name, [(2, 9, 5)])
example("LRN", [IMAGE], size=3, alpha=0.5)
for rank in (3, 4):
    for mode in ("nearest", "linear"):
        numbers = (lambda types: all(dtype != np.bool_ for dtype in types.values())) if mode == "linear" else None
        values = np.array([1, 1, 2, 1.5, 1][:rank], np.float32)
        example("Resize", [(2, 9, 3, 4)[:rank], values], v=(10, 10), low=0, where=numbers, mode=mode)
        example("Resize", [(2, 9, 3, 4)[:rank], np.zeros(0, np.float32), values], v=(11, 12), low=0, where=numbers, mode=mode)
        example("Resize", [(2, 9, 3, 4)[:rank], None, values], v=(13, ANY), low=0, where=numbers, mode=mode)
        example("Upsample", [(2, 9, 3, 4)[:rank], np.array([1, 1, 2, 2][:rank], np.float32)], v=(9, 9), low=0, where=numbers, mode=mode)
        example("Upsample", [(2, 9, 3, 4)[:rank]], v=(7, 7), low=0, where=numbers, mode=mode, scales=[1.0, 1.0, 2.0, 2.0][:rank])
example("Resize", [(2, 9, 3, 4), None, None, np.array([2, 9, 6, 8])], v=(13, ANY), low=0, mode="nearest")
example("Resize", [(1, 2, 3, 4), None, None, np.array([1, 2, 5, 7])], v=(13, ANY), low=0, where=numbers, mode="cubic")

# --- norms
example("BatchNormalization", [IMAGE, (9,), (9,), (9,), (9,)], low=0.5, high=2)
example("BatchNormalization", [(2, 9, 5), (9,), (9,), (9,), (9,)], low=0.5, high=2)
example("InstanceNormalization", [IMAGE, (9,), (9,)])
example("LayerNormalization", [(2, 3, 8), (8,), optional((8,))])
example("LayerNormalization", [(2, 9, 3, 4), (3, 4), optional((3, 4))], axis=2)
example("LayerNormalization", [(2, 3, 8), (8,), (8,)], outputs=3)
example("RMSNormalization", [(2, 3, 8), (8,)])
example("GroupNormalization", [(2, 6, 3, 4), (6,), (6,)], v=(21, ANY), num_groups=3)

# --- attention and states
example("Attention", [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), optional((5, 7))], low=-1, high=1)
example("Attention", [(2, 5, 16), (2, 5, 8), (2, 5, 8)], low=-1, high=1, q_num_heads=4, kv_num_heads=2, is_causal=1, softcap=2.0)
example("Attention", [(2, 2, 3, 8), (2, 2, 3, 8), (2, 2, 3, 8), None, (2, 2, 4, 8), (2, 2, 4, 8)], low=-1, high=1, outputs=3)
example("RotaryEmbedding", [(2, 3, 5, 8), (9, 4), (9, 4), np.array([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])], low=-1, high=1)
example("RotaryEmbedding", [(2, 5, 24), (2, 5, 2), (2, 5, 2)], low=-1, high=1, num_heads=3, rotary_embedding_dim=4, interleaved=1)
example("TensorScatter", [(2, 6, 3), (2, 2, 3), optional(np.array([1, 3]))], axis=1)
example("TensorScatter", [(2, 6, 3), (2, 2, 3), np.array([5, 3])], axis=1, mode="circular")
example("CausalConvWithState", [(2, 3, 7), (3, 1, 4), optional((3,)), optional((2, 3, 3))], outputs=2, low=-1, high=1)
example("CausalConvWithState", [(2, 3, 2), (3, 1, 4)], outputs=2, low=-1, high=1, activation="silu")
example("LinearAttention", [(2, 5, 16), (2, 5, 8), (2, 5, 6), None, (2, 5, 8), (2, 5, 2)], outputs=2, low=-1, high=0.5, q_num_heads=4, kv_num_heads=2,
        where=lambda types: types.get("S", types["T"]) == types["T"])
example("LinearAttention", [(2, 5, 8), (2, 5, 8), (2, 5, 6), optional((2, 2, 4, 3))], outputs=2, low=-1, high=1, q_num_heads=2, kv_num_heads=2, update_rule="linear",
        where=lambda types: types.get("S", types["T"]) == types["T"])
example("SwiGLU", [(2, 3, 7), (2, 3, 7)], alpha=0.5)

# --- products and recurrences
example("MatMul", [(3, 4), (4, 5)])
example("MatMul", [(2, 1, 3, 4), (5, 4, 2)])
example("MatMul", [(4,), (4, 5)])
example("MatMul", [(2, 3, 4), (4,)])
for trans in (0, 1):
    example("Gemm", [(4, 3) if trans else (3, 4), (5, 4) if trans else (4, 5), (5,)], v=(7, 10), transA=trans, transB=trans)
    for c in ((5,), (3, 5), (3, 1), ()):
        example("Gemm", [(4, 3) if trans else (3, 4), (5, 4) if trans else (4, 5), optional(c)], v=(11, ANY), transA=trans, transB=trans, alpha=0.5, beta=2.0)
for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    for direction in ("forward", "reverse", "bidirectional"):
        d = 2 if direction == "bidirectional" else 1
        inputs = [(4, 2, 3), (d, gates * 5, 3), (d, gates * 5, 5), optional((d, 2 * gates * 5)), optional(np.array([4, 2])), optional((d, 2, 5))]
        if name == "LSTM":
            inputs += [optional((d, 2, 5)), optional((d, 15))]
        example(name, inputs, v=(7, ANY), low=-0.5, high=0.5, outputs=3 if name == "LSTM" else 2, hidden_size=5, direction=direction)
example("LSTM", [(4, 2, 3), (1, 20, 3), (1, 20, 5)], low=-0.5, high=0.5, hidden_size=5, activations=["sigmoid", "tanh", "hardsigmoid"])
example("GRU", [(4, 2, 3), (1, 15, 3), (1, 15, 5)], low=-0.5, high=0.5, hidden_size=5, linear_before_reset=1)

# --- data movement
example("Cast", [(2, 3)], low=0, high=3, pairs=True, to=lambda types: types["T2"])
example("CastLike", [(2, 3), (1,)], low=0, high=3, pairs=True)
example("BitCast", [(2, 8)], low=1, high=3, pairs=True, where=lambda types: type_bits(types["T1"]) == type_bits(types["T2"]), to=lambda types: types["T2"])
example("Concat", [IMAGE, (2, 8, 3, 4)], axis=1)
example("Concat", [(2, 8, 3, 4), (2, 8, 3, 4), (2, 3, 3, 4)], axis=1)
example("Concat", [(2, 3), (2, 3)], axis=-1, v=(11, ANY))
example("Compress", [(3, 4), np.array([True, False, True])], axis=0)
example("ConstantOfShape", [np.array([2, 3])], where=lambda types: types["T2"] == np.float32)
example("ConstantOfShape", [np.array([2, 3])], value=lambda types: onnx.helper.make_tensor("v", types["T2"], [1], [1]))
example("DepthToSpace", [(2, 8, 3, 4)], blocksize=2)
example("SpaceToDepth", [(2, 3, 4, 6)], blocksize=2)
example("Dropout", [IMAGE], v=(7, ANY))
example("Expand", [(3, 1), np.array([2, 3, 4])])
example("EyeLike", [(3, 4)], pairs=True, where=lambda types: types["T1"] == types["T2"], k=1)
example("EyeLike", [(3, 4)], dtype=lambda types: types["T2"])
example("Flatten", [IMAGE], axis=2)
for indices in (np.array([0, 2]), np.array(1), np.array([[0, 1], [2, 0]])):
    example("Gather", [(3, 4), indices], axis=0)
    example("Gather", [(2, 3), indices], axis=1)
example("GatherElements", [(3, 3), np.array([[0, 2, 1], [1, 1, 0]])], axis=1)
example("GatherND", [(3, 4, 2), np.array([[0, 1], [2, 3]])])
example("OneHot", [np.array([0, 2, -1]), np.array(4), np.array([2, 5])], low=0, high=3)
example("Pad", [(2, 9, 3, 4)], v=(2, 10), pads=[0, 0, 1, 2, 0, 1, 0, 1], value=2.0)
example("Pad", [(2, 3, 4), np.array([0, 1, 2, 1, 0, 1]), optional(np.array(2))], v=(11, ANY), mode="constant",
        where=lambda types: types["T"].name != "float8_e8m0fnu")  # it has no zero to pad with
example("Pad", [(2, 3, 4), np.array([1, 2, 1, 0]), None, np.array([1, 2])], v=(18, ANY), mode="edge")
for mode in ("reflect", "edge"):
    example("Pad", [(2, 3, 4), np.array([0, 1, 2, 1, 0, 1])], v=(11, ANY), mode=mode)
example("Range", [np.array(1), np.array(9), np.array(2)])
example("Range", [np.array(100), np.array(-60), np.array(-3)], where=lambda types: types["T"].kind != "u")
example("Reshape", [IMAGE, np.array([2, -1, 4])], v=(5, ANY))
example("ReverseSequence", [(4, 3, 2), np.array([1, 4, 2])], time_axis=0, batch_axis=1)
for name, last in (("Scatter", 10), ("ScatterElements", ANY)):
    example(name, [(3, 3), np.array([[1, 0, 2]]), (1, 3)], v=(1, last), axis=0)
for kind in ("add", "mul"):
    example("ScatterElements", [(3, 3), np.array([[1, 0, 2]]), (1, 3)], v=(16, ANY), low=0, axis=0, reduction=kind)
    example("ScatterND", [(4, 3), np.array([[1], [3]]), (2, 3)], v=(16, ANY), low=0, reduction=kind)
for kind in ("min", "max"):
    example("ScatterElements", [(3, 3), np.array([[1, 0, 2]]), (1, 3)], v=(18, ANY), low=0, axis=0, reduction=kind)
    example("ScatterND", [(4, 3), np.array([[1], [3]]), (2, 3)], v=(18, ANY), low=0, reduction=kind)
example("ScatterND", [(4, 3), np.array([[1], [3]]), (2, 3)])
example("Shape", [IMAGE])
example("Size", [IMAGE])
example("Slice", [IMAGE], v=(1, 9), starts=[1, 0], ends=[9, 2], axes=[1, 3])
example("Slice", [IMAGE, np.array([1, 3]), np.array([9, -9]), optional(np.array([1, 3])), optional(np.array([2, -2]))], v=(10, ANY))
example("Slice", [IMAGE, np.array([1]), np.array([2]), np.array([0])], v=(10, ANY))
example("Split", [IMAGE], v=(2, 12), outputs=2, axis=1, split=[8, 1])
example("Split", [IMAGE, optional(np.array([2, 2]))], v=(13, 17), outputs=2, axis=3)
example("Split", [IMAGE, np.array([8, 1])], v=(13, ANY), outputs=2, axis=1)
example("Split", [IMAGE], v=(18, ANY), outputs=3, axis=1, num_outputs=3)
for name, shape in (("Squeeze", (2, 1, 3, 1)), ("Unsqueeze", (2, 3))):
    example(name, [shape], v=(1, 12), axes=[1, 3])
    example(name, [shape, np.array([1, 3])], v=(13, ANY))
example("Squeeze", [(2, 1, 3, 1)], v=(13, ANY))
example("Tile", [(2, 3), np.array([2, 3])], v=(6, ANY))
example("Transpose", [IMAGE], perm=[0, 2, 3, 1])
example("Transpose", [(2, 3)])
example("Trilu", [(2, 4, 4), optional(np.array(1))], upper=0)

# --- quantised numbers
# (scales are whole, because their type may be int32; those of products make no ties)


def numpys(types):
    """numpy itself has the types, or they are bfloat16."""
    return all(dtype.name in ("bfloat16", "float16", "float32", "int8", "uint8", "int16", "uint16", "int32") for dtype in types.values())


example("QuantizeLinear", [IMAGE, np.array(2.0), np.array(3)], pairs=True, where=numpys)
example("QuantizeLinear", [IMAGE, [2.0, 1.0, 4.0], [3, 1, 0]], v=(13, ANY), axis=2, where=numpys)
example("QuantizeLinear", [(2, 6), [[2.0, 1.0], [4.0, 2.0]], [[3, 1], [0, 5]]], v=(21, ANY), axis=1, block_size=3, where=numpys)
example("DequantizeLinear", [IMAGE, np.array(0.5)], v=(10, 21), low=0, high=9, where=numpys)
example("DequantizeLinear", [IMAGE, [0.5, 0.25, 1.0], [0, 0, 0]], v=(13, 21), low=0, high=9, axis=2, where=numpys)
example("DequantizeLinear", [(2, 6), [[0.5, 0.25], [1.0, 2.0]]], v=(21, 21), low=0, high=9, axis=1, block_size=3, where=numpys)
example("DequantizeLinear", [IMAGE, [0.5, 0.25, 1.0]], v=(23, ANY), low=0, high=9, axis=2, output_dtype=lambda types: types["T3"], where=numpys)
example("DynamicQuantizeLinear", [IMAGE], outputs=3)
example("MatMulInteger", [(2, 5, 7), (7, 3), optional(np.array(3)), optional([1, 2, 0])], low=-9, high=9, pairs=True)
example("QLinearMatMul", [(5, 7), np.array(0.5), np.array(3), (7, 4), np.array(0.25), np.array(2), np.array(1.0101), np.array(1)], low=-9, high=9,
        pairs=True, where=numpys)
example("ConvInteger", [(1, 2, 5, 4), (3, 2, 3, 3), optional(np.array(3)), optional(np.array(2))], low=-9, high=9, pairs=True, pads=[1, 1, 1, 1])
example("QLinearConv", [(1, 2, 5, 4), np.array(0.5), np.array(3), (3, 2, 3, 3), [0.25, 0.5, 1.0], [2, 2, 2], np.array(1.0101), np.array(1),
                        optional([1, -2, 3])], low=-9, high=9, pairs=True, pads=[1, 1, 1, 1])

# --- einsum, signals, positions, boxes
example("Einsum", [(3, 4), (4, 5)], equation="ij,jk->ik")
example("Einsum", [(2, 3, 4), (2, 4, 5)], equation="bij, bjk -> bik")
example("Einsum", [(2, 3, 4, 5), (2, 6, 4, 5)], low=-2, high=2, equation="bqhd,bkhd->bhqk")
example("Einsum", [(2, 3, 4), (5, 4, 3)], low=-2, high=2, equation="bij,kji->kb")
example("Einsum", [(3, 3)], equation="ii->i")
example("Einsum", [(3, 4), (4,), (3, 4)], low=-2, high=2, equation="ij,j,ij")
example("Einsum", [(2, 1, 3), (4, 3)], equation="...i,...i->...")
for shape in ((2, 8, 1), (2, 9, 2), (3, 7, 2, 1)):
    example("DFT", [shape, optional(np.array(6))], v=(17, 19), axis=1, onesided=int(shape[-1] == 1))
    example("DFT", [shape, optional(np.array(10)), optional(np.array(1))], v=(20, ANY))
example("DFT", [(2, 9, 2)], v=(17, 19), axis=1, inverse=1)
example("STFT", [(2, 20, 1), np.array(4), (8,)], low=0.25)
example("STFT", [(1, 20, 1), np.array(3), None, np.array(7)])
example("STFT", [(2, 20, 2), np.array(5), optional((8,)), np.array(8)], low=0.25, onesided=0)
for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    for periodic in (0, 1):
        example(name, [np.array(10)], where=lambda types: is_float(types["T2"]), periodic=periodic, output_datatype=lambda types: types["T2"])
example("MelWeightMatrix", [np.array(8), np.array(64), np.array(8192), np.array(0), np.array(4096)], output_datatype=lambda types: types["T3"])
for mode in ("nearest", "linear", "cubic"):
    whole = None if mode == "nearest" else lambda types: is_float(types["T1"])
    for padding in ("zeros", "border", "reflection"):
        corners = int(padding == "border")
        older = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        example("GridSample", [(2, 3, 4, 5), (2, 3, 2, 2)], v=(16, 19), low=-1.4, high=1.4, where=whole, mode=older, padding_mode=padding, align_corners=corners)
        example("GridSample", [(2, 3, 4, 5), (2, 3, 2, 2)], v=(20, ANY), low=-1.4, high=1.4, where=whole, mode=mode, padding_mode=padding, align_corners=corners)
example("GridSample", [(1, 2, 3, 4, 5), (1, 2, 3, 2, 3)], v=(20, ANY), low=-1.4, high=1.4, where=lambda types: is_float(types["T1"]), mode="linear")
for corners in (0, 1):
    example("AffineGrid", [(2, 2, 3), np.array([2, 1, 3, 4])], align_corners=corners)
    example("AffineGrid", [(1, 3, 4), np.array([1, 1, 2, 3, 4])], align_corners=corners)
for mode in ("avg", "max"):
    for ratio in (0, 2):
        example("RoiAlign", [(2, 3, 9, 8), np.array([[0, 0, 7, 8], [1.5, 2, 6, 3], [4, 4, 3, 3]]), np.array([0, 1, 1])], mode=mode, sampling_ratio=ratio,
                output_height=3, output_width=2, spatial_scale=0.75)
example("RoiAlign", [(2, 3, 9, 8), np.array([[0, 0, 7, 8], [1.5, 2, 6, 3]]), np.array([0, 1])], v=(16, ANY), coordinate_transformation_mode="output_half_pixel", output_height=2)
example("MaxRoiPool", [(2, 3, 9, 8), np.array([[0, 0, 0, 7, 8], [1, 2, 3, 6, 4], [1, 6, 6, 30, 40]])], pooled_shape=[3, 2])
example("MaxRoiPool", [(2, 3, 9, 8), np.array([[0, 0, 0, 7, 8], [1, 2, 3, 6, 4]])], pooled_shape=[2, 2], spatial_scale=0.5)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, 10, 1, 11], [1, 1, 0, 0.25], [0, 10.5, 1, 11.5], [0, 100, 1, 101]]])
for form in (0, 1):
    example("NonMaxSuppression", [BOXES, (1, 2, 6), np.array([3]), optional(np.array([0.5])), optional(np.array([-1.0]))], center_point_box=form)
example("NonMaxSuppression", [BOXES, (1, 2, 6), optional(np.array([2]))])
example("Col2Im", [(2, 12, 6), np.array([4, 5]), np.array([2, 3])], strides=[1, 2], pads=[0, 0, 0, 1], where=lambda types: types["T"].kind not in "bc")
for columns, image, block, pads in (((2, 6, 40), (40,), (3,), (1, 1)), ((1, 18, 360), (20, 18), (3, 3), (1,) * 4), ((1, 8, 96), (3, 4, 17), (2, 2, 2), (0,) * 6)):
    example("Col2Im", [columns, np.array(image), np.array(block)], pads=list(pads), where=lambda types: types["T"].kind == "f")
example("MaxUnpool", [(1, 2, 2, 2), np.array([[[[5, 7], [13, 15]], [[21, 23], [29, 31]]]])], kernel_shape=[2, 2], strides=[2, 2])
for sizes in ([3, 5], [6, 2]):
    example("CenterCropPad", [(4, 4), np.array(sizes)])
example("CenterCropPad", [(2, 4, 3), np.array([7, 2])], axes=[1, -1])
for groups in (1, 2):
    example("DeformConv", [(2, 4, 5, 6), (4, 4 // groups, 3, 2), (2, 12 * groups, 4, 5), optional((4,)), optional((2, 6 * groups, 4, 5))], low=-1, high=1,
            group=groups, offset_group=groups, pads=[1, 0, 0, 0])
example("Det", [(2, 3, 3)])
example("MeanVarianceNormalization", [IMAGE])
example("MeanVarianceNormalization", [ROW], axes=[0, -1])
for order in (0, 1):
    example("Unique", [(4, 5)], low=-2, high=2, outputs=4, sorted=order, where=lambda types: types["T"].kind not in "bc")
    example("Unique", [(700,)], low=-300, high=300, outputs=4, sorted=order, where=lambda types: types["T"].kind not in "bc")
    example("Unique", [(5, 2)], low=0, high=1, outputs=4, sorted=order, axis=0, where=lambda types: types["T"].kind not in "bc")
TARGETS = np.array([[0, 2, 1], [1, 1, 0]])
for reduction in ("none", "sum", "mean"):
    example("NegativeLogLikelihoodLoss", [(2, 3, 3), TARGETS, optional((3,))], low=0.25, reduction=reduction)
    example("SoftmaxCrossEntropyLoss", [(2, 3, 3), TARGETS, optional((3,))], low=0.25, outputs=2, reduction=reduction)
example("NegativeLogLikelihoodLoss", [(2, 3, 3), TARGETS, (3,)], low=0.25, ignore_index=1)
example("SoftmaxCrossEntropyLoss", [(2, 3, 3), TARGETS], outputs=1, ignore_index=1)
