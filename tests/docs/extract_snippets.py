"""Writes the C++ blocks of Markdown files into one C++ file that compiles and runs them.

usage: extract_snippets.py <output.cpp> <file.md>...

A block with `main`, or marked "cpp file", stands at namespace scope; any other is the body of a function
`quire::Status snippet(quire::Engine& engine)`. The file's own main opens "model.gguf" for each block that
is not marked "cpp file", runs the block, and fails if it does not end well.
"""

import re
import sys

PRELUDE = """\
#include <quire/quire.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>
"""

RUNNER = """
int main() {
  struct { const char* where; quire::Status (*run)(quire::Engine&); } const snippets[] = {%s};
  int failures = 0;
  for (const auto& snippet : snippets) {
    auto engine = quire::Engine::open("model.gguf");
    const quire::Status status = engine ? snippet.run(*engine) : engine.status();
    std::printf("%%s: %%s\\n", snippet.where, status ? "ok" : status.message().c_str());
    failures += !status;
  }
  return failures == 0 ? 0 : 1;
}
"""


def blocks(path):
    """Yields (line number of the first line, words after the language, text)."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(r"^```cpp([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(2)) + 1, match.group(1).split(), match.group(2)


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    output, paths = sys.argv[1], sys.argv[2:]
    includes, body, runs = [], [], []
    for path in paths:
        for line, words, text in blocks(path):
            name = "snippet_%d" % (len(body) + 1)
            where = "%s:%d" % (path, line)
            for include in re.findall(r"^#include .*$", text, re.MULTILINE):
                includes.append(include)
            text = re.sub(r"^#include .*$", "", text, flags=re.MULTILINE)
            is_main = re.search(r"^int main\(", text, re.MULTILINE) is not None
            if is_main:
                text = text.replace("int main(", "int run_main(")
                text += ("quire::Status snippet(quire::Engine&) {\n"
                         "  return run_main() == 0 ? quire::Status()"
                         " : quire::Status(quire::StatusCode::internal, \"main failed\");\n}\n")
            elif "file" not in words:
                text = "quire::Status snippet([[maybe_unused]] quire::Engine& engine) {\n{\n#line %d \"%s\"\n%s}\nreturn {};\n}\n" % (
                    line, path, text)
            body.append("namespace %s {\n#line %d \"%s\"\n%s}  // namespace %s\n" %
                        (name, line, path, text, name))
            if is_main or "file" not in words:
                runs.append("{\"%s\", %s::snippet}" % (where, name))
    with open(output, "w", encoding="utf-8") as file:
        file.write(PRELUDE + "\n".join(dict.fromkeys(includes)) + "\n\n" + "\n".join(body) +
                   RUNNER % ",\n".join(runs))


main()
