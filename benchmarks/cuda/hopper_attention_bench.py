#!/usr/bin/env python3
"""Hopper attention beside PyTorch's cuDNN backend, interleaved on one GPU, with clocks and watts.

hopper_attention_bench.py PROGRAM [LENGTHS [PAGES]]: PROGRAM is hopper_attention_bench.
"""

import statistics
import subprocess
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TOKENS = 16384
ROUNDS = 7


class Own:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def peer(q, k, v, causal, grouped, calls):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        start.record()
        for _ in range(calls):
            scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
        stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / calls


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
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN",
          torch.backends.cudnn.version())
    shapes = [(128, 16, 16), (64, 32, 32), (256, 8, 8), (128, 64, 8)]
    for size, heads, kv_heads in shapes:
        for causal in (True, False):
            for length in lengths:
                batch = max(1, TOKENS // length)
                q = torch.randn(batch, heads, length, size, device="cuda", dtype=torch.bfloat16)
                k, v = (torch.randn(batch, kv_heads, length, size, device="cuda",
                                    dtype=torch.bfloat16) for _ in range(2))
                for page in pages:
                    operations = own.ask(
                        f"open {length} {size} {heads} {kv_heads} {page} {int(causal)}")
                    calls = max(2, min(20, int(6e12 / operations)))
                    mine, theirs = [], []
                    for _ in range(ROUNDS):
                        mine.append(own.ask(f"run {calls}"))
                        theirs.append(peer(q, k, v, causal, heads != kv_heads, calls))
                    ours, cudnn = (operations * 1e-9 / statistics.median(times[1:])
                                   for times in (mine, theirs))
                    print(f"{batch:2} x {length:5} {heads}/{kv_heads} d{size:3} page {page:2} "
                          f"{'causal' if causal else 'full  '}: {ours:6.1f} TFLOP/s, cuDNN "
                          f"{cudnn:6.1f}, ratio {ours / cudnn:.3f}  {card()}", flush=True)


if __name__ == "__main__":
    main()
