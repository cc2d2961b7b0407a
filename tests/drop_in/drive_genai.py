"""onnxruntime-genai generates greedily with a small decoder, also with a LoRA adapter. Usage: drive_genai.py MODELS"""
import json
import pathlib
import sys

import numpy as np
import onnxruntime_genai as og


def generate(model, prompts, adapters=None, **options):
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=24, batch_size=len(prompts), **options)
    generator = og.Generator(model, params)
    if adapters is not None:
        generator.set_active_adapter(adapters, "tuned")
    generator.append_tokens(np.array(prompts, np.int32))
    logits = generator.get_logits()
    while not generator.is_done():
        generator.generate_next_token()
    return {"tokens": [generator.get_sequence(i).tolist() for i in range(len(prompts))],
            "logits": np.asarray(logits, np.float32).ravel().tolist()}


def loaded():
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    names = {line.split(maxsplit=5)[5] for line in lines if "onnxruntime" in line.rsplit("/", 1)[-1]}
    return sorted(name for name in names if "genai" not in pathlib.Path(name).name)


model = og.Model(sys.argv[1])
adapters = og.Adapters(model)
adapters.load(f"{sys.argv[1]}/tuned.onnx_adapter", "tuned")
print(json.dumps({"one": generate(model, [[1, 5, 9]]), "tuned": generate(model, [[1, 5, 9]], adapters), "two": generate(model, [[1, 5, 9], [3, 2, 7]]),
                  "libraries": loaded()}))
