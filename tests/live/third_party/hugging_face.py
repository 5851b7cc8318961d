"""The Trainer of transformers with gradient accumulation and an evaluation, on a GPU and then on the CPU."""

import json
import tempfile

import torch
from accelerate.state import AcceleratorState, PartialState
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.set_num_threads(1)


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = torch.arange(index, index + 16) % 50
        return {"input_ids": words, "labels": words}


def fit(cpu):
    AcceleratorState._reset_state(reset_partial_state=True)
    PartialState._reset_state()
    torch.manual_seed(0)
    size = {"vocab_size": 50, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**size, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=cpu,
            max_steps=14,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            per_device_eval_batch_size=32,
            eval_strategy="steps",
            eval_steps=8,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(model, arguments, train_dataset=Words(), eval_dataset=Words())
        trainer.train()
    return trainer.args.device, [parameter.detach().cpu() for parameter in model.parameters()]


device, on_gpu = fit(cpu=False)
_, on_cpu = fit(cpu=True)
same = all(one.equal(other) for one, other in zip(on_gpu, on_cpu, strict=True))
print(json.dumps({"device": device.type, "same": same}))
