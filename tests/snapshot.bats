#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad submit --snapshot: a task runs the code of its submission, whatever is edited while it waits.

bats_require_minimum_version 1.5.0
load helpers

setup_file()
{
	new_world
	start_radd
}

teardown_file() { end_world; }

# A repository of its own for each test.
setup()
{
	unset XDG_DATA_HOME
	REPO=$WORLD/work/repo-$BATS_TEST_NUMBER
	COPIES=$WORLD/.local/share/rad/snapshots
	mkdir -p "$REPO/pkg" "$REPO/data"
	cd "$REPO"
	git init -q .
	printf 'data/\n' >.gitignore
	echo one >pkg/part.txt
	echo numbers >data/x
	echo 'cat pkg/part.txt data/x; echo result >data/result; pwd' >run.sh
	git add -A
}

teardown() { rm -rf "$REPO" "$COPIES"; }

copies() { find "$COPIES" -mindepth 1 -maxdepth 1 | wc -l; }

refused()
{
	run -2 --separate-stderr rad submit --snapshot "$@"
	[ -z "$output" ]
}

@test "what is edited after the submission is not what runs; ignored files are where they were" {
	local before after
	before=$(submit --hold --snapshot -- sh run.sh)
	echo two >pkg/part.txt
	echo new >fresh.txt
	after=$(submit --hold --snapshot -- sh -c 'sh run.sh; cat fresh.txt')
	rm -r pkg fresh.txt run.sh
	rad release "$before" "$after"
	rad wait "$before" "$after"
	[ "$(head -n 2 "rad-$before.out")" = $'one\nnumbers' ]
	[[ $(sed -n 3p "rad-$before.out") == "$COPIES"/repo-* ]]
	[ "$(head -n 2 "rad-$after.out")" = $'two\nnumbers' ]
	[ "$(tail -n 1 "rad-$after.out")" = new ]
	[ "$(cat data/result)" = result ]
	[ "$(copies)" -eq 2 ]
	[ "$(rad show --json "$before" | jq -r '.tasks[0].cwd')" = "$(sed -n 3p "rad-$before.out")" ]
}

