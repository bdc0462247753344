#!/usr/bin/env python3
"""Fails if two types of the library have the same qualified name: the linker would silently take the
inline functions of one for the other (the one-definition rule). Relies on clang-format's layout: namespaces
and their types begin in the first column.   unique_types.py LIB INCLUDE..."""
import pathlib
import re
import sys

NAMESPACE = re.compile(r"(?:inline )?namespace(?: ([\w:]+))? \{")
CLOSE = re.compile(r"\}  // namespace")
TYPE = re.compile(r"(?:struct|class|enum class|union) (?:\[\[[^\]]*\]\] )?(?:QUIRE_EXPORT )?([\w:]+)(?: final)?(?: :[^:].*)? ?\{")


def types(path):
    scopes = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := NAMESPACE.match(line):
            scopes.append(match.group(1))
        elif CLOSE.match(line) and scopes:
            scopes.pop()
        elif (match := TYPE.match(line)) and None not in scopes:
            yield "::".join(scopes + [match.group(1)]), f"{path}:{number}"


def main(folders):
    seen, duplicates = {}, 0
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            for name, place in types(path):
                if name in seen:
                    print(f"{name}: {seen[name]} and {place}")
                    duplicates += 1
                seen.setdefault(name, place)
    print(f"{len(seen)} types, {duplicates} names used twice")
    return 1 if duplicates or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
