"""Compares quire with llama.cpp; called by llama_cpp.sh."""

import sys

import comparison
import llama_cpp_build


class LlamaCpp:
    """llama.cpp's batched-bench. All prompts of a run are one, computed once and copied to each
    sequence's own cache before decode is timed: that costs less time and changes nothing in it."""

    name = "llama.cpp"

    def __init__(self, variant):
        self._variant = variant
        self._program = llama_cpp_build.build(comparison.cache_folder(), variant)

    def version(self):
        return f"{llama_cpp_build.version()}, CPU, {self._variant}, Release"

    def running(self):
        return []

    def run(self, model, group, threads):
        cells = -(-group.longest() // 256) * 256  # a sequence's cache grows in steps of 256
        lines = comparison.run_json(
            [self._program, "-m", model, "-t", threads, "-tb", threads,
             "-c", cells * max(group.sequences), "-npp", ",".join(map(str, group.prompts)),
             "-ntg", group.generated, "-npl", ",".join(map(str, group.sequences)), "-pps",
             "--output-format", "jsonl"], lines=True)
        shapes = [(line["pp"], line["pl"]) for line in lines]
        if shapes != group.shapes():
            raise RuntimeError(f"batched-bench measured {shapes}, not {group.shapes()}")
        return [comparison.Speeds(line["speed_pp"], line["speed_tg"]) for line in lines]


def main():
    parser = comparison.describe("llama_cpp.sh", "Times quire beside llama.cpp on the same files, threads "
                                 "and shapes, in turn, and prints medians and ratios.")
    arguments = comparison.parse(parser)
    peer = LlamaCpp("avx2" if arguments.isa == "avx2" else "native")
    return comparison.compare(peer, arguments)


if __name__ == "__main__":
    sys.exit(main())
