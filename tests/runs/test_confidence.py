"""Runs that ask for the likeliest choice, and runs whose confidences come from elsewhere than the adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.adapters import CallFailed, ContinuationScore, Generation
from evalframe.advice import SettingWarning
from evalframe.errors import OptionError, VersionMismatch
from evalframe.limits import Limits
from evalframe.previewing import make_preview
from tests.servers import ScriptedServer
from tests.servers.wire import scored

CAPITALS = [
    {"country": "Norway", "capital": "Oslo", "letter": "B", "choices": ["Bergen", "Oslo", "Rome"]},
    {"country": "Italy", "capital": "Rome", "letter": "C", "choices": ["Milan", "Turin", "Rome"]},
    {"country": "France", "capital": "Paris", "letter": "A", "choices": ["Paris", "Lyon", "Nice"]},
    {"country": "Spain", "capital": "Madrid", "letter": "B", "choices": ["Seville", "Madrid", "Toledo"]},
]
MOCKS = ["mock/rule_based", "mock/noisy", "mock/biased"]
CHOOSING: dict[str, Any] = {"request_type": "loglikelihood", "progress": False, "out": False}


class Scorer:
    """A model that holds the shorter continuation for the likelier, and counts its requests."""

    model_id = "short"

    def __init__(self, *, fails: str = "") -> None:
        self.fails, self.n_requests = fails, 0

    def generate(self, prompt: str, task: Any) -> Generation:
        raise AssertionError("no text is asked for")

    def loglikelihood(self, contexts: Any, continuations: Any, *, deadline: float | None = None) -> Any:
        self.n_requests += 1
        if self.fails and self.fails in contexts[0]:
            raise CallFailed("bad_request", "too long")
        return [ContinuationScore(-float(len(text)), 2) for text in continuations]


class Stating:
    """A model that says how sure it is, in its words; the repeats of a sample differ."""

    model_id = "stating"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def generate(self, prompt: str, task: Any) -> Generation:
        text = self.texts[task.repeat % len(self.texts)]
        return Generation(text, confidence=0.5, token_nll=0.25, token_count=len(self.texts))


@pytest.fixture
def capitals(write_jsonl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give a suite over four capitals, whose records have choices of their own; keys of its task can be changed."""
    write_jsonl(CAPITALS)
    monkeypatch.chdir(tmp_path)

    def make(*task_ids: str, **changes: Any) -> dict[str, Any]:
        task = {
            "type": "multiple_choice", "dataset": {"file_id": "rows.jsonl"}, "metrics": [{"id": "exact_match"}],
            "prompt_template": "The capital of {{country}} is", "target_template": "{{capital}}", **changes,
        }  # fmt: skip
        return {"tasks": [{**task, "id": task_id} for task_id in task_ids or ("capitals",)]}

    return make


def test_the_reply_is_a_choice_and_its_confidence_the_softmax_of_all(capitals) -> None:
    run = ef.run(capitals(), [*MOCKS, Scorer()], **CHOOSING)
    calls = run.samples
    assert calls["status"].unique().to_list() == ["completed"]
    assert calls.select(pl.col("output_text").is_in("choices").all()).item()
    assert set(calls["confidence_source"]) == {"choice_logprobs"}
    short = calls.filter(pl.col("model_id") == "short")
    assert short["output_text"].to_list() == ["Oslo", "Rome", "Lyon", "Madrid"]
    assert short["choice_logprobs"].to_list()[0] == [-7.0, -5.0, -5.0]  # with the blank; ties go to the first
    assert short.select("token_nll", "token_count").row(0) == (5.0, 2)
    shares = run.generations.select(
        told="confidence", computed=(pl.col("choice_logprobs").list.max().exp())
        / pl.col("choice_logprobs").list.eval(pl.element().exp()).list.sum(),
    )  # fmt: skip
    assert (shares["told"] - shares["computed"]).abs().max() < 1e-12
    board = {row["model_id"]: row["mean_score"] for row in run.leaderboard().to_dicts()}
    assert (board["mock/rule_based"], board["short"]) == (1.0, 0.75)
    assert "confidence is the softmax of the choices' log-probabilities" in run.calibration().notes  # type: ignore[attr-defined]


