#!/usr/bin/env python3
"""PyTorch's flash-2 backend on the shapes that attention_bench measures prefill with."""

import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for heads, size in ((16, 128), (32, 64)):
        for batch, length in ((4, 4096), (2, 8192), (1, 16384)):
            q, k, v = (torch.randn(batch, heads, length, size, device="cuda", dtype=torch.bfloat16)
                       for _ in range(3))
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                times = []
                for i in range(8):
                    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    start.record()
                    for _ in range(3):
                        scaled_dot_product_attention(q, k, v, is_causal=True)
                    stop.record()
                    torch.cuda.synchronize()
                    times.append(start.elapsed_time(stop) / 3)
            time = statistics.median(times[1:])
            operations = 2 * batch * heads * length * length * size
            print(f"flash-2 {batch} x {length} {heads} heads d{size}: {time:.3f} ms "
                  f"{operations / time * 1e-9:.1f} TFLOP/s")


if __name__ == "__main__":
    main()
