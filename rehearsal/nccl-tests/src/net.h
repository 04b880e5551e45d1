// Which network NCCL would use between hosts: a plugin that the loader finds and that has devices, else verbs, else sockets.
// No connection is opened and nothing is sent here.
#pragma once
#include "host.h"

struct network {
    const char *name;        // in NCCL's words: Libfabric, IB, Socket
    int devices;             // as NCCL counts them: a plugin may make one device of several rails; 0 for Socket
    int selected;            // devices that the variables select, usable or not
    int count;               // rails that can be used
    struct rail rails[RAILS_MAX];
};

// Find the network. A plugin's own lines, and the reason why no plugin is used, go to the debug log.
void network_find(struct network *network);