def test_threads_make_no_difference(capitals, same_frames) -> None:
    made = [
        ef.run(capitals("a", "b"), [*MOCKS, Scorer(fails="Italy")], **CHOOSING, parallel=p, loglikelihood_norm="bytes")
        for p in (True, False)
    ]
    same_frames(*made)
    failed = made[0].failures().select("model_id", "error_type", "error_message", "confidence").unique().rows()
    assert failed == [("short", "bad_request", "too long", None)]


def test_by_bytes_the_longest_is_as_likely_as_the_shortest(capitals) -> None:
    run = ef.run(capitals(), Scorer(), **CHOOSING, loglikelihood_norm="bytes")
    # the blank in front weighs less in a longer choice
    assert run.generations["output_text"].to_list() == ["Bergen", "Milan", "Paris", "Seville"]
    assert run.record["options"]["loglikelihood_norm"] == "bytes"


def test_the_choices_may_be_those_of_the_task(capitals) -> None:
    letters = {"choices": ["A", "B", "C"], "target_template": "{{letter}}",
               "output_extraction": {"type": "label_set", "labels": ["A", "B", "C"]}}  # fmt: skip
    run = ef.run(capitals(**letters), "mock/rule_based", **CHOOSING)
    assert run.generations["output_text"].to_list() == ["B", "C", "A", "B"]
    assert run.leaderboard()["mean_score"].to_list() == [1.0]


def test_a_suite_of_letters_over_choices_of_texts_is_refused(capitals, tmp_path: Path) -> None:
    model = Scorer()
    with pytest.raises(OptionError) as caught:
        ef.run(capitals(target_template="{{letter}}"), model, **{**CHOOSING, "out": tmp_path / "run"})
    (fault,) = caught.value.fault_records
    assert (fault.where, fault.rule) == ("task capitals", "never_right")
    assert "the target is 'B', the choices 'Bergen', 'Oslo', 'Rome'" in fault.detail
    assert '"choices": ["A", "B"]' in fault.remedy
    assert model.n_requests == 0
    assert not (tmp_path / "run").exists()


def test_an_extraction_that_reads_no_choice_is_refused(capitals) -> None:
    extraction = {"type": "regex_last", "pattern": r"answer is (\w+)"}
    for metric in ("exact_match", "f1"):
        suite = capitals(output_extraction=extraction, metrics=[{"id": metric}])
        with pytest.raises(
            OptionError, match=r"task capitals: extraction reads no answer .* leave output_extraction out"
        ):
            ef.run(suite, "mock/rule_based", **CHOOSING)


def test_samples_that_no_choice_can_be_right_of_are_a_note(capitals, write_jsonl) -> None:
    write_jsonl([*CAPITALS, {"country": "Peru", "capital": "Lima", "choices": ["Cuzco", "Ica"]}])
    note = "1 samples of capitals have no choice that is right"
    assert any(note in told for told in make_preview(capitals(), request_type="loglikelihood").notes)
    with pytest.warns(SettingWarning, match=note):
        run = ef.run(capitals(), "mock/rule_based", **CHOOSING)
    assert any(note in told for told in run.leaderboard().notes)  # type: ignore[attr-defined]
    assert run.leaderboard()["mean_score"].to_list() == [0.8]


def test_a_metric_that_gives_parts_of_a_point_compares_no_choices(capitals) -> None:
    run = ef.run(capitals(target_template="{{letter}} {{capital}}", metrics=[{"id": "f1"}]), "mock/noisy", **CHOOSING)
    assert run.generations.height == 4


def test_what_lacks_choices_or_can_not_choose_is_named_at_once(capitals, write_jsonl, tmp_path: Path) -> None:
    write_jsonl(
        [{"country": "Peru", "capital": "Lima"}, {"country": "Chile", "capital": "Santiago", "choices": []}], "b.jsonl"
    )
    write_jsonl([{**CAPITALS[0], "choices": ["Oslo", " "]}, CAPITALS[1]], "c.jsonl")
    tasks = [
        *capitals("whole")["tasks"],
        *capitals("none", dataset={"file_id": "b.jsonl"})["tasks"],
        *capitals("blank", dataset={"file_id": "c.jsonl"})["tasks"],
    ]
    models = ["mock/noisy", ef.from_callable("plain", str.upper), Scorer()]
    with pytest.raises(OptionError) as caught:
        ef.run({"tasks": tasks}, models, **{**CHOOSING, "out": tmp_path / "run"})
    faults = {(fault.where, fault.rule): fault for fault in caught.value.fault_records}
    assert set(faults) == {
        ("model plain", "no_loglikelihood"), ("task none", "no_choices"), ("task blank", "blank_choice"),
    }  # fmt: skip
    assert faults["task none", "no_choices"].detail.startswith("2 of 2 samples have no choices")
    assert faults["task blank", "blank_choice"].detail.startswith("1 of 2 samples")
    assert all(fault.remedy for fault in faults.values())
    assert not (tmp_path / "run").exists()


