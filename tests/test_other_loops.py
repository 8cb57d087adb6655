"""Encoded models in other people's loops, each where the library is installed."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import multiway as mw
from multiway.errors import MultiwayError, MultiwayWarning
from warm import warm

IMAGES = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(16) % 4


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))


def encoded(encoding: str = "ro", **options: Any) -> mw.EncodedClassifier:
    return mw.encode_model(network(), mw.Encoding.make(encoding, 4, **options))


def test_one_call_gives_what_is_asked_for() -> None:
    model = encoded(length=20)
    codes = model.codes(IMAGES)
    loss = model.loss(codes, LABELS)
    assert torch.equal(model(IMAGES, LABELS), loss)
    assert torch.equal(model(IMAGES, returns="codes"), codes)
    assert torch.equal(model(IMAGES, labels=LABELS, returns="scores")[1], model(IMAGES))
    assert torch.equal(model(IMAGES, LABELS, returns="codes")[1], codes)


class Words(nn.Module):
    """A classifier of token numbers, with an argument that images do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.classifier = nn.Linear(16, 4)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        features = self.embedding(input_ids)
        if attention_mask is not None:
            features = features * attention_mask[:, :, None]
        return {"logits": self.classifier(features.mean(dim=1))}


def test_text_passes_unhindered() -> None:
    model = mw.encode_model(Words(), mw.Encoding.make("ro", 4, 20))
    tokens, mask = torch.randint(50, (16, 7)), torch.ones(16, 7, dtype=torch.int64)
    assert model(tokens).shape == (16, 4)
    found = model(input_ids=tokens, attention_mask=mask, labels=LABELS)
    assert torch.equal(found["logits"], model(tokens))
    assert torch.equal(found["loss"], model(tokens, LABELS))


def _train(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    model = encoded(length=20)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        wrapped(IMAGES[rank::2], LABELS[rank::2]).backward()
        optimizer.step()
    torch.save(model.backbone.state_dict(), f"{folder}/{rank}.pt")
    # The group must not go with the wrapper: PyTorch then waits for its own thread, now and then.
    del wrapped
    torch.distributed.destroy_process_group()


def test_two_processes_of_ddp_have_the_weights_of_one(tmp_path: Path) -> None:
    program = "import sys, test_other_loops as t; t._train(int(sys.argv[1]), sys.argv[2])"
    processes = [warm("-c", program, rank, tmp_path, cwd=tmp_path) for rank in range(2)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    model = encoded(length=20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        model(IMAGES, LABELS).backward()
        optimizer.step()
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], tensor, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("encoding", ["1ofk", "ro", "simplex"])
def test_compile_takes_the_whole_graph(encoding: str) -> None:
    torch._dynamo.reset()
    model = encoded(encoding)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(IMAGES, LABELS), model(IMAGES, LABELS))
    torch.testing.assert_close(compiled(IMAGES), model(IMAGES))


def test_copies_and_pickles_are_the_same_model() -> None:
    model = encoded()
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(buffer, weights_only=False),
    ):
        assert torch.equal(other(IMAGES, LABELS), model(IMAGES, LABELS))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_do_not_overflow_the_codes(dtype: torch.dtype) -> None:
    """Padded codes of norm 1000 have squares of a million, and float16 ends at 65,504."""
    for encoding in ("ro", "padded"):
        model = encoded(encoding)
        expected = model(IMAGES, LABELS)
        with torch.autocast("cpu", dtype=dtype):
            loss, codes = model(IMAGES, LABELS, returns="codes")
        assert codes.dtype == loss.dtype == torch.float32
        torch.testing.assert_close(loss, expected, rtol=0.05, atol=0.0)
        loss.backward()
        slopes = [p.grad for p in model.parameters() if p.grad is not None]
        assert slopes
        assert all(bool(torch.isfinite(slope).all()) for slope in slopes)


def test_a_folded_network_is_exported() -> None:
    model = encoded().eval()
    folded = model.fold()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(folded, (IMAGES,), dynamic_shapes={"images": {0: batch}})
    torch.testing.assert_close(
        program.module()(IMAGES[:5]), model(IMAGES[:5]), rtol=1e-4, atol=1e-4
    )


def test_onnxruntime_gives_the_same_scores(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = encoded().eval()
    file = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.fold(), (IMAGES,), file, dynamo=True, verbose=False)
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {session.get_inputs()[0].name: IMAGES.numpy()})
    torch.testing.assert_close(
        torch.from_numpy(scores), model(IMAGES).detach(), rtol=1e-4, atol=1e-4
    )


def test_a_lightning_module_of_ten_lines(tmp_path: Path) -> None:
    lightning = pytest.importorskip("pytorch_lightning")

    class Coded(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = encoded(length=20)

        def training_step(self, batch: Any, index: int) -> Tensor:
            loss: Tensor = self.model(*batch)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    module = Coded()
    before = float(module.model(IMAGES, LABELS).detach())
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(IMAGES, LABELS), batch_size=8
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_epochs=20, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(module, loader)
    assert float(module.model(IMAGES, LABELS).detach()) < before / 2


# transformers


def vit() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=8, patch_size=4, num_channels=1, hidden_size=16, num_hidden_layers=1,
            num_attention_heads=2, intermediate_size=32, num_labels=4,
            id2label={0: "ant", 1: "bee", 2: "cat", 3: "dog"},
        )
    )  # fmt: skip


