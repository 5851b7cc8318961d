"""A language model from its configuration, trained by Hugging Face's Trainer, which picks the device by itself."""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

set_seed(5)
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
)
model = GPT2LMHeadModel(config)
rows = torch.randint(0, 64, (16, 16))
data = [{"input_ids": row, "labels": row} for row in rows]
losses = []


class Keep(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):  # noqa: ARG002
        losses.extend(value for key, value in logs.items() if key in ("loss", "eval_loss", "grad_norm"))


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        num_train_epochs=2,
        logging_steps=1,
        save_steps=4,
        eval_strategy="epoch",
        gradient_accumulation_steps=2,
        report_to="none",
        disable_tqdm=True,
        use_cpu=len(sys.argv) > 1,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data, callbacks=[Keep()])
    trainer.train()
    losses.append(trainer.train(resume_from_checkpoint=True).training_loss)
device = model.device
