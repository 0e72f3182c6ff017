"""Parameters and KV caches of open models, against what is published and against modules that are built."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ablations.measure.accounting import account, measure
from ablations.measure.parameters import GPT2, count, gpt2
from ablations.settings import InputError
from tests.conftest import PROJECT, Command

CONFIGS = {file.stem: json.loads(file.read_text()) for file in (PROJECT / "conf" / "accounting").glob("*.json")}


@pytest.mark.parametrize("name", CONFIGS)
def test_totals_are_right_to_the_digits_of_the_card(name: str) -> None:
    found, published = account(CONFIGS[name], name), CONFIGS[name]["_published"]
    digits, unit = re.fullmatch(r"([\d.]+)([MB])", published["card"]).groups()  # type: ignore[union-attr]
    places = len(digits.partition(".")[2])
    assert f"{found['total'] / {'M': 1e6, 'B': 1e9}[unit]:.{places}f}" == digits
    assert found["total"] == published.get("total", found["total"]) == sum(found["parts"].values())
    if "active_card" in published:
        assert found["active"] / 1e9 == pytest.approx(float(published["active_card"][:-1]), rel=0.02)
    else:
        assert found["active"] == found["total"]


def test_gpt2_is_the_module_that_is_built() -> None:
    with torch.device("meta"):
        assert account(CONFIGS["gpt2"], "gpt2")["total"] == count(gpt2(**GPT2))


def test_a_small_llama_is_the_modules_that_it_would_be() -> None:
    """Counted from torch's own layers: q, k, v, o, gate, up, down and two norms per layer; embedding, norm, output."""
    config = {"model_type": "llama", "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 3,
              "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 70}  # fmt: skip

    def linear(i: int, o: int) -> nn.Linear:
        return nn.Linear(i, o, bias=False)

    layers = [
        [linear(48, 48), linear(48, 16), linear(48, 16), linear(48, 48), linear(48, 100), linear(48, 100),
         linear(100, 48), nn.RMSNorm(48), nn.RMSNorm(48)]
        for _ in range(3)
    ]  # fmt: skip
    everything = [nn.Embedding(70, 48), nn.RMSNorm(48), linear(48, 70), *(part for layer in layers for part in layer)]
    assert account(config, "x")["total"] == count(*everything)
    tied = account(config | {"tie_word_embeddings": True}, "x")
    assert tied["total"] == count(*everything) - 70 * 48 and tied["parts"]["output"] == 0


def test_the_chapters_example_is_16_gib() -> None:
    """32 layers, 32 heads of 128, fp16, 32K tokens; grouped on 8 heads a quarter; a window keeps what it sees."""
    config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 1, "num_hidden_layers": 32,
              "num_attention_heads": 32, "vocab_size": 1}  # fmt: skip
    assert account(config, "x")["kv_cache_bytes"]["as it is"]["32K"] == 16 * 2**30
    grouped = account(config | {"num_key_value_heads": 8}, "x")["kv_cache_bytes"]
    assert grouped["as it is"]["32K"] == 4 * 2**30 and grouped["without grouped queries"]["32K"] == 16 * 2**30
    sliding = account(config | {"model_type": "mistral", "sliding_window": 8192}, "x")["kv_cache_bytes"]
    assert (
        sliding["as it is"]["128K"] == sliding["as it is"]["8K"] and sliding["without the window"]["32K"] == 16 * 2**30
    )
    latent = account(CONFIGS["deepseek_v3"], "x")["kv_cache_bytes"]
    assert latent["as it is"]["8K"] == 61 * (512 + 64) * 8192 * 2
    table = {row["variant"]: row for row in measure()[1].rows}
    assert table["example"]["GiB_at_32K"] == 16


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "rwkv"}, "model_type: rwkv; allowed: gpt2, llama, mistral, qwen2, deepseek_v3, olmoe"),
        ({"model_type": None}, "model_type: None"),
        ({"hidden_size": "wide"}, "hidden_size: wide; allowed: a whole number from 1"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: 0"),
        ({"vocab_size": None}, "vocab_size: None"),
        (
            CONFIGS["olmoe_1b_7b"] | {"num_experts_per_tok": 65},
            "num_experts_per_tok: 65; allowed: .* 1 to 64",
        ),
        (
            CONFIGS["deepseek_v3"] | {"first_k_dense_replace": 62},
            "first_k_dense_replace: 62; .* 0 to 61",
        ),
        (CONFIGS["deepseek_v3"] | {"num_experts_per_tok": 257}, "num_experts_per_tok: 257"),
    ],
)
def test_what_is_amiss_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"^x: {says}"):
        account(CONFIGS["llama_3_8b"] | change, "x")
    for key in ("hidden_size", "num_attention_heads", "vocab_size"):
        with pytest.raises(InputError, match=f"^x: {key}: missing"):
            account({k: v for k, v in CONFIGS["llama_3_8b"].items() if k != key}, "x")


def test_a_model_may_have_no_dense_layer_and_no_shared_expert() -> None:
    found = account(CONFIGS["deepseek_v3"] | {"first_k_dense_replace": 0, "n_shared_experts": 0}, "x")
    expert = 3 * 7168 * 2048
    assert found["parts"]["feed-forward"] == found["parts"]["shared experts"] == 0
    assert found["parts"]["experts"] == 61 * 256 * expert and found["active"] == found["total"] - 61 * 248 * expert


def test_it_is_a_command(run: Command, project: Path) -> None:
    file = project / "config.json"
    file.write_text(json.dumps(CONFIGS["mistral_7b"]))
    said = json.loads(run("ablations.account", "config.json", "--json").stdout)
    assert said["total"] == 7_241_732_096 and set(said) == {"total", "active", "parts", "kv_cache_bytes"}
    assert said["kv_cache_bytes"]["8K"] == 2**29
    assert "7,241,732,096" in run("ablations.account", "config.json").stdout
    for text, says in (("{", "cannot be read"), ("[1]", "no mapping"), ('{"model_type": "x"}', "model_type: x")):
        file.write_text(text)
        found = run("ablations.account", "config.json")
        assert found.returncode == 2 and len(found.stderr.splitlines()) == 1 and says in found.stderr
    assert run("ablations.account").returncode == 2
