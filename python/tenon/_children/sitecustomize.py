"""Python processes that a program starts under tenon.as_onnxruntime run over Tenon, too.

Their environment has this folder first in PYTHONPATH, so that Python imports this module when it starts. Nothing else is
imported before the process imports onnxruntime.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class _OnFirstImport:
    """Puts Tenon in the place of onnxruntime when that is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of Tenon's stand-in; None for other modules, and where this interpreter has no tenon."""
        if fullname != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        try:
            stand_in = importlib.import_module("tenon._stand_in")
        except ImportError:
            return None
        finder = stand_in.add_finder()
        spec: importlib.machinery.ModuleSpec | None = finder.find_spec(fullname, path, target)
        return spec


def _next_sitecustomize() -> None:
    """The module of this name that the interpreter would have imported without this one."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if not folder or Path(folder).resolve() != here]
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


sys.meta_path.insert(0, _OnFirstImport())
_next_sitecustomize()
