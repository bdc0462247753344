"""Measures one model with OpenVINO GenAI; runs in the environment that has it. Reads a shape from each
line of stdin, {"prompt", "sequences", "generated"}, and answers each with {"prefill", "decode"} in
tokens per second. The first line of the output is {} or {"error"}.

usage: openvino_worker.py <GGUF file> <threads> <longest prompt>
"""

import json
import sys
import time

import numpy
import openvino
import openvino_genai


def open_model(path, threads, longest_prompt):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = max(2048, longest_prompt)  # prompts are not cut
    scheduler.dynamic_split_fuse = False  # steps compute prompts or decode, never both
    scheduler.enable_prefix_caching = False
    return openvino_genai.ContinuousBatchingPipeline(path, scheduler, "CPU",
                                                     {"INFERENCE_NUM_THREADS": threads})


def read_tokens(handles):
    """For each request, how many tokens the last step brought."""
    return [sum(len(output.generated_ids) for output in handle.read().values())
            if handle.can_read() else 0 for handle in handles]


def measure(pipeline, vocabulary, random, first_id, shape):
    settings = openvino_genai.GenerationConfig()
    settings.max_new_tokens = shape["generated"] + 1  # the prompt's step brings one
    settings.ignore_eos = True
    settings.apply_chat_template = False
    handles = []
    for i in range(shape["sequences"]):
        ids = random.integers(0, vocabulary, (1, shape["prompt"]), dtype=numpy.int64)
        handles.append(pipeline.add_request(first_id + i, openvino.Tensor(ids), settings))
    begin = time.perf_counter()
    started = [0] * len(handles)
    while not all(started):
        pipeline.step()
        started = [old + new for old, new in zip(started, read_tokens(handles))]
    prompts_done = time.perf_counter()
    early, passes = sum(started) - len(handles), 0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        passes += 1
        read_tokens(handles)
    end = time.perf_counter()
    if early or passes != shape["generated"]:
        raise RuntimeError(f"{early} tokens decoded among the prompts, then {passes} passes")
    return {"prefill": shape["sequences"] * shape["prompt"] / (prompts_done - begin),
            "decode": shape["sequences"] * passes / (end - prompts_done)}


def main():
    path, threads, longest_prompt = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        pipeline = open_model(path, threads, longest_prompt)
    except RuntimeError as problem:
        print(json.dumps({"error": " ".join(str(problem).split())}), flush=True)
        return 1
    vocabulary = len(pipeline.get_tokenizer().get_vocab())
    print("{}", flush=True)
    random, next_id = numpy.random.default_rng(20240607), 0
    for line in sys.stdin:
        shape = json.loads(line)
        print(json.dumps(measure(pipeline, vocabulary, random, next_id, shape)), flush=True)
        next_id += shape["sequences"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
