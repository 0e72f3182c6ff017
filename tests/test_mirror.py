"""wandb's own files, read back; and wandb failing, which is no reason for a run to fail."""

import csv
import dataclasses
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ablations.study.compose import Run
from ablations.study.mirror import id_of
from tests.conftest import SMALL, Command, records


def wandb_records(folder: Path) -> Iterator[Any]:
    """The records of an offline run, read from its log: blocks of 32 KiB, a checksum, length and kind before each."""
    from wandb.proto import wandb_internal_pb2 as protobuf

    (file,) = folder.glob("*.wandb")
    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part = data[at + 7 : at + 7 + length]
        at += 7 + length
        whole = part if kind in (1, 2) else whole + part
        if kind in (1, 4):
            record = protobuf.Record()
            record.ParseFromString(whole)
            yield record


def test_wandb_has_each_run_with_its_name_group_config_and_history(run: Command, project: Path) -> None:
    found = run("ablations.train", "-m", "seed=0,1", *SMALL, WANDB_MODE="offline", LAUNCHER="joblib")
    assert found.returncode == 0, found.stderr
    folders = sorted((project / "wandb").iterdir())
    assert len(folders) == 2 and all(re.search(r"-quick-sweep-.*-s[01]-\w{6}$", f.name) for f in folders)
    for seed, folder in enumerate(sorted(folders, key=lambda f: f.name[-8])):
        everything = list(wandb_records(folder))
        begun = next(r.run for r in everything if r.WhichOneof("record_type") == "run")
        config = {item.key: json.loads(item.value_json) for item in begun.config.update}
        assert begun.run_group == "sweep" and begun.job_type.startswith("steps-12") and config["steps"] == 12
        history = [
            {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in r.history.item}
            for r in everything
            if r.WhichOneof("record_type") == "history"
        ]
        assert [row["step"] for row in history] == [0, 5, 10, 12]
        ours = next((project / "results").rglob(f"seed-{seed}/history.csv"))
        with ours.open() as file:
            for row, theirs in zip(csv.DictReader(file), history, strict=True):
                assert {name: float(v) for name, v in row.items() if v} == {n: theirs[n] for n, v in row.items() if v}
        ended = [r.exit.exit_code for r in everything if r.WhichOneof("record_type") == "exit"]
        assert ended == [0]


def test_wandb_that_cannot_write_stops_no_run(run: Command, project: Path) -> None:
    (project / "wandb").write_text("a file where wandb wants a folder")
    found = run("ablations.train", *SMALL, WANDB_MODE="offline")
    assert found.returncode == 0, found.stderr
    assert len(records(project)) == 1 and "Traceback" not in found.stderr


def test_wandb_disabled_writes_nothing(run: Command, project: Path) -> None:
    assert run("ablations.train", *SMALL, WANDB_MODE="disabled").returncode == 0
    assert not (project / "wandb").exists()


def test_online_without_an_account_or_a_network_is_mirrored_offline(run: Command, project: Path) -> None:
    """No key: told at once. A key and no server: told after a while. Run and mirror are whole either way."""
    (project / "home").mkdir()
    for seed, more in enumerate(({}, {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"})):
        found = run("ablations.train", *SMALL, f"seed={seed}", WANDB_MODE="online", HOME=str(project / "home"), **more)
        assert found.returncode == 0, found.stderr
        assert "this run is mirrored offline" in found.stderr and "Traceback" not in found.stderr
        (folder,) = (project / "wandb").glob(f"offline-run-*-s{seed}-*")
        assert sum(r.WhichOneof("record_type") == "history" for r in wandb_records(folder)) == 4
    assert len(records(project)) == 2


def test_an_id_says_which_run_it_is_however_long_the_variants_name() -> None:
    run = Run("modern_attention", "swept-" + "x" * 80 + "-0a1b2c", 3, "chapter", "0123456789abcdef", {})
    found = id_of(run)
    assert len(found) == 120 and found.startswith("chapter-modern_attention-x")
    assert found.endswith("x-0a1b2c-s3-012345")
    short = dataclasses.replace(run, variant="latent")
    assert id_of(short) == "chapter-modern_attention-latent-s3-012345"
