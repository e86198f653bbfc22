"""The command line and money: prices, a cap, and how a run goes on that came to it."""

from __future__ import annotations

import json
from pathlib import Path

ROWS = [{"q": f"question {n}?", "a": "yes"} for n in range(20)]


def test_the_command_line_has_prices_and_caps(scripted, command, tmp_path: Path) -> None:
    usage = {"input_tokens": 100, "output_tokens": 50}
    scripted.script(rules=[{"match": ".", "steps": [{"text": "yes", "usage": usage}]}])
    name = f"openai-compatible/m@{scripted.url}"
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    price = f"{name}=10,20"
    words = ("run", path, "--prompt", "{{q}}", "--targets", "{{a}}", "--metric", "exact_match", "-m", name,
             "--sequential", "--no-progress", "--out", tmp_path / "run")  # fmt: skip
    refused = command(*words, "--max-cost-usd", "1")
    assert refused.status == 2
    assert "--price 'openai-compatible/m=0.25,2.0'" in refused.stderr
    partial = command(*words, "--price", price, "--max-cost-usd", 0.005)
    assert partial.status == 1
    assert "17 calls skipped: cost_cap (17)" in partial.stderr
    assert f"evalframe resume {tmp_path / 'run'} --max-cost-usd MORE" in partial.stderr
    whole = command("resume", tmp_path / "run", "--max-cost-usd", 1, "--no-progress")
    assert whole.status == 0
    assert scripted.stats()["requests"] == 20
