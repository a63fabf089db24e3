"""What schemathesis cannot know of the hub: that waits are waits, and what there is to talk about."""

import schemathesis

WAITS_MS = 20
KNOWN = {
    "/v1/agents/": ["alice", "bob"],
    "/v1/sessions/": ["s1"],
    "/v1/tasks/": ["t1"],
    "/v1/locks/": ["door"],
    "/v1/context/": ["plan"],
    "/v1/messages/": ["m1"],
}


def shortened(value):
    """The same body, but nobody waits for a minute."""
    if isinstance(value, dict):
        return {name: WAITS_MS if is_long(name, one) else shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shortened(one) for one in value]
    return value


def is_long(name, value):
    waits = name in ("waitMs", "timeoutMs")
    return waits and isinstance(value, int) and not isinstance(value, bool) and WAITS_MS < value <= 86_400_000


@schemathesis.hook
def map_body(context, body):
    return shortened(body)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Half of the calls are about something that is there."""
    operation = context.operation
    if not path_parameters or operation.method == "delete":
        return path_parameters
    for prefix, known in KNOWN.items():
        if operation.path.startswith(prefix):
            for name in ("id", "name", "key"):
                value = path_parameters.get(name)
                if isinstance(value, str) and len(value) % 2 == 0:
                    path_parameters[name] = known[len(value) // 2 % len(known)]
    return path_parameters
