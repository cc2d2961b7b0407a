"""Takes a model apart: its structure, and its large tensors as arrays, which may lie anywhere (a shared object store)."""

from __future__ import annotations

import copy
import math
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from tenon._core import InvalidProtobuf, SessionOptions
from tenon._interop import import_memory
from tenon._session import InferenceSession, Provider

Buffer = Union[bytes, memoryview]

# Smaller tensors stay in the structure: an array of its own costs more than they do.
_SMALLEST_BYTES = 4096
# ONNX's element types of whole bytes, and their sizes. bool stays in the structure, whose reader checks its bytes.
_SIZES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2, 17: 1, 18: 1, 19: 1, 20: 1, 24: 1}
# Of the types that stay in the structure and may have external data: bits of an element.
_OTHER_BITS = {9: 8, 14: 64, 15: 128, 21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}

# Field numbers of onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_OUTPUT, _NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 2, 4, 5, 7
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = 5, 6, 10, 11
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 1, 2, 8, 9, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class TensorPart:
    """A large initializer: `data` has its bytes, of ONNX's `element_type` and of `shape`."""

    name: str
    element_type: int
    shape: tuple[int, ...]
    data: np.ndarray[Any, Any]

    def aligned(self) -> np.ndarray[Any, Any]:
        """`data`, or a copy where elements may not be read at its address."""
        return self.data if self.data.ctypes.data % _SIZES[self.element_type] == 0 else self.data.copy()


@dataclass(frozen=True)
class ModelParts:
    """A model whose large initializers lie in arrays of their own."""

    name: str
    structure: bytes
    tensors: list[TensorPart]

    @property
    def size_bytes(self) -> int:
        """Of all parts together."""
        return len(self.structure) + sum(part.data.nbytes for part in self.tensors)

    def session(
        self, sess_options: SessionOptions | None = None, providers: Sequence[Provider] | None = None
    ) -> InferenceSession:
        """A session that reads the tensors where they lie, and keeps the arrays alive.

        Only an array that is not aligned to its elements is copied: parts of a file may be, those in Ray's store are not.
        """
        options = SessionOptions() if sess_options is None else copy.copy(sess_options)
        values = [import_memory(part.aligned(), part.shape, part.element_type, name=part.name) for part in self.tensors]
        if values:
            options.add_external_initializers([part.name for part in self.tensors], values)
        return InferenceSession(self.structure, options, providers)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise InvalidProtobuf(f"The model's protobuf encoding is broken at byte {at} of a message.")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _to_varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _field(number: int, payload: Buffer) -> list[Buffer]:
    return [_to_varint(number << 3 | _BYTES) + _to_varint(len(payload)), payload]


