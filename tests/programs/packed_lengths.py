"""An LSTM over packed sequences of different lengths."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(100, 32), nn.LSTM(32, 48, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, 10)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.head(pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0])


model = Tagger().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(16):
    lengths = torch.randint(3, 25, (8,))
    ids = pad_sequence([torch.randint(1, 100, (n,)) for n in lengths], batch_first=True).cuda()
    logits = model(ids, lengths)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), (ids % 10).flatten(), ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
