"""Execution providers that are installed as packages of their own."""

from __future__ import annotations

import importlib
import importlib.util
import warnings


def register_providers() -> None:
    """Registers the CUDA provider where the package tenon-cuda is installed; called when the process's environment is made."""
    if importlib.util.find_spec("tenon_cuda") is None:
        return
    try:
        importlib.import_module("tenon_cuda")
    except Exception as error:  # whatever is wrong with it, the CPU is still there
        warnings.warn(f"The package tenon-cuda cannot be used: {error}", RuntimeWarning, stacklevel=2)
