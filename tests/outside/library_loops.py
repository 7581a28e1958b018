"""Loops of transformers, accelerate, Lightning and datasets, as they are, with tiny random models made from configs.

Each entry of `LOOPS` names the packages that it needs; the call returns the functions that have the loops, and what
runs them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch

Made = tuple[list[Any], Callable[[], Any]]
LOOPS: dict[str, tuple[tuple[str, ...], Callable[[], Made]]] = {}
TRAINING: set[str] = set()
UNSET = ("_time",)
"""Variables that are not compared: of time."""


def case(*packages: str, trains: bool = False) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Adds a loop."""

    def add(make: Callable[[], Made]) -> Callable[[], Made]:
        name = make.__name__
        LOOPS[name] = packages, make
        TRAINING.update({name} if trains else ())
        return make

    return add


def _gpt2(layers: int = 2) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(layers)
    size = {"n_embd": 16, "n_head": 2, "n_positions": 64, "vocab_size": 40}
    config = GPT2Config(n_layer=layers, bos_token_id=1, eos_token_id=2, pad_token_id=0, **size)
    return GPT2LMHeadModel(config).eval()


def _mistral() -> Any:
    """Heads that share their keys, of which only the last four are kept."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(1)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    labels = {"vocab_size": 40, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return MistralForCausalLM(MistralConfig(num_key_value_heads=1, sliding_window=4, **size, **labels)).eval()


def _t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(1)
    return T5ForConditionalGeneration(
        T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
    ).eval()


def _bart() -> Any:
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(1)
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    return BartForConditionalGeneration(
        BartConfig(vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=2, max_position_embeddings=64, **heads)
    ).eval()


def _generate(model: Any, loop: str, **options: Any) -> Made:
    ids = torch.tensor([[5, 6, 7, 8], [9, 4, 3, 11]])
    options = {"max_new_tokens": 8, "output_scores": True, "return_dict_in_generate": True, **options}
    return [getattr(type(model), loop)], lambda: _values(model.generate(ids, **options))


def _values(output: Any) -> list[Any]:
    """The tensors of an output, without caches."""
    return [value for value in output.values() if isinstance(value, torch.Tensor | tuple)]


@case("transformers")
def greedy_of_gpt2() -> Made:
    return _generate(_gpt2(), "_sample")


@case("transformers")
def samples_of_gpt2() -> Made:
    return _generate(_gpt2(), "_sample", do_sample=True, top_p=0.8, temperature=0.7, repetition_penalty=1.2)


@case("transformers")
def beams_of_gpt2() -> Made:
    return _generate(_gpt2(), "_beam_search", num_beams=3, length_penalty=0.5, no_repeat_ngram_size=2)


@case("transformers")
def greedy_of_t5() -> Made:
    return _generate(_t5(), "_sample", min_new_tokens=3)


@case("transformers")
def beams_of_t5() -> Made:
    return _generate(_t5(), "_beam_search", num_beams=4, early_stopping=True)


@case("transformers")
def sampled_beams_of_bart() -> Made:
    return _generate(_bart(), "_beam_search", num_beams=3, do_sample=True)


@case("transformers")
def assisted_decoding() -> Made:
    return _generate(_gpt2(2), "_assisted_decoding", assistant_model=_gpt2(1), do_sample=False, max_new_tokens=10)[
        0
    ], lambda: _values(
        _gpt2(2).generate(
            torch.tensor([[5, 6, 7, 8]]),
            assistant_model=_gpt2(1),
            max_new_tokens=10,
            output_scores=True,
            return_dict_in_generate=True,
        )
    )


@case("transformers")
def prompt_lookup() -> Made:
    model = _gpt2()
    return [type(model)._assisted_decoding], lambda: model.generate(
        torch.tensor([[5, 6, 7, 5, 6]]), prompt_lookup_num_tokens=3, max_new_tokens=8
    )


def _whisper() -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(1)
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    labels = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, num_mel_bins=8, max_source_positions=30,
            max_target_positions=20, suppress_tokens=[], begin_suppress_tokens=[], **heads, **labels,
        )
    ).eval()  # fmt: skip
    model.generation_config.suppress_tokens = model.generation_config.begin_suppress_tokens = None
    return model


@case("transformers")
def speech_of_whisper() -> Made:
    model = _whisper()
    return [type(model)._sample], lambda: model.generate(torch.randn(2, 8, 60), max_new_tokens=6)


@case("transformers")
def layers_of_gpt2() -> Made:
    model = _gpt2(3).transformer
    return [type(model).forward], lambda: model(torch.arange(6)[None]).last_hidden_state


@case("transformers")
def layers_of_t5() -> Made:
    model = _t5().encoder
    return [type(model).forward], lambda: model(torch.arange(6)[None]).last_hidden_state


@case("transformers")
def layers_of_llama() -> Made:
    from transformers import LlamaConfig, LlamaModel

    model = LlamaModel(
        LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2)
    ).eval()
    return [LlamaModel.forward], lambda: model(torch.arange(6)[None]).last_hidden_state


@case("transformers")
def steps_of_rwkv() -> Made:
    from transformers import RwkvConfig, RwkvModel
    from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

    model = RwkvModel(RwkvConfig(vocab_size=40, context_length=16, hidden_size=8, num_hidden_layers=2)).eval()
    return [rwkv_linear_attention_cpu], lambda: model(torch.arange(7)[None]).last_hidden_state


@case("transformers", "accelerate", trains=True)
def trainer() -> Made:
    from transformers import Trainer, TrainingArguments

    def train() -> Any:
        model, rows = _gpt2(), [{"input_ids": row, "labels": row} for row in torch.randint(3, 40, (8, 6))]
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder, num_train_epochs=2, per_device_train_batch_size=2, report_to=[], save_strategy="no",
                logging_steps=2, disable_tqdm=True, use_cpu=True, gradient_accumulation_steps=2,
            )  # fmt: skip
            result = Trainer(model, arguments, train_dataset=rows).train()
        return result.training_loss, [p.detach() for p in model.parameters()]

    return [getattr(Trainer, "_run_epoch", None) or Trainer._inner_training_loop], train


@case("accelerate", trains=True)
def loop_with_accelerate() -> Made:
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    def train() -> Any:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        loader = DataLoader(TensorDataset(torch.randn(10, 3)), batch_size=2, shuffle=True)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for _epoch in range(2):
            for (x,) in loader:
                with accelerator.accumulate(model):
                    loss = model(x).square().mean()
                    accelerator.backward(loss)
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
        return loss, [p.detach() for p in model.parameters()]

    return [train], train


@case("accelerate")
def batches_of_accelerate() -> Made:
    from accelerate.data_loader import DataLoaderShard, prepare_data_loader
    from torch.utils.data import DataLoader

    loader = prepare_data_loader(DataLoader(torch.arange(10.0), batch_size=3), device=torch.device("cpu"))
    return [DataLoaderShard.__iter__], lambda: [*loader]


def _lit_model() -> Any:
    import lightning.pytorch as pl

    class LitModel(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)
            self.losses: list[float] = []

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = self.layer(batch).square().mean()
            self.losses.append(float(loss.detach()))
            return loss

        def validation_step(self, batch: Any, index: int) -> torch.Tensor:
            error = self.layer(batch).abs().mean()
            self.log("error", error)
            return error

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 0.1)

    return LitModel


def _fit(model: Any) -> Any:
    import lightning.pytorch as pl
    from torch.utils.data import DataLoader

    loader = DataLoader(torch.randn(8, 3), batch_size=2, shuffle=True)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, loader, DataLoader(torch.randn(4, 3), batch_size=2))
    return model.losses, [p.detach() for p in model.parameters()]


@case("lightning", trains=True)
def epochs_of_lightning() -> Made:
    from lightning.pytorch.loops.fit_loop import _FitLoop

    return [_FitLoop.run], lambda: _fit(_lit_model()())


@case("lightning", trains=True)
def batches_of_lightning() -> Made:
    from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop

    return [_TrainingEpochLoop.run], lambda: _fit(_lit_model()())


@case("datasets")
def rows_of_datasets() -> Made:
    import datasets

    datasets.config.PBAR_REFRESH_TIME_INTERVAL = 3600  # how often the loop yields depends on the clock otherwise
    rows = datasets.Dataset.from_dict({"x": [[1, 2], [3], [4, 5, 6]]})
    return [datasets.Dataset._map_single], lambda: [
        *rows.map(lambda row: {"n": len(row["x"])}, load_from_cache_file=False)["n"]
    ]
