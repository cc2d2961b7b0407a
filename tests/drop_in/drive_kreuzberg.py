"""kreuzberg, a program in Rust over the crate ort: embeddings of two sentences as JSON. Usage: drive_kreuzberg.py MODELS"""
import json
import pathlib
import sys

import kreuzberg

import loaded

config = kreuzberg.EmbeddingConfig(model=kreuzberg.EmbeddingModelType.custom("test/mini", 384), cache_dir=str(pathlib.Path(sys.argv[1]) / "hub"))
print(json.dumps({"embeddings": kreuzberg.embed_sync(["hello world", "the quick brown fox"], config), "libraries": loaded.libraries()}))
