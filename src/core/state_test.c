/* SPDX-License-Identifier: Apache-2.0 */
#include "core/state.h"
#include "tests/test.h"

static const struct {
    const char *name;
    enum cay_state from;
    enum cay_event event;
    int want;
    enum cay_state to;
} cases[] = {
    {"a pending one is created", CAY_PENDING, CAY_CREATED, 0, CAY_RUNNING},
    {"a stopped one starts", CAY_STOPPED, CAY_START, 0, CAY_RUNNING},
    {"one in error may be tried again", CAY_ERROR, CAY_START, 0, CAY_RUNNING},
    {"starting what runs is no error", CAY_RUNNING, CAY_START, 0, CAY_RUNNING},
    {"starting what is being made", CAY_PENDING, CAY_START, CAY_ERR_CONFLICT, CAY_PENDING},
    {"the terminated stay terminated", CAY_TERMINATED, CAY_START, CAY_ERR_CONFLICT, CAY_TERMINATED},
    {"a running one stops", CAY_RUNNING, CAY_STOP, 0, CAY_STOPPED},
    {"stopping what is stopped is no error", CAY_STOPPED, CAY_STOP, 0, CAY_STOPPED},
    {"stopping the terminated", CAY_TERMINATED, CAY_STOP, CAY_ERR_CONFLICT, CAY_TERMINATED},
    {"commands run in a running one", CAY_RUNNING, CAY_EXEC, 0, CAY_RUNNING},
    {"commands do not run in a stopped one", CAY_STOPPED, CAY_EXEC, CAY_ERR_CONFLICT, CAY_STOPPED},
    {"nor in one in error", CAY_ERROR, CAY_EXEC, CAY_ERR_CONFLICT, CAY_ERROR},
    {"a running one pauses", CAY_RUNNING, CAY_PAUSE, 0, CAY_PAUSED},
    {"pausing what is paused is no error", CAY_PAUSED, CAY_PAUSE, 0, CAY_PAUSED},
    {"pausing what is stopped", CAY_STOPPED, CAY_PAUSE, CAY_ERR_CONFLICT, CAY_STOPPED},
    {"a paused one goes on", CAY_PAUSED, CAY_RESUME, 0, CAY_RUNNING},
    {"resuming what runs is no error", CAY_RUNNING, CAY_RESUME, 0, CAY_RUNNING},
    {"resuming what is stopped", CAY_STOPPED, CAY_RESUME, CAY_ERR_CONFLICT, CAY_STOPPED},
    {"a paused one is not started", CAY_PAUSED, CAY_START, CAY_ERR_CONFLICT, CAY_PAUSED},
    {"nothing runs in a paused one", CAY_PAUSED, CAY_EXEC, CAY_ERR_CONFLICT, CAY_PAUSED},
    {"a paused one stops", CAY_PAUSED, CAY_STOP, 0, CAY_STOPPED},
    {"a paused one is deleted", CAY_PAUSED, CAY_DELETE, 0, CAY_TERMINATED},
    {"a paused one dies", CAY_PAUSED, CAY_DIE, 0, CAY_ERROR},
    {"a running one is copied", CAY_RUNNING, CAY_COPY, 0, CAY_RUNNING},
    {"a paused one is copied", CAY_PAUSED, CAY_COPY, 0, CAY_PAUSED},
    {"a stopped one is copied", CAY_STOPPED, CAY_COPY, 0, CAY_STOPPED},
    {"the terminated have no files", CAY_TERMINATED, CAY_COPY, CAY_ERR_CONFLICT, CAY_TERMINATED},
    {"what is being made is not copied", CAY_PENDING, CAY_COPY, CAY_ERR_CONFLICT, CAY_PENDING},
    {"a paused one is changed", CAY_PAUSED, CAY_CHANGE, 0, CAY_PAUSED},
    {"the terminated are not changed", CAY_TERMINATED, CAY_CHANGE, CAY_ERR_CONFLICT,
     CAY_TERMINATED},
    {"everything can be deleted", CAY_ERROR, CAY_DELETE, 0, CAY_TERMINATED},
    {"twice as well", CAY_TERMINATED, CAY_DELETE, 0, CAY_TERMINATED},
    {"a running one dies", CAY_RUNNING, CAY_DIE, 0, CAY_ERROR},
    {"the terminated do not die again", CAY_TERMINATED, CAY_DIE, CAY_ERR_CONFLICT, CAY_TERMINATED},
    {"a persistent one rests", CAY_RUNNING, CAY_REST, 0, CAY_STOPPED},
};

TEST(state_follows_events)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        enum cay_state state = cases[i].from;
        CHECK_EQ(cases[i].name, cay_state_apply(&state, cases[i].event, &err), cases[i].want);
        CHECK_EQ(cases[i].name, state, cases[i].to);
    }
}

TEST(state_names_why_a_command_cannot_run)
{
    static const struct {
        enum cay_state state;
        enum cay_event event;
        const char *code;
    } whys[] = {
        {CAY_STOPPED, CAY_EXEC, "SANDBOX_NOT_RUNNING"},
        {CAY_PAUSED, CAY_EXEC, "SANDBOX_PAUSED"},
        {CAY_PAUSED, CAY_START, "SANDBOX_PAUSED"},
        {CAY_STOPPED, CAY_PAUSE, "SANDBOX_NOT_RUNNING"},
        {CAY_STOPPED, CAY_RESUME, "INVALID_STATE"},
    };
    for (size_t i = 0; i < COUNT(whys); i++) {
        struct cay_error err = {0};
        enum cay_state state = whys[i].state;
        (void)cay_state_apply(&state, whys[i].event, &err);
        CHECK_STR("code on the wire", cay_error_name(&err), whys[i].code);
    }
}
