// What this host has: its identity, its GPUs (as far as the transcript names them), its rails and its front end.
// These functions only read; they open no connection.
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAILS_MAX = 64, NAME_MAX_BYTES = 32 };

struct rail {
    char hca[NAME_MAX_BYTES];    // name of the HCA, for example mlx5_0; for the front end, name of the interface
    char netdev[NAME_MAX_BYTES]; // the interface, for example enp12s0f0
    struct in_addr address;
    int index; // position among all selected HCAs of this host, including HCAs without a link
};

struct gpu {
    int index;
    char bus[32], name[96];
};

uint64_t host_identity(void);      // two processes have the same value if and only if they are on one host
double host_waited_s(void);        // how long this process was ready to run but waited for a processor; -1: unknown
int host_scale(void);              // the number by which the shape's line rates are divided; 1 if the host has no scale file
int host_gpus(struct gpu *gpus, int capacity); // returns the number of GPUs found

// Find the usable rails that NCCL_IB_HCA (and NCCL_IB_DISABLE) select, in natural order. A rail is usable if a verbs library
// could open its HCA, the HCA is InfiniBand or Ethernet, and the rail is up and has an address. Returns the number of usable
// rails. *count becomes the number of all selected HCAs, usable or not.
int host_rails(struct rail *rails, int capacity, int *count);

// Find the EFA devices that a verbs library could open and whose link is up, in natural order. An EFA device has no interface,
// so /etc/rehearsal/rails names the interface that carries the device's bytes here. That interface must be up and have an
// address.
int host_efa_rails(struct rail *rails, int capacity);

// Find the front end. If NCCL_SOCKET_IFNAME is set, the front end is the first interface that the variable selects and that has
// an address. Otherwise, the front end is the interface of the default route or, failing that, the first interface that has an
// address. Returns false if no interface qualifies.
bool host_front_end(struct rail *front_end);
