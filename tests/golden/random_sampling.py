"""One node each, as random_single.py makes them, of operators on signals, positions, boxes and named dimensions."""
import numpy as np

F32, F64, F16, I32, I64, U8 = np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8


def maybe(g, share, **attributes):
    return {key: value for key, value in attributes.items() if g.chance(share)}


def einsum(g):
    sizes = {letter: g.pick(1, 2, 3, 5) for letter in "abcdef"}
    terms = []
    for _ in range(g.pick(1, 2, 2, 2, 3)):
        letters = g.random.sample("abcdef", g.pick(1, 2, 3, 3, 4))
        if g.chance(0.15):
            letters.insert(g.random.randint(0, len(letters)), g.pick(*letters))
        terms.append("".join(letters))
    used = sorted(set("".join(terms)))
    output = "".join(g.random.sample(used, g.random.randint(0, min(4, len(used)))))
    shapes = [[sizes[letter] for letter in term] for term in terms]
    spread = g.chance(0.3)
    if spread:  # an ellipsis of up to two dimensions, which broadcast
        ones = [g.pick(1, 2), 3]
        terms = [term + "..." for term in terms]
        shapes = [[*shape, *(g.pick(1, n) for n in ones)][:len(shape) + 2] for shape in shapes]
        shapes[0][-2:] = ones
        output = output + "..." if g.chance(0.5) else "..." + output
    equation = g.pick(",", ", ").join(terms) + (g.pick("->", " -> ") + output if spread or g.chance(0.8) else "")
    kind = g.pick(F32, F32, F32, F64, I32, I64)
    return ("Einsum", 12), [g.array(shape, kind, -3, 3) for shape in shapes], {"equation": equation}, 1


def grid_sample(g):
    opset = g.pick(16, 20)
    mode = g.pick("nearest", "linear", "linear", "cubic")
    space = g.pick(2, 2, 2, 3) if mode != "cubic" and opset == 20 else 2
    batch, channels = g.pick(1, 2), g.pick(1, 3, 17)
    x = g.array([batch, channels, *(g.pick(1, 2, 5, 8) for _ in range(space))], g.pick(F32, F32, F64))
    # Odd parts, so that no coordinate stands in the middle between two elements.
    grid = (g.numbers.integers(-50, 51, [batch, *(g.pick(1, 3, 7) for _ in range(space)), space]) / 37 + 0.003).astype(x.dtype)
    older = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return ("GridSample", opset), [x, grid], {"mode": mode if opset == 20 else older, "padding_mode": g.pick("zeros", "border", "reflection"),
                                              "align_corners": g.pick(0, 1)}, 1


def regions(g):
    count, batch, channels = g.pick(0, 1, 3), g.pick(1, 2), g.pick(1, 3, 70)
    x = g.array([batch, channels, g.pick(1, 4, 9), g.pick(1, 5, 8)])
    corners = g.numbers.integers(-4, 40, [count, 4]) / 3.7
    images = g.numbers.integers(0, batch, [count])
    if g.chance(0.6):
        attributes = {"output_height": g.pick(1, 2, 3), "output_width": g.pick(1, 4), **maybe(g, 0.5, sampling_ratio=g.pick(0, 1, 3), mode="max", spatial_scale=0.6)}
        opset = g.pick(10, 16)
        if opset == 16:
            attributes.update(maybe(g, 0.5, coordinate_transformation_mode=g.pick("half_pixel", "output_half_pixel")))
        corners[:, 2:] = corners[:, :2] + np.abs(corners[:, 2:])
        return ("RoiAlign", opset), [x, corners.astype(F32), images.astype(I64)], attributes, 1
    rois = np.concatenate([images[:, None], np.abs(corners)], 1).astype(F32)
    return ("MaxRoiPool", 7), [x, rois], {"pooled_shape": [g.pick(1, 2, 3), g.pick(1, 4)], **maybe(g, 0.5, spatial_scale=0.37)}, 1


def suppression(g):
    batch, classes, count = g.pick(1, 2), g.pick(1, 3), g.pick(0, 1, 7, 60)
    boxes = g.array([batch, count, 4], F32, 0, 30)
    boxes[..., 2:] = g.pick(boxes[..., 2:], boxes[..., :2] + 3)
    given = [boxes, g.array([batch, classes, count], F32, 0, 9), np.array([g.pick(0, 1, 3, 99)], I64), g.pick(None, np.array([g.pick(0.0, 0.3, 0.5, 1.0)], F32))]
    given.append(None if given[-1] is None or g.chance(0.5) else np.array([g.pick(0.5, 1.0)], F32))
    return ("NonMaxSuppression", 11), given, maybe(g, 0.5, center_point_box=g.pick(0, 1)), 1


