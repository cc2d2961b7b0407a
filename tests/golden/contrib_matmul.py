"""Products, convolutions and pools of com.microsoft with what is fused into them."""
import numpy as np

from contrib_problems import problem


def packed(codes, scales, zeros):
    """The bytes of MatMulFpQ4: blocks of 32 codes of a column, each behind its scale and zero point."""
    written = bytearray()
    for column in range(codes.shape[0]):
        for block in range(scales.shape[1]):
            part = codes[column, 32 * block:32 * block + 32]
            zero = 8 if zeros is None else zeros[column, block]
            part = np.concatenate([part, np.full(32 - len(part), zero, np.uint8)])
            written += np.float32(scales[column, block]).tobytes() + (b"" if zeros is None else bytes([zero])) + (part[:16] | part[16:] << 4).tobytes()
    return np.frombuffer(bytes(written), np.uint8)


def problems():
    rng = np.random.default_rng(2)

    def floats(*shape, kind=np.float32):
        return rng.uniform(-1, 1, shape).astype(kind)

    found = []
    for operator in ("FusedMatMul", "TransposeMatMul"):
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            for batch in ((), (2,), (2, 3)):
                left, right = batch + ((5, 4) if a else (4, 5)), batch + ((6, 5) if b else (5, 6))
                for alpha, dynamic, constants in ((1.0, False, ()), (0.5, True, ()), (-2.0, False, (1,))):
                    found.append(problem(operator, [floats(*left), floats(*right)], transA=a, transB=b, alpha=alpha, dynamic=dynamic, constants=constants))
                found.append(problem(operator, [floats(*left), floats(*right)], transA=a, transB=b, alpha=0.5, dynamic="unranked"))
        found.append(problem(operator, [floats(5), floats(5, 6)], alpha=0.5))
        found.append(problem(operator, [floats(4, 5), floats(5)], alpha=0.5))
        found.append(problem(operator, [floats(2, 3, 4, 5), floats(5, 6)], alpha=0.25))
    for kind in (0, 1):
        for rows, columns in ((64, 5), (100, 7), (31, 3)):
            blocks = -(-rows // 32)
            zeros = rng.integers(0, 16, (columns, blocks)).astype(np.uint8) if kind else None
            blob = packed(rng.integers(0, 16, (columns, rows)).astype(np.uint8), rng.uniform(0.1, 1, (columns, blocks)), zeros)
            found.append(problem("MatMulFpQ4", [floats(2, 3, rows), blob, np.array([rows, columns])], constants=[1, 2], blk_quant_type=kind, dynamic=rows == 31))
    found.append(problem("FusedMatMul", [floats(3, 4, 5, kind=np.float64), floats(3, 6, 5, kind=np.float64)], transB=1, alpha=0.25))
    for a, b in ((1, 0), (0, 1), (1, 1)):
        for matrix in ((0, 0), (1, 0), (0, 1)):
            # [batch, heads, rows, columns] with the first of a matrix before the batch.
            def operand(rows, columns, moved, turned):
                shape = [2, 3, columns, rows] if turned else [2, 3, rows, columns]
                return floats(*([shape[2], shape[0], shape[1], shape[3]] if moved else shape))

            found.append(problem("FusedMatMul", [operand(4, 5, a, matrix[0]), operand(5, 6, b, matrix[1])], transBatchA=a, transBatchB=b, transA=matrix[0],
                                 transB=matrix[1], alpha=0.5))
    activations = (("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.25}),
                   ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}))
    for activation, parameters in activations:
        for turned in (0, 1):
            left, right = (5, 4) if turned else (4, 5), (6, 5) if turned else (5, 6)
            for bias in (None, (6,), (4, 6), (4, 1)):
                found.append(problem("FusedGemm", [floats(*left), floats(*right), None if bias is None else floats(*bias)], transA=turned, transB=turned, alpha=0.5,
                                     beta=2.0, activation=activation, **parameters))
        listed = list(parameters.values()) or None
        for residual in (False, True):
            inputs = [floats(1, 4, 6, 5), floats(8, 4, 3, 3), floats(8)]
            found.append(problem("FusedConv", inputs + ([floats(1, 8, 6, 5)] if residual else []), pads=[1, 1, 1, 1], kernel_shape=[3, 3], activation=activation,
                                 activation_params=listed, constants=(1, 2)))
    found.append(problem("FusedConv", [floats(2, 4, 6, 5), floats(8, 2, 3, 3), None, floats(2, 8, 3, 3)], group=2, strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3],
                         activation="Clip", activation_params=[-0.5, 0.5]))
    found.append(problem("FusedConv", [floats(2, 4, 6, 5), floats(4, 1, 3, 3), floats(4)], group=4, auto_pad="SAME_UPPER", kernel_shape=[3, 3], activation="Relu",
                         constants=(1, 2), dynamic=True))
    for kind in (np.int8, np.uint8):
        data = rng.integers(0, 100, (2, 7, 6, 5)).astype(kind)
        found.append(problem("NhwcMaxPool", [data], title=np.dtype(kind).name, kernel_shape=[3, 2]))
        found.append(problem("NhwcMaxPool", [data], title=np.dtype(kind).name, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1))
        found.append(problem("NhwcMaxPool", [data], title=np.dtype(kind).name, kernel_shape=[2, 2], dilations=[2, 1], auto_pad="VALID"))
    found.append(problem("ConvTransposeWithDynamicPads", [floats(1, 3, 4, 5), floats(3, 6, 3, 3), np.array([1, 0, 1, 2]), floats(6)], constants=(2,), strides=[2, 2]))
    return found