def test_a_transformers_trainer_trains_it(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    import transformers

    model = mw.encode_model(vit(), mw.Encoding.make("ro", 4, 40))
    assert model.config.num_labels == 4
    data: Any = [
        {"pixel_values": 0.1 * image + 0.3 * label, "labels": label}
        for image, label in zip(IMAGES, LABELS, strict=True)
    ]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=60, learning_rate=3e-3, use_cpu=True,
        per_device_train_batch_size=16, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_strategy="no",
    )  # fmt: skip
    trainer = transformers.Trainer(model, options, train_dataset=data, eval_dataset=data)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 2
    predictions: Any = trainer.predict(data).predictions
    assert predictions.shape == (16, 4)


def test_a_transformers_model_is_saved_with_its_configuration(tmp_path: Path) -> None:
    model = mw.encode_model(vit(), mw.Encoding.make("ro", 4, 40)).eval()
    model.save_pretrained(tmp_path)
    again = mw.EncodedClassifier.from_pretrained(tmp_path)
    assert type(again.backbone) is type(model.backbone)
    assert again.config.id2label[2] == "cat"
    assert torch.equal(again(IMAGES), model(IMAGES))


def test_a_folded_transformers_model_is_one_and_fits_a_pipeline(tmp_path: Path) -> None:
    import transformers
    from PIL import Image

    model = mw.encode_model(vit(), mw.Encoding.make("ro", 4, 40)).eval()
    folded = model.fold()
    assert isinstance(folded, transformers.ViTForImageClassification)
    folded.save_pretrained(tmp_path)
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(again(IMAGES).logits, model(IMAGES), rtol=1e-4, atol=1e-4)

    base: Any = transformers.image_processing_utils.BaseImageProcessor

    class Processor(base):  # type: ignore[misc]
        model_input_names = ("pixel_values",)

        def __call__(self, images: Any, **_: Any) -> Any:
            return transformers.BatchFeature({"pixel_values": IMAGES[:1]})

    pipe = transformers.pipeline(
        "image-classification", model=folded, image_processor=Processor(), device="cpu"
    )
    best = pipe(Image.new("RGB", (8, 8)))[0]["label"]
    assert best == model.config.id2label[int(model(IMAGES[:1]).argmax())]


# What will not train is said in one line.


class Squashed(nn.Module):
    def __init__(self, squash: Any) -> None:
        super().__init__()
        self.fc, self.squash = nn.Linear(64, 4), squash

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.squash(self.fc(images.flatten(1)))
        return outputs


@pytest.mark.parametrize("squash", [torch.relu, torch.tanh, lambda x: x.softmax(1)])
def test_outputs_that_are_squashed_after_the_head(squash: Any) -> None:
    model = mw.encode_model(Squashed(squash), mw.Encoding.make("ro", 4))
    with pytest.warns(MultiwayWarning, match="not those of its last linear layer.*softmax, ReLU"):
        model(IMAGES, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(IMAGES, LABELS)  # said once
        mw.encode_model(Squashed(lambda x: x), mw.Encoding.make("ro", 4))(IMAGES, LABELS)
        mw.encode_model(Squashed(nn.Dropout(0.5)), mw.Encoding.make("ro", 4))(IMAGES, LABELS)


@pytest.mark.parametrize("last", [nn.Softmax(dim=1), nn.ReLU(), nn.Tanh()])
def test_a_sequential_that_ends_in_an_activation(last: nn.Module) -> None:
    with pytest.raises(MultiwayError, match=f"ends in {type(last).__name__}.*take it away"):
        mw.encode_model(nn.Sequential(nn.Linear(4, 4), last), mw.Encoding.make("ro", 4))


def test_a_head_that_is_frozen_or_shared() -> None:
    model = encoded()
    model.head_layer().requires_grad_(False)
    with pytest.warns(MultiwayWarning, match="the head is frozen"):
        model(IMAGES, LABELS)
    tied = nn.ModuleDict({"body": nn.Linear(4, 4), "head": nn.Linear(4, 4)})
    tied["head"].weight = tied["body"].weight
    with pytest.raises(MultiwayError, match="head '?.*shares its weights with 'body'"):
        mw.encode_model(tied, mw.Encoding.make("ro", 4), head="head")


def test_a_loss_that_starts_far_from_where_it_should() -> None:
    model = encoded()
    with torch.no_grad():
        model.head_layer().weight.mul_(300)
    with pytest.warns(MultiwayWarning, match="the loss starts at .* times too large"):
        model(IMAGES, LABELS)
    hit = encoded()
    with torch.no_grad():
        hit.head_layer().weight.zero_()
        hit.head_layer().bias.copy_(hit.encoding.codebook.vectors[0] / hit.gain)
    with pytest.warns(MultiwayWarning, match="trained already, or the labels are in its input"):
        hit(IMAGES, torch.zeros(16, dtype=torch.int64))


def test_another_number_of_classes_is_said() -> None:
    with pytest.warns(MultiwayWarning, match="has 4 outputs and the encoding 10 classes"):
        model = mw.encode_model(network(), mw.Encoding.make("ro", 10))
    assert model(IMAGES).shape == (16, 10)


def test_scores_in_the_place_of_codes_and_one_hot_labels() -> None:
    model = encoded()
    with pytest.raises(MultiwayError, match=r"given \[16, 4\], as scores are: write model\(images"):
        model.loss(model(IMAGES), LABELS)
    with pytest.raises(MultiwayError, match="as one-hot vectors do"):
        model(IMAGES, nn.functional.one_hot(LABELS, 4).float())
