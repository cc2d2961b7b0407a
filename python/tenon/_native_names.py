"""Smaller names of onnxruntime's modules under onnxruntime.capi, which programs import from there."""

from __future__ import annotations

import enum

from tenon._core import OrtDevice, SparseCooView, SparseCsrcView
from tenon._functions import OrtDeviceVendorId


SparseCsrView, SparseBlockSparseView = SparseCsrcView, SparseCooView


class ArenaExtendStrategy(enum.Enum):
    """How onnxruntime's arena grows. Tenon takes the setting without effect."""

    kNextPowerOfTwo = 0  # noqa: N815  (the name is onnxruntime's)
    kSameAsRequested = 1  # noqa: N815


kNextPowerOfTwo, kSameAsRequested = ArenaExtendStrategy  # noqa: N816


class OrtDeviceEpIncompatibilityReason(enum.IntEnum):
    """The bits of reasons_bitmask, which get_hardware_device_ep_incompatibility_details gives."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -(1 << 31)


def get_ort_device_type(device_type: str) -> int:
    """The number that OrtDevice has for "cpu", "cuda", "gpu", "dml", "webgpu", "cann" or "npu"."""
    numbers = {
        "cpu": OrtDevice.cpu,
        "cuda": OrtDevice.cuda,
        "gpu": OrtDevice.gpu,
        "dml": OrtDevice.dml,
        "webgpu": OrtDevice.webgpu,
        "cann": OrtDevice.cann,
        "npu": OrtDevice.npu,
    }
    if device_type not in numbers:
        raise ValueError(f"Unsupported device type: {device_type}")
    return numbers[device_type]()


def get_vendor_id_for_device_type(device_type: str) -> OrtDeviceVendorId | None:
    """The vendor of devices of such a name, where the name says it."""
    vendors = {
        "cuda": OrtDeviceVendorId.NVIDIA,
        "dml": OrtDeviceVendorId.MICROSOFT,
        "webgpu": OrtDeviceVendorId.NONE,
        "cann": OrtDeviceVendorId.HUAWEI,
    }
    return vendors.get(device_type)
