#!/usr/bin/env bash
# As training scripts are often started.
set -e
cd "$(dirname "$0")"
export SEED=3
for lr in 0.1 0.01; do
    python simple.py --lr $lr
done
