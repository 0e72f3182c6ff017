"""A step as nanoGPT takes it, to measure ours against: its published architecture and training step, written anew.

One fused projection for queries, keys and values; PyTorch's fused attention; LayerNorm before each part and before the
output; GELU; the output layer is the embedding; AdamW that decays matrices alone; gradients clipped at norm 1.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    """One transformer block.

    Args:
        width: of the residual stream.
        heads: of its attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            part.view(B, T, self.heads, D // self.heads).transpose(1, 2)
            for part in self.attend(self.norm_1(x)).split(D, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).contiguous().view(B, T, D))
        out: Tensor = x + self.down(F.gelu(self.up(self.norm_2(x))))
        return out


class GPT(nn.Module):
    """A GPT of these sizes.

    Args:
        vocabulary: kinds of tokens.
        context: longest text.
        width: of the residual stream.
        heads: of each layer's attention.
        layers: how many.
    """

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                last = name.endswith(("project.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * layers) if last else 1))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of the targets."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def optimizer(model: GPT) -> torch.optim.Optimizer:
    """AdamW with decay on matrices alone."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def step(model: GPT, adamw: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> float:
    """One training step; its loss."""
    loss = model(tokens, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adamw.step()
    adamw.zero_grad(set_to_none=True)
    return float(loss.item())
