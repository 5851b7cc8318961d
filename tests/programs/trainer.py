"""Hugging Face's Trainer, as its documentation shows it."""

import tempfile

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed


class Show(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):  # noqa: ARG002
        for key in ("loss", "eval_loss", "grad_norm"):
            if key in logs:
                print("loss", key, float(logs[key]).hex(), flush=True)


set_seed(5)
rows = [[(17 * i + j) % 64 for j in range(32)] for i in range(64)]
data = [{"input_ids": row, "labels": row} for row in rows]
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8,
        num_train_epochs=3,
        logging_steps=1,
        save_steps=8,
        eval_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:16], callbacks=[Show()])
    trainer.train()
print("device", model.device.type)
