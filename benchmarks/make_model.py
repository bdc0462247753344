#!/usr/bin/env python3
"""Writes a GGUF file with random weights in the shape of a known model, to time sizes and types that
cannot be had otherwise. The types of the tensors are those that llama.cpp's quantizer chooses for the
mix. Blocks are random bytes with scales that keep all values near 1 / sqrt(row length), so that every
activation stays finite. The vocabulary has the model's size; its tokens are all single bytes, then
pairs and triples of bytes.

  make_model.py --shape Qwen2.5-1.5B --mix Q4_K_M model.gguf
"""

import argparse
import dataclasses
import math
import random
import struct
import sys

import gguf


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str
    pre_tokenizer: str
    layers: int
    width: int
    mlp: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool
    context: int
    rope_base: float
    epsilon: float
    rope_factor: float = 0.0  # of llama 3's scaling; 0: none

    @property
    def head_size(self):
        return self.width // self.heads

    @property
    def biases(self):
        return self.architecture == "qwen2"


def qwen(layers, width, mlp, heads, kv_heads):
    return Shape("qwen2", "qwen2", layers, width, mlp, heads, kv_heads, 151936, True, 32768, 1e6,
                 1e-6)


def llama(layers, width, mlp, heads, kv_heads, tied, rope_factor):
    return Shape("llama", "llama-bpe", layers, width, mlp, heads, kv_heads, 128256, tied, 131072,
                 5e5, 1e-5, rope_factor)


SHAPES = {
    "Qwen2.5-0.5B": qwen(24, 896, 4864, 14, 2),
    "Qwen2.5-1.5B": qwen(28, 1536, 8960, 12, 2),
    "Llama-3.2-1B": llama(16, 2048, 8192, 32, 8, True, 32.0),
    "Llama-3.1-8B": llama(32, 4096, 14336, 32, 8, False, 8.0),
    "tiny": Shape("llama", "llama-bpe", 9, 256, 768, 4, 2, 600, False, 4096, 5e5, 1e-5, 8.0),
    "tiny-tied": Shape("qwen2", "qwen2", 8, 96, 256, 3, 1, 600, True, 4096, 1e6, 1e-6),
}

MIXES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_S", "Q3_K_M",
         "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS"]

# --- types: llama_tensor_get_type in llama.cpp's src/llama-quant.cpp ------------------------------

BASE = {"Q3_K_S": "Q3_K", "Q3_K_M": "Q3_K", "Q4_K_S": "Q4_K", "Q4_K_M": "Q4_K", "Q5_K_S": "Q5_K",
        "Q5_K_M": "Q5_K"}
FALLBACK = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
            "IQ4_XS": "IQ4_NL"}


def has_more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def attn_v_type(mix, layer, shape):
    grouped = shape.heads // shape.kv_heads >= 4
    if mix in ("Q4_K_M", "Q5_K_M") and has_more_bits(layer, shape.layers):
        return "Q6_K"
    if mix == "Q2_K":
        return "Q4_K" if grouped else "Q3_K"
    if mix == "Q3_K_M":
        return "Q5_K" if layer < 2 else "Q4_K"
    if mix == "Q4_K_S" and layer < 4:
        return "Q5_K"
    if mix in ("IQ4_NL", "IQ4_XS") and grouped:
        return "Q5_K"
    return None


def ffn_down_type(mix, layer, shape):
    if mix in ("Q4_K_M", "Q5_K_M") and has_more_bits(layer, shape.layers):
        return "Q6_K"
    if mix == "Q2_K":
        return "Q3_K"
    if mix == "Q3_K_M":
        return "Q5_K" if layer < shape.layers // 16 else "Q4_K"
    if mix in ("Q4_K_S", "IQ4_NL", "IQ4_XS") and layer < shape.layers // 8:
        return "Q5_K"
    return None


def matrix_type(mix, part, layer, row, shape):
    """The type of a matrix with rows of `row` elements; `part` is its name inside the layer."""
    kind = BASE.get(mix, mix)
    if kind in ("F16", "BF16"):
        return kind
    if part == "output" or (part == "token_embd" and shape.tied):
        if row % gguf.TYPES[kind][1] != 0:
            kind = "Q8_0"
        elif kind != "Q8_0":
            kind = "Q6_K"
    elif part == "attn_v":
        kind = attn_v_type(mix, layer, shape) or kind
    elif part == "ffn_down":
        kind = ffn_down_type(mix, layer, shape) or kind
    elif part == "attn_output":
        kind = {"Q2_K": "Q3_K", "Q3_K_M": "Q4_K"}.get(mix, kind)
    return kind if row % gguf.TYPES[kind][1] == 0 else FALLBACK[kind]


# --- contents ------------------------------------------------------------------------------------

# Of a block of random bits: where its scale lies, its standard deviation in units of the scale, and
# where a second scale lies that shifts the values, with the multiple of the first that centres them.
BLOCKS = {
    "Q4_0": (0, 4.6, None), "Q4_1": (0, 4.6, (2, -7.5)), "Q5_0": (0, 9.2, None),
    "Q5_1": (0, 9.2, (2, -15.5)), "Q8_0": (0, 74.0, None), "Q2_K": (80, 12.0, (82, 1.5)),
    "Q3_K": (108, 42.0, None), "Q4_K": (0, 215.0, (2, 7.5)), "Q5_K": (0, 430.0, (2, 15.5)),
    "Q6_K": (208, 163.0, None), "IQ4_NL": (0, 76.0, None), "IQ4_XS": (0, 1400.0, None),
}
SMALLEST_NORMAL_HALF = 2.0 ** -14
CHUNK = 4 << 20
NIBBLE = bytes(byte & 15 for byte in range(256))
HALF_SIGNS = bytes((byte & 0x80) | 0x20 | (byte & 7) for byte in range(256))  # 2^-7 ... 2^-5
BRAIN_SIGNS = bytes((byte & 0x80) | 0x3C for byte in range(256))              # 2^-7 ... 2^-5


