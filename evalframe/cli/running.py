"""The commands that make results: run, resume, rescore, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evalframe.cli import arguments as given
from evalframe.cli import calling
from evalframe.cli.answering import FAILED, answering, check_bar, report
from evalframe.cli.printing import say, show, show_json


def run(
    source: given.Source,
    model: calling.Models,
    out: given.Out = None,
    prompt: given.Prompt = None,
    targets: given.Targets = None,
    extract: given.Extract = None,
    metric: given.Metric = None,
    files: given.Files = None,
    task: given.Task = None,
    max_samples_per_task: given.MaxSamples = None,
    repeats: given.Repeats = None,
    by: given.By = None,
    fail_under: given.FailUnder = None,
    generation: given.Generation = None,
    concurrency: Annotated[int | None, typer.Option(help="Calls in flight at most.", metavar="N")] = None,
    parallel: Annotated[bool, typer.Option("--parallel/--sequential", help="Calls side by side or in order.")] = True,
    seed: Annotated[int, typer.Option(help="Of intervals and permutations.", metavar="N")] = 0,
    sample_ids: given.SampleIds = "auto",
    on_missing: given.OnMissing = "warn",
    allow_bad_tasks: Annotated[bool, typer.Option("--allow-bad-tasks", help="Run the good lines.")] = False,
    skip_failed_tasks: given.SkipFailedTasks = False,
    allow_unsandboxed: given.AllowUnsandboxed = False,
    sandbox: given.Sandbox = "auto",
    reasoning_tag: Annotated[
        list[str] | None,
        typer.Option(help="A tag of reasoning in replies, as in think; none: no tag; repeatable.", metavar="TAG"),
    ] = None,
    limit: given.Limit = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Take replies from the result cache, and keep new ones.")
    ] = True,
    refresh_cache: Annotated[bool, typer.Option("--refresh-cache", help="Ask anew; keep the replies.")] = False,
    cache_path: calling.CachePath = None,
    price: calling.Price = None,
    max_cost_usd: calling.MaxCost = None,
    requests_per_minute: calling.RequestsPerMinute = None,
    tokens_per_minute: calling.TokensPerMinute = None,
    max_rate_limit_wait_seconds: calling.MaxRateLimitWait = 300.0,
    preflight: calling.Preflight = True,
    request_type: calling.RequestType = "generate",
    loglikelihood_norm: calling.LoglikelihoodNorm = None,
    confidence: calling.Confidence = None,
    judge_model: calling.JudgeModel = None,
    embedding_model: calling.EmbeddingModel = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", help="Kept in run.json; repeatable.", metavar="KEY=VALUE")
    ] = None,
    progress: given.Progress = True,
    json: given.Json = False,
) -> None:
    """Evaluate models and print the leaderboard."""
    with answering(json):
        from evalframe import runner

        check_bar(fail_under)
        options = given.data_options(prompt, targets, extract, metric)
        if reasoning_tag:
            options["reasoning_tags"] = given.reasoning_tags_of(reasoning_tag)
        options |= {
            "files": given.files_of(files),
            "task_ids": task,
            "max_samples_per_task": max_samples_per_task,
            "repeats": given.repeats_of(repeats),
            "concurrency": concurrency,
            "parallel": parallel,
            "generation": given.settings_of(generation),
            "seed": seed,
            "sample_ids": sample_ids,
            "on_missing": on_missing,
            "allow_bad_tasks": allow_bad_tasks,
            "skip_failed_tasks": skip_failed_tasks,
            "allow_unsandboxed": allow_unsandboxed,
            "sandbox": sandbox,
            "limits": given.limits_of(limit),
            "cache": calling.cache_of(cache, refresh_cache, cache_path),
            "prices": calling.prices_of(price),
            "max_cost_usd": max_cost_usd,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "max_rate_limit_wait_seconds": max_rate_limit_wait_seconds,
            "preflight": preflight,
            "request_type": request_type,
            "loglikelihood_norm": loglikelihood_norm,
            "confidence": calling.confidence_of(confidence),
            "judge_model": calling.model_of(judge_model, "--judge-model"),
            "embedding_model": calling.model_of(embedding_model, "--embedding-model"),
            "metadata": given.pairs_of(metadata, "--metadata", example="KEY=VALUE, as in commit=3f2a"),
            "progress": progress,
        }
        read = given.source_of(source, prompt)
        if by:
            _check_by(by, read, options)
        done = runner.run(read, calling.models_of(model), out=out, **options)
        report(done, json=json, fail_under=fail_under, by=by)


def _check_by(by: list[str], source: Any, options: dict[str, Any]) -> None:
    """Refuse a field that is nowhere before any call; the run itself warns of what the rows are like."""
    import warnings

    from evalframe import datasource, groups, planning
    from evalframe.options import RunOptions

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settled = RunOptions.of(options)
        rows = planning.make_plan(datasource.find_source(source, settled), options=settled).rows
    for name in by:
        groups.check_by(name, rows=rows)


def resume(
    name: given.RunName,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model that was an object; repeatable.", metavar="MODEL")
    ] = None,
    max_cost_usd: calling.MaxCost = None,
    fail_under: given.FailUnder = None,
    progress: given.Progress = True,
    json: given.Json = False,
) -> None:
    """Make the calls that a run is missing, none again."""
    with answering(json):
        from evalframe import runner, shelf

        check_bar(fail_under)
        models = calling.models_of(model) if model else None
        done = runner.resume(shelf.find_run(name), models, progress=progress, max_cost_usd=max_cost_usd)
        report(done, json=json, fail_under=fail_under)


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the results; an earlier demo there is replaced.", metavar="DIR")
    ] = Path("demo-results"),
    json: given.Json = False,
) -> None:
    """See it work: ten fixture tasks, three mock models."""
    with answering(json):
        from evalframe import demonstration, export

        done, broken = demonstration.run_demo(out)
        envelope = export.envelope(done)
        if broken:
            envelope["error"] = {"type": "demo_failed", "message": "; ".join(broken), "details": broken}
        if json:
            show_json(envelope)
        else:
            show(done.to_markdown())
        say(f"run, envelope.json and Parquet: {done.path}")
        for line in broken:
            say(f"demo failed: {line}")
        if broken:
            raise typer.Exit(FAILED)
