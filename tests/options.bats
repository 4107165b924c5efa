#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every option of every command is in its manual page and in the completions: all are made from, or held to, the one table of
# the command. The rows of the verbs are those that `rad help` lists.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	rad help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' >"$WORLD/verbs"
	rad completion bash >"$WORLD/completion"
}
teardown_file() { end_world; }

# Long options of a command, from its help; without those that are in rad(1) for all.
options_of() { all_options_of "$@" | grep -v -x -e --help -e --json || :; }
all_options_of() { "$@" --help | grep -o -E '^ {2}(-.,|   ) --[A-Za-z0-9-]+' | grep -o -E -e '--[A-Za-z0-9-]+'; }

@test "the table of verbs is what rad help lists" {
	[ "$(wc -l <"$WORLD/verbs")" -gt 25 ]
	diff "$WORLD/verbs" <(sed -n 's/^\tX(\([a-z]*\),.*/\1/p' "$BATS_TEST_DIRNAME/../src/cli/verbs.h")
	while read -r verb; do
		rad "$verb" --help | head -n 1 | grep -q "^Usage: rad $verb"
	done <"$WORLD/verbs"
}

@test "every option has its place in the manual page" {
	local verb page option missing=
	while read -r verb; do
		page=$verb
		case $verb in
		run) page=submit ;; release) page=hold ;; resume) page=suspend ;; undrain) page=drain ;;
		help) continue ;;	# it has none
		esac
		for option in $(options_of rad "$verb"); do
			grep -q -e "\*$option\*" "$BATS_TEST_DIRNAME/../man/rad-$page.1.scd" || missing+=" $verb:$option"
		done
	done <"$WORLD/verbs"
	for option in $(options_of radd); do
		grep -q -e "\*$option\*" "$BATS_TEST_DIRNAME/../man/radd.8.scd" || missing+=" radd:$option"
	done
	[ -z "$missing" ] || { echo "missing:$missing" >&2; return 1; }
}

@test "a skeleton of a manual page has all of them" {
	command -v scdoc >/dev/null || skip "no scdoc"
	local verb option
	while read -r verb; do
		"$BATS_TEST_DIRNAME/../tools/man-skeleton" "$verb" >page.scd
		scdoc <page.scd >page
		grep -q "^rad-$verb - " page.scd
		for option in $(options_of rad "$verb"); do
			grep -q -e "\*$option\*" page.scd
		done
	done <"$WORLD/verbs"
}

@test "bash completes all options of all verbs" {
	local verb
	. "$WORLD/completion"
	while read -r verb; do
		COMP_WORDS=(rad "$verb" --) COMP_CWORD=2 COMPREPLY=()
		_rad
		diff <(printf '%s\n' "${COMPREPLY[@]}" | sort) <(all_options_of rad "$verb" | sort)
	done <"$WORLD/verbs"
	COMP_WORDS=(rad simulate --placement g) COMP_CWORD=3 COMPREPLY=()
	_rad
	[ "${COMPREPLY[*]}" = gain ]
	COMP_WORDS=(rad queue x) COMP_CWORD=2 COMPREPLY=()
	touch xfile
	_rad
	[ "${#COMPREPLY[@]}" -eq 0 ]	# ids are no files
}

@test "bash, zsh and fish themselves complete verbs, options, values, and what rad bench solo takes" {
	. "$WORLD/completion"
	COMP_WORDS=(rad bench solo --gpu-m) COMP_CWORD=3 COMPREPLY=()
	_rad
	[ "${COMPREPLY[*]}" = --gpu-mem ]
	mkdir -p comp
	rad completion zsh >comp/_rad
	rad completion fish >comp/rad.fish
	if command -v fish >/dev/null; then
		fished() { HOME=$WORLD fish --no-config -c "source comp/rad.fish; complete -C '$1'" | cut -f1; }
		fished 'rad que' | grep -qx queue
		fished 'rad queue --noh' | grep -qx -e --noheader
		fished 'rad bench solo --gpu-m' | grep -qx -e --gpu-mem
		fished 'rad submit --share m' | grep -qx mps
	fi
	if command -v zsh >/dev/null; then
		zshed() { timeout 120 python3 "$BATS_TEST_DIRNAME/complete_zsh.py" comp "$1" "$2"; }
		zshed 'rad que' 'rad queue '
		zshed 'rad queue --nohe' 'rad queue --noheader '
		zshed 'rad bench solo --gpu-mem=3G --max-sl' 'rad bench solo --gpu-mem=3G --max-slowdown='
		zshed 'rad simulate --placement=ga' 'rad simulate --placement=gain '
		zshed 'rad queue -t LO' 'rad queue -t LO '
	fi
}

# Help, pages and completions have all options that the parser knows but those without a word of help: what is not done here
# and refused with a reason where people type it, and what our own programs say to each other.
@test "an option that is not in the help is refused, or no person's" {
	local verb option
	sed -nE 's/^\t\t\{ "([A-Za-z0-9-]+)", (0|.[a-zA-Z].), (NULL|"[^"]*"), NULL(,.*| \}.*)/\1/p' "$BATS_TEST_DIRNAME"/../src/cli/verb_*.c |
		sort -u >without
	diff without <(printf '%s\n' Node account accounts batch long partition qos rows-only size summarize)
	while read -r verb option; do
		run -2 rad "$verb" "--$option"
		[[ "$output" == rad:* ]]
	done <<-'END'
		queue partition=gpu
		queue account=lab
		queue qos=high
		cancel partition=gpu
		cancel account=lab
		cancel qos=high
		cancel batch
		acct partition=gpu
		acct accounts=lab
		acct qos=high
		acct long
		gpus Node
		gpus summarize
		gpus partition=gpu
	END
}

@test "zsh and fish are told of all options of all verbs, by their letters too" {
	local verb option letter
	rad completion zsh >zsh
	rad completion fish >fish
	while read -r verb; do
		sed -n "/^\t$verb) _arguments/,/;;$/p" zsh >part
		for option in $(options_of rad "$verb"); do
			grep -q -e "'$option[=[-]" part || { echo "zsh: $verb $option" >&2; return 1; }
			grep -q -e "__fish_seen_subcommand_from $verb' -l ${option#--} " fish || { echo "fish: $verb $option" >&2; return 1; }
		done
		while read -r letter option; do
			grep -q -e "'$letter[[+]" part || { echo "zsh: $verb $letter" >&2; return 1; }
			grep -q -e "__fish_seen_subcommand_from $verb' -l $option -s ${letter#-} " fish || { echo "fish: $verb $letter" >&2; return 1; }
		done < <(rad "$verb" --help | sed -nE 's/^  (-.), --([A-Za-z0-9-]+).*/\1 \2/p' | grep -v ' help$')
	done <"$WORLD/verbs"
	if command -v zsh >/dev/null; then zsh -n zsh; fi
	if command -v fish >/dev/null; then fish -n fish; fi
}
