"""The commands that look at input before anything is called: validate, preview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from evalframe.cli import arguments as given
from evalframe.cli import calling
from evalframe.cli.answering import answering
from evalframe.cli.printing import counted, markdown, printable, printable_lines, say, show, show_json
from evalframe.cli.wording import in_shell_words


def validate(
    source: given.Source,
    prompt: given.Prompt = None,
    targets: given.Targets = None,
    extract: given.Extract = None,
    metric: given.Metric = None,
    json: given.Json = False,
) -> None:
    """Check a source; every fault is named with a remedy."""
    with answering(json):
        from evalframe import datasource, loading, planning, sources
        from evalframe.data.files import FileStore
        from evalframe.errors import TaskFileError
        from evalframe.options import RunOptions

        options = RunOptions.of(given.data_options(prompt, targets, extract, metric))
        found = datasource.find_source(given.source_of(source, prompt), options)
        if isinstance(found, sources.TaskSource):
            if found.faults:
                hint = "" if found.records else " (data of your own goes with --prompt)"
                raise TaskFileError.of(found.faults, what=", ".join(source) + hint)
            if not found.records:
                raise TaskFileError(
                    f"{', '.join(source)}: there is no task in it; a task file has one JSON object a line"
                )
            valid = {"tasks": len(found.records)}
        elif prompt is not None:  # data is read whole, and its prompts are made
            valid = {"tasks": 1, "samples": planning.make_plan(found, options=options).rows.height}
        else:
            valid = {"tasks": len(found.suite.tasks)}
            later = planning.unbuilt(found.suite)
            assert isinstance(found, sources.SuiteSource)  # only with prompt= it is data
            store = FileStore(files=found.files, folder=found.folder)
            for fault in [*later, *loading.check_texts(found.suite, store)]:
                say(f"note: {in_shell_words(str(fault))}")
            valid |= {"not_run_by_this_version": len(later)}
        if json:
            show_json({"valid": True, **valid})
        else:
            samples = f", {counted(valid['samples'], 'sample')}" if "samples" in valid else ""
            show(f"valid: {counted(valid['tasks'], 'task')}{samples}")


def preview(
    source: given.Source,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Counts its calls, tokens, dollars; repeatable.", metavar="MODEL"),
    ] = None,
    samples: Annotated[int, typer.Option(help="Prompts to show whole.", metavar="N")] = 3,
    prompt: given.Prompt = None,
    targets: given.Targets = None,
    extract: given.Extract = None,
    metric: given.Metric = None,
    files: given.Files = None,
    task: given.Task = None,
    max_samples_per_task: given.MaxSamples = None,
    repeats: given.Repeats = None,
    generation: given.Generation = None,
    price: calling.Price = None,
    sample_ids: given.SampleIds = "auto",
    on_missing: given.OnMissing = "warn",
    allow_bad_tasks: Annotated[bool, typer.Option("--allow-bad-tasks", help="Show the good lines.")] = False,
    skip_failed_tasks: given.SkipFailedTasks = False,
    allow_unsandboxed: given.AllowUnsandboxed = False,
    sandbox: given.Sandbox = "auto",
    limit: given.Limit = None,
    json: given.Json = False,
) -> None:
    """Show prompts, counts, tokens and dollars of a run; call nothing."""
    with answering(json):
        from evalframe.previewing import make_preview

        found = make_preview(
            given.source_of(source, prompt),
            calling.models_of(model) if model else None,
            samples=samples,
            files=given.files_of(files),
            task_ids=task,
            max_samples_per_task=max_samples_per_task,
            repeats=given.repeats_of(repeats),
            generation=given.settings_of(generation),
            prices=calling.prices_of(price),
            sample_ids=sample_ids,
            on_missing=on_missing,
            allow_bad_tasks=allow_bad_tasks,
            skip_failed_tasks=skip_failed_tasks,
            allow_unsandboxed=allow_unsandboxed,
            sandbox=sandbox,
            limits=given.limits_of(limit),
            **given.data_options(prompt, targets, extract, metric),
        )
        if json:
            show_json(found.to_json())
        else:
            _show(found)


def _show(found: Any) -> None:
    from evalframe.previewing import ESTIMATE, PRICES

    columns = ["Task", "Category", "Samples", "Calls a model", "Chars, mean", "Chars, most", "Input tokens, about"]
    rows = [
        [
            task["task_id"], task["category"], task["samples"], task["calls"], round(task["prompt_chars_mean"]),
            task["prompt_chars_max"], task["input_tokens_estimate"], ", ".join(task["metrics"]), task["extraction"],
        ]
        for task in found.tasks.to_dicts()
    ]  # fmt: skip
    show(markdown([*columns, "Metrics", "Extraction"], rows))
    for sample in found.samples.to_dicts():
        show(f"\n## {printable(sample['task_id'])} {printable(sample['sample_id'])}\n\n{_indented(sample['prompt'])}")
        target = sample["target"]
        show("\n(no target)" if target is None else f"\ntarget: {printable(target)}")
    totals = found.totals
    calls = counted(totals["calls"], "call")
    if found.models:
        calls += f" ({totals['calls_per_model']} to each of {', '.join(map(printable, found.models))})"
    else:
        calls += " a model"
    show(
        f"\n{counted(totals['tasks'], 'task')}, {counted(totals['samples'], 'sample')}, {calls}, "
        f"about {totals['input_tokens_estimate']} input tokens{'' if found.models else ' a model'}"
    )
    if found.models:
        show("\n" + _estimates(found))
    for line in found.bad_tasks:
        say(f"left out: {printable_lines(line)}")
    say(f"settings of the run: {_settings(found.generation) or 'none; each model has its own defaults'}")
    for model, sending in found.sendings.items():
        parts = [
            f"is sent {_settings(sending.sent) or 'no settings'}",
            f"not sent {', '.join(sending.left_out)}" if sending.left_out else "",
            f"applied to the reply {', '.join(sending.applied_here)}" if sending.applied_here else "",
        ]
        say(f"{printable(model)}: {'; '.join(part for part in parts if part)}")
    say(f"note: tokens are {ESTIMATE}")
    for note in (*((PRICES,) if found.prices else ()), *found.notes):
        say(f"note: {printable(in_shell_words(note))}")
    say("nothing was called")


def _estimates(found: Any) -> str:
    """Give the table of what each model's calls would take."""
    columns = ["Model", "Calls", "In the cache", "Input tokens, about", "Output tokens, at most", "$ a million", "Cost"]
    rows = []
    for row in found.estimates.to_dicts():
        price = found.prices.get(row["model_id"])
        rates = None if price is None else f"{price.input:g} in, {price.output:g} out"
        rows.append(
            [
                row["model_id"], row["n_calls"], row["n_cached"], row["input_tokens_estimate"],
                row["output_tokens_most"], rates, _cost(row["cost_usd_least"], row["cost_usd_most"]),
            ]
        )  # fmt: skip
    return markdown(columns, rows)


def _cost(least: float | None, most: float | None) -> str:
    from evalframe.reprs import dollars

    if least is None:
        return "not known"
    if most is None:
        return f"{dollars(least)} and more"
    return dollars(least) if least == most else f"{dollars(least)} to {dollars(most)}"


def _settings(settings: Mapping[str, Any]) -> str:
    """Write settings on one line, long ones cut."""
    from evalframe.reprs import short

    return printable(
        ", ".join(
            f"{name}={value if isinstance(value, int | float) else short(value)}" for name, value in settings.items()
        )
    )


def _indented(text: str) -> str:
    """Set a prompt off, line by line, as it would be sent but for characters that steer a terminal."""
    return "\n".join(f"    {printable(line)}".rstrip() for line in text.split("\n"))
