"""Whether a run can be built as it is: what depends on several fields, the parts' own constructors say."""

import torch

from ablations.settings import InputError, one_line
from ablations.study.fingerprint import Config
from ablations.training.build import build_data, build_model


def check(config: Config) -> int:
    """Builds a run's data and model, and looks whether the model takes two tokens. Trains nothing.

    Args:
        config: resolved, each field of it enforced already.

    Returns:
        The model's weights that take part in products: all parameters but the embedding, which is a look-up.

    Raises:
        InputError: one line with the field, its value and what is allowed.
    """
    if config["runtime"]["accelerator"] == "gpu" and not torch.cuda.is_available():
        raise InputError("runtime.accelerator: gpu; allowed: cpu, since torch finds no GPU here")
    try:
        data = build_data(config)
        model = build_model(config, data.vocabulary)
        with torch.no_grad():
            model(torch.zeros(1, 2, dtype=torch.long))  # what parts refuse only together, as an odd d_k under RoPE
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"model: {one_line(error)}") from error
    except Exception as error:  # whatever a part that does not fit makes torch say
        raise InputError(f"model: {type(error).__name__}: {one_line(error)}") from error
    return sum(parameter.numel() for parameter in model.parameters()) - model.embedding.weight.numel()
