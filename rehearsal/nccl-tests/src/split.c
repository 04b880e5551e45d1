#include "split.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Read a decimal, 0x or 0b number after any blanks; false if there is no number.
static bool number(const char *text, int *value)
{
    while (isspace((unsigned char)*text)) text++;
    bool binary = !strncasecmp(text, "0b", 2);
    const char *digits = binary ? text + 2 : text;
    char *end;
    *value = (int)strtoul(digits, &end, binary ? 2 : 0);
    return end != digits;
}

bool split_color(int rank, int *color)
{
    static const struct {
        const char *word;
        char sign, does;
    } OPERATIONS[] = {{"AND", '&', '&'}, {"OR", '|', '|'}, {"MOD", '%', '%'}, {"DIV", '/', '/'}};
    const char *mask = getenv("NCCL_TESTS_SPLIT_MASK"), *split = getenv("NCCL_TESTS_SPLIT");
    int value;
    *color = 0;
    if (mask) {
        *color = rank & (int)strtoul(mask, NULL, 16);
        return true;
    }
    for (size_t i = 0; split && i < sizeof OPERATIONS / sizeof *OPERATIONS; i++) {
        size_t length = strlen(OPERATIONS[i].word);
        bool by_word = !strncasecmp(split, OPERATIONS[i].word, length);
        if (!by_word && split[0] != OPERATIONS[i].sign) continue;
        if (!number(split + (by_word ? length : 1), &value)) continue;
        if (value == 0 && (OPERATIONS[i].does == '%' || OPERATIONS[i].does == '/')) return false;
        switch (OPERATIONS[i].does) {
        case '&': *color = rank & value; break;
        case '|': *color = rank | value; break;
        case '%': *color = rank % value; break;
        default: *color = rank / value; break;
        }
    }
    return true;
}
