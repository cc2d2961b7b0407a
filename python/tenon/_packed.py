"""Arrays of ml_dtypes whose elements have less than a byte: numpy keeps one in a byte, ONNX packs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon import _core
from tenon._core import OrtValue

# ml_dtypes' name, ONNX's number, bits, and the bit of the sign (0: none).
_TYPES = (
    ("uint4", 21, 4, 0),
    ("int4", 22, 4, 8),
    ("float4_e2m1fn", 23, 4, 0),
    ("uint2", 25, 2, 0),
    ("int2", 26, 2, 2),
)


def pack(array: np.ndarray[Any, Any]) -> OrtValue | None:
    """The array as a value of its packed ONNX type; None for an array whose elements are not packed in ONNX."""
    for name, number, bits, _ in _TYPES:
        if array.dtype.name == name:
            per_byte = 8 // bits
            flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & ((1 << bits) - 1)
            flat = np.pad(flat, (0, -len(flat) % per_byte)).reshape(-1, per_byte)
            packed = np.bitwise_or.reduce(flat << np.arange(0, 8, bits, dtype=np.uint8), axis=1, dtype=np.uint8)
            return _core._reshaped(_core._import_array(packed), list(array.shape), number, 0)
    return None


def unpack(value: OrtValue) -> np.ndarray[Any, Any] | None:
    """A tensor of a packed ONNX type as an array of ml_dtypes; None for another tensor."""
    number, shape = value.element_type(), value.shape()
    for name, known, bits, sign in _TYPES:
        if number != known:
            continue
        import ml_dtypes

        packed = _core._reshaped(value, [value.tensor_size_in_bytes()], np.uint8, 0).numpy()
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        flat = ((packed[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[: int(np.prod(shape, dtype=np.int64))]
        if name.startswith("float"):
            unpacked: np.ndarray[Any, Any] = flat.view(getattr(ml_dtypes, name))
        else:
            unpacked = ((flat ^ sign).astype(np.int8) - sign).astype(getattr(ml_dtypes, name))
        return unpacked.reshape(shape)
    return None
