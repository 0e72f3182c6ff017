"""`accounting`: parameters and KV cache of open models, from their published configurations (second chapter, exercises
2 and 3).
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablations.measure.result import Result
from ablations.settings import CONF, InputError

CONTEXTS = {"8K": 8192, "32K": 32768, "128K": 131072}
FP16 = 2  # bytes
FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "deepseek_v3", "olmoe")

Account = dict[str, Any]


class _Keys:
    """A configuration whose missing or odd keys are told by name."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.config, self.where = config, where

    def whole(self, name: str, otherwise: int | None = None, least: int = 1, most: float = math.inf) -> int:
        allowed = f"a whole number from {least}" + (f" to {most}" if most < math.inf else "")
        value = self.config.get(name, otherwise)
        if value is None and name not in self.config:
            raise InputError(f"{self.where}: {name}: missing; allowed: {allowed}")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InputError(f"{self.where}: {name}: {value}; allowed: {allowed}")
        return value

    def window(self) -> int | None:
        """`sliding_window`, where the model has one and uses it."""
        used = self.config.get("use_sliding_window", True)
        return self.whole("sliding_window") if used and self.config.get("sliding_window") is not None else None


def account(config: Any, where: str) -> Account:
    """What a model of this configuration holds.

    Args:
        config: the keys of an open model's `config.json`.
        where: its name, for errors.

    Returns:
        `total` and `active` parameters; `parts`, parameters by part, which sum to the total; `kv_cache_bytes` of one
        request in fp16 by context: as it is, and `without` grouped queries, latent attention and windows, as far as
        the model has them.

    Raises:
        InputError: an unknown architecture, or a missing key.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"{where}: no mapping; allowed: the keys of a config.json")
    family = config.get("model_type")
    if family not in FAMILIES:
        raise InputError(f"{where}: model_type: {family}; allowed: {', '.join(FAMILIES)}")
    keys = _Keys(config, where)
    if family == "gpt2":
        return _gpt2(keys)
    if family == "deepseek_v3":
        return _deepseek(keys)
    return _llama(keys, str(family))


def _gpt2(keys: _Keys) -> Account:
    d, layers, heads = keys.whole("n_embd"), keys.whole("n_layer"), keys.whole("n_head")
    parts = {
        "embedding": keys.whole("vocab_size") * d,
        "positions": keys.whole("n_positions") * d,
        "attention": layers * (4 * d * d + 4 * d),
        "feed-forward": layers * (8 * d * d + 5 * d),
        "norms": layers * 4 * d + 2 * d,
        "output": 0,  # it is the embedding
    }
    return _told(parts, 0, layers, {"as it is": 2 * heads * (d // heads)}, None)


def _llama(keys: _Keys, family: str) -> Account:
    """Llama and those like it: Mistral (a window), Qwen 2 (biases on q, k and v), OLMoE (experts, normed q and k)."""
    d, layers, heads = keys.whole("hidden_size"), keys.whole("num_hidden_layers"), keys.whole("num_attention_heads")
    kv_heads = keys.whole("num_key_value_heads", heads)
    head = keys.whole("head_dim", d // heads) if keys.config.get("head_dim") is not None else d // heads
    inner = keys.whole("intermediate_size")
    attention = 2 * d * heads * head + 2 * d * kv_heads * head
    attention += (heads + 2 * kv_heads) * head if family == "qwen2" else 0
    norms = 2 * d + ((heads + kv_heads) * head if family == "olmoe" else 0)
    parts = _embeddings(keys, d) | {"attention": layers * attention, "norms": layers * norms + d}
    idle = 0
    if family == "olmoe":
        experts = keys.whole("num_experts")
        chosen = keys.whole("num_experts_per_tok", most=experts)
        parts |= {"router": layers * d * experts, "experts": layers * experts * 3 * d * inner}
        idle = layers * (experts - chosen) * 3 * d * inner
    else:
        parts["feed-forward"] = layers * 3 * d * inner
    kept = {"as it is": 2 * kv_heads * head}
    if kv_heads < heads:
        kept["without grouped queries"] = 2 * heads * head
    return _told(parts, idle, layers, kept, keys.window())


def _deepseek(keys: _Keys) -> Account:
    """Latent attention; the first layers dense, then shared and routed experts; without the extra prediction layer."""
    d, layers, heads = keys.whole("hidden_size"), keys.whole("num_hidden_layers"), keys.whole("num_attention_heads")
    q_rank, kv_rank = keys.whole("q_lora_rank"), keys.whole("kv_lora_rank")
    nope, rope, value = (keys.whole(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    dense = keys.whole("first_k_dense_replace", least=0, most=layers)
    routed, shared = keys.whole("n_routed_experts"), keys.whole("n_shared_experts", least=0)
    expert = 3 * d * keys.whole("moe_intermediate_size")
    attention = d * q_rank + q_rank * heads * (nope + rope) + d * (kv_rank + rope)
    attention += kv_rank * heads * (nope + value) + heads * value * d
    sparse = layers - dense
    parts = _embeddings(keys, d) | {
        "attention": layers * attention,
        "norms": layers * (2 * d + q_rank + kv_rank) + d,
        "feed-forward": dense * 3 * d * keys.whole("intermediate_size"),
        "shared experts": sparse * shared * expert,
        "router": sparse * (d + 1) * routed,  # with a correction per expert, which balances the load without a loss
        "experts": sparse * routed * expert,
    }
    idle = sparse * (routed - keys.whole("num_experts_per_tok", most=routed)) * expert
    kept = {"as it is": kv_rank + rope, "without latent attention": heads * (nope + rope + value)}
    return _told(parts, idle, layers, kept, None)


def _embeddings(keys: _Keys, d: int) -> dict[str, int]:
    size = keys.whole("vocab_size") * d
    return {"embedding": size, "output": 0 if keys.config.get("tie_word_embeddings", False) else size}


def _told(parts: dict[str, int], idle: int, layers: int, kept: dict[str, int], window: int | None) -> Account:
    """`kept`: numbers that a layer keeps per position, in each way of doing it."""
    total = sum(parts.values())
    cache: dict[str, dict[str, int]] = {}
    for way, numbers in kept.items():
        cache[way] = {name: layers * numbers * min(n, window or n) * FP16 for name, n in CONTEXTS.items()}
    if window is not None:
        cache["without the window"] = {n: layers * kept["as it is"] * length * FP16 for n, length in CONTEXTS.items()}
    return {"total": total, "active": total - idle, "parts": parts, "kv_cache_bytes": cache}


def load(file: Path) -> Any:
    """A configuration.

    Raises:
        InputError: no file, or no JSON.
    """
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read; allowed: a model's config.json") from error


def measure() -> list[Result]:
    """Parameters and KV cache of the models in `conf/accounting/`, beside what their cards print."""
    models, caches = [], []
    for file in sorted((CONF / "accounting").glob("*.json")):
        config = load(file)
        found, published = account(config, file.stem), config["_published"]
        row: dict[str, Any] = {"row": file.stem.replace("_", " "), "variant": file.stem}
        models.append(
            row
            | {"total": found["total"], "published": published.get("total"), "card": published["card"]}
            | {"active": found["active"], "active_card": published.get("active_card", "")}
        )
        for way, by_context in found["kv_cache_bytes"].items():
            line = {"row": f"{row['row']}, {way}", "variant": f"{file.stem}_{way.replace(' ', '_')}"}
            caches.append(line | {f"GiB_at_{name}": size / 2**30 for name, size in by_context.items()})
    example = {name: 2 * 32 * 32 * 128 * n * FP16 / 2**30 for name, n in CONTEXTS.items()}
    line = {"row": "the chapter's example: 32 layers, 32 heads of 128", "variant": "example"}
    caches.append(line | {f"GiB_at_{name}": size for name, size in example.items()})
    return [
        Result("accounting", "M. Parameters of open models, from their configurations", models),
        Result("kv_cache", "M. KV cache of one request in fp16", caches),
    ]
