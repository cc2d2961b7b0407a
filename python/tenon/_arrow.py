"""Columns of Arrow tables as rows of tensors, and back. pyarrow is imported when the first table comes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tenon._interop import import_memory

Array = np.ndarray[Any, Any]

# Forms of a column of tensors of two or more dimensions: for most programs, and for Spark, which knows no extension types.
FORMS = ("fixed_shape_tensor", "list")


def pyarrow() -> Any:
    """The module. Errors: ImportError."""
    return importlib.import_module("pyarrow")


def is_arrow(batch: Any) -> bool:
    """Whether this is a Table or a RecordBatch."""
    return type(batch).__module__.split(".")[0] == "pyarrow" and hasattr(batch, "column_names")


def _list_values(array: Any, name: str) -> tuple[int, Any]:
    """How many values each list has, and the values. Errors: ValueError for nulls and for lists of different lengths."""
    if array.null_count:
        raise ValueError(
            f'The Arrow column "{name}" has {array.null_count} nulls among {len(array)} rows, which no tensor can hold: fill '
            "or drop them first."
        )
    if len(array) == 0:
        return 0, array.values.slice(0, 0)
    offsets = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    width = int(lengths[0])
    if (lengths != width).any():
        raise ValueError(
            f'The Arrow column "{name}" has rows of {lengths.min()} to {lengths.max()} values, and those of a tensor are '
            "equally long."
        )
    return width, array.values.slice(int(offsets[0]), width * len(array))


def rows_of(array: Any, name: str) -> tuple[Array, int]:
    """The rows of one Arrow array (no chunks), and the bytes that were copied for them.

    Integers, floats, lists of one length, fixed-size lists, arrow.fixed_shape_tensor and Ray's tensors are read where they
    lie: 0 bytes. Bits and strings are converted. Errors: ValueError for nulls, rows of different lengths and other types.
    """
    pa = pyarrow()
    types = pa.types
    shape = [len(array)]
    declared = None
    kind = array.type  # asked for once: an extension's is made anew each time
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.fixed_shape_tensor":
        declared = getattr(kind, "shape", None)
        array = array.storage
        kind = array.type
    while types.is_list(kind) or types.is_large_list(kind):
        width, array = _list_values(array, name)
        shape.append(width)
        kind = array.type
    copied = 0
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        if array.null_count:
            raise ValueError(f'The Arrow column "{name}" has {array.null_count} nulls, which no tensor can hold.')
        rows = array.to_numpy(zero_copy_only=False)
        copied = rows.nbytes if rows.dtype != object else array.nbytes
    else:
        rows = import_memory(array, name=name).numpy()
    inner = tuple(rows.shape[1:])
    if declared is not None:
        return rows.reshape(shape[0], *declared), copied
    return (rows if len(shape) == 1 else rows.reshape(*shape, *inner)), copied


def column_of(rows: Any, name: str, form: str) -> Any:
    """An Arrow array with these rows, over the same memory where Arrow's layout is that of numpy.

    rows: an array whose first dimension counts rows, or a list. form: one of FORMS, for rows that are tensors.
    Errors: ValueError for element types that Arrow does not have.
    """
    pa = pyarrow()
    if not isinstance(rows, np.ndarray):
        if rows and isinstance(rows[0], dict):
            keys, values = zip(*rows[0].items()) if rows[0] else ((), ())
            return pa.array([list(row.items()) for row in rows], pa.map_(pa.array(keys).type, pa.array(values).type))
        return pa.array(rows)
    if rows.dtype.kind not in "biufOUS":
        raise ValueError(f'Output "{name}" is of {rows.dtype}, which Arrow does not have: cast it within the model.')
    if rows.ndim == 1:
        return pa.array(rows)
    flat = pa.array(rows.reshape(-1))
    if form == "list":
        for axis in range(rows.ndim - 1, 0, -1):
            count, width = int(np.prod(rows.shape[:axis])), rows.shape[axis]
            flat = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(width)), flat)
        return flat
    kind = pa.fixed_shape_tensor(flat.type, rows.shape[1:])
    if rows.size == 0:
        return pa.ExtensionArray.from_storage(kind, pa.array([[]] * len(rows), kind.storage_type))
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(flat, type=kind.storage_type))
