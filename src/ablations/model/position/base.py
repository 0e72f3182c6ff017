"""What a position encoding may touch. The base touches nothing: no encoding at all (chapter, section I)."""

import torch
from torch import Tensor, nn


class Position(nn.Module):
    """No position encoding. Encodings override one of the three methods.

    Args:
        width: of the embeddings.
    """

    def __init__(self, width: int) -> None:
        super().__init__()

    def embed(self, x_BxTxD: Tensor, start: int = 0) -> Tensor:
        """What goes into the first block, from the token embeddings at positions `start` and on."""
        return x_BxTxD

    def rotate(self, x_BxHxTxK: Tensor, start: int = 0) -> Tensor:
        """What enters the scores, from queries or keys at positions `start` to `start` + T - 1."""
        return x_BxHxTxK

    def bias(self, heads: int, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """What is added to the scores, HxTxS, or None. The T queries stand at the last of the S keys' positions."""
        return None
