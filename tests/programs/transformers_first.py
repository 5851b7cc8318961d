"""transformers is imported before torch, as most scripts sort their imports."""

from transformers import BertConfig, BertForSequenceClassification

import torch  # isort: skip

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = BertConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
model = BertForSequenceClassification(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(20):
    ids = torch.randint(0, 100, (8, 32), device=device)
    loss = model(input_ids=ids, labels=ids[:, 0] % 2).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
print("device", device)
