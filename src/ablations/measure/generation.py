"""`generation`: time per token and memory of the past against the length, with a KV cache and without (second chapter).

An untrained block of each attention kind, one thread; how long a token takes does not hang on what was learned.
"""

import functools
import time
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from ablations.measure.result import Result
from ablations.model.feedforward.gelu import FeedForward
from ablations.model.generation import generate
from ablations.model.language_model import LanguageModel
from ablations.model.mixer.attention import Attention
from ablations.model.mixer.latent import LatentAttention
from ablations.model.mixer.sliding import SlidingWindow
from ablations.model.mixer.state_space import StateSpace
from ablations.model.past import Past
from ablations.model.position.rotary import Rotary

WIDTH, HEADS, VOCABULARY = 128, 8, 1024
LENGTHS = (64, 256, 1024)
TIMED = 8  # tokens per figure
MIXERS: dict[str, Any] = {
    "multi_head": functools.partial(Attention, heads=HEADS, project=True),
    "grouped_query": functools.partial(Attention, heads=HEADS, kv_heads=2, project=True),
    "multi_query": functools.partial(Attention, heads=HEADS, kv_heads=1, project=True),
    "latent": functools.partial(LatentAttention, heads=HEADS, latent=32, turned=8),
    "sliding": functools.partial(SlidingWindow, window=32, heads=HEADS, project=True),
    "state_space": StateSpace,
}


def expected_bytes(name: str, length: int) -> int:
    """What the past of one block takes by formula, in float32."""
    head = WIDTH // HEADS
    numbers = {
        "multi_head": 2 * HEADS * head * length,
        "grouped_query": 2 * 2 * head * length,
        "multi_query": 2 * head * length,
        "latent": (32 + 8) * length,
        "sliding": 2 * HEADS * head * min(length, 31),
        "state_space": WIDTH * 8 + 3 * WIDTH,
    }
    return 4 * numbers[name]


def build(name: str) -> LanguageModel:
    """One block of that kind."""
    torch.manual_seed(0)
    return LanguageModel(
        vocabulary=VOCABULARY,
        width=WIDTH,
        blocks=1,
        position=Rotary,
        mixer=MIXERS[name],
        feedforward=FeedForward,
        norm=nn.LayerNorm,
        placement="pre",
        residual=True,
    )


def milliseconds(model: LanguageModel, text_T: Tensor, cached: bool) -> tuple[float, int]:
    """Median time of one more token after the text, and the bytes that are kept."""
    pasts = [Past() for _ in model.blocks]
    taken = []
    with torch.no_grad():
        model(text_T[None], pasts)
        kept = sum(past.bytes for past in pasts)
        for _ in range(TIMED):
            began = time.perf_counter()
            model(text_T[None, -1:], pasts) if cached else model(text_T[None])
            taken.append(time.perf_counter() - began)
    return 1000 * median(taken), kept


def measure() -> list[Result]:
    """Per kind of attention and length; and whether both ways give the same tokens."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in MIXERS:
        model = build(name)
        for n in LENGTHS:
            text_T = torch.randint(VOCABULARY, (n,), generator=torch.Generator().manual_seed(n))
            with_cache, kept = milliseconds(model, text_T, cached=True)
            without, _ = milliseconds(model, text_T, cached=False)
            same = torch.equal(generate(model, text_T, TIMED), generate(model, text_T, TIMED, cached=False))
            row = {"row": f"{name.replace('_', ' ')}, n = {n}", "variant": f"{name}_{n}"}
            row |= {"cached_ms": with_cache, "read_again_ms": without}  # type: ignore[dict-item]
            row |= {"cache_bytes": kept, "cache_bytes_by_formula": expected_bytes(name, n)}  # type: ignore[dict-item]
            rows.append(row | {"same_tokens": "yes" if same else "no"})
    caption = "M. One more token after n, one block 128 wide, with a KV cache and reading everything again"
    return [Result("generation", caption, rows)]
