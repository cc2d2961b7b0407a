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
