"""Tenon's CUDA provider: `import tenon_cuda` registers it, and so does Tenon itself where this package is installed.

    import tenon, tenon_cuda

    print(tenon_cuda.problem() or tenon.get_available_providers())
    session = tenon.InferenceSession("model.onnx", providers=["TenonCudaExecutionProvider"])

CUDA's libraries are those of PyPI's nvidia-* packages, which this package asks for; the driver is the machine's.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

PROVIDER = "TenonCudaExecutionProvider"
# The name that the library is registered by.
REGISTRATION = "tenon_cuda"
# What the plugin loads when it is needed, by the packages' folders below site-packages/nvidia.
_LIBRARIES = {"libnvrtc.so.13": "cu13/lib", "libcublasLt.so.13": "cu13/lib", "libcudnn.so.9": "cudnn/lib"}

_problem: str | None = None
_registered = False


def library_path() -> Path:
    """The plugin, an execution provider library for Tenon and for onnxruntime 1.24 and newer."""
    return Path(__file__).with_name("libtenon_ep_cuda.so")


def find_libraries() -> dict[str, Path | None]:
    """CUDA's libraries in PyPI's nvidia-* packages, by name; None for one that no package here has."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec is not None else []
    found: dict[str, Path | None] = {}
    for name, folder in _LIBRARIES.items():
        files = [root / folder / name for root in roots]
        found[name] = next((file for file in files if file.exists()), None)
    return found


def _load_from_other_folders() -> None:
    """Packages of another folder (a user's, the system's) than this one's are out of the plugin's run path, which names
    the neighbours: the loader takes a library that is loaded already."""
    beside = library_path().parent.parent / "nvidia"
    for name, file in find_libraries().items():
        if file is not None and not (beside / _LIBRARIES[name] / name).exists():
            ctypes.CDLL(os.fspath(file), mode=ctypes.RTLD_LOCAL)


def _driver_problem() -> str | None:
    """Whether the driver is installed; whether it can be used the plugin finds out."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"There is no CUDA driver on this machine: {error}."
    return None


def register() -> bool:
    """Registers the provider with Tenon, once. Returns whether it has a device here; problem() says why not.

    Errors: what tenon.register_execution_provider_library raises for a plugin that does not load.
    """
    global _problem, _registered
    import tenon

    if _registered:
        return _problem is None
    _registered = True
    if not library_path().exists():
        _problem = f"The plugin is not beside the package: {library_path()}."
        return False
    _problem = _driver_problem()
    if _problem is not None:
        return False
    _load_from_other_folders()
    tenon.register_execution_provider_library(REGISTRATION, os.fspath(library_path()))
    if not any(device.ep_name == PROVIDER for device in tenon.get_ep_devices()):
        _problem = "The CUDA driver shows no device that the provider takes: the warning in the log says why."
        return False
    return True


def problem() -> str | None:
    """Why there is no CUDA device here; None where there is one."""
    register()
    return _problem


register()
