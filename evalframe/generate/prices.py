"""What tokens cost: prices that the user gives, else those of the maintained list ``genai-prices``, else unknown."""

from __future__ import annotations

import importlib.util
import ipaddress
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from evalframe.adapters import ModelAdapter
from evalframe.errors import Fault, OptionError
from evalframe.registry import suggestion

MILLION = 1_000_000
FORM = (
    "(dollars per million input tokens, per million output tokens), and a third number for cached input if it differs"
)
LIST_INSTALL = 'pip install "evalframe[prices]"'

# adapters that name a vendor: its models keep their prices behind a gateway
_VENDORS = {"openai": "openai", "anthropic": "anthropic", "google": "google"}
# the list prices these by what no reply of ours tells, or not the way a reply counts them
_BEYOND_TOKENS = ("requests_kcount", "output_reasoning_mtok", "output_citation_mtok", "input_text_messages_kcount")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one model.

    Attributes:
        input: Of input tokens.
        output: Of output tokens, those spent on reasoning among them.
        cached: Of input tokens that the provider had cached; None: as other input.
        above: For long prompts: from more than so many input tokens on, another price holds for the whole call;
            ascending.
    """

    input: float
    output: float
    cached: float | None = None
    above: tuple[tuple[int, Price], ...] = ()

    @classmethod
    def of(cls, given: Sequence[Any]) -> Price:
        """Read a pair or triple in which ``pair_faults`` found none."""
        of_input, of_output, *of_cached = map(float, given)
        return cls(of_input, of_output, of_cached[0] if of_cached else None)

    def cost(
        self, input_tokens: int | None, output_tokens: int | None, cached_tokens: int | None = None
    ) -> float | None:
        """Give what one request cost, in dollars.

        Args:
            input_tokens: All input tokens, the cached ones included.
            output_tokens: All output tokens, those spent on reasoning included.
            cached_tokens: Input tokens that the provider had cached; None: it told of none.

        Nulls: None where a count is missing that the price needs; what is free needs no count.

        >>> Price(0.25, 2.0, 0.025).cost(1_000_000, 100_000, 400_000)
        0.36
        """
        price = self
        for start, dearer in self.above:
            if input_tokens is not None and input_tokens > start:
                price = dearer
        if (input_tokens is None and price.input) or (output_tokens is None and price.output):
            return None
        n_input, n_output = input_tokens or 0, output_tokens or 0
        n_cached = min(cached_tokens or 0, n_input) if price.cached is not None else 0
        dollars = (n_input - n_cached) * price.input + n_output * price.output + n_cached * (price.cached or 0.0)
        return dollars / MILLION


def find_prices(
    adapters: Sequence[ModelAdapter],
    *,
    given: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    known: Collection[str] = (),
    service_tiers: Mapping[str, str | None] | None = None,
    now: datetime | None = None,
) -> dict[str, Price]:
    """Find the price of each model: its own, else the run's, else that of the list.

    The list is asked only for models of a real API (``endpoint``), and nothing is fetched: it is the one that is
    installed. A mock or replayed model has no price unless one is given, which is then what such calls would cost.

    Args:
        adapters: The models.
        given: The option ``prices`` of the run: model id, with the server's address or without, to a pair or triple.
        own: Model id to ``prices`` of the model's dict.
        known: Ids that ``given`` may name beside those of the adapters: models of the run that are not called now.
        service_tiers: Model id to the setting ``service_tier``: the list may have a price for it.
        now: When the calls begin, for prices that change; default: now.

    Nulls: a model whose price is not known is not in the result.

    Raises:
        OptionError: A price is none, or is given to a model that the run does not have; every fault is named.
    """
    given, own, tiers = given or {}, own or {}, service_tiers or {}
    ids = [*(adapter.model_id for adapter in adapters), *known]
    faults = price_faults(given)
    for model_id, price in own.items():
        faults += pair_faults(price, f"prices of {model_id}")
    faults += [
        Fault(f"prices[{name!r}]", "unknown_model", "no model of the run has this id", suggestion(name, ids))
        for name in given
        if isinstance(name, str) and _id_of(name, ids) not in ids
    ]
    if faults:
        raise OptionError.of(faults, what="prices")
    given = {_id_of(name, ids): price for name, price in given.items()}
    found: dict[str, Price] = {}
    for adapter in adapters:
        name = adapter.model_id
        if name in own or name in given:
            found[name] = Price.of(own[name] if name in own else given[name])
        elif price := _listed(adapter, tiers.get(name), now):
            found[name] = price
    return found


def _id_of(name: str, ids: Collection[str]) -> str:
    """Give the model that a name means: an id, or one with the server's address as the model's name has it."""
    without, address, _ = name.partition("@http")
    return without if address and name not in ids and without in ids else name


def price_faults(given: Any) -> list[Fault]:
    """Name what is wrong in the option ``prices``, whatever the models of the run are."""
    if not isinstance(given, Mapping):
        remedy = f'write {{"model id": {FORM}}}'
        return [Fault("prices", "bad_type", f"{given!r} is no mapping", remedy)]
    faults: list[Fault] = []
    for name, price in given.items():
        if not isinstance(name, str):
            faults.append(Fault(f"prices[{name!r}]", "bad_key", "is no model id", "name the model in text"))
        faults += pair_faults(price, f"prices[{name!r}]")
    return faults


def pair_faults(price: Any, where: str) -> list[Fault]:
    """Name what is wrong in the price of one model."""
    if isinstance(price, str | bytes) or not isinstance(price, Sequence) or not 2 <= len(price) <= 3:
        return [Fault(where, "bad_type", f"{price!r} is no pair of numbers", f"write {FORM}")]
    return [
        Fault(where, "bad_value", f"{dollars!r} is no number of dollars from 0 up", f"write {FORM}")
        for dollars in price
        if not isinstance(dollars, int | float) or isinstance(dollars, bool) or not 0 <= dollars < math.inf
    ]


def list_is_installed() -> bool:
    """Say whether the maintained list of prices is there."""
    return importlib.util.find_spec("genai_prices") is not None


def _listed(adapter: ModelAdapter, service_tier: str | None, now: datetime | None) -> Price | None:
    """Look a model up in the list: by the server it is called at, else by the vendor that its name begins with."""
    endpoint = getattr(adapter, "endpoint", None)
    if not isinstance(endpoint, str):
        return None
    prefix, _, rest = adapter.model_id.partition("/")
    model = getattr(adapter, "model", None)
    if not isinstance(model, str):
        model = rest.split("@")[0] or prefix
    vendor = _VENDORS.get(getattr(getattr(adapter, "vendor", None), "name", prefix))
    if vendor is None and _is_local(endpoint):
        return None
    return _from_list(model, vendor, endpoint, service_tier, now)


def _is_local(endpoint: str) -> bool:
    """Say whether a server is none of a vendor: importing the list takes half a second, which local calls would pay."""
    host = urlsplit(endpoint).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))
    return True  # vendors have names


def _from_list(
    model: str, vendor: str | None, endpoint: str, service_tier: str | None, now: datetime | None
) -> Price | None:
    if not list_is_installed():
        return None
    from genai_prices.data_snapshot import get_snapshot

    snapshot, when = get_snapshot(), now or datetime.now(UTC)
    context = {"service_tier": service_tier} if service_tier else None
    for provider, url in ((None, endpoint), (vendor, None)):
        if provider is None and url is None:
            continue
        try:
            _, found = snapshot.find_provider_model(model, None, provider, url)
        except LookupError:
            continue
        return _price_of(found.get_prices(when, context).__dict__)
    return None


def _price_of(listed: Mapping[str, Any]) -> Price | None:
    """Turn an entry of the list into a price; None where it is no price of tokens alone."""
    there = {name: value for name, value in listed.items() if value is not None and not name.startswith("_")}
    if "input_mtok" not in there or any(name in there for name in _BEYOND_TOKENS):
        return None
    kinds = [there.get(name) for name in ("input_mtok", "output_mtok", "cache_read_mtok")]
    starts = sorted({tier.start for kind in kinds for tier in getattr(kind, "tiers", ())})
    base = _at(kinds, 0)
    return Price(base.input, base.output, base.cached, tuple((start, _at(kinds, start + 1)) for start in starts))


def _at(kinds: Iterable[Any], input_tokens: int) -> Price:
    """Give the price of a call with so many input tokens; what has no price of its own (output of embeddings) is 0."""
    values: list[float | None] = []
    for kind in kinds:
        value = getattr(kind, "base", kind)
        for tier in getattr(kind, "tiers", ()):
            if input_tokens > tier.start:
                value = tier.price
        values.append(None if value is None else float(value))
    return Price(values[0] or 0.0, values[1] or 0.0, values[2])
