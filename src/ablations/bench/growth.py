"""`python -m ablations.bench.growth FOLDER RUNS`: seconds to report on a ledger of so many runs, made up for it."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ablations.settings import ROOT
from ablations.study import compose
from ablations.study.compose import Run, with_seed
from ablations.study.ledger import Ledger, Row, history_csv
from ablations.study.variants import variants

STUDY = "ladder"
READINGS = 61  # rows of a history, as at the chapter's budget


def main(root: Path, runs: int) -> None:
    """Fills a project with `runs` runs of one study and prints how long its reports take."""
    shutil.copytree(ROOT / "conf", root / "conf")
    shutil.copy(ROOT / "params.yaml", root / "params.yaml")
    with compose.hydra():
        first = [compose.composed([f"variant={STUDY}/{name}"]) for name in variants(STUDY)]
    made = [with_seed(variant, seed) for seed in range(runs // len(first)) for variant in first]
    ledger = Ledger(root / "results")
    rows = [_planned(run, ledger, root) for run in made]
    study: dict[str, object] = {"name": STUDY, "section": "F", "question": "?", "baseline": first[0].variant}
    study["rows"] = {run.variant: run.variant for run in first}
    plan = root / "plans" / "chapter" / f"{STUDY}.json"
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps({"study": study, "runs": rows}))
    (root / "measurements" / "chapter").mkdir(parents=True)
    began = time.perf_counter()
    environment = os.environ | {"ABLATIONS_ROOT": str(root)}
    for report in ("tables", "claims", "page"):
        command = [sys.executable, "-m", f"ablations.report.{report}"]
        subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True)
    print(time.perf_counter() - began)


def _planned(run: Run, ledger: Ledger, root: Path) -> dict[str, object]:
    """Writes one made-up run into the ledger; its line of the plan."""
    run.config["runtime"]["results"] = str(root / "results")
    loss = 3.6 + 0.01 * math.sin(run.seed)
    metrics = {"heldout_perplexity": math.exp(loss), "train_perplexity": math.exp(loss - 0.5), "parameters": 477696}
    readings = {f"block1/{name}": 1.0 for name in ("entropy", "score_std", "saturated", "gradient_norm")}
    history: list[Row] = [
        {"step": 50 * i, "train_loss": loss + 3 / (i + 1), "lr": 0.001, **readings} for i in range(READINGS)
    ]
    ledger.write(run, "done", metrics, {}, history_csv(history), {"commit": None, "seconds": 1.0})
    folder = str(run.folder.relative_to(root / "results"))
    line = {"study": run.study, "variant": run.variant, "seed": run.seed, "fingerprint": run.fingerprint}
    return line | {"folder": folder, "cost": 1.0, "overrides": []}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
