"""The dollars of a run: what each request cost, what was spent so far, and whether the cap is reached."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence

from evalframe.adapters import ModelAdapter
from evalframe.errors import Fault
from evalframe.generate.finished import Finished
from evalframe.generate.journal import Journal
from evalframe.generate.prices import FORM, LIST_INSTALL, Price, list_is_installed


class Ledger:
    """Adds up what calls cost. Safe to use from several threads.

    Args:
        prices: Model id to price; a model that is not in it has none.
        cap_usd: Dollars at which no further call is to begin; None: no cap. Calls in flight then still end and count.
        spent_usd: What was paid before, by an earlier part of the run.
    """

    def __init__(self, prices: Mapping[str, Price], *, cap_usd: float | None = None, spent_usd: float = 0.0) -> None:
        self.prices = dict(prices)
        self.cap_usd = cap_usd
        self._spent = spent_usd
        self._untold: dict[str, int] = {}
        self._lock = threading.Lock()

    def cost(
        self,
        model_id: str,
        *,
        input_tokens: int | None,
        output_tokens: int | None,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> float | None:
        """Give what one request cost, in dollars; it is not added yet.

        Args:
            model_id: The model.
            input_tokens: All input tokens, the cached ones included.
            output_tokens: All output tokens, those spent on reasoning included.
            cached_tokens: Input tokens that the provider had cached; None: it told of none.
            reasoning_tokens: A part of ``output_tokens``, at their price.

        Nulls: None where the price is not known, or a count is missing that it needs.
        """
        price = self.prices.get(model_id)
        return None if price is None else price.cost(input_tokens, output_tokens, cached_tokens)

    def add(self, finished: Sequence[Finished]) -> None:
        """Count what calls cost that are committed."""
        spent = 0.0
        untold = []
        for call in finished:
            if call.cost_usd is not None:
                spent += call.cost_usd
            elif call.status == "completed" and call.model_id in self.prices:
                untold.append(call.model_id)
        if spent or untold:
            with self._lock:
                self._spent += spent
                for model_id in untold:
                    self._untold[model_id] = self._untold.get(model_id, 0) + 1

    @property
    def spent_usd(self) -> float:
        """Dollars spent so far, what was paid before included; calls of unknown cost are not in it."""
        return self._spent

    @property
    def exhausted(self) -> bool:
        """The cap is reached: no further call is to begin."""
        return self.cap_usd is not None and self._spent >= self.cap_usd

    def notes(self) -> list[str]:
        """Say which replies could not be counted though their model has a price: no usage came with them."""
        uncapped = "" if self.cap_usd is None else ", and max_cost_usd does not count them"
        return [
            f"{model_id}: {n} repl{'y' if n == 1 else 'ies'} told no usage, so what they cost is not known{uncapped}"
            for model_id, n in sorted(self._untold.items())
        ]


def paid(journal: Journal) -> float:
    """Give the dollars that the calls of a journal cost, as far as they are known: what a resumed run begins with."""
    return math.fsum(generations["cost_usd"].sum() for generations in journal.segments())


def unpriced_faults(adapters: Sequence[ModelAdapter], *, prices: Mapping[str, Price]) -> list[Fault]:
    """Name the models of a real API whose price is not known: a run with them can not keep to a cap of dollars."""
    install = "" if list_is_installed() else f"; or install the list of prices: {LIST_INSTALL}"
    remedy = f"gives {FORM}; so does 'prices' in the model's dict; a free server has (0, 0){install}"
    return [
        Fault(
            "max_cost_usd", "unknown_price", f"the price of {adapter.model_id!r} is not known, so no cap can be kept",
            f"prices={{{adapter.model_id!r}: (0.25, 2.0)}} {remedy}",
        )
        for adapter in adapters
        if isinstance(getattr(adapter, "endpoint", None), str) and adapter.model_id not in prices
    ]  # fmt: skip