def test_tasks_of_a_task_file_have_no_choices() -> None:
    with pytest.raises(OptionError, match="have no choices"):
        ef.run([task for task in ef.load_fixtures() if task.category == "mcq"], "mock/noisy", **CHOOSING)


def test_data_with_a_column_of_choices_can_be_asked(capitals) -> None:
    run = ef.run(
        pl.DataFrame(CAPITALS), MOCKS, prompt="The capital of {{country}} is", targets="capital", metrics=["accuracy"],
        **CHOOSING,
    )  # fmt: skip
    board = run.leaderboard()
    assert board.filter(model_id="mock/rule_based")["mean_score"].to_list() == [1.0]


def test_repeats_of_such_requests_say_nothing(capitals) -> None:
    with pytest.warns(SettingWarning, match="repeats of log-likelihood requests say nothing"):
        ef.run(capitals(), Scorer(), **CHOOSING, repeats=2)


def test_an_extended_run_asks_in_the_same_way(capitals) -> None:
    run = ef.run(capitals(), "mock/noisy", **CHOOSING)
    more = run.extend([Scorer()], progress=False)
    assert set(more.generations["confidence_source"]) == {"choice_logprobs"}
    with pytest.raises(OptionError, match="model plain: can not tell how likely"):
        run.extend([ef.from_callable("plain", str.upper)], progress=False)


def test_the_cache_knows_what_was_asked(capitals) -> None:
    class Versioned(Scorer):
        model_version = "1"

    model = Versioned()
    first = ef.run(capitals(), model, **CHOOSING)
    again = ef.run(capitals(), model, **CHOOSING)
    assert model.n_requests == 4
    assert again.generations["cached"].all()
    replies = ["output_text", "confidence", "confidence_source", "token_nll", "token_count", "choice_logprobs"]
    assert again.generations.select(replies).equals(first.generations.select(replies))
    ef.run(capitals(), model, **CHOOSING, loglikelihood_norm="bytes")
    assert model.n_requests == 8


def test_by_tokens_the_confidence_is_their_geometric_mean(capitals) -> None:
    run = ef.run(capitals(), MOCKS, confidence="logprobs", progress=False, out=False)
    calls = run.generations
    assert set(calls["confidence_source"]) == {"token_logprobs"}
    mean = calls.select((-pl.col("token_nll") / pl.col("token_count")).exp()).to_series()
    assert (calls["confidence"] - mean).abs().max() < 1e-12
    found = run.calibration()
    assert found["n_left_out"].sum() == 0
    assert "confidence is the geometric mean of the probabilities of the reply's tokens" in found.notes  # type: ignore[attr-defined]


SURE = {"pattern": r"sure: (\S+)", "scale": "percent"}


def test_a_stated_confidence_and_replies_that_state_none(capitals) -> None:
    model = Stating("Oslo\nsure: 80%", "Oslo\nsure: very", "Oslo")
    suite = capitals(output_extraction={"type": "take_first"})
    run = ef.run(suite, model, repeats=3, confidence=SURE, progress=False, out=False)
    calls = run.generations.sort("repeat", maintain_order=True)
    assert calls["confidence"].to_list() == [0.8] * 4 + [None] * 8
    assert calls["confidence_source"].to_list() == ["stated"] * 4 + [None] * 8
    notes = run.calibration().notes  # type: ignore[attr-defined]
    assert "confidence is the number that the reply states" in notes
    assert any(note.startswith("no confidence for replies that state no number (first: 'very'") for note in notes)
    assert "no confidence for replies that state none by the pattern: stating (4 of 12)" in notes
    assert set(notes) & set(run.leaderboard().notes)  # type: ignore[attr-defined]
    assert run.record["options"]["confidence"] == SURE
    json.dumps(run.record)


