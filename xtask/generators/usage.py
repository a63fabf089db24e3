"""Type-checked against the client that openapi-python-client generates: operations and responses are typed."""

from quorate_client import AuthenticatedClient
from quorate_client.api.commits import commits_make
from quorate_client.api.tasks import tasks_list
from quorate_client.models import AckOperation, Commit, Event, Receipt, SendOperation, TaskCompleteOperation, TaskEffect, TasksListStatus


def work(client: AuthenticatedClient) -> list[str]:
    """Commits three operations and lists the ready tasks."""
    body = Commit(
        ops=[
            SendOperation(op="send", to="alice", action="review"),
            TaskCompleteOperation(op="task.complete", task="first", lease_token=7),
            AckOperation(op="ack", delivery_id="dlv_0-1", lease_token=3),
        ]
    )
    receipt = commits_make.sync(client=client, body=body)
    if not isinstance(receipt, Receipt):
        raise RuntimeError(receipt)
    page = tasks_list.sync(client=client, status=TasksListStatus.READY)
    return [task.id for task in getattr(page, "tasks", [])]


def changed_tasks(data: dict[str, object]) -> list[str]:
    """Parses an event of the stream and returns the ids of the tasks that it changed."""
    event = Event.from_dict(data)
    return [effect.task.id for effect in event.effects if isinstance(effect, TaskEffect)]
