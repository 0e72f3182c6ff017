"""`one_operation`: the average by a loop, by a matrix and by a softmax is one function (chapter, section B)."""

from typing import Any

import torch

from ablations.measure.result import Result
from ablations.model.mixer.average import Average
from ablations.model.mixer.softmax import weights
from ablations.model.position.base import Position

BATCH, LENGTH, WIDTH = 4, 64, 128
PRINTED = 6  # rows and columns of the matrix that the chapter prints


def measure() -> list[Result]:
    """Largest difference from a loop of means over unit normals, and the averaging matrix of six positions."""
    torch.manual_seed(0)
    x_BxTxD = torch.randn(BATCH, LENGTH, WIDTH)
    average, position = Average(WIDTH), Position(WIDTH)
    loop = torch.stack([x_BxTxD[:, : t + 1].mean(dim=1) for t in range(LENGTH)], dim=1)
    ways = {
        "lower-triangular matrix product": average(x_BxTxD, position),
        "softmax of zeros, the future at -inf": (weights(*average.scores(x_BxTxD, position)) @ x_BxTxD[:, None])[:, 0],
    }
    shuffled = torch.cat((x_BxTxD[:, torch.randperm(LENGTH - 1)], x_BxTxD[:, -1:]), dim=1)
    moved = (average(shuffled, position) - average(x_BxTxD, position))[:, -1]
    rows: list[dict[str, Any]] = [
        {"row": f"{way}, against a loop of means", "variant": name, "max_difference": (out - loop).abs().max().item()}
        for name, (way, out) in zip(("matrix", "softmax"), ways.items(), strict=True)
    ]
    rows.append(
        {"row": "the window shuffled, at its end", "variant": "shuffled", "max_difference": moved.abs().max().item()}
    )
    matrix_TxT = weights(*average.scores(torch.zeros(1, PRINTED, WIDTH), position))[0, 0]
    matrix = [
        {"row": f"position {t}", **{f"key_{s}": w for s, w in enumerate(r)}} for t, r in enumerate(matrix_TxT.tolist())
    ]
    return [
        Result("one_operation", "B. One operation, three ways", rows),
        Result("averaging_matrix", f"B. The averaging matrix of {PRINTED} positions", matrix),
    ]