def high_byte(value):
    return struct.pack("<e", value)[1:]


def random_rows(kind, size, row, source):
    """Yields `size` bytes of blocks; of each scale the high byte is set, the low one is random."""
    block = gguf.TYPES[kind][2]
    for begin in range(0, size, CHUNK // block * block):
        data = bytearray(source.randbytes(min(CHUNK // block * block, size - begin)))
        blocks = len(data) // block
        if kind in ("F16", "BF16"):
            data[1::2] = data[1::2].translate(HALF_SIGNS if kind == "F16" else BRAIN_SIGNS)
        else:
            at, deviation, shift = BLOCKS[kind]
            scale = max(1 / math.sqrt(row) / deviation, SMALLEST_NORMAL_HALF)
            data[at + 1::block] = high_byte(scale) * blocks
            if shift:
                data[shift[0] + 1::block] = high_byte(scale * shift[1]) * blocks
        if kind == "Q6_K":  # signed scales of 16 elements
            for i in range(192, 208):
                data[i::block] = data[i::block].translate(NIBBLE)
        yield data


def floats(values):
    return lambda: [struct.pack(f"<{len(values)}f", *values)]


def rope_factors(shape):
    """What llama 3 divides the frequencies by: 1 for the fast ones, the factor for the slow ones."""
    original, low, high = 8192, 1.0, 4.0
    factors = []
    for i in range(0, shape.head_size, 2):
        wavelength = 2 * math.pi * shape.rope_base ** (i / shape.head_size)
        smooth = (original / wavelength - low) / (high - low)
        smooth = min(max(smooth, 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / shape.rope_factor + smooth))
    return factors


def tensors_of(shape, mix, source):
    tensors = []

    def vector(name, values):
        tensors.append((name, [len(values)], "F32", floats(values)))

    def matrix(name, rows, row, part, layer=0):
        kind = matrix_type(mix, part, layer, row, shape)
        size = gguf.tensor_bytes(kind, [row, rows])
        tensors.append((name, [row, rows], kind, lambda: random_rows(kind, size, row, source)))

    width, kv = shape.width, shape.kv_heads * shape.head_size
    matrix("token_embd.weight", shape.vocabulary, width, "token_embd")
    if shape.rope_factor:
        vector("rope_freqs.weight", rope_factors(shape))
    for layer in range(shape.layers):
        vector(f"blk.{layer}.attn_norm.weight", [1.0] * width)
        for part, rows, row in [("attn_q", width, width), ("attn_k", kv, width),
                                ("attn_v", kv, width), ("attn_output", width, width),
                                ("ffn_gate", shape.mlp, width), ("ffn_up", shape.mlp, width),
                                ("ffn_down", width, shape.mlp)]:
            matrix(f"blk.{layer}.{part}.weight", rows, row, part, layer)
            if shape.biases and part in ("attn_q", "attn_k", "attn_v"):
                vector(f"blk.{layer}.{part}.bias", [source.gauss(0, 0.1) for _ in range(rows)])
        vector(f"blk.{layer}.ffn_norm.weight", [1.0] * width)
    vector("output_norm.weight", [1.0] * width)
    if not shape.tied:
        matrix("output.weight", shape.vocabulary, width, "output")
    return tensors


# --- metadata ------------------------------------------------------------------------------------

def byte_characters():
    """GPT-2's printable character for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def vocabulary_of(size):
    """Tokens, their types and the merges: all bytes, pairs and triples as far as the size goes, and
    two control tokens at the end."""
    characters = byte_characters()
    tokens, merges = list(characters), []
    normal = size - 2
    begin = 0
    while len(tokens) < normal:
        end = len(tokens)
        for left in tokens[begin:end]:
            for right in characters[:normal - len(tokens)]:
                tokens.append(left + right)
                merges.append(f"{left} {right}")
        begin = end
    tokens += ["<|begin|>", "<|end|>"]
    return tokens, [1] * normal + [3, 3], merges


def metadata_of(name, shape, mix):
    tokens, kinds, merges = vocabulary_of(shape.vocabulary)
    prefix = shape.architecture
    return {
        "general.architecture": prefix,
        "general.name": f"{name} (random weights)",
        "general.file_type": gguf.FILE_TYPES[mix],
        "general.quantization_version": 2,
        f"{prefix}.block_count": shape.layers,
        f"{prefix}.context_length": shape.context,
        f"{prefix}.embedding_length": shape.width,
        f"{prefix}.feed_forward_length": shape.mlp,
        f"{prefix}.attention.head_count": shape.heads,
        f"{prefix}.attention.head_count_kv": shape.kv_heads,
        f"{prefix}.attention.layer_norm_rms_epsilon": shape.epsilon,
        f"{prefix}.rope.freq_base": shape.rope_base,
        f"{prefix}.rope.dimension_count": shape.head_size,
        f"{prefix}.vocab_size": shape.vocabulary,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": shape.pre_tokenizer,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": shape.vocabulary - 2,
        "tokenizer.ggml.eos_token_id": shape.vocabulary - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def make(path, name, mix, seed=1):
    shape = SHAPES[name]
    gguf.write(path, metadata_of(name, shape, mix), tensors_of(shape, mix, random.Random(seed)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", required=True, choices=SHAPES)
    parser.add_argument("--mix", required=True, choices=MIXES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("output", help="GGUF file to write")
    arguments = parser.parse_args()
    make(arguments.output, arguments.shape, arguments.mix, arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
