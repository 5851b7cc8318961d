"""Text generation with a cache of keys and values, greedy and sampled."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=64, n_layer=2, n_head=2)).cuda().eval()
prompt = torch.randint(3, 64, (2, 8), device="cuda")
for options in ({"do_sample": False}, {"do_sample": True, "top_k": 10}, {"num_beams": 3, "do_sample": False}):
    ids = model.generate(prompt, max_new_tokens=20, pad_token_id=0, eos_token_id=None, **options)
    print("loss", *ids.flatten().tolist(), flush=True)
