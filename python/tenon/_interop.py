"""Memory that is there already, as OrtValues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon import _core
from tenon._core import OrtValue


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
    buffer = getattr(source, "buf", source)  # multiprocessing.shared_memory.SharedMemory has its bytes there
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(
            f"import_memory takes an fd, an array, an object with a buffer, DLPack or Arrow, and this is {source!r}."
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
        (torch tensors, on their device) or with __arrow_c_array__ (a column of numbers, of fixed-size lists, of
        arrow.fixed_shape_tensor).
    shape, element_type: of the tensor; needed for an fd, otherwise what `source` says. The type is numpy's or ONNX's number.
    offset_bytes: where in the memory the tensor begins.
    writable: None as the source says (an fd: True); False makes the value read-only. Arrow's memory is read-only.
    name: for messages.

    The value keeps the source alive: close a SharedMemory after its values and their arrays are gone.
    Errors: ValueError for memory that cannot be used in place (strides, byte order, nulls), that is too small, or read-only
    and asked for with writable=True; TypeError for an object without memory.
    """
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
