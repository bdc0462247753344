"""Times quire and another engine in turn on the same models and shapes; prints medians and ratios."""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import gguf  # noqa: E402
import machine  # noqa: E402
import make_model  # noqa: E402

REAL_MODELS = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
MADE_MODELS = [("Qwen2.5-1.5B", "Q4_K_M"), ("Qwen2.5-1.5B", "Q8_0"), ("Llama-3.2-1B", "BF16")]
QUICK_SECONDS = 285  # --quick begins nothing that would end later, were it the longest so far


@dataclasses.dataclass(frozen=True)
class Group:
    """Shapes that one process measures one after the other: each prompt length with each number of
    sequences, in this order. The first is there to warm up and does not count."""
    prompts: tuple
    sequences: tuple
    generated: int
    prefill: bool = False  # prefill counts
    decode: bool = True    # decode counts

    def shapes(self):
        return [(prompt, count) for prompt in self.prompts for count in self.sequences]

    def longest(self):
        return max(self.prompts) + self.generated


@dataclasses.dataclass(frozen=True)
class Row:
    metric: str
    tokens: int     # measured, of each sequence
    sequences: int
    context: int    # tokens of each sequence that are cached before


@dataclasses.dataclass(frozen=True)
class Speeds:
    prefill: float  # tokens per second, all sequences together
    decode: float


class Unsupported(Exception):
    """The engine cannot run the model; the message says why."""


PREFILL = Group((512, 512, 2048), (1,), 1, prefill=True, decode=False)
LONG = Group((512, 4096), (1,), 64, prefill=True)
FIRST_GROUPS = [PREFILL, Group((128,), (1, 1, 8), 64), Group((128,), (1, 32), 64)]
MORE_GROUPS = [Group((128,), (1, 2, 4, 16), 64), LONG]
LARGE_GROUPS = [Group((512,), (1, 1, 2, 4, 8), 128), Group((512,), (1, 16), 128),
                Group((512,), (1, 32), 128), Group((4096,), (1, 8), 64)]
ALL_GROUPS = FIRST_GROUPS + MORE_GROUPS + LARGE_GROUPS