def test_agreement_holds_across_segments(capitals, same_frames) -> None:
    model = Stating("Oslo", "Rome", "Oslo")
    runs = [
        ef.run(capitals("a", "b"), model, repeats=3, confidence="agreement", progress=False, out=False, limits=limits)
        for limits in (Limits(), Limits(segment_rows=2))
    ]
    assert runs[1].record["n_segments"] == 8
    assert runs[0].generations["confidence"].to_list() == [pytest.approx(v) for v in (2 / 3, 1 / 3, 2 / 3)] * 8
    same_frames(*runs)


def test_agreement_without_repeats_is_refused_before_the_run(capitals, tmp_path: Path) -> None:
    model = Stating("Oslo")
    out = tmp_path / "run"
    with pytest.raises(OptionError, match=r"confidence: 'agreement' is among repeats, .* -> .*repeats=5"):
        ef.run(capitals(), model, confidence="agreement", progress=False, out=out)
    assert not out.exists()
    # one task with repeats is enough; a call of the other has nothing to agree with
    run = ef.run(capitals("a", "b"), model, confidence="agreement", repeats={"a": 2}, progress=False, out=False)
    assert run.generations["confidence"].to_list() == [1.0] * 8 + [None] * 4


def test_a_rescore_chooses_another_source_and_the_adapters_own_is_not_lost(capitals) -> None:
    model = Stating("Oslo sure: 80%", "Rome sure: 90%")
    suite = capitals(output_extraction={"type": "regex", "pattern": r"^\w+"})
    run = ef.run(suite, model, repeats=2, confidence=SURE, progress=False, out=False)
    assert run.generations["confidence"].to_list() == [0.8, 0.9] * 4
    agreed = run.rescore(confidence="agreement")
    assert set(agreed.generations.select("confidence", "confidence_source").rows()) == {(0.5, "agreement")}
    assert agreed.record["options"]["confidence"] == "agreement"
    # what else is scored anew keeps the source
    again = agreed.rescore(extract={"type": "regex", "pattern": "sure"})
    assert set(again.generations.select("confidence", "confidence_source").rows()) == {(1.0, "agreement")}
    own = again.rescore(confidence="adapter")
    assert set(own.generations.select("confidence", "confidence_source").rows()) == {(0.5, "adapter")}
    by_tokens = own.rescore(confidence="logprobs")
    assert by_tokens.generations["confidence"].to_list() == pytest.approx([2.718281828459045 ** (-0.25 / 2)] * 8)
    assert by_tokens.scores.equals(again.scores)


def test_a_choice_is_no_reply_to_a_task_with_other_choices(capitals) -> None:
    run = ef.run(capitals(choices=["Oslo", "Rome", "Paris", "Madrid"]), "mock/noisy", **CHOOSING)
    other = capitals(choices=["Oslo", "Rome", "Paris", "Lima"])
    with pytest.raises(VersionMismatch, match="task capitals: the choices differ -> start a new run"):
        run.rescore(manifest=other)
    assert run.rescore(manifest=capitals(choices=["Oslo", "Rome", "Paris", "Madrid"], metrics=[{"id": "f1"}]))
    written = ef.run(capitals(choices=["Oslo", "Rome"]), "mock/noisy", progress=False, out=False)
    assert written.rescore(manifest=other).rows["choices"][0].to_list()[3] == "Lima"


def test_a_rescore_says_what_is_wrong_with_the_source(capitals) -> None:
    run = ef.run(capitals(), Stating("Oslo"), progress=False, out=False)
    with pytest.raises(OptionError, match="'agreement' is among repeats"):
        run.rescore(confidence="agreement")
    with pytest.raises(OptionError, match=r"(?s)confidence\.scale: is missing.*pattern.*has no group"):
        run.rescore(confidence={"pattern": r"\d+"})


def test_an_export_has_the_confidences_of_the_run_and_says_so(capitals, tmp_path: Path) -> None:
    run = ef.run(capitals(), Stating("Oslo sure: 80%"), confidence=SURE, progress=False, out=False)
    exported = ef.load(run.to_parquet(tmp_path / "export"))
    assert exported.generations["confidence"].to_list() == [0.8] * 4
    assert set(exported.rescore(metrics=["f1"], out=False).generations["confidence"]) == {0.8}
    own = exported.rescore(confidence="adapter", out=False)
    assert own.generations["confidence"].null_count() == 4
    assert any("an export did not keep: stating (4 of 4)" in note for note in own.calibration().notes)  # type: ignore[attr-defined]


