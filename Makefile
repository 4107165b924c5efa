# SPDX-License-Identifier: MIT
# A thin front: everything is built by Meson. `make demo` and `make check` do all set-up themselves.
BUILD ?= build
SAN ?= build-san
PREFIX ?= /usr/local

.PHONY: all build deps demo check torture bench bundle packages packages-try slurm-package install uninstall clean

all: build

deps:
	@tools/deps

$(BUILD)/build.ninja: | deps
	@meson setup $(BUILD)

build: $(BUILD)/build.ninja
	@meson compile -C $(BUILD)

# The programs alone: tests and benches take longer to build than all the rest.
demo: $(BUILD)/build.ninja
	@meson compile -C $(BUILD) rad:executable radd rad-shim rad-http radfeed
	@tools/demo $(BUILD)

check: build
	@tools/check $(BUILD) $(SAN)

# FAULT=kill-radd,machine of tests/torture --list, SEED=N, MOMENTS=N of each, OUT=F.jsonl (goes on where it was), OLDER=REV upgrades from it.
torture: build
	@tools/torture $(BUILD) $(if $(FAULT),--fault $(FAULT)) $(if $(SEED),--seed $(SEED)) $(if $(MOMENTS),--moments $(MOMENTS)) \
		$(if $(OUT),--out $(OUT)) $(if $(OLDER),--older-revision $(OLDER)) $(MORE)

bench: build
	@bench/run $(BUILD)

bundle: deps
	@tools/bundle $(BUILD)

# .deb, .rpm and wheel of the bundle, in dist; those of other versions go.
packages: deps
	@rm -f dist/*.deb dist/*.rpm dist/*.whl
	@bundle=$$(tools/bundle $(BUILD)) && tools/package "$$bundle"

# Slurm's plugins, as packages for the release of Slurm that is installed here (doc/slurm.md), in dist.
slurm-package: deps
	@tools/slurm-package $(BUILD)-slurm

# The .deb on a real release with its systemd: SUITE=jammy MIRROR=http://archive.ubuntu.com/ubuntu. Root, debootstrap, network, minutes.
packages-try: deps
	@bundle=$$(tools/bundle $(BUILD)) && tests/packages/try "$$bundle" $(SUITE) $(MIRROR)

# Below PREFIX, in DESTDIR, as everywhere. Without the tests, which take longer to build than all the rest.
install: deps
	@[ "$$(cat $(BUILD)-install/prefix 2>/dev/null)" = "$(PREFIX)" ] || { rm -rf $(BUILD)-install && \
		meson setup $(BUILD)-install -Dtests=false --prefix=$(PREFIX) && echo "$(PREFIX)" >$(BUILD)-install/prefix; }
	@meson install -C $(BUILD)-install
	@case "$(DESTDIR):$(PREFIX)" in :/usr/local|:/usr) sh -ec '. packaging/functions.sh; permit_captures share/apparmor/rad' ;; esac

uninstall:
	@ninja -C $(BUILD)-install uninstall
	@[ -e /usr/bin/rad ] || sh -ec '. packaging/functions.sh; deny_captures'

clean:
	rm -rf $(BUILD) $(SAN) $(BUILD)-install $(BUILD)-bundle $(BUILD)-slurm dist
