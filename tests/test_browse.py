"""wandb's own dashboard in a real terminal, under the names that `browse` gives to runs."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ablations.browse import names
from ablations.study.mirrored import Mirrored
from tests.conftest import Command, environment_of, unavailable


def folder(project: Path, name: str, time: str = "20260101_000000", kind: str = "offline-run") -> None:
    """A folder as wandb makes one."""
    made = project / "wandb" / f"{kind}-{time}-{name}"
    made.mkdir(parents=True)
    (made / f"run-{name}.wandb").touch()


def mirrored(study: str, variant: str, seed: int = 0, identity: str = "000000", budget: str = "quick") -> Mirrored:
    return Mirrored(Path("nowhere"), "20260101_000000", budget, study, variant, seed, identity)


def test_names_tell_study_variant_and_seed_the_newest_study_first(run: Command, project: Path) -> None:
    folder(project, "quick-norm-pre-s0-0a0000", "20260102_000000")
    folder(project, "quick-ladder-four_heads-s1-0a0000", "20260103_000000")
    folder(project, "quick-ladder-four_heads-s0-0b0000", "20260103_000001")
    folder(project, "chapter-sweep-lr-0.01_d_k-32-s-1-6be4f1-s12-0c0000", "20260101_000000", "run")
    folder(project, "somebody-else")
    found = run("ablations.browse")
    assert found.returncode == 0 and found.stdout.splitlines() == [
        "run-01 ladder four_heads s0 quick",
        "run-01 ladder four_heads s1 quick",
        "run-02 norm pre s0 quick",
        "run-03 sweep lr-0.01_d_k-32-s-1-6be4f1 s12 chapter",
    ]


def test_a_run_trained_anew_is_shown_as_it_is_now_and_as_it_was_at_the_end() -> None:
    now, before = mirrored("ladder", "a", identity="111111"), mirrored("ladder", "a", identity="222222")
    other = mirrored("norm", "pre")
    found = names([now, now, before, other, before])
    assert found == {
        "run-01 ladder a s0 quick": now,
        "run-02 norm pre s0 quick": other,
        "run-03 before: ladder a s0 quick 222222": before,
    }


def test_a_long_study_leaves_room_for_variant_and_seed() -> None:
    runs = [mirrored("modern_attention", variant) for variant in ("grouped_query", "latent")]
    assert list(names(runs)) == ["run-01 …tention grouped_query s0 quick", "run-01 …tention latent s0 quick"]


def test_without_a_run_or_with_an_argument_it_says_what_is_allowed(run: Command) -> None:
    for arguments, words in (((), "wandb: no run there"), (("x=1",), "x=1: not known")):
        found = run("ablations.browse", *arguments)
        assert found.returncode == 2 and found.stderr.startswith(f"error: {words}; allowed: ")
        assert len(found.stderr.splitlines()) == 1


Screen = Callable[..., str]


@pytest.fixture
def terminal(project: Path, tmp_path: Path) -> Iterator[Screen]:
    """A terminal in which the dashboard runs: presses a key, waits for words and returns what is on the screen."""
    if shutil.which("tmux") is None:
        unavailable("tmux is not installed")
    socket = Path(tempfile.mkdtemp(), "tmux")  # its path has to be short
    tmux = ("tmux", "-S", str(socket), "-f", "/dev/null")

    def captured() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p", "-e"], capture_output=True, text=True).stdout

    def screen(key: str | None = None, *, until: str) -> str:
        if key:
            subprocess.run([*tmux, "send-keys", key], check=True)
        deadline = time.monotonic() + 15
        while until not in re.sub(r"\x1b\[[\d;]*m", "", shown := captured()):
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
        return shown

    home = tmp_path / "home"  # the dashboard keeps its settings there
    home.mkdir()
    environment = environment_of(project, HOME=str(home), TERM="screen-256color", LANG="C.UTF-8")
    start = [*tmux, "new-session", "-d", "-x", "150", "-y", "50", "-c", str(project)]
    subprocess.run([*start, sys.executable, "-m", "ablations.browse"], env=environment, check=True)
    yield screen
    subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
    shutil.rmtree(socket.parent)


@pytest.fixture
def trained(run: Command, project: Path) -> None:
    """Three runs of two studies, as they are but for their length and batches."""
    short = "budget: quick\nlengths: {long: 6, short: 5, deep: 2, warmup: 2, probe: 3}\ndata: {batch: 4}\n"
    (project / "conf/budget/quick.yaml").write_text(f"# @package _global_\n{short}")
    variants = "variant=averages/no_context,ladder/head_added,ladder/four_heads"
    found = run("ablations.train", "-m", variants, "budget=quick", WANDB_MODE="offline")
    assert found.returncode == 0, found.stderr


def colours(screen: str) -> int:
    """In how many colours lines are drawn: each run has its own."""
    return len({code for code, line in re.findall(r"\x1b\[([\d;]+)m([^\x1b]*)", screen) if re.search("[⠁-⣿]", line)})


def test_in_a_terminal_two_runs_are_overlaid_with_entropy_and_gradients(trained: None, terminal: Screen) -> None:
    shown = terminal(until="▶ run-01 ladder four_heads s0")  # the newest run is selected to begin with
    listed = re.findall(r"run-\d\d (\w+) (\w+) s0", shown)
    assert listed == [("ladder", "four_heads"), ("ladder", "head_added"), ("averages", "no_context")]
    assert colours(terminal(until="block1/entropy")) == 1
    terminal("Down", until="block1/entropy")
    terminal("Space", until="● run-01 ladder head_added s0")
    for quantity in ("entropy", "gradient"):
        terminal("/", until="Filter")
        terminal(quantity, until=quantity)
        shown = terminal("Enter", until="filtered from")
        assert f"block1/{quantity}" in shown and colours(shown) == 2
        terminal("C-l", until="Metrics [1-9 of 30]")
