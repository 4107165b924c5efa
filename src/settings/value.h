/* SPDX-License-Identifier: MIT
 *
 * The types of settings: how each is read from a text and written as one. Private to this stage.
 */
#ifndef RAD_SETTINGS_VALUE_H
#define RAD_SETTINGS_VALUE_H

#include "settings/settings.h"

/* `member` is of the row's type and size. An error is not wrapped, and leaves it as it was. */
int value_parse(const struct setting *row, const char *text, void *member, struct error *err);
/* As value_parse takes it back. The caller frees it. */
char *value_print(const struct setting *row, const void *member);

#endif
