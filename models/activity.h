/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity). PLACEHOLDER until fitted.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#endif
