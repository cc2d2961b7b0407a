"""Mixtures of experts, of floats and of weights with few bits."""
import numpy as np

from contrib_problems import problem


def packed(codes, bits):
    """Codes of a row in bytes, the first in the lowest bits; the last byte is filled with zeros."""
    each = 8 // bits
    filled = np.concatenate([codes, np.zeros((*codes.shape[:-1], -codes.shape[-1] % each), codes.dtype)], -1)
    parts = filled.reshape(*filled.shape[:-1], -1, each).astype(np.uint8)
    return np.bitwise_or.reduce([parts[..., i] << (bits * i) for i in range(each)], axis=0)


def problems():
    rng = np.random.default_rng(13)

    def floats(*shape, low=-1.0, high=1.0):
        return rng.uniform(low, high, shape).astype(np.float32)

    found = []
    for activation in (None, "relu", "gelu", "silu", "identity", "swiglu"):
        for chosen, normalize in ((1, 0), (2, 1), (3, 0), (5, 1)):
            for tokens in ((4,), (2, 20), (1, 1)):
                experts, hidden, inner = 5, 12, 20
                rows = 2 * inner if activation == "swiglu" else inner
                more = dict(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.5 if chosen > 1 else None) if activation == "swiglu" else {}
                bias = (lambda *shape: floats(*shape)) if chosen != 3 else (lambda *shape: None)
                found.append(problem("MoE", [floats(*tokens, hidden), floats(int(np.prod(tokens)), experts), floats(experts, rows, hidden), bias(experts, rows),
                                             floats(experts, hidden, inner), bias(experts, hidden)], activation_type=activation, k=chosen,
                                     normalize_routing_weights=normalize, constants=(2, 3, 4, 5) if chosen in (1, 5) else (), dynamic=chosen == 2, **more))
    same = np.full((3, 4), 0.5, np.float32)
    found.append(problem("MoE", [floats(3, 8), same, floats(4, 8, 8), None, floats(4, 8, 8)], k=2, title="equal scores"))
    found.append(problem("MoE", [floats(3, 8), floats(3, 4), floats(4, 8, 8), None, floats(4, 8, 8)], k=2, use_sparse_mixer=1))
    for bits in (2, 4, 8):
        for block in (None, 16, 32):
            for has_zeros in (False, True):
                for activation in ("silu", "swiglu"):
                    for count in (1, 5, 40):
                        found.append(quantised(rng, floats, bits, block, has_zeros, activation, count))
    return found


def quantised(rng, floats, bits, block, has_zeros, activation, tokens):
    experts, hidden, inner = 4, 32, 64
    rows = 2 * inner if activation == "swiglu" else inner

    def weights(n, k):
        blocks = 1 if block is None else k // block
        codes = rng.integers(0, 2 ** bits, (experts, n, k))
        scales = floats(experts, n, blocks, low=0.01, high=0.05) / 2 ** bits
        zeros = rng.integers(2 ** bits // 4, 2 ** bits // 2 + 1, (experts, n, blocks)) if has_zeros else None
        if block is None:
            return packed(codes, bits), scales[..., 0], None if zeros is None else packed(zeros[..., 0], bits)
        return packed(codes, bits), scales, None if zeros is None else packed(zeros, bits)

    first, scales, zeros = weights(rows, hidden)
    second, second_scales, second_zeros = weights(hidden, inner)
    kind = np.float16 if tokens == 5 and bits == 4 else np.float32
    shares = floats(tokens, experts, low=0.1).astype(kind) if tokens == 5 else None
    more = dict(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0) if activation == "swiglu" else {}
    constant = tokens != 40 or bits == 4
    # ONNX Runtime rounds the rows to int8 where it has kernels of bytes.
    coarse = block is not None and (bits == 8 or (bits == 2 and block == 32))
    return problem("QMoE", [floats(tokens, hidden).astype(kind), floats(tokens, experts).astype(kind), first, scales.astype(kind), floats(experts, rows).astype(kind),
                            second, second_scales.astype(kind), floats(experts, hidden).astype(kind), None, None, None, zeros, second_zeros, None, shares],
                   k=2, expert_weight_bits=bits, block_size=block, activation_type=activation, normalize_routing_weights=tokens // 40 if shares is not None else None,
                   constants=(2, 3, 4, 5, 6, 7, 11, 12) if constant else (), dynamic=tokens == 5 and bits == 2, tolerance=2e-2 if coarse else None, **more)
