"""A tiny Whisper of transformers: sound to text, trained, then it generates."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

torch.manual_seed(0)
model = WhisperForConditionalGeneration(
    WhisperConfig(
        vocab_size=64, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=50,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=[], begin_suppress_tokens=[],
    )
).to("cuda")  # fmt: skip
model.generation_config.forced_decoder_ids = None
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(12):
    sound, text = torch.randn(4, 16, 100).to("cuda"), torch.randint(3, 64, (4, 20)).to("cuda")
    loss = model(input_features=sound, labels=text).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
model.eval()
with torch.no_grad():
    features = model.model.encoder(sound).last_hidden_state
    ids = torch.ones(4, 1, dtype=torch.long, device="cuda")
    for _ in range(10):
        logits = model(encoder_outputs=(features,), decoder_input_ids=ids).logits
        ids = torch.cat((ids, logits[:, -1:].argmax(-1)), 1)
print("loss", *ids.flatten().tolist())
