"""peft puts low-rank adapters on a GPT-2, and only they are trained."""

from peft import LoraConfig, get_peft_model

import torch  # isort: skip
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
base = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=64, n_layer=3, n_head=2))
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], task_type="CAUSAL_LM")).cuda()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(16):
    ids = torch.randint(0, 96, (8, 32)).cuda()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item().hex(), flush=True)
merged = model.merge_and_unload().eval()
with torch.no_grad():
    print("loss", merged(input_ids=ids, labels=ids).loss.item().hex())
