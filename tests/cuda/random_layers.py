"""Random cases of products, convolutions, norms and other layers with weights or windows."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from random_maker import BOOL, F16, F32, F64, I32, I64, I8, U8


def products(m):
    for a, b in (([3, 5], [5, 4]), ([2, 3, 5], [5, 4]), ([2, 1, 3, 5], [4, 5, 7]), ([5], [5]), ([5], [3, 5, 2]), ([4, 5], [5]),
                 ([1, 1], [1, 1]), ([33, 17], [17, 65]), ([0, 5], [5, 4]), ([3, 0], [0, 4]), ([2, 0, 5], [5, 3])):
        for dtype in (F32, F16):
            m.one("MatMul", {"a": m.array(a, dtype), "b": m.array(b, dtype)})
            m.one("MatMul", {"a": m.array(a, dtype)}, constants={"b": m.array(b, dtype)})
    for turn_a in (0, 1):
        for turn_b in (0, 1):
            a, b = m.array([7, 5] if not turn_a else [5, 7], F32), m.array([5, 6] if not turn_b else [6, 5], F32)
            for c in ([6], [7, 1], [7, 6], []):
                m.one("Gemm", {"a": a}, constants={"b": b, "c": m.array(c, F32)}, transA=turn_a, transB=turn_b, alpha=0.5, beta=1.5)
            m.one("Gemm", {"a": a, "b": b}, transA=turn_a, transB=turn_b)
    for spatial, group, channels, outputs in ((1, 1, 3, 4), (2, 1, 5, 7), (2, 4, 8, 12), (2, 6, 6, 6), (2, 1, 16, 32), (2, 1, 3, 8)):
        for _ in range(3):
            kernel = [m.integers(1, 4) for _ in range(spatial)]
            size = [m.integers(6, 12) for _ in range(spatial)]
            attributes = {"strides": [m.integers(1, 3) for _ in range(spatial)], "dilations": [m.integers(1, 2) for _ in range(spatial)],
                          "pads": [m.integers(0, 2) for _ in range(2 * spatial)], "group": group}
            for dtype in (F32, F16):
                m.one("Conv", {"x": m.array([2, channels, *size], dtype)},
                      constants={"w": m.array([outputs, channels // group, *kernel], dtype), "b": m.array([outputs], dtype)}, **attributes)
    m.one("Conv", {"x": m.array([0, 3, 8, 8], F32)}, constants={"w": m.array([4, 3, 3, 3], F32)}, dynamic=True)
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        m.one("Conv", {"x": m.array([1, 4, 9, 10], F32)}, constants={"w": m.array([5, 4, 3, 2], F32)}, auto_pad=mode, strides=[2, 3])


def rows(m):
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in (([3, 5], -1), ([2, 7, 4], 1), ([2, 3, 4, 5], 1), ([2, 3, 4, 5], -1), ([1000], 0), ([4, 2049], 1), ([0, 5], 1),
                            ([3, 1], 1), ([2, 3, 4, 5], 2)):
            for dtype in (F32, F16):
                m.one(op, {"x": m.array(shape, dtype, -20, 20)}, axis=axis)
        m.one(op, {"x": m.array([2, 3, 4], F32)}, axis=1, opset=11)
    for shape, axis in (([3, 8], -1), ([2, 5, 33], -1), ([2, 3, 4, 5], 2), ([4, 1025], 1), ([1, 1], 1), ([0, 6], -1)):
        for dtype in (F32, F16):
            size = shape[axis:] if axis < 0 else shape[axis:]
            m.one("LayerNormalization", {"x": m.array(shape, dtype)}, constants={"s": m.array(size, dtype), "b": m.array(size, dtype)}, axis=axis)
    m.one("LayerNormalization", {"x": m.array([3, 7], F32)}, constants={"s": m.array([7], F32)})
    for op in ("MaxPool", "AveragePool"):
        for spatial in (1, 2):
            for _ in range(5):
                kernel = [m.integers(2, 4) for _ in range(spatial)]
                attributes = {"kernel_shape": kernel, "strides": [m.integers(1, 3) for _ in range(spatial)],
                              "pads": [m.integers(0, 1) for _ in range(2 * spatial)], "ceil_mode": m.integers(0, 1)}
                if op == "AveragePool":
                    attributes["count_include_pad"] = m.integers(0, 1)
                else:
                    attributes["dilations"] = [m.integers(1, 2) for _ in range(spatial)]
                m.one(op, {"x": m.array([2, 5, *(m.integers(8, 13) for _ in range(spatial))], F32)}, **attributes)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for shape in ([2, 3, 5, 7], [1, 8, 4], [2, 33, 1, 1], [0, 3, 4, 4]):
            m.one(op, {"x": m.array(shape, F32)})
    for shape in ([2, 5], [2, 5, 4], [2, 5, 3, 4]):
        m.one("BatchNormalization", {"x": m.array(shape, F32)}, constants={
            "s": m.array([5], F32), "b": m.array([5], F32), "mean": m.array([5], F32), "var": m.array([5], F32, 0.5, 2)})


def sizes(m):
    """Shapes that the model computes from shapes: numbers once the sizes are, whatever they go through."""
    def node(op, inputs, out, **attributes):
        return helper.make_node(op, inputs, [out], **attributes)
    shape = node("Shape", ["x"], "s")
    one, zero, last = np.array([1], I64), np.array([0], I64), np.array([-1], I64)
    first = node("Gather", ["s", "c0"], "n")  # a number
    first_of_one = [shape, first, node("Unsqueeze", ["n", "axis"], "n1")]
    known = {"c0": np.array(0, I64), "axis": zero, "minus": last, "one": one, "two": np.array([2], I64), "c1": np.array(1, I64)}
    ways = {
        "concat": [*first_of_one, node("Concat", ["n1", "minus"], "t", axis=0)],
        "reversed": [shape, node("Gather", ["s", "order"], "t")],
        "gather_negative": [shape, node("Gather", ["s", "minus"], "g"), node("Concat", ["g", "minus"], "t", axis=0)],
        "slice": [shape, node("Slice", ["s", "one", "three"], "g"), node("Concat", ["g", "minus"], "t", axis=0)],
        "slice_backwards": [shape, node("Slice", ["s", "minus", "far", "axis", "minus"], "t")],
        "product": [shape, node("ReduceProd", ["s"], "t", keepdims=1)],
        "product_of_all": [shape, node("ReduceProd", ["s", "axis"], "p", keepdims=0), node("Unsqueeze", ["p", "axis"], "t")],
        "size": [node("Size", ["x"], "p"), node("Unsqueeze", ["p", "axis"], "t")],
        "reshape": [shape, first, node("Reshape", ["n", "one"], "n1"), node("Concat", ["n1", "minus"], "t", axis=0)],
        "squeeze": [shape, node("Slice", ["s", "axis", "one"], "g"), node("Squeeze", ["g", "axis"], "n"),
                    node("Unsqueeze", ["n", "axis"], "n1"), node("Concat", ["minus", "n1"], "t", axis=0)],
        "arithmetic": [shape, first, node("Mul", ["n", "two"], "d"), node("Div", ["d", "two"], "h"), node("Add", ["h", "one"], "a"),
                       node("Sub", ["a", "one"], "b"), node("Concat", ["b", "minus"], "t", axis=0)],
        "least": [*first_of_one, node("Max", ["n1", "one"], "a"), node("Min", ["a", "n1"], "b"), node("Concat", ["b", "minus"], "t", axis=0)],
        "casts": [shape, node("Cast", ["s"], "i", to=TensorProto.INT32), node("Cast", ["i"], "t", to=TensorProto.INT64)],
        "floats": [shape, node("Cast", ["s"], "f", to=TensorProto.FLOAT), node("Cast", ["f"], "t", to=TensorProto.INT64)],
        "scaled": [shape, node("Cast", ["s"], "f", to=TensorProto.FLOAT), node("Mul", ["f", "unit"], "g"),
                   node("Floor", ["g"], "h"), node("Cast", ["h"], "t", to=TensorProto.INT64)],
        "where": [shape, node("Equal", ["asked", "threes"], "e"), node("Where", ["e", "s", "asked"], "t")],
        "matrix": [shape, node("Reshape", ["s", "square"], "q"), node("Slice", ["q", "axis", "one"], "r"),
                   node("Reshape", ["r", "minus"], "t0"), node("Concat", ["t0", "minus"], "t", axis=0)],
        "part": [node("Shape", ["x"], "g", start=0, end=1), node("Concat", ["g", "minus"], "t", axis=0)],
        "expanded": [*first_of_one, node("Expand", ["n1", "one"], "g"), node("Concat", ["g", "minus"], "t", axis=0)],
        "identity": [shape, node("Identity", ["s"], "t")],
        "less": [*first_of_one, node("Less", ["n1", "two"], "e"), node("Where", ["e", "n1", "n1"], "g"),
                 node("Concat", ["g", "minus"], "t", axis=0)],
    }
    constants = {**known, "order": np.array([2, 0, 1], I64), "three": np.array([2], I64), "far": np.array([-100], I64),
                 "unit": np.array(1, F32), "asked": np.array([-1, 1, 1], I64), "threes": np.array([-1, 1, 1], I64),
                 "square": np.array([1, 3], I64)}
    for name, nodes in ways.items():
        used = {key for each in nodes for key in each.input}
        for dynamic in (False, True):
            m.add(f"sizes_{name}", [*nodes, node("Reshape", ["x", "t"], "v"), node("Neg", ["v"], "y")], {"x": m.array([4, 2, 3], F32)},
                  {"y": F32}, {key: value for key, value in constants.items() if key in used}, dynamic)
    for dynamic in (False, True):
        x = {"x": m.array([4, 3], F32)}
        m.add("sizes_constant", [shape, node("ConstantOfShape", ["s"], "c", value=numpy_helper.from_array(np.array([2.5], F32))),
                                 node("Add", ["c", "x"], "y")], x, {"y": F32}, {}, dynamic)
        m.add("sizes_whole", [shape, node("ConstantOfShape", ["s"], "c", value=numpy_helper.from_array(np.array([7], I64))),
                              node("Cast", ["x"], "i", to=TensorProto.INT64), node("Mul", ["c", "i"], "y")], x, {"y": I64}, {}, dynamic)
        m.add("sizes_range", [shape, first, node("Range", ["c0", "n", "c1"], "r"), node("Gather", ["x", "r"], "y")], x, {"y": F32},
              {"c0": known["c0"], "c1": known["c1"]}, dynamic)
        m.add("sizes_mask", [shape, first, node("Range", ["c0", "n", "c1"], "r"), node("Unsqueeze", ["r", "one"], "a"),
                             node("Unsqueeze", ["r", "axis"], "b"), node("Less", ["a", "b"], "l"),
                             node("Cast", ["l"], "m", to=TensorProto.FLOAT), node("MatMul", ["m", "x"], "y")], x, {"y": F32},
              {key: known[key] for key in ("c0", "c1", "one", "axis")}, dynamic)
        m.add("sizes_expand", [shape, node("Expand", ["row", "s"], "e"), node("Sub", ["x", "e"], "y")], x, {"y": F32},
              {"row": m.array([1, 3], F32)}, dynamic)
        # The shape is a result too, and that of something computed.
        m.add("sizes_result", [node("Relu", ["x"], "a"), node("Shape", ["a"], "y"), node("Neg", ["a"], "z")], x, {"y": I64, "z": F32}, {},
              dynamic)


def normalised(m):
    for dtype in (F32, F16):
        for shape in ([2, 6, 5, 7], [1, 6, 300], [3, 6, 1], [0, 6, 4]):
            scale, bias = m.array([6], dtype), m.array([6], dtype)
            m.one("InstanceNormalization", {"x": m.array(shape, dtype)}, constants={"s": scale, "b": bias})
            m.one("GroupNormalization", {"x": m.array(shape, dtype)}, constants={"s": scale, "b": bias}, num_groups=3, opset=21)
        for axis in (-1, 0, 1):
            for p in (1, 2):
                m.one("LpNormalization", {"x": m.array([3, 4, 5], dtype)}, axis=axis, p=p)
        m.one("LayerNormalization", {"x": m.array([3, 5, 8], dtype), "s": m.array([8], dtype), "b": m.array([8], dtype)})
        m.one("LayerNormalization", {"x": m.array([3, 5, 8], dtype), "s": m.array([5, 8], dtype)}, axis=1)
        m.one("RMSNormalization", {"x": m.array([3, 5, 8], dtype)}, constants={"s": m.array([8], dtype)}, opset=23)
    m.one("LayerNormalization", {"x": m.array([3, 5, 8], F32)}, constants={"s": m.array([8], F32), "b": m.array([8], F32)}, outputs=3)
    m.one("LpNormalization", {"x": np.zeros([2, 3], F32)})
    m.one("MeanVarianceNormalization", {"x": m.array([2, 3, 4, 5], F32)})
    for op in ("MaxPool", "AveragePool"):
        for _ in range(3):
            attributes = {"dilations": [1, 2, 1]} if op == "MaxPool" else {"count_include_pad": m.integers(0, 1)}
            m.one(op, {"x": m.array([2, 3, 7, 8, 6], F32)}, kernel_shape=[2, 3, 2], strides=[m.integers(1, 2) for _ in range(3)],
                  pads=[m.integers(0, 1) for _ in range(6)], ceil_mode=m.integers(0, 1), **attributes)
    for dtype in (U8, I8):
        m.one("MaxPool", {"x": m.array([2, 3, 9, 9], dtype, -90, 90)}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m.add("MaxPool_places", [helper.make_node("MaxPool", ["x"], ["y", "z"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])],
          {"x": m.array([2, 3, 9, 8], F32)}, {"y": F32, "z": I64})
    for p in (1, 2, 3):
        m.one("LpPool", {"x": m.array([2, 3, 9, 8], F32)}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=p)


def computed_weights(m):
    for spatial, group, channels, outputs in ((1, 1, 3, 4), (2, 1, 5, 7), (2, 4, 8, 12), (2, 16, 16, 16), (2, 1, 16, 32), (3, 1, 3, 4),
                                              (3, 2, 4, 6)):
        kernel = [m.integers(1, 3) for _ in range(spatial)]
        size = [m.integers(6, 9) for _ in range(spatial)]
        attributes = {"strides": [m.integers(1, 2) for _ in range(spatial)], "dilations": [m.integers(1, 2) for _ in range(spatial)],
                      "pads": [m.integers(0, 2) for _ in range(2 * spatial)], "group": group}
        for dtype in (F32, F16):
            x, w, b = m.array([2, channels, *size], dtype), m.array([outputs, channels // group, *kernel], dtype), m.array([outputs], dtype)
            m.one("Conv", {"x": x, "w": w, "b": b}, **attributes)
            m.one("Conv", {"x": x, "w": w}, **attributes)
            if spatial == 3:
                m.one("Conv", {"x": x}, constants={"w": w, "b": b}, **attributes)
            turned = np.moveaxis(w.reshape(group, outputs // group, channels // group, *kernel), 1, 2)
            turned = np.ascontiguousarray(turned.reshape(channels, outputs // group, *kernel))
            m.one("ConvTranspose", {"x": x, "w": turned, "b": b}, strides=attributes["strides"], group=group)
    # A residual and an activation after computed weights.
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "x"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    for dtype in (F32, F16):
        m.add("Conv_residual", nodes, {"x": m.array([2, 8, 9, 9], dtype), "w": m.array([8, 8, 3, 3], dtype), "b": m.array([8], dtype)}, {"y": dtype})
    for c in ([6], [7, 1], [7, 6], [], [1, 6]):
        m.one("Gemm", {"a": m.array([7, 5], F32), "b": m.array([5, 6], F32), "c": m.array(c, F32)}, alpha=0.5, beta=1.5)


def sampled(m):
    for equation, shapes in (("ij,jk->ik", ([3, 4], [4, 5])), ("bij,bjk->bik", ([2, 3, 4], [2, 4, 5])), ("bhqd,bhkd->bhqk", ([2, 3, 4, 5], [2, 3, 6, 5])),
                             ("bhqk,bkhd->bqhd", ([2, 3, 4, 6], [2, 6, 3, 5])), ("ij->ji", ([3, 4],)), ("ii->i", ([4, 4],)), ("ij->", ([3, 4],)),
                             ("i,j->ij", ([3], [4])), ("...ij,...jk->...ik", ([2, 1, 3, 4], [5, 4, 6])), ("ij,jk", ([3, 4], [4, 5])),
                             ("i,i,i->i", ([5], [5], [5])), ("bij,bkj->bki", ([4, 33, 40], [4, 35, 40])), ("abcd,dce->bae", ([7, 5, 8, 20], [20, 8, 30]))):
        for dtype in (F32, F16, I32):
            m.one("Einsum", {name: m.array(shape, dtype, -2, 2) for name, shape in zip("abc", shapes)}, equation=equation, dynamic=False)
    for opset, modes in ((16, ("bilinear", "nearest", "bicubic")), (20, ("linear", "nearest", "cubic"))):
        for mode in modes:
            for padding in ("zeros", "border", "reflection"):
                for corners in (0, 1):
                    m.one("GridSample", {"x": m.array([2, 3, 5, 7], F32), "g": m.array([2, 4, 6, 2], F32, -1.7, 1.7)}, mode=mode,
                          padding_mode=padding, align_corners=corners, opset=opset)
    for mode in ("linear", "nearest"):
        m.one("GridSample", {"x": m.array([1, 2, 4, 5, 6], F32), "g": m.array([1, 3, 2, 4, 3], F32, -1.3, 1.3)}, mode=mode, opset=20)


def reviewed(m):
    """What was wrong once, found by many more random cases than these."""
    for k in ((1 << 63) - 1, -(1 << 63)):
        for upper in (0, 1):
            m.one("Trilu", {"x": m.array([3, 4], F32)}, constants={"k": np.asarray(k, I64)}, upper=upper)
    # Scales that repeat, and what no trial of sizes shows.
    for scale in ([5, 1, 1], [1, 1, 4], [3, 1]):
        m.one("LayerNormalization", {"x": m.array([2, 5, 3, 4], F32)}, constants={"s": m.array(scale, F32), "b": m.array(scale, F32)}, axis=1,
              dynamic=True, opset=17)
    m.one("ScatterElements", {"x": m.array([5, 2, 4], BOOL)}, constants={"i": np.zeros([3, 2, 4], I64), "u": m.array([3, 2, 4], BOOL)}, axis=0,
          reduction="max", dynamic=True)
    for dtype in (F32, F16, F64):
        m.add("GlobalAveragePool", [helper.make_node("Reshape", ["x", "s"], ["v"]), helper.make_node("GlobalAveragePool", ["v"], ["y"])],
              {"x": m.array([2, 3, 24], dtype)}, {"y": dtype}, {"s": np.array([2, 3, 2, 3, 4], I64)})
    # Version 10 rounds up to shrink; a scale of 0.7 is a little less than that.
    for scales in ([1, 0.6], [2, 0.5], [0.7, 1.5]):
        m.one("Resize", {"x": m.array([4, 8], F32)}, constants={"s": np.array(scales, F32)}, mode="nearest", opset=10)
        for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
            m.one("Resize", {"x": m.array([6, 5], F32)}, constants={"r": np.zeros([0], F32), "s": np.array(scales, F32)}, mode="nearest",
                  coordinate_transformation_mode=mode)
    # What mutations of the code left right.
    for a, b in (([3, 1], [4, 5]), ([3, 4], [1, 5])):
        m.one("Einsum", {"a": m.array(a, F32), "b": m.array(b, F32)}, equation="ij,jk->ik", dynamic=False)
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        m.one("AveragePool", {"x": m.array([1, 2, 7, 6, 5], F32)}, kernel_shape=[2, 4, 3], strides=[2, 1, 2], auto_pad=mode, count_include_pad=1)
    for dtype in (I32, I64):
        m.one("Pow", {"a": np.array([-1, -1, 1, 2, -3, 2], dtype), "b": np.array([-3, -2, -1, -1, -2, 5], dtype)}, opset=15)
    for order in (["c", "r", "y"], ["c", "s", "y"]):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 6)]
        nodes += ([helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])] if order[1] == "r" else
                  [helper.make_node("Add", ["c", "x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])])
        m.add("Conv_3d_residual", nodes, {"x": m.array([1, 3, 4, 5, 6], F32)}, {"y": F32}, {"w": m.array([3, 3, 3, 3, 3], F32)})
    m.one("MatMulInteger", {"a": m.array([3, 2, 4], U8, 0, 99), "b": m.array([3, 4, 5], I8, -60, 60)}, I32, opset=10)
    for c in ([5, 0], [0]):
        m.one("Gemm", {"a": m.array([2, 5], F32), "b": m.array([0, 2], F32), "c": m.array(c, F32)}, transA=1, transB=1, beta=1.5)
    m.add("product_of_nothing", [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
          {"a": m.array([0, 3, 4], F32), "b": m.array([0, 4, 5], F32)}, {"y": F32}, dynamic=True)
    # What no size changes is refused though ranks are unknown, and what is served is taken.
    for reduction in ("none", "max"):
        m.one("ScatterElements", {"x": m.array([3, 4], BOOL), "i": np.zeros([1, 4], I64), "u": m.array([1, 4], BOOL)}, axis=0, reduction=reduction,
              dynamic="rank")
    for dtype in (F32, I32):
        m.one("Shrink", {"x": m.array([7], dtype)}, lambd=1.0, dynamic="rank")
    m.one("Slice", {"x": m.array([5, 4], F32)}, starts=[1], ends=[4], axes=[0], opset=9, dynamic="rank")
    m.one("DequantizeLinear", {"x": m.array([2, 3, 4], U8), "s": m.array([3], F32, 0.1, 1)}, F32, axis=1, opset=13, dynamic="rank")


def tiled(m):
    """Sizes from which on kernels work in tiles, parts and chunks."""
    for dtype in (F32, F16, F64, I64, U8, BOOL):
        m.one("Transpose", {"x": m.array([40, 70], dtype)}, perm=[1, 0])
        m.one("Transpose", {"x": m.array([3, 33, 2, 50], dtype)}, perm=[int(p) for p in m.random.permutation(4)])
    for perm in ([0, 2, 1], [2, 1, 0], [2, 0, 1], [1, 2, 0]):
        m.one("Transpose", {"x": m.array([17, 20, 65], F32)}, perm=perm)
    turned = helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1])
    for other in ([2, 40, 33], [40, 33], [40, 1], [33], [2, 1, 1]):
        m.add("turned_add", [turned, helper.make_node("Add", ["t", "z"], ["y"])],
              {"x": m.array([2, 33, 40], F32), "z": m.array(other, F32)}, {"y": F32})
    m.add("turned_twice", [turned, helper.make_node("Transpose", ["z"], ["s"], perm=[0, 2, 1]),
                           helper.make_node("Mul", ["t", "s"], ["v"]), helper.make_node("Relu", ["v"], ["y"])],
          {"x": m.array([2, 33, 40], F32), "z": m.array([2, 33, 40], F32)}, {"y": F32})
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
               "ReduceLogSumExp"):
        for shape, axes in (([3, 40000], [1]), ([20000, 3], [0]), ([4, 5000, 6], [1]), ([9, 64, 40], [0, 2]), ([50, 24], [1]),
                            ([7, 50, 33], [0]), ([120000], [0]), ([5, 6, 4, 4], [2])):
            m.one(op, {"x": m.array(shape, F32, 0, 2)}, constants={"axes": np.array(axes, I64)}, keepdims=m.integers(0, 1))
        if not op.startswith("ReduceLog"):
            m.one(op, {"x": m.array([2, 40001], F64, 0, 2)}, constants={"axes": np.array([1], I64)})
            m.one(op, {"x": m.array([70000], I32, 0, 2)}, constants={"axes": np.array([0], I64)})
            m.one(op, {"x": m.array([40, 1024], F16, 0, 1)}, constants={"axes": np.array([1], I64)})
    m.one("ReduceProd", {"x": m.array([2, 6000], F32, 0.999, 1.001)}, constants={"axes": np.array([1], I64)})
    for dtype in (U8, I8):
        m.one("ReduceMax", {"x": m.array([3, 70000], dtype, 0, 120)}, constants={"axes": np.array([1], I64)})
        m.one("ReduceMin", {"x": m.array([70000, 2], dtype, 0, 120)}, constants={"axes": np.array([0], I64)})
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            for shape, axis in (([2, 40000], 1), ([40000, 2], 0), ([6, 300], 1), ([5, 20, 33], 1)):
                m.one(op, {"x": m.array(shape, F32, -99, 99)}, I64, axis=axis, select_last_index=last)
                m.one(op, {"x": m.array(shape, I32, -99, 99)}, I64, axis=axis, select_last_index=last)
    for shape, axis in (([3, 9000], 1), ([2, 5000, 40], 1), ([4096], 0), ([2, 257], 1), ([70000, 2], 0)):
        for dtype in (F32, I32, F64):
            m.one("CumSum", {"x": m.array(shape, dtype, 0, 2)}, constants={"a": np.asarray(axis, I64)},
                  exclusive=m.integers(0, 1), reverse=m.integers(0, 1))
    for reduction in ("add", "max", "min", "mul"):
        for dtype in (F32, F16, F64, I32, I64, U8):
            whole = np.dtype(dtype).kind in "iu"
            low, high = (1, 1) if reduction == "mul" else (0, 3)
            for axis, by in ((0, [90, 6]), (1, [5, 90])):
                m.one("ScatterElements", {"x": m.array([5, 6], dtype, low, high),
                                          "i": m.random.integers(-5, 5, by).astype(I64),
                                          "u": m.array(by, dtype, low, high)}, axis=axis, reduction=reduction)
            m.one("ScatterND", {"x": m.array([7, 3, 4], dtype, low, high), "i": m.random.integers(0, 3, [80, 2]).astype(I64),
                                "u": m.array([80, 4], dtype, low, high if whole else 2.5)}, reduction=reduction)
    # What fixed point has to do right: numbers far apart, zeros, numbers too small to be normal, and what is none.
    steep = (m.array([80, 4], F32, -1, 1) * 10.0 ** m.random.integers(-44, 38, [80, 4])).astype(F32)
    index = m.random.integers(0, 6, [80, 4]).astype(I64)
    for name, updates in (("far_apart", steep), ("tiny", (steep * 0 + m.array([80, 4], F32) * 1e-42).astype(F32)),
                          ("special", np.where(m.random.random([80, 4]) < 0.02, np.inf, m.array([80, 4], F32)).astype(F32)),
                          ("zeros", np.zeros([80, 4], F32))):
        m.add(f"scatter_{name}", [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
              {"x": m.array([6, 4], F32) * F32(0 if name == "tiny" else 1), "i": index, "u": updates}, {"y": F32})
    for x, w, attributes in (([1, 16, 5, 6, 7], [8, 16, 3, 3, 3], {"pads": [1] * 6}),
                             ([2, 3, 7, 6, 8], [5, 3, 3, 2, 3], {"strides": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]}),
                             ([1, 8, 4, 5, 6], [16, 8, 1, 1, 1], {}),
                             ([2, 4, 6, 5, 5], [8, 4, 2, 3, 3], {"dilations": [2, 1, 1], "auto_pad": "SAME_UPPER"}),
                             ([1, 8, 6, 5, 5], [8, 4, 3, 3, 3], {"group": 2})):
        for dtype in (F32, F16):
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": m.array(w[:1], dtype)},
                  **attributes)
    # A thread takes several elements of what is large and lies apart.
    m.one("Slice", {"x": m.array([1030, 2050], F32)}, constants={
        "starts": np.array([1], I64), "ends": np.array([2050], I64), "axes": np.array([1], I64), "steps": np.array([2], I64)})
    m.one("Pad", {"x": m.array([1024, 1029], U8)}, constants={"pads": np.array([0, 2, 3, 0], I64)})
    m.one("Relu", {"x": m.array([1055751], F32)})
    m.one("Gather", {"x": m.array([1055, 1001], F16), "i": m.random.integers(0, 1055, [1051]).astype(I64)}, axis=0)
    for equation, shapes in (("bi,bj->bij", ([3, 5], [3, 7])), ("i,j,k->kji", ([3], [4], [5])), ("ii,j->ji", ([4, 4], [3])),
                             ("...i,...j->...ji", ([2, 1, 3], [2, 4, 5])), ("i->i", ([6],)), (",->", ([], []))):
        for dtype in (F32, F16, I64):
            m.one("Einsum", {f"x{i}": m.array(shape, dtype) for i, shape in enumerate(shapes)}, equation=equation)
    # Sixteen channels of a place are read at once.
    for dtype, attributes in ((U8, {"pads": [1, 0, 1, 2]}), (I8, {"strides": [2, 1], "pads": [2] * 4, "dilations": [1, 2]}), (U8, {})):
        m.one("ConvInteger", {"x": m.array([2, 32, 9, 7], dtype, -100, 120)}, I32, constants={
            "w": m.array([24, 32, 3, 3], I8, -100, 100), "z": np.asarray(7, dtype)}, **attributes)
    # Groups whose channels are whole fours.
    for dtype, by, group, shape in ((U8, I8, 2, [12, 4, 3, 3]), (I8, I8, 3, [6, 8, 1, 2]), (U8, U8, 2, [20, 4, 2, 2]),
                                    (U8, I8, 2, [6, 4, 3])):
        size = [2, shape[1] * group, 7, 6][:len(shape)]
        for known in (True, False):
            x, w, z = m.array(size, dtype, -100, 120), m.array(shape, by, -100, 100), np.asarray(7, dtype)
            zeros = np.asarray(3, by) if known else m.array(shape[:1], by, 0, 9)  # onnxruntime takes one for all
            pads = [1, 0, 2, 1] if len(shape) == 4 else [1, 2]
            m.one("ConvInteger", {"x": x, **({} if known else {"w": w})}, I32, constants={**({"w": w} if known else {}), "z": z, "q": zeros},
                  group=group, pads=pads)
    m.one("ConvInteger", {"x": m.array([1, 8, 5, 5], U8, 0, 255)}, I32, constants={"w": m.array([4, 4, 3, 3], I8, -128, 127)}, group=2)
    for width, stride in ((41, 1), (83, 2)):
        m.one("ConvInteger", {"x": m.array([2, 32, 110 * stride, width], U8, 0, 255)}, I32, constants={
            "w": m.array([32, 1, 3, 3], I8), "z": np.asarray(128, U8), "q": np.asarray(2, I8)}, group=32, pads=[1] * 4, strides=[stride] * 2)
    # Large updates that cancel leave what is small, which float32 keeps in any order.
    large = np.where(np.arange(80)[:, None] % 2 == 0, 65536, -65536) + np.zeros([80, 4])
    small = m.random.integers(-8, 9, [80, 4]) / 8
    m.add("scatter_cancels", [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
          {"x": np.ones([6, 4], F32), "i": np.concatenate([np.zeros([80, 4]), np.arange(320).reshape(80, 4) % 6]).astype(I64),
           "u": np.concatenate([large, small]).astype(F32)}, {"y": F32})
    # Indices of no width, each of which names all of the data.
    for dynamic in (False, True):
        for reduction, dtype, count in (("none", F32, 1), ("none", F32, 0), ("add", F32, 3), ("add", F32, 40), ("add", I64, 40), ("max", F16, 5)):
            m.one("ScatterND", {"x": m.array([3, 4], dtype), "i": np.zeros([count, 0], I64), "u": m.array([count, 3, 4], dtype)},
                  reduction=reduction, dynamic=dynamic)
