// What a run logs with NCCL_DEBUG=INFO. Each rank writes NCCL's lines about the network that the rank found and about the
// connections that the rank made. These lines go to the rank's NCCL_DEBUG_FILE or to standard output. Rank 0 also prints how
// long each rail was busy. Only connections that were really made are logged. Whether a line names GPU Direct RDMA follows from
// the network and the host's files, because no GPU takes part.
#pragma once
#include "wire.h"

// The function with which NCCL's plugins write to NCCL's log: level, subsystems, source file and line, text.
typedef void debug_logger(int level, unsigned long subsystems, const char *file, int line, const char *format, ...);
debug_logger debug_write;

// Log one of NCCL's own lines about its choice of network.
void debug_net(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Open NCCL_DEBUG_FILE (%h: host, %p: process) if NCCL_DEBUG asks for log lines. If NCCL_DEBUG asks for none, the functions of
// this file log nothing.
void debug_start(int device, const struct rail *front_end);

// Log the network and every connection that this rank has made.
void debug_connections(struct group *group, const struct rails *rails);

// Report how long each rail was busy with the bytes that each host sent, so that a slow rail can be named. All ranks must call
// this function; rank 0 prints.
void debug_channels(const struct wire *wire);