def _number(number: int, value: int) -> bytes:
    return _to_varint(number << 3 | _VARINT) + _to_varint(value)


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview, memoryview | int]]:
    """Number, wire type, the whole field and its payload (a number for varints), one after the other."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        payload: memoryview | int
        if wire == _VARINT:
            payload, at = _varint(message, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(wire, -1)
            if wire == _BYTES:
                size, at = _varint(message, at)
            if size < 0 or size > len(message) - at:
                raise InvalidProtobuf(f"The model's protobuf encoding is broken at byte {at} of a message.")
            payload, at = message[at : at + size], at + size
        yield number, wire, message[begin:at], payload


def _text(payload: memoryview | int) -> str:
    return str(payload) if isinstance(payload, int) else bytes(payload).decode("utf-8", "replace")


@dataclass
class _Tensor:
    name: str = ""
    element_type: int = 0
    shape: list[int] = field(default_factory=list)
    raw: memoryview | None = None
    is_external: bool = False
    external: dict[str, str] = field(default_factory=dict)

    def size_bytes(self) -> int:
        count = math.prod(self.shape)
        if self.element_type in _SIZES:
            return count * _SIZES[self.element_type]
        return (count * _OTHER_BITS.get(self.element_type, 0) + 7) // 8


def _tensor_of(message: memoryview) -> _Tensor:
    tensor = _Tensor()
    for number, wire, _, payload in _fields(message):
        if number == _TENSOR_DIMS and isinstance(payload, int):
            tensor.shape.append(payload)
        elif number == _TENSOR_DIMS and not isinstance(payload, int):
            at = 0
            while at < len(payload):
                dim, at = _varint(payload, at)
                tensor.shape.append(dim)
        elif number == _TENSOR_TYPE and isinstance(payload, int):
            tensor.element_type = payload
        elif number == _TENSOR_NAME:
            tensor.name = _text(payload)
        elif number == _TENSOR_RAW and not isinstance(payload, int):
            tensor.raw = payload
        elif number == _TENSOR_LOCATION:
            tensor.is_external = payload == 1
        elif number == _TENSOR_EXTERNAL and wire == _BYTES and not isinstance(payload, int):
            entry = {inner: _text(text) for inner, _, _, text in _fields(payload)}
            tensor.external[entry.get(1, "")] = entry.get(2, "")
    return tensor


class _Files:
    """The files with external data beside a model, each mapped once. None of them may lie outside its folder."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._mapped: dict[str, memoryview] = {}

    def bytes_of(self, tensor: _Tensor) -> memoryview:
        location = tensor.external.get("location", "")
        data = self._mapped.get(location)
        if data is None:
            data = self._mapped[location] = self._map(tensor.name, location)
        size_bytes = tensor.size_bytes()
        try:
            offset = int(tensor.external.get("offset") or 0)
            length = int(tensor.external.get("length") or size_bytes)
        except ValueError:
            raise ValueError(f'Tensor "{tensor.name}" has an external offset or length that is no number.') from None
        if length != size_bytes:
            raise ValueError(
                f'Tensor "{tensor.name}" of shape {tensor.shape} takes {size_bytes} bytes, and its external data has {length}.'
            )
        if offset < 0 or offset + length > len(data):
            raise ValueError(
                f'Offset ({offset}) plus size ({length}) of tensor "{tensor.name}" exceeds the external file "{location}" '
                f"({len(data)} bytes)."
            )
        return data[offset : offset + length]

    def _map(self, name: str, location: str) -> memoryview:
        if self._folder is None:
            raise ValueError(f'Tensor "{name}" is in the file "{location}", and a model of bytes has no folder to look in.')
        folder = os.path.realpath(self._folder)
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.isabs(location) or os.path.commonpath([folder, path]) != folder:
            raise ValueError(f'Tensor "{name}" is in the file "{location}", which lies outside of the model\'s folder.')
        return map_file(path)


