"""Corpus and tokens, made where a command finds none: a fresh clone trains without a word about stages."""

from ablations.settings import ROOT, parameters


def prepare() -> None:
    """Makes `data/corpus.txt` and `data/tokens/` as `params.yaml` says, where they are missing."""
    if (ROOT / "data" / "tokens" / "meta.json").exists():
        return
    from ablations.data import corpus, tokenizer  # their libraries are of no use to a command that has its tokens

    params = parameters([])
    if not corpus.CORPUS.exists():
        corpus.make(params)
    tokenizer.make(params)
