# SPDX-License-Identifier: MIT
# For system tests of Slurm's plugins: load it after cluster.bash. plugin_cluster KIND [options of tests/cluster start] in setup_file, in
# place of new_cluster.

plugin_cluster()
{
	local stack=$BATS_FILE_TMPDIR/plugstack kind=$1
	shift
	PLUGINS=$RAD_BUILD_ROOT/slurm
	export PLUGINS
	[ -e "$PLUGINS/rad.so" ] || return 0
	echo "required $PLUGINS/rad.so conf=@dir@/etc/rad-slurm.conf socket=@dir@/@node@/radd.sock helper=$PLUGINS/rad-slurm" >"$stack"
	new_cluster --nodes 2 --gres "$kind" --plugstack "$stack" --plugin-dir "$PLUGINS" --set JobSubmitPlugins=rad --set CliFilterPlugins=rad \
		"$@"
}

# plugin_settings [LINE...]: rad-slurm.conf of this test.
plugin_settings()
{
	[ -e "$PLUGINS/rad.so" ] || skip "built without Slurm's headers"
	use_cluster
	printf '%s\n' "gpus: 2x40G" "rad: $RAD_BUILD_ROOT/rad" "$@" >"$CLUSTER/etc/rad-slurm.conf.new"
	mv "$CLUSTER/etc/rad-slurm.conf.new" "$CLUSTER/etc/rad-slurm.conf"
}

# script NAME DIRECTIVES COMMAND...: a job's script.
script() { local name=$1 words=$2; shift 2; printf '#!/bin/bash\n#RAD %s\n' "$words" >"$name"; printf '%s\n' "$@" >>"$name"; chmod 755 "$name"; }

# comment_has ID WORDS: in what RAD-RM says of the job.
comment_has() { scontrol show job -o "$1" | grep -q " AdminComment=.*$2"; }

# radd_pid NODE
radd_pid()
{
	local pid
	for pid in $(cat "/proc/$(cat "$CLUSTER/$1/keeper")/task"/*/children); do
		[ "$(basename "$(readlink "/proc/$pid/exe")")" != radd ] || echo "$pid"
	done
}

# none_drained: every node takes jobs.
none_drained() { ! sinfo -h -N -o %T | grep -E 'drain|down|fail'; }
