/* SPDX-License-Identifier: MIT
 *
 * A net answers as surely about what it never saw as about what it learnt. What can be seen of that in its inputs is looked at
 * here: a size far beyond all that were measured, a kind of layer with a part in the whole that no measured model had, an
 * activation function that the summary does not show. Layers are counted once, as depth and layers, not by kind: a container
 * that a printer lists as a layer of its own, without parameters or outputs, changes nothing.
 */
#include "estimate/gpumemnet_domain.h"

#include "base/scope.h"

#include <math.h>
#include <stdio.h>

#define AT_THE_EDGE 0.02	/* of a range: still inside */

/* What a number is: how far it may be from the range, and how it is said. A guess is not looked at. */
enum input_unit { UNIT_SIZE, UNIT_SHARE, UNIT_VALUE, UNIT_FLAG, UNIT_GUESS };

static enum input_unit unit_of(unsigned input)
{
	if (input >= GPUMEMNET_SCALAR_COUNT)
		return (input - GPUMEMNET_SCALAR_COUNT) % 3 ? UNIT_SHARE : UNIT_GUESS;
	switch ((enum gpumemnet_scalar)input) {
	case GPUMEMNET_BATCH:
	case GPUMEMNET_PARAMS:
	case GPUMEMNET_ACTIVATIONS:
	case GPUMEMNET_BATCH_ACTIVATIONS:
	case GPUMEMNET_LAYERS:
	case GPUMEMNET_DEPTH:
	case GPUMEMNET_SEQ:
	case GPUMEMNET_INPUT:
	case GPUMEMNET_ATTENTION_SIZE:
	case GPUMEMNET_REFERENCE:
		return UNIT_SIZE;
	case GPUMEMNET_KEEPS_NONE:
	case GPUMEMNET_KEEPS_OUTPUT:
	case GPUMEMNET_KEEPS_INPUT:
	case GPUMEMNET_OPTIMIZER_UNKNOWN:
	case GPUMEMNET_AUTOCAST:
	case GPUMEMNET_TF32:
	case GPUMEMNET_PRECISION_UNKNOWN:
		return UNIT_FLAG;
	case GPUMEMNET_STATES:
	case GPUMEMNET_WEIGHT_BYTES:
	case GPUMEMNET_VALUE_BYTES:
		return UNIT_VALUE;
	case GPUMEMNET_KERNEL:	/* worked out from parameters, where that goes */
		return UNIT_GUESS;
	default:
		return UNIT_SHARE;
	}
}

static double domain_slack(enum input_unit unit)
{
	return unit == UNIT_SIZE ? DOMAIN_OCTAVES : unit == UNIT_SHARE ? DOMAIN_SHARE : 1e-4;
}

/* "35", "131k": to three digits, which is what a logarithm in a float still knows. Returns `text`. */
static const char *domain_size(double log, char text[24])
{
	static const char units[][2] = { "", "k", "M", "G", "T", "P" };
	double x = exp2(log) - 1;
	size_t i = 0;
	while (x >= 999.5 && i + 1 < COUNT_OF(units))
		x /= 1000, i++;
	snprintf(text, 24, "%.3g%s", x, units[i]);
	return text;
}

static void domain_tell(enum input_unit unit, const char *name, double value, double low, double high, char *text, size_t size)
{
	char is[24], least[24], most[24];
	if (unit == UNIT_FLAG)
		snprintf(text, size, "%s", name);
	else if (unit == UNIT_SHARE)
		snprintf(text, size, "%s %.0f %% (%.0f to %.0f)", name, 100 * value, 100 * low, 100 * high);
	else if (unit == UNIT_VALUE)
		snprintf(text, size, "%s %g (%g to %g)", name, value, low, high);
	else
		snprintf(text, size, "%s %s (%s to %s)", name, value > 0 ? domain_size(value, is) : "not shown",
			 domain_size(low, least), domain_size(high, most));
}

bool gpumemnet_beyond(const struct net *net, const struct gpumemnet_vector *v)
{
	for (unsigned i = 0; i < GPUMEMNET_INPUTS; i++) {
		float slack = (net->high[i] - net->low[i]) * (float)AT_THE_EDGE + 1e-4f;
		if (v->inputs[i] < net->low[i] - slack || v->inputs[i] > net->high[i] + slack)
			return true;
	}
	return false;
}

const char *gpumemnet_outside(const struct net *net, const struct gpumemnet_vector *v, char *text, size_t size)
{
	size_t len = 0;
	*text = 0;
	for (unsigned i = 0; i < GPUMEMNET_INPUTS && len < size; i++) {
		enum input_unit unit = unit_of(i);
		double value = (double)v->inputs[i], low = (double)net->low[i], high = (double)net->high[i];
		double beyond = fmax(value - high, low - value);
		char name[64], one[160];
		if (unit == UNIT_GUESS || beyond <= domain_slack(unit))
			continue;
		domain_tell(unit, gpumemnet_input_name(i, name), value, low, high, one, sizeof one);
		len += (size_t)snprintf(text + len, size - len, "%s%s", len ? ", " : "", one);
	}
	return text;
}

static enum arithmetic_class class_of(enum features_family family, const struct gpumemnet_vector *v)
{
	bool tf32 = v->inputs[GPUMEMNET_TF32] > 0, half = v->inputs[GPUMEMNET_VALUE_BYTES] < 4;
	if (family == FEATURES_CNN)
		return tf32 || half ? ARITHMETIC_CNN : ARITHMETIC_CNN_IEEE;
	return family == FEATURES_MLP ? ARITHMETIC_MLP : ARITHMETIC_TRANSFORMER;
}

struct arithmetic_row gpumemnet_bounds(enum features_family family, const struct gpumemnet_vector *v)
{
	struct arithmetic_row row = arithmetic_table[class_of(family, v)];
	row.least *= v->reference_mib;
	row.half *= v->reference_mib;
	row.claim *= v->reference_mib;
	row.most = fmax(row.most, ARITHMETIC_UNSEEN) * v->reference_mib;
	return row;
}