@test "nothing is made in what is linked: folders that ignore themselves, files that were added all the same" {
	local copy
	mkdir -p .cache-a/deep .cache
	printf '*\n' | tee .cache/.gitignore >.cache-a/.gitignore
	touch .cache/x .cache-a/deep/y
	touch data/tracked
	git add -f data/tracked
	rad submit --hold --snapshot true
	copy=$(echo "$COPIES"/*)
	[ "$(readlink "$copy/.cache")" = "$REPO/.cache" ]
	[ "$(readlink "$copy/.cache-a")" = "$REPO/.cache-a" ]
	[ -f "$copy/data/tracked" ]
	[ ! -L "$copy/data/tracked" ]
	[ ! -L "$copy/data" ]
	[ "$(readlink "$copy/data/x")" = "$REPO/data/x" ]
	[ "$(find "$REPO" -path "$REPO/.git" -prune -o -type l -print | wc -l)" -eq 0 ]
	rad cancel --pending >/dev/null
}

@test "equal code makes one copy, also by submissions at the same time, and logs of tasks are no code" {
	local i
	touch rad-1.out
	for i in 1 2 3 4 5 6; do
		rad submit --hold --snapshot true >"$WORLD/said-$i" &
	done
	wait
	echo more >>rad-1.out
	rad submit --hold --snapshot true >"$WORLD/said-7"
	[ "$(copies)" -eq 1 ]
	[ "$(sed -n 's/^Code: //p' "$WORLD"/said-? | sort -u)" = "$(echo "$COPIES"/*)" ]
	[ ! -e "$(echo "$COPIES"/*)/rad-1.out" ]
	rad cancel --pending >/dev/null
}

@test "a folder below the top, submodules, links, times and PYTHONPATH are the copy's" {
	local id
	git init -q "$WORLD/lib"
	echo lib >"$WORLD/lib/lib.txt"
	git -C "$WORLD/lib" add -A
	git -C "$WORLD/lib" -c user.name=a -c user.email=a@example.org commit -qm lib
	git -c protocol.file.allow=always submodule --quiet add "$WORLD/lib" lib
	ln -s pkg/part.txt inside
	ln -s ../outside outside
	ln -s "$REPO/pkg/part.txt" absolute
	echo out >../outside
	touch -d '2020-02-02 02:02:02' pkg/part.txt
	chmod +x run.sh
	ln -s "$REPO" "$WORLD/link"
	cd pkg
	id=$(PYTHONPATH=$REPO/pkg:/elsewhere:$REPO:$WORLD/link/pkg submit --hold --snapshot -- \
		sh -c 'cat ../lib/lib.txt ../inside ../absolute ../outside; stat -c %y part.txt; echo $PYTHONPATH; [ -x ../run.sh ] && echo "$PWD"')
	rm -rf ../lib part.txt
	rad release "$id"
	rad wait "$id"
	local copy
	copy=$(echo "$COPIES"/*)
	[ "$(head -n 4 "rad-$id.out")" = $'lib\none\none\nout' ]
	[[ $(sed -n 5p "rad-$id.out") == "2020-02-02 02:02:02"* ]]
	[ "$(tail -n 2 "rad-$id.out")" = "$copy/pkg:/elsewhere:$copy:$copy/pkg"$'\n'"$copy/pkg" ]
	rm -rf "$WORLD/lib" "$WORLD/link" ../../outside
}

@test "PATH: programs that are copied are the copy's; those of an environment that git ignores stay" {
	local id copy
	mkdir -p tools data/venv/bin
	printf '%s\n' '#!/bin/sh' 'echo one; echo "$PATH"' >tools/step
	chmod +x tools/step
	id=$(PATH=$REPO/data/venv/bin:$REPO/tools:$PATH submit --hold --snapshot step)
	echo 'echo two' >tools/step
	rad release "$id"
	rad wait "$id"
	copy=$(echo "$COPIES"/*)
	[ "$(cat "rad-$id.out")" = $'one\n'"$REPO/data/venv/bin:$copy/tools:$PATH" ]
}

@test "what cannot be copied is refused, with what to do, and leaves nothing" {
	refused sh "$REPO/run.sh"
	[[ $stderr == *"is not the copy's: name it from the folder"* ]]
	ln -s "$REPO" "$WORLD/link"
	refused sh "$WORLD/link/run.sh"
	[[ $stderr == *"'$WORLD/link/run.sh' is not the copy's"* ]]
	refused cat "--file=$REPO/pkg/part.txt"
	[[ $stderr == *"'--file=$REPO/pkg/part.txt' is not the copy's"* ]]
	local one
	for one in ../outside.txt --data=../outside ./../outside.txt ..; do
		touch ../outside.txt
		refused cat "$one"
		[[ $stderr == *"'$one' leads out of the repository"*"name it by its absolute path" ]]
	done
	cd pkg
	refused cat ./../../outside.txt
	rad submit --snapshot --hold --parsable cat ../run.sh "$WORLD/work/outside.txt" s/../../../x/ | xargs rad cancel
	rm -r "$COPIES"
	cd ..
	rm ../outside.txt
	cd data
	refused true
	[[ $stderr == *"git ignores $REPO/data, so nothing of it is copied"* ]]
	cd ..
	truncate -s 1100M large.bin
	refused true
	[[ $stderr == *"has 1.1 GiB that git does not ignore, in large.bin alone 1.1: name data and results in .gitignore"* ]]
	rm large.bin
	chmod 0 pkg/part.txt
	if [ "$(id -u)" -ne 0 ]; then
		refused true
		[[ $stderr == *"--snapshot: $REPO/pkg/part.txt: Permission denied"* ]]
	fi
	chmod 644 pkg/part.txt
	rm -rf .git
	refused true
	[[ $stderr == *"$REPO is in no git repository that can be read (not a git repository"*"git init"* ]]
	run -2 --separate-stderr env PATH="$(dirname "$(command -v rad)")" rad submit --snapshot /bin/true
	[[ $stderr == *"or there is no git here"* ]]
	git init -q .
	printf '*\n' >.gitignore
	refused true
	[[ $stderr == *"git knows no file in $REPO: 'git add'"* ]]
	if [ "$(id -u)" -eq 0 ]; then		# git does not read what is another's
		git init -q .
		chown -R 65534 .
		refused true
		[[ $stderr == *"(detected dubious ownership in repository at '$REPO')"*"'git status' says what to do" ]]
	fi
	rm "$WORLD/link"
	[ ! -e "$COPIES" ]
}

@test "where a home is a repository, a copy has no copies in it; and the name of a folder may have two lines" {
	local two=$WORLD/work/$'two\nlines'
	mkdir "$two"
	cd "$two"
	git init -q .
	echo x >x
	HOME=$two rad submit --hold --snapshot true
	HOME=$two rad submit --hold --snapshot true
	[ "$(find .local/share/rad/snapshots -name x -printf . | wc -c)" -eq 1 ]
	rad cancel --pending >/dev/null
	cd "$WORLD"
	rm -r "$two"
}

@test "who removed a copy that a task waits for is told to submit again" {
	local id
	id=$(submit --hold --snapshot true)
	rm -r "$COPIES"
	rad release "$id"
	rad wait "$id" || :
	run -0 rad why "$id"
	[[ $output == *"working directory $COPIES/"*": No such file or directory"* ]]
	[[ $output == *"What helps: submit it again. Its folder, a copy that --snapshot made, was removed"* ]]
	[[ $output != *"Once more"* ]]
	mkdir gone
	id=$(submit --hold --chdir gone true)
	rmdir gone
	rad release "$id"
	rad wait "$id" || :
	[[ $(rad why "$id") == *"What helps: its folder, made again; then 'rad requeue'" ]]
}

@test "a dry run checks all the same and copies nothing; where a copy cannot be written, that is told" {
	rad submit --snapshot --dry-run true
	refused --dry-run cat ../none
	[[ $stderr == *"'../none' leads out of the repository"* ]]
	[ ! -e "$COPIES" ]
	mkdir -p "$WORLD/data-home/rad"
	ln -s /proc "$WORLD/data-home/rad/snapshots"
	export XDG_DATA_HOME=$WORLD/data-home
	run -1 --separate-stderr rad submit --snapshot true
	[[ $stderr == *"--snapshot: copies are kept below XDG_DATA_HOME, or else ~/.local/share: /proc/"* ]]
	XDG_DATA_HOME=/proc/none run -1 --separate-stderr rad submit --snapshot true
	[[ $stderr == *"--snapshot: copies are kept below XDG_DATA_HOME, or else ~/.local/share: /proc/none: "* ]]
	rm -r "$WORLD/data-home"
	unset XDG_DATA_HOME
	local disk=$RAD_BUILD_ROOT/tests/fake-files/libfake-files.so	# what a power cut would lose is no copy
	echo "fsync 5" >"$WORLD/broken"
	FAKE_FILES=$WORLD/broken FAKE_FILES_UNDER=$COPIES/repo- LD_PRELOAD=$disk${LD_PRELOAD:+:$LD_PRELOAD} \
		run -1 --separate-stderr rad submit --snapshot true
	[[ $stderr == *"$COPIES/repo-"*": Input/output error"* ]]
	[ "$(copies)" -eq 0 ]
	rm "$WORLD/broken"
}

@test "experiments of radT, too" {
	printf 'Experiment,Workload,Status,Run,Devices,Collocation,File,Listeners,Params\n1,1,,,0,-,run.sh,,\n' >exp.csv
	git add exp.csv
	local id
	echo '1,2,,,0,-,run.sh,,../none' >>exp.csv
	refused --dry-run --radt exp.csv
	[[ $stderr == *"exp.csv:3: --snapshot: '../none' leads out of the repository"* ]]
	[ ! -e "$COPIES" ]
	sed -i 3d exp.csv
	id=$(rad submit --snapshot --hold --radt exp.csv --parsable)
	[ "$(rad show --json "$id" | jq -r '.tasks[0].cwd')" = "$(echo "$COPIES"/*)" ]
	rad cancel "$id"
}
