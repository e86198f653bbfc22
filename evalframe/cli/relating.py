"""The commands that make something of runs that are there: rescore, compare."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evalframe.cli import arguments as given
from evalframe.cli import calling
from evalframe.cli.answering import answering, chance, check_bar, interval, report
from evalframe.cli.printing import markdown, say, shortened, show, show_json

ANSWER_CHARS = 40


def rescore(
    name: given.RunName,
    manifest: Annotated[str | None, typer.Option(help="A changed suite (.json).", metavar="FILE")] = None,
    extract: given.Extract = None,
    metric: given.Metric = None,
    grader: Annotated[
        str | None, typer.Option(help="A .py file with grade(sample, item) or grade_batch(samples).", metavar="FILE")
    ] = None,
    judge_model: calling.JudgeModel = None,
    embedding_model: calling.EmbeddingModel = None,
    files: given.Files = None,
    out: given.Out = None,
    allow_unsandboxed: Annotated[
        bool, typer.Option("--allow-unsandboxed", help="Run foreign code without walls but resource limits.")
    ] = False,
    fail_under: given.FailUnder = None,
    json: given.Json = False,
) -> None:
    """Score the replies of a run anew; no model is called."""
    with answering(json):
        from evalframe.errors import OptionError

        check_bar(fail_under)
        definitions = given.data_options(None, None, extract, metric)
        others = {
            "manifest": manifest,
            "graders": grader,
            "judge_model": judge_model,
            "embedding_model": embedding_model,
        }
        definitions |= {option: value for option, value in others.items() if value is not None}
        if not definitions:
            raise OptionError(
                "rescore: nothing says how to score anew; give --manifest FILE, --extract TYPE, --metric ID or "
                "--grader FILE"
            )
        done = given.run_of(name).rescore(
            **definitions, files=given.files_of(files), out=out, allow_unsandboxed=allow_unsandboxed
        )
        report(done, json=json, fail_under=fail_under)


def compare(
    before: Annotated[str, typer.Argument(help="The run that was before: folder or id.", metavar="RUN_A")],
    after: Annotated[str, typer.Argument(help="The run that it is compared with.", metavar="RUN_B")],
    models: Annotated[
        list[str] | None,
        typer.Option("--models", help="Which models face each other; repeatable.", metavar="A=B"),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Default: each task's headline metric.", metavar="ID")] = None,
    changes: Annotated[int, typer.Option(help="Changed samples to show.", metavar="N")] = 20,
    seed: Annotated[int | None, typer.Option(help="Of intervals; default: the run's.", metavar="N")] = None,
    json: given.Json = False,
) -> None:
    """Set two runs side by side: what was fixed, what broke."""
    with answering(json):
        from evalframe.errors import OptionError

        if changes < 0:
            raise OptionError(f"--changes {changes}: is below 0; write how many changed samples to show, as in 20")
        chosen = given.pairs_of(models, "--models", example="A=B: the model in the first run, and in the second")
        options: dict[str, Any] = {"models": chosen or None, "metric": metric}
        a, b = given.run_of(before), given.run_of(after)
        found = a.compare(b, **options)
        differences = a.differences(b, **(options if seed is None else {**options, "seed": seed}))
        moved = [row for row in found.to_dicts() if row["change"] != "same"]
        notes = list(dict.fromkeys([*getattr(differences, "notes", ()), *getattr(found, "notes", ())]))
        if json:
            show_json({
                "differences": differences.to_dicts(), "changed": moved, "notes": notes,
                "runs": [str(a.path), str(b.path)],
            })  # fmt: skip
        else:
            show(_differences(differences.to_dicts()))
            if moved[:changes]:
                show("\n" + _changed(moved[:changes]))
        for note in notes:
            say(f"note: {note}")
        if not json and len(moved) > changes:
            say(f"{len(moved) - changes} more changed samples; --changes {len(moved)} or --json shows all")
        if not moved:
            say("no sample changed")


def _differences(rows: list[dict[str, Any]]) -> str:
    counts = ["fixed", "broken", "better", "worse", "same", "unscored", "only_a", "only_b"]
    names = _models(rows)
    columns = [*names.values(), "Mean A", "Mean B", "B - A", "95% CI", "p", "Pairs"]
    cells = [
        [
            *(row[name] for name in names), row["mean_a"], row["mean_b"], row["diff_mean"],
            interval(row["ci_lo"], row["ci_hi"]), chance(row["p_value"]), row["n_pairs"],
            *(row[f"n_{name}"] for name in counts),
        ]
        for row in rows
    ]  # fmt: skip
    return markdown([*columns, *(name.capitalize().replace("_", " ") for name in counts)], cells)


def _changed(rows: list[dict[str, Any]]) -> str:
    """Show changed samples; a task or repeat that is the same in all rows is left out."""
    names = _models(rows) | {
        name: name.removesuffix("_id").capitalize()
        for name in ("task_id", "repeat")
        if len({row[name] for row in rows}) > 1
    }
    columns = [*names.values(), "Sample", "Change", "Answer A", "Answer B", "Target", "Score A", "Score B"]
    cells = [
        [
            *(row[name] for name in names), row["sample_id"], row["change"],
            *(shortened(row[name], ANSWER_CHARS) for name in ("extracted_a", "extracted_b", "target")),
            row["score_a"], row["score_b"],
        ]
        for row in rows
    ]  # fmt: skip
    return markdown(columns, cells)


def _models(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Name the columns of models: one where each model faces itself."""
    if all(row["model_a"] == row["model_b"] for row in rows):
        return {"model_a": "Model"}
    return {"model_a": "Model A", "model_b": "Model B"}
