/* A step of bodies in the plane, E environments at once, in double precision: operation by operation that of
 * functions/environments/mpe/world.py. */
#ifndef ML_PHYSICS_H
#define ML_PHYSICS_H

#include "doubles.h"

#define ML_TIME_STEP 0.1
#define ML_DAMPING 0.25
#define ML_CONTACT_FORCE 1e2
#define ML_CONTACT_MARGIN 1e-3

static void push_apart(const World *world, int64_t pair) {
    int64_t envs = world->envs, first = world->first[pair], second = world->second[pair];
    int64_t place = first * world->rows + second;
    const double *apart = world->distance + place * envs;
    double reach = world->reach[pair], *strength = world->strength;
    for (int64_t env = 0; env < envs; env++)
        strength[env] = softplus_double((reach - apart[env]) / ML_CONTACT_MARGIN) * ML_CONTACT_MARGIN;
    for (int64_t axis = 0; axis < 2; axis++) {
        const double *away = world->relative + (2 * place + axis) * envs;
        double *of_first = world->force + (2 * first + axis) * envs;
        double *of_second = second < world->agents ? world->force + (2 * second + axis) * envs : 0;
        for (int64_t env = 0; env < envs; env++) {
            double push = away[env] * ML_CONTACT_FORCE / apart[env] * strength[env];
            of_first[env] -= push;
            if (of_second) of_second[env] += push;
        }
    }
}

static void integrate(const World *world, int64_t mover) {
    int64_t envs = world->envs, body = world->first_moving + mover;
    double *position = world->position + 2 * body * envs, *velocity = world->velocity + 2 * body * envs;
    const double *force = world->force + 2 * body * envs;
    for (int64_t place = 0; place < 2 * envs; place++) {
        position[place] += velocity[place] * ML_TIME_STEP;
        velocity[place] = velocity[place] * (1 - ML_DAMPING) + force[place] * ML_TIME_STEP;
    }
    double most = world->most_speed[mover], *along = velocity, *up = velocity + envs;
    if (most == __builtin_inf()) return;
    for (int64_t env = 0; env < envs; env++) {
        double speed = __builtin_sqrt(along[env] * along[env] + up[env] * up[env]);
        if (!(speed > most)) continue;
        along[env] = along[env] / speed * most;
        up[env] = up[env] / speed * most;
    }
}

static void update_distances(const World *world) {
    int64_t envs = world->envs;
    for (int64_t agent = 0; agent < world->agents; agent++)
        for (int64_t row = 0; row < world->rows; row++) {
            const double *to = world->position + 2 * row * envs, *from = world->position + 2 * agent * envs;
            int64_t place = agent * world->rows + row;
            double *relative = world->relative + 2 * place * envs, *squares = world->squares + 2 * place * envs;
            for (int64_t env = 0; env < 2 * envs; env++) {
                relative[env] = to[env] - from[env];
                squares[env] = relative[env] * relative[env];
            }
            for (int64_t env = 0; env < envs; env++)
                world->distance[place * envs + env] = __builtin_sqrt(squares[env] + squares[envs + env]);
        }
}

#endif