def run_json(command, lines=False):
    """Runs a program and parses what it prints; with `lines`, the lines that are JSON objects."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=3600, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise RuntimeError(f"{command[0]}: exit status {done.returncode}: {' / '.join(last)}")
    if not lines:
        return json.loads(done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Quire:
    name = "quire"

    def __init__(self, build, device):
        self._program, self._device = Path(build) / "benchmarks" / "end_to_end", device
        self._ran = ""

    def version(self):
        commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                                capture_output=True, text=True, check=False).stdout.strip()
        return f"quire {commit or 'without version'} {self._ran}".rstrip()

    def running(self):
        """Ids of processes that outlast a run."""
        return []

    def run(self, model, group, threads):
        result = run_json([self._program, "--model", model, "--device", self._device, "--threads",
                           threads, "--separate", "--json", "--gen-tokens", group.generated,
                           "--prompt-tokens", ",".join(map(str, group.prompts)), "--concurrency",
                           ",".join(map(str, group.sequences))])
        self._ran = f"on {result['device']}"
        return [Speeds(one["prefill_tokens_per_s"], one["decode_tokens_per_s"])
                for one in result["runs"]]


@dataclasses.dataclass
class Cell:
    """What was measured of a row."""
    speeds: dict = dataclasses.field(default_factory=dict)  # engine's name: list
    disturbed: float = 0.0  # largest share of the processors that other programs used

    def median(self, engine):
        return statistics.median(self.speeds[engine])


class Comparison:
    def __init__(self, peer, arguments, models):
        self._arguments, self._models = arguments, models
        self._quire = Quire(arguments.build, f"cpu:{arguments.isa}" if arguments.isa else "cpu")
        self._peer = peer
        self._headers = {model: gguf.Header(model) for model in models}
        self._cells = {}        # (model, row): Cell
        self._bandwidth = []    # GB/s
        self._unsupported = {}  # (engine's name, model): reason
        self._failures = []     # texts
        self._begin = time.monotonic()
        self._longest_pair = 0.0  # seconds of both engines together

    def run(self):
        arguments = self._arguments
        if arguments.quick:
            phases = [FIRST_GROUPS, MORE_GROUPS]
        else:
            phases = [ALL_GROUPS]
        for number, groups in enumerate(phases):
            for repeat in range(arguments.repeats):
                for model in self._models:
                    for group in groups:
                        if self._is_late(number + repeat):
                            return
                        begin = self._seconds()
                        self._measure(model, group, repeat)
                        self._longest_pair = max(self._longest_pair, self._seconds() - begin)
                    self._write_json()

    def _is_late(self, round_number):
        """True if --quick has no time left; the first round is always measured."""
        return (self._arguments.quick and round_number > 0 and
                self._seconds() + self._longest_pair > QUICK_SECONDS)

    def _seconds(self):
        return time.monotonic() - self._begin

    def _measure(self, model, group, repeat):
        header = self._headers[model]
        context = header.metadata.get(f"{header.metadata['general.architecture']}.context_length")
        if context is not None and group.longest() > context:
            return
        if any(name == model for _, name in self._unsupported):
            return
        self._bandwidth.append(self._read_bandwidth())
        engines = [self._peer, self._quire]  # a peer that cannot run the model saves quire's run
        if repeat % 2:
            engines.reverse()
        for engine in engines:
            try:
                speeds, disturbed = self._run_calm(engine, model, group)
            except Unsupported as reason:
                self._unsupported[engine.name, model] = reason
                return
            except (RuntimeError, subprocess.TimeoutExpired) as problem:
                self._failures.append(f"{engine.name}, {model.name}: {problem}")
                print(self._failures[-1], file=sys.stderr, flush=True)
                continue
            self._keep(engine, model, group, speeds, disturbed)

    def _read_bandwidth(self):
        program = Path(self._arguments.build) / "benchmarks" / "peers" / "read_bandwidth"
        return run_json([program, self._arguments.threads])["best_gb_per_s"]

    def _run_calm(self, engine, model, group):
        """One run; with --calm the least disturbed of up to five, the first calm one at best."""
        calm, best = self._arguments.calm, None
        for _ in range(1 if calm is None else 5):
            if calm is not None:
                machine.wait_until_calm(calm / 100, 60)
            load = machine.Load(engine.running)
            speeds = engine.run(model, group, self._arguments.threads)
            disturbed = load.others() or 0.0
            if best is None or disturbed < best[1]:
                best = speeds, disturbed
            if calm is not None and disturbed < calm / 100:
                break
        return best

    def _keep(self, engine, model, group, speeds, disturbed):
        shapes = group.shapes()
        if len(shapes) != len(speeds):
            raise RuntimeError(f"{engine.name}: {len(speeds)} results for {len(shapes)} shapes")
        words = []
        for (prompt, sequences), speed in list(zip(shapes, speeds))[1:]:
            if group.prefill and sequences == 1:
                self._add(engine, model, Row("prefill", prompt, 1, 0), speed.prefill, disturbed)
                words.append(f"prefill {prompt}: {speed.prefill:.1f}")
            if group.decode:
                row = Row("decode", group.generated, sequences, prompt)
                self._add(engine, model, row, speed.decode, disturbed)
                words.append(f"decode {prompt}+{group.generated} x{sequences}: {speed.decode:.1f}")
        print(f"[{self._seconds():4.0f} s, others {disturbed:3.0%}] {model.name}, {engine.name}: "
              f"{', '.join(words)}", file=sys.stderr, flush=True)

    def _add(self, engine, model, row, speed, disturbed):
        cell = self._cells.setdefault((model, row), Cell())
        cell.speeds.setdefault(engine.name, []).append(speed)
        cell.disturbed = max(cell.disturbed, disturbed)

    # --- results ---------------------------------------------------------------------------------

    def _results(self):
        """(model, row, cell) of the rows that both engines have."""
        order = {"prefill": 0, "decode": 1}
        both = [(model, row, cell) for (model, row), cell in self._cells.items()
                if len(cell.speeds) == 2]
        return sorted(both, key=lambda one: (self._models.index(one[0]), order[one[1].metric],
                                             one[1].context, one[1].tokens, one[1].sequences))

    def _write_json(self):
        if not self._arguments.json:
            return
        rows = []
        for model, row, cell in self._results():
            ours, theirs = cell.median(self._quire.name), cell.median(self._peer.name)
            rows.append({"model": model.stem, "weights": self._headers[model].weights,
                         "metric": row.metric, "tokens": row.tokens, "sequences": row.sequences,
                         "context": row.context, "threads": self._arguments.threads,
                         "quire": round(ours, 2), "peer": round(theirs, 2),
                         "ratio": round(ours / theirs, 3)})
        partial = Path(f"{self._arguments.json}.partial")
        partial.write_text("[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n")
        os.replace(partial, self._arguments.json)

    def report(self):
        """Prints the table; true if nothing failed."""
        self._write_json()
        bandwidth = statistics.median(self._bandwidth) if self._bandwidth else 0.0
        print(f"{machine.processor()}, {machine.available_processors()} processors; "
              f"threads of each engine: {self._arguments.threads}; {time.strftime('%Y-%m-%d')}")
        print(f"{self._quire.version()}; {self._peer.version()}")
        if self._bandwidth:
            print(f"read bandwidth of as many threads: {bandwidth:.1f} GB/s, between "
                  f"{min(self._bandwidth):.1f} and {max(self._bandwidth):.1f}")
        print(f"medians of {self._arguments.repeats} runs in turn, tok/s, in {self._seconds():.0f} s; "
              "disturbed: largest share of the processors that other programs used during a run\n")
        last = None
        for model, row, cell in self._results():
            if model != last:
                self._print_head(model)
                last = model
            self._print_row(model, row, cell, bandwidth)
        for (engine, model), reason in self._unsupported.items():
            print(f"\n{engine} cannot run {model.name}: {reason}")
        for failure in self._failures:
            print(f"\nfailed: {failure}")
        return not self._failures

    def _print_head(self, model):
        print(f"\n### {model.stem}, {self._headers[model].weights}\n\n"
              f"| | quire | {self._peer.name} | ratio | of bandwidth | runs | disturbed |\n"
              "| --- | --- | --- | --- | --- | --- | --- |")

    def _print_row(self, model, row, cell, bandwidth):
        ours, theirs = cell.median(self._quire.name), cell.median(self._peer.name)
        share, size = "", self._headers[model].bytes_per_token()
        if row.metric == "prefill":
            what = f"prefill {row.tokens}"
        else:
            what = (f"decode, {row.sequences} sequence{'s' * (row.sequences > 1)}, "
                    f"{row.context} + {row.tokens}")
            if row.sequences == 1 and size and bandwidth:
                share = f"{ours * size / 1e9 / bandwidth:.0%}"
        runs = min(len(speeds) for speeds in cell.speeds.values())
        print(f"| {what} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} | {share} | {runs} | "
              f"{cell.disturbed:.0%} |")


# --- command line ----------------------------------------------------------------------------------

def describe(program, what):
    parser = argparse.ArgumentParser(prog=program, description=what)
    parser.add_argument("--quick", action="store_true",
                        help="the two real models only, 3 repeats, under 5 minutes: prefill, and decode "
                        "at 1, 8 and 32 sequences first; the other rows as far as time lasts")
    parser.add_argument("--json", metavar="OUT", help="write the rows to this file")
    parser.add_argument("--threads", type=int, default=machine.available_processors(), metavar="N",
                        help="threads of both engines [the processors there are]")
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of each row [5]")
    parser.add_argument("--models", type=Path, metavar="DIR",
                        help="the GGUF files of this folder; with --quick the real ones of them "
                        "[the two real models and three made ones, in the cache]")
    parser.add_argument("--model", type=Path, action="append", metavar="FILE",
                        help="this GGUF file; may be given several times")
    parser.add_argument("--isa", metavar="NAME",
                        help="quire's instruction set, such as avx2; for avx2 the peer, too, is built "
                        "without AVX-512 [the best one]")
    parser.add_argument("--calm", type=float, metavar="PERCENT",
                        help="wait until other programs use less of the processors, and repeat a run in "
                        "which they used more, up to 4 times")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="quire's build folder [build]")
    parser.add_argument("--no-build", action="store_true", help="use what is built of quire")
    return parser


def parse(parser):
    arguments = parser.parse_args()
    arguments.repeats = arguments.repeats or (3 if arguments.quick else 5)
    if arguments.threads < 1 or arguments.repeats < 1:
        parser.error("--threads and --repeats: at least 1")
    return arguments


def cache_folder():
    return Path(os.environ.get("QUIRE_CACHE") or Path.home() / ".cache" / "quire")


def models_of(arguments):
    """The files to measure, fetched or made where they are the script's own."""
    if arguments.model:
        models = arguments.model
    elif arguments.models and arguments.quick:
        models = [arguments.models / name for name in REAL_MODELS]
    elif arguments.models:
        models = sorted(arguments.models.glob("*.gguf"))
    else:
        subprocess.run(["bash", str(ROOT / "tests" / "fetch_models.sh"), "smollm2", "gemma3"],
                       stdout=sys.stderr, check=True)
        models = [cache_folder() / "models" / name for name in REAL_MODELS]
        if not arguments.quick:
            models += [made_model(shape, mix) for shape, mix in MADE_MODELS]
    missing = [str(model) for model in models if not model.is_file()]
    if missing or not models:
        raise SystemExit(f"no such file: {', '.join(missing) or arguments.models / '*.gguf'}")
    return models


def made_model(shape, mix):
    path = cache_folder() / "models" / "made" / f"{shape}.{mix}.gguf"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {path}", file=sys.stderr, flush=True)
        partial = path.with_suffix(".partial")
        make_model.make(partial, shape, mix)
        partial.rename(path)
    return path


def compare(peer, arguments):
    """Runs everything; the exit status."""
    comparison = Comparison(peer, arguments, models_of(arguments))
    comparison.run()
    return 0 if comparison.report() else 1
