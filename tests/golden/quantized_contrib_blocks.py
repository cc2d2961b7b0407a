"""MatMulNBits, MatMulBnb4 and GatherBlockQuantized."""
import ml_dtypes
import numpy as np

from quantized_contrib_test import Problem


def packed(rng, rows, count, bits):
    """`rows` rows of `count` elements; bits of the last byte that no element has are 0."""
    values = rng.integers(0, 1 << bits, (rows, count)).astype(np.uint8)
    each = 8 // bits
    padded = np.zeros((rows, -(-count // each) * each), np.uint8)
    padded[:, :count] = values
    return sum(padded[:, i::each].astype(np.uint16) << (i * bits) for i in range(each)).astype(np.uint8)


def nbits(name, a, n, block=32, bits=4, zeros="none", bias=False, groups=False, dtype=np.float32, seed=1, **attributes):
    rng = np.random.default_rng(seed)
    k = a[-1]
    blocks = -(-k // block)
    b = packed(rng, n * blocks, block, bits).reshape(n, blocks, -1)
    zero_points = {"none": None, "packed": packed(rng, n, blocks, bits).reshape(-1), "numbers": rng.uniform(0, 1 << bits, (n, blocks)).astype(dtype)}[zeros]
    inputs = [rng.uniform(-1, 1, a).astype(dtype), b, rng.uniform(-0.1, 0.1, (n, blocks)).astype(dtype), zero_points,
              rng.permutation(np.arange(blocks * block) // block)[:k].astype(np.int32) if groups else None, rng.uniform(-1, 1, n).astype(dtype) if bias else None]
    tolerance = 2e-5 if dtype == np.float32 else 2e-3
    return Problem(name, "MatMulNBits", inputs, {"N": n, "K": k, "block_size": block, "bits": bits, **attributes}, weights=(1, 2, 3, 4, 5), tolerance=tolerance)


# The numbers that four bits stand for, of FP4 and NF4.
BNB4 = np.array([[0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4, 0, -1 / 192, -2 / 3, -1, -1 / 3, -1 / 2, -1 / 6, -1 / 4],
                 [-1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123, 0.33791524,
                  0.44070983, 0.562617, 0.72295684, 1]])


def bnb4(name, a, n, block=16, kind=1, dtype=np.float32, **attributes):
    rng = np.random.default_rng(2)
    k = a[-1]
    if attributes.get("transB") == 0:
        n, k = k, n
    inputs = [rng.uniform(-1, 1, a).astype(dtype), rng.integers(0, 256, (n * k + 1) // 2).astype(np.uint8),
              rng.uniform(0.01, 0.1, -(-n * k // block)).astype(dtype)]
    problem = Problem(name, "MatMulBnb4", inputs, {"N": n, "K": k, "block_size": block, "quant_type": kind, **attributes}, weights=(1, 2), tolerance=2e-5)
    if attributes.get("transB") == 0:  # ONNX Runtime reads rows of K where they have N
        codes = np.stack([inputs[1] >> 4, inputs[1] & 15], -1).reshape(-1)
        b = BNB4[kind][codes] * np.repeat(inputs[2], block)
        problem.expected = lambda: [(inputs[0].astype(np.float64) @ b.reshape(n, k)).astype(dtype)]
    return problem


def gather(name, data_type, shape, indices, axis, along, block=16, bits=4, zeros=False, dtype=np.float32):
    rng = np.random.default_rng(3)
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "uint8": (0, 256)}[data_type]
    dtype_of = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "uint8": np.uint8}[data_type]
    data = rng.integers(low, high, shape).astype(np.int16).astype(dtype_of)
    logical = list(shape)
    if data_type == "uint8" and bits == 4:
        logical[-1] *= 2
    scales = list(logical)
    scales[along] = -(-scales[along] // block)
    zero_shape = list(scales)
    if data_type == "uint8" and bits == 4:
        zero_shape[-1] = -(-zero_shape[-1] // 2)
    zero = rng.integers(low, high, zero_shape).astype(np.int16).astype(dtype_of) if zeros else None
    inputs = [data, np.array(indices), rng.uniform(0.01, 0.1, scales).astype(dtype), zero]
    attributes = {"gather_axis": axis, "quantize_axis": along, "block_size": block}
    if data_type == "uint8":
        attributes["bits"] = bits
    return Problem(name, "GatherBlockQuantized", inputs, attributes, weights=(0, 2, 3), tolerance=2e-6)


def problems():
    for bits in (2, 4, 8):
        for zeros in ("none", "packed", "numbers"):
            if bits == 8 and zeros == "numbers":
                continue  # ONNX Runtime has no kernel
            for rows in (1, 3, 20):
                yield nbits(f"{bits} bits, zero points {zeros}, {rows} rows", (rows, 64), 24, bits=bits, zeros=zeros)
        yield nbits(f"{bits} bits, K that no block divides", (2, 100), 17, bits=bits, zeros="packed")
    for block in (16, 64, 128, 256):
        yield nbits(f"blocks of {block}", (2, 3, 256), 33, block=block, zeros="packed")
    yield nbits("bias", (5, 96), 40, bias=True)
    yield nbits("groups", (5, 96), 40, groups=True)  # beside g_idx ONNX Runtime leaves zero points out
    yield nbits("one column", (1, 32), 1)
    yield nbits("accuracy 1", (4, 96), 40, accuracy_level=1)
    # A is rounded to int8 block by block, and ties go either way.
    for rows in (1, 3, 21):
        for zeros in ("none", "packed"):
            problem = nbits(f"accuracy 4, {rows} rows, zero points {zeros}", (rows, 200), 40, zeros=zeros, bias=rows == 3, accuracy_level=4)
            problem.tolerance = 2e-2
            yield problem
    yield nbits("large row", (1, 1024), 300, zeros="packed", bias=True)
    yield nbits("large", (40, 640), 200, zeros="packed")
    yield nbits("no rows", (0, 64), 8)
    yield nbits("float16", (3, 96), 24, dtype=np.float16)
    yield nbits("float16, zero points", (3, 96), 24, zeros="packed", dtype=np.float16)
    for kind in (0, 1):
        for block in (16, 64):
            yield bnb4(f"kind {kind}, blocks of {block}", (3, 64), 10, block=block, kind=kind)
        yield bnb4(f"kind {kind}, one row", (1, 128), 33, kind=kind)
        yield bnb4(f"kind {kind}, as it lies", (2, 5, 24), 32, kind=kind, transB=0)
    for zeros in (False, True):
        for data_type in ("int4", "uint4"):
            yield gather(f"{data_type} {zeros}", data_type, (9, 48), [[0, 3], [8, -1]], 0, 1, zeros=zeros)
            yield gather(f"{data_type} {zeros}, axis 1", data_type, (32, 5, 3), [4, 0], 1, 0, zeros=zeros)
        yield gather(f"uint8, 8 bits {zeros}", "uint8", (9, 48), [1, 3], 0, 1, bits=8, zeros=zeros)
        yield gather(f"uint8, 4 bits {zeros}", "uint8", (9, 24), np.array(2), 0, 1, zeros=zeros)
        yield gather(f"uint8, 4 bits {zeros}, 3 blocks", "uint8", (9, 24), np.array([2, 5], np.int32), 0, 1, zeros=zeros)
