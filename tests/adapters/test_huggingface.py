"""Local models with torch: tiny random ones, made here; nothing is downloaded."""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import replace
from itertools import pairwise

import polars as pl
import pytest

import evalframe
from evalframe.adapters import CallFailed, TaskSpec
from evalframe.adapters.huggingface import from_name
from evalframe.errors import AdapterError

pytestmark = pytest.mark.transformers
torch = pytest.importorskip("torch", reason="needs torch: make transformers")
transformers = pytest.importorskip("transformers", reason="needs transformers: make transformers")
torch.set_num_threads(1)  # models this small only lose by more

CONTEXT = 64
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role[0] }}>{{ message.content }}{% endfor %}"
    "{% if loud %}!{% endif %}{% if add_generation_prompt %}<a>{% endif %}"
)
PROMPTS = ["1 + 1 =", "a", "What is the capital of France?", "", "x y z", "0123456789" * 3]


def tokenizer(*, bos: bool, template: str | None = None):
    """Make a tokenizer of bytes, a pair of which is one token, with the marks that models have."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = ["Ġa", "ab", "th"]
    vocabulary = {token: at for at, token in enumerate(["<pad>", "<s>", "</s>", *letters, *merged])}
    bare = Tokenizer(models.BPE(vocabulary, [("Ġ", "a"), ("a", "b"), ("t", "h")]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    if bos:
        bare.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    made.chat_template = template
    return made


def build(folder, kind: str, *, template: str | None = None):
    """Save a random model; its weights are wide, so that the likeliest token is so by far."""
    torch.manual_seed(7)
    words = tokenizer(bos=kind == "llama", template=template)
    sizes = {"vocab_size": len(words), "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.4}
    if kind == "llama":
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=CONTEXT, **sizes,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, **sizes)
        model = transformers.GPT2LMHeadModel(config)
    # what a model's files ask for is not what the user asked for
    model.generation_config = transformers.GenerationConfig(
        do_sample=True, temperature=5.0, repetition_penalty=3.0, max_length=5, eos_token_id=[2, 3]
    )
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def folder(request, tmp_path_factory):
    return build(tmp_path_factory.mktemp(request.param), request.param)


def local(folder: str, **options):
    (model,) = from_name(folder, {"device": "cpu", **options})
    return model


@pytest.fixture(scope="module")
def model(folder):
    return local(folder)


def task(prompt: str = "", *, index: int = 0, repeat: int = 0, **generation) -> TaskSpec:
    settings = {"max_output_tokens": 12, **generation}
    return TaskSpec("t", "qa", prompt, sample_index=index, repeat=repeat, generation=settings)


def plain(model, tokens: list[int]):
    """Give the logits of the next token, by one forward without batch, padding or cache."""
    with torch.no_grad():
        return model.source.model(torch.tensor([tokens])).logits[0, -1].float().clone()


def start(model, prompt: str) -> list[int]:
    return model.source.tokenizer(prompt)["input_ids"]


def greedy(model, tokens: list[int], n: int, penalty: float = 1.0) -> tuple[list[int], float]:
    """Write the likeliest tokens, the plain way; gives them and their summed log-probability."""
    written, total = [], 0.0
    for _ in range(n):
        logits = plain(model, tokens + written)
        likely = torch.log_softmax(logits, -1)
        for seen in set(tokens + written):
            logits[seen] = logits[seen] / penalty if logits[seen] > 0 else logits[seen] * penalty
        best = int(logits.argmax())
        if best in model.source.ends:
            return written, total
        written.append(best)
        total += float(likely[best])
    return written, total


@pytest.mark.parametrize("penalty", [None, 1.5])
def test_a_reply_is_the_likeliest_text(model, penalty) -> None:
    extra = {} if penalty is None else {"repetition_penalty": penalty}
    for prompt in ("1 + 1 =", "What is the capital of France?"):
        reply = model.generate(prompt, task(**extra))
        tokens = start(model, prompt)
        written, total = greedy(model, tokens, 12, penalty or 1.0)
        assert reply.text == model.source.tokenizer.decode(written, skip_special_tokens=True)
        assert reply.input_tokens == len(tokens)
        assert reply.token_count == len(written)
        assert reply.token_nll == pytest.approx(-total, abs=1e-3)
        assert reply.finish_reason == ("length" if len(written) == 12 else "stop")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 1.0},
        {"temperature": 3.0, "top_p": 0.8},
        {"temperature": 2.0, "top_k": 5},
        {"temperature": 2.0, "min_p": 0.05, "repetition_penalty": 1.3},
        {"stop": ["a", "7"]},
        {"max_output_tokens": 200},  # more than the context has
    ],
)
def test_a_batch_gives_what_single_calls_give(model, settings) -> None:
    prompts = [prompt for prompt in PROMPTS if start(model, prompt)]
    tasks = [task(prompt, index=i, **settings) for i, prompt in enumerate(prompts)]
    together = model.generate_batch(prompts, tasks)
    backwards = model.generate_batch(prompts[::-1], tasks[::-1])[::-1]
    for prompt, one, batched, other in zip(prompts, tasks, together, backwards, strict=True):
        alone = model.generate(prompt, one)
        nll = pytest.approx(alone.token_nll, abs=1e-3)
        assert replace(batched, token_nll=None) == replace(alone, token_nll=None) == replace(other, token_nll=None)
        assert batched.token_nll == nll
        assert other.token_nll == nll


def test_repeats_are_drawn_anew_and_each_again_the_same(model) -> None:
    def texts(seeded) -> list[str]:
        return [seeded.generate("abc", task(repeat=r, temperature=2.0)).text for r in range(4)]

    first = texts(model)
    assert len(set(first)) == 4
    assert texts(model) == first
    assert texts(local(model.source.name, seed=1)) != first


def test_what_is_drawn_has_the_model_s_probabilities(model) -> None:
    tokens = start(model, "abc")
    expected = torch.softmax(plain(model, tokens) / 2.0, -1)
    n = 1_500
    tasks = [task(index=i, temperature=2.0, max_output_tokens=1) for i in range(n)]
    from evalframe.adapters.huggingface.decoding import Row, write
    from evalframe.adapters.huggingface.settings import choosing_of

    rows = [Row(list(tokens), random.Random(i)) for i in range(n)]
    write(model.source, rows, choosing_of(tasks[0].generation))
    counts = torch.bincount(torch.tensor([row.tokens[0] for row in rows]), minlength=len(expected)) / n
    likely = expected > 0.02
    assert likely.any()
    error = (expected * (1 - expected) / n).sqrt()
    assert ((counts - expected).abs()[likely] < 4 * error[likely]).all()


def test_cuts_keep_the_likeliest_tokens() -> None:
    from evalframe.adapters.huggingface.decoding import cut
    from evalframe.adapters.huggingface.settings import Choosing

    scores = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()

    def kept(**how) -> list[int]:
        return torch.isfinite(cut(scores, Choosing(sample=True, **how)))[0].nonzero()[:, 0].tolist()

    assert kept() == [0, 1, 2, 3]
    assert kept(top_k=2) == [0, 1]
    assert kept(top_k=9) == [0, 1, 2, 3]
    assert kept(top_p=0.5) == [0]
    assert kept(top_p=0.79) == [0, 1]
    assert kept(top_p=0.9) == [0, 1, 2]
    assert kept(top_p=1.0) == [0, 1, 2, 3]
    assert kept(min_p=0.25) == [0, 1, 2]
    assert kept(top_k=3, min_p=0.5) == [0, 1]


def test_a_reply_ends_before_the_first_stop(model) -> None:
    whole = model.generate("abc", task(max_output_tokens=30))
    assert len(whole.text) > 8
    stop = whole.text[5:7]
    place = whole.text.find(stop)
    reply = model.generate("abc", task(max_output_tokens=30, stop=[stop, "never there"]))
    assert reply.text == whole.text[:place]
    assert reply.finish_reason == "stop"
    assert reply.output_tokens < whole.output_tokens
    assert reply.token_count <= reply.output_tokens
    again, total = greedy(model, start(model, "abc"), reply.token_count)
    assert reply.token_nll == pytest.approx(-total, abs=1e-3)
    assert model.source.tokenizer.decode(again).startswith(reply.text)


def test_a_stop_at_the_very_beginning_leaves_nothing(model) -> None:
    whole = model.generate("abc", task())
    reply = model.generate("abc", task(stop=[whole.text[:2]]))
    assert (reply.text, reply.token_nll, reply.token_count) == ("", None, None)


def test_settings_that_the_model_s_files_have_are_not_used(model) -> None:
    # they ask for a temperature of 5, a penalty of 3 and five tokens; but their end tokens count
    assert model.generate("abc", task()).output_tokens > 5 or model.generate("abc", task()).finish_reason == "stop"
    assert model.source.ends == {2, 3}


def test_without_a_limit_a_reply_fills_the_context(model) -> None:
    replies = model.generate_batch(["abc", "abcdefghij"], [replace(task(index=i), generation={}) for i in range(2)])
    for reply in replies:
        filled = reply.input_tokens + reply.output_tokens == CONTEXT
        assert reply.finish_reason == ("length" if filled else "stop")
    assert any(reply.finish_reason == "length" for reply in replies)


def test_a_prompt_that_is_too_long_fails_by_itself(model) -> None:
    good, bad = model.generate_batch(["abc", "y" * 100], [task(), task(index=1)])
    assert good.text == model.generate("abc", task()).text
    assert isinstance(bad, CallFailed)
    assert bad.error_type == "bad_request"
    with pytest.raises(CallFailed, match="the model takes 64"):
        model.generate("y" * 100, task())


def test_a_deadline_ends_a_call(model) -> None:
    with pytest.raises(CallFailed, match="no end after 1 tokens") as raised:
        model.generate("abc", replace(task(max_output_tokens=50), deadline=time.monotonic()))
    assert raised.value.error_type == "timeout"
    assert model._lock.acquire(timeout=5)  # a second caller waits no longer than its own deadline
    try:
        with pytest.raises(CallFailed, match="busy"):
            model.generate("abc", replace(task(), deadline=time.monotonic()))
    finally:
        model._lock.release()


CONTEXTS = ["The th", "a", "Q: 1 + 1\nA:", "Q: 1 + 1\nA: ", "x"]
CONTINUATIONS = [" ab", "b c", " two", "three", " a long continuation of many tokens"]


def plain_score(model, context: str, continuation: str) -> tuple[float, int]:
    """Score by one forward over both texts as lm-evaluation-harness cuts them."""
    blanks = len(context) - len(context.rstrip())
    if blanks:
        context, continuation = context[:-blanks], context[-blanks:] + continuation
    words = model.source.tokenizer
    before, whole = words(context)["input_ids"], words(context + continuation)["input_ids"]
    n_before = len(before)
    while before[:n_before] != whole[:n_before]:
        n_before -= 1
    if not n_before:
        whole, n_before = [1, *whole], 1
    with torch.inference_mode():
        likely = torch.log_softmax(model.source.model(torch.tensor([whole])).logits[0].float(), -1)
    total = sum(float(likely[at - 1, whole[at]]) for at in range(n_before, len(whole)))
    return total, len(whole) - n_before


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_log_likelihoods_are_those_of_a_plain_forward(folder, batch_size) -> None:
    model = local(folder, batch_size=batch_size)
    pairs = [(context, continuation) for context in CONTEXTS for continuation in CONTINUATIONS]
    scores = model.loglikelihood(*zip(*pairs, strict=True))
    for pair, found in zip(pairs, scores, strict=True):
        total, count = plain_score(model, *pair)
        assert found.n_tokens == count, pair
        assert found.logprob == pytest.approx(total, abs=2e-3), pair


def test_log_likelihoods_of_all_next_tokens_sum_to_one(model) -> None:
    letters = [chr(code) for code in range(33, 127)]
    scores = model.loglikelihood(["Q:"] * len(letters), letters)
    assert 0 < sum(math.exp(score.logprob) for score in scores) <= 1.0001
    assert {score.n_tokens for score in scores} == {1}


def test_odd_pairs(model) -> None:
    nothing, after_nothing = model.loglikelihood(["abc", ""], ["", "abc"])
    assert (nothing.logprob, nothing.n_tokens) == (0.0, 0)
    assert after_nothing.n_tokens == len(model.source.tokenizer("abc", add_special_tokens=False)["input_ids"])
    assert model.loglikelihood([], []) == []
    with pytest.raises(CallFailed, match="the model takes 64"):
        model.loglikelihood(["y" * 60], ["z" * 60])
    assert len(model.source.tokenizer("ab", add_special_tokens=False)["input_ids"]) == 1
    (merged,) = model.loglikelihood(["Ta"], ["b"])  # one token of both
    assert merged.n_tokens == 1
    assert merged.logprob < 0
    with pytest.raises(CallFailed, match="no time was left") as raised:
        model.loglikelihood(["x"], ["y"], deadline=time.monotonic())
    assert raised.value.error_type == "timeout"


def test_identity_is_what_can_change_the_answer(model, tmp_path) -> None:
    base = model.identity("p", task())
    assert model.identity("p", task(repeat=1)) == base  # nothing is drawn
    drawn = [model.identity("p", task(repeat=r, temperature=1.0)) for r in range(2)]
    assert drawn[0] != drawn[1] != base
    assert base["model_version"] == model.model_version
    assert model.identity("q", task()) != base
    assert model.identity("p", task(stop=["x"])) != base
    assert local(model.source.name, dtype="bfloat16").identity("p", task()) != base
    copied = build(tmp_path / "copy", model.source.config.model_type)
    assert local(copied).model_version == model.model_version  # the same weights in another place


@pytest.fixture(scope="module")
def chatty(tmp_path_factory):
    return build(tmp_path_factory.mktemp("chat"), "llama", template=TEMPLATE)


def test_a_chat_template_is_used_where_there_is_one(chatty) -> None:
    model = local(chatty)
    settings = {"instructions": "Be short.", "chat_template_kwargs": {"loud": True}}
    assert model.api == "chat"
    assert model.source.tokenizer.decode(model._tokens("Hi", settings)) == "<s><s>Be short.<u>Hi!<a>"
    assert model.sending(settings).left_out == ()
    bare = local(chatty, api="completions")
    assert bare.source.tokenizer.decode(bare._tokens("Hi", settings)) == "<s>Hi"
    assert bare.sending(settings).left_out == ("instructions", "chat_template_kwargs")
    assert model.generate("Hi", task()).text == bare.generate("<u>Hi<a>", task()).text
    model.check({})


def test_what_can_not_be_called_says_why_before_a_run(model, tmp_path) -> None:
    with pytest.raises(AdapterError, match='no chat template; use "api": "completions"'):
        local(model.source.name, api="chat").check({})
    with pytest.raises(AdapterError, match="do_sample at temperature 0"):
        model.check({"do_sample": True, "temperature": 0})
    (tmp_path / "config.json").write_text("{}")
    empty = local(str(tmp_path))
    with pytest.raises(AdapterError, match="can not be loaded"):
        empty.check({})
    for _ in range(2):
        with pytest.raises(AdapterError, match="can not be loaded"):
            empty.source.model  # noqa: B018
    with pytest.raises(AdapterError, match="device 'cuda:77' can not be used"):
        local(model.source.name, device="cuda:77").source.model  # noqa: B018


def test_calls_from_several_threads_give_the_same(model) -> None:
    expected = [model.generate("abc", task(index=i, temperature=1.0)).text for i in range(6)]
    found: dict[int, str] = {}

    def call(i: int) -> None:
        found[i] = model.generate("abc", task(index=i, temperature=1.0)).text

    threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(6)] == expected


def test_a_run(folder, tmp_path) -> None:
    rows = [{"question": f"{i} + {i} =", "answer": str(2 * i)} for i in range(7)]

    def run(**options) -> pl.DataFrame:
        spec = {"model": f"transformers/{folder}", "device": "cpu", "model_id": "tiny", **options}
        done = evalframe.run(
            rows, models=[spec], prompt="{{question}}", targets="{{answer}}", metrics=["exact_match"],
            generation={"max_output_tokens": 8, "temperature": 1.0}, repeats=2, out=False, cache=False, progress=False,
        )  # fmt: skip
        return done.generations.drop("latency_seconds", "started_at", "token_nll")

    threes, ones = run(batch_size=3), run(batch_size=1)
    assert threes["status"].to_list() == ["completed"] * 14
    assert threes.equals(ones)
    assert all(one != other for one, other in pairwise(threes["output_text"]))


def test_a_run_that_asks_for_the_likeliest_choice(folder) -> None:
    rows = pl.DataFrame({"q": ["2 + 2", "the"], "choices": [["4", "5", "17"], ["ab", "c d"]], "answer": ["4", "ab"]})
    done = evalframe.run(
        rows, models={"model": f"transformers/{folder}", "device": "cpu", "model_id": "tiny"}, prompt="{{q}} =",
        targets="answer", metrics=["exact_match"], request_type="loglikelihood", out=False, progress=False,
    )  # fmt: skip
    model = local(folder)
    for row, call in zip(rows.to_dicts(), done.generations.to_dicts(), strict=True):
        expected = [plain_score(model, f"{row['q']} =", f" {choice}")[0] for choice in row["choices"]]
        assert call["choice_logprobs"] == pytest.approx(expected, abs=2e-3)
        assert call["output_text"] == row["choices"][expected.index(max(expected))]
        assert call["input_tokens"] > 0
        assert call["model_version"] == model.model_version


def test_replies_are_kept_and_taken_from_the_cache(folder) -> None:
    def run(temperature: float) -> pl.DataFrame:
        settings = {"temperature": temperature, "max_output_tokens": 40, "stop": [chr(code) for code in range(33, 127)]}
        spec = {"model": f"transformers/{folder}", "device": "cpu", "model_id": "tiny", "generation": settings}
        done = evalframe.run(
            [{"q": "1"}, {"q": "2"}], models=[spec], prompt="{{q}}", targets="{{q}}", metrics=["exact_match"],
            repeats=2, out=False, progress=False,
        )  # fmt: skip
        return done.generations

    first, again = run(1.0), run(1.0)
    assert not first["cached"].any()
    kept = first["finish_reason"] == "stop"  # what was cut off is asked again
    assert kept.any()
    assert again["cached"].to_list() == kept.to_list()
    assert again["output_text"].to_list() == first["output_text"].to_list()
    assert not run(1.5)["cached"].any()
