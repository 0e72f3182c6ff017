"""Attention maps of the closed coreference task, from the details that its two-block runs recorded (section K)."""

from typing import Any

import numpy as np
import pandas as pd

from ablations.data.coreference import ADJECTIVE, CROSSED, CROSSER, FIRST, REFERENT, SECOND, sentence
from ablations.report.results import COUNTED
from ablations.report.statistics import mean
from ablations.report.table import Table, mean_cell
from ablations.study.ledger import read

MODEL = "closed_two_blocks"
PAIR = ("tired", "wet")  # the two sentences that the chapter shows
OPEN_WORDS = {FIRST: "first noun", SECOND: "second noun", ADJECTIVE: "adjective"}

Maps = dict[str, Any]


def attention_tables(runs: pd.DataFrame, chapter: dict[str, Any]) -> list[Table]:
    """The map of the two sentences averaged over heads, the same per head, and the rule over all adjectives."""
    mine = runs[(runs["variant"] == MODEL) & runs["state"].isin(COUNTED)]
    records = [read(folder) for folder in mine["folder"]]
    maps = [record["details"]["attention"] for record in records if record is not None]
    if not maps:
        return []
    blocks = len(maps[0]["one"][PAIR[0]])
    return [_averaged(maps, blocks, chapter.get("attention_map", {})), _per_head(maps, blocks), _rule(maps, blocks)]


def words() -> list[str]:
    """The 15 words that the asked position sees, the open ones by their part."""
    return [OPEN_WORDS.get(i, word) for i, word in enumerate(sentence("A", "B", PAIR[0])[:REFERENT])]


def _averaged(maps: list[Maps], blocks: int, known: dict[str, Any]) -> Table:
    rows = []
    for i, word in enumerate(words()):
        row: dict[str, Any] = {"row": f"{i + 1} {word}", "variant": f"word_{i + 1}"}
        for block in range(blocks):
            for adjective in PAIR:
                name = f"block{block + 1}_{adjective}"
                found = [float(np.mean([head[i] for head in m["one"][adjective][block]])) for m in maps]
                row |= mean_cell(name, mean(found), known.get(name, {}).get(i + 1))
        rows.append(row)
    caption = "K. Attention where the referent must be named, two sentences that differ in one word, mean over heads"
    return Table("attention_map", caption, pd.DataFrame(rows))


def _per_head(maps: list[Maps], blocks: int) -> Table:
    """Of the first seed alone: heads of different seeds have no common order."""
    one = maps[0]["one"]
    rows = []
    for i, word in enumerate(words()):
        row: dict[str, Any] = {"row": f"{i + 1} {word}", "variant": f"word_{i + 1}"}
        for block in range(blocks):
            for adjective in PAIR:
                for head, weights in enumerate(one[adjective][block], start=1):
                    row[f"block{block + 1}_{adjective}_head{head}"] = weights[i]
        rows.append(row)
    return Table("attention_map_heads", "K. The same head by head, first seed", pd.DataFrame(rows))


def _rule(maps: list[Maps], blocks: int) -> Table:
    rows = []
    for adjective in CROSSER + CROSSED:
        kind = "the crosser" if adjective in CROSSER else "the crossed"
        row: dict[str, Any] = {"row": f"{adjective} ({kind})", "variant": adjective}
        for i, name in OPEN_WORDS.items():
            found = [float(np.mean([head[i] for head in m["mean"][adjective][blocks - 1]])) for m in maps]
            row |= mean_cell(name.replace(" ", "_"), mean(found))
        rows.append(row)
    caption = f"K. Where block {blocks} looks, by adjective, mean over heads and all held-out pairs"
    return Table("attention_rule", caption, pd.DataFrame(rows))
