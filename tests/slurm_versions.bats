#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Plugins that were built for another release of Slurm, and a radd that knows no jobs of Slurm's: what those see who meet them.

bats_require_minimum_version 1.5.0
load helpers.bash
load cluster.bash
load plugins.bash

setup_file()
{
	plugin_cluster shard
	[ -e "$CLUSTER" ] || return 0
	mkdir "$WORLD/other"
	cp "$PLUGINS"/*.so "$WORLD/other/"
	# The release that a plugin says it is for stands in its plugin_version: the same number, a major release (byte 2) later.
	python3 - "$WORLD"/other/*.so <<-'PYTHON'
	import subprocess, sys
	for path in sys.argv[1:]:
	    table = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout
	    address = next(int(line.split()[1], 16) for line in table.splitlines() if line.endswith(" plugin_version"))
	    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout.replace("[ ", "[")
	    for words in (line.split() for line in sections.splitlines() if line.lstrip().startswith("[")):
	        if words[1].startswith(".") and int(words[3], 16) <= address < int(words[3], 16) + int(words[5], 16):
	            with open(path, "r+b") as f:
	                f.seek(address - int(words[3], 16) + int(words[4], 16) + 2)
	                old = f.read(1)[0]
	                f.seek(-1, 1)
	                f.write(bytes([old + 1]))
	PYTHON
}

setup() { plugin_settings; }
teardown() { idle_cluster; rm -f "$WORLD"/work/*; }
teardown_file() { end_cluster; }

# conf_with FOLDER: slurm.conf of a cluster whose plugins come from there, which nothing runs yet.
conf_with()
{
	rm -rf "$WORLD/alone"
	mkdir -p "$WORLD/alone/state"
	sed -e "s|^PluginDir=.*|PluginDir=$1:$(sed -n 's/^PluginDir=.*://p' "$CLUSTER/etc/slurm.conf")|" -e "s|$CLUSTER/ctld|$WORLD/alone|" \
		-e "s|^SlurmctldPort=.*|SlurmctldPort=19|" "$CLUSTER/etc/slurm.conf" >"$WORLD/alone/slurm.conf"
	cp "$CLUSTER/etc/gres.conf" "$WORLD/alone/"
	: >"$WORLD/alone/plugstack.conf"
}

@test "slurmctld does not start with job_submit/rad of another release, and names it" {
	conf_with "$WORLD/other"
	SLURM_CONF=$WORLD/alone/slurm.conf run timeout 200 slurmctld -D
	[ "$status" -ne 0 ]
	[ "$status" -ne 124 ]
	cat "$WORLD/alone/log" >>"$WORLD/said" 2>/dev/null || :
	grep -q 'job_submit_rad.so.*version' <<<"$output$(cat "$WORLD/alone/log")"
}

@test "sbatch and srun with cli_filter/rad of another release submit nothing, and name it" {
	conf_with "$WORLD/other"
	sed -i "s/^SlurmctldPort=.*/$(grep ^SlurmctldPort= "$CLUSTER/etc/slurm.conf")/" "$WORLD/alone/slurm.conf"
	for words in "sbatch --wrap true" "srun true"; do
		SLURM_CONF=$WORLD/alone/slurm.conf run timeout 200 $words
		[ "$status" -ne 0 ]
		[ "$status" -ne 124 ]
		[[ "$output" == *cli_filter*rad* ]]
	done
	[ -z "$(squeue -h)" ]
}

@test "rad.so of another release: 'optional' in plugstack.conf lets jobs run without, and slurmd's log names it; no node is drained" {
	cp "$CLUSTER/n1/etc/plugstack.conf" "$WORLD/plugstack"
	sed "s|^required [^ ]*|optional $WORLD/other/rad.so|" "$WORLD/plugstack" >"$CLUSTER/n1/etc/plugstack.conf"
	printf '#!/bin/sh\necho "task ${RAD_TASK_ID:-none}"\n' >job.sh
	id=$(sbatch_as root -w n1 --gres=shard:2 job.sh)
	wait_job "$id" COMPLETED
	cp "$WORLD/plugstack" "$CLUSTER/n1/etc/plugstack.conf"
	[ "$(cat "job-$id.out")" = "task none" ]
	grep -q "$WORLD/other/rad.so" "$CLUSTER/n1/slurmd.log"
	none_drained
	id=$(sbatch_as root -w n1 --gres=shard:2 job.sh)
	wait_job "$id" COMPLETED
	[[ "$(cat "job-$id.out")" =~ ^task\ [0-9]+$ ]]
}

# answers WORD: what takes radd's place on n1 and answers each request with that: as a message where it is JSON.
answers()
{
	cluster kill-radd n1
	rm -f "$CLUSTER/n1/radd.sock"
	python3 - "$CLUSTER/n1/radd.sock" "$1" 3>&- 4>&- <<-'PYTHON' &
	import socket, sys
	s = socket.socket(socket.AF_UNIX)
	s.bind(sys.argv[1])
	s.listen()
	while True:
	    c = s.accept()[0]
	    c.recv(65536)
	    said = sys.argv[2].encode()
	    c.sendall((len(said).to_bytes(4, "big") if said.startswith(b"{") else b"") + said)
	    c.close()
	PYTHON
	ANSWERING=$!
	wait_for 10 test -S "$CLUSTER/n1/radd.sock"
}

@test "a radd that knows no such request, or answers nonsense: the job runs, and the log says what radd said" {
	printf '#!/bin/sh\necho "task ${RAD_TASK_ID:-none}"\n' >job.sh
	local said why
	for said in '{"v":1,"error":{"code":"invalid","text":"no such operation"}}' nonsense '{"v":1,"id":7}' '{"v":2,"id":"7"}' ''; do
		case $said in *operation*) why='no such operation' ;; *) why= ;; esac
		answers "$said"
		id=$(sbatch_as root -w n1 --gres=shard:2 job.sh)
		wait_job "$id" COMPLETED
		kill "$ANSWERING"
		[ "$(cat "job-$id.out")" = "task none" ]
		grep -q "rad: job $id: radd was not told of it: .*$why" "$CLUSTER/n1/slurmd.log"
	done
	rm -f "$CLUSTER/n1/radd.sock"
	cluster start-radd n1
	none_drained
}
