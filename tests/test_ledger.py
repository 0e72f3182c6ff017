"""The ledger: whole or not there, and what was damaged is noticed."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablations.study import compose
from ablations.study import ledger as ledger_module
from ablations.study.compose import Run
from ablations.study.ledger import Ledger, history_csv, read


@pytest.fixture
def a_run(small_tokens: Path, tmp_path: Path) -> Iterator[Run]:
    with compose.hydra():
        yield compose.composed(
            [
                "variant=depth/one_block",
                f"runtime.tokens={small_tokens}",
                f"runtime.results={tmp_path / 'results'}",
                f"runtime.work={tmp_path / 'work'}",
            ]
        )


@pytest.fixture
def ledger(a_run: Run, tmp_path: Path) -> Ledger:
    found = Ledger(tmp_path / "results")
    assert found.status(a_run) == "todo"
    rows = [{"step": 0, "loss": 2.5}, {"step": 10, "loss": None, "entropy": 0.1}]
    found.write(a_run, "done", {"heldout_perplexity": 12.5}, {}, history_csv(rows), {"threads": 1})
    return found


def test_a_record_that_is_replaced_while_it_is_read_is_not_taken_for_damaged(
    ledger: Ledger, a_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new record is there and its history is not: read again, and not set aside."""
    history = a_run.folder / "history.csv"
    new = history.read_text()
    pauses = []
    monkeypatch.setattr(ledger_module.time, "sleep", lambda pause: (pauses.append(pause), history.write_text(new)))
    history.write_text("step\n1\n")
    assert read(a_run.folder) is not None and len(pauses) == 1
    history.unlink()
    assert read(a_run.folder) is not None and len(pauses) == 2
    assert not list(a_run.folder.glob("*.corrupt"))


def test_what_is_written_is_read(ledger: Ledger, a_run: Run) -> None:
    record = read(a_run.folder)
    assert record is not None and record["status"] == "done" and record["metrics"] == {"heldout_perplexity": 12.5}
    assert (record["study"], record["variant"], record["seed"], record["budget"]) == (
        "depth",
        "one_block",
        0,
        "chapter",
    )
    assert record["fingerprint"] == a_run.fingerprint and record["config"]["steps"] == 3000
    assert "runtime" not in record["config"]
    assert (a_run.folder / "history.csv").read_text() == "step,loss,entropy\n0,2.5,\n10,,0.1\n"
    assert json.loads((a_run.folder / "provenance.json").read_text()) == {"threads": 1}
    assert ledger.status(a_run) == "done"
    assert [file.name for file in a_run.folder.parent.iterdir()] == ["seed-0"]


def test_another_identity_is_stale_and_a_checkpoint_is_begun(ledger: Ledger, a_run: Run) -> None:
    other = dataclasses.replace(a_run, fingerprint="0" * 16)
    assert ledger.status(other) == "stale"
    other.work.mkdir(parents=True)
    (other.work / "last.ckpt").touch()
    assert ledger.status(other) == "begun"
    assert ledger.status(a_run) == "done"


def test_a_twin_is_found_by_its_identity(ledger: Ledger, a_run: Run) -> None:
    twin = ledger.twin(dataclasses.replace(a_run, study="ladder", variant="layer_norm"))
    assert twin is not None and twin["folder"] == a_run.folder
    assert ledger.twin(dataclasses.replace(a_run, fingerprint="0" * 16)) is None
    vanished = a_run.folder.with_name("another") / "run.json"
    vanished.mkdir(parents=True)  # no file to read, as when another job puts its own there just now
    assert ledger.twin(dataclasses.replace(a_run, fingerprint="0" * 16)) is None
    vanished.rmdir()
    ledger.write(a_run, "failed", {}, {}, "", {}, "it broke")
    assert ledger.twin(a_run) is None and ledger.status(a_run) == "failed"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data.replace(b"12.5", b"12.6"),
        lambda data: b"[]",
        lambda data: b"\xff" + data,
        lambda data: data.replace(b"digest", b"digesT"),
    ],
)
def test_a_damaged_record_is_set_aside(
    ledger: Ledger, a_run: Run, damage: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = a_run.folder / "run.json"
    damaged = damage(file.read_bytes())  # type: ignore[operator]
    file.write_bytes(damaged)
    assert ledger.status(a_run) == "todo"
    assert "run.json.corrupt" in capsys.readouterr().err
    assert not file.exists() and (a_run.folder / "run.json.corrupt").read_bytes() == damaged
    assert ledger.status(a_run) == "todo" and capsys.readouterr().err == ""


def test_a_damaged_record_blocks_no_other_run_and_stays_where_it_is(ledger: Ledger, a_run: Run) -> None:
    (a_run.folder / "run.json").write_bytes(b"\xff\xfe" + a_run.fingerprint.encode())
    assert ledger.twin(dataclasses.replace(a_run, variant="another")) is None
    ledger.write(a_run, "done", {}, {}, "", {})
    assert ledger.status(a_run) == "done" and (a_run.folder / "run.json.corrupt").exists()


def test_a_damaged_history_counts_as_damage(ledger: Ledger, a_run: Run) -> None:
    (a_run.folder / "history.csv").write_text("step,loss\n0,2.4\n")
    assert ledger.status(a_run) == "todo"


def test_each_bit_flipped_is_noticed(ledger: Ledger, a_run: Run) -> None:
    """No single bit of run.json can change without notice, but in white space."""
    file = a_run.folder / "run.json"
    data = file.read_bytes()
    for at in range(0, len(data), 37):
        flipped = bytearray(data)
        flipped[at] ^= 2
        file.write_bytes(bytes(flipped))
        record = read(a_run.folder)
        assert record is None or record == json.loads(data) | {"digest": None} or data[at : at + 1].isspace()
        file.write_bytes(data)
