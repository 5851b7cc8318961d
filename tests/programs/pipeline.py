"""transformers.pipeline on device 0, with batches."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, pipeline

torch.manual_seed(0)
words = ["[PAD]", "[UNK]", *(f"w{i}" for i in range(60))]
raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]")
config = BertConfig(vocab_size=62, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
classify = pipeline(
    "text-classification",
    model=BertForSequenceClassification(config).eval(),
    tokenizer=tokenizer,
    device=0,
    batch_size=4,
)
texts = [" ".join(f"w{(i * j) % 60}" for j in range(3 + i % 9)) for i in range(48)]
for answer in classify(texts):
    print("loss", answer["label"], answer["score"].hex(), flush=True)
print("device", classify.device.type)
