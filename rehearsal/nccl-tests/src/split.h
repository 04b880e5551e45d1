// NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK: which group a rank belongs to. It makes no group.
#pragma once
#include <stdbool.h>

// The colour of a rank by the environment, 0 where nothing (or nothing readable) is asked for. False: it cannot be computed.
bool split_color(int rank, int *color);
