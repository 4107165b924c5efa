#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What people who know Slurm type: dependencies, times to begin, environments, scripts of sbatch, listings.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

# ---- dependencies ----

@test "wait: a task whose dependency can no longer be met is waited for in vain: 125, and why" {
	a=$(submit -- false)
	rad wait "$a" || :
	b=$(submit --dependency=afterok:"$a" -- true)
	run timeout 10 rad wait "$b"
	[ "$status" -eq 125 ]
	one_line_error "task $b: is PENDING still and will not run: afterok:$a can no longer be met"
	# one that waits for that one, and an array
	c=$(submit --dependency=afterok:"$b" --array=0-2 -- true)
	run timeout 10 rad wait "$c"
	[ "$status" -eq 125 ]
	one_line_error "task $c: is PENDING"
	run timeout 10 rad run --dependency=afterok:"$a" true
	[ "$status" -eq 125 ]
	run timeout 10 rad submit --wait --dependency=afterok:"$a" true
	[ "$status" -eq 125 ]
	rad cancel --pending >/dev/null
}

@test "wait: it is over when what it hopes for fails meanwhile; a requeue gives hope again" {
	a=$(submit -- bash -c "$(until_file go-vain); [ -e go-well ]")
	b=$(submit --dependency=afterok:"$a" -- true)
	timeout 20 rad wait "$b" 2>err &
	waiter=$!
	touch go-vain
	rc=0
	wait $waiter || rc=$?
	[ "$rc" -eq 125 ]
	touch go-well
	rad requeue "$a"
	timeout 20 rad wait "$b"
	[ "$(state "$b")" = COMPLETED ]
}

# ---- scripts of sbatch ----

@test "#SBATCH lines: what has a meaning here is obeyed, what has none is told, what cannot be is refused" {
	cat >job.sh <<'END'
#!/bin/bash
#SBATCH --job-name=from-slurm
#SBATCH -p gpu --account proj
#SBATCH --gres=gpu:1 -t 10:00   # ten minutes
#SBATCH --nodes=1
#SBATCH -o slurm-%j.out
#SBATCH --time=20:00
#SBATCH --array=0-1
#SBATCH --wait
echo "index $RAD_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_ID"
#SBATCH --gres=gpu:4
END
	run --separate-stderr rad submit --parsable --array=3 job.sh
	[ "$status" -eq 0 ]
	id=$output
	[[ "$stderr" == *"mean nothing here, and are passed over: -p (line 3), --account (line 3), --nodes (line 5), --wait (line 9)"* ]]
	[[ "$stderr" == *"line 11: a #SBATCH line behind the first command is not read"* ]]
	[[ "$stderr" == *"line 10: Slurm's variables are not set here"* ]]
	rad wait "$id"
	[ "$(field "${id}_3" '| [.name, .gpus_requested, .time_limit_s] | join(" ")')" = "from-slurm 1 1200" ]
	[ "$(cat "slurm-${id}_3.out")" = "index 3 of " ]
	printf '#!/bin/bash\n#SBATCH -N 2\ntrue\n' >nodes.sh
	run rad submit nodes.sh
	[ "$status" -eq 1 ]
	one_line_error "nodes.sh:2: #SBATCH asks for 2 nodes"
	printf '#!/bin/bash\n#SBATCH --time=never\ntrue\n' >time.sh
	run rad submit time.sh
	[ "$status" -eq 1 ]
	one_line_error "time.sh:2: time:"
	printf '#!/bin/bash\n#SBATCH --time\ntrue\n' >time.sh
	run rad submit time.sh
	one_line_error "time.sh:2: '--time' needs a value"
	printf '#!/bin/bash\n#SBATCH --gpus-per-node=2\nsrun python train.py\n' >srun.sh
	run --separate-stderr rad submit --dry-run srun.sh
	[[ "$stderr" == *"line 3: srun is Slurm's"* ]]
}
