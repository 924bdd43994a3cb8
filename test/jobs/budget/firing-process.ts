import * as z from 'zod';
import { Secret } from '../../../src/core/secret.ts';
import { openSharedBudgets } from '../../../src/jobs/shared-budgets.ts';

/**
 * A process that calls a server as fast as the shared budget allows, in several concurrent loops, until it is killed.
 */
const plan = z
  .strictObject({
    name: z.string(),
    redisUrl: z.string(),
    serverUrl: z.string(),
    places: z.int(),
    limits: z.strictObject({
      account: z.string(),
      requestsPerSecond: z.number(),
      maxWaitMs: z.int(),
    }),
    timings: z.strictObject({ recoverEveryMs: z.int() }),
  })
  .parse(JSON.parse(process.argv[2] ?? ''));

await using budgets = await openSharedBudgets({
  redis: { url: new Secret(plan.redisUrl), prefix: 'test' },
  onError: (error) => process.stderr.write(`${String(error)}\n`),
  timings: plan.timings,
});
const budget = budgets.open(plan.limits);
const never = new AbortController().signal;
await fetch(`${plan.serverUrl}/start`);
await Promise.all(Array.from({ length: plan.places }, fire));

async function fire(): Promise<never> {
  for (;;) {
    await budget.enter(never);
    const response = await fetch(plan.serverUrl, { headers: { 'x-process': plan.name } });
    await response.arrayBuffer();
    if (response.status === 429) await budget.slowDown(Number(response.headers.get('retry-after')) * 1_000);
  }
}
