"""Schemathesis hooks: short waits, policies that stay permissive, and ids of existing resources."""

import schemathesis

WAITS_MS = 20
DAY_MS = 86_400_000
# Lower bounds for policy limits. A generated policy with a limit of one byte would make every later call fail.
POLICY_MINIMUMS = {"payloadBytesMax": 524_288, "rationaleCharsMax": 1_000, "openTasksMax": 1_000_000}
# Ids of resources that are created before the run, by path prefix.
EXISTING_IDS = {
    "/v1/agents/": ["alice", "bob"],
    "/v1/sessions/": ["s1"],
    "/v1/tasks/": ["t1"],
    "/v1/locks/": ["door"],
    "/v1/context/": ["plan"],
    "/v1/messages/": ["m1"],
}


def with_short_waits(value):
    """Returns the body with short waits and with policy limits of at least the minimums."""
    if isinstance(value, dict):
        return {name: adjusted_field(name, field) for name, field in value.items()}
    if isinstance(value, list):
        return [with_short_waits(item) for item in value]
    return value


def adjusted_field(name, value):
    if isinstance(value, int) and not isinstance(value, bool):
        if name in ("waitMs", "timeoutMs") and WAITS_MS < value <= DAY_MS:
            return WAITS_MS
        if 1 <= value <= POLICY_MINIMUMS.get(name, 0):
            return POLICY_MINIMUMS[name]
    return with_short_waits(value)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Shortens waits and relaxes policies in every phase, including parameters from examples."""
    for name in ("waitMs", "timeoutMs"):
        value = str((case.query or {}).get(name, ""))
        if value.isdecimal() and WAITS_MS < int(value) <= DAY_MS:
            case.query[name] = WAITS_MS
    if isinstance(case.body, (dict, list)):
        case.body = with_short_waits(case.body)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Directs half of the calls at existing resources. Invalid generated values are kept."""
    operation = context.operation
    if not path_parameters or operation.method == "delete":
        return path_parameters
    for prefix, ids in EXISTING_IDS.items():
        if operation.path.startswith(prefix):
            for name in ("id", "name", "key"):
                value = path_parameters.get(name)
                if isinstance(value, str) and 0 < len(value) <= 128 and value.isprintable() and len(value) % 2 == 0:
                    path_parameters[name] = ids[len(value) // 2 % len(ids)]
    return path_parameters


@schemathesis.hook
def filter_case(context, case):
    """Skips cases with unknown headers: the hub ignores them, because proxies add headers."""
    return "x-schemathesis-unknown-property" not in {name.lower() for name in case.headers or {}}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Removes the space header: the run uses one space."""
    space = {"$ref": "#/components/parameters/Quorate-Space"}
    for operations in raw_schema["paths"].values():
        for operation in operations.values():
            operation["parameters"] = [parameter for parameter in operation["parameters"] if parameter != space]
