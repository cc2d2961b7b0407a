"""Puts Tenon in the place of the package onnxruntime."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

_NATIVE = ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection")


def _fill(module: types.ModuleType, name: str) -> None:
    import tenon
    from tenon import _core

    if name.startswith("onnxruntime.capi."):
        # The native module's own names: programs reach for its exceptions and classes.
        for key in dir(_core):
            if not key.startswith("__"):
                setattr(module, key, getattr(_core, key))
    for key in tenon.__all__:
        if not key.startswith("__"):
            setattr(module, key, getattr(tenon, key))
    # Programs compare the version with onnxruntime's.
    module.__dict__["__version__"] = tenon.get_version_string()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds onnxruntime, onnxruntime.capi and the modules in it that programs import."""

    _names = {"onnxruntime", "onnxruntime.capi", *(f"onnxruntime.capi.{name}" for name in _NATIVE)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._names:
            return None
        is_package = fullname in ("onnxruntime", "onnxruntime.capi")
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package, origin="tenon")

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        _fill(module, module.__name__)


def install_as_onnxruntime() -> None:
    """From here on `import onnxruntime` gives Tenon. Calling it again does nothing.

    Raises RuntimeError if the program has imported the real onnxruntime already.
    """
    loaded = sys.modules.get("onnxruntime")
    if loaded is not None:
        if getattr(loaded.__spec__, "origin", None) == "tenon":
            return
        raise RuntimeError(
            "The package onnxruntime has been imported already: call tenon.install_as_onnxruntime() before the first "
            "import of it, or start the program with python -m tenon.as_onnxruntime."
        )
    sys.meta_path.insert(0, _Finder())
    import onnxruntime  # noqa: F401  (ours now)
    import onnxruntime.capi.onnxruntime_pybind11_state  # noqa: F401
