// What NCCL_DEBUG=INFO makes a run say of itself: NCCL's lines about the network it found and the connections it made, written
// by each rank to its NCCL_DEBUG_FILE or to standard output, and how long each rail was busy. It says only what happened.
#pragma once
#include "wire.h"

// How NCCL's plugins write to its log: level, subsystems, place in the source, text.
typedef void debug_logger(int level, unsigned long subsystems, const char *file, int line, const char *format, ...);
debug_logger debug_write;

// A line of NCCL's own on its choice of network.
void debug_net(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Open NCCL_DEBUG_FILE (%h: host, %p: process), if lines are asked for. Later calls are without effect where they are not.
void debug_start(int device, const struct rail *front_end);

// The network and every connection of this rank, as they were made.
void debug_connections(struct group *group, const struct rails *rails);

// How long each rail was busy from each host to another, so that a slow rail has a name. Rank 0 prints; all ranks call.
void debug_channels(const struct wire *wire);
