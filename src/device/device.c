/* SPDX-License-Identifier: MIT
 *
 * The table of kinds, and what a daemon was given of one. There is no registration at run time: the table is what was built
 * in, so that a setting means the same on every machine.
 */
#include "device/device.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "device/kinds.h"

#include <stdlib.h>
#include <string.h>

#define KIND_ROW(name) &name##_kind,
const struct device_kind *const device_kinds[] = { DEVICE_KINDS(KIND_ROW) NULL };
#undef KIND_ROW

struct device {
	const struct device_kind *kind;
	char *setting, *folder, *file;	/* the last two may be NULL */
	const char *spec;		/* within the setting */
	void *reader;			/* NULL until it is opened */
	bool watch, as_given;
};

static const struct device_kind *find_kind(const char *setting, struct error *err)
{
	size_t len = strcspn(setting, ":");
	scoped_buf known = { 0 };
	/* To the colon and no further: what a list of GPUs looks like is the kind's business. */
	for (const struct device_kind *const *k = device_kinds; *k; k++) {
		if (strlen((*k)->name) == len && !strncmp((*k)->name, setting, len))
			return *k;
		buf_printf(&known, "%s%s", known.len ? ", or " : "", (*k)->example);
	}
	error_set(err, ERR_INVALID, "devices: \"%.60s\" names no kind of device: say %s", setting, buf_text(&known));
	return NULL;
}

static const char *spec_of(const char *setting)
{
	const char *colon = strchr(setting, ':');
	return colon ? colon + 1 : NULL;
}

int device_check(const char *setting, struct error *err)
{
	const struct device_kind *kind = find_kind(setting, err);
	return !kind || (kind->check && kind->check(spec_of(setting), err)) ? -1 : 0;
}

struct device *device_create(const char *setting, const char *folder, struct error *err)
{
	const struct device_kind *kind = find_kind(setting, err);
	if (!kind)
		return NULL;
	struct device *d = alloc_zero(sizeof *d);
	d->kind = kind;
	d->setting = alloc_string(setting);
	d->folder = folder ? alloc_string(folder) : NULL;
	d->file = folder && kind->file ? alloc_printf("%s/%s", folder, kind->file) : NULL;
	d->spec = spec_of(d->setting);
	return d;
}

void device_destroy(struct device *d)
{
	if (!d)
		return;
	if (d->reader)
		d->kind->close(d->reader);
	free(d->setting);
	free(d->folder);
	free(d->file);
	free(d);
}

const struct device_kind *device_kind(const struct device *d)
{
	return d->kind;
}

const char *device_setting(const struct device *d)
{
	return d->setting;
}

const char *device_folder(const struct device *d)
{
	return d->folder;
}

const char *device_file(const struct device *d)
{
	return d->file;
}

void device_watch(struct device *d, bool as_given)
{
	d->watch = true;
	d->as_given = as_given;
}

int device_open(struct device *d, const char *chosen, struct error *err)
{
	/* A reader may hang in here for ever: only a process that can be left behind calls this. */
	const struct device_opening how = { .spec = d->spec, .file = d->file, .chosen = chosen, .watch = d->watch,
					    .as_given = d->as_given };
	d->reader = d->kind->open(&how, err);
	return d->reader ? 0 : -1;
}

int device_sample(struct device *d, struct snapshot *out, struct error *err)
{
	return d->kind->sample(d->reader, out, err);
}
