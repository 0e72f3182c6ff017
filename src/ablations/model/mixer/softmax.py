"""From scores to weights (chapter, section B)."""

import math

from torch import Tensor


def weights(scores_BxHxTxS: Tensor, visible_TxS: Tensor) -> Tensor:
    """Attention weights, BxHxTxS: softmax of the scores, those of hidden keys at -inf. Each row sums to one."""
    return scores_BxHxTxS.masked_fill(~visible_TxS, -math.inf).softmax(dim=-1)
