"""Functions of onnxruntime's native module that its own tools call: they quantize weights in blocks.

onnxruntime.quantization.matmul_nbits_quantizer imports them from onnxruntime.capi._pybind_state. The arguments are
onnxruntime's; results are written into the arrays that the caller gives, with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]


def _quantized(src: _Array, bits: int, block_size: int, symmetric: bool) -> tuple[_Array, _Array, _Array]:
    """A matrix of K rows in blocks of rows: (elements [K, N], scales [blocks, N], zero points [blocks, N])."""
    rows, columns = src.shape
    blocks = -(-rows // block_size)
    half, top = 1 << (bits - 1), (1 << bits) - 1
    padded = np.zeros((blocks * block_size, columns), np.float32)
    padded[:rows] = src
    values = padded.reshape(blocks, block_size, columns)
    low, high = np.minimum(values.min(1), 0), np.maximum(values.max(1), 0)
    if symmetric:
        scales = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-half)
    else:
        scales = (high - low) / np.float32(top)
    divisors = np.where(scales == 0, np.float32(1), scales)
    zero_points = np.full(scales.shape, float(half)) if symmetric else np.floor(-low / divisors + np.float32(0.5))
    zero_points = np.clip(zero_points, 0, top).astype(np.uint8)
    # Elements are divided by the scale as it is stored.
    scales = scales.astype(src.dtype)
    stored = scales.astype(np.float32)
    with np.errstate(divide="ignore"):
        factors = np.where(stored == 0, np.float32(0), np.float32(1) / stored)
    scaled = values * factors[:, None] + zero_points[:, None].astype(np.float32)
    rounded = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)
    elements = np.clip(rounded, 0, top).astype(np.uint8).reshape(-1, columns)
    return elements[:rows], scales, zero_points


def _packed(elements: _Array, bits: int, fill: int) -> _Array:
    """The last axis in bytes, the first element in the lowest bits; `fill` completes the last byte."""
    per_byte = 8 // bits
    missing = -elements.shape[-1] % per_byte
    widths = [(0, 0)] * (elements.ndim - 1) + [(0, missing)]
    padded = np.pad(elements, widths, constant_values=fill).reshape(*elements.shape[:-1], -1, per_byte)
    packed: _Array = np.bitwise_or.reduce(padded << np.arange(0, 8, bits, dtype=np.uint8), axis=-1, dtype=np.uint8)
    return packed


def _check(dst: _Array, src: _Array, rows: int, columns: int, block_size: int) -> None:
    if src.shape != (rows, columns):
        raise ValueError(f"The weight has the shape {src.shape}, and {rows} rows and {columns} columns are said.")
    if block_size <= 0:
        raise ValueError(f"The block size is {block_size}.")
    if dst.dtype != np.uint8:
        raise TypeError(f"Packed elements are bytes, and the array for them has the dtype {dst.dtype}.")


def _quantize_matmul(
    bits: int,
    dst: _Array,
    src: _Array,
    scale: _Array,
    zero_points: _Array,
    block_size: int,
    columns: int,
    rows: int,
    symmetric: bool,
) -> None:
    """MatMulNBits' layout: for each column its blocks, one after the other."""
    _check(dst, src, rows, columns, block_size)
    elements, scales, zeros = _quantized(src, bits, block_size, symmetric)
    blocks = scales.shape[0]
    padded = np.zeros((blocks * block_size, columns), np.uint8)
    padded[:rows] = elements
    packed = _packed(padded.T.reshape(columns, blocks, block_size), bits, 0)
    used = -(-rows * bits // 8)
    for_columns = dst.reshape(columns, -1)
    for_columns[:, :used] = packed.reshape(columns, -1)[:, :used]
    scale.reshape(-1)[:] = scales.T.reshape(-1)
    if not symmetric:
        zero_points.reshape(-1)[:] = _packed(np.ascontiguousarray(zeros.T), bits, 1 << (bits - 1)).reshape(-1)


def _quantize_qdq(
    bits: int,
    dst: _Array,
    src: _Array,
    scale: _Array,
    zero_points: _Array,
    block_size: int,
    columns: int,
    rows: int,
    symmetric: bool,
) -> bool:
    """DequantizeLinear's layout: rows one after the other. True where the elements are signed."""
    _check(dst, src, rows, columns, block_size)
    elements, scales, zeros = _quantized(src, bits, block_size, symmetric)
    if symmetric:
        elements = elements ^ (1 << (bits - 1))  # two's complement of what is left without the zero point
    dst.reshape(-1)[:] = _packed(elements.reshape(-1), bits, 0)
    scale.reshape(-1)[:] = scales.reshape(-1)
    if not symmetric:
        zero_points.reshape(-1)[:] = _packed(zeros.reshape(-1), bits, 0)
    return symmetric


def quantize_matmul_2bits(*arguments: Any) -> None:
    """(dst, src, scale, zero_points, block_size, columns, rows, is_symmetric): 2 bits, for MatMulNBits."""
    _quantize_matmul(2, *arguments)


def quantize_matmul_4bits(*arguments: Any) -> None:
    """(dst, src, scale, zero_points, block_size, columns, rows, is_symmetric): 4 bits, for MatMulNBits."""
    _quantize_matmul(4, *arguments)


def quantize_matmul_8bits(*arguments: Any) -> None:
    """(dst, src, scale, zero_points, block_size, columns, rows, is_symmetric): 8 bits, for MatMulNBits."""
    _quantize_matmul(8, *arguments)


def quantize_qdq_matmul_2bits(*arguments: Any) -> bool:
    """(dst, src, scale, zero_points, block_size, columns, rows, is_symmetric): 2 bits, for DequantizeLinear."""
    return _quantize_qdq(2, *arguments)


def quantize_qdq_matmul_4bits(*arguments: Any) -> bool:
    """(dst, src, scale, zero_points, block_size, columns, rows, is_symmetric): 4 bits, for DequantizeLinear."""
    return _quantize_qdq(4, *arguments)


# Where the 4-bit types of bitsandbytes change from one value to the next.
_FP4_BOUNDS = (0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333)
_FP4_CODES = np.array([0b0000, 0b0001, 0b0110, 0b0111, 0b0100, 0b0101, 0b0010, 0b0011], np.uint8)
_NF4_BOUNDS = (
    -0.8480964004993439,
    -0.6106329262256622,
    -0.4599952697753906,
    -0.33967943489551544,
    -0.23460740596055984,
    -0.13791173323988914,
    -0.045525018125772476,
    0.03979014977812767,
    0.1202552504837513,
    0.2035212516784668,
    0.2920137718319893,
    0.3893125355243683,
    0.5016634166240692,
    0.6427869200706482,
    0.8614784181118011,
)


def quantize_matmul_bnb4(
    dst: _Array, src: _Array, absmax: _Array, block_size: int, quant_type: int, columns: int, rows: int
) -> None:
    """MatMulBnb4's layout, FP4 (`quant_type` 0) or NF4 (1): the transposed weight in blocks, the first element in high bits."""
    _check(dst, src, columns, rows, block_size)
    if quant_type not in (0, 1):
        raise ValueError(f"The type of 4 bits is 0 (FP4) or 1 (NF4), and {quant_type} is given.")
    flat = np.ascontiguousarray(src, np.float32).reshape(-1)
    blocks = -(-flat.size // block_size)
    padded = np.zeros(blocks * block_size, np.float32)
    padded[: flat.size] = flat
    values = padded.reshape(blocks, block_size)
    largest = np.abs(values).max(1)
    factors = np.where(largest > 0, np.float32(1) / np.where(largest > 0, largest, np.float32(1)), np.float32(0))
    scaled = values * factors[:, None].astype(np.float32)
    if quant_type == 0:
        codes = _FP4_CODES[np.searchsorted(np.array(_FP4_BOUNDS, np.float32), np.abs(scaled))]
        codes = codes + np.where(scaled < 0, np.uint8(0b1000), np.uint8(0))
    else:
        codes = np.searchsorted(np.array(_NF4_BOUNDS, np.float32), scaled).astype(np.uint8)
    elements = codes.reshape(-1)[: flat.size]
    if elements.size % 2 != 0:
        elements = np.append(elements, np.uint8(7 if quant_type == 1 else 0))  # zero
    dst.reshape(-1)[: elements.size // 2] = (elements[::2] << 4) | elements[1::2]
    absmax.reshape(-1)[:] = largest
