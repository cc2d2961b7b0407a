"""onnxruntime-genai on a model that its builder made: tokens of every way to generate. Usage: drive_genai_models.py MODEL_FOLDER"""
import json
import sys

import numpy as np
import onnxruntime_genai as og

import loaded

LENGTH = 40


def generate(model, prompts, chunks=1, rewind=None, **options):
    """The tokens of each sequence, and the logits after the prompt."""
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=LENGTH, batch_size=len(prompts), **options)
    generator = og.Generator(model, params)
    tokens = np.array(prompts, np.int32)
    for part in np.array_split(tokens, chunks, axis=1):
        generator.append_tokens(part)
    logits = np.asarray(generator.get_logits(), np.float32).ravel() if "num_beams" not in options else np.zeros(0)
    while not generator.is_done():
        generator.generate_next_token()
    if rewind is not None:
        generator.rewind_to(rewind)
        generator.append_tokens(np.array([[7, 8]], np.int32))
        while not generator.is_done():
            generator.generate_next_token()
    return {"tokens": [generator.get_sequence(i).tolist() for i in range(len(prompts))], "logits": logits.tolist()}


def attempt(*arguments, **options):
    try:
        return generate(*arguments, **options)
    except Exception as error:  # some models refuse some ways, with both libraries
        return str(error).splitlines()[0][:60]


model = og.Model(sys.argv[1])
one, two = [[1, 5, 9, 33, 7, 11]], [[1, 5, 9, 33], [3, 2, 7, 100]]
sampled = {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 1.5}
print(json.dumps({
    "greedy": attempt(model, one), "batch": attempt(model, two), "chunks": attempt(model, one, chunks=3), "rewound": attempt(model, one, rewind=4),
    "sampled": [attempt(model, one, random_seed=seed, **sampled) for seed in (1, 2, 3)], "sampled batch": attempt(model, two, random_seed=5, **sampled),
    "penalty": attempt(model, one, repetition_penalty=1.3), "shared": attempt(model, one, past_present_share_buffer=True),
    "grown": attempt(model, one, past_present_share_buffer=False), "grown batch": attempt(model, two, past_present_share_buffer=False),
    "beams": attempt(model, one, num_beams=3, num_return_sequences=1, past_present_share_buffer=False),
    "beams batch": attempt(model, two, num_beams=4, length_penalty=0.8, past_present_share_buffer=False), "libraries": loaded.libraries()}))
