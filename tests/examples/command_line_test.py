"""The command lines of the example programs: exit codes, what goes to stdout and to stderr, the shape
of the JSON, and answers of the tiny models against their reference.

usage: command_line_test.py <folder of the examples> <end_to_end program> <tests/data> [unittest options]
"""

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BIN, END_TO_END, DATA = sys.argv[1:4]
TINY = os.path.join(DATA, "tiny")
LLAMA = os.path.join(TINY, "llama", "model.gguf")
PROGRAMS = ["generate", "tokenize", "batch", "chat", "game_loop", "end_to_end"]
EXACT = ["--compute", "f32", "--kv-type", "f32"]


def path_of(program):
    return END_TO_END if program == "end_to_end" else os.path.join(BIN, program)


def run(program, *arguments, stdin=b""):
    return subprocess.run([path_of(program), *map(str, arguments)], input=stdin, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def expected(model):
    with open(os.path.join(TINY, model, "expected.json")) as file:
        return json.load(file)


class CommandLineTest(unittest.TestCase):
    def succeed(self, program, *arguments, stdin=b""):
        done = run(program, *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        self.assertEqual(done.stderr, b"", "a pipe gets no progress and no log")
        return done.stdout

    def generate(self, *arguments, model=LLAMA):
        return json.loads(self.succeed("generate", "--model", model, *arguments, "--json"))

    def fail_with(self, exit_code, program, *arguments, naming="", stdin=b""):
        done = run(program, *arguments, stdin=stdin)
        self.assertEqual(done.returncode, exit_code, (arguments, done.stderr))
        message = done.stderr.decode()
        self.assertRegex(message, r"\A%s: [^\n]+\n\Z" % program)
        self.assertIn(naming, message)
        return message


def run_on_terminal(program, *arguments, stdin=b""):
    """Exit code, standard output, and what a terminal as standard error was sent."""
    terminal, other_end = os.openpty()
    try:
        process = subprocess.Popen([path_of(program), *map(str, arguments)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=other_end)
        sent = []

        def read():
            while True:
                try:
                    block = os.read(terminal, 1 << 16)
                except OSError:  # the other end is closed
                    return
                sent.append(block)

        reader = threading.Thread(target=read)
        reader.start()
        output = process.communicate(stdin, timeout=120)[0]
    finally:
        os.close(other_end)
    reader.join()
    os.close(terminal)
    return process.returncode, output, b"".join(sent).decode()


class Progress(CommandLineTest):
    """Long work shows progress on a terminal; `succeed` checks everywhere that a pipe gets none."""

    def check_bar(self, title, program, *arguments, stdin=b""):
        code, output, shown = run_on_terminal(program, "--model", LLAMA, *arguments, stdin=stdin)
        self.assertEqual(code, 0, shown)
        self.assertRegex(shown, r"loading \[#{30}\] 100%")
        self.assertRegex(shown, re.escape(title) + r" \[#*\.*\] ")
        self.assertTrue(shown.endswith("\r\x1b[K"), "the bar is wiped out at the end")
        return output, shown

    def test_generate(self):
        self.check_bar("answering", "generate", "--tokens", "5,6,7", "--max-tokens", 20, "--json")
        self.check_bar("answering", "generate", "--tokens", "5,6,7", "--max-tokens", 4, "--n", 2)
        # A streamed answer takes the place of the bar.
        output, shown = self.check_bar("answering", "generate", "--tokens", ",".join(["5"] * 100),
                                       "--max-step-tokens", 20, "--max-tokens", 8, "--seed", 1)
        self.assertNotIn(output.decode().strip()[:3], shown)

    def test_batch_of_more_than_the_queue_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            with open(source, "w") as file:
                for i in range(4096):
                    file.write('{"tokens": [%3d], "max_tokens": 1}\n' % (i % 300))
            _, shown = self.check_bar("answering", "batch", "--input", source, "--output", target)
        # Half done, half filled: though only 1024 requests are under way at once.
        bars = {int(done): bar for bar, done in re.findall(r"answering \[(#*)\.*\] (\d+) done", shown)}
        middle = min(bars, key=lambda done: abs(done - 2048))
        self.assertAlmostEqual(len(bars[middle]), 30 * middle / 4096, delta=2)

    def test_loops(self):
        self.check_bar("playing", "game_loop", "--seconds", 1, "--prompt-tokens", 100)
        self.check_bar("measuring", "end_to_end", "--prompt-tokens", 16, "--gen-tokens", 2, "--concurrency",
                       "1,2", "--json")

    def test_an_error_does_not_share_a_line_with_the_bar(self):
        requests = b'{"tokens": [5], "max_tokens": 4}\n' * 20
        code, _, shown = run_on_terminal("batch", "--model", LLAMA, "--input", "-", "--output",
                                         "/dev/full", stdin=requests)
        self.assertEqual(code, 1)
        self.assertRegex(shown, r"\r\x1b\[Kbatch: [^\r\n]+\r\n\Z")


class Help(CommandLineTest):
    def test_help_goes_to_stdout(self):
        for program in PROGRAMS:
            text = self.succeed(program, "--help").decode()
            self.assertIn("usage: " + program, text)
            self.assertIn("--model", text)

    def test_help_tells_the_defaults_of_sampling(self):
        for program in ["generate", "chat", "batch"]:
            text = self.succeed(program, "--help").decode()
            for option, default in [("--temperature", "[model's, else 1]"), ("--top-k", "[model's, else 0]"),
                                    ("--top-p", "[model's, else 1]"), ("--min-p", "[model's, else 0]"),
                                    ("--seed", "[drawn anew each time]"),
                                    ("--max-tokens", "[what the context leaves]")]:
                self.assertRegex(text, r"%s [^\n]*%s" % (option, re.escape(default)))


class BadCommandLines(CommandLineTest):
    def test_unknown_option_is_named(self):
        for program in PROGRAMS:
            self.fail_with(2, program, "--model", LLAMA, "--bogus", "1", naming="--bogus")

    def test_stray_argument_is_named(self):
        self.fail_with(2, "generate", LLAMA, naming=LLAMA)

    def test_missing_model(self):
        for program in PROGRAMS:
            self.fail_with(2, program, naming="--model")

    def test_missing_value(self):
        self.fail_with(2, "generate", "--model", LLAMA, "--prompt", naming="--prompt")

    def test_numbers_are_strict(self):
        for option, value in [("--max-tokens", "12x"), ("--max-tokens", ""), ("--max-tokens", " 1"),
                              ("--max-tokens", "99999999999"), ("--temperature", "hot"),
                              ("--temperature", "nan"), ("--temperature", "inf"), ("--seed", "-1"),
                              ("--kv-bytes", "1GiB"), ("--kv-type", "f8"), ("--compute", "f16"),
                              ("--prefix-cache", "yes"), ("--tokens", "1,,2"), ("--tokens", "1,2,"),
                              ("--tokens", "")]:
            prompt = [] if option == "--tokens" else ["--prompt", "x"]
            self.fail_with(2, "generate", "--model", LLAMA, *prompt, option, value, naming=option)

    def test_exactly_one_prompt(self):
        self.fail_with(2, "generate", "--model", LLAMA, naming="--prompt")
        self.fail_with(2, "generate", "--model", LLAMA, "--prompt", "x", "--tokens", "1")

    def test_options_that_would_be_ignored(self):
        for options, naming in [
                (["--messages", "m.json", "--raw"], "--raw"),
                (["--prompt", "x", "--parse-special", "1"], "--parse-special"),
                (["--tokens", "1", "--raw", "--parse-special", "0"], "--parse-special"),
                (["--prompt", "x", "--logprobs", "1"], "--json"),
                (["--prompt", "x", "--prompt-logprobs", "1"], "--json")]:
            self.fail_with(2, "generate", "--model", LLAMA, *options, naming=naming)
        # Ids are taken as they are, so --raw says nothing new.
        with_raw = self.generate("--tokens", "5,6,7", "--raw", "--max-tokens", 2, "--seed", 1)
        without = self.generate("--tokens", "5,6,7", "--max-tokens", 2, "--seed", 1)
        self.assertEqual(with_raw["choices"], without["choices"])
        self.fail_with(2, "tokenize", "--model", LLAMA, "--bos", "b", naming="--template-file")
        for options in [["--now", "2025-03-09T08:05:07"], ["--add-generation-prompt", "0"]]:
            self.fail_with(2, "tokenize", "--model", LLAMA, *options, naming=options[0])

    def test_tokenize_modes_exclude_one_another(self):
        self.fail_with(2, "tokenize", "--model", LLAMA, "--decode", "--decode-stream")
        self.fail_with(2, "tokenize", "--model", LLAMA, "--template", naming="--messages")
        self.fail_with(2, "tokenize", "--template", "--template-file", "t", "--messages", "m",
                       "--now", "2025-02-30T00:00:00", naming="--now")


class Failures(CommandLineTest):
    def test_missing_files_are_named(self):
        for program in ["generate", "chat", "game_loop", "end_to_end"]:
            prompt = ["--prompt", "x"] if program == "generate" else []
            self.fail_with(1, program, "--model", "no/such.gguf", *prompt, naming="no/such.gguf")
        self.fail_with(1, "tokenize", "--model", "no/such.gguf", naming="no/such.gguf")
        self.fail_with(1, "generate", "--model", LLAMA, "--prompt-file", "no/such.txt",
                       naming="no/such.txt")
        self.fail_with(1, "generate", "--model", LLAMA, "--messages", "no/such.json",
                       naming="no/such.json")
        self.fail_with(1, "batch", "--model", LLAMA, "--input", "no/such.jsonl", "--output", "-",
                       naming="no/such.jsonl")

    def test_broken_messages_name_their_file(self):
        with tempfile.TemporaryDirectory() as folder:
            messages = os.path.join(folder, "messages.json")
            for text, naming in [('[\n  {"role": "user" "content"}\n]', "line 2, column 27: "),
                                 ('"hello"', "messages"), ('{"messages": 5}', "messages"),
                                 ("", "line 1, column 1: ")]:
                with open(messages, "w") as file:
                    file.write(text)
                for program in [["generate"], ["tokenize", "--template"]]:
                    message = self.fail_with(1, *program, "--model", LLAMA, "--messages", messages,
                                             naming=messages)
                    self.assertIn(naming, message)

    def test_device_that_is_not_there(self):
        for program, options in [("generate", ["--prompt", "x"]), ("chat", []), ("game_loop", []),
                                 ("end_to_end", []), ("batch", ["--input", "-", "--output", "-"])]:
            message = self.fail_with(1, program, "--model", LLAMA, *options, "--device", "cuda:99",
                                     naming="cuda:99")
            self.assertEqual(message.count("\n"), 1)
            self.fail_with(1, program, "--model", LLAMA, *options, "--device", "gpu", naming="cpu:scalar")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_output_that_takes_nothing(self):
        for program, options, stdin in [
                ("generate", ["--prompt", "x", "--max-tokens", "2"], b""), ("tokenize", [], b"x"),
                ("batch", ["--input", "-", "--output", "-"], b'{"tokens": [5], "max_tokens": 1}'),
                ("chat", ["--max-tokens", "2"], b"x\n" * 3)]:
            with open("/dev/full", "wb") as full:
                done = subprocess.run([path_of(program), "--model", LLAMA, *options], input=stdin,
                                      stdout=full, stderr=subprocess.PIPE, timeout=120)
            self.assertEqual(done.returncode, 1, program)
            self.assertRegex(done.stderr.decode(), r"\A%s: standard output: [^\n]+\n\Z" % program)

    def test_malformed_models(self):
        with open(os.path.join(TINY, "malformed", "manifest.json")) as file:
            cases = json.load(file)
        for case in cases:
            model = os.path.join(TINY, "malformed", case["file"])
            done = run("generate", "--model", model, "--tokens", "5,6,7", "--max-tokens", 2)
            self.assertIn(done.returncode, [0, 1], case)
            if case["expect"] == "load_error":
                self.assertEqual(done.returncode, 1, case)
            if done.returncode == 1:
                self.assertRegex(done.stderr.decode(), r"\Agenerate: [^\n]+\n\Z")

    def test_refused_requests(self):
        for option, value in [("--temperature", -1), ("--top-p", 0), ("--top-p", 1.5), ("--top-k", -1),
                              ("--min-p", 2), ("--n", 0), ("--n", 65), ("--max-tokens", -1),
                              ("--tokens", "100000"), ("--tokens", "-1")]:
            prompt = [] if option == "--tokens" else ["--tokens", "1"]
            self.fail_with(1, "generate", "--model", LLAMA, *prompt, option, value)

    def test_prompt_beyond_the_context_gives_both_numbers(self):
        message = self.fail_with(1, "generate", "--model", LLAMA, "--tokens", ",".join(["5"] * 600))
        self.assertIn("600", message)
        self.assertIn("512", message)

    def test_kv_bytes_too_small(self):
        self.fail_with(1, "generate", "--model", LLAMA, "--tokens", "5", "--kv-bytes", "64")

    def test_output_that_cannot_be_written(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([path_of("generate"), "--model", LLAMA, "--tokens", "5",
                                   "--max-tokens", "4", "--json"], stdout=full,
                                  stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)

    def test_no_chat_template(self):
        model = os.path.join(TINY, "malformed", "good.gguf")
        self.fail_with(1, "generate", "--model", model, "--prompt", "x", naming="--raw")


class Generate(CommandLineTest):
    def test_greedy_tokens_of_the_reference(self):
        for model in ["llama", "qwen3", "gemma3"]:
            for prompt in expected(model)["prompts"]:
                result = self.generate("--tokens", ",".join(map(str, prompt["ids"])), "--temperature", 0,
                                       "--max-tokens", 24, "--ignore-eos", *EXACT,
                                       model=os.path.join(TINY, model))
                self.assertEqual(result["prompt_tokens"], prompt["ids"])
                self.assertEqual(result["choices"][0]["tokens"], prompt["greedy"])

    def test_shape_of_the_json(self):
        result = self.generate("--tokens", "5,6,7", "--max-tokens", 4, "--ignore-eos")
        self.assertEqual(result["prompt_tokens"], [5, 6, 7])
        choice, = result["choices"]
        self.assertEqual(len(choice["tokens"]), 4)
        self.assertIsInstance(choice["text"], str)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertIsNone(choice["logprobs"])
        self.assertIsNone(result["prompt_logprobs"])
        self.assertEqual(result["usage"],
                         {"prompt_tokens": 3, "cached_tokens": 0, "completion_tokens": 4})
        for name in ["load_s", "prefill_s", "decode_s", "ttft_s"]:
            self.assertGreaterEqual(result["timings"][name], 0)

    def test_logprobs_of_the_whole_vocabulary(self):
        result = self.generate("--tokens", "5,6,7", "--max-tokens", 2, "--ignore-eos",
                               "--temperature", 0, "--logprobs", 320, "--prompt-logprobs", 2, *EXACT)
        prompt = result["prompt_logprobs"]
        self.assertEqual([entry["id"] for entry in prompt], [5, 6, 7])
        self.assertIsNone(prompt[0]["logprob"])
        self.assertEqual([len(entry["top"]) for entry in prompt[1:]], [2, 2])
        choice = result["choices"][0]
        self.assertEqual([entry["id"] for entry in choice["logprobs"]], choice["tokens"])
        for entry in choice["logprobs"]:
            values = [logprob for _, logprob in entry["top"]]
            self.assertEqual(len(values), 320)
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertAlmostEqual(sum(map(math.exp, values)), 1, places=4)
            self.assertEqual(entry["top"][0], [entry["id"], entry["logprob"]])

    def test_max_tokens_0(self):
        result = self.generate("--tokens", "5,6,7", "--max-tokens", 0, "--prompt-logprobs", 0)
        self.assertEqual(result["choices"][0]["tokens"], [])
        self.assertEqual(len(result["prompt_logprobs"]), 3)

    def test_the_same_seed_gives_the_same_tokens(self):
        base = ["--tokens", "5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21", "--max-tokens", 16,
                "--seed", 7, "--ignore-eos"]
        first = self.generate(*base)["choices"]
        for variant in [["--threads", 1], ["--page-size", 8], ["--page-size", 128],
                        ["--prefix-cache", 0], ["--max-step-tokens", 20], ["--deterministic"]]:
            self.assertEqual(self.generate(*base, *variant)["choices"], first, variant)
        self.assertNotEqual(self.generate(*base, "--seed", 8)["choices"], first)

    def test_several_answers(self):
        arguments = ["--tokens", "5,6,7", "--n", 3, "--seed", 1, "--max-tokens", 8, "--ignore-eos"]
        result = self.generate(*arguments)
        answers = [tuple(choice["tokens"]) for choice in result["choices"]]
        self.assertEqual(len(set(answers)), 3)
        self.assertEqual(result["usage"]["completion_tokens"], 24)
        text = self.succeed("generate", "--model", LLAMA, *arguments).decode()
        self.assertEqual(text, "".join("--- answer %d (%s)\n%s\n" % (i + 1, c["finish_reason"], c["text"])
                                       for i, c in enumerate(result["choices"])))

    def test_streamed_text_is_the_text_of_the_json(self):
        arguments = ["--prompt", "the cat sat on the mat.", "--seed", 3, "--max-tokens", 40]
        text = self.succeed("generate", "--model", LLAMA, *arguments).decode()
        self.assertEqual(text, self.generate(*arguments)["choices"][0]["text"] + "\n")

    def test_stop_string_is_not_delivered(self):
        arguments = ["--tokens", "5,6,7", "--temperature", 0, "--max-tokens", 24, "--ignore-eos"]
        whole = self.generate(*arguments)["choices"][0]["text"]
        stop = next(whole[i:i + 2] for i in range(4, len(whole)) if whole[i:i + 2].isascii())
        choice = self.generate(*arguments, "--stop", "never there", "--stop", stop)["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(choice["stop_match"], stop)
        self.assertEqual(choice["text"], whole[:whole.index(stop)])

    def test_prompt_goes_through_the_template(self):
        rendered = "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
        raw = self.generate("--prompt", rendered, "--raw", "--parse-special", 1, "--max-tokens", 1)
        with tempfile.TemporaryDirectory() as folder:
            prompt_file = os.path.join(folder, "prompt")
            messages = os.path.join(folder, "messages.json")
            with open(prompt_file, "w") as file:
                file.write("the cat")
            for value in [[{"role": "user", "content": "the cat"}],
                          {"messages": [{"role": "user", "content": "the cat", "name": "x"}], "tools": []}]:
                with open(messages, "w") as file:
                    json.dump(value, file)
                result = self.generate("--messages", messages, "--max-tokens", 1)
                self.assertEqual(result["prompt_tokens"], raw["prompt_tokens"])
                self.assertEqual(result["usage"]["prompt_tokens"], len(raw["prompt_tokens"]))
            for prompt in [["--prompt", "the cat"], ["--prompt-file", prompt_file]]:
                result = self.generate(*prompt, "--max-tokens", 1)
                self.assertEqual(result["prompt_tokens"], raw["prompt_tokens"])

    def test_names_of_special_tokens_in_a_message_are_text(self):
        result = self.generate("--prompt", "<|im_end|>", "--max-tokens", 1)
        self.assertEqual(result["prompt_tokens"].count(315), 1)


class FixedCommandLines(CommandLineTest):
    """Every option that scripts may rely on is there and does what it says."""

    ENGINE = ["--device", "cpu:scalar", "--threads", 1, "--kv-bytes", 1 << 20, "--kv-type", "int8",
              "--compute", "f32", "--page-size", 8, "--prefix-cache", 0, "--max-step-tokens", 64,
              "--deterministic"]
    SAMPLING = ["--temperature", 0.8, "--top-k", 20, "--top-p", 0.9, "--min-p", 0.01, "--seed", 5]

    def test_generate(self):
        result = self.generate("--tokens", "5,6,7", *self.ENGINE, *self.SAMPLING, "--max-tokens", 6, "--stop",
                               "never there", "--stop", "nor this", "--n", 2, "--ignore-eos", "--logprobs", 3,
                               "--prompt-logprobs", 1)
        self.assertEqual(list(map(len, [choice["tokens"] for choice in result["choices"]])), [6, 6])
        for choice in result["choices"]:
            self.assertEqual([len(entry["top"]) for entry in choice["logprobs"]], [3] * 6)
            for entry in choice["logprobs"]:
                self.assertEqual(sorted(entry), ["id", "logprob", "top"])
        self.assertEqual([len(entry["top"]) for entry in result["prompt_logprobs"]], [0, 1, 1])

    def test_words_of_options(self):
        for option, words in [("--kv-type", ["f32", "f16", "bf16", "int8"]), ("--compute", ["auto", "f32"]),
                              ("--page-size", [8, 16, 32, 64, 128]), ("--prefix-cache", [0, 1])]:
            for word in words:
                result = self.generate("--tokens", "5,6,7", "--max-tokens", 2, "--ignore-eos", option, word)
                self.assertEqual(result["usage"]["completion_tokens"], 2, (option, word))

    def test_filters_choose(self):
        base = ["--tokens", "5,6,7", "--max-tokens", 12, "--ignore-eos"]
        greedy = self.generate(*base, "--temperature", 0)["choices"][0]["tokens"]
        for narrow in [["--top-k", 1], ["--top-p", 1e-6], ["--min-p", 1]]:
            hot = [*base, "--temperature", 2, "--seed", 3]
            self.assertEqual(self.generate(*hot, *narrow)["choices"][0]["tokens"], greedy, narrow)
            self.assertNotEqual(self.generate(*hot)["choices"][0]["tokens"], greedy)

    def test_split_file_and_folder(self):
        sharded = os.path.join(TINY, "llama_sharded")
        for model in [os.path.join(sharded, "model-00001-of-00004.gguf"), sharded]:
            result = self.generate("--tokens", "5,6,7", "--max-tokens", 2, "--ignore-eos", model=model)
            self.assertEqual(result["usage"]["completion_tokens"], 2)

    def test_batch_and_end_to_end(self):
        line = b'{"tokens": [5, 6], "max_tokens": 3, "ignore_eos": true}\n'
        output = self.succeed("batch", "--model", LLAMA, "--input", "-", "--output", "-", *self.ENGINE,
                              *self.SAMPLING, stdin=line)
        self.assertEqual(json.loads(output)["usage"]["completion_tokens"], 3)
        for value in [0.01, -1, "5", True]:  # none is a number of tokens
            line = json.dumps({"tokens": [5], "max_tokens": 1, "top_k": value}).encode()
            output = self.succeed("batch", "--model", LLAMA, "--input", "-", "--output", "-", stdin=line)
            self.assertIn("top_k", json.loads(output)["error"])
        text = self.succeed("end_to_end", "--model", LLAMA, "--device", "cpu", "--threads", 1,
                            "--prompt-tokens", 16, "--gen-tokens", 2, "--concurrency", "1,2",
                            "--shared-prefix", 8).decode()
        self.assertEqual(len(text.splitlines()), 5)


class Tokenize(CommandLineTest):
    def test_reference_ids(self):
        for model in [LLAMA, os.path.join(TINY, "llama")]:
            for case in expected("llama")["tokenizer"]:
                ids = json.loads(self.succeed("tokenize", "--model", model, "--add-special", 0,
                                              "--parse-special", 1, stdin=case["text"].encode()))
                self.assertEqual(ids, case["ids"])

    def test_decode_gives_the_bytes_back(self):
        for text in ["", "the cat\n", "a\0b", "na\u00efve \U0001f642\r\n"]:
            ids = self.succeed("tokenize", "--model", LLAMA, "--add-special", 0, stdin=text.encode())
            self.assertEqual(self.succeed("tokenize", "--model", LLAMA, "--decode", stdin=ids).decode(),
                             text)
            deltas = json.loads(self.succeed("tokenize", "--model", LLAMA, "--decode-stream", stdin=ids))
            self.assertEqual(len(deltas), len(json.loads(ids)) + 1)
            self.assertEqual("".join(deltas), text)

    def test_bytes_that_are_not_utf8(self):
        ids = self.succeed("tokenize", "--model", LLAMA, "--add-special", 0, stdin=b"a\xff\xc3b")
        text = self.succeed("tokenize", "--model", LLAMA, "--decode", stdin=ids).decode()
        self.assertEqual(text, "a\ufffd\ufffdb")

    def test_ids_that_are_none(self):
        for text in [b"{}", b"[1,", b"[-1]", b"[1.5]", b'["a"]', b"[99999999999]", b"[100000]"]:
            self.fail_with(1, "tokenize", "--model", LLAMA, "--decode", stdin=text)

    def test_templates(self):
        template = ("{% for m in messages %}{{ m.content or m.tool_calls[0].id }};{% endfor %}"
                    "{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ extra }}"
                    "{% if add_generation_prompt %}go{% endif %}{{ strftime_now('%d %b %Y %H:%M:%S') }}")
        with tempfile.TemporaryDirectory() as folder:
            template_file = os.path.join(folder, "template")
            messages = os.path.join(folder, "messages.json")
            with open(template_file, "w") as file:
                file.write(template)
            conversation = {"messages": [{"role": "user", "content": "h\u00e9"},
                                         {"role": "assistant", "content": None,
                                          "tool_calls": [{"id": "call"}]}], "extra": 7}
            with open(messages, "w") as file:
                json.dump(conversation, file)
            base = ["--template", "--messages", messages]
            text = self.succeed("tokenize", *base, "--template-file", template_file, "--bos", "<B>",
                                "--eos", "<E>", "--now", "2025-03-09T08:05:07",
                                "--add-generation-prompt", 1).decode()
            self.assertEqual(text, "h\u00e9;call;<B><E>True7go09 Mar 2025 08:05:07")

            with open(messages, "w") as file:
                json.dump([{"role": "user", "content": "hi"}], file)
            start = "<|im_start|>user\nhi<|im_end|>\n"
            self.assertEqual(self.succeed("tokenize", "--model", LLAMA, *base).decode(),
                             start + "<|im_start|>assistant\n")
            self.assertEqual(self.succeed("tokenize", "--model", LLAMA, *base,
                                          "--add-generation-prompt", 0).decode(), start)

    def test_template_that_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            template_file = os.path.join(folder, "template")
            messages = os.path.join(folder, "messages.json")
            with open(template_file, "w") as file:
                file.write("{{ raise_exception('roles must alternate') }}")
            with open(messages, "w") as file:
                file.write("[]")
            self.fail_with(1, "tokenize", "--template", "--messages", messages, "--template-file",
                           template_file, naming="roles must alternate")


class Batch(CommandLineTest):
    def test_results_in_order_with_errors_between(self):
        requests = [json.dumps({"id": "a", "tokens": [5, 6, 7], "max_tokens": 24, "seed": 4,
                                "ignore_eos": True}),
                    "not json", "",
                    json.dumps({"id": 2, "prompt": "the cat", "max_tokens": 3, "seed": 1}),
                    json.dumps({"id": 3, "prompt": "the cat", "max_tokens": "many"}),
                    json.dumps({"id": 4, "tokens": [5], "temprature": 1}),
                    json.dumps({"id": 5, "tokens": [1000000]}),
                    json.dumps({"id": 6, "messages": [{"role": "user", "content": "the cat"}],
                                "max_tokens": 3, "seed": 1, "n": 2, "logprobs": 1})]
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            with open(source, "w") as file:
                file.write("\n".join(requests))
            self.assertEqual(self.succeed("batch", "--model", LLAMA, "--input", source, "--output",
                                          target), b"")
            with open(target) as file:
                results = [json.loads(line) for line in file]
        self.assertEqual([result.get("id") for result in results], ["a", None, 2, 3, 4, 5, 6])
        self.assertEqual(["error" in result for result in results],
                         [False, True, False, True, True, True, False])
        self.assertIn("max_tokens", results[3]["error"])
        self.assertIn("temprature", results[4]["error"])
        alone = self.generate("--tokens", "5,6,7", "--max-tokens", 24, "--seed", 4, "--ignore-eos")
        self.assertEqual(results[0]["choices"], alone["choices"])
        alone = self.generate("--prompt", "the cat", "--max-tokens", 3, "--seed", 1)
        self.assertEqual(results[2]["choices"], alone["choices"])
        self.assertEqual(len(results[6]["choices"]), 2)

    def test_error_names_the_line_of_the_file(self):
        lines = b'{"tokens": [5], "max_tokens": 1}\n\n{"tokens": oops}\n'
        output = self.succeed("batch", "--model", LLAMA, "--input", "-", "--output", "-", stdin=lines)
        self.assertIn("line 3, column 12: ", json.loads(output.splitlines()[1])["error"])

    def answer(self, *lines):
        output = self.succeed("batch", "--model", LLAMA, "--input", "-", "--output", "-", *EXACT,
                              stdin=b"".join(line + b"\n" for line in lines))
        return [json.loads(line) for line in output.splitlines()]

    def test_logit_bias_in_both_forms(self):
        results = self.answer(*(b'{"tokens": [5], "max_tokens": 2, "ignore_eos": true, "logit_bias": %s}' % bias
                                for bias in [b'{"7": 1000}', b"[[7, 1000]]", b"[[7, 1e3], [8, -1]]",
                                             b"[7, 1000]", b"[[7]]", b'{"x": 1000}', b'{"7": "1000"}']))
        self.assertEqual([result["choices"][0]["tokens"] for result in results[:3]], [[7, 7]] * 3)
        for result in results[3:]:
            self.assertIn("logit_bias", result["error"])

    def test_integers_are_those_of_the_field_and_nothing_near(self):
        base = b'{"tokens": [5], "max_tokens": 1, %s}'
        good = self.answer(*(base % field for field in [
            b'"seed": 18446744073709551615', b'"top_k": 2147483647', b'"top_k": null, "seed": 0']))
        self.assertEqual([result["seed"] for result in good][::2], [18446744073709551615, 0])
        for result in self.answer(*(base % field for field in [
                b'"seed": 18446744073709551616', b'"seed": -1', b'"seed": 1.0', b'"top_k": 2147483648',
                b'"top_k": 18446744073709551615', b'"top_k": -2147483649', b'"top_k": 1.0'])):
            self.assertIn("is of the wrong type", result["error"])

    def test_an_id_comes_back_as_it_is(self):
        ids = [b'{"z":[1,-2,2.5,1e+300,null,true],"a":{}}', b'["x","y"]', b'[["x","y"]]', b"[[]]", b"null",
               b"18446744073709551615", b"-9223372036854775808", b"0.1", b"1.0", b'"\\u0000\\"\xc3\xa9"',
               b"[" * 200 + b"]" * 200]
        lines = [b'{"id": %s, "tokens": [5], "max_tokens": 0, "seed": 1}\n' % value for value in ids]
        output = self.succeed("batch", "--model", LLAMA, "--input", "-", "--output", "-",
                              stdin=b"".join(lines))
        for value, line in zip(ids, output.splitlines(), strict=True):
            self.assertTrue(line.startswith(b'{"id":%s,"choices":[{' % value), line)

    def test_text_that_is_no_request(self):
        for line, error in [(b'{"id": %s, "tokens": [5]}' % (b"[" * 201 + b"]" * 201), "200 levels"),
                            (b"[" * 5000, "200 levels"), (b'{"id": "\xff"}', "UTF-8"),
                            (b'{"id": "\\ud800"}', "line 1, column 15: "), (b'{"id": 1e999}', "1e999"),
                            (b"[]", "object"), (b"null", "object"), (b'"id"', "object")]:
            result, = self.answer(line)
            self.assertEqual(list(result), ["error"])
            self.assertIn(error, result["error"])

    def test_model_without_template_says_what_helps(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.gguf")
            with open(LLAMA, "rb") as file:
                content = file.read()
            self.assertEqual(content.count(b"tokenizer.chat_template"), 1)
            with open(model, "wb") as file:
                file.write(content.replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX"))
            requests = b'{"prompt": "x", "max_tokens": 1}\n{"prompt": "x", "max_tokens": 1, "raw": true}\n'
            base = ["batch", "--model", model, "--input", "-", "--output", "-"]
            chat, raw = map(json.loads, self.succeed(*base, stdin=requests).splitlines())
            self.assertIn("--raw", chat["error"])
            self.assertNotIn("error", raw)
            self.fail_with(1, "generate", "--model", model, "--prompt", "x", naming="--raw")
            self.fail_with(1, "chat", "--model", model, naming="--raw")

    def test_input_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            source, link = os.path.join(folder, "in.jsonl"), os.path.join(folder, "link.jsonl")
            with open(source, "w") as file:
                file.write('{"tokens": [5], "max_tokens": 1}\n')
            os.symlink(source, link)
            for target in [source, link]:
                self.fail_with(2, "batch", "--model", LLAMA, "--input", source, "--output", target,
                               naming="--output")
            self.assertEqual(os.path.getsize(source), 33)

    def test_input_that_is_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.fail_with(1, "batch", "--model", LLAMA, "--input", folder, "--output", "-",
                           naming=folder)

    def test_more_requests_than_the_queue_holds(self):
        lines = b"".join(b'{"id": %d, "tokens": [%d], "max_tokens": 1, "ignore_eos": true}\n' % (i, i % 300)
                         for i in range(1100))
        output = self.succeed("batch", "--model", LLAMA, "--input", "-", "--output", "-", stdin=lines)
        results = [json.loads(line) for line in output.splitlines()]
        self.assertEqual([result["id"] for result in results], list(range(1100)))
        self.assertTrue(all(len(result["choices"][0]["tokens"]) == 1 for result in results))


class Chat(CommandLineTest):
    def test_conversation_from_a_pipe(self):
        output = self.succeed("chat", "--model", LLAMA, "--max-tokens", 4, "--seed", 1,
                              stdin=b"the cat\n/clear\nthe cat\n").decode(errors="replace")
        first, second = re.findall(r"\A(.*)\n\(--max-tokens reached\)\n(.*)\n\(--max-tokens reached\)\n\Z",
                                   output, re.DOTALL)[0]
        self.assertEqual(first, second)

    def test_full_context(self):
        output = self.succeed("chat", "--model", LLAMA, "--max-tokens", 4,
                              stdin=b"cat " * 400 + b"\n").decode(errors="replace")
        self.assertIn("/clear", output)

    def start(self, *arguments):
        process = subprocess.Popen([path_of("chat"), "--model", LLAMA, *arguments],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        timer = threading.Timer(60, process.kill)
        timer.start()
        for clean_up in [process.stdin.close, process.stdout.close, process.stderr.close, process.wait,
                         process.kill, timer.cancel]:
            self.addCleanup(clean_up)
        process.stdin.write(b"the cat\n")
        process.stdin.flush()
        return process

    def wait_for(self, process, text):
        while True:
            line = process.stdout.readline()
            self.assertNotEqual(line, b"", "the output ended")
            if text in line:
                return

    def test_ctrl_c_ends_the_answer_and_not_the_program(self):
        for _ in range(20):  # the answer may have ended before the signal comes
            process = self.start("--device", "cpu:scalar", "--compute", "f32")
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            self.assertIsNone(process.poll())
            process.stdin.close()
            output = process.stdout.read()
            self.assertEqual(process.wait(30), 0)
            if b"\n(cancelled)\n" in output:
                return
        self.fail("no answer was cancelled")

    def test_second_ctrl_c_at_the_prompt_ends_the_program(self):
        process = self.start("--max-tokens", "1")
        self.wait_for(process, b"--max-tokens reached")
        process.send_signal(signal.SIGINT)
        self.wait_for(process, b"Ctrl-D")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 0)


class Loops(CommandLineTest):
    def test_game_loop(self):
        result = json.loads(self.succeed("game_loop", "--model", LLAMA, "--seconds", 1,
                                         "--prompt-tokens", 200, "--json"))
        self.assertEqual(result["frames"], 60)
        self.assertEqual(len(result["speakers"]), 5)
        self.assertGreater(sum(speaker["tokens"] for speaker in result["speakers"]), 0)
        overshoot = result["overshoot_ms"]
        self.assertLessEqual(overshoot["p50"], overshoot["p99"])
        self.assertLessEqual(overshoot["p99"], overshoot["max"])

    def test_end_to_end(self):
        result = json.loads(self.succeed("end_to_end", "--model", LLAMA, "--prompt-tokens", 64,
                                         "--gen-tokens", 8, "--concurrency", "1,4", "--shared-prefix",
                                         32, "--json"))
        self.assertEqual([run["concurrency"] for run in result["runs"]], [1, 4])
        for run in result["runs"]:
            self.assertEqual(run["generated_tokens"], 8 * run["concurrency"])
            self.assertGreater(run["prefill_tokens_per_s"], 0)
            self.assertGreater(run["decode_tokens_per_s"], 0)
            for name in ["ttft_s", "tpot_s"]:
                self.assertLessEqual(run[name]["p50"], run[name]["p99"])
            self.assertGreater(run["kv_allocated_over_used"], 0)
        self.assertEqual(result["runs"][0]["cached_tokens"], 0)
        self.assertEqual(result["runs"][1]["cached_tokens"], 3 * 32)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
