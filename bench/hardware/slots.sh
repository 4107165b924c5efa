#!/bin/bash
# SPDX-License-Identifier: MIT
# What time slots cost on a GPU: two trainings that do not fit beside each other take turns on one GPU, and each ends with the loss
# of one that ran alone. One line of JSON for each, as it ends.
#   bench/hardware/slots.sh FOLDER_OF_RAD [--devices nvml:0 | sim:1xa100-40g] [--slot 30s] [--epochs 200] [--limit 480] >slots.jsonl
# Needs python3 with PyTorch. Stops by itself after --limit seconds.
set -eu
bin=$(cd "${1:?bench/hardware/slots.sh FOLDER_OF_RAD}" && pwd)
shift
devices=nvml:0 slot=30s epochs=200 limit=480 python=${PYTHON:-python3}
while [ $# -gt 1 ]; do
	case $1 in
	--devices) devices=$2 ;;
	--slot) slot=$2 ;;
	--epochs) epochs=$2 ;;
	--limit) limit=$2 ;;
	*) echo "slots.sh: $1: what is that?" >&2; exit 2 ;;
	esac
	shift 2
done
example=$(cd "$(dirname "$0")/../../examples/slots" && pwd)/plain.py
work=$(mktemp -d /tmp/rad-slots.XXXXXX)
export PATH=$bin:$PATH RAD_SOCKET=$work/s.sock RAD_NO_START=1
until_s=$((SECONDS + limit))
radd --devices "$devices" --state "$work/state" --socket "$RAD_SOCKET" --foreground >"$work/radd.log" 2>&1 &
radd=$!
trap 'rad cancel --all >/dev/null 2>&1 || :; kill "$radd" 2>/dev/null || :; rm -rf "$work"' EXIT
tries=0
until rad queue >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { cat "$work/radd.log" >&2; exit 1; }
	sleep 0.2
done
cd "$work"

# train NAME OPTIONS...: the id
train()
{
	local name=$1
	shift
	rad submit --parsable --exclusive --name "$name" "$@" -- "$python" "$example" --checkpoint "$name.pt" --epochs "$epochs" \
		--examples 65536 --batch-size 256
}

# told NAME ID
told()
{
	local name=$1
	timeout $((until_s - SECONDS > 1 ? until_s - SECONDS : 1)) rad wait "$2" >/dev/null || :
	rad show --json "$2" | "$python" -c '
import datetime, json, sys
task, at = json.load(sys.stdin)["tasks"][0], lambda iso: datetime.datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp()
said = {key: task[key] for key in ("state", "run_s", "wait_s", "slots", "slot_s", "slot_lost_s")}
print(json.dumps({"name": sys.argv[1], "loss": sys.argv[2], **said,
                  "saving_s": [round(at(a["end"]) - at(a["slot_asked_time"]), 3) for a in task["attempts"] if a["verdict"] == "slot"],
                  "begin_s": [a["begin_s"] for a in task["attempts"]]}))
' "$name" "$(sed -n 's/^final loss //p' "rad-$2.out")"
}

alone=$(train alone)
told alone "$alone"
a=$(train a --slot "$slot")
b=$(train b --slot "$slot")
told a "$a"
told b "$b"
