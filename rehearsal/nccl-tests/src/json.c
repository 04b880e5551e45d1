#include "json.h"

#include <math.h>

static void next(struct json *json)
{
    if (!json->first) fputc(',', json->file);
    json->first = false;
}

static void quoted(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) fprintf(file, "\\u%04x", *c);
        else fputc(*c, file);
    }
    fputc('"', file);
}

void json_open(struct json *json, char bracket)
{
    if (!json->file) return;
    next(json);
    fputc(bracket, json->file);
    json->first = true;
}

void json_close(struct json *json, char bracket)
{
    if (!json->file) return;
    fputc(bracket, json->file);
    json->first = false;
}

void json_key(struct json *json, const char *name)
{
    if (!json->file) return;
    next(json);
    quoted(json->file, name);
    fputc(':', json->file);
    json->first = true;
}

void json_string(struct json *json, const char *text)
{
    if (!json->file) return;
    next(json);
    quoted(json->file, text);
}

void json_long(struct json *json, long value)
{
    if (!json->file) return;
    next(json);
    fprintf(json->file, "%ld", value);
}

void json_double(struct json *json, double value)
{
    if (!json->file) return;
    next(json);
    if (isnan(value)) fputs("\"nan\"", json->file);
    else fprintf(json->file, "%f", value);
}

void json_null(struct json *json)
{
    if (!json->file) return;
    next(json);
    fputs("null", json->file);
}

void json_bool_string(struct json *json, bool value) { json_string(json, value ? "true" : "false"); }
