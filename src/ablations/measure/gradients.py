"""`gradients`: how large they are per block before training, pre- and post-norm (chapter, section H).

Which gradient the chapter means is not said; that of the stacked W_q, W_k, W_v fits its figures. The table has it and
the norm over all parameters of a block.
"""

from typing import Any

import numpy as np
import torch.nn.functional as F

from ablations.measure.result import Result
from ablations.study import compose
from ablations.training.build import build_data, build_model
from ablations.training.probes import gradient_norm

SEEDS = range(8)  # the first and last block's norms differ by half from seed to seed


def block_gradients(placement: str, seed: int) -> list[tuple[float, float]]:
    """Gradient norms of the first batch, per block: of the stacked W_q, W_k, W_v, and of all parameters."""
    with compose.hydra():
        config = compose.composed([f"variant=norm/{placement}", f"seed={seed}"]).config
    data = build_data(config)
    model = build_model(config, data.vocabulary)
    x_BxT, y_BxT = data.batch(0)
    F.cross_entropy(model(x_BxT).flatten(0, 1), y_BxT.flatten()).backward()  # type: ignore[no-untyped-call]
    mixers: list[Any] = [block.mixer for block in model.blocks]
    return [
        (gradient_norm([mixer.qkv.weight]), gradient_norm(block.parameters()))
        for mixer, block in zip(mixers, model.blocks, strict=True)
    ]


def measure() -> list[Result]:
    """First and last of twelve blocks and their ratio, by seed; and every block."""
    rows: list[dict[str, Any]] = []
    profile: dict[int, dict[str, Any]] = {}
    for placement in ("pre", "post"):
        found_SxNx2 = np.array([block_gradients(placement, seed) for seed in SEEDS])
        for i, (which, words) in enumerate((("qkv", "W_q, W_k, W_v"), ("all", "all parameters"))):
            norms_SxN = found_SxNx2[:, :, i]
            figures = {"block_1": norms_SxN[:, 0], "block_12": norms_SxN[:, -1]}
            figures["ratio"] = figures["block_12"] / figures["block_1"]
            row = {"row": f"{placement}-norm, {words}", "variant": f"{placement}_{which}"}
            rows.append(row | {name: values.tolist() for name, values in figures.items()})
            for n, values in enumerate(norms_SxN.T.tolist(), start=1):
                block = profile.setdefault(n, {"row": f"block {n}", "variant": f"block_{n}"})
                block[f"{placement}_{which}"] = values
    return [
        Result("gradients", "H. Gradient norms before training, twelve blocks", rows),
        Result("gradient_profile", "H. The same in every block", list(profile.values())),
    ]
