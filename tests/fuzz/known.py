"""Differences from the oracles that are meant (docs/reference/operators.md), so that the fuzzer passes them over."""
import numpy as np

from problems import all_nodes

# What a refusal says, with the reason.
REFUSED = {
    "is larger than the padded input": "ONNX Runtime gives an empty output",
}


def refusal(problem, text):
    return any(words in text for words in REFUSED)


def numbers(feed, model):
    from onnx import numpy_helper
    for value in feed.values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield value
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            yield array


JUMPS = {"TopK", "ArgMax", "ArgMin", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Floor", "Ceil", "Round", "Sign", "NonZero", "Cast", "Hardmax",
         "QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "Unique", "Mod", "OneHot", "MaxPool", "ThresholdedRelu", "Shrink", "IsInf"}


def arrays(feed):
    return [value for value in feed.values() if isinstance(value, np.ndarray)]


def halves(problem, model):
    import onnx
    numbers = {tensor.data_type for tensor in model.graph.initializer} | {value.type.tensor_type.elem_type for value in model.graph.input}
    numbers |= {attribute.i for node in all_nodes(model.graph) for attribute in node.attribute if attribute.name in ("to", "dtype")}
    return bool(numbers & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})


def odd_scales(nodes, feed, model):
    """Whether a number of a quantised operator is none, or a scale is not positive."""
    from onnx import numpy_helper
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in nodes:
        if "Quantize" in node.op_type or node.op_type.startswith("Q"):
            for name in node.input[1:]:
                value = feed.get(name, held.get(name))
                if isinstance(value, np.ndarray) and value.dtype.kind == "f" and (special([value]) or value.size == 1 and float(value.reshape(-1)[0]) <= 0):
                    return True
    return False


def y_scale(nodes, feed, model):
    from onnx import numpy_helper
    name = next(node.input[3] for node in nodes if node.op_type == "QLinearSoftmax")
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    value = feed.get(name, held.get(name))
    return 0 if value is None else float(np.asarray(value).reshape(-1)[0])


def floats(values):
    return [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"]


def special(values):
    return any(value.size and not np.all(np.isfinite(value)) for value in values)


# ONNX Runtime loses or keeps a NaN and an infinity in these by where it stands.
SPECIAL = {"ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool", "ArgMax", "ArgMin", "TopK", "Resize", "Upsample", "LRN", "LSTM", "GRU", "RNN", "Conv",
           "ConvTranspose", "Softmax", "LogSoftmax", "Cast", "GridSample", "Unique", "ThresholdedRelu", "Shrink", "Clip", "Hardmax", "RoiAlign", "Einsum",
           "NonMaxSuppression", "QuantizeLinear", "DynamicQuantizeLinear", "Multinomial", "MatMul", "Gemm", "AveragePool", "LpPool", "Attention"}
# Of nothing: the standard keeps no axis of 0 where ONNX Runtime does, or asks for zeros where it writes nothing.
EMPTY = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
         "MatMul", "Gemm", "GlobalAveragePool", "FusedMatMul", "Einsum", "ArgMax", "ArgMin"}


def difference(problem, feed, want, got):
    model = problem.proto()
    nodes = list(all_nodes(model.graph))
    names = {node.op_type for node in nodes}
    if names & SPECIAL and special(numbers(feed, model)):
        return True
    if any("Quantize" in name or name.startswith("Q") for name in names) and odd_scales(nodes, feed, model):
        return True
    if names & EMPTY and (any(isinstance(value, np.ndarray) and value.size == 0 for value in feed.values()) or any(0 in tensor.dims for tensor in model.graph.initializer)):
        return True
    if names & EMPTY and len(nodes) > 1 and any(isinstance(value, np.ndarray) and value.size == 0 for value in (*want, *got)):
        return True
    # Interpolated integers are cut off: the order of the sum decides beside a whole number.
    if names & {"Resize", "Upsample"} and len(want) == 1 and want[0].dtype.kind in "iu" and want[0].shape == got[0].shape:
        gap = np.abs(want[0].astype(np.float64) - got[0].astype(np.float64))
        if gap.max() <= 1 and np.mean(gap > 0) < 0.05:
            return True
    # Whether two floats are the same hangs on the last digit.
    if "Equal" in names and len(nodes) > 1 and any(value.dtype.kind == "f" for value in arrays(feed)):
        return True
    # The same numbers, made on the way.
    if names & SPECIAL | names & {"ReduceMean", "GlobalAveragePool", "BatchNormalization"} and (special(floats(got)) or special(floats(want))):
        return True
    # Integers are summed as float64 and cut off once; ONNX Runtime takes each power as an integer.
    # Values between operators are not rounded to 16 bits, so that a jump may fall elsewhere.
    if len(nodes) > 1 and names & JUMPS and halves(problem, model):
        return True
    # Without iterations ONNX Runtime's scan outputs may lack dimensions.
    if names & {"Loop", "Scan"} and any(isinstance(value, np.ndarray) and value.shape[:1] == (0,) for value in want):
        return True
    # ONNX Runtime's sums of such numbers overflow.
    if "Normalizer" in names and any(value.dtype.kind in "iu" and value.size and np.abs(value.astype(np.float64)).max() > 1e9 for value in arrays(feed)):
        return True
    # ONNX Runtime takes 1 / y_scale for a whole number.
    if "QLinearSoftmax" in names and not 0.003 < y_scale(nodes, feed, model) < 0.005:
        return True
    # The logarithm of 0 is no integer.
    if names & {"ReduceLogSumExp", "ReduceLogSum"} and any(value.dtype.kind in "iu" for value in want if isinstance(value, np.ndarray)):
        return True
    return False
