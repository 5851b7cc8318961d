"""TRL's SFTTrainer fine-tunes a language model on a dataset of texts."""

import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(0)
words = ["<pad>", "<eos>", *(f"w{i}" for i in range(60))]
raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>")
texts = Dataset.from_dict({"text": [" ".join(f"w{(i * j) % 60}" for j in range(5 + i % 20)) for i in range(64)]})


class Show(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):  # noqa: ARG002
        if "loss" in logs:
            print("loss", float(logs["loss"]).hex(), flush=True)


with tempfile.TemporaryDirectory() as folder:
    config = SFTConfig(
        output_dir=folder, per_device_train_batch_size=4, max_steps=16, logging_steps=1, report_to="none",
        save_strategy="no", disable_tqdm=True, max_length=32, bf16=False, gradient_checkpointing=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(GPT2Config(vocab_size=62, n_positions=64, n_embd=64, n_layer=2, n_head=2))
    SFTTrainer(model, args=config, train_dataset=texts, processing_class=tokenizer, callbacks=[Show()]).train()
print("device", model.device.type)
