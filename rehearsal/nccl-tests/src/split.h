// NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK: which group a rank belongs to. No group is formed here.
#pragma once
#include <stdbool.h>

// Find the colour of a rank from these variables; 0 if they are unset or unreadable. False: a division by 0.
bool split_color(int rank, int *color);
