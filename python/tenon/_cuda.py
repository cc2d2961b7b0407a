"""CUDA's driver, as far as memory of its devices needs it that other libraries made: streams, and whose an address is."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator
from typing import Any

# CUpointer_attribute, CUmemorytype, CUstream_flags.
_MEMORY_TYPE, _IS_MANAGED, _DEVICE_ORDINAL = 2, 8, 9
_HOST = 1
_NON_BLOCKING = 1
# The version whose functions are looked up: 12.0.
_VERSION = 12000


class _Driver:
    """The functions are looked up by name and version, as the driver's documentation asks. Threads: any."""

    def __init__(self) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self._find = ctypes.CDLL(name).cuGetProcAddress_v2
        except (OSError, AttributeError) as error:
            raise RuntimeError(f"Memory of a CUDA device needs NVIDIA's driver, of CUDA 12 or newer: {error}") from None
        self._functions: dict[str, Any] = {}
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._streams: dict[int, int] = {}
        self._lock = threading.RLock()
        self.call("cuInit", ctypes.c_uint(0))

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            address, status = ctypes.c_void_p(), ctypes.c_int()
            bad = self._find(name.encode(), ctypes.byref(address), _VERSION, ctypes.c_uint64(0), ctypes.byref(status))
            if bad or not address.value:
                raise RuntimeError(f"NVIDIA's driver on this machine has no {name}.")
            self._functions[name] = ctypes.CFUNCTYPE(ctypes.c_int)(address.value)
        return self._functions[name]

    def result(self, name: str, *arguments: Any) -> int:
        return int(self._function(name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        if result := self.result(name, *arguments):
            text = ctypes.c_char_p()
            self.result("cuGetErrorName", ctypes.c_int(result), ctypes.byref(text))
            raise RuntimeError(f"{name} fails: {text.value.decode() if text.value else result}.")

    @contextlib.contextmanager
    def device(self, ordinal: int) -> Iterator[None]:
        """The device's primary context is the thread's; it stays retained to the end of the process."""
        with self._lock:
            if ordinal not in self._contexts:
                device, context = ctypes.c_int(), ctypes.c_void_p()
                self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
                self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
                self._contexts[ordinal] = context
        self.call("cuCtxPushCurrent", self._contexts[ordinal])
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent", ctypes.byref(ctypes.c_void_p()))

    def stream(self, ordinal: int) -> int:
        with self._lock:
            if ordinal not in self._streams:
                made = ctypes.c_void_p()
                with self.device(ordinal):
                    self.call(
                        "cuStreamCreateWithPriority", ctypes.byref(made), ctypes.c_uint(_NON_BLOCKING), ctypes.c_int(0)
                    )
                self._streams[ordinal] = made.value or 0
        return self._streams[ordinal]


_made: list[_Driver] = []
_making = threading.Lock()


def _driver() -> _Driver:
    with _making:
        if not _made:
            _made.append(_Driver())
    return _made[0]


def stream(ordinal: int) -> int:
    """A stream of the device: producers of DLPack let it wait for their work, and wait() waits for it."""
    return _driver().stream(ordinal)


def wait(ordinal: int, stream: int) -> None:
    """Returns when the work is done that the stream has been given so far (1 and 2: the device's default streams)."""
    driver = _driver()
    with driver.device(ordinal):
        driver.call("cuStreamSynchronize", ctypes.c_void_p(stream))


def memory_of(address: int) -> tuple[int, bool, bool]:
    """The number of the CUDA device that an address belongs to, whether it is pinned memory of the host, and whether it is
    managed memory, which both address. Errors: ValueError for memory that CUDA does not know."""
    driver = _driver()
    numbers = []
    for attribute in (_DEVICE_ORDINAL, _MEMORY_TYPE, _IS_MANAGED):
        number = ctypes.c_int()
        if driver.result("cuPointerGetAttribute", ctypes.byref(number), ctypes.c_int(attribute), ctypes.c_uint64(address)):
            raise ValueError(f"The address {address:#x} is no memory that CUDA's driver knows.")
        numbers.append(number.value)
    ordinal, kind, managed = numbers
    return ordinal, kind == _HOST and not managed, bool(managed)
