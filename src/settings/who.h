/* SPDX-License-Identifier: MIT
 *
 * What some may have at one time, apart from what the settings of the same names let everybody have:
 *	user:alice: max_gpus=8 max_running=off
 *	group:students: max_running=2 max_mem=40G
 * For each limit the row of the user counts; without one, of the rows of his groups the one that allows most; without those,
 * the setting. Whose groups those are, the user database says.
 */
#ifndef RAD_SETTINGS_WHO_H
#define RAD_SETTINGS_WHO_H

#include "settings/settings.h"

/* One row. */
struct settings_who {
	char *name;			/* "user:alice", "group:students"; owned */
	struct allowance allows;
	bool says[ALLOWANCE_COUNT];	/* which of them it has a word on */
	struct settings_source from;
};

/* Whether a key is that of such a row. */
bool who_is(const char *key);
/* Sets a row from its text, "" takes it away. An error says what was found and what it may be, and leaves all as it was. */
int who_set(struct settings *s, const char *key, const char *text, struct settings_source from, struct error *err);
/* Sets limits from such a text: those that it names, and notes which. */
int who_parse(const char *text, struct allowance *a, bool says[ALLOWANCE_COUNT], struct error *err);
/* As who_parse takes it back. The caller frees it. */
char *who_print(const struct allowance *a, const bool says[ALLOWANCE_COUNT]);
/* Whether any row is of a group: else nobody need be asked who is in which. */
bool who_has_groups(const struct settings *s);
/* What a user of that name may have; `groups` are his, ':' between them. *row, if not NULL, gets the row that says it for each
 * limit, NULL for the setting. */
struct allowance who_allows(const struct settings *s, const char *user, const char *groups,
			    const struct settings_who *row[ALLOWANCE_COUNT]);
/* "group:students in /etc/rad/rad.conf:12", "max_gpus in rad.conf"; NULL as a row: the setting. The caller frees it. */
char *who_source(const struct settings *s, const struct settings_who *row, enum allowance_kind kind);

/* For settings.c: rows as settings_adopt, settings_json and settings_write have them. */
void who_clear(struct settings *s);
void who_adopt(struct settings *s, const struct settings *next, settings_changed *tell, void *ctx);
void who_list(const struct settings *s, json_t *list);
void who_write(const struct settings *s, const char *form, FILE *out);
/* How wide their names and values are, where that is more than it was. */
void who_measure(const struct settings *s, int *name_width, int *value_width);

#endif
