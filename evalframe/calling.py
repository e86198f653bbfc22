"""How the models of a run are called: whether they can be, what they cost, which settings each has."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from evalframe.errors import AdapterError, Fault, OptionError
from evalframe.feasibility import model_faults
from evalframe.generate.cache import ResultCache, open_cache
from evalframe.generate.ledger import unpriced_faults
from evalframe.generate.prices import Price, find_prices
from evalframe.generate.threads import GenerateOptions
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import Model, settings_of
from evalframe.options import RunOptions


def check_ready(
    models: Sequence[Model], options: RunOptions, settings: GenerationSettings, *, known: Collection[str] = ()
) -> None:
    """Refuse, before anything is written or called, models that can not be called, and a cap that can not be kept.

    Args:
        models: Those that are to be called.
        options, settings: Of the run.
        known: Ids of models of the run that are not called now.

    Raises:
        OptionError: A key is missing, a setting that an API demands, an adapter's ``loglikelihood``; a price is none,
            or not known where ``max_cost_usd`` needs it; every fault is named.
        CacheError: The result cache can not be used.
    """
    faults = model_faults([model.adapter for model in models], options)
    for model in models:
        check = getattr(model.adapter, "check", None)
        try:
            if check is not None:
                check(settings_of(model, settings).sent())
        except AdapterError as error:
            faults.append(Fault("", "not_ready", error.message))
    prices = prices_of(models, options, settings, known=known)
    if options.max_cost_usd is not None:
        faults += unpriced_faults([model.adapter for model in models], prices=prices)
    if faults:
        raise OptionError.of(faults, what="models of the run")
    if (cache := open_cache(options.cache, [model.adapter for model in models])) is not None:
        cache.close()


def prices_of(
    models: Sequence[Model], options: RunOptions, settings: GenerationSettings, *, known: Collection[str] = ()
) -> dict[str, Price]:
    """Give the prices of models, as far as they are known: their own, the run's, the maintained list's."""
    return find_prices(
        [model.adapter for model in models],
        given=options.prices,
        own={model.adapter.model_id: model.prices for model in models if model.prices is not None},
        known=known,
        service_tiers={model.adapter.model_id: settings_of(model, settings).service_tier for model in models},
    )


def call_options(
    models: Sequence[Model],
    options: RunOptions,
    settings: GenerationSettings,
    *,
    cache: ResultCache | None,
    stop: threading.Event | None,
) -> GenerateOptions:
    """Say how the calls of a run are made, each model's own settings before the run's."""
    own = {}
    for model in models:
        its = settings_of(model, settings)
        own[model.adapter.model_id] = {
            "generation": its.sent(),
            "timeout_seconds": its.timeout_seconds,
            "max_retries": its.max_retries,
            "max_empty_retries": its.max_empty_retries,
            "requests_per_minute": model.requests_per_minute or options.requests_per_minute,
            "tokens_per_minute": model.tokens_per_minute or options.tokens_per_minute,
        }
    return GenerateOptions(
        concurrency=options.concurrency,
        parallel=options.parallel,
        repeats=options.repeats,
        own=own,
        max_rate_limit_wait_seconds=options.max_rate_limit_wait_seconds,
        preflight=options.preflight,
        request_type=options.request_type,
        loglikelihood_norm=options.loglikelihood_norm,
        cache=cache,
        refresh=options.cache == "refresh",
        reasoning_tags=tuple(options.reasoning_tags),
        limits=options.limits,
        progress=options.progress,
        stop=stop,
    )
