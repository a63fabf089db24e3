// Type-checked against the types that openapi-typescript generates: operations are discriminated by `op`, responses are typed.
import type { components, paths } from "./quorate";

type Operation = components["schemas"]["Operation"];

const operations: Operation[] = [
  { op: "send", to: ["alice", "bob"], action: "review", payload: { any: "JSON" }, priority: "high" },
  { op: "task.create", type: "review", dependsOn: ["first"] },
  { op: "task.complete", task: "first", leaseToken: 7, result: [1, 2] },
  { op: "ack", deliveries: [{ deliveryId: "dlv_0-1", leaseToken: 3 }] },
];

// @ts-expect-error: a completion has no delivery.
const wrong: Operation = { op: "task.complete", deliveryId: "dlv_0-1", leaseToken: 3 };

export function leaseTokens(all: Operation[]): number[] {
  return all.flatMap((operation) => (operation.op === "task.complete" && operation.leaseToken ? [operation.leaseToken] : []));
}

type Tasks = paths["/v1/tasks"]["get"]["responses"][200]["content"]["application/json"];

export function ready(tasks: Tasks): string[] {
  return tasks.tasks.filter((task) => task.status === "ready").map((task) => task.id);
}

type Event = components["schemas"]["Event"];

// The name of an effect narrows it to its form, which holds the noun as the calls return it.
export function holders(event: Event): (string | null | undefined)[] {
  return event.effects.flatMap((effect) => (effect.effect === "task.leased" ? [effect.task.holder] : []));
}

export const commit: components["schemas"]["Commit"] = { ops: operations };
export const unused = wrong;
