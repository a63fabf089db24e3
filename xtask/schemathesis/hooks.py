"""What schemathesis cannot know of the hub: that waits are waits, that rules hold, and what there is to talk about."""

import schemathesis

WAITS_MS = 20
DAY_MS = 86_400_000
# An admin that allows one byte a payload would see nothing but refusals from then on.
RULES = {"payloadBytesMax": 524_288, "rationaleCharsMax": 1_000, "openTasksMax": 1_000_000}
KNOWN = {
    "/v1/agents/": ["alice", "bob"],
    "/v1/sessions/": ["s1"],
    "/v1/tasks/": ["t1"],
    "/v1/locks/": ["door"],
    "/v1/context/": ["plan"],
    "/v1/messages/": ["m1"],
}


def eased(value):
    """Returns the same body with short waits, and with no rule stricter than the initial ones."""
    if isinstance(value, dict):
        return {name: eased_field(name, one) for name, one in value.items()}
    if isinstance(value, list):
        return [eased(one) for one in value]
    return value


def eased_field(name, value):
    if isinstance(value, int) and not isinstance(value, bool):
        if name in ("waitMs", "timeoutMs") and WAITS_MS < value <= DAY_MS:
            return WAITS_MS
        if 1 <= value <= RULES.get(name, 0):
            return RULES[name]
    return eased(value)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Shortens waits and relaxes rules in every phase, also for parameters that are listed, not generated."""
    for name in ("waitMs", "timeoutMs"):
        value = str((case.query or {}).get(name, ""))
        if value.isdecimal() and WAITS_MS < int(value) <= DAY_MS:
            case.query[name] = WAITS_MS
    if isinstance(case.body, (dict, list)):
        case.body = eased(case.body)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Half of the calls are about something that is there. What is made up to be refused stays as it is."""
    operation = context.operation
    if not path_parameters or operation.method == "delete":
        return path_parameters
    for prefix, known in KNOWN.items():
        if operation.path.startswith(prefix):
            for name in ("id", "name", "key"):
                value = path_parameters.get(name)
                if isinstance(value, str) and 0 < len(value) <= 128 and value.isprintable() and len(value) % 2 == 0:
                    path_parameters[name] = known[len(value) // 2 % len(known)]
    return path_parameters


@schemathesis.hook
def filter_case(context, case):
    """Undescribed headers are ignored by the hub, because proxies add some."""
    return "x-schemathesis-unknown-property" not in {name.lower() for name in case.headers or {}}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """One space; others are for the tests of spaces."""
    space = {"$ref": "#/components/parameters/Quorate-Space"}
    for operations in raw_schema["paths"].values():
        for operation in operations.values():
            operation["parameters"] = [one for one in operation["parameters"] if one != space]
