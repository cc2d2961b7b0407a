"""Runs a program with Tenon in the place of onnxruntime.

Around a program:  python -m tenon.as_onnxruntime PROGRAM.py ARGUMENTS...
Around a module:   python -m tenon.as_onnxruntime -m MODULE ARGUMENTS...
In a program:      tenon.install_as_onnxruntime()

The first two hold for the Python processes that the program starts as well.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from tenon._stand_in import install_as_onnxruntime


def _follow_children() -> None:
    """Python processes that the program starts run over Tenon, too: workers of multiprocessing and joblib, subprocesses."""
    folders = [str(Path(__file__).parent / "_children"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))


def _main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        raise SystemExit(0 if arguments else 2)
    install_as_onnxruntime()
    _follow_children()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise SystemExit("python -m tenon.as_onnxruntime -m needs the name of a module.")
        sys.argv = arguments[1:]
        sys.path[0:0] = [""]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0:0] = [os.path.dirname(os.path.abspath(arguments[0]))]
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    _main(sys.argv[1:])
