// A JSON writer for one open document: it writes values in the given order and escapes strings. It keeps no tree.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct json {
    FILE *file; // NULL: calls have no effect
    bool first; // no comma before the next value or key
};

void json_open(struct json *json, char bracket);  // '{' or '['
void json_close(struct json *json, char bracket); // '}' or ']'
void json_key(struct json *json, const char *name);
void json_string(struct json *json, const char *text);
void json_long(struct json *json, long value);
void json_double(struct json *json, double value);
void json_null(struct json *json);
void json_bool_string(struct json *json, bool value); // nccl-tests writes "true" and "false" as strings
