"""Speech recognition with the CTC loss; the lengths differ."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(13, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 20, 1)).cuda()
ctc, optimizer = nn.CTCLoss(zero_infinity=True), torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(20):
    sound = torch.randn(4, 13, 60).cuda()
    text = torch.randint(1, 20, (4, 12)).cuda()
    sound_lengths, text_lengths = torch.randint(40, 61, (4,)), torch.randint(5, 13, (4,))
    logits = model(sound).permute(2, 0, 1).log_softmax(-1)
    loss = ctc(logits, text, sound_lengths, text_lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
