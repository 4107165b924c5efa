// SPDX-License-Identifier: MIT
// Keeps a GPU busy with so many thread blocks of so many threads, as it is told on standard input, line by line:
//
//   BLOCKS THREADS SECONDS short|long    ->    launches SECONDS     both of what was done
//
// Each thread fetches an item and squares it: once (short: the GPU waits for the next launch most of the time), or again and again
// for about a millisecond (long: it never waits). The first line it prints says what the GPU takes: SMS BLOCKS_PER_SM NAME.
//
//   nvcc -O2 -arch=sm_90 -o metrics metrics.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static const int AHEAD_SHORT = 8, AHEAD_LONG = 2;  // launches before the host looks at the clock again

__global__ void square(float *data, int items, int rounds)
{
	int at = (blockIdx.x * blockDim.x + threadIdx.x) % items;
	float value = data[at];
	for (int i = 0; i < rounds; i++)
		value = value * value + 1e-3f;
	data[at] = value;
}

static double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void must(cudaError_t code, const char *what)
{
	if (code == cudaSuccess)
		return;
	std::fprintf(stderr, "metrics: %s: %s\n", what, cudaGetErrorString(code));
	std::exit(1);
}

// How many rounds keep one block busy for a millisecond; all blocks that fit at once then take as long.
static int calibrate(float *data, int items)
{
	int rounds = 1 << 12;
	for (;; rounds *= 2) {
		square<<<1, 32>>>(data, items, rounds);  // the first is warm-up
		must(cudaDeviceSynchronize(), "kernel");
		double began = now();
		square<<<1, 32>>>(data, items, rounds);
		must(cudaDeviceSynchronize(), "kernel");
		double took = now() - began;
		if (took > 1e-3 || rounds > 1 << 26)
			return rounds;
	}
}

static void run(float *data, int items, int blocks, int threads, double seconds, int rounds)
{
	double began = now();
	long launches = 0;
	int ahead = rounds > 1 ? AHEAD_LONG : AHEAD_SHORT;
	while (now() - began < seconds) {
		for (int i = 0; i < ahead; i++, launches++)
			square<<<blocks, threads>>>(data, items, rounds);
		must(cudaDeviceSynchronize(), "kernel");
	}
	std::printf("%ld %.6f\n", launches, now() - began);
	std::fflush(stdout);
}

int main()
{
	const int items = 1 << 22;
	int blocks, threads;
	double seconds;
	char line[256], kind[16];
	float *data;
	cudaDeviceProp is;
	must(cudaGetDeviceProperties(&is, 0), "device");
	must(cudaMalloc(&data, items * sizeof *data), "memory");
	must(cudaMemset(data, 0, items * sizeof *data), "memory");
	int rounds = calibrate(data, items);
	std::printf("%d %d %s\n", is.multiProcessorCount, is.maxBlocksPerMultiProcessor, is.name);
	std::fflush(stdout);
	while (std::fgets(line, sizeof line, stdin)) {
		if (std::sscanf(line, "%d %d %lf %15s", &blocks, &threads, &seconds, kind) != 4 || blocks < 1 || threads < 1) {
			std::fprintf(stderr, "metrics: not \"BLOCKS THREADS SECONDS short|long\": %s", line);
			return 2;
		}
		run(data, items, blocks, threads, seconds, std::strcmp(kind, "long") ? 1 : rounds);
	}
	return 0;
}
