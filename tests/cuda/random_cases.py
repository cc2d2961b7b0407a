"""Small models of random shapes, types and attributes, the same each time: what operators have few node cases for.
Nobody says what they give; the CPU EPs of two hosts do. A case is named for its family, its operator and how many of
these came before, so that a new one renames no other."""
import numpy as np
from onnx import helper

from random_elements import broadcasts, chains, empties, indexed, integers, moves, reductions, unary
from random_layers import computed_weights, normalised, products, reviewed, rows, sampled, sizes, tiled
from random_maker import F16, F32, I32, I64, I8, U8, Maker


# Convolutions whose images have channels first on both sides, and transposed ones whose window is a whole number of strides.
def borders(m):
    for x, w, attributes in (([2, 6, 9, 11], [6, 1, 3, 3], {"pads": [1] * 4}), ([1, 4, 12, 10], [8, 1, 3, 2], {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
                             ([2, 3, 14, 15], [3, 1, 3, 3], {"dilations": [3, 2], "pads": [3, 2, 3, 2], "strides": [1, 2]}), ([2, 5, 40], [5, 1, 7], {"pads": [3, 3]}),
                             ([1, 4, 9, 9], [4, 1, 7, 7], {"auto_pad": "SAME_LOWER"}), ([1, 3, 9, 9], [3, 1, 8, 8], {}),
                             ([1, 20, 161, 170], [20, 1, 3, 3], {"pads": [1] * 4}), ([1, 64, 130, 130], [64, 1, 5, 5], {"strides": [2, 2], "pads": [2] * 4})):
        for dtype in (F32, F16):
            b = m.array(w[:1], dtype)
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": b}, group=x[1], **attributes)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4, group=6), helper.make_node("Add", ["c", "x"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    m.add("Conv_first_residual", nodes, {"x": m.array([2, 6, 9, 7], F32), "w": m.array([6, 1, 3, 3], F32)}, {"y": F32}, {"b": m.array([6], F32)})
    for x, outputs in (([2, 16, 8, 8], 24), ([1, 8, 4, 5, 16], 8), ([3, 32, 80], 5)):
        w = [outputs, x[1]] + [1] * (len(x) - 2)
        for dtype in (F32, F16):
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1)})
            m.one("Conv", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": m.array([outputs], dtype)})
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Add", ["c", "z"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    for dtype in (F32, F16):
        m.add("Conv_pixels_residual", nodes, {"x": m.array([2, 16, 8, 16], dtype), "z": m.array([2, 8, 8, 16], dtype)}, {"y": dtype},
              {"w": m.array([8, 16, 1, 1], dtype, -1, 1), "b": m.array([8], dtype)})
    for x, w, attributes in (([2, 16, 5, 6], [16, 8, 4, 4], {"strides": [2, 2], "pads": [1] * 4}), ([1, 5, 7, 6], [5, 40, 3, 3], {"pads": [1] * 4}),
                             ([2, 8, 6, 7], [8, 33, 6, 4], {"strides": [3, 2], "pads": [1, 0, 2, 3]}), ([2, 8, 9], [8, 6, 16], {"strides": [8], "pads": [4, 4]}),
                             ([1, 4, 5, 40], [4, 35, 4, 2], {"strides": [2, 1], "pads": [3, 1, 0, 1], "output_padding": [1, 0]}),
                             ([1, 8, 6, 6], [8, 4, 6, 6], {"strides": [3, 3], "auto_pad": "SAME_UPPER"}),
                             ([1, 6, 5, 4], [6, 3, 4, 4], {"strides": [2, 2], "output_shape": [11, 9]}),
                             ([1, 6, 5, 4], [6, 1, 4, 4], {"strides": [2, 2], "pads": [1] * 4})):
        for dtype in (F32, F16):
            m.one("ConvTranspose", {"x": m.array(x, dtype)}, constants={"w": m.array(w, dtype, -1, 1), "b": m.array(w[1:2], dtype)}, **attributes)
    # Channels last behind it, and channels first: with what is added, and an activation.
    for stride, kernel, size in (([2, 2], [4, 4], 12), ([1, 1], [3, 3], 6)):
        nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], strides=stride, pads=[1] * 4), helper.make_node("Add", ["t", "z"], ["s"]),
                 helper.make_node("Relu", ["s"], ["y"])]
        further = [helper.make_node("Conv", ["y", "v"], ["u"], pads=[1] * 4)]
        for more, made in (([], "y"), (further, "u")):
            for dtype in (F32, F16):
                m.add("ConvTranspose_residual", nodes + more, {"x": m.array([2, 8, 6, 6], dtype), "z": m.array([2, 16, size, size], dtype)}, {made: dtype},
                      {"w": m.array([8, 16, *kernel], dtype, -1, 1), "b": m.array([16], dtype), **({"v": m.array([8, 16, 3, 3], dtype, -1, 1)} if more else {})})
    # Sums of as many rows and columns as larger tiles want, with and without zero points, in pairs and not.
    for a_type, b_type, rows, depth, columns in ((U8, I8, 2200, 48, 512), (I8, I8, 4300, 33, 61), (U8, U8, 9001, 16, 60), (I8, U8, 1500, 80, 1411)):
        zero, zeros = np.asarray(m.integers(0, 60), a_type), m.array([columns], b_type, -60, 60)
        a = m.array([rows, depth], a_type, -128, 127 if a_type == I8 else 60)
        m.one("MatMulInteger", {"a": a}, I32, constants={"b": m.array([depth, columns], b_type, -60, 60), "p": zero}, opset=10)
        m.add("MatMulInteger", [helper.make_node("MatMulInteger", ["a", "b", "p", "q"], ["y"])], {"a": a, "p": zero}, {"y": I32},
              {"b": m.array([depth, columns], b_type, -60, 60), "q": zeros}, opset=10)
    # Windows that a product's kernel reads itself, with its larger tiles too.
    for dtype, outputs, group, x, attributes in ((U8, 128, 1, [5, 32, 64, 64], {"pads": [1] * 4}), (I8, 64, 1, [3, 16, 90, 81], {"pads": [0, 1, 2, 1]}),
                                                 (U8, 24, 1, [2, 48, 21, 22], {"strides": [2, 1], "dilations": [1, 2]}), (U8, 33, 1, [2, 16, 20], {"pads": [2, 1]}),
                                                 (U8, 64, 64, [2, 64, 71, 60], {"pads": [1] * 4}), (I8, 12, 6, [2, 6, 13, 12], {"strides": [2, 2], "pads": [1] * 4}),
                                                 (U8, 64, 4, [2, 64, 9, 10], {"pads": [1] * 4})):
        w, zeros = m.array([outputs, x[1] // group, *[3] * (len(x) - 2)], I8, -60, 60), np.zeros([outputs], I8)
        m.add("QLinearConv", [helper.make_node("QLinearConv", ["x", "sx", "p", "w", "sw", "q", "sy", "r", "b"], ["y"], group=group, **attributes)],
              {"x": m.array(x, dtype, -128, 127 if dtype == I8 else 255)}, {"y": dtype},
              {"sx": F32(0.02), "p": np.asarray(9, dtype), "w": w, "sw": m.array([outputs], F32, 0.001, 0.01), "q": zeros, "sy": F32(0.3),
               "r": np.asarray(20, dtype), "b": m.array([outputs], I32, -500, 500)}, opset=10)
    for dtype in (U8, I8):
        m.add("QLinearMatMul", [helper.make_node("QLinearMatMul", ["x", "sx", "p", "w", "sw", "q", "sy", "r"], ["y"])],
              {"x": m.array([3, 70, 100], dtype, -100, 100)}, {"y": dtype},
              {"sx": F32(0.02), "p": np.asarray(10, dtype), "w": m.array([100, 91], I8, -60, 60), "sw": m.array([91], F32, 0.001, 0.01),
               "q": np.zeros([91], I8), "sy": F32(0.3), "r": np.asarray(9, dtype)}, opset=10)


def promised(m):
    """What sizes that only a run knows may turn out to be: none to add up, and one matrix for a whole batch."""
    for dtype in (F32, F16):
        for stride in (1, 2):
            m.one("ConvTranspose", {"x": m.array([2, 0, 3, 4], dtype)}, constants={"w": m.array([0, 3, 2, 2], dtype), "b": m.array([3], dtype)},
                  dynamic=True, strides=[stride, stride])
        m.one("ConvTranspose", {"x": m.array([1, 0, 5], dtype), "w": m.array([0, 4, 3], dtype)}, dynamic=True)
        # ONNX Runtime has been seen to give NaN in one place.
        x, w, b = m.array([1, 0, 4, 5], dtype), m.array([3, 0, 2, 2], dtype), m.array([3], dtype)
        m.one("Conv", {"x": x, "w": w, "b": b}, dynamic=True, wanted=[np.broadcast_to(b[:, None, None], [1, 3, 3, 4]).copy()])
        m.one("Gemm", {"a": m.array([3, 0], dtype), "b": m.array([0, 4], dtype), "c": m.array([4], dtype)}, dynamic=True)
        m.one("MatMul", {"a": m.array([2, 3, 0], dtype), "b": m.array([2, 0, 5], dtype)}, dynamic=True)
    m.one("LSTM", {"x": m.array([3, 2, 0], F32), "w": m.array([1, 20, 0], F32), "r": m.array([1, 20, 5], F32, -1, 1),
                   "b": m.array([1, 40], F32, -1, 1)}, dynamic=True, hidden_size=5)
    for a, b in (([1, 3, 4], [2, 4, 5]), ([3, 1, 4, 6], [1, 2, 6, 5]), ([1, 70, 65], [3, 65, 66]), ([2, 70, 65], [3, 1, 65, 66]), ([2, 3, 4], [1, 4, 5])):
        m.one("MatMulInteger", {"a": m.array(a, U8, 0, 99), "b": m.array(b, I8, -99, 99), "p": m.array([], U8, 0, 9)}, I32, dynamic=True, opset=10)
    m.add("QLinearMatMul", [helper.make_node("QLinearMatMul", ["x", "sx", "p", "w", "sw", "q", "sy", "r"], ["y"])],
          {"x": m.array([1, 7, 10], U8, 0, 100), "w": m.array([3, 10, 9], I8, -60, 60)}, {"y": U8},
          {"sx": F32(0.02), "p": np.asarray(10, U8), "sw": F32(0.01), "q": np.asarray(0, I8), "sy": F32(0.3), "r": np.asarray(9, U8)}, dynamic=True, opset=10)
    for dtype in (F32, F16, I64):
        m.one("Split", {"x": m.array([3, 4], dtype)}, outputs=3, constants={"n": np.array([0, 4, 0], I64)}, axis=1, dynamic=True)
        m.one("Split", {"x": m.array([0, 4], dtype)}, outputs=2, axis=1, dynamic=True, num_outputs=2)


def make():
    m = Maker()
    for family in (broadcasts, unary, chains, reductions, moves, products, rows, empties, sizes, indexed, normalised,
                   computed_weights, integers, sampled, reviewed, tiled, borders, promised):
        m.family = family.__name__
        family(m)
    return m.cases
