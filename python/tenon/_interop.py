"""Memory that is there already, as OrtValues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon import _core, _cuda
from tenon._core import OrtValue


def _on_cuda(source: Any) -> OrtValue:
    """Memory that an object of the CUDA array interface names; when this returns, the producer's work on it is done."""
    interface = source.__cuda_array_interface__
    missing = [key for key in ("shape", "typestr", "data") if interface.get(key) is None]
    if missing:
        raise ValueError(f"The CUDA array interface of {source!r} lacks {', '.join(missing)}.")
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    address, read_only = interface["data"]
    strides, dense = interface.get("strides"), [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        dense[axis] = dense[axis + 1] * shape[axis + 1]
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes and strides and any(n != 1 and s != d for n, s, d in zip(shape, strides, dense)):
        raise ValueError(
            f"The CUDA array of shape {shape} has strides of {tuple(strides)} bytes; memory is used in place where it is "
            f"contiguous, here with {tuple(dense)}."
        )
    if interface.get("mask") is not None:
        raise ValueError("The CUDA array has a mask, which no tensor can hold.")
    if not dtype.isnative or dtype.kind not in "biufc":
        raise ValueError(f"The CUDA array has elements of the type {dtype.str}; tensors have native numbers.")
    ordinal, on_host, managed = _cuda.memory_of(address) if size_bytes else (0, False, False)
    stream = interface.get("stream")
    if stream is not None:
        if stream <= 0:
            raise ValueError(f"The CUDA array names the stream {stream}; the interface has 1, 2, handles and None.")
        _cuda.wait(ordinal, stream)
    return _core._import_cuda(address, list(shape), dtype, bool(read_only), ordinal, on_host, managed, source)


def _in_place(source: Any, name: str) -> OrtValue:
    """The memory of an object that says where it lies."""
    if isinstance(source, OrtValue):
        return source
    if isinstance(source, np.ndarray):
        return _core._import_array(source)
    if hasattr(source, "__arrow_c_array__"):
        schema, array = source.__arrow_c_array__()
        return _core._import_arrow(schema, array, name)
    if hasattr(source, "__dlpack__"):
        return OrtValue.from_dlpack(source)
    if hasattr(source, "__cuda_array_interface__"):
        return _on_cuda(source)
    buffer = getattr(source, "buf", source)  # multiprocessing.shared_memory.SharedMemory has its bytes there
    if buffer is None:
        raise ValueError(f"{source!r} is closed.")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(
            f"import_memory takes an fd, an array, an object with a buffer, DLPack, Arrow or the CUDA array interface, and this is {source!r}."
        ) from None
    return _core._import_array(np.asarray(view))


def import_memory(
    source: Any,
    shape: Sequence[int] | None = None,
    element_type: Any = None,
    *,
    offset_bytes: int = 0,
    writable: bool | None = None,
    name: str = "",
) -> OrtValue:
    """An OrtValue over memory that is there already: nothing is copied, ever.

    source: an fd that can be mapped (memfd, POSIX shared memory, a file), which stays the caller's; a numpy array;
        multiprocessing.shared_memory.SharedMemory, mmap, bytes or another object with a buffer; an object with __dlpack__
        (torch tensors, on the CPU or a CUDA device), with __cuda_array_interface__ (CuPy's and Numba's arrays) or with
        __arrow_c_array__ (a column of numbers, of fixed-size lists, of arrow.fixed_shape_tensor). Of a CUDA device's
        memory the call waits until the producer's work on it is done.
    shape, element_type: of the tensor; needed for an fd, otherwise what `source` says. The type is numpy's or ONNX's number.
    offset_bytes: where in the memory the tensor begins.
    writable: None as the source says (an fd: True); False makes the value read-only. Arrow's memory is read-only.
    name: for messages.

    The value keeps the source alive: close a SharedMemory after its values and their arrays are gone.
    Errors: ValueError for memory that cannot be used in place (strides, byte order, nulls), that is too small, or read-only
    and asked for with writable=True; TypeError for an object without memory; RuntimeError for a CUDA device's memory without
    its driver.
    """
    if offset_bytes < 0:
        raise ValueError(f"offset_bytes is {offset_bytes}, and counts from the begin of the memory.")
    if isinstance(source, int) and not isinstance(source, bool):
        if shape is None or element_type is None:
            raise ValueError(f"An fd ({source}) does not say what lies behind it: give shape and element_type.")
        return _core._import_fd(source, list(shape), element_type, offset_bytes, writable is not False, name)
    value = _in_place(source, name)
    if shape is not None or element_type is not None or offset_bytes != 0:
        if shape is None:
            raise ValueError("With element_type or offset_bytes the shape has to be given, too.")
        value = _core._reshaped(value, list(shape), element_type, offset_bytes)
    if _core._is_read_only(value):
        if writable:
            raise ValueError(f"The memory is read-only, and writable=True asks for more: {type(source).__name__} {name}".rstrip())
    elif writable is False:
        value = _core._as_read_only(value)
    return value
