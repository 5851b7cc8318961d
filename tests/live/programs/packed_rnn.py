"""A classifier over sequences of different lengths, with `.cuda()` on everything."""

import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

use_cuda = len(sys.argv) == 1
torch.manual_seed(3)
if use_cuda:
    torch.cuda.manual_seed_all(3)


def move(x):
    return x.cuda() if use_cuda else x.to(sys.argv[2])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 24, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.gru = nn.GRU(48, 12, batch_first=True)
        self.out = nn.Linear(12, 5)

    def forward(self, x, lengths, hidden):
        packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        assert packed.is_cuda == use_cuda
        output, _ = self.lstm(packed, hidden)
        padded, _ = pad_packed_sequence(output, batch_first=True)
        self.gru.flatten_parameters()
        _, last = self.gru(padded)
        return self.out(last[-1])


model = Tagger()
model = model.cuda() if use_cuda else model.to(sys.argv[2])
criterion = nn.CrossEntropyLoss(weight=move(torch.ones(5)))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
losses = []
for _ in range(5):
    lengths = torch.randint(2, 9, (6,))
    x = pad_sequence([torch.randint(1, 50, (int(n),)) for n in lengths], batch_first=True)
    y = torch.randint(0, 5, (6,))
    hidden = (move(torch.zeros(4, 6, 24)), move(torch.zeros(4, 6, 24)))
    loss = criterion(model(move(x), lengths, hidden), move(y))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    losses.append(float(loss))
device = loss.device
