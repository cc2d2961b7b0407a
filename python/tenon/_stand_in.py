"""Puts Tenon in the place of the package onnxruntime."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_COLLECTION = "onnxruntime.capi.onnxruntime_inference_collection"
_NATIVE = ("onnxruntime.capi.onnxruntime_pybind11_state", "onnxruntime.capi._pybind_state", _COLLECTION)
# onnxruntime's module for ONNX's backend API, and the modules in it.
_BACKEND = ("onnxruntime.backend", "onnxruntime.backend.backend", "onnxruntime.backend.backend_rep")
_PACKAGES = ("onnxruntime", "onnxruntime.capi", "onnxruntime.backend")


def _fill(module: types.ModuleType, name: str) -> None:
    import tenon
    from tenon import _core, _native_functions, _native_names

    module.__file__ = tenon.__file__
    if name in _BACKEND:
        from tenon import backend

        for key in vars(backend):
            if not key.startswith("_"):
                setattr(module, key, getattr(backend, key))
        return
    if name.startswith("onnxruntime.capi."):
        # The native module's own names: programs reach for its exceptions and classes.
        for source in (_core, _native_functions, _native_names):
            for key in dir(source):
                if not key.startswith("__"):
                    setattr(module, key, getattr(source, key))
    for key in tenon.__all__:
        if not key.startswith("__"):
            setattr(module, key, getattr(tenon, key))
    if name.startswith("onnxruntime.capi.") and name != _COLLECTION:
        from tenon._native_session import NativeSession

        module.__dict__["InferenceSession"] = NativeSession
        module.__dict__["get_default_session_options"] = tenon.SessionOptions
    # Programs compare the version with onnxruntime's.
    module.__dict__["__version__"] = tenon.get_version_string()
    module.__dict__["_is_tenon"] = True
    if name == "onnxruntime":
        module.__dict__.update(package_name=name, version=tenon.get_version_string(), cuda_version="")


def _stock_folder() -> Path | None:
    """The folder of the real onnxruntime, if it is installed: its tools are Python, and run over Tenon."""
    spec = importlib.machinery.PathFinder.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if any(Path(folder, "capi").glob("onnxruntime_pybind11_state*")):
            return Path(folder)
    return None


class _Distribution(importlib.metadata.Distribution):
    """Says to importlib.metadata which version of onnxruntime this is."""

    def read_text(self, filename: str) -> str | None:
        import tenon

        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {tenon.get_version_string()}\n"

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds onnxruntime, onnxruntime.capi and the modules in it that programs import.

    Modules that are Python alone (onnxruntime.quantization, .tools, .transformers, .datasets) come from the real package,
    where that is installed.
    """

    _names = {*_PACKAGES, *_BACKEND, *_NATIVE}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._names:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _PACKAGES, origin="tenon")
        stock = _stock_folder() if fullname in ("onnxruntime", "onnxruntime.capi") else None
        if stock is not None:
            spec.submodule_search_locations = [str(stock if fullname == "onnxruntime" else stock / "capi")]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        _fill(module, module.__name__)
        if module.__name__ == "onnxruntime":
            _import_native()

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        return [_Distribution()] if getattr(context, "name", None) == "onnxruntime" else []


def install_as_onnxruntime() -> None:
    """From here on `import onnxruntime` gives Tenon. Calling it again does nothing.

    Where the real package is installed as well, its Python-only parts (onnxruntime.quantization, onnxruntime.tools,
    onnxruntime.transformers, onnxruntime.datasets) stay importable and use Tenon's sessions.

    Raises RuntimeError if the program has imported the real onnxruntime already.
    """
    loaded = sys.modules.get("onnxruntime")
    if loaded is not None:
        if getattr(loaded, "_is_tenon", False):
            return
        raise RuntimeError(
            "The package onnxruntime has been imported already: call tenon.install_as_onnxruntime() before the first "
            "import of it, or start the program with python -m tenon.as_onnxruntime."
        )
    add_finder()
    importlib.import_module("onnxruntime")  # ours now


def add_finder() -> _Finder:
    """The finder of Tenon's modules under onnxruntime's names, before all others."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    return finder


def _import_native() -> None:
    # They are attributes of onnxruntime.capi once onnxruntime is imported.
    for name in _NATIVE:
        importlib.import_module(name)


def fill_shim(module: types.ModuleType) -> None:
    """For the wheel that is called onnxruntime (python/shim): its module becomes Tenon."""
    add_finder()
    _fill(module, "onnxruntime")
    _import_native()