def transform(g):
    if g.chance(0.3):
        length, step = g.pick(1, 4, 7, 16), g.pick(1, 3, 8)
        kind = g.pick(F32, F64)
        signal = g.array([g.pick(1, 2), length + g.pick(0, 1, 9, 40), 1], kind)
        window = g.pick(None, g.array([length], kind, 1, 4))
        frame = np.array(length, I64) if window is None or g.chance(0.5) else None
        return ("STFT", 17), [signal, np.array(step, I64), window, frame], maybe(g, 0.5, onesided=g.pick(0, 1)), 1
    opset, parts = g.pick(17, 20), g.pick(1, 2)
    rank = g.pick(2, 3, 4)
    x = g.array([*(g.pick(1, 2, 3, 8, 17) for _ in range(rank - 1)), parts], g.pick(F32, F64))
    axis = g.random.randrange(0, rank - 1)
    inverse = g.pick(0, 0, 1)
    attributes = {"inverse": inverse} if inverse else maybe(g, 0.5, onesided=1) if parts == 1 else {}
    length = g.pick(None, np.array(g.pick(1, 2, 5, 12, 13, 34, 49, 64, 97), I64))
    if opset == 17:
        return ("DFT", 17), [x, length], {**attributes, "axis": axis}, 1
    return ("DFT", 20), [x, length, np.array(axis - g.pick(0, rank), I64)], attributes, 1


def layout(g):
    op = g.pick("Unique", "Unique", "Col2Im", "MaxUnpool", "Det", "AffineGrid", "CenterCropPad", "MeanVarianceNormalization", "HannWindow", "HammingWindow",
                "BlackmanWindow", "MelWeightMatrix", "DeformConv")
    if op == "Unique":
        x = g.array([g.pick(0, 1, 4), g.pick(1, 3)][:g.pick(1, 2)], g.pick(F32, I64, F64), -2, 2)
        if x.size == 0:
            return (op, 11), [x], {}, 4
        return (op, 11), [x], {"sorted": g.pick(0, 1), **maybe(g, 0.5, axis=g.random.randrange(-x.ndim, x.ndim))}, 4
    if op == "Col2Im":
        image, block = [g.pick(3, 5, 6) for _ in range(2)], [g.pick(1, 2, 3) for _ in range(2)]
        strides, pads = [g.pick(1, 2) for _ in range(2)], [g.pick(0, 1) for _ in range(4)]
        count = np.prod([(image[i] + pads[i] + pads[i + 2] - block[i]) // strides[i] + 1 for i in range(2)])
        x = g.array([g.pick(1, 2), g.pick(1, 3) * block[0] * block[1], count])
        return (op, 18), [x, np.array(image, I64), np.array(block, I64)], {"strides": strides, "pads": pads}, 1
    if op == "MaxUnpool":
        x = g.array([1, g.pick(1, 2), 2, 3])
        return (op, 11), [x, np.array(g.random.sample(range(x.shape[1] * 24), x.size), I64).reshape(x.shape)], {"kernel_shape": [2, 2], "strides": [2, 2]}, 1
    if op == "Det":
        n = g.pick(1, 2, 3, 5)
        return (op, 11), [g.array([*g.pick([], [2], [2, 3]), n, n])], {}, 1
    if op == "AffineGrid":
        space = g.pick(2, 3)
        return (op, 20), [g.array([2, space, space + 1]), np.array([2, 3, *(g.pick(2, 3, 5) for _ in range(space))], I64)], {"align_corners": g.pick(0, 1)}, 1
    if op == "CenterCropPad":
        x = g.array([g.pick(1, 4, 5), g.pick(2, 7)], g.pick(F32, I64, U8))
        return (op, 18), [x, np.array([g.pick(1, 2, 4, 8), g.pick(3, 6, 9)], I64)], {"axes": g.pick([0, 1], [1, 0], [-1, -2])}, 1
    if op == "MeanVarianceNormalization":
        return (op, 13), [g.array([2, g.pick(1, 3), 4, g.pick(2, 5)])], maybe(g, 0.5, axes=g.pick([0, 2, 3], [2, 3])), 1
    if op == "DeformConv":
        groups, kernel = g.pick(1, 2), [g.pick(1, 2, 3), g.pick(1, 3)]
        spans, taps, image = g.pick(1, 2), kernel[0] * kernel[1], [g.pick(4, 7), g.pick(5, 9)]
        strides, pads = [g.pick(1, 2) for _ in range(2)], [g.pick(0, 1)] * 4
        out = [(image[i] + 2 * pads[0] - kernel[i]) // strides[i] + 1 for i in range(2)]
        offset = (g.array([1, spans * taps * 2, *out]) / 7 + 0.01).astype(F32)
        given = [g.array([1, 4, *image]), g.array([6, 4 // groups, *kernel]), offset, g.pick(None, g.array([6])), g.pick(None, g.array([1, spans * taps, *out], low=0, high=4))]
        return (op, 19), given, {"group": groups, "offset_group": spans, "strides": strides, "pads": pads}, 1
    if op == "MelWeightMatrix":
        rate = g.pick(8000, 16000)
        return (op, 17), [np.array(g.pick(1, 5, 20), I64), np.array(g.pick(64, 100, 512), I64), np.array(rate, I64), np.array(g.pick(0.0, 40.0), F32), np.array(rate / 2, F32)], {}, 1
    return (op, 17), [np.array(g.pick(2, 7, 16), g.pick(I32, I64))], maybe(g, 0.5, periodic=0), 1


FAMILIES = (einsum, einsum, grid_sample, grid_sample, regions, suppression, transform, transform, layout, layout)
