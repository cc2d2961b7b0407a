"""embroider, an embedder of texts in Rust over the crate ort, which loads the library by path: two embeddings as JSON.

Usage: drive_embroider.py MODELS, with ORT_DYLIB_PATH set."""
import json
import os
import pathlib
import sys

import embroider

import loaded

assert os.environ["ORT_DYLIB_PATH"]
folder = pathlib.Path(sys.argv[1]) / "jina"
model = embroider.JinaV5.open_files(str(folder / "model.onnx"), str(folder / "tokenizer.json"), truncate_dim=64, device="cpu")
embeddings = [list(map(float, row)) for row in model.encode_batch(["hello world", "the quick brown fox"])]
print(json.dumps({"embeddings": embeddings, "tokens": model.count_tokens("hello world"), "libraries": loaded.libraries()}))
