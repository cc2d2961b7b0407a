"""The stock libonnxruntime that the C header describes: one of the environments of TENON_ORT, or the package of this Python."""
import os
import pathlib
import re

import pytest

HEADER = pathlib.Path(__file__).resolve().parents[1] / "include" / "tenon" / "onnxruntime_c_api.h"
API_VERSION = int(re.search(r"#define ORT_API_VERSION (\d+)", HEADER.read_text())[1])

# Stock builds send telemetry; this variable stops it in every process that the tests start.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def libraries():
    """{version: library} of every stock onnxruntime that is installed here."""
    found = []
    if folder := os.environ.get("TENON_ORT"):
        found += pathlib.Path(folder).glob("*/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")
    try:
        import onnxruntime
        found += (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    except ImportError:
        pass
    return {path.name.removeprefix("libonnxruntime.so."): path for path in found}


def library():
    """The newest one of the header's version. The calling test or module is skipped when there is none."""
    fitting = {version: path for version, path in libraries().items() if version.startswith(f"1.{API_VERSION}.")}
    if not fitting:
        pytest.skip(f"there is no onnxruntime 1.{API_VERSION} in TENON_ORT or this Python", allow_module_level=True)
    return fitting[max(fitting)]
