#!/usr/bin/env python3
"""Hopper attention beside PyTorch's cuDNN backend, interleaved on one GPU, with clocks and watts.

cuDNN is timed in bf16 with heads before tokens in memory and the other way round; our own kernels
with keys and values in bf16, f16 and, where there is one, fp8; `variants` times the program's other
policies in the same rounds.

hopper_attention_bench.py PROGRAM [LENGTHS [PAGES [TYPES [variants]]]]: PROGRAM is
hopper_attention_bench; 1024,4096 64 bf16,fp8 for example.
"""

import statistics
import subprocess
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TOKENS = 16384
ROUNDS = 6


class Own:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        return float(self.ask_text(line))

    def ask_text(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


def peer(q, k, v, causal, grouped, calls):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        start.record()
        for _ in range(calls):
            scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
        stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / calls


def inputs(batch, length, heads, kv_heads, size, tokens_first):
    """Heads before tokens in memory, or tokens before heads as a projection leaves them."""
    def values(count):
        if tokens_first:
            return torch.randn(batch, length, count, size, device="cuda",
                               dtype=torch.bfloat16).transpose(1, 2)
        return torch.randn(batch, count, length, size, device="cuda", dtype=torch.bfloat16)
    return values(heads), values(kv_heads), values(kv_heads)


def card():
    try:
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        clock = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
        return f"{clock} MHz {pynvml.nvmlDeviceGetPowerUsage(handle) // 1000} W"
    except Exception as failure:
        return f"clocks unknown ({failure})"


def main():
    own = Own(sys.argv[1])
    lengths = [int(x) for x in (sys.argv[2] if len(sys.argv) > 2 else "1024,4096,16384").split(",")]
    pages = [int(x) for x in (sys.argv[3] if len(sys.argv) > 3 else "64").split(",")]
    wanted = (sys.argv[4] if len(sys.argv) > 4 else "bf16,f16,fp8").split(",")
    with_variants = sys.argv[5:] == ["variants"]
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN",
          torch.backends.cudnn.version())
    shapes = [(128, 16, 16), (64, 32, 32), (256, 8, 8), (128, 64, 8)]
    for size, heads, kv_heads in shapes:
        for causal in (True, False):
            for length in lengths:
                batch = max(1, TOKENS // length)
                layouts = [inputs(batch, length, heads, kv_heads, size, first)
                           for first in (False, True)]
                types = [kind for kind in wanted if kind != "fp8" or size in (64, 128)]
                for page, kind in [(page, kind) for page in pages for kind in types]:
                    operations = own.ask(
                        f"open {length} {size} {heads} {kv_heads} {page} {int(causal)} {kind}")
                    calls = max(2, min(20, int(5e12 / operations)))
                    names = own.ask_text("variants").split(";")[:-1] if with_variants else []
                    times = [[], [], []]
                    others = [[] for _ in names]
                    for _ in range(ROUNDS):
                        times[0].append(own.ask(f"run {calls}"))
                        for place, layout in enumerate(layouts):
                            times[place + 1].append(
                                peer(*layout, causal, heads != kv_heads, calls))
                        for index, some in enumerate(others):
                            some.append(own.ask(f"variant {index} {calls}"))
                    ours, *theirs = (operations * 1e-9 / statistics.median(some[1:])
                                     for some in times)
                    print(f"{batch:2} x {length:5} {heads}/{kv_heads} d{size:3} {kind:4} page {page:2} "
                          f"{'causal' if causal else 'full  '}: {ours:6.1f} TFLOP/s, cuDNN "
                          f"{theirs[0]:6.1f} and {theirs[1]:6.1f}, ratio to the better "
                          f"{ours / max(theirs):.3f}  {card()}", flush=True)
                    for name, some in zip(names, others):
                        rate = operations * 1e-9 / statistics.median(some[1:])
                        print(f"    {name}: {rate:6.1f} ({rate / max(theirs):.3f})", flush=True)


if __name__ == "__main__":
    main()
