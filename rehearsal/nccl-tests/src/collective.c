#include "collective.h"

#include <string.h>

// A value depends on its place, on the round and on the rank; all sums stay below 2^24, so floats hold them exactly.
static inline unsigned pattern(size_t index, int round)
{
    return ((unsigned)index * 2654435761u + (unsigned)round * 40503u) >> 25; // 0..127
}

static size_t same(size_t count, int ranks)
{
    (void)ranks;
    return count;
}

static double all_reduce_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

static void all_reduce_fill(float *to, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++) to[i] = (float)(int)(pattern(i, round) + (unsigned)rank + 1);
}

static int64_t all_reduce_wrong(const float *from, size_t count, int rank, int ranks, int round)
{
    (void)rank;
    unsigned n = (unsigned)ranks, places = n * (n + 1) / 2; // the sum of every rank's own summand
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += from[i] != (float)(int)(pattern(i, round) * n + places);
    return wrong;
}

static const struct collective TABLE[] = {
    {"all_reduce_perf", same, same, all_reduce_factor, all_reduce_fill, all_reduce_wrong, ring_all_reduce},
};

const struct collective *collective_named(const char *program)
{
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (!strcmp(TABLE[i].program, program)) return &TABLE[i];
    return NULL;
}
