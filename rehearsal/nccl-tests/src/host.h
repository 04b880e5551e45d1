// What this host has: its identity, its GPUs (as far as the transcript names them), its rails and its front end.
// These functions only read; they open no connection.
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAILS_MAX = 64, NAME_MAX_BYTES = 32 };

struct rail {
    char hca[NAME_MAX_BYTES];    // mlx5_0; in a struct that describes the front end: the interface
    char netdev[NAME_MAX_BYTES]; // enp12s0f0
    struct in_addr address;
    int index; // among all selected HCAs of this host, including those without a link
};

struct gpu {
    int index;
    char bus[32], name[96];
};

uint64_t host_identity(void);      // two processes have the same value exactly if they are on the same host
double host_waited_s(void);        // how long this process was ready to run but waited for a processor; -1: unknown
int host_scale(void);              // the shape's line rates are divided by this; 1 if no file sets it
int host_gpus(struct gpu *gpus, int capacity); // returns the number found

// Find the rails that NCCL_IB_HCA (and NCCL_IB_DISABLE) select and that can be used: a verbs library could open them, they are
// InfiniBand or Ethernet, and they are up and have an address. In natural order. *count: all selected HCAs, usable or not.
int host_rails(struct rail *rails, int capacity, int *count);

// Find the EFA devices that a verbs library could open and whose link is up, in natural order. An EFA device has no interface;
// /etc/rehearsal/rails names the interface that carries its bytes here, which must be up with an address.
int host_efa_rails(struct rail *rails, int capacity);

// Find the first interface with an address among those that NCCL_SOCKET_IFNAME selects. If the variable is not set, take the
// interface of the default route, or else the first one with an address. False if there is none.
bool host_front_end(struct rail *front_end);
