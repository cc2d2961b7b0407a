"""piper-phonemize: vowel marks for Arabic, by the model that is in the package (in ONNX Runtime's own format), as JSON."""
import json

import piper_phonemize

texts = ["مرحبا بالعالم", "السلام عليكم", "كتب"]
marked = [piper_phonemize.tashkeel_run(text) for text in texts]
with open("/proc/self/maps") as maps:
    libraries = sorted({line.split()[-1] for line in maps if "libonnxruntime" in line})
print(json.dumps({"texts": texts, "marked": marked, "libraries": libraries}))
