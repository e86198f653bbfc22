"""A run in a script, a worker thread, a running loop, inside ``async def``, and twice in one process."""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import evalframe as ef
from evalframe.errors import ManifestError, OptionError
from evalframe.runner import load, resume


def in_the_script(work):
    return work()


def in_a_worker_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def inside_a_running_loop(work):
    async def main():
        return work()

    return asyncio.run(main())


@pytest.mark.parametrize(
    "where", [in_the_script, in_a_worker_thread, inside_a_running_loop], ids=lambda where: where.__name__
)
def test_C075_a_run_works_wherever_it_is_called_and_twice(suite, Counting, same_frames, new_threads, where) -> None:
    def work() -> ef.Run:
        return ef.run(suite("a", "b"), [Counting("one"), "mock/noisy"], out=False, progress=False)

    same_frames(where(work), where(work))
    assert not new_threads()


def test_arun_gives_what_run_gives_and_leaves_the_loop_free(suite, Counting, same_frames) -> None:
    async def main() -> tuple[ef.Run, bool]:
        beside = asyncio.Event()

        class Waiting(Counting):
            def generate(self, prompt, task):
                loop.call_soon_threadsafe(beside.set)  # the loop answers while calls are made
                assert asyncio.run_coroutine_threadsafe(beside.wait(), loop).result(60)
                return super().generate(prompt, task)

        loop = asyncio.get_running_loop()
        return await ef.arun(suite(), Waiting(), out=False, progress=False), beside.is_set()

    run, answered = asyncio.run(main())
    assert answered
    same_frames(run, ef.run(suite(), Counting(), out=False, progress=False))


def test_two_aruns_at_once(suite, Counting, same_frames) -> None:
    async def main() -> list[ef.Run]:
        both = threading.Barrier(2, timeout=60)

        class Meeting(Counting):
            def generate(self, prompt, task):
                both.wait()  # each run has a call in flight
                return super().generate(prompt, task)

        runs = (ef.arun(suite(), Meeting(), out=False, progress=False, parallel=False) for _ in range(2))
        return list(await asyncio.gather(*runs))

    same_frames(*asyncio.run(main()))


def test_a_cancelled_arun_keeps_what_is_in_flight_and_can_be_resumed(
    suite, Counting, same_frames, new_threads, tmp_path: Path
) -> None:
    async def main(model) -> None:
        work = asyncio.ensure_future(ef.arun(suite(), model, out=tmp_path / "run", progress=False, parallel=False))
        await asyncio.to_thread(model.began.wait, 60)
        work.cancel()
        await asyncio.sleep(0)  # the cancellation is seen: no further call begins
        model.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await work

    class Holding(Counting):
        began, go_on = threading.Event(), threading.Event()

        def generate(self, prompt, task):
            self.began.set()
            assert self.go_on.wait(60)
            return super().generate(prompt, task)

    model = Holding()
    asyncio.run(main(model))
    assert not new_threads()
    partial = load(tmp_path / "run")
    assert partial.record["status"] == "partial"
    assert (partial.generations["status"] == "completed").sum() == len(model.seen) == 1
    rest = Counting()
    same_frames(resume(tmp_path / "run", [rest], progress=False), ef.run(suite(), Counting(), progress=False))
    assert len(rest.seen) == 5


def test_a_cancelled_arun_in_a_temporary_folder_says_where_it_is_kept(suite, Counting) -> None:
    async def main(model) -> list[str]:
        work = asyncio.ensure_future(ef.arun(suite(), model, out=False, progress=False, parallel=False))
        await asyncio.to_thread(model.began.wait, 60)
        work.cancel()
        await asyncio.sleep(0)
        model.go_on.set()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await work
        return cancelled.value.__notes__

    class Holding(Counting):
        began, go_on = threading.Event(), threading.Event()

        def generate(self, prompt, task):
            self.began.set()
            assert self.go_on.wait(60)
            return super().generate(prompt, task)

    (note,) = asyncio.run(main(Holding()))
    folder = Path(note.partition("'")[2].partition("'")[0])
    gc.collect()
    try:
        assert (load(folder).generations["status"] == "completed").sum() == 1
    finally:
        shutil.rmtree(folder)


def test_arun_says_what_is_wrong_as_run_does(suite) -> None:
    with pytest.raises(ManifestError, match="tasks"):
        asyncio.run(ef.arun({"tasks": []}, "mock/noisy"))
    with pytest.raises(OptionError, match="concurency"):
        asyncio.run(ef.arun(suite(), "mock/noisy", concurency=3))


def test_a_run_under_the_users_folder_is_called_as_its_folder(suite, Counting) -> None:
    run = ef.run(suite(), Counting(), progress=False)
    again = run.rescore(extract="number")
    assert [one.path.name for one in (run, again)] == [one.record["run_id"] for one in (run, again)]
    assert run.path.parent == again.path.parent
    assert run.path != again.path


INTERRUPTED = """
import os, signal, threading
import evalframe as ef

def answer(prompt):
    if prompt == "2":
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(0.3)
    return prompt

ef.run([{"q": str(i)} for i in range(6)], ef.from_callable("m", answer), prompt="{{q}}", targets="{{q}}",
       metrics=["exact_match"], out=False, progress=False, parallel=False)
"""


def test_an_interrupted_script_loses_no_reply_of_a_temporary_folder() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGINT, done.stderr
    found = re.search(r"evalframe\.resume\('(.+)', \[m\]\) in Python", done.stderr)
    assert found is not None, done.stderr
    folder = Path(found[1])
    try:
        assert (load(folder).generations["status"] == "completed").sum() >= 2
        asked = []
        rest = ef.from_callable("m", lambda prompt: asked.append(prompt) or prompt)
        whole = resume(folder, [rest], progress=False)
        assert whole.record["status"] == "complete"
        assert 0 < len(asked) <= 4
    finally:
        shutil.rmtree(folder)
