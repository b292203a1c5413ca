#!/usr/bin/env bash
# Audit this machine; where a lab can run, also a Slurm cluster of emulated GPU nodes through its scheduler.
set -euo pipefail
cd "$(dirname "$0")/.."
assay=.venv/bin/assay
export ASSAY_RUNS=demo/runs
mkdir -p demo

audit() { # target report
  local code=0
  "$assay" audit "$1" --fresh --fail-on never -o "demo/$2.html" -o "demo/$2.json" || code=$?
  [ $code -eq 0 ] || [ $code -eq 3 ] # 3 = judged, with something required that could not be told
}

audit local this-machine
if "$assay" lab doctor >/dev/null 2>&1; then
  trap '"$assay" lab down >/dev/null 2>&1 || true' EXIT
  "$assay" lab up
  audit lab lab
else
  echo "No lab here: assay lab doctor says why."
fi
echo "Open demo/this-machine.html and, where it was made, demo/lab.html in a browser."
