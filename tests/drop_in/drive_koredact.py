"""koredact, which masks personal data, in Rust over the crate ort: what it finds in two sentences as JSON.

Usage: drive_koredact.py MODELS, with ORT_DYLIB_PATH set: the package takes the path as an argument."""
import json
import os
import pathlib
import sys

import koredact

import loaded

masker = koredact.Masker(pathlib.Path(sys.argv[1]) / "masker", threads=1, ort_dylib=os.environ["ORT_DYLIB_PATH"], device="cpu")
texts = ["문의 010-1234-5678 홍길동", "안녕하세요 서울"]
found = [[[span.start, span.end, span.type, span.score] for span in masker.predict_raw(text)] for text in texts]
print(json.dumps({"found": found, "masked": masker.mask_many(texts), "libraries": loaded.libraries()}))
