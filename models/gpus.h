/* SPDX-License-Identifier: MIT
 *
 * What models of GPUs can do, as their makers' data sheets say: what a load that was measured or predicted on one is carried
 * over to another by (src/estimate/activity). Dense figures, products of halves with sums in fp32, boost clock. Idle power is
 * in no data sheet: measured on H200, elsewhere what nvidia-smi commonly shows, and only part of a prediction of watts.
 *
 * Rows are tried in order: a row fits a name, as the driver gives it, that holds all its words, each by
 * itself. The last row has none.
 */
#ifndef RAD_MODELS_GPUS_H
#define RAD_MODELS_GPUS_H

#include <stddef.h>

/* Teraflops by the units of a capture: without matrix units in fp32; TF32; fp16 and bf16; fp64. What a GPU lacks is computed in
 * fp32, at that rate. */
struct gpus_row {
	const char *words[3];
	unsigned sms;
	double single, tf32, half, twice;	/* TFLOP/s */
	double gb_s;		/* of its memory, 1e9 bytes */
	double l2_mib;
	double idle_w, board_w;
};

static const struct gpus_row gpus_table[] = {
	{ { "H200", "NVL" },		132,  60.3, 417.5,  835.5, 30.0,  4800,  60,  75,  600 },
	{ { "H200" },		132,  66.9, 494.7,  989.4, 33.5,  4800,  60,  75,  700 },
	{ { "H100", "PCIe" },		114,  51.2, 378.0,  756.0, 25.6,  2039,  50,  48,  350 },
	{ { "H100", "NVL" },		132,  60.3, 417.5,  835.5, 30.0,  3938,  60,  65,  400 },
	{ { "H100" },		132,  66.9, 494.7,  989.4, 33.5,  3352,  50,  70,  700 },
	{ { "B200" },		148,  75.0, 1100.,  2250., 37.0,  8000, 126, 140, 1000 },
	{ { "A100", "80GB", "PCIe" },	108,  19.5, 156.0,  312.0,  9.7,  1935,  40,  52,  300 },
	{ { "A100-PCIE" },	108,  19.5, 156.0,  312.0,  9.7,  1555,  40,  40,  250 },
	{ { "A100", "80GB" },		108,  19.5, 156.0,  312.0,  9.7,  2039,  40,  65,  400 },
	{ { "A100" },		108,  19.5, 156.0,  312.0,  9.7,  1555,  40,  55,  400 },
	{ { "A30" },		 56,  10.3,  82.0,  165.0,  5.2,   933,  24,  28,  165 },
	{ { "V100-PCIE" },		 80,  14.0,  14.0,  112.0,  7.0,   900,   6,  36,  250 },
	{ { "V100S-PCIE" },		 80,  16.4,  16.4,  130.0,  8.2,  1134,   6,  38,  250 },
	{ { "V100" },		 80,  15.7,  15.7,  125.0,  7.8,   900,   6,  40,  300 },
	{ { "T4" },			 40,   8.1,   8.1,   65.0, 0.25,   320,   4,  10,   70 },
	{ { "L40S" },		142,  91.6, 183.0,  362.0,  1.4,   864,  96,  33,  350 },
	{ { "L40" },		142,  90.5,  90.5,  181.0,  1.4,   864,  96,  33,  300 },
	{ { "L4" },			 58,  30.3,  60.0,  121.0,  0.5,   300,  48,  12,   72 },
	{ { "A10G" },		 80,  35.0,  35.0,   70.0,  0.5,   600,   6,  16,  300 },
	{ { "A10" },		 72,  31.2,  62.5,  125.0,  1.0,   600,   6,  16,  150 },
	{ { "A40" },		 84,  37.4,  74.8,  149.7,  0.6,   696,   6,  25,  300 },
	{ { "RTX 6000 Ada" },	142,  91.1, 182.1,  364.2,  1.4,   960,  96,  25,  300 },
	{ { "RTX A6000" },		 84,  38.7,  77.4,  154.8,  0.6,   768,   6,  22,  300 },
	{ { "RTX A5000" },		 64,  27.8,  55.6,  111.1,  0.4,   768,   6,  20,  230 },
	{ { "RTX 5090" },		170, 104.8, 104.8,  209.5,  1.6,  1792,  96,  25,  575 },
	{ { "RTX 4090" },		128,  82.6,  82.6,  165.2,  1.3,  1008,  72,  20,  450 },
	{ { "RTX 3090 Ti" },	 84,  40.0,  40.0,   80.0,  0.6,  1008,   6,  20,  450 },
	{ { "RTX 3090" },		 82,  35.6,  35.6,   71.2,  0.6,   936,   6,  20,  350 },
	{ { "RTX 3080 Ti" },	 80,  34.1,  34.1,   68.2,  0.5,   912,   6,  18,  350 },
	{ { "RTX 3080" },		 68,  29.8,  29.8,   59.5,  0.5,   760,   5,  18,  320 },
	{ { "RTX 2080 Ti" },	 68,  13.4,  13.4,   53.8,  0.4,   616, 5.5,  15,  250 },
	{ { NULL }, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
};

#endif