def test_runs_that_differ_in_their_source_are_put_together_with_a_note(capitals) -> None:
    one = ef.run(capitals(), Stating("Oslo sure: 80%"), confidence=SURE, progress=False, out=False)
    two = ef.run(capitals(), "mock/rule_based", progress=False, out=False)
    both = ef.concat([one, two])
    assert "the runs differ in confidence: all confidences are read as the first run says" in both.record["notes"]
    assert both.generations["confidence"].to_list() == [None] * 4 + [0.8] * 4
    same = ef.concat([two, ef.run(capitals(), "mock/noisy", progress=False, out=False)])
    assert not any("differ in" in note for note in same.record.get("notes", ()))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loglikelihood_norm": "bytes"}, r"loglikelihood_norm: compares choices.*request_type=\"loglikelihood\""),
        ({"request_type": "likelihood"}, r"request_type: 'likelihood' is none of 'generate', 'loglikelihood'"),
        ({"request_type": "loglikelihood", "loglikelihood_norm": "tokens"}, "loglikelihood_norm: 'tokens' is none of"),
        ({"confidence": "logprob"}, "did you mean 'logprobs'"),
        ({"confidence": {"pattern": "(", "scale": "unit"}}, r"confidence\.pattern: does not compile"),
    ],
)
def test_options_that_are_wrong_are_named(capitals, options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        ef.run(capitals(), "mock/noisy", progress=False, out=False, **options)


def test_what_failed_is_asked_again_in_the_same_way(capitals) -> None:
    run = ef.run(capitals(), Scorer(fails="Italy"), **CHOOSING)
    assert run.generations["status"].to_list() == ["completed", "failed", "completed", "completed"]
    writer = ef.from_callable("short", str.upper)
    with pytest.raises(OptionError, match="model short: can not tell how likely"):
        run.rerun_failed([writer], progress=False)
    model = Scorer()
    mended = run.rerun_failed([model], progress=False)
    assert model.n_requests == 1
    assert mended.generations["output_text"].to_list() == ["Oslo", "Rome", "Lyon", "Madrid"]
    assert set(mended.generations["confidence_source"]) == {"choice_logprobs"}


def test_a_server_that_scores_prompts_is_asked_once_a_sample(capitals, scripted: ScriptedServer) -> None:
    model = {"model": f"openai-compatible/m@{scripted.url}", "api": "completions", "prices": (1.0, 2.0)}
    run = ef.run(capitals(), model, **CHOOSING)
    calls = run.samples
    assert calls["status"].unique().to_list() == ["completed"]
    assert len(scripted.recorded()) == 4
    for row in calls.iter_rows(named=True):
        sums = [
            sum(logprob for _, logprob in scored(f"{row['prompt']} {choice}")[len(scored(row["prompt"])) :])
            for choice in row["choices"]
        ]
        assert row["choice_logprobs"] == pytest.approx(sums)
        assert row["output_text"] == row["choices"][sums.index(max(sums))]
    cost = (calls["input_tokens"] + 2 * calls["output_tokens"]) / 1e6
    assert calls["cost_usd"].to_list() == pytest.approx(cost.to_list())
    again = ef.run(capitals(), model, **CHOOSING)
    assert again.generations["cached"].all()
    assert again.generations["choice_logprobs"].to_list() == run.generations["choice_logprobs"].to_list()
    assert len(scripted.recorded()) == 4


def test_a_server_is_asked_for_log_probabilities_where_confidence_needs_them(
    capitals, scripted: ScriptedServer
) -> None:
    model = f"openai-compatible/m@{scripted.url}"
    run = ef.run(capitals(), model, confidence="logprobs", progress=False, out=False)
    assert all(request["body"]["logprobs"] is True for request in scripted.recorded())
    calls = run.generations
    assert set(calls["confidence_source"]) == {"token_logprobs"}
    assert calls["confidence"].to_list() == pytest.approx(
        calls.select((-pl.col("token_nll") / pl.col("token_count")).exp()).to_series().to_list()
    )
    ef.run(capitals(), model, progress=False, out=False)
    assert not any("logprobs" in request["body"] for request in scripted.recorded()[4:])
