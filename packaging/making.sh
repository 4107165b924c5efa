# SPDX-License-Identifier: MIT
# What tools/package and tools/slurm-package have in common; each names itself in $tool, and the file that says what it packs in $about.

say()
{
	echo "$tool: $*" >&2
}

about() { sed -n "s/^$1: //p" "$about"; }
description() { sed '1,/^$/d' "$about"; }

# What makes a format; 1 where it is not here.
maker()
{
	case $1 in
	deb) program=dpkg-deb ;;
	rpm) program=rpmbuild ;;
	wheel) program=python3 ;;
	esac
	command -v $program >/dev/null || { say "$1: needs $program"; return 1; }
}

# formats KNOWN [FORMAT...]: those that are named, all of which must be makeable here; without a name those of KNOWN that are.
formats()
{
	known=$1
	shift
	for format; do
		case " $known " in
		*" $format "*) maker "$format" || exit 1 ;;
		*) say "$format: not one of $known"; exit 2 ;;
		esac
	done
	[ $# = 0 ] || { echo "$*"; return; }
	for format in $known; do
		! maker "$format" || echo "$format"
	done
}

# The time of the commit is the time of all files, and where no tag says that this is a release a part of the version, so that what was
# made later is newer. Sets SOURCE_DATE_EPOCH and adds to $version.
date_version()
{
	git=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)
	export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$git}" TZ=UTC LC_ALL=C.UTF-8
	git -C "$root" describe --exact-match --match "v$version" >/dev/null 2>&1 ||
		version=$version+$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)
}
