"""The convolutional families: published sizes, steps on real and on fake tensors, and ResNet's depths."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from neaptide.models import Workload, build, names, recipe
from neaptide.models.resnet import stages

pytestmark = pytest.mark.networks

# Parameters of the published networks, all without auxiliary heads.
PARAMETERS = {
    "alexnet": 62_378_344,  # one tower; Krizhevsky's two towers save the weights between them and have 60.97 M
    "densenet121": 7_978_856,
    "googlenet": 6_998_552,  # 5x5 filters, biases and no batch norm, as in Caffe's model
    "inception3": 23_834_568,
    "inception4": 42_679_816,
    "mobilenet-v2": 3_504_872,
    "nasnet-large": 88_753_150,
    "nasnet-mobile": 5_289_978,
    "overfeat": 145_920_872,  # 145 M in the paper's table 4
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet110": 1_727_962,  # 1.7 M in the paper's table 6
    "resnet152": 60_192_808,
    "superres": 59_657,  # from PyTorch's example; the paper gives none
    "unet": 31_030_658,  # from the paper's figure 1; it gives none
    "vae": 652_824,  # from PyTorch's example
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
}
every_network = pytest.mark.parametrize("name", PARAMETERS)


def weights(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def step_and_weigh(work: Workload) -> tuple[Tensor, int]:
    """The loss of one step, and the bytes that autograd saved in it beside the weights."""
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = work.step()
    for parameter in work.model.parameters():
        saved.pop(parameter.untyped_storage()._cdata, None)
    return loss, sum(saved.values())


def test_the_zoo_has_every_convolutional_network() -> None:
    assert set(PARAMETERS) <= set(names())


@every_network
def test_a_network_has_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        assert weights(recipe(name).module()) == PARAMETERS[name]


@every_network
def test_a_tiny_network_steps_with_a_finite_loss_and_a_gradient_for_every_parameter(name: str) -> None:
    work = build(name, scale="tiny")
    assert torch.isfinite(work.step())
    without = [path for path, parameter in work.model.named_parameters() if parameter.grad is None]
    assert without == []


@every_network
def test_a_tiny_network_trains_and_infers_with_a_batch_of_one(name: str) -> None:
    work = build(name, batch=1, scale="tiny")
    assert torch.isfinite(work.step())
    output = work.infer()
    for tensor in output if isinstance(output, tuple) else (output,):
        assert tensor.shape[0] == 1
        assert torch.isfinite(tensor).all()


@every_network
def test_a_network_steps_on_fake_tensors_and_its_activations_are_as_heavy_at_tiny_scale(name: str) -> None:
    """Activations outweigh the weights at tiny scale just where they do in the published network."""
    with FakeTensorMode():
        chosen = recipe(name)
        model = chosen.module()
        optimizer = chosen.optimizer(model.parameters())
        device = torch.device("cpu")
        paper = Workload(name, chosen.batch, device, model, optimizer, chosen.sample, chosen.criterion)
        loss, saved = step_and_weigh(paper)
    assert loss.shape == ()
    tiny = build(name, scale="tiny")
    _, tiny_saved = step_and_weigh(tiny)
    assert (tiny_saved > 4 * weights(tiny.model)) == (saved > 4 * weights(model))


def test_alexnet_has_the_outputs_of_superneurons_golden_case() -> None:
    megabytes = {
        **dict.fromkeys(("conv1", "relu1", "lrn1"), 221.558),
        "pool1": 53.394,
        **dict.fromkeys(("conv2", "relu2", "lrn2"), 142.383),
        "pool2": 33.008,
        **dict.fromkeys(("conv3", "relu3", "conv4", "relu4"), 49.512),
        **dict.fromkeys(("conv5", "relu5"), 33.008),
        "pool5": 7.031,
        **dict.fromkeys(("fc1", "relu6", "drop1", "fc2", "relu7", "drop2"), 3.125),
        **dict.fromkeys(("fc3", "softmax"), 0.763),
    }
    outputs: list[Tensor] = []
    with FakeTensorMode():
        chosen = recipe("alexnet")
        model = chosen.module()
        for layer in model.children():
            layer.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
        images, _ = chosen.sample(200)
        model(images)
    measured = [round(output.untyped_storage().nbytes() / 2**20, 3) for output in outputs]
    layers = [name for name, _ in model.named_children()]
    assert list(zip(layers, measured, strict=True)) == list(megabytes.items())
    assert len({output.untyped_storage()._cdata for output in outputs}) == len(outputs)


@pytest.mark.parametrize("depth", [18, 20, 34, 35, 50, 56, 101, 110, 152, 155, 200, 1001, 1919])
def test_a_resnet_has_as_many_weighted_layers_as_its_name_says(depth: int) -> None:
    with torch.device("meta"):
        model = recipe(f"resnet{depth}").module()
    weighted = [
        path
        for path, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear) and "shortcut" not in path
    ]
    assert len(weighted) == depth


def test_deep_resnets_grow_in_the_third_stage_as_in_superneurons() -> None:
    assert stages(155) == (6, 32, 7, 6)
    assert stages(1919) == (6, 32, 595, 6)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("resnet1920", "resnet1919 or resnet1922"), ("resnet51", "resnet50 or resnet53"), ("resnet7", "resnet18")],
)
def test_an_impossible_depth_names_the_nearest_networks(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"no network is {name}: .* the nearest is {nearest}$"):
        recipe(name)
