"""onnx-extended's small runner of the C API, with its custom operators: results as JSON. Usage: drive_ortcy.py MODELS"""
import json
import pathlib
import sys

import numpy as np
from onnx_extended.ortcy.wrap.ortinf import OrtSession, get_ort_c_api_supported_version, ort_get_available_providers
from onnx_extended.ortops.optim import cpu as optim
from onnx_extended.ortops.tutorial import cpu as tutorial

import loaded

LIBRARIES = [library for package in (tutorial, optim) for library in package.get_ort_ext_libs()]
MATRIX = (np.arange(12, dtype=np.float32).reshape(3, 4) - 5) / 4
# A model with two outputs makes this runner ask for an output without a name, with any library.
FEEDS = {"add": [MATRIX, MATRIX], "nonzero": [MATRIX[0]], "matmul": [np.ones((2, 8), np.float32)],
         "loop": [MATRIX], "my_custom_op": [MATRIX, MATRIX], "my_custom_op_with_attributes": [MATRIX.astype(np.float64), MATRIX.astype(np.float64)],
         "dense_to_sparse": [np.maximum(MATRIX, 0)], "tree": [MATRIX]}


def run(path, feeds):
    try:
        session = OrtSession(str(path), intra_op_num_threads=1, custom_libs=LIBRARIES)
        return [session.get_input_count(), session.get_output_count(), [[str(one.dtype), one.tolist()] for one in session.run(feeds)]]
    except Exception as error:
        return type(error).__name__


folder = pathlib.Path(sys.argv[1])
print(json.dumps({"results": {name: run(folder / f"{name}.onnx", feeds) for name, feeds in FEEDS.items()},
                  "api": get_ort_c_api_supported_version(), "cpu": "CPUExecutionProvider" in ort_get_available_providers(), "libraries": loaded.libraries()}))
