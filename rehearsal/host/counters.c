/* Keeps the counter files of a rehearsed host's RDMA ports up to date: copies the kernel's counts of an interface to the files
 * of the interface's port, at most 50 ms late and only if a count has changed. This program counts nothing itself and
 * exits only on an error. argv: for each port, three words: the interface's index (an interface may be renamed, but the index
 * stays), the folder of the port's counters, and the kind of the counters. `mlx5` counts data in words of four bytes, as
 * InfiniBand does. `irdma` counts IPv4 octets and packets. `RDMA` and `SENDRECV` are two kinds of EFA devices. Both count bytes
 * with headers and, separately, the payload that NCCL's plugin moves through the device: `RDMA` in the counters of remote
 * writes, `SENDRECV` in the counters of messages. */
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVERY_MS = 50, PORTS_MAX = 65, SHOWN_MAX = 7 };

/* Headers of one packet on a rail: Ethernet, IPv4, and TCP with its time stamps. */
enum { HEADERS_BYTES = 14 + 20 + 32 };

struct kind {
    const char *name, *shown[SHOWN_MAX]; /* NULL after the last file name */
};

static const struct kind KINDS[] = {
    {"mlx5",
     {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_discards", "port_rcv_errors"}},
    {"RDMA", {"tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "rx_drops", "rdma_write_bytes", "rdma_write_recv_bytes"}},
    {"irdma", {"ip4OutOctets", "ip4InOctets", "ip4OutPkts", "ip4InPkts"}},
    {"SENDRECV", {"tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "rx_drops", "send_bytes", "recv_bytes"}},
};

struct port {
    unsigned index;
    const struct kind *kind;
    int files[SHOWN_MAX];
    unsigned long long last[SHOWN_MAX];
};

static unsigned long long content(unsigned long long bytes, unsigned long long packets)
{
    return bytes > packets * HEADERS_BYTES ? bytes - packets * HEADERS_BYTES : 0;
}

static void show(struct port *port, const struct rtnl_link_stats64 *counted)
{
    const unsigned long long tx = counted->tx_bytes, rx = counted->rx_bytes;
    unsigned long long words[SHOWN_MAX] = {tx / 4, rx / 4, counted->tx_packets, counted->rx_packets, counted->tx_dropped,
                                           counted->rx_errors};
    unsigned long long bytes[SHOWN_MAX] = {tx, rx, counted->tx_packets, counted->rx_packets, counted->rx_dropped,
                                           content(tx, counted->tx_packets), content(rx, counted->rx_packets)};
    const unsigned long long *now = port->kind == KINDS ? words : bytes;
    char text[32];
    for (int i = 0; i < SHOWN_MAX && port->kind->shown[i]; i++) {
        if (now[i] <= port->last[i])
            continue;
        /* One write replaces the old digits: a counter only grows, so the new text is never shorter than the old text. */
        if (pwrite(port->files[i], text, (size_t)snprintf(text, sizeof text, "%llu\n", now[i]), 0) > 0)
            port->last[i] = now[i];
    }
}

/* Ask the kernel for the counters of all interfaces at once. */
static void ask(int kernel)
{
    struct {
        struct nlmsghdr head;
        struct if_stats_msg stats;
    } request = {
        .head = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETSTATS, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .stats = {.filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64)},
    };
    send(kernel, &request, sizeof request, 0);
}

static void take(const struct nlmsghdr *message, struct port *ports, int count)
{
    const struct if_stats_msg *stats = NLMSG_DATA(message);
    const struct rtattr *first = (const void *)((const char *)stats + NLMSG_ALIGN(sizeof *stats));
    struct rtnl_link_stats64 counted;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *stats) + RTA_LENGTH(sizeof counted) || first->rta_type != IFLA_STATS_LINK_64)
        return;
    memcpy(&counted, RTA_DATA(first), sizeof counted);
    for (int i = 0; i < count; i++)
        if (ports[i].index == stats->ifindex)
            show(&ports[i], &counted);
}

static const struct kind *kind_of(const char *name)
{
    for (unsigned i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (!strcmp(KINDS[i].name, name))
            return &KINDS[i];
    exit(2);
}

int main(int argc, char **argv)
{
    static struct port ports[PORTS_MAX];
    static char answer[1 << 16];
    int count = 0, kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    char path[512];
    for (int i = 1; i + 2 < argc && count < PORTS_MAX; i += 3, count++) {
        ports[count].index = (unsigned)atoi(argv[i]);
        ports[count].kind = kind_of(argv[i + 2]);
        for (int file = 0; file < SHOWN_MAX && ports[count].kind->shown[file]; file++) {
            snprintf(path, sizeof path, "%s/%s", argv[i + 1], ports[count].kind->shown[file]);
            ports[count].files[file] = open(path, O_WRONLY | O_CLOEXEC);
            if (ports[count].files[file] < 0)
                return 1;
        }
    }
    for (; kernel >= 0; poll(NULL, 0, EVERY_MS)) {
        ask(kernel);
        for (int done = 0; !done;) {
            ssize_t left = recv(kernel, answer, sizeof answer, 0);
            if (left <= 0)
                return 1;
            for (struct nlmsghdr *one = (void *)answer; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
                done = one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR;
                if (done)
                    break;
                take(one, ports, count);
            }
        }
    }
    return 1;
}
