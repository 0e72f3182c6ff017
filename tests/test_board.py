"""What people see of runs that go on, and the verdict at the end."""

from pathlib import Path

import pytest

from ablations.study import board, cost
from ablations.study.board import Post, Watch, duration, ended_line, places, running_line, told


def test_a_post_tells_where_its_run_is(tmp_path: Path) -> None:
    post = Post(tmp_path / "0", "ladder/four_heads seed 0", 60)
    (place,) = places(tmp_path)
    assert running_line(place) == "ladder/four_heads seed 0: starting"
    post.step(41, 5.0)
    post.step(60, 4.0)
    (place,) = places(tmp_path)
    assert place["first_step"] == 41 and place["training"] >= 0
    assert running_line(place) == f"ladder/four_heads seed 0: step 60/60, perplexity {2.718281828**4.9:.1f}"
    post.say(state="done", perplexity=201.704)
    assert ended_line(places(tmp_path)[0]) == "done     ladder/four_heads seed 0  perplexity 201.70  (0 s)"


def test_a_board_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Post(tmp_path / "file" / "0", "a run", 5).step(5, 1.0)
    assert places(tmp_path) == []


def test_a_long_check_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 0.1, 2.0, 4.0, 5.0, 8.0])
    monkeypatch.setattr(board.time, "monotonic", lambda: next(now))
    progress = board.Progress(100, "runs")
    for number in (0, 10, 20, 30, 80):
        progress(number)
    told = capsys.readouterr().err.splitlines()
    assert told == ["checked 20 of 100 runs, about 16 s left", "checked 80 of 100 runs, about 2 s left"]


def test_the_verdict_names_what_came_to_no_good(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        {"name": "a", "state": "done"},
        {"name": "b", "state": "kept"},
        {"name": "c", "state": "diverged", "message": "diverged at step 7"},
        {"name": "d", "state": "failed", "message": "RuntimeError: it broke"},
        {"name": "e", "state": "training"},
    ]
    assert told(found[:2], ["a", "b"], accept_diverged=False) == 0 and capsys.readouterr().err == ""
    assert told(found[:3], ["a", "b", "c"], accept_diverged=True) == 0
    assert told(found, ["a", "b", "c", "d", "e", "f"], accept_diverged=False) == 1
    assert capsys.readouterr().err.splitlines() == [
        "diverged: c: diverged at step 7",
        "failed: d: RuntimeError: it broke",
        "lost: e: its process ended; the next start goes on",
        "not run: f: the sweep ended before it",
    ]


def test_a_run_whose_process_is_killed_again_and_again_is_given_up(tmp_path: Path) -> None:
    """Three times at the same step; one that got farther each time is taken up as often as it takes."""
    for attempt in range(3):
        post = Post(tmp_path / "0", "a run", 100)
        assert not post.ended and post.place["attempt"] == max(1, attempt)
        post.say(state="training", step=40)
    assert not Post(tmp_path / "0", "a run", 100).ended
    last = Post(tmp_path / "0", "a run", 100)
    assert last.ended and places(tmp_path)[0]["state"] == "lost"
    for step in range(10, 90, 10):
        post = Post(tmp_path / "1", "another", 100)
        assert not post.ended
        post.say(state="training", step=step)


@pytest.mark.parametrize(("span", "words"), [(8.4, "8 s"), (89, "89 s"), (180, "3 min"), (9000, "2.5 h")])
def test_durations(span: float, words: str) -> None:
    assert duration(span) == words


def test_time_left_is_what_is_ahead_at_the_speed_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs of 100: one ended, one half way at 5 a second and worker, one ahead, on two cores."""
    monkeypatch.setattr(cost, "RATE", tmp_path / "rate.json")
    monkeypatch.setattr(cost, "cores", lambda: 2)
    monkeypatch.setattr(board, "PLAIN_EVERY", 0.1)
    shown = tmp_path / "board"
    post = Post(shown / "0", "half", 100)
    post.say(state="training", step=50, first_step=0, training=10.0)
    watch = Watch(shown, {"ended": 100.0, "half": 100.0, "ahead": 100.0}, {"ended"})
    left = (50 / 5 + cost.OVERHEAD + 100 / 5 + cost.OVERHEAD) / 2
    watch._look()
    assert watch._summary() == f"1/3 runs, about {duration(left)} left"
    with watch:
        pass
    assert cost.rate() == pytest.approx(5.0)


def test_a_machine_that_was_not_seen_yet_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "RATE", tmp_path / "rate.json")
    assert 0.1 < cost.rate() < 10_000
    for damaged in ("no JSON", "[" * 10**5, '{"rate": 0}', '{"rate": NaN}', '{"rate": Infinity}'):
        (tmp_path / "rate.json").write_text(damaged)
        assert 0.1 < cost.rate() < 10_000
    cost.remember(12.5)
    assert cost.rate() == 12.5
