"""Compares quire with OpenVINO GenAI; called by openvino.sh."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import comparison

PACKAGES = ["openvino==2026.4.0", "openvino-tokenizers==2026.4.0.0", "openvino-genai==2026.4.0.0"]
TRIES = 3


def install(cache):
    """The environment's Python, made and filled once."""
    folder = Path(cache) / "peers" / "openvino"
    python, stamp = folder / "bin" / "python", folder / ".packages"
    if python.exists() and stamp.is_file() and stamp.read_text() == " ".join(PACKAGES):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for attempt in range(TRIES):
        done = subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
                              stdout=sys.stderr, check=False)
        if done.returncode == 0:
            stamp.write_text(" ".join(PACKAGES))
            return python
        print(f"pip, try {attempt + 1}: exit status {done.returncode}", file=sys.stderr)
    raise SystemExit(f"cannot install {' '.join(PACKAGES)}")


class OpenVino:
    """A process for each model, since one takes long to load; idle while the other engine runs."""

    name = "OpenVINO"

    def __init__(self):
        self._python = install(comparison.cache_folder())
        self._workers = {}  # (model, threads): process

    def version(self):
        return f"{PACKAGES[-1].replace('==', ' ')}, CPU, its own defaults for the KV cache"

    def running(self):
        return [worker.pid for worker in self._workers.values()]

    def run(self, model, group, threads):
        worker = self._worker(model, threads)
        speeds = []
        for prompt, sequences in group.shapes():
            shape = {"prompt": prompt, "sequences": sequences, "generated": group.generated}
            worker.stdin.write(json.dumps(shape) + "\n")
            worker.stdin.flush()
            answer = self._answer(worker)
            speeds.append(comparison.Speeds(answer["prefill"], answer["decode"]))
        return speeds

    def close(self):
        for worker in self._workers.values():
            worker.stdin.close()
            worker.wait()

    def _worker(self, model, threads):
        worker = self._workers.get((model, threads))
        if worker is None:
            longest = max(max(group.prompts) for group in comparison.ALL_GROUPS)
            worker = subprocess.Popen(
                [str(self._python), str(Path(__file__).with_name("openvino_worker.py")), str(model),
                 str(threads), str(longest)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            opened = self._answer(worker)
            if "error" in opened:
                raise comparison.Unsupported(opened["error"])
            self._workers[model, threads] = worker
        return worker

    @staticmethod
    def _answer(worker):
        line = worker.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with status {worker.wait()}")
        return json.loads(line)


def main():
    parser = comparison.describe("openvino.sh", "Times quire beside OpenVINO GenAI on the same GGUF "
                                 "files, threads and shapes, in turn, and prints medians and ratios.")
    arguments = comparison.parse(parser)
    peer = OpenVino()
    try:
        return comparison.compare(peer, arguments)
    finally:
        peer.close()


if __name__ == "__main__":
    sys.exit(main())
