"""Corpus and tokens, made where a command finds none: a fresh clone trains without a word about stages."""

import sys

from ablations.settings import ROOT, InputError


def prepare() -> None:
    """Makes `data/corpus.txt` and `data/tokens/` as `params.yaml` says, where they are missing."""
    folder = ROOT / "data"
    if (folder / "tokens" / "meta.json").exists():
        return
    from ablations.data import corpus, tokenizer

    arguments, sys.argv = sys.argv, sys.argv[:1]
    try:
        for stage in (corpus, tokenizer):
            if stage is corpus and (folder / "corpus.txt").exists():
                continue
            if stage.main():
                raise InputError("data/tokens: could not be made; see the line above")
    finally:
        sys.argv = arguments
