"""Fetches llama.cpp's source, as the source package of llama-cpp-python has it, and builds its
batched-bench once for each variant."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import fetch_models  # noqa: E402

PACKAGE = fetch_models.LLAMA_CPP
PROGRAM = "llama-batched-bench"
OPTIONS = ["CMAKE_BUILD_TYPE=Release", "BUILD_SHARED_LIBS=OFF", "LLAMA_BUILD_TESTS=OFF",
           "LLAMA_BUILD_EXAMPLES=OFF", "LLAMA_BUILD_SERVER=OFF", "LLAMA_BUILD_APP=OFF",
           "LLAMA_OPENSSL=OFF", "LLAMA_TOOLS_INSTALL=OFF"]
# Without GGML_NATIVE, ggml's defaults on x86 are SSE 4.2, AVX, AVX2, BMI2, FMA and F16C.
VARIANTS = {"native": ["GGML_NATIVE=ON"], "avx2": ["GGML_NATIVE=OFF"]}

# Parts of the source that a CPU build of the programs does not read.
LEFT_OUT = ("models/", "media/", "docs/", "gguf-py/", "tests/", "benches/", "examples/", "app/",
            "conversion/", "grammars/", "tools/ui/")


def is_needed(path):
    backend = path.removeprefix("ggml/src/ggml-").partition("/")
    if path.startswith("ggml/src/ggml-") and backend[1] and backend[0] != "cpu":
        return False
    return not path.startswith(LEFT_OUT)


def fetch_source(folder):
    """The source's folder, fetched unless it is there."""
    source, done = folder / "source", folder / "source" / ".sha256"
    if done.is_file() and done.read_text() == PACKAGE.sha256:
        return source
    shutil.rmtree(source, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    prefix = PACKAGE.filename.removesuffix(".tar.gz") + "/vendor/llama.cpp/"
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        unpacked = Path(temporary) / "source"
        with tarfile.open(fetch_models.fetch(PACKAGE, Path(temporary))) as archive:
            for member in archive:
                inside = member.name.removeprefix(prefix)
                if not member.isfile() or inside == member.name or ".." in Path(inside).parts:
                    continue
                if not is_needed(inside):
                    continue
                path = unpacked / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.extractfile(member) as content, open(path, "wb") as output:
                    shutil.copyfileobj(content, output)
        (unpacked / ".sha256").write_text(PACKAGE.sha256)
        unpacked.rename(source)
    return source


def processor_id():
    """What -march=native depends on: another processor's build is not used."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    lines = sorted({line for line in text.splitlines() if line.startswith(("model", "flags", "Features"))})
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def run_logged(command, log):
    with open(log, "a") as output:
        if subprocess.run(command, stdout=output, stderr=output, check=False).returncode != 0:
            tail = Path(log).read_text(errors="replace").splitlines()[-40:]
            raise SystemExit("\n".join(tail) + f"\n{' '.join(command)}: failed; all of it in {log}")


def build(cache, variant):
    """The program's path, built unless it is there for this processor and compiler."""
    folder = Path(cache) / "peers" / "llama.cpp"
    built, options = folder / variant, OPTIONS + VARIANTS[variant]
    compiler = subprocess.run([os.environ.get("CXX", "c++"), "--version"], capture_output=True,
                              text=True, check=False).stdout.partition("\n")[0]
    wanted = json.dumps({"source": PACKAGE.sha256, "options": options, "compiler": compiler,
                         "processor": processor_id() if variant == "native" else ""})
    stamp, program = built / ".options", built / "bin" / PROGRAM
    same = stamp.is_file() and stamp.read_text() == wanted
    if same and program.is_file():
        return program
    source = fetch_source(folder)
    print(f"building llama.cpp ({variant}) in {built}", file=sys.stderr, flush=True)
    if not same:
        shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True, exist_ok=True)
    log = built / "build.log"
    run_logged(["cmake", "-S", str(source), "-B", str(built), "-G", "Ninja",
                *(f"-D{option}" for option in options)], log)
    stamp.write_text(wanted)
    run_logged(["cmake", "--build", str(built), "-j", str(os.cpu_count()), "--target", PROGRAM], log)
    return program


def version():
    return f"llama.cpp of llama-cpp-python {PACKAGE.version}"
