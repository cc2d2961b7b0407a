"""Tiny models with random weights, made by onnxruntime-genai's own builder. Usage: genai_builder.py BUILDER OUTPUT

Needs torch, transformers, onnx_ir and onnxruntime; exits with 77 and a reason where one is missing. BUILDER is its builder.py."""
import os
import pathlib
import subprocess
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched
try:
    import onnx_ir  # noqa: F401
    import onnxruntime  # noqa: F401
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
except ImportError as error:
    print(error)
    raise SystemExit(77)

COMMON = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
# architecture: what its configuration has besides
KINDS = {"Llama": {}, "Qwen2": {}, "Qwen3": {"head_dim": 16}, "Gemma": {"head_dim": 16}, "Phi3": {"original_max_position_embeddings": 256},
         "Phi": {"hidden_size": 128, "num_key_value_heads": 4}}
# (architecture, precision, the builder's options). The default accuracy level of int4 rounds activations to 8 bits, where the last bit of a sum
# decides about a step of a hundredth: equal tokens can only be expected of level 1, which computes in float32.
VARIANTS = [(kind, "fp32", []) for kind in KINDS] + [(kind, "int4", ["accuracy_level=1"]) for kind in ("Llama", "Qwen3", "Phi3")]


def checkpoint(folder, kind):
    config = getattr(transformers, kind + "Config")(**{**COMMON, **KINDS[kind]})
    model = getattr(transformers, kind + "ForCausalLM")(config).to(torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 if weight.ndim > 1 else 1 + torch.randn_like(weight) * 0.05)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({f"t{i}": i for i in range(COMMON["vocab_size"])}, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="t1", eos_token="t2", pad_token="t0", unk_token="t0").save_pretrained(folder)


builder, output = sys.argv[1], pathlib.Path(sys.argv[2])
torch.manual_seed(0)
for kind in KINDS:
    checkpoint(output / "checkpoints" / kind, kind)
for kind, precision, options in VARIANTS:
    source, target = output / "checkpoints" / kind, output / f"{kind}_{precision}"
    command = [sys.executable, builder, "-m", source, "-i", source, "-o", target, "-p", precision, "-e", "cpu", "-c", output / "cache"]
    subprocess.run(command + (["--extra_options", *options] if options else []), check=True, stdout=subprocess.DEVNULL)
