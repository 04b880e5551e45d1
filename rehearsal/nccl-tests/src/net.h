// Which network NCCL would take between hosts: a plugin that the loader finds and that has devices, else verbs, else sockets.
// It opens no connection and moves nothing.
#pragma once
#include "host.h"

struct network {
    const char *name;        // in NCCL's words: Libfabric, IB, Socket
    int devices;             // that NCCL counts: a plugin may make one of several rails; 0: Socket's
    int selected;            // devices that the variables select, usable or not
    int count;               // rails that can be used
    struct rail rails[RAILS_MAX];
};

// Find it again. A plugin's own lines, and why none was taken, go to the debug log.
void network_find(struct network *network);
