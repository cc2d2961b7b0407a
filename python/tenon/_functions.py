"""Functions and small types of onnxruntime's package that need nothing native."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable
from typing import Any

from tenon._core import OrtHardwareDeviceType, OrtValue, get_available_providers, get_ep_devices


class OrtDeviceVendorId(enum.IntEnum):
    """PCI vendor ids, for OrtDevice.make and OrtValue."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtValueVector(list[OrtValue]):
    """A list of OrtValues with the functions that onnxruntime's own vector has."""

    def push_back(self, value: OrtValue) -> None:
        """Appends a value."""
        self.append(value)

    def push_back_batch(self, values: Iterable[OrtValue]) -> None:
        """Appends values."""
        self.extend(values)

    def reserve(self, count: int) -> None:
        """Does nothing."""

    def shrink_to_fit(self) -> None:
        """Does nothing."""

    def dlpack_at(self, index: int) -> Any:
        """A DLPack capsule over the memory of a value."""
        return self[index].__dlpack__()

    def element_type_at(self, index: int) -> int:
        """ONNX's number for the element type of a value."""
        return self[index].element_type()

    def bool_tensor_indices(self) -> list[int]:
        """The positions of tensors of bool."""
        return [i for i, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def to_dlpacks(self, to_tensor: Any = None) -> list[Any]:
        """A DLPack capsule for each value, or what `to_tensor` makes of it."""
        capsules = [value.__dlpack__() for value in self]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


def get_all_providers() -> list[str]:
    """The names of the execution providers that there are: those that sessions can use now."""
    return get_available_providers()


def get_device() -> str:
    """ "GPU" where a provider for one is registered, else "CPU"."""
    return "GPU" if any(device.device.type == OrtHardwareDeviceType.GPU for device in get_ep_devices()) else "CPU"


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Accepted: the CUDA provider (the package tenon-cuda) finds CUDA's libraries itself when it needs them."""


def print_debug_info() -> None:
    """Prints versions, the platform, providers and devices, for a report of a problem."""
    import platform

    from tenon import _core
    from tenon._version import __version__

    print(f"tenon {__version__}, with the behaviour of onnxruntime {_core.get_version_string()}")
    print(f"{_core.get_build_info()}")
    print(f"Python {platform.python_version()}, {platform.platform()}")
    print(f"providers: {', '.join(get_available_providers())}")
    for device in _core.get_ep_devices():
        print(f"device: {device.ep_name}, {device.device.type.name} of {device.device.vendor}")


def has_collective_ops() -> bool:
    """False."""
    return False


def set_seed(seed: int) -> None:
    """Accepted. Random operators without a seed of their own draw one for each session."""
    random.Random(seed)


def enable_telemetry_events() -> None:
    """Does nothing: Tenon sends no telemetry."""


def disable_telemetry_events() -> None:
    """Does nothing: Tenon sends no telemetry."""
