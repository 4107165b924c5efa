# SPDX-License-Identifier: MIT
# Makes what the tests beside this file install.
ROOT_DIR=${RAD_SOURCE_ROOT:-$BATS_TEST_DIRNAME/../..}

# make_packages FORMAT: of the bundle, in $PACKAGES; in $NEWER ones made a minute later; in $AGAIN the first ones again.
make_packages()
{
	local bundle=${BUNDLE:-$(ls -t "$ROOT_DIR"/dist/rad-rm-*-linux-*.tar.gz | head -n 1)} now
	export PACKAGES=$WORLD/packages NEWER=$WORLD/newer AGAIN=$WORLD/again
	mkdir "$PACKAGES" "$NEWER" "$AGAIN"
	now=$(date +%s)
	SOURCE_DATE_EPOCH=$now "$ROOT_DIR/tools/package" "$bundle" "$PACKAGES" "$1"
	SOURCE_DATE_EPOCH=$now "$ROOT_DIR/tools/package" "$bundle" "$AGAIN" "$1"
	SOURCE_DATE_EPOCH=$((now + 60)) "$ROOT_DIR/tools/package" "$bundle" "$NEWER" "$1"
}
