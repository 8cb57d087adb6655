"""Times left: right where the speed is constant, steady where it is not; what a bar shows."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console

from multiway.cli.progress import FOLLOWS, Steady, TimeLeft, TrainingProgress


def test_exact_at_a_constant_speed() -> None:
    left = TimeLeft()
    assert left.at(0, 100, 5.0) is None  # nothing is known yet
    for second in range(2, 100):
        # Pieces of two seconds; between them it counts down.
        assert left.at(second // 2, 50, 5.0 + second) == pytest.approx(100 - second)
    assert left.at(50, 50, 105.0) == 0


def test_what_was_done_before_takes_no_time() -> None:
    left = TimeLeft()
    assert left.at(900, 1000, 0.0) is None  # a training that is resumed
    assert left.at(910, 1000, 1.0) == pytest.approx(9.0)


def test_uneven_pieces_do_not_make_it_jump() -> None:
    draw, now, left = random.Random(0), 0.0, TimeLeft()
    left.at(0, 400, now)
    shown, last_piece = [], []
    for done in range(1, 400):
        seconds = draw.choice((0.2, 1.8))
        now += seconds
        value = left.at(done, 400, now)
        assert value is not None
        shown.append(value + now)  # when it will be over
        last_piece.append(seconds * (400 - done) + now)
    late = slice(50, None)
    jumps = [abs(after - before) for after, before in zip(shown[51:], shown[50:], strict=False)]
    assert max(jumps) < 0.02 * 400  # of about 400 seconds in all
    assert max(abs(end - now) for end in shown[late]) < 60
    assert max(last_piece[late]) - min(last_piece[late]) > 300, "what the last piece would say"


def test_a_new_estimate_is_followed_within_seconds() -> None:
    shown = Steady()
    for second in range(60):
        shown.follow(100.0, second)
    value = shown.follow(1000.0, 60.0)
    assert value < 200
    for second in range(61, 61 + round(3 * FOLLOWS)):
        value = shown.follow(1000.0, second)
    # It counts down by a second a second, which leaves it behind by FOLLOWS seconds at most.
    assert 1000 - FOLLOWS - 0.05 * 900 < value < 1000


def test_before_the_first_step_there_is_no_loss_to_show() -> None:
    training = TrainingProgress("a run")

    def shown() -> str:
        console = Console(width=120, file=io.StringIO(), record=True)
        console.print(training.bar.get_renderable())
        return console.export_text()

    assert "a run" in shown()
    assert "loss" not in shown()
    assert "nan" not in shown()
    training.step(1, 10, 2.25, 0.125)
    assert "loss 2.25  accuracy 12.5%" in shown()
