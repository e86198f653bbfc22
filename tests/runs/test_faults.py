"""Many calls, some of them faulty: no row is lost, each has the end that the script says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.frames import check
from evalframe.limits import Limits
from evalframe.schemas import CALL_KEY, GENERATIONS
from tests.servers import ScriptedServer
from tests.servers.behaviour import Share
from tests.servers.wire import default_text

TRANSIENT = {
    "500": "server_error", "503": "server_error", "529": "server_error", "reset": "connection",
    "reset_headers": "connection", "reset_body": "connection", "hang_up": "connection",
}  # fmt: skip
FINAL = {"400": "bad_request", "bad_json": "bad_reply"}
KINDS = ("429", *TRANSIENT, *FINAL, "empty")
MAX_RETRIES, MAX_EMPTY_RETRIES = 1, 1


def ending(share: Share, prompt: str, model: str) -> tuple[str, str | None, int]:
    """Work out a call's status, its text or error, and its attempts from the script alone."""
    failed = empty = attempt = 0
    while True:
        attempt += 1
        fault = share.fault(prompt, attempt, model)
        if fault is None:
            return "completed", default_text(prompt), attempt
        if fault in FINAL:
            return "failed", FINAL[fault], attempt
        if fault == "empty":
            empty += 1
            if empty > MAX_EMPTY_RETRIES:
                return "completed", "", attempt
        elif fault != "429":  # which burns no retries
            failed += 1
            if failed > MAX_RETRIES:
                return "failed", TRANSIENT[fault], attempt


def run_with_faults(server: ScriptedServer, folder: Path, *, n: int, share: float, models: int) -> None:
    faults = Share(share=share, kinds=KINDS, seed=3)
    server.script(faults={"share": share, "kinds": KINDS, "seed": 3}, record=False)
    records = [{"a": i, "b": i % 7, "sum": i + i % 7} for i in range(n)]
    names = [f"m{number}" for number in range(models)]
    run = ef.run(
        records, [f"openai-compatible/{name}@{server.url}" for name in names], prompt="What is {{a}} + {{b}}?",
        targets="{{sum}}", extract="number", metrics=["numeric_match"], out=folder, cache=False, progress=False,
        concurrency=64, limits=Limits(concurrency=64),
        generation={"max_retries": MAX_RETRIES, "max_empty_retries": MAX_EMPTY_RETRIES, "timeout_seconds": 30},
    )  # fmt: skip
    generations = check(run.generations, GENERATIONS)
    assert generations.height == n * models
    assert generations.select(CALL_KEY).is_duplicated().sum() == 0
    prompts = [f"What is {i} + {i % 7}?" for i in range(n)]
    expected = {(f"openai-compatible/{name}", i): ending(faults, prompts[i], name) for name in names for i in range(n)}
    text_or_error = pl.coalesce("error_type", "output_text")
    seen = {
        (model, i): (status, ended, attempts)
        for model, i, status, ended, attempts in generations.select(
            "model_id", "sample_index", "status", text_or_error, "attempts"
        ).iter_rows()
    }
    assert {key: (seen[key], want) for key, want in expected.items() if seen[key] != want} == {}
    n_attempts = sum(attempts for _, _, attempts in expected.values())
    assert server.stats()["requests"] == n_attempts
    counts = Counter(status for status, _, _ in expected.values())
    assert counts["failed"] > 0
    board = run.leaderboard()
    assert board["n_failed"].sum() == counts["failed"]
    right = Counter(
        model for (model, i), (_, text, _) in expected.items() if text == str(i + i % 7)
    )  # failed and empty ones are wrong by no means: failed are not scored, empty are
    for model, score, n_scored in board.select("model_id", "mean_score", "n_scored").iter_rows():
        assert score * n_scored == pytest.approx(right[model])


def test_hundreds_of_calls_with_a_third_of_faults(scripted, tmp_path) -> None:
    run_with_faults(scripted, tmp_path / "run", n=120, share=0.3, models=2)


def sums(server: ScriptedServer, folder: Path, n: int, *paths: str, **options: Any) -> ef.Run:
    """Ask a model behind each path of the server, which is an endpoint of its own, for n sums."""
    records = [{"a": i, "b": 3, "sum": i + 3} for i in range(n)]
    models = [
        {"model": "openai-compatible/m", "base_url": server.root + path, "model_id": path} for path in paths
    ]  # fmt: skip
    return ef.run(
        records, models, prompt="What is {{a}} + {{b}}?", targets="{{sum}}", extract="number",
        metrics=["numeric_match"], out=folder, cache=False, progress=False, **options,
    )  # fmt: skip


def test_a_server_with_a_rate_is_asked_at_that_rate_and_every_call_is_answered(scripted, tmp_path) -> None:
    scripted.script(rate={"requests": 40, "seconds": 0.5}, latency_seconds=0.02)
    run = sums(scripted, tmp_path / "run", 200, "/v1", generation={"max_retries": 1})
    assert run.generations["status"].unique().to_list() == ["completed"]
    sent = scripted.stats()["sent"]
    assert sent["200"] == 200
    assert 0 < sent["429"] < 100  # a few a window, and not one a call and worker
    assert run.generations["attempts"].sum() == 200 + sent["429"]


def test_a_throttled_endpoint_does_not_hold_up_another_one(scripted, tmp_path) -> None:
    slow = {"match": "", "path": "^/slow", "steps": [{"status": 429, "retry_after": 2}], "then": "default"}
    scripted.script(rules=[slow], latency_seconds=0.005)
    run = sums(scripted, tmp_path / "run", 6, "/slow/v1", "/quick/v1", concurrency=2)
    assert run.generations["status"].unique().to_list() == ["completed"]
    seen = [one["path"].split("/")[1] for one in scripted.recorded()]
    first_again = [place for place, name in enumerate(seen) if name == "slow"][1]
    assert seen[:first_again].count("quick") == 6
    assert scripted.stats()["peak_in_flight"] <= 2


@pytest.mark.slow
def test_five_thousand_samples_with_a_tenth_of_faults(scripted, tmp_path) -> None:
    run_with_faults(scripted, tmp_path / "run", n=5_000, share=0.1, models=1)
