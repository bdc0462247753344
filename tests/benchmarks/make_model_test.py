"""Models of make_model.py: quire opens and computes every mix, and their sizes and types are those of
the real files.

usage: make_model_test.py <benchmarks folder> <generate program> <end_to_end program>
"""

import collections
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

BENCHMARKS, GENERATE, END_TO_END = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path.insert(0, BENCHMARKS)
import gguf  # noqa: E402
import make_model  # noqa: E402


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120,
                          check=False)


class MakeModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make(self, shape, mix):
        path = os.path.join(self.folder.name, f"{shape}.{mix}.gguf")
        done = run(sys.executable, "-B", os.path.join(BENCHMARKS, "make_model.py"), "--shape", shape,
                   "--mix", mix, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_every_mix_computes_finite_numbers(self):
        for shape in ["tiny", "tiny-tied"]:
            for mix in make_model.MIXES:
                with self.subTest(shape=shape, mix=mix):
                    done = run(GENERATE, "--model", self.make(shape, mix), "--tokens", "5,6,7,300",
                               "--max-tokens", 4, "--logprobs", 1, "--temperature", 0, "--json")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    values = [token["logprob"] for choice in json.loads(done.stdout)["choices"]
                              for token in choice["logprobs"]]
                    self.assertGreater(len(values), 0)
                    for value in values:
                        self.assertTrue(math.isfinite(value) and value <= 0, values)

    def test_header_is_read_back(self):
        header = gguf.Header(self.make("tiny", "Q4_K_M"))
        self.assertEqual(header.weights, "Q4_K_M")
        self.assertEqual(header.metadata["llama.embedding_length"], 256)
        self.assertEqual(header.metadata["tokenizer.ggml.tokens"], 600)
        kinds = {name: kind for name, _, kind in header.tensors}
        self.assertEqual(kinds["output.weight"], "Q6_K")
        self.assertEqual(kinds["token_embd.weight"], "Q4_K")
        # Of nine layers the first eighth, the last, and every third between.
        self.assertEqual([kinds[f"blk.{i}.attn_v.weight"] for i in range(9)],
                         ["Q6_K" if i in (0, 3, 6, 7, 8) else "Q4_K" for i in range(9)])
        head = gguf.tensor_bytes("Q4_K", [256, 600])
        self.assertEqual(header.bytes_per_token(), sum(
            gguf.tensor_bytes(kind, dims) for _, dims, kind in header.tensors) - head)

    def test_narrow_rows_fall_back(self):
        kinds = collections.Counter(kind for _, dims, kind in gguf.Header(
            self.make("tiny-tied", "Q4_K_M")).tensors if len(dims) == 2)
        # 96 columns hold no K-quant; ffn_down has 256.
        self.assertEqual(set(kinds), {"Q5_0", "Q8_0", "Q4_K", "Q6_K"})

    def test_bytes_of_known_files(self):
        # Weights of published files: Qwen2.5-1.5B-Instruct and Meta-Llama-3.1-8B-Instruct, Q4_K_M.
        for shape, mix, gigabytes in [("Qwen2.5-1.5B", "Q4_K_M", 0.980), ("Llama-3.1-8B", "Q4_K_M", 4.913)]:
            tensors = make_model.tensors_of(make_model.SHAPES[shape], mix, make_model.random.Random(1))
            size = sum(gguf.tensor_bytes(kind, dims) for _, dims, kind, _ in tensors)
            self.assertAlmostEqual(size / 1e9, gigabytes, delta=0.01)

    def test_separate_phases_of_end_to_end(self):
        done = run(END_TO_END, "--model", self.make("tiny", "Q8_0"), "--separate", "--prompt-tokens",
                   "40,48", "--gen-tokens", 6, "--concurrency", "1,5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        runs = json.loads(done.stdout)["runs"]
        self.assertEqual([(r["prompt_tokens"], r["concurrency"]) for r in runs],
                         [(40, 1), (40, 5), (48, 1), (48, 5)])
        for one in runs:
            self.assertEqual(one["context"], one["prompt_tokens"])
            self.assertGreater(one["prefill_tokens_per_s"], 0)
            self.assertGreater(one["decode_tokens_per_s"], 0)

    def test_unknown_names_are_refused(self):
        for shape, mix in [("Qwen9", "Q8_0"), ("tiny", "Q9")]:
            done = run(sys.executable, "-B", os.path.join(BENCHMARKS, "make_model.py"), "--shape", shape,
                       "--mix", mix, os.path.join(self.folder.name, "x.gguf"))
            self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
