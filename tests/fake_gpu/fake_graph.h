/* SPDX-License-Identifier: MIT
 *
 * What fake_capture.c and fake_graph.c share. All with the lock held. */
#ifndef FAKE_GRAPH_H
#define FAKE_GRAPH_H

#include "fake.h"

struct fake_node {
    struct fake_node *next;
    struct fake_op *op;
    struct fake_nodes deps;
    bool visited;
};

struct fake_object;

struct fake_graph {
    struct fake_node *nodes;
    struct fake_object **objects; /* one entry a reference */
    size_t num_objects;
    unsigned long long id;
    int mode;
    pthread_t thread; /* that began the capture */
    bool broken;
};

void *fake_grow(void *list, size_t count, size_t bytes); /* room for one more */
void fake_add_dep(struct fake_nodes *nodes, struct fake_node *node);
bool fake_in_graph(const struct fake_graph *graph, const struct fake_node *node);
struct fake_node *fake_new_node(struct fake_graph *graph, struct fake_op *op, struct fake_node *const *deps, size_t count);
void fake_free_graph(struct fake_graph *graph);

#endif
