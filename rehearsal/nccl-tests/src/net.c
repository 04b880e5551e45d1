#include "net.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "debug.h"

// The first members of ncclNet_v10_t, NCCL's description of a network plugin. The later members, such as those that move
// a GPU's bytes, are not used here.
struct plugin {
    const char *name;
    int (*init)(debug_logger *log, void *profiler);
    int (*devices)(int *count);
};

static bool asks_for_other(const char *name) // whether NCCL_NET names a network other than `name`
{
    const char *wanted = getenv("NCCL_NET");
    return wanted && *wanted && strcasecmp(wanted, name) != 0;
}

// NCCL_NET_PLUGIN: NAME means libnccl-net-NAME.so, a name with `.so` is a file, and `none` means no plugin.
static struct plugin *load(void)
{
    const char *asked = getenv("NCCL_NET_PLUGIN");
    char file[256] = "libnccl-net.so";
    if (asked && !strcasecmp(asked, "none")) return NULL;
    if (asked && *asked) snprintf(file, sizeof file, strstr(asked, ".so") ? "%s" : "libnccl-net-%s.so", asked);
    void *library = dlopen(file, RTLD_NOW);
    struct plugin *plugin = library ? dlsym(library, "ncclNetPlugin_v10") : NULL;
    if (plugin) debug_net("NET/Plugin: Loaded net plugin %s (v10)", plugin->name);
    else debug_net("NET/Plugin: Could not find: %s", file);
    return plugin;
}

static bool by_plugin(struct network *network)
{
    struct plugin *plugin = load();
    if (!plugin || asks_for_other(plugin->name)) return false;
    if (plugin->init(debug_write, NULL) != 0) {
        debug_net("Failed to initialize NET plugin %s", plugin->name);
        return false;
    }
    network->count = host_efa_rails(network->rails, RAILS_MAX);
    network->selected = network->count;
    network->name = plugin->name;
    return network->count > 0 && plugin->devices(&network->devices) == 0 && network->devices > 0;
}

static bool by_verbs(struct network *network)
{
    network->selected = network->count = 0;
    if (asks_for_other("IB")) return false;
    network->name = "IB";
    network->count = network->devices = host_rails(network->rails, RAILS_MAX, &network->selected);
    return network->count > 0;
}

void network_find(struct network *network)
{
    memset(network, 0, sizeof *network);
    if (by_plugin(network) || by_verbs(network)) return;
    network->name = "Socket";
    network->devices = network->count = 0;
}
