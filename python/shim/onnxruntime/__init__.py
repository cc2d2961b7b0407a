"""Tenon under the name of onnxruntime: other packages that ask for onnxruntime find it installed."""

import sys

from tenon import _stand_in

_stand_in.fill_shim(sys.modules[__name__])
