#include "layout.h"

void layout_order(struct layout *layout, int rank, int size, const uint64_t *identity)
{
    *layout = (struct layout){.rank = rank, .size = size};
    int position = 0;
    for (int first = 0; first < size; first++) {
        int seen = 0;
        for (int before = 0; before < first && !seen; before++) seen = identity[before] == identity[first];
        if (seen) continue;
        int host = layout->host_count++;
        layout->host_first[host] = position;
        for (int one = first; one < size; one++) {
            if (identity[one] != identity[first]) continue;
            if (one == rank) {
                layout->host_index = host;
                layout->local_rank = layout->host_size[host];
            }
            layout->host_of[one] = host;
            layout->position[one] = position;
            layout->order[position++] = one;
            layout->host_size[host]++;
        }
    }
    layout->local_size = layout->host_size[layout->host_index];
}