def map_file(path: str) -> memoryview:
    """The bytes of a file, as they lie in the page cache. Errors: OSError."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class _Splitter:
    def __init__(self, files: _Files) -> None:
        self._files = files
        self.tensors: list[TensorPart] = []

    def model(self, message: memoryview) -> bytes:
        fields = list(_fields(message))
        graphs = [payload for number, wire, _, payload in fields if number == _MODEL_GRAPH and wire == _BYTES]
        made: list[Buffer] = []
        for number, _, whole, payload in fields:
            if number == _MODEL_GRAPH and len(graphs) == 1 and not isinstance(payload, int):
                made += _field(number, self._main_graph(payload))
            else:
                made.append(whole)
        return b"".join(made)

    def _main_graph(self, message: memoryview) -> bytes:
        made: list[Buffer] = []
        names: set[str] = set()
        for number, wire, whole, payload in _fields(message):
            if wire != _BYTES or isinstance(payload, int):
                made.append(whole)
            elif number == _GRAPH_INITIALIZER:
                made += self._initializer(_tensor_of(payload), payload, names)
            elif number == _GRAPH_NODE:
                made += self._node_of_main_graph(payload, names)
            else:
                made.append(whole)
        return b"".join(made)

    def _initializer(self, tensor: _Tensor, message: memoryview, names: set[str]) -> list[Buffer]:
        known = tensor.name in names
        names.add(tensor.name)
        data = self._files.bytes_of(tensor) if tensor.is_external else tensor.raw
        if known or data is None or tensor.element_type not in _SIZES or len(data) < _SMALLEST_BYTES:
            return _field(_GRAPH_INITIALIZER, self._inlined(message))
        if len(data) != tensor.size_bytes():
            raise ValueError(
                f'Tensor "{tensor.name}" of shape {tensor.shape} takes {tensor.size_bytes()} bytes, and its data has '
                f"{len(data)}."
            )
        array = np.frombuffer(data, np.uint8)
        self.tensors.append(TensorPart(tensor.name, tensor.element_type, tuple(tensor.shape), array))
        kept: list[Buffer] = [_number(_TENSOR_DIMS, dim) for dim in tensor.shape]
        kept.append(_number(_TENSOR_TYPE, tensor.element_type))
        kept += _field(_TENSOR_NAME, tensor.name.encode())
        kept += _field(_TENSOR_EXTERNAL, b"".join([*_field(1, b"location"), *_field(2, b"given by add_external_initializers")]))
        kept.append(_number(_TENSOR_LOCATION, 1))
        return _field(_GRAPH_INITIALIZER, b"".join(kept))

    def _node_of_main_graph(self, message: memoryview, names: set[str]) -> list[Buffer]:
        """A Constant node with a large tensor becomes an initializer, which it is to a session anyway."""
        if len(message) >= _SMALLEST_BYTES or b"location" in bytes(message):
            texts: dict[int, str] = {}
            attributes: list[memoryview] = []
            for number, _, _, payload in _fields(message):
                if number in (_NODE_OUTPUT, _NODE_OP_TYPE, _NODE_DOMAIN):
                    texts[number] = _text(payload)
                elif number == _NODE_ATTRIBUTE and not isinstance(payload, int):
                    attributes.append(payload)
            is_constant = texts.get(_NODE_OP_TYPE) == "Constant" and texts.get(_NODE_DOMAIN, "") in ("", "ai.onnx")
            if is_constant and len(attributes) == 1:
                for number, wire, _, payload in _fields(attributes[0]):
                    if number == _ATTRIBUTE_TENSOR and wire == _BYTES and not isinstance(payload, int):
                        tensor = _tensor_of(payload)
                        tensor.name = texts.get(_NODE_OUTPUT, "")
                        before = len(self.tensors)
                        made = self._initializer(tensor, payload, names)
                        if len(self.tensors) > before:
                            return made
        return _field(_GRAPH_NODE, self._node(message))

    # Below the main graph, external data move into the structure: bytes have no folder beside them.
    def _node(self, message: memoryview) -> Buffer:
        if b"location" not in bytes(message):
            return message
        return self._mapped(message, {_NODE_ATTRIBUTE: self._attribute})

    def _attribute(self, message: memoryview) -> Buffer:
        return self._mapped(
            message,
            {
                _ATTRIBUTE_TENSOR: self._inlined,
                _ATTRIBUTE_TENSORS: self._inlined,
                _ATTRIBUTE_GRAPH: self._graph,
                _ATTRIBUTE_GRAPHS: self._graph,
            },
        )

    def _graph(self, message: memoryview) -> Buffer:
        return self._mapped(message, {_GRAPH_NODE: self._node, _GRAPH_INITIALIZER: self._inlined})

    def _mapped(self, message: memoryview, functions: dict[int, Any]) -> bytes:
        made: list[Buffer] = []
        for number, wire, whole, payload in _fields(message):
            if wire == _BYTES and number in functions:
                made += _field(number, functions[number](payload))
            else:
                made.append(whole)
        return b"".join(made)

    def _inlined(self, message: memoryview) -> Buffer:
        tensor = _tensor_of(message)
        if not tensor.is_external:
            return message
        made: list[Buffer] = [
            whole for number, _, whole, _ in _fields(message) if number not in (_TENSOR_EXTERNAL, _TENSOR_LOCATION)
        ]
        return b"".join([*made, *_field(_TENSOR_RAW, self._files.bytes_of(tensor))])


def split_model(source: str | os.PathLike[str] | Buffer) -> ModelParts:
    """The parts of a model; arrays are views into its mapped files, and nothing of a large tensor is read.

    source: the model's file, beside which its external data lie, or its bytes.
    Errors: OSError for a file that cannot be read, InvalidProtobuf for one that is no protobuf message, ValueError for
    external data that are too short or outside of the model's folder.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        name, data, files = path, map_file(path), _Files(os.path.dirname(path) or ".")
    else:
        name, data, files = "a model of bytes", memoryview(source).cast("B"), _Files(None)
    if bytes(data[4:8]) == b"ORTM":  # ONNX Runtime's own format has all in one piece
        return ModelParts(name, bytes(data), [])
    splitter = _Splitter(files)
    structure = splitter.model(data)
    return ModelParts(name, structure, splitter.tensors)
