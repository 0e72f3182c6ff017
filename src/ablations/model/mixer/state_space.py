"""A selective state space, Mamba-type (Gu & Dao 2023, algorithm 2), with its recurrence in plain PyTorch."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.model.past import Past
from ablations.model.position.base import Position


def recurrence(decay_BxTxExN: Tensor, input_BxTxExN: Tensor) -> Tensor:
    """h_t = decay_t h_(t-1) + input_t from h = 0, one t after the other, each while it is in the cache.

    A scan over all t at once takes log2(T) passes over the whole, and on a processor four times as long at T = 128.
    """
    h_BxExN = torch.zeros_like(input_BxTxExN[:, 0])
    states = []
    for decay_BxExN, input_BxExN in zip(decay_BxTxExN.unbind(1), input_BxTxExN.unbind(1), strict=True):
        h_BxExN = torch.addcmul(input_BxExN, decay_BxExN, h_BxExN)
        states.append(h_BxExN)
    return torch.stack(states, dim=1)


class StateSpace(nn.Module):
    """A short causal convolution, then a linear recurrence whose decay, input and output hang on the token; gated.

    Args:
        width: of its input and output.
        state: N, numbers kept per channel.
        expand: channels as a multiple of `width`.
        kernel: positions that the convolution sees.
    """

    def __init__(self, width: int, state: int = 8, expand: float = 1.0, kernel: int = 4) -> None:
        super().__init__()
        channels = round(width * expand)
        for name, value in (("state", state), ("kernel", kernel), ("expand", channels)):
            if value < 1:
                raise ValueError(f"{name}: {value}; allowed: at least 1")
        rank = math.ceil(width / 16)
        self.channels, self.state, self.kernel, self.rank = channels, state, kernel, rank
        self.input = nn.Linear(width, 2 * channels, bias=False)
        self.convolution = nn.Conv1d(channels, channels, kernel, groups=channels)
        self.select = nn.Linear(channels, rank + 2 * state, bias=False)
        self.step = nn.Linear(rank, channels)
        self.log_decay = nn.Parameter(torch.arange(1, state + 1).float().log().repeat(channels, 1))
        self.skip = nn.Parameter(torch.ones(channels))
        self.output = nn.Linear(channels, width, bias=False)
        with torch.no_grad():  # steps between 0.001 and 0.1, evenly in the log, as the paper starts them
            steps_E = torch.logspace(-3, -1, channels)
            self.step.bias.copy_(steps_E + torch.log(-torch.expm1(-steps_E)))

    def forward(self, x_BxTxD: Tensor, position: Position, past: Past | None = None) -> Tensor:
        """Output BxTxD. A recurrence knows order by itself; the position encoding has no say."""
        u_BxTxE, gate_BxTxE = self.input(x_BxTxD).chunk(2, dim=-1)
        u_BxTxE = F.silu(self._convolved(u_BxTxE, past))
        select = self.select(u_BxTxE).split([self.rank, self.state, self.state], dim=-1)
        rank_BxTxR, in_BxTxN, out_BxTxN = select
        step_BxTxE = F.softplus(self.step(rank_BxTxR))
        decay_BxTxExN = torch.exp(-step_BxTxE[..., None] * self.log_decay.exp())
        input_BxTxExN = (step_BxTxE * u_BxTxE)[..., None] * in_BxTxN[..., None, :]
        if past is not None and "state" in past.kept:
            first = input_BxTxExN[:, :1] + decay_BxTxExN[:, :1] * past.kept["state"][:, None]
            input_BxTxExN = torch.cat((first, input_BxTxExN[:, 1:]), dim=1)
        h_BxTxExN = recurrence(decay_BxTxExN, input_BxTxExN)
        if past is not None:
            past.kept["state"] = h_BxTxExN[:, -1].clone()
        y_BxTxE = (h_BxTxExN * out_BxTxN[..., None, :]).sum(dim=-1) + self.skip * u_BxTxE
        y_BxTxD: Tensor = self.output(y_BxTxE * F.silu(gate_BxTxE))
        return y_BxTxD

    def _convolved(self, u_BxTxE: Tensor, past: Past | None) -> Tensor:
        before = None if past is None else past.kept.get("input")
        if before is None:
            before = u_BxTxE.new_zeros(len(u_BxTxE), self.kernel - 1, self.channels)
        whole_BxSxE = torch.cat((before, u_BxTxE), dim=1)
        if past is not None:
            past.kept["input"] = whole_BxSxE[:, len(whole_BxSxE[0]) - self.kernel + 1 :].clone()
        convolved_BxTxE: Tensor = self.convolution(whole_BxSxE.transpose(1, 2)).transpose(1, 2)
        return convolved_BxTxE
