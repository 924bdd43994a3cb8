import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { accessSink, openSink } from '../../../src/sinks/registry.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import { identity, manualClock, news, start } from '../../contracts/sink/fixture.ts';
import { startPostgres, type PrivatePostgres } from '../../support/postgres.ts';

/* A ledger that a worker serves for days, and a server that goes and comes back. */

const clock = manualClock();

function optionsOf({ connection }: PrivatePostgres): SinkOptions {
  return {
    type: 'postgres',
    name: 'warehouse',
    connection,
    direct: null,
    schema: 'warehouse',
    connections: 3,
    durability: 'full',
  };
}

it('answers with what was read last while the server is away, and reads again when it is back', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const options = optionsOf(postgres);
  const sink = await openSink(options, { clock });
  await sink.pause([news], { since: instant(start), reason: 'moving house' });
  const lease = await sink.acquire(identity());
  await lease[Symbol.asyncDispose]();
  await sink[Symbol.asyncDispose]();
  const served = await accessSink(options).openServed({ durability: 'full', clock });
  await using _served = served;
  const overview = await served.overview();
  expect(overview.get(news)?.identity).toMatchObject({ connectorId: 'c-1' });

  await postgres.kill();
  expect(await served.paused(), 'noticed by the first caller').toEqual(new Set([news]));
  expect(await served.lost()).toMatch(
    /^PostgreSQL at 127\.0\.0\.1:\d+\/postgres\/warehouse cannot be reached/,
  );
  expect(await served.problem(), 'the loss speaks for itself').toBeNull();
  expect(await served.pause(news)).toMatchObject({ reason: 'moving house' });
  expect(await served.overview()).toBe(overview);

  await postgres.restart();
  expect(await served.lost()).toBeNull();
  expect(await served.pause(news)).toMatchObject({ reason: 'moving house' });
  expect(await served.overview(), 'nothing has changed').toBe(overview);
}, 60_000);

it('is lost where another sink has taken its place, or none is there', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const options = optionsOf(postgres);
  const served = await accessSink(options).openServed({ durability: 'full', clock });
  await using _served = served;
  expect(await served.lost()).toBeNull();
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  await client.query('DROP SCHEMA warehouse CASCADE');
  expect(await served.lost()).toMatch(/^nothing is at 127\.0\.0\.1:\d+\/postgres\/warehouse$/);
  await using other = await openSink(options, { clock });
  expect(other.id).not.toBe(served.sinkId);
  expect(await served.lost()).toMatch(/^another sink is at /);
  expect(await served.overview()).toEqual(new Map());
  await client.end();
}, 60_000);
