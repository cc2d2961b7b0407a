"""onnxruntime-genai on a model that its builder made: tokens of every way to generate.

With --plugin, an EP's library runs the model, and no node may go to the CPU EP."""
import argparse
import json

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


def open_model(folder, plugin, ep):
    if plugin is None:
        return og.Model(folder)
    og.register_execution_provider_library("plugin", plugin)
    config = og.Config(folder)
    config.clear_providers()
    config.append_provider(ep)
    config.set_provider_option(ep, "use_tf32", "0")  # the tokens are compared with the CPU's
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"session.disable_cpu_ep_fallback": "1"}}}}))
    return og.Model(config)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="the folder of genai_config.json")
parser.add_argument("--plugin", help="the EP's library")
parser.add_argument("--ep", default="TenonCudaExecutionProvider")
parser.add_argument("--ways", nargs="*", help="of generating; all of them without this option")
arguments = parser.parse_args()
model = open_model(arguments.model, arguments.plugin, arguments.ep)
one, two = [[1, 5, 9, 33, 7, 11]], [[1, 5, 9, 33], [3, 2, 7, 100]]
sampled = {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 1.5}
WAYS = {
    "greedy": lambda: attempt(model, one), "batch": lambda: attempt(model, two), "chunks": lambda: attempt(model, one, chunks=3),
    "rewound": lambda: attempt(model, one, rewind=4),
    "sampled": lambda: [attempt(model, one, random_seed=seed, **sampled) for seed in (1, 2, 3)],
    "sampled batch": lambda: attempt(model, two, random_seed=5, **sampled), "penalty": lambda: attempt(model, one, repetition_penalty=1.3),
    "shared": lambda: attempt(model, one, past_present_share_buffer=True), "grown": lambda: attempt(model, one, past_present_share_buffer=False),
    "grown batch": lambda: attempt(model, two, past_present_share_buffer=False),
    "beams": lambda: attempt(model, one, num_beams=3, num_return_sequences=1, past_present_share_buffer=False),
    "beams batch": lambda: attempt(model, two, num_beams=4, length_penalty=0.8, past_present_share_buffer=False)}
print(json.dumps({way: WAYS[way]() for way in arguments.ways or WAYS} | {"libraries": loaded.libraries()}))
