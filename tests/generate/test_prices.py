"""Prices: what the user gives, what the maintained list says, and the cost of a call."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import Generation
from evalframe.adapters.callables import from_callable
from evalframe.adapters.mock import from_name
from evalframe.errors import OptionError
from evalframe.generate.prices import Price, find_prices
from evalframe.models import replay

COUNTS = st.integers(0, 10**7)
DOLLARS = st.floats(0, 1000, allow_subnormal=False)


class Api:
    """A model of a real API, as far as prices go."""

    def __init__(self, model_id: str, endpoint: str) -> None:
        self.model_id, self.endpoint = model_id, endpoint

    def generate(self, prompt: str, task: Any) -> Generation:
        raise AssertionError("prices are found without a call")


OPENAI = Api("openai/gpt-5-mini", "https://api.openai.com/v1/responses")
LOCAL = Api("openai-compatible/qwen3@http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions")


def test_cached_input_has_its_own_price_where_it_is_known() -> None:
    assert Price(1.0, 2.0).cost(1_000_000, 1_000_000, 400_000) == 3.0
    assert Price(1.0, 2.0, 0.5).cost(1_000_000, 1_000_000, 400_000) == pytest.approx(2.8)
    assert Price(1.0, 2.0, 0.5).cost(1_000_000, 0, None) == 1.0  # nobody told of cached tokens: there are none
    assert Price(1.0, 2.0, 0.5).cost(100, 0, 900) == pytest.approx(100 * 0.5e-6)  # never below nothing


def test_a_count_that_is_needed_and_not_told_makes_the_cost_unknown() -> None:
    assert Price(1.0, 2.0).cost(None, 5) is None
    assert Price(1.0, 2.0).cost(5, None) is None
    assert Price(1.0, 0.0).cost(1_000_000, None) == 1.0  # embeddings have no output
    assert Price(0.0, 0.0).cost(None, None) == 0.0


def test_a_long_prompt_costs_another_price_for_all_its_tokens() -> None:
    price = Price(1.0, 10.0, above=((200_000, Price(2.0, 15.0)), (500_000, Price(4.0, 15.0))))
    assert price.cost(200_000, 0) == pytest.approx(0.2)
    assert price.cost(200_001, 0) == pytest.approx(0.400002)
    assert price.cost(1_000_000, 1_000_000) == pytest.approx(19.0)


@given(DOLLARS, DOLLARS, st.none() | DOLLARS, COUNTS, COUNTS, COUNTS)
def test_cost_is_linear_in_tokens_and_never_negative(input_, output, cached, n_input, n_output, n_cached) -> None:
    price, n_cached = Price(input_, output, cached), min(n_input, n_cached)
    cost = price.cost(n_input, n_output, n_cached)
    assert cost is not None
    assert cost >= 0
    parts = [price.cost(n_input - n_cached, 0, 0), price.cost(n_cached, 0, n_cached), price.cost(0, n_output, 0)]
    assert cost == pytest.approx(sum(part or 0.0 for part in parts))
    assert price.cost(2 * n_input, 2 * n_output, 2 * n_cached) == pytest.approx(2 * cost)


def test_the_models_own_price_goes_before_the_runs() -> None:
    models = [from_callable("a", str.upper), from_callable("b", str.upper), from_callable("c", str.upper)]
    found = find_prices(models, given={"a": (1, 2), "b": [3, 4, 0.5]}, own={"a": (5, 6)})
    assert found == {"a": Price(5.0, 6.0), "b": Price(3.0, 4.0, 0.5)}


def test_a_model_is_named_with_its_servers_address_or_without() -> None:
    models = [from_callable("openai-compatible/q", str.upper), from_callable("x@y@http://z", str.upper)]
    given = {"openai-compatible/q@http://127.0.0.1:8000/v1": (1, 2), "x@y@http://z": (3, 4)}
    assert find_prices(models, given=given) == {
        "openai-compatible/q": Price(1.0, 2.0), "x@y@http://z": Price(3.0, 4.0),
    }  # fmt: skip
    with pytest.raises(OptionError, match="no model of the run has this id"):
        find_prices(models, given={"other@http://127.0.0.1:8000/v1": (1, 2)})


def test_what_makes_no_call_has_no_price_but_one_that_is_given(fixtures) -> None:
    models = [*replay(fixtures / "outputs.jsonl"), *from_name("rule_based", {})]
    assert find_prices(models) == {}
    assert find_prices(models, given={"careful": (1, 2)}) == {"careful": Price(1.0, 2.0)}


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ([("m", 1, 2)], "is no mapping"),
        ({"m": 3}, "is no pair of numbers"),
        ({"m": "12"}, "is no pair of numbers"),
        ({"m": (1,)}, "is no pair of numbers"),
        ({"m": (1, 2, 3, 4)}, "is no pair of numbers"),
        ({"m": (1, -2)}, "-2 is no number of dollars from 0 up"),
        ({"m": (float("nan"), 2)}, "nan is no number of dollars"),
        ({"m": (True, 2)}, "True is no number of dollars"),
        ({"m": ("1", 2)}, "'1' is no number of dollars"),
        ({1: (1, 2)}, "is no model id"),
    ],
)
def test_a_bad_price_is_told_with_the_form(prices, said) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        find_prices([from_callable("m", str.upper)], given=prices)
    assert "dollars per million input tokens" in str(caught.value) or "name the model in text" in str(caught.value)


def test_a_price_of_a_model_that_is_not_there_is_a_fault() -> None:
    models = [from_callable("gpt-5-mini", str.upper)]
    with pytest.raises(OptionError, match=r"prices\['gpt-5-mimi'\]: no model .*did you mean 'gpt-5-mini'"):
        find_prices(models, given={"gpt-5-mimi": (1, 2)})
    assert find_prices([], given={"gpt-5-mini": (1, 2)}, known=["gpt-5-mini"]) == {}
    with pytest.raises(OptionError, match="prices of gpt-5-mini: 7 is no pair"):
        find_prices(models, own={"gpt-5-mini": 7})


def test_a_local_server_does_not_load_the_list() -> None:
    code = (
        "import sys\nfrom evalframe.generate.prices import find_prices\n"
        "class Api:\n    model_id = 'openai-compatible/q@x'\n    endpoint = sys.argv[1]\n"
        "print(find_prices([Api()]), 'genai_prices' in sys.modules)"
    )
    for endpoint in ("http://127.0.0.1:1/v1", "http://[::1]/v1", "http://localhost/v1", "http://gpu.local/v1"):
        done = subprocess.run([sys.executable, "-c", code, endpoint], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["{}", "False"]


def test_without_the_list_a_price_is_unknown(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)  # as if it were not installed
    assert find_prices([OPENAI]) == {}


class TestList:
    """The maintained list, where it is installed."""

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("genai_prices")

    def test_a_vendors_model_has_the_price_of_the_list(self) -> None:
        from genai_prices import Usage, calc_price

        models = [
            OPENAI,
            Api("anthropic/claude-sonnet-4-5", "https://api.anthropic.com/v1/messages"),
            Api("google/gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/models"),
            Api("openai-compatible/deepseek-chat@https://api.deepseek.com/v1", "https://api.deepseek.com/v1"),
        ]
        now = datetime(2026, 6, 1, 12, tzinfo=UTC)
        found = find_prices(models, now=now)
        for model in models:
            name = model.model_id.partition("/")[2].split("@")[0]
            for n_input in (1_000, 150_000, 300_000):
                usage = Usage(input_tokens=n_input, output_tokens=500, cache_read_tokens=100)
                listed = calc_price(usage, name, provider_api_url=model.endpoint, genai_request_timestamp=now)
                assert found[model.model_id].cost(n_input, 500, 100) == pytest.approx(float(listed.total_price))

    def test_behind_a_gateway_the_name_says_whose_model_it_is(self) -> None:
        behind = Api("openai/gpt-5-mini", "http://127.0.0.1:9000/v1/responses")
        assert find_prices([behind]) == {"openai/gpt-5-mini": find_prices([OPENAI])["openai/gpt-5-mini"]}

    def test_a_tier_of_service_has_its_price(self) -> None:
        (flex,) = find_prices([OPENAI], service_tiers={OPENAI.model_id: "flex"}).values()
        (usual,) = find_prices([OPENAI], service_tiers={OPENAI.model_id: None, "other": "flex"}).values()
        assert flex.input < usual.input

    def test_what_the_list_does_not_know_is_unknown(self) -> None:
        models = [
            LOCAL,
            Api("openai/no-such-model", "https://api.openai.com/v1"),
            Api("openai-compatible/x@https://llm.example.com/v1", "https://llm.example.com/v1"),
            Api("openai-compatible/sonar@https://api.perplexity.ai", "https://api.perplexity.ai/chat/completions"),
        ]
        assert find_prices(models) == {}
