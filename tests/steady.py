"""Run the tests that wait for processes, servers and pages again and again, on a machine that is kept busy.

python tests/steady.py [ROUNDS]
"""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

TESTS = [
    "tests/studio",
    "tests/scene/test_scene_running.py",
    "tests/scene/test_checkpointing.py",
    "tests/scene/test_ended_runs.py",
    "tests/scene/test_faults.py",
    "tests/scene/test_run_stats.py",
    "tests/scene/test_wedges.py",
    "tests/deform/test_streaming.py",
    "tests/deform/test_streaming_cluster.py",
    "tests/io/test_frames.py",
    "tests/io/test_signals.py",
    "tests/test_deform_command.py",
]
ALONE = ["--ignore=tests/studio/test_studio_fuzz.py"]  # waits for nobody, and is long
ROUNDS = 10


@contextmanager
def busy():
    """A process that takes as much of a core as it gets, until the end or for two hours."""
    code = "import time; end = time.monotonic() + 7200\nwhile time.monotonic() < end: pass"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(rounds):
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "--random-order"]
    failed = []
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.enter_context(busy())
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", flush=True)
            done = subprocess.run(
                [*command, f"--random-order-seed={number}", *ALONE, *TESTS],
                cwd=Path(__file__).parents[1],
                check=False,
            )
            failed += [number] if done.returncode else []
    print(f"{rounds - len(failed)} of {rounds} rounds passed" + (f"; failed: {failed}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
